"""Two posteriors side by side: are differences and their errors right?"""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.posterior.verdict import compare_posteriors
from support.checks import SEED, z_limit
from support.posteriors import independent_draws, posterior_of
from support.tables import skewed_table

RUNS, N = 150, 800


@pytest.fixture(scope="module")
def exact():
    return enumerate_posterior(FamilyScores(skewed_table(4, 50, seed=7)))


@pytest.fixture(scope="module")
def other_exact():
    return enumerate_posterior(FamilyScores(skewed_table(4, 80, seed=8)))


def test_the_frame_holds_both_and_their_difference(exact, other_exact):
    one, two = independent_draws(exact, seed=SEED), independent_draws(other_exact, seed=SEED + 1)
    found = one.compare(two)
    frame = found.edges
    assert list(frame.columns) == ["source", "target", "probability", "other", "difference", "mcse", "z"]
    assert len(frame) == 12
    for row in frame.itertuples():
        mine, theirs = one.edge(row.source, row.target), two.edge(row.source, row.target)
        assert (row.probability, row.other) == (mine.value, theirs.value)
        assert row.difference == theirs.value - mine.value
        assert row.mcse == pytest.approx(np.hypot(mine.mcse, theirs.mcse))
        assert row.z == pytest.approx(row.difference / row.mcse)
    assert frame["difference"].abs().is_monotonic_decreasing
    assert found.max_difference == abs(frame.loc[0, "difference"])
    assert found.mean_difference == pytest.approx(frame["difference"].abs().mean())
    back = two.compare(one)
    assert (back.max_difference, back.mean_difference) == (found.max_difference, found.mean_difference)
    assert str(found).startswith(f"largest difference {frame.loc[0, 'difference']:+.4f} +/- ")
    assert str(found).endswith(f"mean absolute difference {found.mean_difference:.4f}, of 12 edges")


def z_values(first, second, n_runs, seed, draws=N // 4):
    """z of edges that are frequent enough for a normal law, and z with the error of one run alone, by run."""
    usable = N * first.edge_probabilities * (1 - first.edge_probabilities) >= 30
    ours, naive = [], []
    for run in range(n_runs):
        pair = [
            independent_draws(exact, seed=(seed, 2 * run + k), n_draws=draws) for k, exact in enumerate((first, second))
        ]
        frame = compare_posteriors(*pair).edges
        at = [(int(a[1:]), int(b[1:])) for a, b in zip(frame["source"], frame["target"], strict=True)]
        chosen = np.array([usable[i, j] for i, j in at])
        ours.append(frame["z"].to_numpy()[chosen])
        alone = np.array([pair[0].edge_diagnostics.mcse[i, j] for i, j in at])
        naive.append((frame["difference"].to_numpy() / alone)[chosen])
    return np.array(ours), np.array(naive)


def test_runs_of_one_posterior_differ_by_their_errors(exact):
    ours, naive = z_values(exact, exact, RUNS, SEED)
    assert ours.shape[1] >= 6
    within = (np.abs(ours) < 1.96).mean(axis=1)
    error = within.std() / np.sqrt(RUNS)
    assert 0.93 - 5 * error < within.mean() < 0.98 + 5 * error
    assert np.abs(ours).max() < z_limit(ours.size)
    too_narrow = (np.abs(naive) < 1.96).mean(axis=1)  # the error of one of the two runs fails the same check
    assert too_narrow.mean() < 0.93 - 5 * too_narrow.std() / np.sqrt(RUNS)


def test_other_posteriors_are_told_apart(exact, other_exact):
    ours, _ = z_values(exact, other_exact, 1, SEED, draws=5000)
    assert np.abs(ours).max() > z_limit(ours.size)


def test_a_posterior_does_not_differ_from_itself(exact):
    posterior = independent_draws(exact, seed=SEED)
    found = posterior.compare(posterior)
    assert found.max_difference == found.mean_difference == 0.0
    assert (found.edges["z"] == 0).all()


def reordered(posterior, names):
    """The same draws with the nodes in another order."""
    at = [posterior.names.index(name) for name in names]
    adjacency = unpack_rows(posterior.trace["rows"], len(names))[:, :, at][:, :, :, at]
    return posterior_of(tuple(names), pack_rows(adjacency), posterior.log_score)


def test_nodes_may_stand_in_another_order(exact, other_exact):
    one, two = independent_draws(exact, seed=SEED), independent_draws(other_exact, seed=SEED + 1)
    other_way = reordered(two, ("x2", "x0", "x3", "x1"))
    assert other_way.edge("x0", "x3") == two.edge("x0", "x3")
    assert one.compare(other_way).edges.equals(one.compare(two).edges)


def test_other_nodes_are_named(exact):
    one = independent_draws(exact, seed=SEED, n_draws=8)
    other = posterior_of(("x0", "x1", "y", "z"), one.trace["rows"], one.log_score)
    with pytest.raises(ArgumentError) as refused:
        one.compare(other)
    assert str(refused.value) == (
        "other lacks the nodes 'x2', 'x3' and has the nodes 'y', 'z' besides; posteriors can be compared over the same "
        "nodes only"
    )
    with pytest.raises(
        ArgumentTypeError, match=r"other is 7; it must be a posterior over graphs, as doxa\.learn returns"
    ):
        one.compare(7)

"""K2 and BIC against their formulas, which scores are score equivalent, and how a score is asked for."""

from __future__ import annotations

import math
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models import Dag
from doxa.structure.exact.enumeration import exact_edge_probabilities
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import BIC, K2, BDeu
from doxa.structure.runs.options import SCORES, check_score
from support.tables import skewed_table


def counts_of(table, child, parents):
    """Cases by parents' states, counted row by row: {configuration: {state: cases}}."""
    columns = [table.names.index(name) for name in (child, *parents)]
    groups: dict[tuple[int, ...], dict[int, int]] = {}
    for row in table.codes[table.row_index][:, columns].tolist():
        cells = groups.setdefault(tuple(row[1:]), {})
        cells[row[0]] = cells.get(row[0], 0) + 1
    return groups


def cooper_herskovits(table, child, parents):
    """Product over configurations of (r - 1)! / (N + r - 1)! times the product of N_k!, in whole numbers."""
    r = len(table.states[table.names.index(child)])
    numerator = denominator = 1
    for cells in counts_of(table, child, parents).values():
        numerator *= math.factorial(r - 1) * math.prod(map(math.factorial, cells.values()))
        denominator *= math.factorial(sum(cells.values()) + r - 1)
    return math.log(numerator) - math.log(denominator)


def dirichlet(table, child, parents, weight):
    """The same with any prior count in each cell."""
    r = len(table.states[table.names.index(child)])
    return math.fsum(
        math.lgamma(r * weight) - math.lgamma(r * weight + sum(cells.values()))
        + math.fsum(math.lgamma(weight + n) - math.lgamma(weight) for n in cells.values())
        for cells in counts_of(table, child, parents).values()
    )  # fmt: skip


def schwarz(table, child, parents):
    """Greatest log likelihood less half the number of free parameters times ln N."""
    r, *radix = (len(table.states[table.names.index(name)]) for name in (child, *parents))
    fit = math.fsum(
        n * math.log(n / sum(cells.values()))
        for cells in counts_of(table, child, parents).values()
        for n in cells.values()
    )
    return fit - 0.5 * math.prod(radix) * (r - 1) * math.log(table.n_rows)


@pytest.mark.parametrize(
    ("score", "right"),
    [
        (K2(), cooper_herskovits),
        (K2(0.3), partial(dirichlet, weight=0.3)),
        (K2(20), partial(dirichlet, weight=20.0)),
        (BIC(), schwarz),
    ],
    ids=["K2", "K2(0.3)", "K2(20)", "BIC"],
)
@pytest.mark.parametrize("n_rows", [1, 7, 200])
def test_scores_are_their_formulas(score, right, n_rows):
    table = skewed_table(4, n_rows, seed=n_rows, n_states=3)
    scores = FamilyScores(table, score)
    for child in table.names:
        others = [name for name in table.names if name != child]
        for size in range(4):
            parents = tuple(others[:size])
            assert scores.log_score(child, parents) == pytest.approx(right(table, child, parents), abs=1e-9)


def test_the_bde_prior_of_a_family_without_parents_is_that_of_k2_with_its_share():
    table = skewed_table(3, 50, seed=1)
    for weight in (0.5, 1.0, 4.0):
        one, two = FamilyScores(table, BDeu(2 * weight)), FamilyScores(table, K2(weight))
        assert one.log_score("x0") == pytest.approx(two.log_score("x0"), abs=1e-10)
        assert one.log_score("x0", ("x2",)) != pytest.approx(two.log_score("x0", ("x2",)), abs=1e-3)


def test_bic_is_near_the_log_marginal_likelihood_where_there_are_many_records():
    """Schwarz: the difference stays bounded while both grow with the number of records."""
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [5, 3, 2, 6], axis=0)
    for times in (10, 1000, 100_000):
        table = Table.from_codes(["a", "b"], [["n", "y"]] * 2, codes, np.full(16, times))
        one, two = (FamilyScores(table, score).log_score("b", ("a",)) for score in (BIC(), K2()))
        assert abs(one - two) < 3
        assert abs(one) > 8 * times


def covered_pairs(seed, n=5):
    """A random graph, a covered arc of it, and the graph with that arc turned."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    adjacency = np.zeros((n, n), dtype=bool)
    adjacency[np.ix_(order, order)] = np.triu(rng.random((n, n)) < 0.5, 1)
    names = tuple(f"x{i}" for i in range(n))
    arcs = Dag(adjacency, names).covered_arcs()
    if not arcs:
        return None
    i, j = (names.index(name) for name in arcs[rng.integers(len(arcs))])
    turned = adjacency.copy()
    turned[i, j], turned[j, i] = False, True
    return adjacency, turned


def total(scores, adjacency):
    names = np.array(scores.names)
    return sum(scores.log_score(names[j], tuple(names[adjacency[:, j]])) for j in range(len(names)))


@given(st.integers(0, 2**32 - 1), st.sampled_from([BDeu(), BDeu(0.01), BDeu(30.0), BIC()]), st.integers(1, 60))
@settings(max_examples=80, deadline=None)
def test_bdeu_and_bic_do_not_tell_the_two_ways_of_a_covered_arc_apart(seed, score, n_rows):
    pair = covered_pairs(seed)
    assert score.is_score_equivalent
    if pair is not None:
        scores = FamilyScores(skewed_table(5, n_rows, seed=seed % 1000, n_states=3), score)
        assert total(scores, pair[0]) == pytest.approx(total(scores, pair[1]), abs=1e-8)


def test_k2_tells_the_two_ways_of_a_covered_arc_apart():
    scores = FamilyScores(skewed_table(5, 60, seed=3, n_states=3), K2())
    pairs = [pair for pair in map(covered_pairs, range(60)) if pair is not None]
    differences = [abs(total(scores, one) - total(scores, two)) for one, two in pairs]
    assert not K2.is_score_equivalent
    assert np.median(differences) > 0.1


def test_score_objects_are_plain_values():
    assert BDeu() == BDeu(1) == BDeu(np.float32(1.0)) != BDeu(2)
    assert repr(K2()) == "K2(prior_count=1.0)"
    assert (BDeu(2).text, K2(0.5).text, BIC().text) == (
        "BDeu score, equivalent sample size 2",
        "K2 score, prior count 0.5",
        "BIC score",
    )
    assert set(SCORES) == {"bdeu", "k2", "bic", "bge", "gaussian_bic"}
    assert len({BDeu(), K2(), BIC(), BDeu(1.0)}) == 3
    assert pickle.loads(pickle.dumps(K2(3))) == K2(3.0)
    with pytest.raises(AttributeError):
        K2().prior_count = 2.0  # type: ignore[misc]


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, 10**400], ids=lambda bad: repr(bad)[:8])
@pytest.mark.parametrize(("score", "name"), [(K2, "prior_count"), (BDeu, "equivalent_sample_size")])
def test_weights_must_be_positive(score, name, bad):
    with pytest.raises(ArgumentError) as refused:
        score(bad)
    begin, _, end = str(refused.value).partition(repr(bad)[:100])
    assert begin == f"{name} is "
    assert end.endswith("; it must be above 0 and finite (1.0 is usual)")
    assert len(end) < 600  # what is long is cut


@pytest.mark.parametrize("bad", ["1", None, True, [1]], ids=repr)
def test_weights_must_be_numbers(bad):
    with pytest.raises(ArgumentError) as refused:
        K2(bad)
    assert str(refused.value) == f"prior_count is {bad!r}; it must be a number above 0"


@pytest.mark.parametrize(
    ("score", "size", "right"),
    [
        ("bdeu", 1.0, BDeu()),
        ("bdeu", 3, BDeu(3.0)),
        ("k2", 1.0, K2()),
        ("bic", 1.0, BIC()),
        (K2(0.5), 1.0, K2(0.5)),
        (BDeu(2.0), 1.0, BDeu(2.0)),
    ],
)
def test_scores_are_named_or_given(score, size, right):
    assert check_score(score, size) == right


KNOWN = "it must be one of 'bdeu', 'k2', 'bic', 'bge', 'gaussian_bic'"


@pytest.mark.parametrize(
    ("score", "size", "message"),
    [
        ("BDeu", 1.0, f"score is 'BDeu'; {KNOWN}"),
        (None, 1.0, f"score is None; {KNOWN}, or such as K2(0.5)"),
        (K2, 1.0, f"score is {K2!r}; {KNOWN}, or such as K2(0.5)"),
        (
            "k2",
            2.0,
            "equivalent_sample_size is 2.0, which belongs to score='bdeu'; with score='k2' leave it out",
        ),
        (
            BDeu(2.0),
            3,
            "equivalent_sample_size is 3, which belongs to score='bdeu'; "
            "with score=BDeu(equivalent_sample_size=2.0) leave it out",
        ),
        ("bdeu", 0, "equivalent_sample_size is 0; it must be above 0 and finite (1.0 is usual)"),
    ],
)
def test_other_scores_are_refused(score, size, message):
    with pytest.raises(ArgumentError) as refused:
        check_score(score, size)
    assert str(refused.value) == message


@pytest.mark.parametrize("score", ["k2", "bic", K2(0.5)], ids=repr)
def test_learning_samples_the_posterior_of_the_score(score):
    table = skewed_table(4, 60, seed=3, n_states=3)
    posterior = doxa.learn(table, score=score, prior="uniform", draws=3000, thin=20, seed=4)
    assert posterior.summary().startswith(f"60 rows x 4 columns; {check_score(score, 1.0).text}; ")
    exact = exact_edge_probabilities(FamilyScores(table, check_score(score, 1.0)))
    other = exact_edge_probabilities(FamilyScores(table))

    def inside(probabilities):
        within = []
        for i, j in np.argwhere(~np.eye(4, dtype=bool)).tolist():
            low, high = posterior.edge(table.names[i], table.names[j]).interval(0.99999)
            within.append(low <= probabilities[i, j] <= high)
        return all(within)

    assert inside(exact)
    assert not inside(other)

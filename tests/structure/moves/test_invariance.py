"""Does each move keep the enumerated posterior?  Its own proposals, as matrices, on all graphs of 3 and 4 nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.models import Dag
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure import EMC3, Auto, EdgeReversal, MarkovBlanket, ParentSetGibbs, SingleEdge
from doxa.structure.exact.enumeration import all_dags
from doxa.testing import (
    cycle_matrix,
    invariance_residual,
    metropolis_hastings_matrix,
    mixture_matrix,
    proposal_matrices,
    total_variation,
)
from support.kernels import (
    TARGETS,
    Matrix,
    Target,
    blanket_visits,
    covered_arc_matrix,
    key,
    listed,
    outcomes,
    step_matrices,
    target,
    with_partial_lists,
)

EXACT = 1e-12
SEEN = 1e-4  # a broken kernel must miss by more than this


@pytest.fixture(params=TARGETS)
def of(request) -> Target:
    return target(request.param)


def residual(of: Target, matrix) -> float:
    return invariance_residual(of.probability, matrix)


def settled(matrix) -> Matrix:
    """Where a chain from the first graph is after 2**14 steps, or fewer if all starts have led to the same by then."""
    for _ in range(14):
        if np.ptp(matrix, axis=0).max() < 1e-13:
            break
        matrix = matrix @ matrix
    return matrix[0]


def uncapped(of: Target) -> bool:
    return of.limits.only_caps and bool((of.limits.max_parents >= of.n_nodes - 1).all())


def test_the_targets_are_uneven_and_limits_leave_some_graphs_out(of):
    full = {3: 25, 4: 543}[of.n_nodes]
    assert (len(of.posterior.rows) == full) == uncapped(of)
    assert len(of.posterior.rows) > 15
    assert of.probability.max() > 3 * np.median(of.probability)


# --- single edges --------------------------------------------------------------------------------------------------


def test_single_edge_keeps_the_posterior(of):
    q, log_hastings = outcomes(SingleEdge(), of)
    assert (q.sum(axis=1) <= 1 + 1e-12).all()  # what is missing closes a cycle or breaks a limit
    x, y = np.nonzero(q)
    np.testing.assert_allclose(log_hastings[x, y], np.log(q[y, x]) - np.log(q[x, y]), atol=1e-12)
    assert residual(of, listed(SingleEdge(), of)) < EXACT
    assert residual(of, listed(SingleEdge(), of, hastings=False)) > SEEN


# --- pairs -----------------------------------------------------------------------------------------------------------


def test_edge_gibbs_keeps_the_posterior_at_every_pair_mixed_and_in_turn(of):
    pairs = [(i, j) for i in range(of.n_nodes) for j in range(i + 1, of.n_nodes)]
    matrices = [listed(pair, of) for pair in pairs]
    for matrix in matrices:
        assert residual(of, matrix) < EXACT
        np.testing.assert_allclose(matrix @ matrix, matrix, atol=1e-9)  # a conditional, drawn twice, is drawn once
    assert residual(of, mixture_matrix(matrices)) < EXACT
    sweep = cycle_matrix(matrices)
    assert residual(of, sweep) < EXACT
    flow = of.probability[:, None] * sweep
    assert np.abs(flow - flow.T).max() > 1e-5  # in turn is not reversible: here the test sees more than an acceptance
    assert max(residual(of, listed(pair, of, hastings=False)) for pair in pairs) > SEEN


# --- lists of parent sets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [ParentSetGibbs(), EdgeReversal()], ids=repr)
@pytest.mark.parametrize("share", [1.0, 0.6, 0.3])
def test_moves_with_lists_keep_the_posterior_whatever_is_listed(of, move, share):
    some = with_partial_lists(of, share, seed=4)
    right, broken = (listed(move, some, hastings) for hastings in (True, False))
    assert residual(of, right) < EXACT
    if share > 0.5 and len(of.posterior.rows) > 200:
        assert residual(of, broken) > SEEN / 10
    if share < 1.0:
        assert (np.diag(right) == 1.0).any()  # graphs whose families are unlisted
    elif isinstance(move, EdgeReversal):
        empty = ~of.posterior.rows.any(axis=(1, 2))
        assert (np.diag(right)[empty] == 1.0).all()  # no edge to turn


def test_an_unlisted_family_is_neither_taken_up_nor_left(of):
    some = with_partial_lists(of, 0.6, seed=4)
    lists = some.lists
    assert lists is not None
    parents = pack_rows(unpack_rows(of.posterior.rows, of.n_nodes).transpose(0, 2, 1))[:, :, 0]
    unlisted = np.stack(
        [~np.isin(parents[:, i], lists.sets[lists.first[i] : lists.first[i + 1], 0]) for i in range(of.n_nodes)], axis=1
    )
    assert unlisted.any()
    assert not unlisted.all()
    for move in (ParentSetGibbs(), EdgeReversal()):
        matrix = listed(move, some)
        x, y = np.nonzero(matrix)
        changed = parents[x] != parents[y]
        assert changed.any() or not of.limits.only_caps
        assert not (changed & (unlisted[x] | unlisted[y])).any()


# --- covered arcs ----------------------------------------------------------------------------------------------------


def test_covered_arc_reversal_keeps_the_posterior(of):
    q, _ = outcomes("covered arcs", of)
    if uncapped(of):
        covered = [len(Dag.from_rows(rows, of.scores.names).covered_arcs()) for rows in of.posterior.rows]
        np.testing.assert_array_equal((q > 0).sum(axis=1), covered)
    assert residual(of, covered_arc_matrix(of)) < EXACT
    assert residual(of, covered_arc_matrix(of, hastings=False)) > SEEN


def test_without_the_posterior_ratio_covered_arc_reversal_is_right_only_where_a_class_is_level(of):
    """n(G) / n(G') alone (erratum 2) does for BDeu and BIC under priors of in-degrees, not for K2 or odds of edges."""
    q, log_hastings = outcomes("covered arcs", of)
    odds = of.scores.prior.edge_log_odds  # a covered arc's ends swap their numbers of parents: those priors are level
    level = of.scores.score.is_score_equivalent and np.array_equal(odds, odds.T)
    without = metropolis_hastings_matrix(np.zeros(len(q)), q, log_hastings)
    if level:
        assert residual(of, without) < EXACT
    else:
        assert residual(of, without) > SEEN


def test_published_covered_arc_reversal_does_not_keep_the_posterior(of):
    assert residual(of, covered_arc_matrix(of, published=True)) > SEEN


@pytest.mark.parametrize("reversals", [0, 1, 9])
def test_emc3_keeps_the_posterior_and_as_published_does_not(of, reversals):
    (right,) = step_matrices(EMC3(reversals), of)
    (published,) = step_matrices(EMC3(reversals, published=True), of)
    assert residual(of, right) < EXACT
    assert (residual(of, published) > SEEN) == (reversals > 0)
    assert (EMC3(reversals, published=True).bias is not None) == (reversals > 0)
    assert EMC3(reversals).bias is None


def test_published_emc3_settles_far_from_the_posterior():
    of = target("4 nodes")
    (published,) = step_matrices(EMC3(published=True), of)
    assert total_variation(settled(published), of.probability) > 0.01


# --- caps on configurations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["configurations", "K2, odds, configurations"])
@pytest.mark.parametrize(
    "move", [SingleEdge(), ParentSetGibbs(), EdgeReversal(), "covered arcs", MarkovBlanket()], ids=str
)
def test_without_the_cap_on_configurations_moves_leave_the_graphs(move, name):
    of = target(name)
    loose = replace(of, limits=of.limits._replace(max_log_configs=np.full(of.n_nodes, np.inf)))
    centre = 0 if isinstance(move, MarkovBlanket) else None
    assert outcomes(move, of, centre)[0].shape == (len(of.posterior.rows),) * 2
    with pytest.raises(ArgumentError, match="which is not among the states"):
        outcomes(move, loose, centre)


@pytest.mark.parametrize("name", ["configurations", "K2, odds, configurations"])
def test_graphs_within_the_cap_are_those_whose_parents_have_few_configurations(name):
    of = target(name)
    most = TARGETS[name]["limits"]["max_configurations"]
    adjacency = unpack_rows(all_dags(4), 4)
    n_states = np.array(of.scores.table.n_states)
    configurations = np.where(adjacency, n_states[:, None], 1).prod(axis=1)
    within = (configurations <= most).all(axis=1)
    assert 50 < within.sum() < 543
    assert np.array_equal(of.posterior.rows, all_dags(4)[within])


# --- mixtures --------------------------------------------------------------------------------------------------------


def test_auto_keeps_the_posterior_and_reaches_every_graph_with_any_lists(of):
    for some in (of, with_partial_lists(of, 0.4, seed=5)):
        (matrix,) = step_matrices(Auto(), some)
        assert residual(of, matrix) < EXACT
        assert total_variation(settled(matrix), of.probability) < 1e-6
    (broken,) = step_matrices(Auto(), of, hastings=False)
    assert residual(of, broken) > SEEN


# --- Markov blankets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [0.95, 0.3])
def test_markov_blanket_keeps_the_posterior_at_every_centre(of, w):
    worst = 0.0
    for centre in range(of.n_nodes):
        move = MarkovBlanket(w=w)
        q, _ = outcomes(move, of, centre)
        assert (q.sum(axis=1) <= 1 + 1e-12).all()
        assert residual(of, listed(move, of, centre=centre)) < EXACT
        worst = max(worst, residual(of, listed(move, of, hastings=False, centre=centre)))
    assert worst > SEEN


def uneven(n):
    """Whole numbers, no two pairs alike."""
    upper = np.triu(np.arange(1, n * n + 1).reshape(n, n) % 7 + 1, 1)
    return upper + upper.T


def test_markov_blanket_with_weights_of_pairs_keeps_the_posterior_at_every_centre(of):
    move = MarkovBlanket(w=0.6, pair_weights=uneven(of.n_nodes))
    plain, worst = MarkovBlanket(w=0.6), 0.0
    for centre in range(of.n_nodes):
        q, log_hastings = outcomes(move, of, centre)
        alike, claimed = outcomes(plain, of, centre)
        assert np.abs(q - alike).max() > 0.01
        x, y = np.nonzero(q)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(log_hastings[x, y], np.log(q[y, x]) - np.log(q[x, y]), atol=1e-9)
        assert residual(of, metropolis_hastings_matrix(of.log_target, q, log_hastings)) < EXACT
        broken = metropolis_hastings_matrix(of.log_target, q, claimed)  # as if all pairs were proposed alike
        worst = max(worst, residual(of, broken))
    assert worst > SEEN


def test_markov_blanket_keeps_the_posterior_at_centres_drawn_at_random(of):
    """Whole visits: the centre is part of the chain's state until its visit ends."""
    for hastings in (True, False):
        visits = [cycle_matrix(visit) for visit in blanket_visits(MarkovBlanket(k=2), of, hastings)]
        at_random = mixture_matrix(visits)
        assert (residual(of, at_random) < EXACT) == hastings
        assert (residual(of, at_random) > SEEN) == (not hastings)


def test_markov_blanket_draws_what_its_hastings_term_claims(of):
    for centre in range(of.n_nodes):
        q, log_hastings = outcomes(MarkovBlanket(), of, centre)
        x, y = np.nonzero(q)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(log_hastings[x, y], np.log(q[y, x]) - np.log(q[x, y]), atol=1e-9)


def printed_sweep(of, move):
    """Transition matrix of one sweep of Algorithm 1 as printed: blocks fixed on arrival, ratio taken to cancel."""
    rows = of.posterior.rows
    sweep = np.eye(len(rows))
    for centre in range(of.n_nodes):
        blocks = np.array([move.block(graph, centre)[0] for graph in rows])
        visit = np.zeros_like(sweep)
        for block in np.unique(blocks):
            words = np.array([block], dtype=np.uint64)
            step = partial(move.proposals, limits=of.limits, centre=centre, block=words)
            q, log_hastings = proposal_matrices(list(rows), step, key)
            assert not log_hastings.any()
            power = np.linalg.matrix_power(metropolis_hastings_matrix(of.log_target, q, log_hastings), move.k + 1)
            visit[blocks == block] = power[blocks == block]
        sweep = sweep @ visit
    return sweep


@pytest.mark.parametrize("name", ["3 nodes", "4 nodes", "limits"])
def test_printed_markov_blanket_does_not_keep_the_posterior(name):
    of = target(name)
    sweep = printed_sweep(of, MarkovBlanket(published=True))
    np.testing.assert_allclose(sweep.sum(axis=1), 1.0, atol=1e-9)
    assert residual(of, sweep) > SEEN
    if name == "4 nodes":
        assert total_variation(settled(sweep), of.probability) > 0.05

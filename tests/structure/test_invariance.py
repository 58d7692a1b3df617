"""Does each kernel keep the enumerated posterior?  Its own proposals, as a matrix, on all graphs of 3 and 4 nodes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from doxa.mcmc.chain_theory import invariance_residual, total_variation
from doxa.mcmc.kernel_matrices import metropolis_hastings_matrix, proposal_matrices
from doxa.models import Dag
from doxa.structure.cache import FamilyScores
from doxa.structure.covered_arcs import covered_arc_proposals
from doxa.structure.exact import GraphPosterior, enumerate_posterior
from doxa.structure.limits import Limits, capped
from doxa.structure.markov_blanket import MarkovBlanket
from doxa.structure.single_edge import SingleEdge
from support.tables import skewed_table

EXACT = 1e-12
SEEN = 1e-4  # a broken kernel must miss by more than this


def key(rows):
    return rows.tobytes()


@pytest.fixture(scope="module", params=[(3, 40, None), (4, 60, None), (4, 60, 2), (4, 60, 1)], ids=str)
def case(request) -> tuple[GraphPosterior, Limits]:
    n, rows, cap = request.param
    caps = np.full(n, n - 1 if cap is None else cap)
    if cap == 2:
        caps[0] = 1  # caps may differ from node to node
    limits = capped(caps)
    return enumerate_posterior(FamilyScores(skewed_table(n, rows, seed=3, n_states=3)), limits), limits


def uncapped(posterior, limits) -> bool:
    return bool((limits.max_parents >= posterior.rows.shape[1] - 1).all())


def names(posterior):
    return tuple(f"x{i}" for i in range(posterior.rows.shape[1]))


def matrices(posterior, proposals):
    """Transition matrices with the kernel's own Hastings term, and without any (the broken twin)."""
    q, log_hastings = proposal_matrices(list(posterior.rows), proposals, key)
    right = metropolis_hastings_matrix(posterior.log_score, q, log_hastings)
    broken = metropolis_hastings_matrix(posterior.log_score, q, np.zeros_like(q))
    return q, right, broken


def test_single_edge_keeps_the_posterior(case):
    posterior, limits = case
    q, right, broken = matrices(posterior, partial(SingleEdge().proposals, limits=limits))
    assert (q.sum(axis=1) <= 1 + 1e-12).all()  # what is missing closes a cycle or breaks a cap
    assert invariance_residual(posterior.probability, right) < EXACT
    assert invariance_residual(posterior.probability, broken) > SEEN


def test_single_edge_hastings_term_is_that_of_its_proposal(case):
    posterior, limits = case
    q, log_hastings = proposal_matrices(list(posterior.rows), partial(SingleEdge().proposals, limits=limits), key)
    x, y = np.nonzero(q)
    np.testing.assert_allclose(log_hastings[x, y], np.log(q[y, x]) - np.log(q[x, y]), atol=1e-12)


@pytest.mark.parametrize("w", [0.95, 0.3])
def test_markov_blanket_keeps_the_posterior_at_every_centre(case, w):
    posterior, limits = case
    worst = 0.0
    for centre in range(posterior.rows.shape[1]):
        step = partial(MarkovBlanket(w=w).proposals, limits=limits, centre=centre)
        q, right, broken = matrices(posterior, step)
        assert (q.sum(axis=1) <= 1 + 1e-12).all()
        assert invariance_residual(posterior.probability, right) < EXACT
        worst = max(worst, invariance_residual(posterior.probability, broken))
    assert worst > SEEN


def test_markov_blanket_draws_what_its_hastings_term_claims(case):
    posterior, limits = case
    for centre in range(posterior.rows.shape[1]):
        q, log_hastings = proposal_matrices(
            list(posterior.rows), partial(MarkovBlanket().proposals, limits=limits, centre=centre), key
        )
        x, y = np.nonzero(q)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(log_hastings[x, y], np.log(q[y, x]) - np.log(q[x, y]), atol=1e-9)


def printed_sweep(posterior, limits, move):
    """Transition matrix of one sweep of Algorithm 1 as printed: blocks fixed on arrival, ratio taken to cancel."""
    rows = posterior.rows
    n = rows.shape[1]
    sweep = np.eye(len(rows))
    for centre in range(n):
        blocks = np.array([move.block(graph, centre)[0] for graph in rows])
        visit = np.zeros_like(sweep)
        for block in np.unique(blocks):
            words = np.array([block], dtype=np.uint64)
            step = partial(move.proposals, limits=limits, centre=centre, block=words)
            q, log_hastings = proposal_matrices(list(rows), step, key)
            assert not log_hastings.any()
            power = np.linalg.matrix_power(metropolis_hastings_matrix(posterior.log_score, q, log_hastings), move.k + 1)
            visit[blocks == block] = power[blocks == block]
        sweep = sweep @ visit
    return sweep


def test_printed_markov_blanket_does_not_keep_the_posterior(case):
    posterior, limits = case
    sweep = printed_sweep(posterior, limits, MarkovBlanket(published=True))
    np.testing.assert_allclose(sweep.sum(axis=1), 1.0, atol=1e-9)
    assert invariance_residual(posterior.probability, sweep) > SEEN
    if uncapped(posterior, limits) and posterior.rows.shape[1] == 4:
        stationary = np.linalg.matrix_power(sweep, 4096)[0]
        assert total_variation(stationary, posterior.probability) > 0.05


def test_covered_arc_reversal_keeps_the_posterior(case):
    posterior, limits = case
    q, right, broken = matrices(posterior, partial(covered_arc_proposals, limits=limits))
    if uncapped(posterior, limits):
        covered = [len(Dag.from_rows(rows, names(posterior)).covered_arcs()) for rows in posterior.rows]
        np.testing.assert_array_equal((q > 0).sum(axis=1), covered)
    assert invariance_residual(posterior.probability, right) < EXACT
    assert invariance_residual(posterior.probability, broken) > SEEN


def test_published_covered_arc_reversal_does_not_keep_the_posterior(case):
    posterior, limits = case
    q, _ = proposal_matrices(list(posterior.rows), partial(covered_arc_proposals, limits=limits), key)
    always = q + np.diag(1.0 - q.sum(axis=1))
    assert invariance_residual(posterior.probability, always) > SEEN

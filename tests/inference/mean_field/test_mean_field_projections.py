"""M-projections: moments, optimality against alternatives and by Pythagoras, forests; beside the I-projection."""

from __future__ import annotations

from itertools import combinations

import mean_field_cases as cases
import numpy as np
import pytest

from doxa.inference.mean_field.projections import (
    compare_projections,
    enumerate_joint,
    joint_marginals,
    kl_divergence,
    m_projection,
    sample_marginals,
)
from doxa.models.factors import Factor
from support.checks import SEED, z_limit
from support.small_networks import joint, marginal

SHAPE = (2, 3, 2, 2)
FOREST = [(0, 1), (2, 1)]
FAMILIES = {"product": {}, "blocks": {"blocks": [[2, 0]]}, "forest": {"edges": FOREST}}


def random_joint(rng, zeros=0.0, shape=SHAPE):
    p = rng.gamma(0.5, size=shape) * (rng.random(shape) >= zeros) + 0.0
    p.flat[0] += 0.1
    return p / p.sum()


def random_member(rng, family):
    """Any distribution of a family, positive: the M-projection of a random p with another parametrisation."""
    if family == "product":
        parts = [[0], [1], [2], [3]]
    elif family == "blocks":
        parts = [[0, 2], [1], [3]]
    else:
        parts = [[0, 1], [1, 2], [3]]
    q = np.ones(SHAPE)
    for part in parts:
        size = [n if v in part else 1 for v, n in enumerate(SHAPE)]
        q = q * (rng.gamma(1.0, size=size) + 0.01)
    return q / q.sum()


def worst_gap(family, project):
    """Smallest lead of the projection over random members, and largest breach of Pythagoras' identity.

    For an exponential family that contains q, KL(p || q) = KL(p || m) + KL(m || q), m being the M-projection.
    """
    lead, breach = np.inf, 0.0
    for k in range(60):
        rng = np.random.default_rng([SEED, 64, k])
        p = random_joint(rng, zeros=0.3 * (k % 2))
        m = project(p, rng)
        for _ in range(10):
            q = random_member(rng, family)
            lead = min(lead, kl_divergence(p, q) - kl_divergence(p, m))
            breach = max(breach, abs(kl_divergence(p, q) - kl_divergence(p, m) - kl_divergence(m, q)))
    return lead, breach


@pytest.mark.parametrize("family", FAMILIES)
def test_the_projection_is_the_best_of_its_family(family):
    lead, breach = worst_gap(family, lambda p, _: m_projection(joint_marginals(p), SHAPE, **FAMILIES[family]).joint())
    assert lead > 0
    assert breach < 1e-10


@pytest.mark.parametrize("family", FAMILIES)
def test_a_projection_of_other_moments_is_not(family):
    def blurred(p, rng):
        near = 0.9 * p + 0.1 / p.size
        return m_projection(joint_marginals(near), SHAPE, **FAMILIES[family]).joint()

    _, breach = worst_gap(family, blurred)
    assert breach > 1e-3


def test_the_projection_has_the_marginals_of_p():
    rng = np.random.default_rng(SEED)
    p = random_joint(rng, zeros=0.3)
    q = m_projection(joint_marginals(p), SHAPE, edges=FOREST).joint()
    for v in range(4):
        np.testing.assert_allclose(marginal(q, v), marginal(p, v), atol=1e-12)
    for a, b in FOREST:
        np.testing.assert_allclose(marginal(q, a, b), marginal(p, a, b), atol=1e-12)
    blocks = m_projection(joint_marginals(p), SHAPE, blocks=[[3, 0], [1]]).joint()
    np.testing.assert_allclose(marginal(blocks, 0, 3), marginal(p, 0, 3), atol=1e-12)
    np.testing.assert_allclose(marginal(blocks, 0, 1), np.outer(marginal(p, 0), marginal(p, 1)), atol=1e-12)


def test_of_edges_with_cycles_the_best_forest_is_taken():
    """Chow & Liu, against all spanning trees of four nodes."""
    edges = list(combinations(range(4), 2))
    for k in range(30):
        p = random_joint(np.random.default_rng([SEED, 65, k]))
        best = m_projection(joint_marginals(p), SHAPE, edges=edges)
        assert len(best.edges) == 3
        trees = [m_projection(joint_marginals(p), SHAPE, edges=three) for three in combinations(edges, 3)]
        divergences = [kl_divergence(p, tree.joint()) for tree in trees if len(tree.edges) == 3]
        assert len(divergences) == 16
        assert kl_divergence(p, best.joint()) == pytest.approx(min(divergences), abs=1e-12)
        assert max(divergences) > min(divergences) + 1e-4


def test_a_tree_is_its_own_projection():
    rng = np.random.default_rng(SEED)
    q = random_member(rng, "forest")
    edges = list(combinations(range(4), 2))
    np.testing.assert_allclose(m_projection(joint_marginals(q), SHAPE, edges=edges).joint(), q, atol=1e-12)


def test_log_probabilities_of_rows_are_those_of_the_table():
    rng = np.random.default_rng(SEED)
    p = random_joint(rng, zeros=0.4)
    for options in FAMILIES.values():
        found = m_projection(joint_marginals(p), SHAPE, **options)
        rows = np.argwhere(np.ones(SHAPE))
        np.testing.assert_allclose(np.exp(found.log_probability(rows)), found.joint().ravel(), atol=1e-12)


def test_draws_stand_for_p():
    rng = np.random.default_rng(SEED)
    p, n = random_joint(rng), 200_000
    rows = np.argwhere(np.ones(SHAPE))
    counts = rng.multinomial(n, p.ravel())
    of_draws = sample_marginals(np.repeat(rows, counts, axis=0), SHAPE)
    weighted = sample_marginals(rows, SHAPE, weights=counts)
    for pair in combinations(range(4), 2):
        exact, share = marginal(p, *pair), of_draws(pair)
        np.testing.assert_allclose(share, weighted(pair), atol=1e-15)
        z = (share - exact) / np.sqrt(exact * (1 - exact) / n)
        assert np.abs(z).max() < z_limit(200)
    np.testing.assert_allclose(joint_marginals(p)((2, 0)), marginal(p, 2, 0))
    np.testing.assert_allclose(of_draws((2, 0)), of_draws((0, 2)).T)


def test_the_i_projection_seeks_a_mode_and_the_m_projection_covers_the_mass():
    """Two modes, 000 and 111: mean field takes the larger, the product of marginals lies between them."""
    p = np.full((2, 2, 2), 0.01)
    p[0, 0, 0], p[1, 1, 1] = 0.5, 0.44
    found = compare_projections((2, 2, 2), [Factor((0, 1, 2), np.log(p))], seed=1)
    for v in range(3):
        assert found.i_projection.marginals[v][0] > 0.95
        np.testing.assert_allclose(np.exp(found.m_projection.factors[v].log_values), [0.53, 0.47])
    assert found.i_reverse < found.m_reverse - 0.3
    assert found.m_forward < found.i_forward - 0.3
    assert found.i_reverse == pytest.approx(found.log_z - found.i_projection.log_z_bound, abs=1e-10)


def test_each_projection_is_the_better_by_its_own_measure():
    for k in range(60):
        network, rng = cases.random_network(k, 0.2)
        if joint(network).sum() == 0:
            continue
        n_states = cases.sizes(network)
        blocks = cases.random_blocks(rng, len(n_states)) if k % 2 else None
        found = compare_projections(n_states, network.factors, blocks=blocks, seed=k)
        assert found.m_forward <= found.i_forward + 1e-9
        assert found.log_z == pytest.approx(cases.log_z(network), abs=1e-10)
        assert found.i_reverse == pytest.approx(found.log_z - found.i_projection.log_z_bound, abs=1e-8)
        if k % 5 == 0:
            np.testing.assert_allclose(enumerate_joint(n_states, network.factors)[1].sum(), 1.0)


def test_zeros_make_divergences_infinite_in_one_direction_each():
    same = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    found = compare_projections((2, 2), [Factor((0, 1), same)], seed=1)
    assert found.i_forward == np.inf  # it leaves one of the two configurations out
    assert found.m_reverse == np.inf  # it meets what is forbidden
    assert found.i_reverse == pytest.approx(np.log(2))
    assert found.m_forward == pytest.approx(np.log(2))


P = joint_marginals(np.full((2, 2), 0.25))
BAD = [
    (lambda: m_projection(P, (2, 2), blocks=[[0]], edges=[[0, 1]]), "blocks and edges are both given; a family is"),
    (lambda: m_projection(np.ones(2), (2, 2)), "marginals is of type ndarray; give a function of variables"),
    (lambda: m_projection(P, (2, 3)), "marginals((1,)) has shape (2,); it must be (3,), the numbers of states"),
    (
        lambda: m_projection(lambda _: [0.5, 0.6], (2,)),
        "has an entry below 0 or sums to 1.1; it must be a distribution",
    ),
    (
        lambda: m_projection(lambda _: [np.nan, 0.6], (2,)),
        "has an entry below 0 or sums to nan; it must be a distribution",
    ),
    (lambda: m_projection(P, (2, 2), blocks=[[0, 5]]), "blocks[0] has the position 5; those of the network are 0 to 1"),
    (lambda: m_projection(P, (2, 2), edges=[[0, 2]]), "edges[0] is (0, 2); positions of variables are 0 to 1"),
    (lambda: m_projection(P, (2, 2), edges=[[1, 1]]), "edges[0] joins 1 to itself; the two ends of an edge differ"),
    (lambda: m_projection(P, (2, 2), edges=[0, 1]), "edges is no array of shape (n_edges, 2) of positions; give pairs"),
    (lambda: joint_marginals([0.5, -0.5]), "joint has an entry that is negative or not finite, or is 0 everywhere"),
    (lambda: joint_marginals([0.0, 0.0]), "joint has an entry that is negative or not finite, or is 0 everywhere"),
    (lambda: sample_marginals([[0, 2]], (2, 2)), "rows[0, 1] is 2, and '1' has 2 states"),
    (
        lambda: sample_marginals([[0, 1]], (2, 2), [1, 2]),
        "weights has shape (2,); it must be (1,), a weight for every row",
    ),
    (lambda: sample_marginals([[0, 1]], (2, 2), [0]), "weights has one that is negative or not finite, or all are 0"),
    (
        lambda: kl_divergence([0.5, 0.5], [1.0]),
        "p has shape (2,) and q (1,); they must be distributions over the same states",
    ),
    (lambda: kl_divergence([0.5, 0.5], [0.5, 0.6]), "q is no distribution: it has an entry below 0, or sums to 1.1"),
    (lambda: enumerate_joint([2] * 30, []), "n_states has 1073741824 configurations, and at most 4194304 are listed"),
    (
        lambda: enumerate_joint([2], [Factor((0,), np.full(2, -np.inf))]),
        "factors give every configuration the probability 0",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_input(call, message):
    with pytest.raises((ValueError, TypeError)) as raised:
        call()
    assert message in str(raised.value)


def test_the_projection_says_what_it_is():
    assert repr(m_projection(P, (2, 2))) == "<M-projection on a product over 2 blocks, 2 variables>"
    assert repr(m_projection(P, (2, 2), edges=[[0, 1]])) == "<M-projection on a forest of 1 edges, 2 variables>"

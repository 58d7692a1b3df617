"""Random networks with missing cells, the bound written out configuration by configuration, and exact evidences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import betaln, digamma

from doxa.models import LogisticNetwork
from doxa.models.logistic_factors import LogisticFactor
from doxa.parameters.variational.bound import expected_log_bound, lambda_of
from doxa.parameters.variational.hidden.problem import hidden_problem
from support.checks import SEED
from support.tables import table_of

FORMS = ["unconstrained", "structured", "mean_field"]
XIS = ["configuration", "row"]


def random_network(rng, most=6):
    """Up to six nodes with every kind of bias, root and coding; a prior with correlations and a mean."""
    n = int(rng.integers(2, most + 1))
    names = [f"x{k}" for k in range(n)]
    density = rng.uniform(0.3, 1.0)
    order = rng.permutation(n)
    parents = {names[order[j]]: [names[order[i]] for i in range(j) if rng.random() < density] for j in range(n)}
    with_parents = [name for name in names if parents[name]]
    roots = [name for name in parents if not parents[name]]
    bias = {name: float(rng.normal()) for name in with_parents if rng.random() < 0.4}
    kind = rng.integers(4)
    given = {name: float(rng.uniform(0.1, 0.9)) for name in roots if rng.random() < 0.5}
    if kind == 0:
        given = rng.dirichlet(np.ones(2 ** len(roots))).reshape((2,) * len(roots))
    elif kind == 1 and len(roots) > 1:
        joint = rng.dirichlet(np.ones(4)).reshape(2, 2)
        joint[0, 1] = 0.0  # an impossible configuration
        given = {tuple(roots[1::-1]): joint / joint.sum()}
    draft = LogisticNetwork(parents, bias=bias, roots=given)
    covariance = {}
    for node in with_parents:
        d = draft.n_coefficients(node)
        root = np.eye(d) + 0.3 * rng.standard_normal((d, d))
        covariance[node] = rng.uniform(0.5, 9) * root @ root.T
    return LogisticNetwork(
        parents,
        bias=bias,
        roots=given,
        coding="pm1" if rng.random() < 0.5 else "01",
        prior_covariance=covariance,
        prior_mean=float(rng.normal()),
    )


def random_thetas(network, rng, scale=1.0):
    return {
        node: rng.uniform(0.2, 0.8, 1) if node in network.roots else rng.normal(0, scale, network.n_coefficients(node))
        for node in network.parameters
    }


def random_table(network, rng, n_rows, missing, n_hidden=None):
    """Rows of the network with cells missing at random, and some nodes in all rows."""
    full = network.simulate(n_rows, random_thetas(network, rng), rng)
    codes = full.codes[full.row_index].copy()
    codes[rng.random(codes.shape) < missing] = -1
    n_hidden = int(rng.integers(0, 3)) if n_hidden is None else n_hidden
    codes[:, rng.permutation(len(network.names))[:n_hidden]] = -1
    return table_of(network.names, codes)


def random_case(rng, most=6):
    network = random_network(rng, most)
    return network, random_table(network, rng, int(rng.integers(1, 40)), float(rng.choice([0.0, 0.1, 0.4])))


def problem_of(network, table, form="unconstrained", xi="configuration", group_size=None):
    return hidden_problem(network, table, form, xi, group_size, 1e-10, 2000)


def random_q(problem, rng, spread=1.5):
    ascent = problem.ascent
    return ascent.normalised(spread * rng.standard_normal(ascent.layout.n))


def random_fit(problem, rng):
    """A point of the ascent that is no optimum of anything but the Gaussians and Betas."""
    n_xi = sum(family.n_xi for family in problem.ascent.families)
    return problem.ascent.fit(rng.uniform(0.01, 5, n_xi), random_q(problem, rng))


def joint_law(problem, q, c):
    """For one component: its cells, and for each neighbourhood the probability of each configuration of them."""
    blocks = [block for stage in problem.ascent.layout.stages for block in stage.blocks if block.component == c]
    nodes = [v for block in blocks for v in block.nodes]
    laws = []
    for local in range(blocks[0].n_local):
        law = {}
        for choice in product(*(range(block.shape[1]) for block in blocks)):
            p, values = 1.0, []
            for block, k in zip(blocks, choice, strict=True):
                p *= q[block.place].reshape(block.shape)[local, k]
                values += [k >> j & 1 for j in range(len(block.nodes))]
            law[tuple(values)] = p
        laws.append(law)
    return nodes, laws


def written_out(problem, table, fit):
    """The bound with the best xi, row by row and configuration by configuration, at the fit's Gaussians, Betas and q.

    Factors and cells that sum to one are left out by looking at observed descendants, not by the code under test.
    """
    network, factors = problem.network, problem.network.factors
    names = network.names
    gaussians = {}
    for family, found in zip(problem.ascent.families, fit.families, strict=True):
        root, mean = family.coordinates.root, family.coordinates.prior_mean
        gaussians[family.node] = (mean + root @ found.mean, root @ found.factor @ found.factor.T @ root.T)
    for node, found in problem.settled.items():
        gaussians[node] = (found.mean, found.covariance)
    betas = {root.node: (found.ones, found.zeros) for root, found in zip(problem.ascent.roots, fit.roots, strict=True)}
    total = 0.0
    for node, (mean, covariance) in gaussians.items():
        prior = network.prior(node)
        inverse, away = np.linalg.inv(prior.covariance), mean - prior.mean
        total -= 0.5 * (np.trace(inverse @ covariance) - mean.size + away @ inverse @ away)
        total -= 0.5 * (np.linalg.slogdet(prior.covariance)[1] - np.linalg.slogdet(covariance)[1])
    for a, b in betas.values():
        total -= -betaln(a, b) + (a - 1) * digamma(a) + (b - 1) * digamma(b) - (a + b - 2) * digamma(a + b)
    laws = {}
    for c, component in enumerate(problem.components):
        nodes, by_local = joint_law(problem, fit.q, c)
        for row, local in zip(component.rows, component.local, strict=True):
            laws.setdefault(int(row), []).append((nodes, by_local[local]))
    for row, codes in enumerate(problem.codes):
        kept = {v for v in range(len(names)) if codes[v] >= 0}
        while more := {v for w in kept for v in ancestors(factors, w)} - kept:
            kept |= more
        value = 0.0
        for nodes, law in laws.get(row, []):
            assert set(nodes) <= kept
            value -= sum(p * np.log(p) for p in law.values() if p > 0)
        moments = {}
        for values, p in completions(codes, laws.get(row, [])):
            for f, factor in enumerate(factors):
                if not any(v in kept for v in factor.children):
                    continue
                here = tuple(int(values[v]) for v in factor.scope)
                moments.setdefault(f, {}).setdefault(here, 0.0)
                moments[f][here] += p
        for f, law in moments.items():
            value += expected_factor(problem, factors[f], law, gaussians, betas)
        total += table.counts[row] * value
    return total


def ancestors(factors, node):
    """Nodes that the node's factor holds: its parents, or the roots that share its table."""
    return {v for factor in factors if node in factor.children for v in factor.scope}


def completions(codes, laws):
    """Values of all nodes with their probability; cells that no law holds stay -1."""
    for choice in product(*(law.items() for _, law in laws)):
        values, p = codes.copy(), 1.0
        for (nodes, _), (cells, share) in zip(laws, choice, strict=True):
            values[list(nodes)] = cells
            p *= share
        if p > 0:
            yield values, p


def expected_factor(problem, factor, law, gaussians, betas):
    """E log of a factor's bound under the law of its configurations, at the best xi."""
    if not isinstance(factor, LogisticFactor):
        if factor.probabilities is not None:
            return sum(p * np.log(factor.probabilities[c]) for c, p in law.items())
        a, b = betas[factor.node]
        return sum(p * (digamma(a if c[0] else b) - digamma(a + b)) for c, p in law.items())
    mean, covariance = gaussians[factor.node]
    centres, seconds, shares = [], [], []
    for configuration, p in law.items():
        design, offset = factor.design(np.array([configuration[:-1]]))
        centre = float(offset[0] + design[0] @ mean)
        centres.append((2 * configuration[-1] - 1) * centre)
        seconds.append(centre**2 + float(design[0] @ covariance @ design[0]))
        shares.append(p)
    shares = np.array(shares)
    if problem.xi == "row":
        second = shares @ seconds
        return float(expected_log_bound(shares @ centres, second, np.sqrt(second)))
    return float(shares @ expected_log_bound(centres, seconds, np.sqrt(seconds)))


def exact_log_evidence(network, table, n=121, n_root=13):
    """Log evidence with up to two coefficients: trapezoidal rule over 9 prior sd, Gauss-Legendre for learned roots."""
    nodes = [node for node in network.parameters if node not in network.roots]
    learned = [node for node in network.parameters if node in network.roots]
    axes, log_weights = [], []
    for node in nodes:
        prior = network.prior(node)
        for mean, sd in zip(prior.mean, np.sqrt(np.diag(prior.covariance)), strict=True):
            axes.append(np.linspace(mean - 9 * sd, mean + 9 * sd, n))
            log_weights.append(np.full(n, np.log(axes[-1][1] - axes[-1][0])))
    x, w = np.polynomial.legendre.leggauss(n_root)
    axes += [(x + 1) / 2] * len(learned)
    log_weights += [np.log(w / 2)] * len(learned)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    log_w = np.sum(np.meshgrid(*log_weights, indexing="ij"), axis=0).ravel()
    ends = np.cumsum([0, *(network.n_coefficients(node) for node in (*nodes, *learned))])
    thetas = {node: points[:, ends[k] : ends[k + 1]] for k, node in enumerate((*nodes, *learned))}
    log_p = network.log_joint(thetas, table) + log_w
    return float(np.log(np.exp(log_p - log_p.max()).sum()) + log_p.max())


def q_written_out(problem, fits, root_fits, q):
    """Best unconstrained q of each component at these Gaussians and Betas, at the best xi for them and ``q``."""
    factors = problem.network.factors
    gaussians = {
        family.node: (
            family.coordinates.prior_mean + family.coordinates.root @ fit.mean,
            family.coordinates.root @ fit.factor @ fit.factor.T @ family.coordinates.root.T,
        )
        for family, fit in zip(problem.ascent.families, fits, strict=True)
    }
    betas = {root.node: (fit.ones, fit.zeros) for root, fit in zip(problem.ascent.roots, root_fits, strict=True)}
    out = []
    for c, component in enumerate(problem.components):
        nodes, old = joint_law(problem, q, c)
        for local, codes in enumerate(component.codes):
            log_weights = dict.fromkeys(old[local], 0.0)
            for f in component.factors:
                laws = {}
                for values, _, p in filled(codes, nodes, old[local]):
                    here = tuple(int(values[v]) for v in factors[f].scope)
                    laws[here] = laws.get(here, 0.0) + p
                terms = {here: factor_term(problem, factors[f], here, laws, gaussians, betas) for here in laws}
                for values, cells, _ in filled(codes, nodes, old[local]):
                    log_weights[cells] += terms[tuple(int(values[v]) for v in factors[f].scope)]
            top = max(log_weights.values())
            total = sum(np.exp(v - top) for v in log_weights.values())
            out.append((c, local, nodes, {cells: np.exp(v - top) / total for cells, v in log_weights.items()}))
    return out


def filled(codes, nodes, law):
    for cells, p in law.items():
        values = codes.copy()
        values[list(nodes)] = cells
        yield values, cells, p


def factor_term(problem, factor, configuration, laws, gaussians, betas):
    """What a factor says of one configuration, up to a constant; xi is the row's, from ``laws``, or its own."""
    if not isinstance(factor, LogisticFactor) or problem.xi == "configuration":
        with np.errstate(divide="ignore"):
            return expected_factor(problem, factor, {configuration: 1.0}, gaussians, betas)
    mean, covariance = gaussians[factor.node]

    def moments(c):
        design, offset = factor.design(np.array([c[:-1]]))
        centre = float(offset[0] + design[0] @ mean)
        return (2 * c[-1] - 1) * centre, centre**2 + float(design[0] @ covariance @ design[0])

    xi = np.sqrt(sum(p * moments(c)[1] for c, p in laws.items()))
    centre, second = moments(configuration)
    return centre / 2 - float(lambda_of(xi)) * second


def common_cause(n=400):
    """Three observed children of a hidden root, one with an observed parent as well."""
    network = LogisticNetwork({"a": ["h"], "b": ["h"], "c": ["h", "o"]}, prior_scale=2.0)
    thetas = {"a": [0.3, 1.2], "b": [-0.5, -1.4], "c": [0.0, 1.0, 0.8], "h": [0.4], "o": [0.5]}
    table = network.simulate(n, thetas, np.random.default_rng(SEED)).select(["c", "o", "a", "b"])
    return network, table


def assert_same(one, other, atol=1e-4):
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    for node, gaussian in one.gaussians.items():
        assert np.allclose(gaussian.mean, other.gaussians[node].mean, rtol=0, atol=atol)
        assert np.allclose(gaussian.covariance, other.gaussians[node].covariance, rtol=0, atol=atol)
    for node, beta in one.roots.items():
        assert beta == pytest.approx(other.roots[node], abs=1e-2)


def many_parents(n_parents=25, n_rows=30):
    network = LogisticNetwork({"y": [f"x{k}" for k in range(n_parents)]}, prior_scale=0.5)
    rng = np.random.default_rng(SEED)
    full = network.simulate(n_rows, random_thetas(network, rng), rng)
    return network, full


SHAPES = {
    "hidden parent": ({"y": ["h"]}, {"y": 0.5}, ["h"]),
    "hidden parent, learned bias": ({"y": ["h"]}, {}, ["h"]),
    "hidden and observed parent": ({"y": ["h", "o"]}, {"y": 2.0}, ["h"]),
    "hidden common cause": ({"c": ["h"], "d": ["h"]}, {"c": 0.3, "d": -0.5}, ["h"]),
    "hidden middle": ({"h": ["o"], "y": ["h"]}, {"h": -0.2, "y": 0.4}, ["h"]),
    "two hidden parents": ({"y": ["h", "k"]}, {"y": -0.3}, ["h", "k"]),
    "cells at random": ({"y": ["a", "b"]}, {"y": 0.2}, []),
}


def small_cases(n_cases):
    """Up to 25 rows: degree 25 in a root's probability, and posteriors wider than a step of the grid."""
    for k in range(n_cases):
        rng = np.random.default_rng([SEED, k])
        parents, bias, hidden = list(SHAPES.values())[k % len(SHAPES)]
        names = list(dict.fromkeys([*parents, *(p for group in parents.values() for p in group)]))
        roots = [name for name in names if name not in parents]
        kind = k // len(SHAPES) % 4
        given = {name: float(rng.uniform(0.2, 0.8)) for name in roots}
        if kind == 1:
            del given[roots[0]]  # learned
        if kind == 2 and len(roots) == 2:
            given = np.array([[0.5, 0.2], [0.0, 0.3]])
        network = LogisticNetwork(
            parents,
            bias=bias,
            roots=given,
            coding="pm1" if k % 2 else "01",
            prior_scale=float(rng.uniform(0.7, 1.5)),
            prior_mean=float(rng.choice([0.0, 1.0])),
        )
        thetas = {
            node: rng.uniform(0.3, 0.7, 1) if node in roots else 1.5 * rng.standard_normal(network.n_coefficients(node))
            for node in network.parameters
        }
        full = network.simulate(int(rng.choice([1, 4, 12, 25])), thetas, rng)
        codes = full.codes[full.row_index].copy()
        codes[rng.random(codes.shape) < (0.3 if not hidden or kind == 3 else 0.0)] = -1
        codes[:, [names.index(h) for h in hidden]] = -1
        if (codes[:, [names.index(name) for name in parents]] < 0).all():
            continue  # nothing observed but roots
        yield network, table_of(names, codes)

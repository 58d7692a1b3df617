"""Sums over all graphs of three binary columns, families integrated on grids: slow, plain and independent."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from scipy.special import gammaln

import doxa
from doxa.data import Table
from doxa.structure.families.logistic import FamilyMixture, Logistic

NAMES = ("x0", "x1", "x2")
SCALE, WEIGHT = 2.0, 1.0
SCORES = {"logistic": Logistic(SCALE, tolerance=1e-3), "auto": FamilyMixture(WEIGHT, SCALE, tolerance=1e-3)}
REQUIRED = (("x0", "x2"), ("x1", "x2"))


@cache
def table_of(n_rows=40):
    """Few rows and a rare state: graphs, coefficients and types are all uncertain."""
    rng = np.random.default_rng(13)
    x0, x1 = rng.random(n_rows) < 0.3, rng.random(n_rows) < 0.55
    logit = -1.5 + 1.2 * (2 * x0 - 1) * 1.0 + 0.9 * (2 * x1 - 1) + 0.75 * (2 * x0 - 1) * (2 * x1 - 1)
    x2 = rng.random(n_rows) < 1 / (1 + np.exp(-logit))
    return Table.from_codes(NAMES, (("n", "y"),) * 3, np.stack([x0, x1, x2], axis=1).astype(int))


@cache
def learned(family, required=(), seed=1):
    return doxa.learn(table_of(), score=SCORES[family], prior="uniform", required=required, seed=seed)


def counts_of(child, parents):
    table = table_of()
    counts = {key: np.zeros(2) for key in product((0, 1), repeat=len(parents))}
    for row, times in zip(table.codes.tolist(), table.counts.tolist(), strict=True):
        counts[tuple(row[p] for p in parents)][row[child]] += times
    return np.array(list(counts.values()))


@cache
def logistic_family(child, parents):
    """Log evidence, tables (n_points, n_configurations) of P(child = y) on a grid, their posterior probabilities."""
    counts = counts_of(child, parents)
    d = 1 + len(parents)
    design = np.array([(1, *(2 * k - 1 for k in key)) for key in product((0, 1), repeat=len(parents))])
    axis = np.linspace(-6.0, 6.0, {1: 401, 2: 161, 3: 71}[d])  # in scales of the prior
    points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    logits = SCALE * points @ design.T
    log_p = -np.logaddexp(0, -logits) @ counts[:, 1] - np.logaddexp(0, logits) @ counts[:, 0]
    log_p -= 0.5 * (points**2).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    log_evidence = log_p.max() + np.log(p.sum()) + d * np.log((axis[1] - axis[0]) / np.sqrt(2 * np.pi))
    return log_evidence, 1 / (1 + np.exp(-logits)), p / p.sum()


def log_table_evidence(child, parents):
    counts = counts_of(child, parents)
    a = WEIGHT / counts.size
    return float(
        (gammaln(2 * a) - gammaln(2 * a + counts.sum(axis=1))).sum() + (gammaln(a + counts) - gammaln(a)).sum()
    )


def logistic_weight(family, child, parents):
    """Probability that the family is logistic; of a mixture's families with one parent at most none is."""
    if family == "logistic":
        return 1.0
    if len(parents) < 2:
        return 0.0
    return 1 / (1 + np.exp(log_table_evidence(child, parents) - logistic_family(child, parents)[0]))


def log_evidence(family, child, parents):
    if family == "logistic":
        return logistic_family(child, parents)[0]
    if len(parents) < 2:
        return log_table_evidence(child, parents)
    return np.logaddexp(log_table_evidence(child, parents), logistic_family(child, parents)[0]) - np.log(2)


def mean_of_family(family, child, parents):
    """E P(child = y | parents), shape (n_configurations,)."""
    w = logistic_weight(family, child, parents)
    weights = counts_of(child, parents)
    weights = weights + WEIGHT / weights.size
    _, tables, p = logistic_family(child, parents)
    return w * (p @ tables) + (1 - w) * weights[:, 1] / weights.sum(axis=1)


def drawn_family(family, child, parents, n, rng):
    """P(child = y | parents), drawn from grid and Dirichlet: shape (n, n_configurations)."""
    weights = counts_of(child, parents)
    weights = weights + WEIGHT / weights.size
    drawn = rng.beta(weights[:, 1], weights[:, 0], size=(n, len(weights))).clip(1e-15, 1 - 1e-15)  # never 0 / 0
    is_logistic = rng.random(n) < logistic_weight(family, child, parents)
    _, tables, p = logistic_family(child, parents)
    drawn[is_logistic] = tables[rng.choice(len(p), size=int(is_logistic.sum()), p=p)]
    return drawn


@cache
def all_graphs(family, required=()):
    """Parents of every node, and posterior probabilities."""
    needed = {(NAMES.index(a), NAMES.index(b)) for a, b in required}
    graphs, logs = [], []
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    for chosen in product((False, True), repeat=6):
        edges = {pair for pair, is_in in zip(pairs, chosen, strict=True) if is_in}
        matrix = np.array([[(i, j) in edges for j in range(3)] for i in range(3)], dtype=int)
        if np.trace(matrix) + np.trace(matrix @ matrix) + np.trace(matrix @ matrix @ matrix) or not needed <= edges:
            continue
        parents = tuple(tuple(i for i in range(3) if (i, j) in edges) for j in range(3))
        graphs.append(parents)
        logs.append(sum(log_evidence(family, j, own) for j, own in enumerate(parents)))
    p = np.exp(np.array(logs) - max(logs))
    return graphs, p / p.sum()


def joint_of(parents, tables, do):
    """p(x) by states of all nodes, (..., 2, 2, 2), from ``tables[child]`` (..., n_configurations)."""
    joint = np.zeros((*np.shape(tables[0])[:-1], 2, 2, 2))
    for states in product((0, 1), repeat=3):
        if any(states[j] != k for j, k in do.items()):
            continue
        p = np.ones(joint.shape[:-3])
        for child, own in enumerate(parents):
            if child not in do:
                place = int("".join(str(states[j]) for j in own) or "0", 2)
                yes = tables[child][..., place]
                p = p * (yes if states[child] else 1 - yes)
        joint[(..., *states)] = p
    return joint


def conditional(joint, target, given):
    """p(target = y | given), over the leading axes."""
    index = tuple(slice(given[j], given[j] + 1) if j in given else slice(None) for j in range(3))
    cut = joint[(..., *index)]
    both = cut.sum(axis=tuple(-3 + j for j in range(3) if j != target))
    return both[..., -1] / both.sum(axis=-1)


def exact_predictive(family, required, target, given, do):
    graphs, p = all_graphs(family, required)
    joints = [joint_of(g, [mean_of_family(family, j, own) for j, own in enumerate(g)], do) for g in graphs]
    return float(conditional(np.tensordot(p, np.array(joints), axes=1), target, given))


@cache
def exact_query(family, required, target, given, do, n=5000):
    """Mean of p(target = y | given, do, theta, G) and its own error, of draws from the grids of every graph."""
    graphs, p = all_graphs(family, required)
    rng = np.random.default_rng(55)
    mean, variance = 0.0, 0.0
    for weight, parents in zip(p, graphs, strict=True):
        tables = [drawn_family(family, j, own, n, rng) for j, own in enumerate(parents)]
        found = conditional(joint_of(parents, tables, dict(do)), target, dict(given))
        mean += weight * found.mean()
        variance += weight**2 * found.var() / n
    return float(mean), float(np.sqrt(variance))

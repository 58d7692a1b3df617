"""Random small discrete networks with many zeros, and the sums over all configurations that answers are held to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork
from doxa.models.markov import MarkovNetwork
from doxa.structure.exact.enumeration import all_dags

FOUR = ("a", "b", "c", "d")


def every_dag() -> list[Dag]:
    """All graphs on four nodes."""
    return [Dag.from_rows(rows, FOUR) for rows in all_dags(4)]


def random_categorical(rng: np.random.Generator, most_nodes: int = 7, zeros: float = 0.4) -> CategoricalNetwork:
    """Nodes of 1 to 3 states; rows with a share of zeros, some of them with a single one."""
    n = int(rng.integers(2, most_nodes + 1))
    order = rng.permutation(n)
    adjacency = np.zeros((n, n), dtype=bool)
    adjacency[np.ix_(order, order)] = np.triu(rng.random((n, n)) < 0.45, 1)
    dag = Dag(adjacency, [f"n{i}" for i in range(n)])
    states = {name: [f"{name}{k}" for k in range(rng.choice([1, 2, 3], p=[0.1, 0.5, 0.4]))] for name in dag.names}
    tables = {}
    for name in dag.names:
        table = rng.gamma(0.7, size=[len(states[v]) for v in (*dag.parents(name), name)]) + 1e-3
        table *= rng.random(table.shape) >= zeros
        table[..., 0] += table.sum(axis=-1) == 0
        tables[name] = table / table.sum(axis=-1, keepdims=True)
    return CategoricalNetwork(dag, tables, states)


def random_markov(rng: np.random.Generator, most_variables: int = 7, zeros: float = 0.3) -> MarkovNetwork:
    """Cliques of up to three variables, nested ones, repeated ones and a constant among them."""
    n = int(rng.integers(2, most_variables + 1))
    states = {f"v{i}": [str(k) for k in range(rng.integers(1, 4))] for i in range(n)}
    potentials = []
    for size in rng.integers(0, 4, size=n + 2):
        clique = [f"v{i}" for i in rng.permutation(n)[:size]]
        values = np.array(rng.normal(size=[len(states[v]) for v in clique]))
        allowed = np.array(rng.random(values.shape) >= zeros)
        allowed.flat[rng.integers(allowed.size)] = True
        potentials.append((clique, np.where(allowed, values, -np.inf)))
    return MarkovNetwork(states, potentials)


def random_evidence(rng: np.random.Generator, network: DiscreteNetwork, share: float = 0.35) -> Evidence:
    """Hard and soft evidence, on the same variable at times; possible or not."""
    hard, soft = {}, {}
    for v, labels in enumerate(network.states):
        if rng.random() < share:
            hard[v] = int(rng.integers(len(labels)))
        if rng.random() < share / 2:
            likelihood = rng.gamma(1.0, size=len(labels)) * (rng.random(len(labels)) < 0.7)
            likelihood[hard.get(v, rng.integers(len(labels)))] = 0.5
            soft[v] = likelihood
    return Evidence(hard, soft)


def joint(network: DiscreteNetwork, evidence: Evidence | None = None) -> NDArray[np.float64]:
    """Product of all factors and the evidence, an axis for each variable; the sum is that of the evidence."""
    sizes = [len(labels) for labels in network.states]
    grid = np.indices(sizes)
    total = np.zeros(sizes)
    for variables, log_values in network.factors:
        total = total + log_values[tuple(grid[v] for v in variables)]
    product = np.exp(total)
    given = evidence if evidence is not None else Evidence({}, {})
    for v, state in given.hard.items():
        product = product * (grid[v] == state)
    for v, likelihood in given.soft.items():
        product = product * likelihood[grid[v]]
    return product


def marginal(product: NDArray[np.float64], *variables: int) -> NDArray[np.float64]:
    """Sum over all other axes, normalised; axes in the order of ``variables``."""
    total = product.sum(axis=tuple(a for a in range(product.ndim) if a not in variables))
    ranks = np.argsort(np.argsort(variables))
    return np.asarray(total.transpose(ranks) / total.sum())


def named(network: DiscreteNetwork, evidence: Evidence) -> tuple[dict[str, str], dict[str, NDArray[np.float64]]]:
    """Evidence as a user gives it: states that were seen, and likelihoods."""
    given = {network.names[v]: network.states[v][state] for v, state in evidence.hard.items()}
    return given, {network.names[v]: likelihood for v, likelihood in evidence.soft.items()}

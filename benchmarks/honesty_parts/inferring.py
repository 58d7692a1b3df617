"""Values of networks: samplers against the listing of all states, or contraction where these are too many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import doxa
from doxa.models.factors import DiscreteNetwork
from doxa.models.ising import potts_grid
from honesty_parts.problems import Answer, Exact, Quantity, Question, kind, pick, run_seed

__all__ = ["inferred", "joint_of", "listed", "random_network"]

MOST_LISTED = 2**20
_DIRECTED = ("auto", "auto", "importance", "gibbs", "tempering")
_UNDIRECTED = ("auto", "auto", "gibbs", "tempering")


def inferred(title: str, network: Any, given: dict[str, str], method: str, seed: int) -> Question:
    """`doxa.infer`, kept from an exact answer; all states but the first of every variable that was not seen."""
    options: dict[str, Any] = {"exact_budget": 1} if method == "auto" else {}

    def ask() -> Answer:
        found = doxa.infer(network, given=given, method=method, seed=seed, **options)
        quantities = [
            Quantity.of(f"{name} = {label}", "probability", estimate)
            for name, table in found.items()
            for label, estimate in list(table.items())[1:]
        ]
        return Answer(found.judgement, quantities)

    def exact() -> Exact:
        if np.prod([float(len(states)) for states in network.states]) <= MOST_LISTED:
            return listed(network, given)
        found = doxa.infer(network, given=given, method="exact")
        return {f"{name} = {label}": e.value for name, table in found.items() for label, e in table.items()}

    seen = f", given {given}" if given else ""
    return Question(f"{title}{seen}; method {method}", ask, exact)


def joint_of(network: DiscreteNetwork, given: dict[str, str]) -> NDArray[np.float64]:
    """P(all | given), an axis for each variable, by listing every state."""
    sizes = [len(states) for states in network.states]
    logs = np.zeros(sizes)
    for variables, values in network.factors:
        order = np.argsort(variables)
        shape = [sizes[v] if v in variables else 1 for v in range(len(sizes))]
        logs += values.transpose(order).reshape(shape)
    for name, label in given.items():
        v = network.names.index(name)
        seen = np.where(np.array(network.states[v]) == label, 0.0, -np.inf)
        logs += seen.reshape([-1 if axis == v else 1 for axis in range(len(sizes))])
    joint: NDArray[np.float64] = np.exp(logs - logs.max())
    return joint / joint.sum()


def listed(network: DiscreteNetwork, given: dict[str, str]) -> dict[str, float]:
    """Marginals by listing every state of every variable."""
    joint = joint_of(network, given)
    answer = {}
    for v, (name, labels) in enumerate(zip(network.names, network.states, strict=True)):
        marginal = joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis != v))
        answer.update({f"{name} = {label}": float(p) for label, p in zip(labels, marginal, strict=True)})
    return answer


def _method(rng: np.random.Generator, methods: tuple[str, ...]) -> str:
    return methods[int(rng.integers(len(methods)))]


def random_network(
    rng: np.random.Generator, n: int, concentration: float, certain: float
) -> tuple[doxa.CategoricalNetwork, NDArray[np.int64]]:
    """A random directed network, a share of whose rows are ``certain``; and a record drawn from it."""
    n_states = rng.integers(2, 4, n)
    parents = [np.sort(rng.permutation(v)[: rng.integers(0, 4)]) for v in range(n)]
    tables, record = {}, np.zeros(n, dtype=np.int64)
    for v in range(n):
        shape = tuple(n_states[parents[v]])
        table = rng.dirichlet(np.full(n_states[v], concentration), shape)
        sure = np.eye(n_states[v])[rng.integers(0, n_states[v], shape)]
        tables[f"v{v}"] = np.where((rng.random(shape) < certain)[..., None], sure, table)
        record[v] = rng.choice(n_states[v], p=tables[f"v{v}"][tuple(record[parents[v]])])
    names = [f"v{v}" for v in range(n)]
    dag = doxa.Dag.from_edges([(f"v{p}", f"v{v}") for v in range(n) for p in parents[v]], names)
    states = {name: tuple(map(str, range(size))) for name, size in zip(names, n_states, strict=True)}
    return doxa.CategoricalNetwork(dag, tables, states), record


def _seen(rng: np.random.Generator, record: NDArray[np.int64], n_seen: int) -> dict[str, str]:
    return {f"v{v}": str(record[v]) for v in np.sort(rng.permutation(len(record))[:n_seen])}


@kind("infer", share=2)
def directed(rng: np.random.Generator, small: bool) -> Question:
    n = int(rng.integers(5, 8 if small else 13))
    network, record = random_network(rng, n, pick(rng, 0.3, 1.0), 0.0)
    given = _seen(rng, record, int(rng.integers(0, 4)))
    return inferred(f"a random network of {n} nodes", network, given, _method(rng, _DIRECTED), run_seed(rng))


@kind("infer", share=2)
def deterministic(rng: np.random.Generator, small: bool) -> Question:
    n = int(rng.integers(5, 8 if small else 13))
    network, record = random_network(rng, n, 1.0, pick(rng, 0.4, 0.7, 0.9))
    given = _seen(rng, record, int(rng.integers(1, 4)))
    return inferred(f"deterministic rows, {n} nodes", network, given, _method(rng, _DIRECTED), run_seed(rng))


@kind("infer", share=2)
def unlikely_evidence(rng: np.random.Generator, small: bool) -> Question:
    """What was seen has nothing to do with what the network makes likely."""
    n = int(rng.integers(5, 8 if small else 13))
    network, _ = random_network(rng, n, pick(rng, 0.05, 0.15), 0.0)
    record = np.array([rng.integers(len(states)) for states in network.states])
    given = _seen(rng, record, int(rng.integers(2, 5)))
    return inferred(f"unlikely evidence, {n} nodes", network, given, _method(rng, _DIRECTED), run_seed(rng))


@kind("infer", share=3)
def spins(rng: np.random.Generator, small: bool) -> Question:
    """Grids from hot to frozen."""
    side, across = (3, int(rng.integers(3, 5))) if small else (int(rng.integers(3, 5)), int(rng.integers(3, 6)))
    coupling, field = float(np.exp(rng.uniform(np.log(0.05), np.log(2.0)))), pick(rng, 0.0, 0.02, -0.05, 0.3)
    grid = doxa.ising_grid(side, across, coupling=coupling, field=field)
    title = f"spins {side} x {across}, coupling {coupling:.3f}, field {field}"
    return inferred(title, grid, {}, _method(rng, _UNDIRECTED), run_seed(rng))


@kind("infer", share=2)
def large_grids(rng: np.random.Generator, small: bool) -> Question:
    side = int(rng.integers(4, 6 if small else 9))
    coupling, field = float(np.exp(rng.uniform(np.log(0.2), np.log(1.5)))), pick(rng, 0.0, 0.005, 0.02, -0.1)
    grid = doxa.ising_grid(side, side, coupling=coupling, field=field)
    title = f"spins {side} x {side}, coupling {coupling:.3f}, field {field}"
    return inferred(title, grid, {}, _method(rng, _UNDIRECTED), run_seed(rng))


@kind("infer", share=2)
def glasses(rng: np.random.Generator, small: bool) -> Question:
    n = int(rng.integers(6, 9 if small else 17))
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < pick(rng, 0.3, 0.6)] or [(0, 1)]
    strength = float(np.exp(rng.uniform(np.log(0.1), np.log(3.0))))
    network = doxa.ising(pairs, strength * rng.normal(size=len(pairs)), rng.normal(0, 0.1, n))
    title = f"a glass of {n} spins, strength {strength:.3f}"
    return inferred(title, network, {}, _method(rng, _UNDIRECTED), run_seed(rng))


@kind("infer", share=2)
def potts(rng: np.random.Generator, small: bool) -> Question:
    q = int(rng.integers(3, 5))
    side, across = (3, 3) if small or q == 4 else (3, int(rng.integers(3, 5)))
    coupling = float(np.exp(rng.uniform(np.log(0.1), np.log(3.0))))
    field = np.round(rng.normal(0, pick(rng, 0.01, 0.1), q), 3)
    grid = potts_grid(side, across, q, coupling=coupling, field=field)
    title = f"Potts, {q} states, {side} x {across}, coupling {coupling:.3f}, field {field.tolist()}"
    return inferred(title, grid, {}, _method(rng, _UNDIRECTED), run_seed(rng))

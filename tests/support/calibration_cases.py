"""Simulation-based calibration: worlds from the prior, tables from worlds, and where the truth lies among the draws.

A graph is drawn uniformly, its parameters from their prior, a table from both, and cells are blanked at random.  Given
the table, the true graph, parameters and cells are one more draw from the posterior, so the place of any quantity of
theirs among its values in the draws of a run is uniform (Cook, Gelman & Rubin 2006; Talts et al. 2018).  Ties are
broken at random.  Quantities that look at the table too see what others cannot (Modrak et al. 2023): a run that
returned draws from the prior would have uniform places on every quantity of graph and parameters alone.

Everything about a network is computed here from its tables, by listing all states.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_expit

import doxa
from doxa.data import Table
from doxa.models.bits import unpack_rows
from doxa.structure import BDeu
from doxa.structure.averaging.draws import NetworkDraws, draw_networks
from doxa.structure.cases.incomplete import IncompleteData, cell_probabilities, find_missing_cells
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.logistic import Logistic
from support.checks import SEED
from support.ranks import place

Floats = NDArray[np.float64]
Score = BDeu | Logistic

SIZES = (2, 3, 2, 2)  # states of the columns; two for logistic families
ROWS, ESS = 20, 2.0
CHAINS, DRAWS, WARMUP = 2, 10, 6


class Network(NamedTuple):
    """A graph, its parameters and a completed table."""

    parents: list[tuple[int, ...]]
    log_tables: list[Floats]  # (states of parents..., states)
    log_prior: float  # log density of the parameters given the graph, up to a constant of the graph's own
    codes: NDArray[np.int16]  # (n_rows, n_nodes)
    log_score: float  # log P(table | graph), parameters integrated out

    @property
    def adjacency(self) -> NDArray[np.bool_]:
        n = len(self.parents)
        made = np.zeros((n, n), dtype=bool)
        for child, group in enumerate(self.parents):
            made[list(group), child] = True
        return made

    def log_joint(self, do: dict[int, int] | None = None) -> Floats:
        """Log p(x) by state of every node; nodes that are set have no factor and a single state of their own."""
        n, sizes = len(self.parents), [table.shape[-1] for table in self.log_tables]
        total = np.zeros(sizes)
        for child, (group, table) in enumerate(zip(self.parents, self.log_tables, strict=True)):
            if do and child in do:
                allowed = np.full(sizes[child], -np.inf)
                allowed[do[child]] = 0.0
                total = total + allowed.reshape([-1 if j == child else 1 for j in range(n)])
                continue
            axes = [*group, child]
            shape = [sizes[j] if j in axes else 1 for j in range(n)]
            total = total + table.transpose(np.argsort(axes)).reshape(shape)
        return total


class World(NamedTuple):
    """What was true, and the table that is seen of it."""

    score: Score
    truth: Network
    table: Table
    hidden: tuple[str, ...] = ()  # columns without a value


class Setting(NamedTuple):
    """How worlds are drawn and runs are made."""

    score: Score = BDeu(ESS)
    share: float = 0.0  # of cells blank
    exact: bool = False  # all graphs summed
    sampler: str = "auto"
    hidden: bool = False  # the last of four columns is never seen
    turns: int = 2  # between draws: then they are correlated by less than .05


SETTINGS = {
    "complete": Setting(),
    "complete, summed": Setting(exact=True),
    "10% blank": Setting(share=0.1),
    "30% blank": Setting(share=0.3),
    "30% blank, single_edge": Setting(share=0.3, sampler="single_edge"),
    "logistic": Setting(Logistic()),
    "hidden": Setting(hidden=True, turns=20),
}


# --- worlds ----------------------------------------------------------------------------------------------------------


def draw_world(rng: np.random.Generator, score: Score, n: int, n_rows: int, share: float) -> World:
    """A graph from all of n nodes, parameters, rows, and a share of cells blanked at random."""
    sizes = [2] * n if isinstance(score, Logistic) else list(SIZES[:n])
    dags = all_dags(n)
    adjacency = unpack_rows(dags[rng.integers(len(dags))], n)
    parents = [tuple(np.flatnonzero(adjacency[:, child]).tolist()) for child in range(n)]
    drawn = [_draw_family(rng, score, [sizes[p] for p in group], r) for group, r in zip(parents, sizes, strict=True)]
    tables = [table for table, _ in drawn]
    truth = Network(parents, tables, sum(density for _, density in drawn), np.zeros((0, n), dtype=np.int16), 0.0)
    chances = np.exp(truth.log_joint()).ravel()
    cells = rng.choice(chances.size, size=n_rows, p=chances / chances.sum())
    codes = np.stack(np.unravel_index(cells, sizes), axis=1).astype(np.int16)
    seen = codes.copy()
    while True:
        blank = rng.random(codes.shape) < share
        if blank.any() == (share > 0) and not blank.all(axis=0).any():  # a column without values is refused
            break  # says nothing of values: the posterior is what it was
    seen[blank] = -1
    truth = truth._replace(codes=codes, log_score=_log_score(score, codes, sizes, parents))
    return World(score, truth, _table(seen, sizes))


def _table(codes: NDArray[np.integer], sizes: list[int]) -> Table:
    return Table.from_codes([f"x{j}" for j in range(len(sizes))], [[f"s{k}" for k in range(r)] for r in sizes], codes)


def _log_score(score: Score, codes: NDArray[np.integer], sizes: list[int], parents: list[tuple[int, ...]]) -> float:
    scores = FamilyScores(_table(codes, sizes), score)
    return sum(scores.log_score(f"x{j}", tuple(f"x{p}" for p in group)) for j, group in enumerate(parents))


def _draw_family(rng: np.random.Generator, score: Score, sizes: list[int], r: int) -> tuple[Floats, float]:
    """Log table of a family drawn from its prior, and the log density of its parameters."""
    if isinstance(score, Logistic):
        coefficients = rng.normal(0.0, score.prior_scale, size=1 + len(sizes))
        logits = np.full([2] * len(sizes), coefficients[0])
        for j, states in enumerate(product((0, 1), repeat=len(sizes))):
            logits.ravel()[j] += coefficients[1:] @ (2.0 * np.array(states) - 1) if sizes else 0.0
        return np.stack([log_expit(-logits), log_expit(logits)], axis=-1), _log_normal(coefficients, score)
    q = int(np.prod(sizes))
    a = score.equivalent_sample_size / (q * r)
    log_gamma = np.log(rng.gamma(a + 1, size=(q, r))) + np.log(rng.random((q, r))) / a  # of shape a, without underflow
    log_table = log_gamma - np.logaddexp.reduce(log_gamma, axis=1, keepdims=True)
    return log_table.reshape([*sizes, r]), _log_dirichlet(log_table, a)


def _log_dirichlet(log_table: Floats, a: float) -> float:
    r = log_table.shape[-1]
    return float((a - 1) * log_table.sum() + log_table.size / r * (gammaln(r * a) - r * gammaln(a)))


def _log_normal(coefficients: Floats, score: Logistic) -> float:
    z = coefficients / score.prior_scale
    return float(-0.5 * z @ z - z.size * np.log(score.prior_scale * np.sqrt(2 * np.pi)))


# --- draws -----------------------------------------------------------------------------------------------------------


def networks_of(world: World, posterior: Any, *, n: int | None = None, mean: bool = False) -> list[Network]:
    """The networks of a run, parameters drawn or (``mean``, which is wrong) at their mean; a chain after the other."""
    draws = draw_networks(posterior, posterior.table, n)
    log_score = posterior.log_score.ravel()[draws.draws]
    seen = np.array(posterior.table.codes[posterior.table.row_index])
    place = _cells(posterior.table)
    cells = posterior.trace["cells"].reshape(-1, len(place[0])) if (seen < 0).any() else None
    found = []
    for t, number in enumerate(draws.draws.tolist()):
        codes = seen
        if cells is not None:
            codes = seen.copy()
            codes[place] = cells[number]
        tables = [draws.log_table(t, node, mean) for node in range(len(draws.names))]
        prior = sum(_log_prior(world.score, draws, t, node, table) for node, table in enumerate(tables))
        found.append(Network(draws.parents[t], tables, prior, codes, float(log_score[t])))
    return found


def _log_prior(score: Score, draws: NetworkDraws, t: int, node: int, log_table: Floats) -> float:
    if isinstance(score, Logistic):
        family = (node, draws.parents[t][node])
        return _log_normal(draws.drawn_coefficients(family)[draws.place[t][node]], score)
    return _log_dirichlet(log_table, score.equivalent_sample_size / log_table.size)


def _cells(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the source and columns of the missing cells, in the order of the draws."""
    if not table.n_missing:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    empty = [name for name, count in table.missing_by_column.items() if count == table.n_rows]
    missing_cells = find_missing_cells(table, empty)
    return missing_cells.source_row[missing_cells.row], missing_cells.column


# --- quantities ------------------------------------------------------------------------------------------------------


class Look:
    """What quantities take from the table, and from draws other than those that are ranked."""

    def __init__(self, world: World, others: list[Network]) -> None:
        table = world.table
        self.seen = np.array(table.codes[table.row_index])
        self.place = _cells(table)
        both = (self.seen[:, 0] >= 0) & (self.seen[:, 2] >= 0)
        a, b = self.seen[both, 0] == 0, self.seen[both, 2] == 0
        self.sign = 1.0 if 2 * (a == b).sum() >= both.sum() else -1.0
        self.association = _association(self.seen, [len(states) for states in table.states])
        share = (sum(net.adjacency for net in others) + 0.5) / (len(others) + 1)
        self.log_odds = np.log(share / (1 - share))
        self.log_cells = np.zeros((0, 0))
        if len(self.place[0]):
            data = IncompleteData(table, world.score, hidden=list(world.hidden))
            rows = np.stack([_bits(net.adjacency) for net in others])
            cells = np.stack([net.codes[self.place] for net in others])
            with np.errstate(divide="ignore"):
                self.log_cells = np.log(cell_probabilities(data, rows, cells))


def _bits(adjacency: NDArray[np.bool_]) -> NDArray[np.uint64]:
    return (adjacency @ (1 << np.arange(len(adjacency)))).astype(np.uint64)[:, None]


def _association(codes: NDArray[np.integer], sizes: list[int]) -> Floats:
    """Mutual information of pairs of columns, rows in which both are seen; in nats a row of the table."""
    n = len(sizes)
    found = np.zeros((n, n))
    for i, j in product(range(n), repeat=2):
        both = (codes[:, i] >= 0) & (codes[:, j] >= 0)
        if i < j and both.any():
            p = np.zeros((sizes[i], sizes[j]))
            np.add.at(p, (codes[both, i], codes[both, j]), 1.0 / both.sum())
            expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
            found[i, j] = found[j, i] = (p[p > 0] * np.log(p[p > 0] / expected[p > 0])).sum()
    return found


def quantities(net: Network, look: Look) -> dict[str, float]:
    """Everything that is ranked, of one network."""
    n, adjacency, log_joint = len(net.parents), net.adjacency, net.log_joint()
    joint = np.exp(log_joint)
    complete = float(log_joint[tuple(net.codes.T)].sum())
    observed = sum(
        np.log(joint[tuple(slice(None) if code < 0 else code for code in row)].sum()) for row in look.seen.tolist()
    )
    pair = joint.sum(axis=tuple(j for j in range(n) if j not in (0, 2)))  # of x0 and x2
    given = pair / pair.sum(axis=1, keepdims=True)
    intervened = np.exp(net.log_joint({0: 1}))
    found = {f"x{i} -> x{j}": float(adjacency[i, j]) for i in range(3) for j in range(3) if i != j}
    found |= {
        "number of edges": float(adjacency.sum()),
        "association along the edges": float((look.association * adjacency).sum()),
        "edges against their probabilities": float((look.log_odds * adjacency).sum()),
        "P(x2)": pair[:, 0].sum(),
        "P(x2 | x0)": given[0, 0],
        "P(x1 | do(x0))": float(np.moveaxis(intervened, 1, 0)[0].sum()),
        "effect in the table's direction": look.sign * (given[0, 0] - given[1, 0]),
        "log P(table, cells | graph)": net.log_score,
        "log p(seen | graph, parameters)": observed,
        "log joint density": net.log_prior + complete,
    }
    if len(look.place[0]):
        cells = net.codes[look.place]
        found |= {
            "first missing cell": float(cells[0]),
            "missing cells in first states": float((cells == 0).sum()),
            "rows with x0 = x2": float((net.codes[:, 0] == net.codes[:, 2]).sum()),
            "log p(cells | all else)": complete - observed,
            "cells against their probabilities": float(look.log_cells[np.arange(len(cells)), cells].sum()),
        }
    return found


LABELLED = ("first missing cell", "missing cells in first states", "cells against their probabilities")  # of a hidden
# column these depend on which of its states is called the first, and chains keep to one way of calling them
SPLIT = ("edges against their probabilities", "cells against their probabilities")  # half of the draws judge the rest


def places(world: World, networks: list[Network], rng: np.random.Generator) -> dict[str, float]:
    """Where the truth lies among the draws, by quantity: uniform on (0, 1) if these are of the posterior."""
    half = len(networks) // 2
    look = Look(world, networks[:half])
    truth, drawn = quantities(world.truth, look), [quantities(net, look) for net in networks]
    found = {}
    for name, value in truth.items():
        if world.hidden and name in (*LABELLED, "rows with x0 = x2"):
            continue
        ranked = np.array([values[name] for values in drawn[half * (name in SPLIT) :]])
        found[name] = place(ranked, value, rng)
    return found


def world_of(setting: Setting, number: int) -> tuple[World, np.random.Generator]:
    """The world of a replication, of three and of four columns in turn, and a generator to go on with."""
    rng = np.random.default_rng([SEED, list(SETTINGS.values()).index(setting), number])
    n = 4 if setting.hidden else 3 + number % 2
    world = draw_world(rng, setting.score, n, ROWS, setting.share)
    if setting.hidden:
        names, seen = world.table.names, np.array(world.table.codes[world.table.row_index])
        world = world._replace(table=_table(seen[:, :-1], list(SIZES[: n - 1])), hidden=names[-1:])
    return world, rng


def run_of(setting: Setting, table: Table, number: int, equivalent_sample_size: float = ESS) -> Any:
    """The run of a replication, as users make it."""
    options: dict[str, Any] = {"prior": "uniform"}  # from which the worlds are drawn
    if isinstance(setting.score, Logistic):
        options |= {"family": "logistic"}
    else:
        options |= {"equivalent_sample_size": equivalent_sample_size}
    if setting.exact:
        return doxa.learn(table, seed=number, **options)
    if setting.hidden:
        options |= {"hidden": {f"x{len(table.names)}": SIZES[len(table.names)]}}
    thin = setting.turns * 5 * len(table.names) ** 2
    options |= {"sampler": setting.sampler, "exact": False, "chains": CHAINS, "draws": DRAWS, "warmup": WARMUP}
    return doxa.learn(table, thin=thin, seed=number, workers=1, progress=False, **options)


def replication(setting: Setting, number: int, equivalent_sample_size: float = ESS) -> dict[str, float]:
    """Places of the truth in one replication."""
    world, rng = world_of(setting, number)
    posterior = run_of(setting, world.table, number, equivalent_sample_size)
    world = world._replace(table=posterior.table)  # with the hidden column
    return places(world, networks_of(world, posterior, n=CHAINS * DRAWS), rng)


def study(setting: Setting, numbers: range, equivalent_sample_size: float = ESS) -> list[dict[str, float]]:
    """Places of the truth in these replications."""
    return [replication(setting, number, equivalent_sample_size) for number in numbers]

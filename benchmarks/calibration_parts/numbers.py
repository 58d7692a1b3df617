r"""`doxa.learn` on numbers, and on numbers and categories: linear, conditional Gaussian, additive families, and either.

Worlds have three columns, a graph that is drawn uniformly from those that the families allow, and parameters from their
prior: residual variances :math:`\mathrm{InvGamma}((2 + p + 1) / 2, 1 / 4)` for p parents that are numbers,
intercepts :math:`N(0, \sigma^2)`, slopes :math:`N(0, \sigma^2 / t)` with t = 1/2; tables from Dirichlet distributions,
log odds from normal ones of scale 2.  That prior is of numbers as they are, so numbers are not scaled here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

import doxa
from doxa.data import Table
from doxa.data.scaled import Scaled
from doxa.models import Dag, GaussianNetwork, LogOdds, Regression
from doxa.models.bits import unpack_rows
from doxa.structure import Additive, AdditiveMixture, BGe, ConditionalGaussian
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.cases.incomplete import find_missing_cells
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.families.cache import FamilyScores
from support.checks import SEED
from support.ranks import place

__all__ = ["NUMBERS", "NUMBER_SETTINGS", "NumberSetting", "draw_network", "numbers", "unscaled"]

Floats = NDArray[np.float64]

ROWS, CHAINS, DRAWS, WARMUP = 14, 2, 10, 6
SAMPLE_SIZE, LOG_ODDS, FREEDOM, T = 2.0, 2.0, 2.0, 0.5


class NumberSetting(NamedTuple):
    """How worlds are drawn and runs are made."""

    kind: Any  # of families: what worlds are drawn from
    is_number: tuple[bool, ...]
    share: float = 0.0  # of cells blank
    turns: int = 2  # between draws
    exact: bool = False
    learned_as: Any = None  # another kind, which is wrong


def unscaled(table: Table, like: Scaled | None = None) -> Scaled:  # noqa: ARG001
    """Numbers as they are: the prior is then that of the model that made the table."""
    assert table.numbers is not None
    nan = np.where(table.is_number, 0.0, np.nan)
    return Scaled(np.ascontiguousarray(table.numbers.T), nan, nan + 1.0, (None,) * table.n_columns)


@contextmanager
def _numbers_as_they_are() -> Iterator[None]:
    with ExitStack() as stack:
        for module in ("cases.incomplete.missing_cells", "families.cache", "averaging.number_draws"):
            stack.enter_context(patch(f"doxa.structure.{module}.scaled", unscaled))
        yield


# --- worlds ----------------------------------------------------------------------------------------------------------


def draw_network(rng: np.random.Generator, setting: NumberSetting) -> GaussianNetwork:
    is_number = np.array(setting.is_number)
    n = len(is_number)
    graphs = unpack_rows(all_dags(n), n)
    graphs = graphs[~(graphs & setting.kind.forbidden_edges(is_number)).any(axis=(1, 2))]
    graph = graphs[rng.integers(len(graphs))]
    names = [f"{'x' if one else 'c'}{j}" for j, one in enumerate(is_number.tolist())]
    regressions, tables, log_odds = {}, {}, {}
    for node, name in enumerate(names):
        parents = np.flatnonzero(graph[:, node])
        p, c = int(is_number[parents].sum()), int((~is_number[parents]).sum())
        additive = _is_additive(rng, setting.kind, p, is_number[node])
        if is_number[node]:
            regressions[name] = _draw_regression(rng, p, c, additive)
        elif additive:
            intercept, slopes = LOG_ODDS * rng.standard_normal(1), LOG_ODDS * rng.standard_normal(p)
            moved = _added(intercept, LOG_ODDS * rng.standard_normal(c))
            odds = (moved[..., None], np.broadcast_to(slopes, (2,) * c + (1, p)))
            if p:
                log_odds[name] = LogOdds(*odds)
            else:
                tables[name] = np.exp(np.stack([log_expit(-moved), log_expit(moved)], axis=-1))
        else:
            a = SAMPLE_SIZE / 2 ** (c + 1)
            tables[name] = rng.dirichlet([a, a], (2,) * c)
    dag = Dag.from_edges([(names[i], names[j]) for i, j in np.argwhere(graph)], names)
    states = {name: ["n", "y"] for name, one in zip(names, is_number.tolist(), strict=True) if not one}
    return GaussianNetwork(dag, regressions, tables, states, log_odds)


def _is_additive(rng: np.random.Generator, kind: Any, p: int, is_number: bool) -> bool:
    """Whether a family's effects are added; in a mixture, as the prior probability has it where both are possible."""
    if isinstance(kind, AdditiveMixture):
        return bool(rng.random() < 0.5) if is_number else p > 0
    return isinstance(kind, Additive)


def _draw_regression(rng: np.random.Generator, p: int, c: int, additive: bool) -> Regression:
    shape = () if additive else (2,) * c
    variance = T / 2 / rng.gamma((FREEDOM + p + 1) / 2, size=shape)
    intercept = np.sqrt(variance) * rng.standard_normal(shape)
    slopes = np.sqrt(variance / T)[..., None] * rng.standard_normal((*shape, p))
    if additive:
        intercept = _added(intercept, np.sqrt(variance / T) * rng.standard_normal(c))
        slopes = np.broadcast_to(slopes, (2,) * c + (p,))
        variance = np.broadcast_to(variance, (2,) * c)
    return Regression(intercept, slopes, np.sqrt(variance))


def _added(intercept: Any, effects: Floats) -> Floats:
    """Intercepts by the states of categories, whose contrasts are -1 and +1."""
    total = np.asarray(intercept, dtype=float).reshape((1,) * len(effects) if np.size(intercept) == 1 else ())
    total = total if len(effects) else total.reshape(())
    for axis, effect in enumerate(effects):
        total = total + effect * np.array([-1.0, 1.0]).reshape([2 if k == axis else 1 for k in range(len(effects))])
    return total


def _cells_of(table: Table) -> Floats:
    """All cells of a table, (n_rows, n_columns): states' codes and numbers; NaN where missing."""
    assert table.numbers is not None
    codes = table.codes[table.row_index].astype(float)
    codes[codes < 0] = np.nan
    return np.where(table.is_number, table.numbers[table.row_index], codes)


def _table(cells: Floats, is_number: NDArray[np.bool_], names: tuple[str, ...]) -> Table:
    codes = np.where(np.isnan(cells) & ~is_number, -1, np.where(is_number, 0, np.nan_to_num(cells))).astype(int)
    states = [() if one else ("n", "y") for one in is_number.tolist()]
    return Table.from_codes(names, states, codes, numbers=np.where(is_number, cells, np.nan))


# --- quantities ------------------------------------------------------------------------------------------------------


def _log_density(network: GaussianNetwork, cells: Floats) -> float:
    """Log density of complete rows."""
    total = 0.0
    is_number = np.array([not states for states in network.states])
    for node, name in enumerate(network.names):
        parents = np.array(network.parents[node], dtype=int)
        at = tuple(cells[:, j].astype(int) for j in parents[~is_number[parents]])
        x, own = cells[:, parents[is_number[parents]]], cells[:, node]
        if name in network.regressions:
            intercept, slopes, sd = network.regressions[name]
            gap = own - intercept[at] - (slopes[at] * x).sum(axis=-1)
            total += float((-0.5 * (gap / sd[at]) ** 2 - np.log(sd[at] * np.sqrt(2 * np.pi)) + 0 * own).sum())
        elif name in network.log_odds:
            intercept, slopes = network.log_odds[name]
            odds = intercept[at][..., 0] + (slopes[at][..., 0, :] * x).sum(axis=-1)
            total += float(log_expit(np.where(own == 1, odds, -odds)).sum())
        else:
            with np.errstate(divide="ignore"):
                total += float(np.log(network.tables[name][(*at, own.astype(int))]).sum())
    return total


def _quantities(
    network: GaussianNetwork, cells: Floats, log_score: float, missing: Any, sign: float
) -> dict[str, float]:
    adjacency = network.dag.adjacency
    names = network.names
    found = {f"{names[i]} -> {names[j]}": float(adjacency[i, j]) for i in range(3) for j in range(3) if i != j}
    last = names[-1]
    intercept, slopes, sd = network.regressions[last]
    parents = [names[p] for p in network.parents[2] if names[p] in network.regressions]
    slope = float(slopes.reshape(-1, len(parents))[-1, parents.index("x1")]) if "x1" in parents else 0.0
    found |= {
        "number of edges": float(adjacency.sum()),
        f"intercept of {last}": float(np.ravel(intercept)[0]),
        f"scatter of {last}": float(np.ravel(sd)[-1]),
        f"slope of {last} on x1": slope,
        f"slope of {last} on x1, in the table's direction": sign * slope,
        "log P(table, cells | graph)": log_score,
        "log p(table, cells | graph, parameters)": _log_density(network, cells),
    }
    if names[0] == "c0":
        odds, table = network.log_odds.get("c0"), network.tables.get("c0")
        found["slope of c0's log odds"] = 0.0 if odds is None else float(np.ravel(odds.coefficients)[0])
        found["P(c0) at 0"] = float(table[0] if table is not None else log_expit(-np.ravel(odds.intercept)[0]))
    rows, columns = missing
    if len(rows):
        is_number = np.array([not states for states in network.states])
        values = cells[rows, columns]
        found |= {
            "first missing cell": float(values[0]),
            "sum of missing numbers": float(values[is_number[columns]].sum()),
            "spread of missing numbers": float((values[is_number[columns]] ** 2).sum()),
            "missing categories": float(values[~is_number[columns]].sum()),
        }
    return found


def numbers(setting: NumberSetting, index: int, number: int) -> dict[str, float]:
    """Places of the truth in one replication; ``index`` is that of the setting."""
    rng = np.random.default_rng([SEED, 700 + index, number])
    is_number = np.array(setting.is_number)
    truth = draw_network(rng, setting)
    while True:
        cells = _cells_of(truth.simulate(ROWS, rng))
        blank = rng.random(cells.shape) < setting.share
        if blank.any() == (setting.share > 0) and not blank.all(axis=0).any():
            break  # says nothing of values
    seen = np.where(blank, np.nan, cells)
    table = _table(seen, is_number, truth.names)
    kind = setting.learned_as or setting.kind
    with _numbers_as_they_are():
        scores = FamilyScores(_table(cells, is_number, truth.names), setting.kind)
        parents = [tuple(truth.names[p] for p in group) for group in truth.parents]
        log_score = sum(scores.log_score(name, group) for name, group in zip(truth.names, parents, strict=True))
        options: dict[str, Any] = {"score": kind, "prior": "uniform", "seed": number, "progress": False}
        if not setting.exact:
            length = {"chains": CHAINS, "draws": DRAWS, "warmup": WARMUP, "thin": setting.turns * 5 * 9}
            options |= {"exact": False, "workers": 1, **length}
        posterior = doxa.learn(table, **options)
        draws = draw_networks(posterior, posterior.table, CHAINS * DRAWS)
        own_score = posterior.log_score.ravel()[draws.draws]
        missing_cells = find_missing_cells(posterior.table) if setting.share else None
        missing = (np.zeros(0, int),) * 2
        if missing_cells is not None:
            missing = (missing_cells.source_row[missing_cells.row], missing_cells.column)
            drawn_cells = posterior.trace["cells"].reshape(-1, len(missing[0]))
        both = ~np.isnan(seen[:, 1:]).any(axis=1)
        sign = 1.0 if np.cov(seen[both, 1:].T)[0, 1] >= 0 else -1.0
        ranked = []
        for t, draw in enumerate(draws.draws.tolist()):
            whole = seen.copy()
            if missing_cells is not None:
                whole[missing] = drawn_cells[draw]
            ranked.append(_quantities(draws.network(t), whole, float(own_score[t]), missing, sign))
    true = _quantities(truth, cells, log_score, missing, sign)
    impossible = setting.kind.forbidden_edges(is_number)
    return {
        name: place(np.array([one[name] for one in ranked]), value, rng)
        for name, value in true.items()
        if not any(name == f"{truth.names[i]} -> {truth.names[j]}" for i, j in np.argwhere(impossible))
    }


_MIXED = (False, True, True)
NUMBER_SETTINGS = {
    "gaussian": NumberSetting(BGe(), (True, True, True)),
    "gaussian, summed": NumberSetting(BGe(), (True, True, True), exact=True),
    "gaussian, 20% blank": NumberSetting(BGe(), (True, True, True), 0.2),
    "conditional gaussian": NumberSetting(ConditionalGaussian(SAMPLE_SIZE), _MIXED),
    "conditional gaussian, 20% blank": NumberSetting(ConditionalGaussian(SAMPLE_SIZE), _MIXED, 0.2),
    "additive": NumberSetting(Additive(), _MIXED),
    "additive, 20% blank": NumberSetting(Additive(), _MIXED, 0.2),
    "conditional gaussian or additive": NumberSetting(AdditiveMixture(SAMPLE_SIZE), _MIXED),
}
NUMBERS = {name: partial(numbers, one, k) for k, (name, one) in enumerate(NUMBER_SETTINGS.items())}

"""`doxa.fit`: coefficients and tables from their prior, tables of cases from them, ranks among the draws."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import doxa
from doxa import CategoricalNetwork, Dag, LogisticNetwork, Table
from support.checks import SEED
from support.ranks import place

__all__ = ["FITS", "FIT_SETTINGS", "FitSetting", "coefficients"]

KEPT = 30  # draws that ranks are among
THIN = 8
PARENTS = {"y": ["a", "b"], "b": ["a"]}
SCALE = 1.2
SAMPLE_SIZE = 2.0


class FitSetting(NamedTuple):
    """How tables are made and fitted."""

    share: float = 0.0  # of cells blank
    hide: tuple[str, ...] = ()
    roots: dict[str, float] | None = None
    method: str = "auto"
    fitted_scale: float = SCALE  # another is wrong


def _blanked(table: Table, share: float, rng: np.random.Generator, hide: tuple[str, ...] = ()) -> Table:
    codes = table.codes[table.row_index].copy()
    codes[rng.random(codes.shape) < share] = -1
    for name in hide:
        codes[:, table.names.index(name)] = -1
    return Table.from_codes(table.names, table.states, codes)


def coefficients(setting: FitSetting, index: int, number: int) -> dict[str, float]:
    """Places of coefficients and of their log likelihood, which sees what the coefficients alone do not."""
    rng = np.random.default_rng([SEED, 800 + index, number])
    network = LogisticNetwork(PARENTS, prior_scale=SCALE, roots=setting.roots)
    fitted = LogisticNetwork(PARENTS, prior_scale=setting.fitted_scale, roots=setting.roots)
    thetas = {
        node: rng.random(1) if node in network.roots else SCALE * rng.standard_normal(network.n_coefficients(node))
        for node in network.parameters
    }
    table = _blanked(network.simulate(40, thetas, rng), setting.share, rng, setting.hide)
    length: dict[str, Any] = {"chains": 2, "draws": THIN * KEPT // 2, "warmup": 40}
    fit = doxa.fit(fitted, table, method=setting.method, seed=number, workers=1, progress=False, **length)
    thinned = {node: _thinned(fit.draws(node)) for node in thetas}
    likelihood = network.likelihood(table)
    found = {"log likelihood": place(likelihood.log_likelihood(thinned), likelihood.log_likelihood(thetas), rng)}
    for node, theta in thetas.items():
        for j, value in enumerate(theta.tolist()):
            found[f"{node}, {j}"] = place(thinned[node][:, j], value, rng)
    return found


def _thinned(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    return draws[:, THIN - 1 :: THIN].reshape(-1, *draws.shape[2:])


def tables(share: float, fitted_size: float, index: int, number: int) -> dict[str, float]:
    """Places of probabilities of a given graph's tables, and of the log likelihood of what was seen."""
    rng = np.random.default_rng([SEED, 850 + index, number])
    dag = Dag.from_edges([("a", "b"), ("a", "c"), ("b", "c")])
    states = {"a": ["n", "y"], "b": ["u", "v", "w"], "c": ["n", "y"]}
    shapes = {"a": (2,), "b": (2, 3), "c": (2, 3, 2)}
    true = {name: _dirichlet(rng, SAMPLE_SIZE / np.prod(shape), shape) for name, shape in shapes.items()}
    table = _blanked(CategoricalNetwork(dag, true, states).simulate(30, rng), share, rng)
    if (0 in table.missing_by_column.values() and share) or any(n == 30 for n in table.missing_by_column.values()):
        return {}  # depends on which cells are blank alone
    length: dict[str, Any] = {"chains": 2, "draws": THIN * KEPT // 2, "warmup": 40} if share else {}
    fit = doxa.fit(dag, table, equivalent_sample_size=fitted_size, seed=number, progress=False, workers=1, **length)
    drawn = {name: fit.draws(name) for name in shapes}
    step = max(1, drawn["a"].shape[0] * drawn["a"].shape[1] // KEPT)
    thinned = {name: one.reshape(-1, *one.shape[2:])[step - 1 :: step][:KEPT] for name, one in drawn.items()}
    cells = table.codes[table.row_index]
    likelihoods = np.array([_log_seen({n: v[t] for n, v in thinned.items()}, cells) for t in range(len(thinned["a"]))])
    found = {"log likelihood": place(likelihoods, _log_seen(true, cells), rng)}
    at = {"P(a)": ("a", (0,)), "P(b | a)": ("b", (1, 2)), "P(c | a, b)": ("c", (0, 1, 1))}
    return found | {
        name: place(thinned[node][(slice(None), *cell)], float(true[node][cell]), rng)
        for name, (node, cell) in at.items()
    }


def _dirichlet(rng: np.random.Generator, a: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rng.dirichlet([a] * shape[-1], shape[:-1])


def _log_seen(of: dict[str, Any], cells: NDArray[np.int16]) -> float:
    joint = np.einsum("i,ij,ijk->ijk", of["a"], of["b"], of["c"])
    with np.errstate(divide="ignore"):
        return float(
            sum(np.log(joint[tuple(slice(None) if k < 0 else k for k in row)].sum()) for row in cells.tolist())
        )


FIT_SETTINGS = {
    "complete": FitSetting(),
    "complete, hmc": FitSetting(method="hmc"),
    "complete, independence": FitSetting(method="independence"),
    "20% blank": FitSetting(0.2),
    "20% blank, augmentation": FitSetting(0.2, method="augmentation"),
    "hidden root": FitSetting(hide=("a",), roots={"a": 0.4}),
}
FITS = {name: partial(coefficients, one, k) for k, (name, one) in enumerate(FIT_SETTINGS.items())} | {
    "tables": partial(tables, 0.0, SAMPLE_SIZE, 0),
    "tables, 20% blank": partial(tables, 0.2, SAMPLE_SIZE, 1),
}

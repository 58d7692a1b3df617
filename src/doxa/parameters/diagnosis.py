"""Diagnoses of many coefficients, and what of them is not accurate enough yet.

Each diagnosis of `doxa.estimates.diagnose_real` takes thousandths of a second.  At every look of a run over hundreds of
coefficients only those are diagnosed that look worst by cheap stand-ins, computed for all at once: split R-hat without
ranks, and effective draws by batch means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.estimates.accuracy import confirmed, is_settled, real_shortfalls
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.stopping import Shortfall, Until, worst_shortfall
from doxa.estimates.trace import Trace
from doxa.parameters.targets import RootPosterior

__all__ = ["chains_of", "check_quantities", "has_settled", "missing", "worst_columns"]

Floats: TypeAlias = NDArray[np.float64]

_FEW = 48  # columns that are all diagnosed
_WORST = 16  # columns of each stand-in that are diagnosed where there are more
_BATCHES = 20


def chains_of(draws: Floats) -> Floats:
    """Draws (group, draw, walker, ...) as (chain, draw, ...): each walker of each group is a chain."""
    moved = np.moveaxis(draws, 2, 1)
    return moved.reshape(-1, *moved.shape[2:])


def worst_columns(draws: Floats) -> NDArray[np.intp]:
    """Columns of draws (chain, draw, d) that have to be diagnosed to know how the worst of all fares."""
    n_chains, n_draws, d = draws.shape
    if d <= _FEW:
        return np.arange(d)
    half = n_draws // 2
    halves = draws[:, : 2 * half].reshape(2 * n_chains, half, d)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.nan_to_num(between / within, nan=np.inf)
    n_batches = min(_BATCHES, n_draws // 2)
    size = n_draws // n_batches
    means = draws[:, : n_batches * size].reshape(n_chains, n_batches, size, d).mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        time = np.nan_to_num(size * means.var(axis=1, ddof=1).mean(axis=0) / within, nan=np.inf)
    return np.union1d(np.argsort(-spread)[:_WORST], np.argsort(-time)[:_WORST])


def has_settled(trace: Trace) -> bool:
    """Whether the chains of one warm-up epoch agree, in every coefficient and log density."""
    for name in trace.names:
        if name.endswith((".theta", ".log_density")):
            draws = chains_of(trace[name])
            columns = draws.reshape(*draws.shape[:2], -1)
            for k in worst_columns(columns):
                if len(columns) > 1 and not is_settled(diagnose_real(columns[..., k]).r_hat):
                    return False
    return True


def missing(
    trace: Trace, labels: Sequence[Sequence[str]], until: Until, known: Mapping[int, RootPosterior] | None = None
) -> Shortfall | None:
    """The coefficient that is farthest from what ``until`` asks; None when none is, at two looks.

    Parameters
    ----------
    trace : Trace
        With draws ``k.theta`` of each part k but the known ones.
    labels : sequence of sequences of str
        What the coefficients of each part are called.
    until : Until
    known : mapping of int to RootPosterior, optional
        Parts whose independent draws are made when they are asked for: here if ``until`` names them.
    """
    known = known or {}
    everything = {k: chains_of(trace[f"{k}.theta"]) for k in range(len(labels)) if k not in known}
    asked = {k: root for k, root in known.items() if set(labels[k]).intersection(until.quantities or ())}
    everything |= {k: root.chains(trace, k) for k, root in asked.items()}

    def assess(n_draws: int) -> Shortfall | None:
        return worst_shortfall([*_shortfalls({k: d[:, :n_draws] for k, d in everything.items()}, labels, until)])

    return confirmed(assess, trace.n_draws, until, trace.n_warmup // trace.thin)


def _shortfalls(parts: Mapping[int, Floats], labels: Sequence[Sequence[str]], until: Until) -> list[Shortfall]:
    found: list[Shortfall] = []
    for k, draws in parts.items():
        asked = [j for j in worst_columns(draws) if until.quantities is None or labels[k][j] in until.quantities]
        if until.quantities is not None:
            asked = [j for j, label in enumerate(labels[k]) if label in until.quantities]
        for j in asked:
            found += real_shortfalls(labels[k][j], diagnose_real(draws[..., j]), until)
    return found


def check_quantities(until: Until, labels: Sequence[Sequence[str]]) -> None:
    """Raise `ArgumentError` when ``until`` monitors a coefficient that there is not."""
    known = {label for part in labels for label in part}
    for name in until.quantities or ():
        if name not in known:
            example = next(iter(known))
            raise ArgumentError(
                f"until.quantities names {name!r}, which is no coefficient; write for example {example!r}"
            )

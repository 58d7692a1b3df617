"""What a structure run watches: is it settled after warm-up, and accurate enough to stop?

Probabilities of edges and adjacencies are watched by their Monte Carlo errors, which grow where chains disagree; the
log score and the number of edges by R-hat and effective draws, since they show a chain in another mode soonest.  What
is accurate enough is decided in `doxa.estimates.accuracy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from doxa.errors import ArgumentError
from doxa.estimates.accuracy import confirmed, indicator_shortfalls, is_settled, real_shortfalls
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.stopping import Shortfall, Until, worst_shortfall
from doxa.estimates.trace import Trace

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["check_quantities", "has_settled", "missing"]

_RUN_WIDE = ("log_score", "n_edges")


def check_quantities(until: Until, names: tuple[str, ...]) -> None:
    """Raise `ArgumentError` when ``until`` monitors something that the run does not have."""
    known = {*_RUN_WIDE, *_pair_names(names, "->"), *_pair_names(names, "--")}
    for name in until.quantities or ():
        if name not in known:
            raise ArgumentError(
                f"until.quantities names {name!r}, which is not monitored; write an edge as "
                f"'{names[0]} -> {names[1]}', an adjacency as '{names[0]} -- {names[1]}', or one of "
                f"{', '.join(_RUN_WIDE)}"
            )


def has_settled(trace: Trace) -> bool:
    """Whether the chains of one warm-up epoch agree in the log score and the number of edges."""
    return all(is_settled(diagnose_real(trace[name].astype(np.float64)).r_hat) for name in _RUN_WIDE)


def missing(posterior: StructurePosterior, until: Until) -> Shortfall | None:
    """The monitored quantity that is farthest from what ``until`` asks; None when all are there, at two looks."""
    trace = posterior.trace

    def assess(n_draws: int) -> Shortfall | None:
        part = posterior if n_draws == trace.n_draws else _beginning(posterior, n_draws)
        return worst_shortfall([*_run_wide(part, until), *_probabilities(part, until)])

    return confirmed(assess, trace.n_draws, until, trace.n_warmup // trace.thin)


def _beginning(posterior: StructurePosterior, n_draws: int) -> StructurePosterior:
    """The posterior by the first draws of each chain."""
    draws = {name: posterior.trace[name][:, :n_draws] for name in posterior.trace.names}
    return type(posterior)(posterior.names, Trace(draws), posterior.sampler, posterior.options)


def _run_wide(posterior: StructurePosterior, until: Until) -> Iterator[Shortfall]:
    for name, diagnosis in zip(_RUN_WIDE, (posterior.log_score_diagnosis, posterior.n_edges_diagnosis), strict=True):
        yield from real_shortfalls(name, diagnosis, until)


def _probabilities(posterior: StructurePosterior, until: Until) -> Iterator[Shortfall]:
    names = posterior.names
    every_edge = ~np.eye(len(names), dtype=np.bool_)
    for arrow, diagnostics, pairs in (
        ("->", posterior.edge_diagnostics, every_edge),
        ("--", posterior.adjacency_diagnostics, np.triu(every_edge)),
    ):
        yield from indicator_shortfalls(partial(_pair_name, names, arrow), diagnostics, until, pairs)


def _pair_name(names: tuple[str, ...], arrow: str, i: int, j: int) -> str:
    return f"{names[i]} {arrow} {names[j]}"


def _pair_names(names: tuple[str, ...], arrow: str) -> Iterator[str]:
    for i in range(len(names)):
        for j in range(len(names)):
            if (arrow == "->" and i != j) or i < j:
                yield _pair_name(names, arrow, i, j)

"""What a structure run watches: is it settled after warm-up, and accurate enough to stop?

Probabilities of edges and adjacencies are watched by their Monte Carlo errors, which grow where chains disagree; the
log score and the number of edges by R-hat and effective draws, since they show a chain in another mode soonest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.indicators import IndicatorDiagnostics
from doxa.estimates.stopping import Shortfall, Until, worst_shortfall
from doxa.estimates.trace import Trace

if TYPE_CHECKING:
    from doxa.structure.posterior import StructurePosterior

__all__ = ["check_quantities", "has_settled", "missing"]

SETTLED_R_HAT = 1.05  # of the log score and the number of edges over one warm-up epoch

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
    for name in _RUN_WIDE:
        r_hat = diagnose_real(trace[name].astype(np.float64)).r_hat
        if r_hat > SETTLED_R_HAT:  # nan, where nothing ever changed, is no disagreement
            return False
    return True


def missing(posterior: StructurePosterior, until: Until) -> Shortfall | None:
    """The monitored quantity that is farthest from what ``until`` asks; None when all are there."""
    asked = None if until.quantities is None else set(until.quantities)
    found = [*_run_wide(posterior, until), *_probabilities(posterior, until)]
    return worst_shortfall([shortfall for shortfall in found if asked is None or shortfall.name in asked])


def _run_wide(posterior: StructurePosterior, until: Until) -> Iterator[Shortfall]:
    for name, diagnosis in zip(_RUN_WIDE, (posterior.log_score_diagnosis, posterior.n_edges_diagnosis), strict=True):
        if diagnosis.r_hat > until.r_hat:
            factor = (diagnosis.r_hat - 1.0) / (until.r_hat - 1.0)
            yield Shortfall(name, "R-hat", diagnosis.r_hat, until.r_hat, factor)
        if diagnosis.bulk_ess < until.ess:
            factor = until.ess / max(diagnosis.bulk_ess, 1.0)
            yield Shortfall(name, "number of effective draws", diagnosis.bulk_ess, until.ess, factor)


def _probabilities(posterior: StructurePosterior, until: Until) -> Iterator[Shortfall]:
    names = posterior.names
    asked = until.quantities
    for arrow, diagnostics in (("->", posterior.edge_diagnostics), ("--", posterior.adjacency_diagnostics)):
        short = (diagnostics.mcse > until.mcse) & _off_diagonal(diagnostics, arrow)
        for i, j in np.argwhere(short):
            name = f"{names[i]} {arrow} {names[j]}"
            if asked is None or name in asked:
                error = float(diagnostics.mcse[i, j])
                yield Shortfall(name, "Monte Carlo error", error, until.mcse, (error / until.mcse) ** 2)


def _off_diagonal(diagnostics: IndicatorDiagnostics, arrow: str) -> NDArray[np.bool_]:
    n = len(diagnostics.mcse)
    return ~np.eye(n, dtype=np.bool_) if arrow == "->" else np.triu(np.ones((n, n), dtype=np.bool_), 1)


def _pair_names(names: tuple[str, ...], arrow: str) -> Iterator[str]:
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            if (arrow == "->" and i != j) or i < j:
                yield f"{first} {arrow} {second}"

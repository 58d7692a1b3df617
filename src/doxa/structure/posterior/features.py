"""Posterior probabilities of what graphs say, as frames and estimates: what `StructurePosterior` answers by.

Each is a frequency over the draws (Riggelsen, ch. 4, eq. 4.12), worked out once for every different graph of the sample
and then diagnosed as a 0/1 quantity of the chains, so every number has its Monte Carlo error.  The compiled reading of
graphs is in `doxa.structure.posterior.relations`, the errors are in `doxa.estimates`.
"""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa import estimates
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.estimate import Estimate
from doxa.estimates.indicators import IndicatorDiagnostics, diagnose_indicators
from doxa.models import Dag
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.posterior.relations import label_rows
from doxa.text import listed

if TYPE_CHECKING:
    import pandas as pd

    from doxa.models.dag import Nodes
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = [
    "DIAGNOSED",
    "adjustment_sets",
    "frequency_of",
    "mean_over_draws",
    "most_probable_first",
    "pair_frame",
    "parent_sets",
]

DIAGNOSED = ("probability", "mcse", "ess", "r_hat")  # columns of every frame
MOST_ROWS = 100_000  # of pairs of nodes that are listed unasked
_AT_A_TIME = 64  # parent sets diagnosed together: 64 bytes a draw


def parent_sets(posterior: StructurePosterior, node: str, most: int) -> pd.DataFrame:
    """See `StructurePosterior.parent_sets`."""
    import pandas as pd

    from doxa.frames import ReadFrame

    if node not in posterior.names:
        raise ArgumentError(
            f"node is {node!r}, which is not in this posterior; its nodes are {listed(posterior.names)}"
        )
    most = check_whole("most", most, 1)
    rows, which = posterior._distinct
    n = len(posterior.names)
    at = posterior.names.index(node)
    is_parent = (rows[:, :, at >> 6] >> np.uint64(at & 63) & np.uint64(1)).astype(np.bool_)
    sets = pack_rows(is_parent)
    first, label = label_rows(sets)
    counts = np.bincount(label, weights=np.bincount(which.ravel()))
    best = np.argsort(-counts, kind="stable")[:most]
    of_draws = label[which]
    columns: dict[str, list[Any]] = {name: [] for name in DIAGNOSED}
    for start in range(0, len(best), _AT_A_TIME):
        chosen = best[start : start + _AT_A_TIME]
        found = diagnose_indicators(IndicatorCounts.from_draws(of_draws[..., None] == chosen), posterior.reference_ess)
        for name, values in columns.items():
            values.extend(getattr(found, name))
    members = unpack_rows(sets[first[best]], n)
    parents = [tuple(posterior.names[i] for i in np.flatnonzero(member)) for member in members]
    return ReadFrame({"parents": pd.Series(parents, dtype=object), **columns})


def adjustment_sets(posterior: StructurePosterior, cause: Nodes, effect: Nodes, most: int) -> pd.DataFrame:
    """See `StructurePosterior.adjustment_sets`."""
    import pandas as pd

    most = check_whole("most", most, 1)
    rows, which = posterior._distinct
    dags = [Dag.from_rows(graph, posterior.names) for graph in rows]
    n_draws = np.bincount(which.ravel(), minlength=len(dags))
    found: Counter[tuple[str, ...]] = Counter()
    for dag, n in zip(dags, n_draws.tolist(), strict=True):
        given = dag.adjustment_set(cause, effect)
        if given is not None:
            found[given] += n
    sets = [given for given, _ in found.most_common(most)]
    valid = np.array([[dag.is_adjustment_set(cause, effect, given) for given in sets] for dag in dags], dtype=np.bool_)
    columns: dict[str, Any] = {name: np.empty(0) for name in DIAGNOSED}
    if sets:
        diagnostics = diagnose_indicators(IndicatorCounts.from_draws(valid[which]), posterior.reference_ess)
        columns = {name: getattr(diagnostics, name) for name in DIAGNOSED}
    return most_probable_first(pd.DataFrame({"given": pd.Series(sets, dtype=object), **columns}))


def mean_over_draws(posterior: StructurePosterior, values: Sequence[object], function: str) -> Estimate:
    """Mean over the draws of what a function returned for every different graph of the sample.

    Parameters
    ----------
    posterior : StructurePosterior
    values : sequence
        One value for each different graph, in the order of ``posterior._distinct``: numbers, or True and False.
    function : str
        Name of the argument that returned them, for messages.

    Returns
    -------
    Estimate
        With the error of an indicator when all values are True or False, else that of a real quantity.

    Raises
    ------
    ArgumentError
        If a value is not a finite number.
    """
    _, which = posterior._distinct
    if all(isinstance(value, (bool, np.bool_)) for value in values):
        return frequency_of(posterior, np.array(values, dtype=np.bool_)[which])
    numbers = []
    for value in values:
        try:
            numbers.append(float(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ArgumentError(f"{function} returned {value!r}; it must return a number, True or False") from None
    draws = np.array(numbers)[which]
    if not np.isfinite(draws).all():
        raise ArgumentError(f"{function} returned a value that is not finite; its posterior mean would not be a number")
    return estimates.diagnose_real(draws).estimate


def frequency_of(posterior: StructurePosterior, holds: NDArray[np.bool_]) -> Estimate:
    """Share of the draws for which something holds, shape (chain, draw), with its error."""
    return diagnose_indicators(IndicatorCounts.from_draws(holds), posterior.reference_ess).estimate()


def pair_frame(
    posterior: StructurePosterior,
    columns: tuple[str, str],
    diagnostics: IndicatorDiagnostics,
    least: float | None,
    where: str | Iterable[str] | None,
    *,
    once: bool = False,
    with_past: bool = False,
) -> pd.DataFrame:
    """A frame with a row for each ordered pair of nodes, or for each pair once, most probable first.

    ``least`` and ``where`` say which, as for `StructurePosterior.edges`.  Pairs of copies of the past are left out,
    and those that lead into it, unless ``with_past``.
    """
    from doxa.frames import ReadFrame

    names = posterior.names
    here, there = np.arange(len(names))[:, None], np.arange(len(names))
    most = len(names) if with_past else posterior.options.n_present
    wanted = (here < there) & (here < most) if once else (here != there) & (there < most)
    if where is not None:
        near = _nodes(names, where)
        wanted = wanted & (near[:, None] | near)
    if least is not None:
        if isinstance(least, bool) or not isinstance(least, numbers.Real) or not 0.0 <= float(least) <= 1.0:
            raise ArgumentError(f"least is {least!r}; it must be a probability, from 0 to 1")
        wanted = wanted & (diagnostics.probability >= float(least))
    elif where is None and int(wanted.sum()) > MOST_ROWS:
        wanted = wanted & (diagnostics.probability > 0.0)
    i, j = np.nonzero(wanted)
    data: dict[str, Any] = {
        columns[0]: [names[k] for k in i.tolist()],
        columns[1]: [names[k] for k in j.tolist()],
    } | {name: getattr(diagnostics, name)[i, j] for name in DIAGNOSED}
    return most_probable_first(ReadFrame(data))


def _nodes(names: Sequence[str], where: str | Iterable[str]) -> NDArray[np.bool_]:
    """Which nodes are named."""
    wanted = [where] if isinstance(where, str) else list(where)
    for node in wanted:
        if node not in names:
            raise ArgumentError(f"where names {node!r}, which is not a node; the nodes are {listed(names)}")
    return np.isin(np.array(names, dtype=object), np.array(wanted, dtype=object))


def most_probable_first(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows by probability; equal ones stay in their order."""
    return frame.sort_values("probability", ascending=False, kind="stable", ignore_index=True)

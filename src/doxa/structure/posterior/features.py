"""Posterior probabilities of what graphs say: classes of edges, ancestors, Markov blankets, parent sets, any function.

Each is a frequency over the draws (Riggelsen, ch. 4, eq. 4.12), worked out once for every different graph of the sample
and then diagnosed as a 0/1 quantity of the chains, so every number has its Monte Carlo error.  The compiled reading of
graphs is in `doxa.structure.posterior.relations`, the errors are in `doxa.estimates`.
"""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa import estimates
from doxa.checks import check_whole
from doxa.data.slices import name_and_lag
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.estimate import Estimate
from doxa.estimates.indicators import IndicatorDiagnostics, diagnose_indicators, diagnose_words
from doxa.models import Dag
from doxa.models.bits import pack_rows, unpack_rows

if TYPE_CHECKING:
    import pandas as pd

    from doxa.models.dag import Nodes
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = [
    "adjustment_sets",
    "ancestors",
    "cpdag_edges",
    "edge_position",
    "feature_mean",
    "frequency_of",
    "listed",
    "markov_blankets",
    "mean_over_draws",
    "pair_frame",
    "parent_sets",
]

MOST_ROWS = 100_000  # of pairs of nodes that are listed unasked
_AT_A_TIME = 64  # parent sets diagnosed together: 64 bytes a draw


def edges(
    posterior: StructurePosterior, least: float | None = None, where: str | Iterable[str] | None = None
) -> pd.DataFrame:
    """Posterior probability of every directed edge; see `StructurePosterior.edges`."""
    n_present = posterior.options.n_present
    diagnostics = posterior.edge_diagnostics
    frame = pair_frame(posterior.names, ("source", "target"), diagnostics, False, least, where, n_present)
    if posterior.options.order is not None:
        told = [name_and_lag(name) for name in frame["source"]]
        frame["source"] = [name for name, _ in told]
        frame.insert(2, "lag", [lag for _, lag in told])
    return frame


def cpdag_edges(
    posterior: StructurePosterior, least: float | None = None, where: str | Iterable[str] | None = None
) -> pd.DataFrame:
    """Posterior probability of every edge of the equivalence class: what data alone can tell of directions.

    Parameters
    ----------
    posterior : StructurePosterior
    least, where : optional
        Which pairs, as for `StructurePosterior.edges`.

    Returns
    -------
    pandas.DataFrame
        Columns ``source, target, kind, probability, mcse, ess, r_hat``, most probable first.  ``kind`` is
        ``"directed"`` for a compelled edge source -> target, which all graphs of the class share (one row for each
        ordered pair), and ``"undirected"`` for an edge that has either direction in some graph of the class (one row
        for each pair, in the order of the nodes).  The three rows of a pair add up to the probability that the
        two are joined.  Where somebody intervened, the classes are interventional: fewer edges are reversible.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> posterior.cpdag_edges().loc[0, ["source", "target", "kind"]].tolist()
    ['mental', 'phys', 'undirected']
    """
    import pandas as pd

    from doxa.structure.posterior.relations import class_rows

    rows, _ = posterior._distinct
    frames = []
    for kind, found in zip(("directed", "undirected"), class_rows(rows, posterior.options.targets), strict=True):
        diagnostics = _relation_diagnostics(posterior, found)
        once, present = kind == "undirected", posterior.options.n_present
        frame = pair_frame(posterior.names, ("source", "target"), diagnostics, once, least, where, present)
        frame.insert(2, "kind", kind)
        frames.append(frame)
    filled = [frame for frame in frames if len(frame)] or frames  # an empty one would change the types of columns
    return _most_probable_first(pd.concat(filled, ignore_index=True))


def ancestors(
    posterior: StructurePosterior, least: float | None = None, where: str | Iterable[str] | None = None
) -> pd.DataFrame:
    """Posterior probability that there is a directed path from one node to another.

    Parameters
    ----------
    posterior : StructurePosterior
    least, where : optional
        Which pairs, as for `StructurePosterior.edges`.

    Returns
    -------
    pandas.DataFrame
        Columns ``ancestor, descendant, probability, mcse, ess, r_hat``, one row for each ordered pair of nodes, most
        probable first.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> paths = posterior.ancestors().set_index(["ancestor", "descendant"])["probability"]
    >>> bool(paths["smoke", "systol"] > posterior.edge("smoke", "systol").value)
    True
    """
    from doxa.structure.posterior.relations import descendant_rows

    rows, _ = posterior._distinct
    diagnostics = _relation_diagnostics(posterior, descendant_rows(rows))
    present = posterior.options.n_present
    return pair_frame(posterior.names, ("ancestor", "descendant"), diagnostics, False, least, where, present)


def markov_blankets(
    posterior: StructurePosterior, least: float | None = None, where: str | Iterable[str] | None = None
) -> pd.DataFrame:
    """Posterior probability that one node belongs to the Markov blanket of another.

    Parameters
    ----------
    posterior : StructurePosterior
    least, where : optional
        Which pairs, as for `StructurePosterior.edges`.

    Returns
    -------
    pandas.DataFrame
        Columns ``node, member, probability, mcse, ess, r_hat``, most probable first.  Membership is mutual; each pair
        stands in both orders, so that the rows with one ``node`` are its blanket.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> frame = posterior.markov_blankets()
    >>> frame[frame["node"] == "smoke"]["member"].head(2).tolist()
    ['phys', 'protein']
    """
    from doxa.structure.posterior.relations import blanket_rows

    rows, _ = posterior._distinct
    diagnostics = _relation_diagnostics(posterior, blanket_rows(rows))
    return pair_frame(posterior.names, ("node", "member"), diagnostics, least=least, where=where)


def parent_sets(posterior: StructurePosterior, node: str, most: int = 10) -> pd.DataFrame:
    """Posterior probability of the parent sets of a node.

    Parameters
    ----------
    posterior : StructurePosterior
    node : str
        Name of the node.
    most : int, default=10
        How many to return; there may be fewer.

    Returns
    -------
    pandas.DataFrame
        Columns ``parents, probability, mcse, ess, r_hat``, most probable first; ``parents`` is a tuple of names in the
        order of the nodes.  Sets that no sampled graph has are not listed.

    Raises
    ------
    ArgumentError
        If ``node`` is not a node of the posterior, or ``most`` is below 1.
    ArgumentTypeError
        If ``most`` is not a whole number.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> posterior.parent_sets("family", most=1).loc[0, "parents"]
    ()
    """
    import pandas as pd

    from doxa.frames import ReadFrame
    from doxa.structure.posterior.relations import label_rows

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
    columns: dict[str, list[Any]] = {name: [] for name in ("probability", "mcse", "ess", "r_hat")}
    for start in range(0, len(best), _AT_A_TIME):
        chosen = best[start : start + _AT_A_TIME]
        found = diagnose_indicators(IndicatorCounts.from_draws(of_draws[..., None] == chosen), posterior.reference_ess)
        for name, values in columns.items():
            values.extend(getattr(found, name))
    members = unpack_rows(sets[first[best]], n)
    parents = [tuple(posterior.names[i] for i in np.flatnonzero(member)) for member in members]
    return ReadFrame({"parents": pd.Series(parents, dtype=object), **columns})


def feature_mean(posterior: StructurePosterior, f: Callable[[Dag], float]) -> Estimate:
    """Posterior mean of any function of the graph: see `StructurePosterior.feature`.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> feature_mean(posterior, lambda dag: dag.n_edges) == posterior.expected_edges
    True
    """
    if not callable(f):
        raise ArgumentTypeError(f"f is {f!r}; give a function that makes a number of a Dag")
    rows, _ = posterior._distinct
    return mean_over_draws(posterior, [f(Dag.from_rows(graph, posterior.names)) for graph in rows], "f")


def adjustment_sets(posterior: StructurePosterior, cause: Nodes, effect: Nodes, most: int = 10) -> pd.DataFrame:
    """Posterior probability that adjusting for a set identifies the effect of one node on another.

    Parameters
    ----------
    posterior : StructurePosterior
    cause, effect : node or iterable of nodes
        As `Dag.adjustment_set` takes them.
    most : int, default=10
        How many sets to return; there may be fewer.

    Returns
    -------
    pandas.DataFrame
        Columns ``given, probability, mcse, ess, r_hat``, most probable first; ``given`` is a tuple of names in the
        order of the nodes.  Listed are the sets that `Dag.adjustment_set` finds in most draws; each counts in every
        graph where it is valid.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> posterior.adjustment_sets("smoke", "systol").columns.tolist()
    ['given', 'probability', 'mcse', 'ess', 'r_hat']
    """
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
    columns: dict[str, Any] = {name: np.empty(0) for name in ("probability", "mcse", "ess", "r_hat")}
    if sets:
        diagnostics = diagnose_indicators(IndicatorCounts.from_draws(valid[which]), posterior.reference_ess)
        columns = {name: getattr(diagnostics, name) for name in columns}
    return _most_probable_first(pd.DataFrame({"given": pd.Series(sets, dtype=object), **columns}))


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
    names: Sequence[str],
    columns: tuple[str, str],
    diagnostics: IndicatorDiagnostics,
    once: bool = False,
    least: float | None = None,
    where: str | Iterable[str] | None = None,
    n_present: int | None = None,
) -> pd.DataFrame:
    """A frame with a row for each ordered pair of nodes, or for each pair once, most probable first.

    ``least`` and ``where`` say which, as for `StructurePosterior.edges`.  Of nodes from position
    ``n_present`` on, copies of the past, there are those with an edge to the present.
    """
    from doxa.frames import ReadFrame

    here, there = np.arange(len(names))[:, None], np.arange(len(names))
    most = len(names) if n_present is None else n_present
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
        "probability": diagnostics.probability[i, j],
        "mcse": diagnostics.mcse[i, j],
        "ess": diagnostics.ess[i, j],
        "r_hat": diagnostics.r_hat[i, j],
    }
    return _most_probable_first(ReadFrame(data))


def _nodes(names: Sequence[str], where: str | Iterable[str]) -> NDArray[np.bool_]:
    """Which nodes are named."""
    wanted = [where] if isinstance(where, str) else list(where)
    for node in wanted:
        if node not in names:
            raise ArgumentError(f"where names {node!r}, which is not a node; the nodes are {listed(names)}")
    return np.isin(np.array(names, dtype=object), np.array(wanted, dtype=object))


def edge_position(names: Sequence[str], source: str, target: str) -> tuple[int, int]:
    """Positions of the ends of an edge; ArgumentError if a name is not a node, or both are the same."""
    for node in (source, target):
        if node not in names:
            known = ", ".join(repr(name) for name in names)
            raise ArgumentError(f"{node!r} is not a node of this posterior; its nodes are {known}")
    if source == target:
        raise ArgumentError(f"source and target are both {source!r}; an edge joins two different nodes")
    return names.index(source), names.index(target)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in quotes, the first ``most`` of them."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f", ... {len(names) - most} more" if len(names) > most else "")


def _relation_diagnostics(posterior: StructurePosterior, rows: NDArray[np.uint64]) -> IndicatorDiagnostics:
    """Diagnostics of a relation between nodes, given as bit rows of every different graph."""
    _, which = posterior._distinct
    return diagnose_words(rows[which], len(posterior.names), posterior.reference_ess)


def _most_probable_first(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values("probability", ascending=False, kind="stable", ignore_index=True)

"""`learn`: from a table to the posterior over graphs."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table, read_table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import Shortfall, Until
from doxa.estimates.trace import Trace
from doxa.mcmc.driver import Schedule, check_whole, run_chains
from doxa.structure.cache import FamilyScores
from doxa.structure.markov_blanket import MarkovBlanket
from doxa.structure.monitor import check_quantities, has_settled, missing
from doxa.structure.posterior import RunOptions, StructurePosterior
from doxa.structure.sampler import StructureMove, StructureSampler
from doxa.structure.single_edge import SingleEdge

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

__all__ = ["SAMPLERS", "learn"]

SAMPLERS: dict[str, Any] = {"auto": SingleEdge, "single_edge": SingleEdge, "markov_blanket": MarkovBlanket}


def learn(
    table: Table | IntoDataFrame | str | os.PathLike[str],
    *,
    equivalent_sample_size: float = 1.0,
    sampler: str | StructureMove = "auto",
    max_parents: int | None = None,
    chains: int = 4,
    draws: int | None = None,
    warmup: int | None = None,
    thin: int | None = None,
    until: Until | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> StructurePosterior:
    """Sample the posterior over directed acyclic graphs given a complete table of categories.

    Parameters
    ----------
    table : Table, data frame or path
        As `doxa.read_table` takes it; at least two columns and no missing cells.
    equivalent_sample_size : float, default=1.0
        Weight of the BDeu prior, in cases, above 0.
    sampler : str or move, default="auto"
        ``"single_edge"``, ``"markov_blanket"``, or an object such as ``MarkovBlanket(k=5, w=0.95)`` from
        `doxa.structure`.  ``"auto"`` is doxa's choice, at present ``"single_edge"``; the result names it.
    max_parents : int, optional
        Largest number of parents of a node; any number when left out.
    chains : int, default=4
        Independent chains, started from random graphs.
    draws : int, optional
        Graphs kept from each chain, at least 4.  When left out, as many as ``until`` asks for.
    warmup : int, optional
        Draws discarded before that.  When left out: half of ``draws`` if these are given, else until the chains agree
        in the log score and the number of edges.
    thin : int, optional
        Steps between draws; when left out n(n - 1) for n columns, so that each pair of nodes has its turns, but at
        least 200.
    until : Until, optional
        The accuracy at which to stop, and limits; ``Until()`` when neither it nor ``draws`` is given.
    seed : int, optional
        The same seed and options give the same draws, whatever the number of workers.  Fresh when left out, and
        kept in the trace.
    workers : int, optional
        Chains that run at the same time: when left out, what an active ``joblib.parallel_config`` says, else one for
        each core.
    progress : bool, optional
        Show a progress bar on standard error; when left out, if that is a terminal.

    Returns
    -------
    StructurePosterior

    Raises
    ------
    TableError
        If the table cannot be read, has a single column, or has missing cells.
    ArgumentError, ArgumentTypeError
        If an option is out of range or of the wrong type, or both ``draws`` and ``until`` are given; the message names
        it.
    TimeUpError
        If ``until.max_seconds`` ends in the warm-up.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    >>> posterior.converged
    True
    """
    move = _move(sampler)
    if draws is not None and until is not None:
        raise ArgumentError(f"draws is {draws!r} and until is {until!r}: both say when to stop; give one of them")
    if draws is not None and warmup is None:
        warmup = check_whole("draws", draws, 4) // 2
    if until is not None and not isinstance(until, Until):
        raise ArgumentTypeError(f"until is {until!r}; it must be an Until, such as doxa.Until(mcse=0.005)")
    until = Until() if until is None else until
    data = table if isinstance(table, Table) else read_table(table)
    scores = FamilyScores(data, equivalent_sample_size)
    caps = _caps(max_parents, scores.n_nodes)
    n = scores.n_nodes
    thin = max(200, n * (n - 1)) if thin is None else check_whole("thin", thin, 1)
    bound = StructureSampler(move, scores, caps, thin)
    _load_diagnostics_meanwhile()
    check_quantities(until, data.names)
    options = RunOptions(scores.equivalent_sample_size, tuple(int(cap) for cap in caps), data.n_rows, data.digest)

    def assess(trace: Trace) -> Shortfall | None:
        return missing(StructurePosterior(data.names, trace, move, options), until)

    run = run_chains(
        bound,
        Schedule(chains, draws, warmup),
        until=until,
        assess=assess,
        settled=has_settled,
        seed=seed,
        workers=workers,
        progress=progress,
    )
    return StructurePosterior(data.names, run.trace, move, options, scores.use, run.stop)


def _load_diagnostics_meanwhile() -> None:
    """Import arviz-stats, which takes seconds, while compiled loops run without the GIL."""
    threading.Thread(target=import_module, args=("arviz_stats.base",), daemon=True).start()


def _move(sampler: str | StructureMove) -> StructureMove:
    if isinstance(sampler, str):
        if sampler not in SAMPLERS:
            raise ArgumentError(f"sampler is {sampler!r}; it must be one of {', '.join(map(repr, SAMPLERS))}")
        made: StructureMove = SAMPLERS[sampler]()
        return made
    if isinstance(sampler, type) or not hasattr(sampler, "advance"):
        raise ArgumentTypeError(
            f"sampler is {sampler!r}; it must be a name ({', '.join(map(repr, SAMPLERS))}) or a move such as "
            "SingleEdge()"
        )
    return sampler


def _caps(max_parents: int | None, n_nodes: int) -> NDArray[np.int64]:
    cap = n_nodes - 1 if max_parents is None else check_whole("max_parents", max_parents, 0)
    return np.full(n_nodes, min(cap, n_nodes - 1), dtype=np.int64)

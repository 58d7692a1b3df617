"""Structure runs on disk: what a run file says of itself, how a run is gone on with, how a file is read back.

The file itself is `doxa.estimates.store`'s.  Here is what the options of a structure run mean.

`save_run` writes a posterior, which has draws, options and the reason why its run stopped, but does not know where the
chains stand.  Such a file says so (its option ``saved``): it can be read for ever, and not gone on with.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any

import numpy as np

from doxa.data import Table
from doxa.data.options import TableSource
from doxa.errors import ArgumentError
from doxa.estimates.stopping import StopReport, Until
from doxa.estimates.store import (
    RunFileError,
    RunHeader,
    RunReader,
    RunWriter,
    check_can_go_on,
    create_run,
    open_reader,
    open_writer,
    stored_stop,
    write_trace,
)
from doxa.estimates.store.writer import stop_as_json
from doxa.estimates.trace import Trace
from doxa.models.bits import n_words
from doxa.sampling.driver import Schedule
from doxa.schema import By, Within, check_array, made_of_fields
from doxa.structure.limits import check_graphs
from doxa.structure.moves.by_name import Exact, move_from_settings, move_settings
from doxa.structure.posterior.exact_answer import ExactStructurePosterior, KeptSums
from doxa.structure.posterior.structure_posterior import StructurePosterior
from doxa.structure.runs.options import BESIDE, RunOptions
from doxa.structure.runs.plan import RunPlan
from doxa.text import shown

__all__ = ["FREE", "KIND", "begin", "go_on", "header_of", "load", "save_run"]

KIND = "structure"


def save_run(posterior: StructurePosterior, path: str | os.PathLike[str]) -> None:
    """Write a posterior to a new file, from which `doxa.load` makes an equal one.

    Parameters
    ----------
    posterior : StructurePosterior
        From a finished run, or loaded.  What the score caches of this process did is not kept.
    path : str or path-like
        A name that is not taken.

    Raises
    ------
    RunFileError
        If the name is taken, or the file cannot be written; there is then no file of that name, whole or in part.
    ArgumentError
        If the sampler is not one of doxa's own: another could not be made again from the file.

    Examples
    --------
    >>> import doxa, tempfile
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), exact=False, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_run(posterior, f"{folder}/run.doxa")
    ...     doxa.load(f"{folder}/run.doxa").verdict == posterior.verdict
    True
    """
    write_trace(path, _header(posterior), posterior.trace)


def _header(posterior: StructurePosterior) -> RunHeader:
    trace, options = posterior.trace, posterior.options
    described = options.to_json() | {
        "sampler": move_settings(posterior.sampler),
        "warmup": trace.n_warmup // trace.thin,
        "draws": trace.n_draws,
        "until": {},
        "source": posterior.source,
        "saved": {"doxa": version("doxa"), "stop": stop_as_json(posterior.stop), "how": posterior.how},
    }
    if isinstance(posterior, ExactStructurePosterior):
        described["sums"] = KeptSums.of(posterior.exact, posterior.names).to_json()
    created = datetime.now(UTC).isoformat(timespec="seconds")
    # which versions made the draws, a posterior does not know
    return RunHeader(KIND, described, options.data_digest, {}, trace.n_chains, trace.thin, trace.entropy, created)


FREE = ("draws", "until", "source", "stop")  # options that may change when a run is gone on with


def begin(path: str | os.PathLike[str], plan: RunPlan) -> RunWriter:
    """Make the run file of a new run."""
    return create_run(path, header_of(plan))


def go_on(
    path: str | os.PathLike[str], table: Table | None, draws: int | None, until: Until | None
) -> tuple[RunPlan, RunWriter]:
    """Open the file of an interrupted or finished run to continue it.

    Raises
    ------
    RunFileError
        If the file is no structure run, holds a saved posterior without chains, or was made from another table or with
        other versions; the difference is named.
    """
    with open_reader(path, check=False) as reader:
        header, options, beside, _ = _checked(reader)
    check_can_go_on(path, header, "doxa.learn(table")
    stored = header.options
    if not isinstance(header.entropy, int):
        raise RunFileError(f"'{path}' does not say its seed, a whole number, so it cannot be gone on with")
    if table is not None:
        table = options.declared(table)
    elif stored["source"] is None:
        raise ArgumentError(f"'{path}' does not say where its table came from; give the table again")
    else:
        table = options.read_again(stored["source"])
    plan = RunPlan(
        table,
        dataclasses.replace(options, n_rows=table.n_rows, data_digest=table.digest, n_missing=table.n_unknown),
        beside.sampler,
        header.thin,
        Schedule(header.n_chains, draws if draws is not None or until is not None else beside.draws, beside.warmup),
        beside.until if until is None else until,
        header.entropy,
        stored["source"],
    )
    if options.names != table.names:
        raise RunFileError(
            f"'{path}' is a run over the columns {', '.join(options.names)}; the table now has {', '.join(table.names)}"
        )
    writer = open_writer(path, header_of(plan), free=FREE)
    try:
        options.check_table(table)
    except ArgumentError as error:
        writer.close()
        raise RunFileError(f"'{path}' cannot be continued: {error}") from error
    writer.check_trace = partial(_check_draws_of, plan)
    return plan, writer


def _check_draws_of(plan: RunPlan, trace: Trace) -> None:
    """`check_draws`, and whether missing cells have states of their columns."""
    check_draws(plan.options, trace)
    if plan.options.n_missing:
        from doxa.structure.cases.incomplete.missing_cells import find_missing_cells

        find_missing_cells(plan.table, plan.options.hidden_names).check_values(trace["cells"], "cells")


def load(path: str | os.PathLike[str]) -> StructurePosterior:
    """Read the posterior of a run file, finished or not, even while it is written.

    Parameters
    ----------
    path : str or path-like
        A file that `doxa.learn` made with ``store=...``, or in which a posterior was saved.

    Returns
    -------
    StructurePosterior

    Raises
    ------
    RunFileError
        If the file is no run, is damaged, or holds no draws yet.

    Examples
    --------
    >>> import doxa, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = doxa.learn(doxa.datasets.load("reinis"), draws=100, seed=1, store=f"{folder}/run.doxa")
    ...     doxa.load(f"{folder}/run.doxa").edges().equals(made.edges())
    True
    """
    with open_reader(path) as reader:
        header, options, beside, stop = _checked(reader)
        move = beside.sampler
        source = header.options["source"]
        trace = reader.trace()
        made: StructurePosterior
        if isinstance(move, Exact):
            sums = _sums(reader, options)
            seconds = 0.0 if stop is None else stop.seconds
            made = ExactStructurePosterior(options.names, trace, options, sums, seconds, source)
        else:
            made = StructurePosterior(options.names, trace, move, options, stop=stop, source=source)
    saved = header.options.get("saved")
    made.how = str(saved.get("how", "")) if isinstance(saved, dict) else ""
    return made


@dataclass(frozen=True)
class StoredRun:
    """What the header of a run file says beside `RunOptions`."""

    sampler: Annotated[Any, By(move_from_settings)]
    warmup: Annotated[int | None, Within(0, 2**40)]
    draws: Annotated[int | None, Within(1, 2**40)]
    until: Until
    source: TableSource | None
    stop: Any = None  # which `stored_stop` reads
    saved: Any = None
    sums: Any = None


def _checked(reader: RunReader) -> tuple[RunHeader, RunOptions, StoredRun, StopReport | None]:
    """The header of a structure run whose options have the form that `header_of` gives them, and their meaning."""
    header = reader.header
    if header.kind != KIND:
        raise RunFileError(f"'{reader.path}' holds a run of the kind {header.kind!r:.80}, not of graphs")
    try:
        options = RunOptions.from_json(header.options, header.data_digest)
        beside: StoredRun = made_of_fields(
            StoredRun, {name: value for name, value in header.options.items() if name in BESIDE}, "its option "
        )
        beside.sampler.cycle_length(len(options.names))  # raises where it is of another number of nodes
        stop = stored_stop(header.options)
    except ValueError as error:
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: {error}") from error
    reader.check_trace = partial(check_draws, options)
    return header, options, beside, stop


def check_draws(options: RunOptions, trace: Trace) -> None:
    """Raise `ArgumentError` unless draws from a file are graphs of a run with these options."""
    n = len(options.names)
    shape, known = (trace.n_chains, trace.n_draws), {"rows", "log_score", "n_edges"}
    if set(trace.names) - {"cells"} != known or ("cells" in trace.names) != bool(options.n_missing):
        wanted = sorted(known | ({"cells"} if options.n_missing else set()))
        raise ArgumentError(f"its draws are of {shown(sorted(trace.names))}; they must be of {wanted}")
    check_array(trace["rows"], np.uint64, (*shape, n, n_words(n)), where="rows")
    check_array(trace["log_score"], np.float64, shape, Within(-1e15, 1e15), "log_score")
    check_array(trace["n_edges"], np.int32, shape, where="n_edges")
    rows = trace["rows"].reshape(-1, n, n_words(n))
    check_graphs(rows, options.limits)
    if (np.bitwise_count(rows).sum(axis=(1, 2)) != trace["n_edges"].ravel()).any():
        raise ArgumentError("n_edges is not the number of edges of each graph")
    if options.n_missing:
        cells = trace["cells"]
        if cells.dtype not in (np.int8, np.int16, np.float64):
            raise ArgumentError(f"cells is of type {cells.dtype}; it must be of type int8, int16 or float64")
        check_array(cells, None, (*shape, options.n_missing), Within(-1e15, 1e15), "cells")


def _sums(reader: RunReader, options: RunOptions) -> KeptSums:
    """The sums of an exact answer."""
    stored = reader.header.options.get("sums")
    try:
        return KeptSums.from_json(stored if isinstance(stored, dict) else {}, options.names)
    except ArgumentError as error:
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: {error}") from error


def header_of(plan: RunPlan) -> RunHeader:
    """What a run file says of a run.

    Raises
    ------
    ArgumentError
        If the sampler is not one of doxa's own: another could not be made again from the file.
    """
    until, watched = dataclasses.asdict(plan.until), plan.until.quantities
    options = plan.options.to_json() | {
        "sampler": move_settings(plan.move),
        "warmup": plan.schedule.warmup,
        "draws": plan.schedule.draws,
        "until": until | {"quantities": None if watched is None else list(watched)},  # JSON has no tuples
        "source": plan.source,
        "stop": None,  # why it stopped, when it has
    }
    versions = {name: version(name) for name in ("doxa", "numpy", "numba")} | {"machine": platform.machine()}
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return RunHeader(KIND, options, plan.table.digest, versions, plan.schedule.chains, plan.thin, plan.entropy, created)

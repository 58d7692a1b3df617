"""Structure runs on disk: what a run file says of itself, how a run is gone on with, how a file is read back.

The file itself is `doxa.estimates.store`'s.  Here is what the options of a structure run mean.

`save_run`: a posterior over graphs in a new run file, which `doxa.load` reads.

A posterior has draws, options and the reason why its run stopped; it does not know where the chains stand.  A saved
file says so (its option ``saved``): it can be read for ever, and not gone on with.  The file itself is
`doxa.estimates.store`'s; runs that are kept as they go are `doxa.structure.runs.files`'.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from doxa.data import Table
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
from doxa.sampling.driver import Schedule
from doxa.structure.moves.by_name import Exact, move_from_settings, move_settings
from doxa.structure.moves.sampler import StructureMove
from doxa.structure.posterior.exact_answer import ExactStructurePosterior, KeptSums
from doxa.structure.posterior.structure_posterior import StructurePosterior
from doxa.structure.runs.options import RunOptions
from doxa.structure.runs.plan import RunPlan

if TYPE_CHECKING:
    from doxa.structure.posterior.sample import GraphSample

__all__ = ["FREE", "KIND", "begin", "go_on", "header_of", "load", "save_run"]

KIND = "structure"


def save_run(posterior: GraphSample, path: str | os.PathLike[str]) -> None:
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


def _header(posterior: GraphSample) -> RunHeader:
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
        header, options, move, _ = _checked(reader)
    check_can_go_on(path, header, "doxa.learn(table")
    stored = header.options
    if table is None:
        table = _read_again(path, stored["source"], options)
    table = options.declared(table)
    plan = RunPlan(
        table,
        dataclasses.replace(options, n_rows=table.n_rows, data_digest=table.digest, n_missing=table.n_unknown),
        move,
        header.thin,
        Schedule(
            header.n_chains, draws if draws is not None or until is not None else stored["draws"], stored["warmup"]
        ),
        Until(**stored["until"]) if until is None else until,
        header.entropy,  # type: ignore[arg-type]
        stored["source"],
    )
    if tuple(stored["nodes"]) != table.names:
        raise RunFileError(
            f"'{path}' is a run over the columns {', '.join(stored['nodes'])}; the table now has "
            f"{', '.join(table.names)}"
        )
    return plan, open_writer(path, header_of(plan), free=FREE)


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
        header, options, move, stop = _checked(reader)
        source = header.options["source"]
        trace = reader.trace()
        made: StructurePosterior
        if isinstance(move, Exact):
            sums = _sums(reader, options)
            seconds = 0.0 if stop is None else stop.seconds
            made = ExactStructurePosterior(options.names, trace, options, sums, seconds, source)
        else:
            made = StructurePosterior(options.names, trace, move, options, stop=stop, source=source)
    made.how = str(header.options.get("saved", {}).get("how", ""))
    return made


def _checked(reader: RunReader) -> tuple[RunHeader, RunOptions, StructureMove, StopReport | None]:
    """The header of a structure run whose options have the form that `header_of` gives them, and their meaning."""
    header = reader.header
    if header.kind != KIND:
        raise RunFileError(f"'{reader.path}' holds a run of the kind {header.kind!r}, not of graphs")
    try:
        options = RunOptions.from_json(header.options, header.data_digest)
        stop = stored_stop(header.options)
    except ValueError as error:
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: {error}") from error
    forms = {"warmup": (int, type(None)), "draws": (int, type(None)), "until": dict, "source": (dict, type(None))}
    for name, form in forms.items():
        if not isinstance(header.options.get(name, ...), form):  # type: ignore[arg-type]
            raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its option {name!r} has no such form")
    try:
        return header, options, move_from_settings(header.options.get("sampler")), stop
    except ValueError as error:
        raise RunFileError(str(error)) from error


def _sums(reader: RunReader, options: RunOptions) -> KeptSums:
    """The sums of an exact answer."""
    stored = reader.header.options.get("sums")
    try:
        return KeptSums.from_json(stored if isinstance(stored, dict) else {}, options.names)
    except ArgumentError as error:
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: {error}") from error


def _read_again(path: str | os.PathLike[str], source: dict[str, Any] | None, options: RunOptions) -> Table:
    """The table of a run, from the file that it was read from."""
    from doxa.data.read import read_without_empty

    if source is None:
        raise ArgumentError(f"'{path}' does not say where its table came from; give the table again")
    return read_without_empty(allowed=[name for name, _ in options.hidden], known=options.keys, **source)


def _without_names(until: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists, not tuples."""
    names = until["quantities"]
    return until | {"quantities": None if names is None else list(names)}


def header_of(plan: RunPlan) -> RunHeader:
    """What a run file says of a run.

    Raises
    ------
    ArgumentError
        If the sampler is not one of doxa's own: another could not be made again from the file.
    """
    options = plan.options.to_json() | {
        "sampler": move_settings(plan.move),
        "warmup": plan.schedule.warmup,
        "draws": plan.schedule.draws,
        "until": _without_names(dataclasses.asdict(plan.until)),
        "source": plan.source,
        "stop": None,  # why it stopped, when it has
    }
    versions = {name: version(name) for name in ("doxa", "numpy", "numba")} | {"machine": platform.machine()}
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return RunHeader(KIND, options, plan.table.digest, versions, plan.schedule.chains, plan.thin, plan.entropy, created)

"""Structure runs on disk: what a run file says of itself, how a run is gone on with, how a file is read back.

The file itself is `doxa.estimates.store`'s.  Here is what the options of a structure run mean.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.estimates.store import RunFileError, RunHeader, RunReader, RunWriter, create_run, open_reader, open_writer
from doxa.mcmc.driver import Schedule
from doxa.structure.markov_blanket import MarkovBlanket
from doxa.structure.posterior import RunOptions, StructurePosterior
from doxa.structure.sampler import StructureMove
from doxa.structure.single_edge import SingleEdge

__all__ = ["FREE", "MOVES", "RunPlan", "begin", "go_on", "load"]

MOVES: dict[str, type[Any]] = {"single_edge": SingleEdge, "markov_blanket": MarkovBlanket}

FREE = ("draws", "until", "source")  # options that may change when a run is gone on with

_KIND = "structure"


class RunPlan(NamedTuple):
    """All that the draws of a structure run depend on, and when it is to stop."""

    table: Table
    equivalent_sample_size: float
    move: StructureMove
    max_parents: NDArray[np.int64]
    thin: int
    schedule: Schedule
    until: Until
    entropy: int
    source: dict[str, Any] | None = None  # where the table was read, and how; for people and for `go_on`

    @property
    def options(self) -> RunOptions:
        """What the posterior keeps of this."""
        caps = tuple(int(cap) for cap in self.max_parents)
        return RunOptions(self.equivalent_sample_size, caps, self.table.n_rows, self.table.digest)

    def header(self) -> RunHeader:
        """What a run file says of the run.

        Raises
        ------
        ArgumentError
            If the sampler is not one of doxa's own: another could not be made again from the file.
        """
        if MOVES.get(self.move.name) is not type(self.move):
            raise ArgumentError(f"sampler is {self.move!r}; only doxa's own samplers can be kept in a run file")
        options = {
            "nodes": list(self.table.names),
            "n_rows": self.table.n_rows,
            "equivalent_sample_size": self.equivalent_sample_size,
            "sampler": {"name": self.move.name, **dataclasses.asdict(self.move)},  # type: ignore[call-overload]
            "max_parents": [int(cap) for cap in self.max_parents],
            "warmup": self.schedule.warmup,
            "draws": self.schedule.draws,
            "until": _without_names(dataclasses.asdict(self.until)),
            "source": self.source,
        }
        versions = {name: version(name) for name in ("doxa", "numpy", "numba")} | {"machine": platform.machine()}
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return RunHeader(
            _KIND, options, self.table.digest, versions, self.schedule.chains, self.thin, self.entropy, created
        )


def begin(path: str | os.PathLike[str], plan: RunPlan) -> RunWriter:
    """Make the run file of a new run."""
    return create_run(path, plan.header())


def go_on(
    path: str | os.PathLike[str], table: Table | None, draws: int | None, until: Until | None
) -> tuple[RunPlan, RunWriter]:
    """Open the file of an interrupted or finished run to continue it.

    Raises
    ------
    RunFileError
        If the file is no structure run, or was made from another table or with other versions; the difference is named.
    """
    with open_reader(path, check=False) as reader:
        header = _checked(reader)
    stored = header.options
    if table is None:
        table = _read_again(path, stored["source"])
    plan = RunPlan(
        table,
        stored["equivalent_sample_size"],
        _move(stored["sampler"]),
        np.array(stored["max_parents"], dtype=np.int64),
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
    return plan, open_writer(path, plan.header(), free=FREE)


def load(path: str | os.PathLike[str]) -> StructurePosterior:
    """Read the posterior of a run file, finished or not, even while it is written.

    Parameters
    ----------
    path : str or path-like
        A file that `doxa.learn` made with ``store=...``.

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
        header = _checked(reader)
        trace = reader.trace()
    stored = header.options
    options = RunOptions(
        stored["equivalent_sample_size"], tuple(stored["max_parents"]), stored["n_rows"], header.data_digest
    )
    return StructurePosterior(tuple(stored["nodes"]), trace, _move(stored["sampler"]), options)


def _checked(reader: RunReader) -> RunHeader:
    """The header of a structure run whose options have the form that `RunPlan.header` gives them."""
    header = reader.header
    if header.kind != _KIND:
        raise RunFileError(f"'{reader.path}' holds a run of the kind {header.kind!r}, not of graphs")
    forms = {
        "nodes": list, "n_rows": int, "equivalent_sample_size": float, "sampler": dict, "max_parents": list,
        "warmup": (int, type(None)), "draws": (int, type(None)), "until": dict, "source": (dict, type(None)),
    }  # fmt: skip
    for name, form in forms.items():
        if not isinstance(header.options.get(name, ...), form):  # type: ignore[arg-type]
            raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its option {name!r} has no such form")
    nodes, caps = header.options["nodes"], header.options["max_parents"]
    if not (len(nodes) == len(caps) >= 2 and all(isinstance(n, str) for n in nodes) and len(set(nodes)) == len(nodes)):
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its nodes and max_parents do not agree")
    return header


def _move(stored: dict[str, Any]) -> StructureMove:
    settings = {name: value for name, value in stored.items() if name != "name"}
    if stored.get("name") not in MOVES:
        raise RunFileError(f"the run uses the sampler {stored.get('name')!r}, which this version does not know")
    try:
        made: StructureMove = MOVES[stored["name"]](**settings)
    except (TypeError, ValueError) as error:
        raise RunFileError(f"the run's sampler cannot be made again: {error}") from error
    return made


def _read_again(path: str | os.PathLike[str], source: dict[str, Any] | None) -> Table:
    """The table of a run, from the file that it was read from."""
    from doxa.data import read_table

    if source is None:
        raise ArgumentError(f"'{path}' does not say where its table came from; give the table again")
    return read_table(**source)


def _without_names(until: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists, not tuples."""
    names = until["quantities"]
    return until | {"quantities": None if names is None else list(names)}

"""What `doxa fit` checks before it begins, and says of its words and files."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import doxa
from doxa.cli.checks import HOW_TO_READ, check_end, check_going_on, refuse
from doxa.errors import ArgumentError, TableError
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models import LogisticNetwork

__all__ = ["WHEN_TO_STOP", "check_files", "check_same_graph", "check_words", "read_rows", "say_what_is_hidden"]

WHEN_TO_STOP = ("r_hat", "ess", "max_draws", "max_seconds")
_AT_THE_START = (
    "prior_scale", "prior_mean", "coding", "bias", "root", "method", "approximation", "order", "chains", "warmup",
    "seed", "average",
)  # fmt: skip
_HIDDEN_SAID = 5

_log = logging.getLogger("doxa")


def check_words(given: set[str], graph: Path | None, data: Path | None) -> None:
    """Raise unless the options belong together."""
    check_going_on(given, "fit", _AT_THE_START if data is not None else _AT_THE_START + HOW_TO_READ)
    if "resume" not in given:
        if graph is None:
            refuse("GRAPH", "name the files with the graph and the table, or give --resume RUN")
        if data is None:
            refuse("DATA", "name the file with the table, after that with the graph")
    if ("predict" in given) != ("predictions" in given):
        refuse("--predict", "--predict ROWS and --predictions FILE belong together; give both")
    if {"predict", "average"} <= given:
        refuse("--predict", "predictions need draws, and --average keeps none; leave one of them out")
    check_end(given, WHEN_TO_STOP)


def check_files(outputs: Mapping[str, Path | None], needed: Iterable[Path | None]) -> None:
    """Raise unless every output can be written, and is none of the files that are read or another output."""
    from doxa.output import check_output

    taken = [path for path in needed if path is not None]
    for option, path in outputs.items():
        if path is not None:
            check_output(path)
            for other in taken:
                if path.absolute() == other.absolute() or (path.exists() and other.exists() and path.samefile(other)):
                    refuse(option, f"'{path}' is read or written by this command already; give it another name")
            taken.append(path)


def read_rows(path: Path, missing: list[str] | None) -> Table:
    """Read the rows that are to be predicted."""
    try:
        return doxa.read_table(path, missing=missing)
    except TableError as error:
        raise TableError(
            f"--predict: {error}. Of these rows, leave out of the file what has no use: nodes without a column are "
            "predicted in every row"
        ) from error


def check_same_graph(run: Path, graph: Path) -> None:
    """Raise unless a graph is that of a run."""
    from doxa.estimates.store import open_reader
    from doxa.models.graph_files import read_parents
    from doxa.models.logistic_json import network_from_json

    with open_reader(run, check=False) as reader:
        network = network_from_json(reader.header.options.get("network"))
    parents = read_parents(graph)
    for node in dict.fromkeys((*network.names, *parents)):
        if node not in network.names or sorted(network.parents(node)) != sorted(parents.get(node, ())):
            raise ArgumentError(
                f"graph '{graph}' is not that of the fit in '{run}': they differ at {node!r}; leave GRAPH out to go on "
                "with that fit, or begin another one with --store"
            )


def say_what_is_hidden(network: LogisticNetwork, table: Table) -> None:
    """A misspelt node would be a hidden one: say which are."""
    hidden = [node for node in network.names if node not in table.names]
    if len(hidden) == len(network.names):
        return  # refused in a moment
    unused = [name for name in table.names if name not in network.names]
    for node in hidden[:_HIDDEN_SAID]:
        near = difflib.get_close_matches(node, unused, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        _log.warning("%s", printable(f"{node!r} is no column of the table, so it is a hidden node{hint}"))
    if len(hidden) > _HIDDEN_SAID:
        _log.warning("%d more nodes are no columns, and hidden", len(hidden) - _HIDDEN_SAID)

"""Fits on disk: what a run file says of a fit, how one is gone on with, saved and read back.

The file itself is `doxa.estimates.store`'s.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.estimates.store import (
    RunFileError,
    RunHeader,
    RunReader,
    RunWriter,
    check_can_go_on,
    open_reader,
    open_writer,
    stop_as_json,
    stored_stop,
    write_trace,
)
from doxa.mcmc.driver import Schedule
from doxa.models import LogisticNetwork
from doxa.models.logistic_json import network_from_json, network_to_json
from doxa.parameters.methods import METHODS
from doxa.parameters.report import FitReport, PartReport

if TYPE_CHECKING:
    from doxa.parameters.posterior import ParameterPosterior

__all__ = ["FREE", "KIND", "FitPlan", "go_on", "load", "report_as_json", "save_fit"]

KIND = "parameters"
FREE = ("draws", "until", "source", "stop", "report")  # options that may change when a fit is gone on with


class FitPlan(NamedTuple):
    """All that the draws of a fit depend on, and when it is to stop."""

    network: LogisticNetwork
    table: Table
    method: str
    approximation: str | None
    schedule: Schedule
    until: Until
    entropy: int
    source: dict[str, Any] | None = None

    @property
    def states(self) -> dict[str, tuple[str, ...]]:
        """Labels of the nodes that have a column."""
        table = self.table
        return {name: table.states[table.names.index(name)] for name in self.network.names if name in table.names}

    def header(self) -> RunHeader:
        """What a run file says of the fit."""
        until = dataclasses.asdict(self.until)
        options = {
            "network": network_to_json(self.network),
            "states": {node: list(labels) for node, labels in self.states.items()},
            "method": self.method,
            "approximation": self.approximation,
            "warmup": self.schedule.warmup,
            "draws": self.schedule.draws,
            "until": until | {"quantities": None if until["quantities"] is None else list(until["quantities"])},
            "source": self.source,
            "stop": None,
            "report": None,  # before the chains start
        }
        versions = {name: version(name) for name in ("doxa", "numpy", "scipy")} | {"machine": platform.machine()}
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return RunHeader(KIND, options, self.table.digest, versions, self.schedule.chains, 1, self.entropy, created)


def go_on(
    path: str | os.PathLike[str], table: Table | None, draws: int | None, until: Until | None
) -> tuple[FitPlan, RunWriter]:
    """Open the file of an interrupted or finished fit to continue it.

    Raises
    ------
    RunFileError
        If the file is no fit, holds a saved posterior without chains, or was made from another table or with other
        versions; the difference is named.
    """
    with open_reader(path, check=False) as reader:
        header, network = _checked(reader)
    check_can_go_on(path, header, "doxa.fit(network, table")
    stored = header.options
    if table is None:
        if stored["source"] is None:
            raise ArgumentError(f"'{path}' does not say where its table came from; give the table again")
        from doxa.data import read_table

        table = read_table(**stored["source"])
    wanted = stored["draws"] if draws is None and until is None else draws
    plan = FitPlan(
        network,
        table,
        stored["method"],
        stored["approximation"],
        Schedule(header.n_chains, wanted, stored["warmup"]),
        Until(**stored["until"]) if until is None else until,
        header.entropy,  # type: ignore[arg-type]
        stored["source"],
    )
    expected = plan.header()
    kept = {name: stored.get(name) for name in ("report", "stop")}  # until there are new ones
    return plan, open_writer(path, dataclasses.replace(expected, options={**expected.options, **kept}), free=FREE)


def load(path: str | os.PathLike[str], table: Any = None) -> ParameterPosterior:
    """Read the posterior of a fit's run file, finished or not, even while it is written.

    With the table its approximations can be asked for, and are then found again as they were for the fit.

    Raises
    ------
    RunFileError
        If the file is no fit, is damaged, or holds no draws yet.
    ArgumentError
        If the table is another, or the file does not say all that approximations depend on.
    """
    from doxa.parameters.posterior import ParameterPosterior

    with open_reader(path) as reader:
        header, network = _checked(reader)
        try:
            report = _report_from_json(header.options["report"])
            stop = stored_stop(header.options)
        except ValueError as error:
            raise RunFileError(f"'{path}' is not a run that doxa wrote: {error}") from error
        if report is None:
            raise RunFileError(
                f"'{path}' holds a fit that has not begun to draw; go on with it: doxa.resume({str(path)!r}, table)"
            )
        trace = reader.trace()
    states = {node: tuple(labels) for node, labels in header.options["states"].items()}
    plan = None if table is None else _plan_again(path, header, network, table)
    return ParameterPosterior(network, states, trace, report, stop, () if plan is None else partial(_found_again, plan))


def _found_again(plan: FitPlan) -> tuple[Any, ...]:
    from doxa.parameters.fit import approximations_of

    return approximations_of(plan)


def _plan_again(path: str | os.PathLike[str], header: RunHeader, network: LogisticNetwork, table: Any) -> FitPlan:
    """The plan of a stored fit, as far as its approximations depend on it."""
    stored = header.options
    if "saved" in stored:
        raise ArgumentError(
            f"table is given, but '{path}' holds a saved posterior, which does not say how it was approximated (a run "
            "made with store= does); leave the table out, or fit again"
        )
    if header.versions.get("doxa") != version("doxa"):
        raise ArgumentError(
            f"table is given, but '{path}' was made by doxa {header.versions.get('doxa')}, and doxa {version('doxa')} "
            "may approximate in another way; leave the table out, or fit again"
        )
    if not isinstance(table, Table):
        from doxa.data import read_table

        is_path = isinstance(table, (str, os.PathLike))
        table = read_table(**{**((is_path and stored["source"]) or {}), "source": table})
    if table.digest != header.data_digest:
        raise ArgumentError(
            f"the table is not the one that '{path}' was made from: the digest of its data is {table.digest[:12]}..., "
            f"not {header.data_digest[:12]}...; give that table, or leave it out"
        )
    schedule = Schedule(header.n_chains, stored["draws"], stored["warmup"])
    entropy: Any = header.entropy
    return FitPlan(network, table, stored["method"], stored["approximation"], schedule, Until(), entropy)


def save_fit(posterior: ParameterPosterior, path: str | os.PathLike[str]) -> None:
    """Write a posterior to a new file, from which `doxa.load` makes an equal one but for its approximations.

    Raises
    ------
    RunFileError
        If the name is taken, or the file cannot be written; there is then no file of that name, whole or in part.
    """
    trace, report = posterior.trace, posterior.completed_report
    options = {
        "network": network_to_json(posterior.network),
        "states": {node: list(labels) for node, labels in posterior.states.items()},
        "method": report.method,
        "approximation": None,
        "warmup": trace.n_warmup // trace.thin,
        "draws": trace.n_draws,
        "until": {},
        "source": None,
        "report": report_as_json(report),
        "saved": {"doxa": version("doxa"), "stop": stop_as_json(posterior.stop)},
    }
    created = datetime.now(UTC).isoformat(timespec="seconds")
    header = RunHeader(KIND, options, report.data_digest, {}, trace.n_chains, trace.thin, trace.entropy, created)
    write_trace(path, header, trace)


def report_as_json(report: FitReport) -> dict[str, Any]:
    """Plain lists and texts."""
    return {
        "method": report.method,
        "parts": [part.to_json() for part in report.parts],
        "symmetries": list(report.symmetries),
        "n_rows": report.n_rows,
        "n_missing": report.n_missing,
        "data_digest": report.data_digest,
        "fixed": report.fixed.hex(),
    }


def _report_from_json(stored: Any) -> FitReport | None:
    match stored:
        case None:
            return None
        case {
            "method": str(method), "parts": list(parts), "symmetries": list(symmetries), "n_rows": int(n_rows),
            "n_missing": int(n_missing), "data_digest": str(digest), "fixed": str(fixed),
        } if all(isinstance(text, str) for text in symmetries):  # fmt: skip
            made = tuple(PartReport.from_json(part) for part in parts)
            return FitReport(method, made, tuple(symmetries), n_rows, n_missing, digest, float.fromhex(fixed))
        case _:
            raise ArgumentError("its option 'report' has no such form")


def _checked(reader: RunReader) -> tuple[RunHeader, LogisticNetwork]:
    """The header of a fit whose options have the form that `FitPlan.header` gives them, and its network."""
    header = reader.header
    if header.kind != KIND:
        raise RunFileError(f"'{reader.path}' holds a run of the kind {header.kind!r}, not of parameters")
    forms: dict[str, Any] = {
        "network": dict, "states": dict, "method": str, "approximation": (str, type(None)),
        "warmup": (int, type(None)), "draws": (int, type(None)), "until": dict, "source": (dict, type(None)),
        "report": (dict, type(None)),
    }  # fmt: skip
    for name, form in forms.items():
        if not isinstance(header.options.get(name, ...), form):
            raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its option {name!r} has no such form")
    states: Mapping[str, Any] = header.options["states"]
    if header.options["method"] not in METHODS or not all(
        isinstance(labels, list) and all(isinstance(label, str) for label in labels) for labels in states.values()
    ):
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its method or states have no such form")
    try:
        return header, network_from_json(header.options["network"])
    except ValueError as error:
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: {error}") from error

"""Fits on disk: what a run file says of a fit, how one is gone on with, and how one is saved.

The file itself is `doxa.estimates.store`'s; reading a posterior back is `doxa.parameters.fit`'s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.stopping import StopReport, Until
from doxa.estimates.store import (
    RunFileError,
    RunHeader,
    RunReader,
    RunWriter,
    check_can_go_on,
    open_reader,
    open_writer,
    stop_as_json,
    write_trace,
)
from doxa.estimates.trace import Trace
from doxa.models import LogisticNetwork
from doxa.models.logistic_json import network_from_json
from doxa.parameters.options import KIND, FitOptions, FitPlan, run_header
from doxa.parameters.report import FitReport, PartReport

__all__ = ["FREE", "checked_header", "go_on", "report_as_json", "report_from_json", "save_trace"]

FREE = ("draws", "until", "source", "stop", "report")  # options that may change when a fit is gone on with


def go_on(
    path: str | os.PathLike[str], table: Table | None, draws: int | None, until: Until | None
) -> tuple[FitPlan, RunWriter]:
    """Open the file of an interrupted or finished fit to continue it."""
    with open_reader(path, check=False) as reader:
        header, network, options = checked_header(reader)
    check_can_go_on(path, header, "doxa.fit(network, table")
    stored = header.options
    if table is None:
        if stored["source"] is None:
            raise ArgumentError(f"'{path}' does not say where its table came from; give the table again")
        from doxa.data import read_table

        table = read_table(**stored["source"])
    if draws is not None or until is not None:
        options = replace(options, draws=draws, until=options.until if until is None else until)
    plan = FitPlan(network, table, options, stored["source"])
    expected = plan.header()
    kept = {name: stored.get(name) for name in ("report", "stop")}  # until there are new ones
    return plan, open_writer(path, replace(expected, options={**expected.options, **kept}), free=FREE)


def save_trace(
    path: str | os.PathLike[str],
    network: LogisticNetwork,
    states: Mapping[str, tuple[str, ...]],
    trace: Trace,
    report: FitReport,
    stop: StopReport | None,
) -> None:
    """Write what a posterior is made of to a new file, all but its approximations."""
    saved = {"doxa": version("doxa"), "stop": stop_as_json(stop)}
    more = {"cases": None, "source": None, "report": report_as_json(report), "saved": saved}
    header = run_header(network, states, report.options, report.data_digest, {}, more)
    write_trace(path, header, trace)


def report_as_json(report: FitReport) -> dict[str, Any]:
    """Plain lists, dictionaries and texts."""
    return {
        "parts": [part.to_json() for part in report.parts],
        "symmetries": list(report.symmetries),
        "n_rows": report.n_rows,
        "n_missing": report.n_missing,
        "data_digest": report.data_digest,
        "fixed": report.fixed.hex(),
    }


def report_from_json(stored: Any, options: FitOptions) -> FitReport | None:
    """What `report_as_json` wrote of a fit with these options; None before the chains start.

    ArgumentError for another form.
    """
    match stored:
        case None:
            return None
        case {
            "parts": list(parts), "symmetries": list(symmetries),
            "n_rows": int(n_rows), "n_missing": int(n_missing), "data_digest": str(digest), "fixed": str(fixed),
        } if all(isinstance(text, str) for text in symmetries):  # fmt: skip
            made = tuple(PartReport.from_json(part) for part in parts)
            return FitReport(options, made, tuple(symmetries), n_rows, n_missing, digest, float.fromhex(fixed))
        case _:
            raise ArgumentError("its option 'report' has no such form")


def checked_header(reader: RunReader) -> tuple[RunHeader, LogisticNetwork, FitOptions]:
    """The header of a fit whose options have the form that `FitPlan.header` gives them, its network and options."""
    header = reader.header
    if header.kind != KIND:
        raise RunFileError(f"'{reader.path}' holds a run of the kind {header.kind!r}, not of parameters")
    forms: dict[str, Any] = {
        "network": dict, "states": dict, "source": (dict, type(None)), "report": (dict, type(None)),
    }  # fmt: skip
    for name, form in forms.items():
        if not isinstance(header.options.get(name, ...), form):
            raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its option {name!r} has no such form")
    states: Mapping[str, Any] = header.options["states"]
    if not all(
        isinstance(labels, list) and all(isinstance(label, str) for label in labels) for labels in states.values()
    ):
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its states have no such form")
    try:
        return header, network_from_json(header.options["network"]), FitOptions.of_run(header)
    except ValueError as error:
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: {error}") from error

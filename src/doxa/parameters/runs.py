"""Fits on disk: what a run file says of a fit, how one is gone on with, and how one is saved.

The file itself is `doxa.estimates.store`'s; reading a posterior back is `doxa.parameters.loading`'s.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple

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
from doxa.models.logistic_json import network_from_json, network_to_json
from doxa.parameters.approximate import ONE_PASS
from doxa.parameters.hidden_forms import PASSES
from doxa.parameters.keeping import Averages
from doxa.parameters.method_options import Method, method_from_settings, method_settings
from doxa.parameters.methods import METHODS
from doxa.parameters.report import FitReport, PartReport
from doxa.parameters.variational.case_order import ORDERS, Order
from doxa.sampling.driver import Schedule

__all__ = ["FREE", "KIND", "FitPlan", "checked_header", "go_on", "report_as_json", "report_from_json", "save_trace"]

KIND = "parameters"
FREE = ("draws", "until", "source", "stop", "report")  # options that may change when a fit is gone on with


class FitPlan(NamedTuple):
    """All that the draws of a fit depend on, and when it is to stop."""

    network: LogisticNetwork
    table: Table
    method: Method
    approximation: str | None
    schedule: Schedule
    until: Until
    entropy: int
    source: dict[str, Any] | None = None
    order: Order = "auto"
    keep: Averages | None = None  # None: draws

    @property
    def states(self) -> dict[str, tuple[str, ...]]:
        """Labels of the nodes that have a column."""
        table = self.table
        return {name: table.states[table.names.index(name)] for name in self.network.names if name in table.names}

    @property
    def _cases(self) -> str | None:
        """A digest of the order of the cases, which that of the data leaves out, where the approximation is by it."""
        if self.approximation not in (*ONE_PASS, *PASSES) or self.order == "random" or not self.table.has_row_order:
            return None
        return hashlib.sha256(self.table.row_index.astype("<i8").tobytes()).hexdigest()

    def header(self) -> RunHeader:
        """What a run file says of the fit."""
        until = dataclasses.asdict(self.until)
        options = {
            "network": network_to_json(self.network),
            "states": {node: list(labels) for node, labels in self.states.items()},
            "method": method_settings(self.method),
            "approximation": self.approximation,
            "order": self.order,
            "cases": self._cases,
            "keep": "draws" if self.keep is None else "averages",
            "warmup": self.schedule.warmup,
            "draws": self.schedule.draws,
            "until": until | {"quantities": None if until["quantities"] is None else list(until["quantities"])},
            "source": self.source,
            "stop": None,
            "report": None,  # before the chains start
        }
        versions = {name: version(name) for name in ("doxa", "numpy", "scipy")} | {"machine": platform.machine()}
        created = datetime.now(UTC).isoformat(timespec="seconds")
        thin = 1 if self.keep is None else self.keep.every
        return RunHeader(KIND, options, self.table.digest, versions, self.schedule.chains, thin, self.entropy, created)


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
        header, network = checked_header(reader)
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
        method_from_settings(stored["method"], METHODS),
        stored["approximation"],
        Schedule(header.n_chains, wanted, stored["warmup"]),
        Until(**stored["until"]) if until is None else until,
        header.entropy,  # type: ignore[arg-type]
        stored["source"],
        stored.get("order", "auto"),
        Averages(header.thin) if stored.get("keep") == "averages" else None,
    )
    expected = plan.header()
    kept = {name: stored.get(name) for name in ("report", "stop")}  # until there are new ones
    return plan, open_writer(path, dataclasses.replace(expected, options={**expected.options, **kept}), free=FREE)


def save_trace(
    path: str | os.PathLike[str],
    network: LogisticNetwork,
    states: Mapping[str, tuple[str, ...]],
    trace: Trace,
    report: FitReport,
    stop: StopReport | None,
) -> None:
    """Write what a posterior is made of to a new file, all but its approximations.

    Raises
    ------
    RunFileError
        If the name is taken, or the file cannot be written; there is then no file of that name, whole or in part.
    """
    options = {
        "network": network_to_json(network),
        "states": {node: list(labels) for node, labels in states.items()},
        "method": method_settings(report.method),
        "approximation": None,
        "order": "auto",
        "cases": None,
        "keep": "averages" if report.is_averaged else "draws",
        "warmup": trace.n_warmup // trace.thin,
        "draws": trace.n_draws,
        "until": {},
        "source": None,
        "report": report_as_json(report),
        "saved": {"doxa": version("doxa"), "stop": stop_as_json(stop)},
    }
    created = datetime.now(UTC).isoformat(timespec="seconds")
    header = RunHeader(KIND, options, report.data_digest, {}, trace.n_chains, trace.thin, trace.entropy, created)
    write_trace(path, header, trace)


def report_as_json(report: FitReport) -> dict[str, Any]:
    """Plain lists, dictionaries and texts."""
    return {
        "method": method_settings(report.method),
        "parts": [part.to_json() for part in report.parts],
        "symmetries": list(report.symmetries),
        "n_rows": report.n_rows,
        "n_missing": report.n_missing,
        "data_digest": report.data_digest,
        "fixed": report.fixed.hex(),
    }


def report_from_json(stored: Any) -> FitReport | None:
    """What `report_as_json` wrote; None before the chains start, ArgumentError for another form."""
    match stored:
        case None:
            return None
        case {
            "method": (str() | dict()) as method, "parts": list(parts), "symmetries": list(symmetries),
            "n_rows": int(n_rows), "n_missing": int(n_missing), "data_digest": str(digest), "fixed": str(fixed),
        } if all(isinstance(text, str) for text in symmetries):  # fmt: skip
            made = tuple(PartReport.from_json(part) for part in parts)
            asked = method_from_settings(method, METHODS)
            return FitReport(asked, made, tuple(symmetries), n_rows, n_missing, digest, float.fromhex(fixed))
        case _:
            raise ArgumentError("its option 'report' has no such form")


def checked_header(reader: RunReader) -> tuple[RunHeader, LogisticNetwork]:
    """The header of a fit whose options have the form that `FitPlan.header` gives them, and its network."""
    header = reader.header
    if header.kind != KIND:
        raise RunFileError(f"'{reader.path}' holds a run of the kind {header.kind!r}, not of parameters")
    forms: dict[str, Any] = {
        "network": dict, "states": dict, "method": (str, dict), "approximation": (str, type(None)),
        "warmup": (int, type(None)), "draws": (int, type(None)), "until": dict, "source": (dict, type(None)),
        "report": (dict, type(None)),
    }  # fmt: skip
    for name, form in forms.items():
        if not isinstance(header.options.get(name, ...), form):
            raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its option {name!r} has no such form")
    states: Mapping[str, Any] = header.options["states"]
    if header.options.get("order", "auto") not in ORDERS or not all(
        isinstance(labels, list) and all(isinstance(label, str) for label in labels) for labels in states.values()
    ):
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: its order or states have no such form")
    try:
        method_from_settings(header.options["method"], METHODS)
        return header, network_from_json(header.options["network"])
    except ValueError as error:
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: {error}") from error

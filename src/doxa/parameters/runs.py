"""Fits on disk: what a run file says of a fit, how one is gone on with, and how one is saved.

The file itself is `doxa.estimates.store`'s; reading a posterior back is `doxa.parameters.fit`'s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any

import numpy as np

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
from doxa.parameters.joint_target import Packing
from doxa.parameters.options import KIND, FitOptions, FitPlan, StoredFit, run_header
from doxa.parameters.report import FitReport, PartReport
from doxa.schema import HEX, Within, check_array, made, made_of_fields
from doxa.text import shown

__all__ = ["FREE", "checked_header", "go_on", "report_as_json", "report_from_json", "save_trace"]

_NUMBER = Within(-1e75, 1e75)  # whose squares can be averaged
FREE = ("draws", "until", "source", "stop", "report")  # options that may change when a fit is gone on with


def go_on(
    path: str | os.PathLike[str], table: Table | None, draws: int | None, until: Until | None
) -> tuple[FitPlan, RunWriter]:
    """Open the file of an interrupted or finished fit to continue it."""
    with open_reader(path, check=False) as reader:
        header, known, options = checked_header(reader)
        check = reader.check_trace
    check_can_go_on(path, header, "doxa.fit(network, table")
    stored = header.options
    if options.seed is None:
        raise RunFileError(f"'{path}' does not say its seed, a whole number, so it cannot be gone on with")
    if table is None:
        if stored["source"] is None:
            raise ArgumentError(f"'{path}' does not say where its table came from; give the table again")
        from doxa.data import read_table

        table = read_table(**stored["source"])
    if draws is not None or until is not None:
        options = replace(options, draws=draws, until=options.until if until is None else until)
    plan = FitPlan(known.network, table, options, stored["source"])
    expected = plan.header()
    kept = {name: stored.get(name) for name in ("report", "stop")}  # until there are new ones
    writer = open_writer(path, replace(expected, options={**expected.options, **kept}), free=FREE)
    writer.check_trace = check
    return plan, writer


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


@dataclass(frozen=True)
class _StoredReport:
    """What `report_as_json` returns."""

    parts: tuple[PartReport, ...]
    symmetries: tuple[str, ...]
    n_rows: Annotated[int, Within(0)]
    n_missing: Annotated[int, Within(0)]
    data_digest: str
    fixed: Annotated[float, HEX, Within(-1e100, 1e100)]


def report_from_json(stored: Any, network: LogisticNetwork, options: FitOptions) -> FitReport | None:
    """What `report_as_json` wrote of a fit with these options; None before the chains start.

    ArgumentError for another form, or parts that are not the network's.
    """
    if stored is None:
        return None
    given: _StoredReport = made(_StoredReport, stored, "its option report")
    report = FitReport(options, *(getattr(given, field.name) for field in fields(given)))
    nodes = [node for part in given.parts for node in part.nodes]
    if sorted(nodes) != sorted(network.parameters):
        raise ArgumentError(
            f"its option report.parts has the nodes {shown(nodes)}; those with parameters are "
            f"{shown(list(network.parameters))}"
        )
    for k, part in enumerate(given.parts):
        where, n = f"its option report.parts[{k}]", Packing(network, part.nodes).n_dimensions
        if part.counts and (len(part.counts) != 2 or len(part.nodes) != 1 or part.nodes[0] not in network.roots):
            raise ArgumentError(f"{where}.counts is {shown(part.counts)}; two counts belong to one root")
        if report.is_averaged and (len(part.levels) != n or len({len(levels) for levels in part.levels}) != 1):
            raise ArgumentError(f"{where}.levels has not as many levels of each of the {n} parameters")
        for levels in part.levels:
            if not np.isfinite(levels).all() or (np.diff(levels) < 0).any():
                raise ArgumentError(f"{where}.levels is {shown(levels)}; levels are finite, and rise")
    return report


def check_draws(network: LogisticNetwork, report: FitReport, trace: Trace) -> None:
    """Raise `ArgumentError` unless draws from a file are those of the parts of a fit."""
    here, known = {name.split(".")[0] for name in trace.names}, set()
    walkers = {trace[name].shape[2] for name in trace.names if trace[name].ndim > 2}
    if len(walkers) != 1:
        raise ArgumentError(f"its draws are of {shown(sorted(walkers))} walkers; all parts have as many")
    group = (trace.n_chains, trace.n_draws, walkers.pop())
    for k, part in enumerate(report.parts):
        if str(k) not in here and part.counts:
            continue  # known exactly: drawn when it is asked for
        n = Packing(network, part.nodes).n_dimensions
        known |= {f"{k}.{name}" for name in ("theta", "log_density", "acceptance")}
        wanted: dict[str, tuple[Any, tuple[int, ...], Within]] = {
            "theta": (np.float64, (*group, n), _NUMBER),
            "log_density": (np.float64, group, _NUMBER),
            "acceptance": (np.float64, group, Within(-1e-6, 1 + 1e-6)),
        }
        if report.is_averaged:
            known |= {f"{k}.square", f"{k}.below"}
            wanted["square"] = np.float64, (*group, n), _NUMBER._replace(least=0)
            wanted["below"] = None, (*group, n, len(part.levels[0])), Within(0, 1)
        for name, (dtype, shape, rule) in wanted.items():
            if f"{k}.{name}" not in trace.names:
                raise ArgumentError(f"its draws have no {k}.{name}")
            check_array(trace[f"{k}.{name}"], dtype, shape, rule, f"{k}.{name}")
    if unknown := sorted(set(trace.names) - known):
        raise ArgumentError(f"its draws have {shown(unknown[0])}, which is nothing that a fit draws")


def checked_header(reader: RunReader) -> tuple[RunHeader, StoredFit, FitOptions]:
    """The header of a fit whose options have the form that `FitPlan.header` gives them, and what they mean."""
    header = reader.header
    if header.kind != KIND:
        raise RunFileError(f"'{reader.path}' holds a run of the kind {header.kind!r:.80}, not of parameters")
    try:
        stored: StoredFit = made_of_fields(StoredFit, dict(header.options), "its option ")
        options = FitOptions.of_run(header, stored)
        report = report_from_json(header.options["report"], stored.network, options)
    except ValueError as error:
        raise RunFileError(f"'{reader.path}' is not a run that doxa wrote: {error}") from error
    if report is not None:
        reader.check_trace = partial(check_draws, stored.network, report)
    return header, replace(stored, report=report), options

"""`load`: the posterior of a fit's run file, and its approximations where the table is given."""

from __future__ import annotations

import os
from functools import partial
from importlib.metadata import version
from typing import Any

from doxa.data import Table, read_table
from doxa.errors import ArgumentError
from doxa.estimates.store import RunFileError, RunHeader, open_reader, stored_stop
from doxa.parameters.averages import ParameterAverages
from doxa.parameters.fit import approximations_of
from doxa.parameters.options import FitPlan
from doxa.parameters.posterior import ParameterPosterior
from doxa.parameters.runs import checked_header, report_from_json

__all__ = ["load"]


def load(path: str | os.PathLike[str], table: Any = None) -> ParameterPosterior | ParameterAverages:
    """Read the posterior of a fit's run file, finished or not, even while it is written.

    With the table its approximations can be asked for, and are then found again as they were for the fit.

    Raises
    ------
    RunFileError
        If the file is no fit, is damaged, or holds no draws yet.
    ArgumentError
        If the table is another, or the file does not say all that approximations depend on.
    """
    with open_reader(path) as reader:
        header, network, options = checked_header(reader)
        try:
            report = report_from_json(header.options["report"], options)
            stop = stored_stop(header.options)
        except ValueError as error:
            raise RunFileError(f"'{path}' is not a run that doxa wrote: {error}") from error
        if report is None:
            raise RunFileError(
                f"'{path}' holds a fit that has not begun to draw; go on with it: doxa.resume({str(path)!r}, table)"
            )
        trace = reader.trace()
    states = {node: tuple(labels) for node, labels in header.options["states"].items()}
    plan = None if table is None else _plan_again(path, header, FitPlan(network, table, options))
    kind = ParameterAverages if report.is_averaged else ParameterPosterior
    return kind(network, states, trace, report, stop, () if plan is None else partial(approximations_of, plan))


def _plan_again(path: str | os.PathLike[str], header: RunHeader, plan: FitPlan) -> FitPlan:
    """The plan of a stored fit, as far as its approximations depend on it; its table is what was given for it."""
    stored, table = header.options, plan.table
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
        is_path = isinstance(table, (str, os.PathLike))
        table = read_table(**{**((is_path and stored["source"]) or {}), "source": table})
    if table.digest != header.data_digest:
        raise ArgumentError(
            f"the table is not the one that '{path}' was made from: the digest of its data is {table.digest[:12]}..., "
            f"not {header.data_digest[:12]}...; give that table, or leave it out"
        )
    plan = plan._replace(table=table)
    if plan.header().options["cases"] != stored.get("cases"):
        raise ArgumentError(
            f"the table has its rows in another order than the one that '{path}' was made from, and its approximation "
            "depends on it; give the table as it was, or leave it out"
        )
    return plan

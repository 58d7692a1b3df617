"""Options that several commands have, and those that differ in a word.

What commands that keep runs check of their options: which were typed, and whether they belong together.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from doxa.cli.words import parse_bins, parse_given, refuse

Words = list[str] | None  # an option that may be repeated
HOW_TO_READ = ("columns", "drop", "bins", "missing", "numbers", "categories", "counts", "transform")


def reading(**given: Any) -> dict[str, Any]:
    """The options of `doxa.read_table` that were given, by the names that commands have for them."""
    made = {"bins": parse_bins("--bins", given["bins"])}
    if given.get("transform") is not None:
        made["transform"] = parse_given(given["transform"], "--transform")
    return {name: value for name, value in (given | made).items() if value is not None}


_SPELLED = {"exact": "--exact or --sample"}


def typed(context: typer.Context) -> set[str]:
    """Names of the options that were typed, in place of left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}


def check_going_on(given: set[str], what: str, fixed: Iterable[str]) -> None:
    """Raise if a run is to be gone on with and an option belongs to its start; ``what`` is a run or a fit."""
    if "resume" not in given:
        return
    if "store" in given:
        refuse("--store", f"--resume goes on with a {what} and --store begins one; give one of them")
    for name in fixed:
        if name in given:
            option = _option(name)
            refuse(
                option,
                f"--resume goes on with a {what} as it was started; leave {option} out, or begin another {what} "
                "with --store",
            )


def check_end(given: set[str], when_to_stop: Iterable[str]) -> None:
    """Raise unless one thing says when a run ends."""
    if "draws" in given:
        for name in when_to_stop:
            if name in given and name != "max_seconds":
                refuse(_option(name), "--draws says when to stop, too; give one of them")


def _option(name: str) -> str:
    return _SPELLED.get(name, f"--{name.replace('_', '-')}")


def said(text: str, shown: bool | str = False) -> Any:
    """An option with this help, and what it shows as its default."""
    return typer.Option(help=text, show_default=shown)


def kept_as_it_goes(what: str) -> Any:
    """The option --store; ``what`` is a run or a fit."""
    return said(f"Keep the {what} in this new file as it goes: safe against crashes.")


def gone_on_with(what: str, more: str = "") -> Any:
    """The option --resume; ``what`` is a run or a fit."""
    text = f"Go on with the {what} in this file, as it was started; only --draws and the accuracy may change."
    return said(text + more)


def written_too(what: str) -> Any:
    """The option --output of a command that prints as well."""
    return said(f"Write {what} to this file, too: .csv, .json or .parquet.")


Network = Annotated[
    Path,
    typer.Argument(
        help="A network file: .bif, .xml, .xmlbif, .net, .dsc, .xdsl, .uai or .json, also with .gz.", metavar="NETWORK"
    ),
]
Warmup = Annotated[int | None, said("Draws discarded first.", "half of --draws, or until the chains agree")]
MaxDraws = Annotated[int | None, said("Stop after so many draws of each chain all the same.", "100000")]
MaxSeconds = Annotated[float | None, said("Stop after so many seconds all the same.", "none")]
Seed = Annotated[int | None, said("The same seed gives the same draws.", "fresh")]
Workers = Annotated[int | None, said("Chains that run at the same time.", "one for each core")]
Bins = Annotated[
    Words,
    said(
        "Cut columns of numbers into so many quantile bins: 4, or age=4 for one (repeat for more); or at cuts, "
        "bmi=18.5,25,30; or age=uniform:4, age=supervised:COLUMN."
    ),
]
Columns = Annotated[Words, said("Use this column (repeat for more); all when left out.")]
Drop = Annotated[Words, said("Leave this column out (repeat for more).")]
Numbers = Annotated[Words, said("This column holds numbers, few as they are (repeat for more).")]
Categories = Annotated[Words, said("This column holds categories, many as they are (repeat for more).")]
Transform = Annotated[
    Words,
    said("Learn from a column on another scale: income=log, or log1p, logit, 'normal scores' (repeat for more)."),
]
Counts = Annotated[str | None, said("The column that says how often each row occurs.", "once")]
Missing = Annotated[
    Words, said("A text that marks a missing cell (repeat for more), instead of NA, NaN, null, ? and the empty cell.")
]
Report = Annotated[
    Path | None,
    typer.Option(help="Write a page with the answer, too: one file of HTML.", metavar="FILE.html", show_default=False),
]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Serve the report as it grows, to this machine alone; needs --store or --resume."),
]
WatchPort = Annotated[int | None, said("Port of --watch.", "one that is free")]

"""Options that several commands have, and those that differ in a word."""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = [
    "Bins",
    "Columns",
    "MaxDraws",
    "MaxSeconds",
    "Missing",
    "Seed",
    "Warmup",
    "Watch",
    "WatchPort",
    "Workers",
    "gone_on_with",
    "kept_as_it_goes",
    "written_too",
]


def kept_as_it_goes(what: str) -> Any:
    """The option --store; ``what`` is a run or a fit."""
    return typer.Option(help=f"Keep the {what} in this new file as it goes: safe against crashes.", show_default=False)


def gone_on_with(what: str, more: str = "") -> Any:
    """The option --resume; ``what`` is a run or a fit."""
    text = f"Go on with the {what} in this file, as it was started; only --draws and the accuracy may change."
    return typer.Option(help=text + more, show_default=False)


def written_too(what: str) -> Any:
    """The option --output of a command that prints as well."""
    return typer.Option(help=f"Write {what} to this file, too: .csv, .json or .parquet.", show_default=False)


Warmup = Annotated[
    int | None,
    typer.Option(help="Draws discarded first.", show_default="half of --draws, or until the chains agree"),
]
MaxDraws = Annotated[
    int | None, typer.Option(help="Stop after so many draws of each chain all the same.", show_default="100000")
]
MaxSeconds = Annotated[float | None, typer.Option(help="Stop after so many seconds all the same.", show_default="none")]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same draws.", show_default="fresh")]
Workers = Annotated[
    int | None, typer.Option(help="Chains that run at the same time.", show_default="one for each core")
]
Bins = Annotated[
    list[str] | None,
    typer.Option(
        help="Cut numeric columns into so many quantile bins: 4, or age=4 for one column (repeat for more).",
        show_default=False,
    ),
]
Columns = Annotated[
    list[str] | None, typer.Option(help="Use this column (repeat for more); all when left out.", show_default=False)
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="A text that marks a missing cell (repeat for more), instead of NA, NaN, null, ? and the empty cell.",
        show_default=False,
    ),
]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Serve the report as it grows, to this machine alone; needs --store or --resume."),
]
WatchPort = Annotated[int | None, typer.Option(help="Port of --watch.", show_default="one that is free")]

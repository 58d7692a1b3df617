"""`doxa impute` and `doxa predict`: what missing cells and new rows hold, averaged over networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import doxa
from doxa.cli.aligned import aligned
from doxa.cli.app import interruptible
from doxa.text import printable
from doxa.words import parse_numbers

if TYPE_CHECKING:
    import pandas as pd

    from doxa.averaging.posterior import Posterior

__all__ = ["impute", "predict"]

_ROWS_SHOWN = 20

Data = Annotated[
    Path,
    typer.Argument(help="A table, .csv or .parquet; or a run file that `doxa learn --store` made.", metavar="DATA"),
]
Output = Annotated[
    Path | None,
    typer.Option(help="Write all of it to this file: .csv, .json or .parquet.", show_default=False),
]
Columns = Annotated[
    list[str] | None, typer.Option(help="Use this column (repeat for more); all when left out.", show_default=False)
]
Bins = Annotated[
    list[str] | None,
    typer.Option(help="Cut numeric columns into so many quantile bins: 4, or age=4.", show_default=False),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(help="A text that marks a missing cell, instead of NA, NaN, null, ? and none.", show_default=False),
]
Draws = Annotated[
    int | None, typer.Option(help="Graphs kept from each chain, if a run is made.", show_default="until accurate")
]
Seconds = Annotated[
    float | None, typer.Option(help="Stop a run after so many seconds all the same.", show_default="none")
]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same answers.", show_default="fresh")]


def impute(
    data: Data,
    output: Output = None,
    completed: Annotated[
        Path | None,
        typer.Option(help="Write the table with every hole filled in by one draw to this file.", show_default=False),
    ] = None,
    columns: Columns = None,
    bins: Bins = None,
    missing: Missing = None,
    draws: Draws = None,
    max_seconds: Seconds = None,
    seed: Seed = None,
) -> None:
    """What the missing cells of a table hold: the probability of every state, averaged over networks."""
    from doxa.output import check_output, write_frame

    for path in (output, completed):
        if path is not None:
            check_output(path, data)
    posterior = _posterior(data, columns, bins, missing, draws, max_seconds, seed)
    found = posterior.impute()
    n_holes = len(found[["row", "column"]].drop_duplicates())
    print(f"{n_holes} missing cells in {posterior.table.n_rows} rows; rows are counted from 0\n")
    _show(found)
    print(f"\n{printable(posterior.verdict)}")
    if output is not None:
        write_frame(found, output)
        print(f"All {n_holes} cells are in {printable(str(output))}.")
    if completed is not None:
        write_frame(posterior.completed_tables(1)[0], completed)
        print(f"A completed table is in {printable(str(completed))}; another draw fills the holes otherwise.")


def predict(
    data: Data,
    rows: Annotated[Path, typer.Argument(help="New rows, .csv or .parquet; any cells may be missing.", metavar="ROWS")],
    target: Annotated[
        str | None, typer.Option(help="The column to predict from the others.", show_default="all missing cells")
    ] = None,
    unseen: Annotated[
        str, typer.Option(help="A state that DATA does not have: error, or prior for the prior's share.")
    ] = "error",
    output: Output = None,
    columns: Columns = None,
    bins: Bins = None,
    missing: Missing = None,
    draws: Draws = None,
    max_seconds: Seconds = None,
    seed: Seed = None,
) -> None:
    """Predict a column, or the missing cells, of new rows, averaged over networks learned from a table."""
    from doxa.output import check_output, write_frame

    if output is not None:
        for needed in (data, rows):
            check_output(output, needed)
    posterior = _posterior(data, columns, bins, missing, draws, max_seconds, seed)
    found = posterior.predict(rows, target, unseen=unseen)
    _show(found)
    print(f"\n{printable(posterior.verdict)}")
    if output is not None:
        write_frame(found, output)
        print(f"All predictions are in {printable(str(output))}.")


def _posterior(
    data: Path,
    columns: list[str] | None,
    bins: list[str] | None,
    missing: list[str] | None,
    draws: int | None,
    max_seconds: float | None,
    seed: int | None,
) -> Posterior:
    """From a run file, or learned from a table."""
    made = {"--columns": columns, "--bins": bins, "--missing": missing, "--draws": draws, "--seed": seed}
    if _is_run(data):
        for option, value in (made | {"--max-seconds": max_seconds}).items():
            if value is not None:
                raise typer.BadParameter(f"'{data}' is a run that was made already", param_hint=option)
        loaded: Any = doxa.load(data)
        if not isinstance(loaded, doxa.Posterior):
            raise doxa.DoxaError(f"'{data}' holds a fit of parameters; a run over graphs is needed: doxa learn --store")
        return loaded
    table = doxa.read_table(data, columns=columns, bins=parse_numbers("--bins", bins), missing=missing)
    until = None if max_seconds is None else doxa.Until(max_seconds=max_seconds)
    with interruptible("learn"):
        return doxa.learn(table, draws=draws, until=until, seed=seed)


def _is_run(path: Path) -> bool:
    """Whether a file is an SQLite database, as run files are."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False  # reading it as a table says what is wrong


def _show(found: pd.DataFrame) -> None:
    shown = [tuple(found.columns)]
    for row, column, state, probability, mcse in found.head(_ROWS_SHOWN).itertuples(index=False):
        shown.append((str(row), printable(column), printable(state), f"{probability:.4f}", f"{mcse:.2g}"))
    print(aligned(shown, n_left=3))
    if len(found) > _ROWS_SHOWN:
        print(f"... and {len(found) - _ROWS_SHOWN} more: --output FILE")

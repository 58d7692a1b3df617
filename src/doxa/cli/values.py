"""`doxa impute` and `doxa predict`: what missing cells and new rows hold, averaged over networks.

Also questions to a posterior of networks: ``--query party=republican --given crime=y --do aid=n``,
``--query 'bmi>30'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import doxa
from doxa.cli import options
from doxa.cli.app import interruptible
from doxa.cli.words import aligned, as_numbers, parse_event, parse_given, refuse
from doxa.text import printable

if TYPE_CHECKING:
    import pandas as pd

    from doxa.data import Table
    from doxa.estimates.estimate import Estimate
    from doxa.structure.averaging.posterior import Posterior

__all__ = ["Questions", "impute", "predict"]


class Questions(NamedTuple):
    """What is asked, and under which conditions."""

    targets: list[str]
    given: Mapping[str, str | float]
    do: Mapping[str, str | float]

    @classmethod
    def parse(cls, query: list[str] | None, given: list[str] | None, do: list[str] | None) -> Questions:
        """Check the words of the three options; conditions need a question."""
        if not query and (given or do):
            option = "--given" if given else "--do"
            refuse(option, "it needs a question: --query party=republican")
        return cls(query or [], parse_given(given or []), parse_given(do or [], "--do"))

    def check(self, table: Table) -> None:
        """Raise, before a run is made, what `answer` would raise after it."""
        from doxa.structure.averaging.query import checked_question

        asked = self.typed_for(table)
        for word in self.targets:
            checked_question(table, _target(word, table.names), asked.given, asked.do)

    def typed_for(self, table: Table) -> Questions:
        """Values of columns of numbers as numbers."""
        held = {name for name, one in zip(table.names, table.is_number.tolist(), strict=True) if one}
        return self._replace(given=as_numbers(self.given, held, "--given"), do=as_numbers(self.do, held, "--do"))

    def answer(self, posterior: Posterior) -> None:
        """Print the answers, each with its Monte Carlo error and the spread of the posterior."""
        if not self.targets:
            return
        self.typed_for(posterior.table)._answer(posterior)

    def _answer(self, posterior: Posterior) -> None:
        is_number = dict(zip(posterior.table.names, posterior.table.is_number.tolist(), strict=True))
        rows = [("probability of", "mean", "credible interval (95%)")]
        for word in self.targets:
            if not is_number.get(word):
                rows += self._one(posterior, word)
        print()
        print(_conditions(self.given, self.do))
        for word in self.targets:
            if is_number.get(word):
                found = posterior.query(word, given=self.given, do=self.do)
                print(f"{printable(word)}: " + str(found).replace("\n", "\n  "))
        if len(rows) == 1:
            print("A mean has a Monte Carlo error; its credible interval is what the data leave open.")
            return
        print(aligned(rows, n_left=1))
        print("The mean has a Monte Carlo error; the interval is what the data leave open about the probability.")

    def _one(self, posterior: Posterior, word: str) -> list[tuple[str, str, str]]:
        from doxa.structure.averaging import NumberAnswer, QueryAnswer

        target = _target(word, posterior.table.names)
        found = posterior.query(target, given=self.given, do=self.do)
        if isinstance(found, QueryAnswer):
            return [_row(f"{word} = {state}", estimate) for state, estimate in found.items()]
        assert not isinstance(found, NumberAnswer)  # numbers are answered apart
        event = target.items() if isinstance(target, dict) else ()
        return [_row(", ".join(_said(name, state) for name, state in event), found)]


def _target(word: str, names: Sequence[str]) -> str | dict[str, Any]:
    is_column = word in names or not (any(sign in word for sign in "=<>") or word.lstrip().startswith("{"))
    return word if is_column else parse_event(word)


def _said(name: str, state: Any) -> str:
    if isinstance(state, str):
        return f"{name} = {state}"
    word, *ends = state
    return f"{name} {word} {' and '.join(f'{end:g}' for end in ends)}"


def _row(name: str, estimate: Estimate) -> tuple[str, str, str]:
    from doxa.structure.averaging import AveragedProbability

    assert isinstance(estimate, AveragedProbability)
    low, high = estimate.credible_interval()
    return printable(name), str(estimate), f"{low:.3f} - {high:.3f}"


def _conditions(given: Mapping[str, str | float], do: Mapping[str, str | float]) -> str:
    parts = [f"{name} = {state} was seen" for name, state in given.items()]
    parts += [f"{name} = {state} was set" for name, state in do.items()]
    return printable(f"Averaged over networks, where {', '.join(parts)}:" if parts else "Averaged over networks:")


_ROWS_SHOWN = 20

Data = Annotated[
    Path,
    typer.Argument(help="A table, .csv or .parquet; or a run file that `doxa learn --store` made.", metavar="DATA"),
]
Output = Annotated[
    Path | None,
    typer.Option(help="Write all of it to this file: .csv, .json or .parquet.", show_default=False),
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
        typer.Option(
            help="Write the table with every missing cell filled in by one draw to this file.", show_default=False
        ),
    ] = None,
    columns: options.Columns = None,
    bins: options.Bins = None,
    missing: options.Missing = None,
    drop: options.Drop = None,
    numbers: options.Numbers = None,
    categories: options.Categories = None,
    counts: options.Counts = None,
    transform: options.Transform = None,
    draws: Draws = None,
    max_seconds: Seconds = None,
    seed: Seed = None,
) -> None:
    """What the missing cells of a table hold: the probability of every state, averaged over networks."""
    from doxa.output import check_output, write_frame

    for path in (output, completed):  # before a run is made, not after
        check_output(path, data)
    read = options.reading(
        columns=columns, missing=missing, bins=bins, drop=drop, numbers=numbers, categories=categories, counts=counts,
        transform=transform,
    )  # fmt: skip
    posterior = _posterior(data, read, draws, max_seconds, seed)
    found = posterior.impute()
    n_missing_cells = len(found[["row", "column"]].drop_duplicates())
    print(f"{n_missing_cells} missing cells in {posterior.table.n_rows} rows; rows are counted from 0\n")
    _tell(found, posterior, output, f"{n_missing_cells} cells")
    if completed is not None:
        write_frame(posterior.completed_tables(1)[0], completed)
        print(f"A completed table is in {printable(str(completed))}; another draw fills the missing cells otherwise.")


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
    columns: options.Columns = None,
    bins: options.Bins = None,
    missing: options.Missing = None,
    drop: options.Drop = None,
    numbers: options.Numbers = None,
    categories: options.Categories = None,
    counts: options.Counts = None,
    transform: options.Transform = None,
    draws: Draws = None,
    max_seconds: Seconds = None,
    seed: Seed = None,
) -> None:
    """Predict a column, or the missing cells, of new rows, averaged over networks learned from a table."""
    from doxa.output import check_output

    check_output(output, data, rows)  # before a run is made, not after
    read = options.reading(
        columns=columns, missing=missing, bins=bins, drop=drop, numbers=numbers, categories=categories, counts=counts,
        transform=transform,
    )  # fmt: skip
    posterior = _posterior(data, read, draws, max_seconds, seed)
    _tell(posterior.predict(rows, target, unseen=unseen), posterior, output, "predictions")


def _posterior(
    data: Path,
    read: dict[str, Any],
    draws: int | None,
    max_seconds: float | None,
    seed: int | None,
) -> Posterior:
    """From a run file, or learned from a table."""
    made = {f"--{name}": value for name, value in read.items()} | {"--draws": draws, "--seed": seed}
    if _is_run(data):
        for option, value in (made | {"--max-seconds": max_seconds}).items():
            if value is not None:
                refuse(option, f"'{data}' is a run that was made already")
        loaded: Any = doxa.load(data)
        if not isinstance(loaded, doxa.Posterior):
            raise doxa.DoxaError(f"'{data}' holds a fit of parameters; a run over graphs is needed: doxa learn --store")
        return loaded
    table = doxa.read_table(data, **read)
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


def _tell(found: pd.DataFrame, posterior: Posterior, output: Path | None, what: str) -> None:
    """Print the first rows and the verdict, and write all rows."""
    from doxa.output import write_frame

    shown = [tuple(found.columns)]
    for row, column, state, *numbers in found.head(_ROWS_SHOWN).itertuples(index=False):
        *values, mcse = numbers
        cells = ["" if value != value else f"{value:.4f}" for value in values]  # NaN: of the other type of column
        shown.append((str(row), printable(column), "" if state != state else printable(state), *cells, f"{mcse:.2g}"))
    print(aligned(shown, n_left=3))
    if len(found) > _ROWS_SHOWN:
        print(f"... and {len(found) - _ROWS_SHOWN} more: --output FILE")
    print(f"\n{printable(posterior.verdict)}")
    if output is not None:
        write_frame(found, output)
        print(f"All {what} are in {printable(str(output))}.")

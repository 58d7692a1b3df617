"""What every script does: run, print the claims and tables, draw."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from doxa.plots import save_png
from logistic_papers.claims import Claim, as_markdown, as_text

__all__ = ["Outcome", "progress", "run_script"]

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"


@dataclass(frozen=True)
class Outcome:
    """What an experiment gives."""

    claims: Sequence[Claim]
    figures: Mapping[str, Figure]  # by file name, without its ending
    tables: Sequence[tuple[str, str]] = field(default=())  # headings and texts


def run_script(description: str, run: Callable[[bool], Outcome]) -> None:
    """Run an experiment from the command line; ``run`` is told whether to be quick."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a small form, to see that all runs; its numbers say little"
    )
    parser.add_argument("--figures", type=Path, help="folder of the drawings")
    parser.add_argument("--markdown", action="store_true", help="print the claims as a Markdown table")
    arguments = parser.parse_args()
    begin = time.process_time()
    outcome = run(arguments.quick)
    seconds = time.process_time() - begin
    progress("")
    print(as_markdown(outcome.claims) if arguments.markdown else as_text(outcome.claims))
    for heading, text in outcome.tables:
        print(f"\n== {heading}\n\n{text}")
    folder = arguments.figures or (None if arguments.quick else FIGURES)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in outcome.figures.items():
            path = save_png(figure, folder / f"{name}.png")
            print(f"\n{path} ({path.stat().st_size / 1000:.0f} kB)", end="")
    print(f"\n{seconds:.0f} CPU seconds")


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:60s}", end="", file=sys.stderr, flush=True)

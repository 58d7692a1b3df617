"""Progress of a run on standard error: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Reporter", "reporter"]


class Reporter(Protocol):
    """Hears how far a run has come."""

    def advance(self, draws: int, phase: str) -> None:
        """So many draws more are done; ``phase`` is a word for what goes on."""

    def extend(self, draws: int) -> None:
        """So many draws more are to be done."""


class _Silent:
    def advance(self, draws: int, phase: str) -> None:  # noqa: ARG002
        return

    def extend(self, draws: int) -> None:  # noqa: ARG002
        return


@contextmanager
def reporter(show: bool | None, total: int) -> Iterator[Reporter]:
    """A reporter for ``total`` draws; ``show=None`` shows a bar if standard error is a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=console.is_terminal) as bar:  # leaves a clean terminal behind
        task = bar.add_task("starting", total=total)

        class Bar:
            def advance(self, draws: int, phase: str) -> None:
                bar.update(task, advance=draws, description=phase)

            def extend(self, draws: int) -> None:
                bar.update(task, total=(bar.tasks[task].total or 0) + draws)

        yield Bar()

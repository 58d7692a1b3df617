"""The application that the commands belong to: errors, exit codes, interruption.

Exit code 0 means that an answer was given, 2 that the input was at fault (one line says how), 130 that the run was
interrupted.  Answers go to standard output; progress, notices and errors to standard error.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

import doxa
from doxa.errors import DoxaError
from doxa.progress import following, tell
from doxa.text import printable

__all__ = ["app", "check_kind", "interruptible", "main"]

_KINDS = {"structure": ("a run over graphs", "learn"), "parameters": ("a fit of parameters", "fit")}

_INTERRUPTED = 130  # exit code, as shells have it after Ctrl-C

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Bayesian belief networks: what depends on what in a table, how strongly, and how sure that is.",
)


def main() -> None:
    """Run the command line; the entry point of the ``doxa`` command."""
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show is escaped, not fatal
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    notices, screen = logging.getLogger("doxa"), sys.stdout
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("doxa: %(message)s"))
    notices.addHandler(handler)
    notices.setLevel(logging.INFO)
    sys.stdout = _Listened(screen)  # what a stream is asked for, it has
    try:
        code = _run()
    finally:
        sys.stdout = screen
        notices.removeHandler(handler)
    sys.exit(code)


@cache
def _command() -> Any:
    """All commands, with their options: made once in a process."""
    return typer.main.get_command(app)


def _run() -> int:
    """Run the command that was typed and return the exit code."""
    try:
        outcome = _command()(prog_name="doxa", standalone_mode=False)
        sys.stdout.flush()  # so that a full disk is noticed here
    except DoxaError as error:
        return _fail(printable(str(error)))
    except _InterruptedRun as interruption:
        print(f"doxa: {interruption}", file=sys.stderr)
        return _INTERRUPTED
    except OSError as error:
        return _fail(f"the answer could not be printed: {error.strerror or error}")
    except Exception as error:
        if not hasattr(error, "format_message"):  # Typer's own, for words it cannot parse
            raise
        message = error.format_message().rstrip(".")
        return _fail(f"{message}; see doxa --help") if message else 2  # no words at all: the help was shown
    if outcome == _INTERRUPTED:  # by Typer, where nothing of ours was running
        print("doxa: interrupted", file=sys.stderr)
    return outcome if isinstance(outcome, int) else 0


class _Listened:
    """Standard output whose reader, such as head, may leave: the command goes on, and writes its files."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._nobody_listens()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._nobody_listens()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _nobody_listens(self) -> None:
        """What is still to be printed goes nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


class _InterruptedRun(Exception):  # noqa: N818 (nothing is wrong)
    """Says how far a run had come when it was interrupted."""


@contextmanager
def interruptible(command: str, kept: Path | None = None) -> Iterator[None]:
    """Say what goes on, and turn Ctrl-C into one line that says how far the run had come, and exit code 130."""
    try:
        with following(sys.stderr.isatty()):  # where errors go to a file or a pipe, they stand alone there
            tell("starting")
            yield
    except KeyboardInterrupt as interruption:
        told = getattr(interruption, "__notes__", None) or ["interrupted"]
        after = "nothing was written"
        if kept is not None and kept.exists():
            after = f"go on with it by: doxa {command} --resume {printable(str(kept))}"
        raise _InterruptedRun(f"{told[0]}; {after}") from None


def check_kind(run: Path, kind: str) -> None:
    """Raise `RunFileError` when the run in a file belongs to another command, and say to which."""
    from doxa.estimates.store import RunFileError, open_reader

    with open_reader(run, check=False) as reader:
        found = reader.header.kind
    if found != kind and found in _KINDS:
        what, command = _KINDS[found]
        raise RunFileError(f"'{run}' holds {what}; go on with it by: doxa {command} --resume {run}")


def _fail(message: str) -> int:
    print(f"doxa: {message}", file=sys.stderr)
    return 2


def _version(asked: bool) -> None:
    if asked:
        print(f"doxa {doxa.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: ARG001 (the callback has dealt with it)
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    return

"""The line that says what goes on: where it is shown, what it says, and that it leaves nothing behind."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace

import pytest

import doxa
from doxa import progress
from doxa.progress import Status, following, tell


class Terminal(io.StringIO):
    """What a terminal would show, line by line, the last one as it stands."""

    def isatty(self):
        return True

    @property
    def screen(self):
        shown = []
        for line in self.getvalue().split("\n"):
            cells = ""
            for part in line.split("\r"):
                cells = part + cells[len(part) :]
            shown.append(cells.rstrip())
        return shown


@pytest.fixture
def terminal(monkeypatch):
    made = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=made))  # pytest sets that of the interpreter again
    return made


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_shows_the_latest_line_and_none_at_the_end(terminal):
    with following():
        tell("reading a very long name.csv")
        assert terminal.screen == ["doxa: reading a very long name.csv"]
        tell("sampling")
        assert terminal.screen == ["doxa: sampling"]
    assert terminal.screen == [""]


@pytest.mark.parametrize("show", [None, False])
def test_nothing_is_shown_in_a_pipe_or_when_it_is_not_wanted(show, terminal, monkeypatch):
    if show is None:
        monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    with following(show):
        tell("reading")
        with following() as inner:  # as the driver does inside a question
            inner.draws("sampling", 10)
    assert terminal.getvalue() == ""


def test_a_script_whose_errors_go_to_a_file_hears_of_what_takes_long(terminal, monkeypatch, clock):
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    with following() as status:
        tell("reading")
        progress.compiling(True)
        progress.compiling(False)
        assert terminal.getvalue() == ""
        clock[0] = 6.0
        for begins in (True, False, True, False):
            progress.compiling(begins)
        tell("looking for a moment")
        for seconds in range(7, 2000):
            clock[0] = float(seconds)
            status.draws("sampling", seconds, of=2000)
    said = terminal.getvalue().splitlines()
    assert said[:2] == [
        "doxa: compiling, once for this version of doxa (some 5 to 20 seconds)",
        "doxa: sampling: 16 draws of each chain, 33 minutes left",
    ]
    assert 20 < len(said) < 50  # seldomer and seldomer


def test_a_program_without_a_console_goes_on(monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=None))
    with following() as status:
        tell("reading")
        assert status.stream is None


def test_a_notebook_has_the_line_too(terminal, monkeypatch):
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    monkeypatch.setattr(Terminal, "__module__", "ipykernel.iostream")
    with following():
        tell("reading")
        assert terminal.screen == ["doxa: reading"]
    assert terminal.screen == [""]


def test_draws_come_with_the_time_left_and_with_what_is_missing(clock):
    stream = Terminal()
    status = Status(stream)
    status.draws("warm-up", 100)
    clock[0] = 10.0
    status.draws("warm-up", 200, of=500)
    assert stream.screen == ["doxa: warm-up: 200 draws of each chain, 30 seconds left"]
    status.draws("sampling", 50, of=1000, held_back="the R-hat of a is 1.1")
    assert stream.screen[-1].endswith("50 draws of each chain; the R-hat of a is 1.1")  # no speed is known yet
    clock[0] = 10.01
    status.draws("sampling", 60, of=1000)
    assert "50 draws" in stream.screen[-1]  # not so often


def test_compiling_is_counted_and_the_line_before_comes_back(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with following():
        tell("summing over all graphs")
        for begins in (True, True, False):
            progress.compiling(begins)
        assert terminal.screen[0].startswith("doxa: compiling function 2, once for this version")
        progress.compiling(False)
        assert terminal.screen == ["doxa: summing over all graphs"]


def test_where_no_line_is_shown_compiling_is_said_once_in_the_log(caplog):
    with caplog.at_level(logging.INFO, logger="doxa"), following(False):
        for begins in (True, False, True, False):
            progress.compiling(begins)
    assert [record.getMessage() for record in caplog.records] == [
        "compiling, once for this version of doxa (some 5 to 20 seconds)"
    ]


def test_a_notice_has_a_line_of_its_own(terminal):
    handler = logging.StreamHandler(terminal)
    logger = logging.getLogger("doxa")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        with following():
            tell("summing over all graphs, which is long")
            logger.info("a notice")
            tell("done")
            assert terminal.screen == ["a notice", "doxa: done"]
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_names_cannot_write_to_the_terminal(terminal):
    with following():
        tell("reading \x1b[2Jevil.csv")
        assert "\x1b" not in terminal.getvalue()


def test_the_line_is_cleared_when_a_question_fails(terminal):
    with pytest.raises(doxa.DoxaError):
        doxa.learn("no such file.csv")
    assert "reading no such file.csv" in terminal.getvalue()
    assert terminal.screen == [""]


def test_an_exact_answer_says_what_it_does(terminal):
    doxa.learn(doxa.datasets.load("reinis").select(["smoke", "phys", "mental"]), seed=1)
    assert "doxa: summing over all graphs" in terminal.getvalue()
    assert terminal.screen == [""]
    before = terminal.getvalue()
    doxa.learn(doxa.datasets.load("reinis").select(["smoke", "phys"]), seed=1, progress=False)
    assert terminal.getvalue() == before

"""Run files that grow when they are told to, and requests to the live view."""

from __future__ import annotations

import dataclasses
import http.client
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import doxa
from doxa.estimates.store import ChainRound, Round, RunReader, create_run, open_reader

DRAWS = 60  # of a whole run, from which growing ones are cut


class GrowingRun:
    """A run under way: its writer holds the lease, and commits draws when asked."""

    def __init__(self, writer: Any, whole: RunReader) -> None:
        self.writer, self.trace, self.states = writer, whole.trace(), whole.states()
        self.n_draws = 0

    def warm_up(self, draws: int) -> None:
        self._commit("warmup", draws, {})

    def grow(self, draws: int) -> None:
        """Keep the next so many draws of each chain."""
        begin, self.n_draws = self.n_draws, self.n_draws + draws
        assert self.n_draws <= DRAWS
        self._commit("sampling", draws, {name: self.trace[name][:, begin : self.n_draws] for name in self.trace.names})

    def finish(self) -> None:
        from doxa.estimates.stopping import StopReport
        from doxa.estimates.store import keep_stop

        keep_stop(self.writer, StopReport("max_draws", None, 12.0))

    def _commit(self, phase: Any, draws: int, kept: dict[str, Any]) -> None:
        info = {"proposed": draws, "accepted": draws // 2} if kept else {}
        chains = [
            ChainRound({name: values[chain] for name, values in kept.items()}, info, state, rng)
            for chain, (state, rng) in enumerate(self.states)
        ]
        self.writer.commit(Round(phase, draws * self.trace.thin, chains))


@contextmanager
def growing_run(path: Path, whole: Path) -> Iterator[GrowingRun]:
    """A new run file at ``path``, with the options of a whole one, without a draw."""
    with open_reader(whole) as reader:
        options = {**reader.header.options, "stop": None, "draws": None}
        header = dataclasses.replace(reader.header, options=options)
        with create_run(path, header) as writer:
            yield GrowingRun(writer, reader)


def write_table(folder: Path) -> Path:
    """One of the bundled tables as a file, a row for each case."""
    table = doxa.datasets.load("reinis")
    lines = [",".join(table.names)]
    for row, count in zip(table.codes, table.counts, strict=True):
        line = ",".join(states[code] for states, code in zip(table.states, row, strict=True))
        lines += [line] * int(count)
    (folder / "reinis.csv").write_text("\n".join(lines) + "\n")
    return folder / "reinis.csv"


def make_whole(folder: Path) -> Path:
    """A finished run, with its table beside it."""
    doxa.learn(write_table(folder), draws=DRAWS, warmup=10, seed=3, store=folder / "whole.doxa", progress=False)
    return folder / "whole.doxa"


def ask(address: str, path: str | None = None, method: str = "GET", hosts: tuple[str, ...] | None = None) -> Any:
    """Answer to a request with these Host headers, none or several: (status, headers, text)."""
    url = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    connection.putrequest(method, url.path if path is None else path, skip_host=True)
    for host in (url.netloc,) if hosts is None else hosts:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text

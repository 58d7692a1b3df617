"""Counts of sets of columns that have been made: in memory, and in a SQLite file if one is named.

Sets that were counted in one pass are committed together, so a file never holds half a pass.  The file says what it
holds counts of, so that `table_of` needs no source any more.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from doxa.data.large.blocks import members_of
from doxa.data.large.table import OutOfCoreTable, SetCounts
from doxa.errors import FileError

__all__ = ["KeptCounts", "Known", "table_of"]


_SETS = "CREATE TABLE IF NOT EXISTS sets (columns TEXT PRIMARY KEY, codes BLOB, counts BLOB)"


class Known(NamedTuple):
    """What is known of a source before sets of columns are counted."""

    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    n_rows: int
    n_missing: tuple[int, ...]  # cells, by column
    n_each: tuple[tuple[int, ...], ...]  # how often each state occurs; empty for a column whose numbers are cut

    def to_json(self) -> str:
        """As text, the same for the same source."""
        return json.dumps(list(self), ensure_ascii=True, separators=(",", ":"))


class KeptCounts:
    """Counts by sets of columns as bits, kept in a file made when needed; one made of another source is refused."""

    def __init__(self, known: Known, path: str | os.PathLike[str] | None) -> None:
        self._known, self._path = known.to_json(), None if path is None else Path(path)
        self._found: dict[int, SetCounts] = {}
        if self._path is not None and self._path.exists():
            found, sets = _read(self._path)
            if found.to_json() != self._known:
                raise FileError(
                    f"keep {str(path)!r} holds counts of another source (other columns, states or numbers of rows); "
                    "name a new file, or delete this one"
                )
            self._found.update(sets)

    def __contains__(self, columns: int) -> bool:
        return columns in self._found

    def __getitem__(self, columns: int) -> SetCounts:
        return self._found[columns]

    def add(self, new: Mapping[int, SetCounts]) -> None:
        """Keep the counts of one pass."""
        if self._path is not None:
            rows = [
                (f"{columns:x}", one.codes.astype("<i2").tobytes(), one.counts.astype("<i8").tobytes())
                for columns, one in new.items()
            ]
            with _file(self._path) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS source (known TEXT PRIMARY KEY)")
                connection.execute("INSERT OR IGNORE INTO source VALUES (?)", [self._known])
                connection.execute(_SETS)
                connection.executemany("INSERT OR REPLACE INTO sets VALUES (?, ?, ?)", rows)
        self._found.update(new)


def table_of(path: str | os.PathLike[str], sets: Iterable[tuple[int, ...]]) -> OutOfCoreTable:
    """The table of counts of some sets of columns, rising, that a file of ours holds, or raise `FileError`."""
    known, found = _read(Path(path))
    wanted = [sum(1 << j for j in members) for members in sets]
    lacking = sum(columns not in found for columns in wanted)
    if lacking:
        raise FileError(
            f"{str(path)!r} lacks the counts of {lacking} of {len(wanted)} sets of columns; give the table that they "
            "are counts of"
        )
    return OutOfCoreTable(known.names, known.states, known.n_rows, [found[columns] for columns in wanted])


def _read(path: Path) -> tuple[Known, dict[int, SetCounts]]:
    """What a file holds."""
    found: dict[int, SetCounts] = {}
    with _file(path) as connection:
        ((text,),) = connection.execute("SELECT known FROM source").fetchall()
        known = _known_of(text)
        n_states = np.array([len(labels) for labels in known.states], dtype=np.int64)
        for name, codes, counts in connection.execute("SELECT columns, codes, counts FROM sets"):
            members = members_of(int(name, 16))
            numbers = np.frombuffer(counts, dtype="<i8").astype(np.int64)
            cells = np.frombuffer(codes, dtype="<i2").astype(np.int16).reshape(numbers.size, len(members))
            found[int(name, 16)] = SetCounts(members, n_states[list(members)], cells, numbers)
    return known, found


def _known_of(text: str) -> Known:
    names, states, n_rows, n_missing, n_each = json.loads(text)
    return Known(
        tuple(names), tuple(map(tuple, states)), int(n_rows), tuple(map(int, n_missing)), tuple(map(tuple, n_each))
    )


@contextmanager
def _file(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction."""
    try:
        with closing(sqlite3.connect(path)) as connection, connection:
            yield connection
    except (sqlite3.Error, ValueError, TypeError, IndexError) as error:  # no database, or not as `add` writes it
        raise FileError(f"keep {str(path)!r} cannot be used: {error}; name a new file") from error

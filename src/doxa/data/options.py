"""The options of `read_table`, checked before anything is read, and paths of tables."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doxa.errors import ArgumentError, ArgumentTypeError, FileError, TableError

__all__ = [
    "LEAVE_OUT",
    "LEAVE_OUT_MANY",
    "MISSING",
    "MOST_BINS",
    "Among",
    "TableSource",
    "check_columns",
    "check_missing",
    "check_opens",
    "is_parquet",
    "near",
    "shown",
]

_TEXTS = (".csv", ".tsv", ".tab", ".txt")
_PARQUETS = (".parquet", ".pq")


@dataclass(frozen=True)
class TableSource:
    """How a table was read, as a run file keeps it: the options of `doxa.read_table`."""

    source: str
    columns: tuple[str, ...] | None = None
    missing: str | tuple[str, ...] | None = None
    bins: int | str | Mapping[str, int | str | tuple[float, ...]] | None = None
    drop: tuple[str, ...] | None = None
    numbers: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    counts: str | None = None
    transform: Mapping[str, str] | None = None


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet by the end of its name; if not, it is a delimited text, or refused."""
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    if path.suffix.lower() in _PARQUETS:
        return True
    if suffix.lower() in _TEXTS:
        return False
    raise ArgumentError(
        f"source {str(path)!r}: the end of the name must say what the file is: "
        f"{', '.join(_TEXTS)} (also with .gz), {' or '.join(_PARQUETS)}"
    )


def check_opens(path: Path) -> None:
    """Open the file once for reading, so that what is wrong is said in plain words."""
    if "\0" in str(path):
        raise FileError(f"source {str(path)!r} cannot be opened: no name of a file contains a NUL character")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise FileError(f"source {str(path)!r} cannot be opened: its name is not UTF-8; rename it") from None
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # opening a pipe would wait for its writer
            with path.open("rb"):
                return
    except FileNotFoundError:
        raise FileError(f"source: no file {path.name!r} in {str(path.parent.absolute())!r}{_alike(path)}") from None
    except IsADirectoryError:
        raise FileError(f"source {str(path)!r} is a folder; name a file in it") from None
    except OSError as error:
        raise FileError(f"source {str(path)!r} cannot be opened: {error.strerror}") from error
    kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise FileError(f"source {str(path)!r} is {kind}, not a regular file; save its content in a file and name that")


def _alike(path: Path) -> str:
    """Suggest files in the same folder whose names resemble the one that is not there."""
    if not path.parent.is_dir():
        return "; there is no such folder"
    matches = difflib.get_close_matches(path.name, sorted(entry.name for entry in path.parent.iterdir()), n=3)
    return f"; did you mean {' or '.join(repr(match) for match in matches)}?" if matches else ""


MISSING = ("", "NA", "NaN", "null", "?")
# The way out that many messages offer, for readers in Python and on the command line.
_OTHERS = "by naming the others with columns=[...] or --columns"
LEAVE_OUT = f"leave it out {_OTHERS}"
LEAVE_OUT_MANY = f"leave out {_OTHERS}"
_MAX_SHOWN = 10
MOST_BINS = 1000


def check_missing(missing: Any) -> tuple[str, ...]:
    """Return the texts that stand for a missing cell."""
    if missing is None:
        return MISSING
    tokens = (missing,) if isinstance(missing, str) else missing
    if not isinstance(tokens, Iterable):
        raise ArgumentTypeError(
            f"missing is {missing!r}; give a text or a list of texts (a number as it is written: missing=['-9'])"
        )
    tokens = tuple(tokens)
    wrong = [token for token in tokens if not isinstance(token, str)]
    if wrong:
        raise ArgumentTypeError(f"missing contains {wrong[0]!r}; its entries are texts: write {str(wrong[0])!r}")
    return tokens


def check_columns(columns: Any, names: Sequence[str], what: str = "columns") -> list[int]:
    """Return the positions in ``names`` of the columns asked for: all of them for None."""
    if columns is None:
        return list(range(len(names)))
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise ArgumentTypeError(f"{what} is {columns!r}; give a list of names: {what}=[{columns!r}]")
    columns = list(columns)
    if not columns:
        way = "leave columns out to read all" if what == "columns" else f"leave {what} out"
        raise ArgumentError(f"{what} is empty; name at least one column, or {way}")
    position = {name: j for j, name in enumerate(names)}
    chosen: dict[str, int] = {}
    for i, name in enumerate(columns):
        if not isinstance(name, str):
            raise ArgumentTypeError(f"{what}[{i}] is {name!r}; columns are chosen by name")
        if name not in position:
            raise ArgumentError(f"{what} names {name!r}, which is no column{near(name, names)}")
        if name in chosen:
            raise ArgumentError(f"{what} names {name!r} twice")
        chosen[name] = position[name]
    return list(chosen.values())


class Among(tuple[str, ...]):
    """Names of columns in the place of ``columns``, of which those are read that are there."""

    seen: tuple[str, ...] = ()  # what columns there were, when that is known

    def there(self, names: Sequence[str]) -> list[int]:
        """Their positions, in the order of the table; `TableError` if there are none."""
        self.seen = tuple(names)
        found = [j for j, name in enumerate(names) if name in self]
        if not found:
            raise TableError(
                f"table has no column of the network's: its columns are {shown(names)}, and the nodes {shown(self)}; "
                "rename the columns"
            )
        return found


def near(name: str, names: Sequence[str]) -> str:
    """Say which names resemble ``name``, and which there are."""
    matches = [f"{match!r}" for match in difflib.get_close_matches(name, names, n=3)]
    suggestion = f"; did you mean {' or '.join(matches)}?" if matches else ""
    return f"{suggestion} (there are: {shown(names)})" if suggestion else f"; there are: {shown(names)}"


def shown(names: Iterable[str]) -> str:
    """List names in quotes, the first ten of them."""
    quoted = [repr(name) for name in names]
    rest = len(quoted) - _MAX_SHOWN
    return ", ".join(quoted[:_MAX_SHOWN]) + (f" and {rest} more" if rest > 0 else "")

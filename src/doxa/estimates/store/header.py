"""What a stored run was started with, and how two starts differ.

A `RunHeader` is written when the run begins.  Whoever resumes the run states what it expects; what differs is named,
because draws of one run must come from one table, one set of options and one set of versions.

The header as a row of the run file: its JSON text beside a SHA-256 digest of it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from doxa.errors import ArgumentError, ArgumentTypeError, FileError
from doxa.text import printable

__all__ = [
    "MAX_HEADER",
    "RunFileError",
    "RunHeader",
    "decode_json",
    "encode_json",
    "insert_header",
    "read_header",
    "update_header",
    "with_free_options",
]

_WIDEST = 80  # characters of a value shown in a message
_FIELDS = {"kind": str, "options": dict, "data_digest": str, "versions": dict, "n_chains": int, "thin": int}
_MAX_CHAINS = 100_000


class RunFileError(FileError):
    """A run file cannot be made, read, continued or written to; the message says why, and the way out."""


@dataclass(frozen=True)
class RunHeader:
    """What a run was started with.

    Parameters
    ----------
    kind : str
        What is sampled, such as ``"structure"``.
    options : mapping of str to JSON value
        The options that draws depend on, and those that say when to stop.
    data_digest : str
        Digest of the table; any text that changes when the data do.
    versions : mapping of str to str
        Versions of the programs that draws depend on.
    n_chains : int
    thin : int, default=1
        Steps for each kept draw.
    entropy : int, tuple of int or None, default=None
        Entropy of the seed sequence; None if unknown, and then not compared.
    created : str, default=""
        When the run began, for people; never compared.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a field is of another type, or an option cannot be written as JSON (NaN and infinity cannot).

    Examples
    --------
    >>> begun = RunHeader("structure", {"score": "bdeu", "draws": 500}, "ab12", {"doxa": "1.0"}, 4)
    >>> later = RunHeader("structure", {"score": "k2", "draws": 900}, "ab12", {"doxa": "1.0"}, 4)
    >>> for difference in begun.differences(later, free=("draws",)):
    ...     print(difference)
    option 'score' is "bdeu" in the file and "k2" now
    """

    kind: str
    options: Mapping[str, Any]
    data_digest: str
    versions: Mapping[str, str]
    n_chains: int
    thin: int = 1
    entropy: int | tuple[int, ...] | None = None
    created: str = ""

    def __post_init__(self) -> None:
        """Check, and copy the mappings by way of JSON, so that what is compared is what is stored."""
        for name, kind in (*_FIELDS.items(), ("created", str)):
            value = getattr(self, name)
            if not isinstance(value, Mapping if kind is dict else kind) or isinstance(value, bool):
                raise ArgumentTypeError(f"{name} is {value!r}; it must be a {kind.__name__}")
        if not 1 <= self.n_chains <= _MAX_CHAINS or self.thin < 1:
            raise ArgumentError(
                f"n_chains is {self.n_chains} and thin {self.thin}; "
                f"they must be at least 1, and n_chains at most {_MAX_CHAINS}"
            )
        parts = self.entropy if isinstance(self.entropy, tuple) else (self.entropy or 0,)
        if not all(isinstance(part, int) and not isinstance(part, bool) and part >= 0 for part in parts):
            raise ArgumentTypeError(f"entropy is {self.entropy!r}; it must be a whole number, a tuple of them, or None")
        for name in ("options", "versions"):
            mapping = dict(getattr(self, name))
            if not all(isinstance(key, str) for key in mapping):
                raise ArgumentTypeError(f"{name} has keys that are not text: {_short(list(mapping))}")
            text = {key: encode_json(f"{name}[{key!r}]", value) for key, value in mapping.items()}
            object.__setattr__(self, name, {key: json.loads(value) for key, value in text.items()})
        if not all(isinstance(version, str) for version in self.versions.values()):
            raise ArgumentTypeError(f"versions is {_short(dict(self.versions))}; versions are text")

    def to_json(self) -> str:
        """The text kept in the file."""
        entropy = list(self.entropy) if isinstance(self.entropy, tuple) else self.entropy
        body = {name: getattr(self, name) for name in _FIELDS} | {"entropy": entropy, "created": self.created}
        return encode_json("header", body)

    @classmethod
    def from_json(cls, text: str) -> RunHeader:
        """Read what `to_json` wrote.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If it is anything else.
        """
        body = decode_json("header", text)
        if not isinstance(body, dict) or set(body) != {*_FIELDS, "entropy", "created"}:
            raise ArgumentError("header has other fields than a header has")
        if isinstance(body["entropy"], list):
            body["entropy"] = tuple(body["entropy"])
        return cls(**body)

    def differences(
        self, now: RunHeader, free: Collection[str] = (), free_versions: Collection[str] = ()
    ) -> Iterator[str]:
        """Say how another start differs from this one, which is the one in the file.

        Parameters
        ----------
        now : RunHeader
        free : collection of str
            Options that may differ, such as how many draws to make.
        free_versions : collection of str
            Programs whose versions may differ.

        Yields
        ------
        str
            One line for each difference.
        """
        for name, what in (("kind", "the kind of run"), ("n_chains", "the number of chains"), ("thin", "thin")):
            yield from _difference(what, getattr(self, name), getattr(now, name))
        if self.data_digest != now.data_digest:
            yield (
                f"the data are others: their digest is {_short(self.data_digest)} in the file"
                f" and {_short(now.data_digest)} now"
            )
        if self.entropy is not None and now.entropy is not None:
            yield from _difference("the seed", self.entropy, now.entropy)
        for what, mine, theirs, leave in (
            ("option", self.options, now.options, free),
            ("the version of", self.versions, now.versions, free_versions),
        ):
            for key in dict.fromkeys((*mine, *theirs)):
                if key not in leave:
                    yield from _difference(f"{what} {_quoted(key)}", mine.get(key, _ABSENT), theirs.get(key, _ABSENT))


def with_free_options(stored: RunHeader, now: RunHeader, free: Collection[str]) -> RunHeader:
    """The stored header with the options named in ``free`` as they are now.

    >>> begun = RunHeader("structure", {"score": "bdeu", "draws": 500}, "ab12", {}, 4)
    >>> later = RunHeader("structure", {"score": "bdeu", "draws": 900}, "ab12", {}, 4)
    >>> with_free_options(begun, later, ("draws",)).options["draws"]
    900
    """
    changed = {key: value for key, value in now.options.items() if key in free}
    return replace(stored, options={**stored.options, **changed})


def encode_json(name: str, value: object) -> str:
    """JSON text of a value, the same text for equal values; messages begin with ``name``."""
    try:
        return json.dumps(value, allow_nan=False, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"{name} cannot be written as JSON: {error}; use text, numbers, lists, None") from error


def decode_json(name: str, text: str) -> Any:
    """Read JSON, refusing what `encode_json` never writes."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{name} is not JSON") from error


def _refuse_constant(text: str) -> None:
    raise ValueError(text)


_ABSENT = object()


def _difference(what: str, mine: object, theirs: object) -> Iterator[str]:
    numbers = isinstance(mine, (int, float)) and isinstance(theirs, (int, float))
    if numbers and not isinstance(mine, bool) and not isinstance(theirs, bool):
        same = mine == theirs
    elif mine is _ABSENT or theirs is _ABSENT:
        same = False
    else:
        same = encode_json(what, mine) == encode_json(what, theirs)
    if not same:
        yield f"{what} is {_short(mine)} in the file and {_short(theirs)} now"


def _short(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, default=repr)
    return printable(text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "...")


def _quoted(key: str) -> str:
    return f"'{printable(key[:_WIDEST])}'"


MAX_HEADER = 2**24  # characters


def insert_header(connection: sqlite3.Connection, body: str) -> None:
    """Write the header of a new run, inside a transaction of the caller."""
    connection.execute("INSERT INTO header VALUES (1, ?, ?)", (body, _digest(body)))


def update_header(connection: sqlite3.Connection, body: str) -> None:
    """Write another header over the one that is there, inside a transaction of the caller."""
    connection.execute("UPDATE header SET body = ?, sha256 = ? WHERE id = 1", (body, _digest(body)))


def read_header(connection: sqlite3.Connection) -> RunHeader:
    """Read the header and check it, its length and its checksum included."""
    rows = connection.execute("SELECT id, length(body), body, sha256 FROM header LIMIT 2").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][2], str) or rows[0][0] != 1 or len(rows[0][2]) > MAX_HEADER:
        raise ArgumentError("it has no header")
    if _digest(rows[0][2]) != rows[0][3]:
        raise ArgumentError("its header fails its checksum")
    return RunHeader.from_json(rows[0][2])


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()

"""`Source`: the text of a file, with its name and the limits it is held to; opened without trusting anything.

A packed file is unpacked twice, first to count its bytes and keep none: what is refused has cost no memory.
Texts are written whole or not at all.

`Spans` are names in a text, known by their places until one is asked for: a name of two characters takes sixty bytes
and more as an object, sixteen as the two ends of its place.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import stat
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError, FileError
from doxa.replacing import replacing


class Spans(Sequence[str]):
    """Names in the order in which their places were given."""

    __slots__ = ("_clean", "_ends", "_starts", "_text")

    def __init__(self, text: str, clean: Callable[[str], str]) -> None:
        self._text, self._clean = text, clean
        self._starts, self._ends = array("q"), array("q")

    def add(self, start: int, end: int) -> None:
        """Append the name that ``clean`` makes of ``text[start:end]``."""
        self._starts.append(start)
        self._ends.append(end)

    def cut(self, n: int) -> None:
        """Keep the first ``n``."""
        del self._starts[n:], self._ends[n:]

    def place(self, k: int) -> int:
        """Where name ``k`` begins."""
        return self._starts[k]

    def join(self, k: int, first: int, end: int) -> None:
        """Let name ``k`` be what names ``first`` to ``end - 1`` are, and what stands between them."""
        self._starts[k], self._ends[k] = self._starts[first], self._ends[end - 1]

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        return self._clean(self._text[self._starts[index] : self._ends[index]])


class Finder:
    """Which of ``n`` names of a sequence, from ``first`` on, a text is, counted from 0.

    ``find`` raises a KeyError for a text that is none of them.
    """

    __slots__ = ("_first", "_hashes", "_names", "_order", "find")

    FEW = 256  # names of which a dictionary is made

    def __init__(self, names: Sequence[str], first: int, n: int) -> None:
        self._names, self._first = names, first
        self.find: Callable[[str], int] = self._find
        if n <= self.FEW:
            self.find = {names[first + k]: k for k in range(n)}.__getitem__
        else:
            hashes = _hashes(names, first, n)
            self._order = np.argsort(hashes, kind="stable")
            self._hashes = hashes[self._order]

    def _find(self, name: str) -> int:
        at = int(np.searchsorted(self._hashes, hash(name)))
        while at < len(self._hashes) and self._hashes[at] == hash(name):
            k = int(self._order[at])
            if self._names[self._first + k] == name:
                return k
            at += 1
        raise KeyError(name)


def repeated(names: Sequence[str], first: int = 0) -> int | None:
    """Where a name stands, from ``first`` on, that stands there before; None if all differ."""
    n, seen = len(names) - first, set[str]()
    if n <= Finder.FEW:
        for k in range(first, len(names)):
            if names[k] in seen:
                return k
            seen.add(names[k])
        return None
    hashes = _hashes(names, first, n)
    hashes.sort()
    same = hashes[1:] == hashes[:-1]
    for at in filter(same.__getitem__, range(n - 1)):  # the first of them, but for two names of one hash
        for k in range(first, len(names)):
            if hash(names[k]) == hashes[at]:
                if names[k] in seen:
                    return k
                seen.add(names[k])
    return None


def check_states(
    source: Source, variable: str, labels: Sequence[str], first: int, place_of: Callable[[int], int]
) -> None:
    """Refuse two states of one name, of the labels from ``first`` on; label k stands at ``place_of(k)``."""
    twice = repeated(labels, first)
    if twice is not None:
        cause = f"{variable} has the state {shown(labels[twice])} more than once; states must differ"
        source.refuse(cause, place_of(twice))


def _hashes(names: Sequence[str], first: int, n: int) -> NDArray[np.int64]:
    return np.fromiter((hash(names[first + k]) for k in range(n)), dtype=np.int64, count=n)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that a file may hold: a few kilobytes can declare tables that fill any memory.

    Parameters
    ----------
    max_bytes : int, default=2**24
        Size of the file, unpacked.  The largest of the usual reference networks has a third of it.
    max_variables : int, default=10_000
        Number of variables; the adjacency matrix of that many takes 100 MB.
    max_states : int, default=2**18
        Number of states of all variables together.
    max_numbers : int, default=2**24
        Number of entries of all tables together, of 8 bytes each, whether the file writes them out or not.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If one of them is not a whole number of at least 1.

    Examples
    --------
    >>> Limits(max_numbers=2**28).max_variables
    10000
    """

    max_bytes: int = 2**24
    max_variables: int = 10_000
    max_states: int = 2**18
    max_numbers: int = 2**24

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, check_whole(field.name, getattr(self, field.name), 1))


class NetworkFileError(FileError):
    """A network file, or a file of evidence, cannot be read.

    Attributes
    ----------
    path : str
        The file.
    cause : str
        What is wrong, in words, and the way out.
    line, column : int or None
        Where, both from 1; None where the whole file is meant.
    """

    def __init__(self, what: str, path: str, cause: str, line: int | None = None, column: int | None = None) -> None:
        where = "" if line is None else f", line {line}, column {column}"
        super().__init__(f"{what} {path!r}{where}: {cause}")
        self.path, self.cause, self.line, self.column = path, cause, line, column
        self._given = (what, path, cause, line, column)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given


def write_text(pieces: Iterable[str], path: str, what: str) -> None:
    """Write pieces of text as UTF-8, packed for ``.gz``; an older file is replaced in one step or left."""
    try:
        target = _target(Path(path), f"{what} {path!r}")
        with replacing(target) as temporary:
            _fill(temporary, pieces, packed=path.lower().endswith(".gz"))
    except DoxaError:
        raise
    except UnicodeEncodeError as error:
        raise FileError(f"{what} {path!r}: a name contains {error.object[error.start]!r}, half a character") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileError(f"{what} {path!r} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def _target(name: Path, called: str) -> Path:
    """The file that will be replaced: a link stays a link."""
    if name.is_dir():
        raise FileError(f"{called} is a folder; give the name of a file in it")
    if not name.parent.is_dir():
        raise FileError(f"{called}: the folder {str(name.parent)!r} does not exist; create it first")
    target = name.resolve()
    if target.exists() and not target.is_file():
        raise FileError(f"{called} is no regular file; give another name")
    if target.exists() and not os.access(target, os.W_OK):
        raise FileError(f"{called} may not be written to; change its permissions or give another name")
    return target


def _fill(path: Path, pieces: Iterable[str], *, packed: bool) -> None:
    with path.open("wb") as raw, contextlib.ExitStack() as stack:
        # neither name nor time in the header: the same network makes the same bytes
        stream = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0)) if packed else raw
        for piece in pieces:
            stream.write(piece.encode())


def blanked(source: Source, comment: re.Pattern[str]) -> Source:
    """The source with blanks in the place of comments; matches with a group are none."""
    made, position = StringIO(), 0
    for found in comment.finditer(source.text):
        if found.lastindex is None:
            made.write(source.text[position : found.start()])
            made.write(" " * len(found[0]))
            position = found.end()
    if not position:
        return source
    made.write(source.text[position:])
    return Source(source.what, source.path, made.getvalue(), source.limits)


_CHUNK = 2**16
_GZIP = b"\x1f\x8b"
_DECLARED = re.compile(rb"""\s*<\?xml[^>]{0,99}?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_ENCODINGS = {
    "utf-8": "utf-8-sig",
    "utf8": "utf-8-sig",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "latin-1",
    "latin1": "latin-1",
    "windows-1252": "cp1252",
}


@dataclass(frozen=True)
class Source:
    """A text to scan."""

    what: str  # "network" or "evidence", as messages call it
    path: str
    text: str
    limits: Limits

    def refuse(self, cause: str, place: int | None = None) -> NoReturn:
        """Raise, naming line and column of a place of the text."""
        if place is None:
            raise NetworkFileError(self.what, self.path, cause)
        line = self.text.count("\n", 0, place) + 1
        column = place - self.text.rfind("\n", 0, place)
        raise NetworkFileError(self.what, self.path, cause, line, column)

    def refuse_too_many(self, things: str, number: int, limit: str, place: int | None = None) -> NoReturn:
        """Raise because a limit is passed; ``number`` would be enough."""
        most = getattr(self.limits, limit)
        enough = number if number < 2**40 else "..."
        self.refuse(f"{things}, more than the {most} allowed; raise it with limits=Limits({limit}={enough})", place)


def shown(text: str) -> str:
    """A name or a piece of a file for a message, in quotes and never long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def check_path(path: object) -> str:
    """Return the name of a file, or raise unless it can be one."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(f"path is {path!r}; it must be the name of a file")
    name = os.fspath(path)
    if not isinstance(name, str):
        raise ArgumentTypeError(f"path is {path!r}; it must be text, not bytes")
    if not name:
        raise ArgumentError("path is empty; it must be the name of a file")
    return name


def open_source(path: str, limits: Limits | None, what: str = "network", *, xml: bool = False) -> Source:
    """Read a file, whole, as text, unpacked if it ends in ``.gz``; messages call it ``what``.

    An XML declaration may name an encoding; other files are UTF-8.
    """
    if limits is None:
        limits = Limits()
    if not isinstance(limits, Limits):
        raise ArgumentTypeError(f"limits is {limits!r}; give a Limits, such as Limits(max_numbers=2**28)")
    source = Source(what, path, "", limits)
    raw = _read(source)
    if not raw.strip():
        source.refuse("the file is empty" if not raw else "the file holds nothing but blanks")
    text = _decode(source, raw, xml)
    return Source(what, path, text, limits)


def _read(source: Source) -> bytes:
    name = Path(source.path)
    try:
        status = name.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for its writer
            folder = stat.S_ISDIR(status.st_mode)
            source.refuse("it is a folder; name a file in it" if folder else "it is no regular file; save it in one")
        if status.st_size > source.limits.max_bytes:
            source.refuse_too_many(f"the file has {status.st_size} bytes", status.st_size, "max_bytes")
        with name.open("rb") as stream:
            if name.suffix.lower() == ".gz":
                return _unpack(source, stream)
            return _read_plain(source, stream, status.st_size)
    except FileNotFoundError:
        source.refuse(f"there is no such file in {str(name.parent.absolute())!r}")
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        source.refuse(f"it is not a gzip file, or is damaged: {error}")
    except NetworkFileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        source.refuse(f"it cannot be opened: {getattr(error, 'strerror', None) or error}")


def _read_plain(source: Source, stream: BinaryIO, size: int) -> bytes:
    raw = stream.read(size)
    if raw.startswith(_GZIP):
        source.refuse("it is packed by gzip; let its name end in .gz")
    return raw


def _unpack(source: Source, stream: BinaryIO) -> bytes:
    most, size = source.limits.max_bytes, 0
    with gzip.GzipFile(fileobj=stream) as packed:
        while chunk := packed.read(_CHUNK):
            size += len(chunk)
            if size > most:
                source.refuse_too_many(f"unpacked, the file has {size} bytes or more", 4 * most, "max_bytes")
        packed.seek(0)
        return packed.read(size)


def _decode(source: Source, raw: bytes, xml: bool) -> str:
    encoding = "utf-8-sig"
    if xml and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif xml and (declared := _DECLARED.match(raw.removeprefix(b"\xef\xbb\xbf"))):
        name = declared[1].decode("ascii")
        if name.lower() not in _ENCODINGS:
            source.refuse(f"its encoding {name!r} is not read; convert the file, and what it declares, to UTF-8")
        encoding = _ENCODINGS[name.lower()]
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        begin = raw.rfind(b"\n", 0, error.start) + 1
        column = len(raw[begin : error.start].decode("utf-8", "replace")) + 1
        form = {"utf-8-sig": "UTF-8", "ascii": "ASCII, as it declares", "utf-16": "UTF-16"}.get(encoding, encoding)
        cause = f"the byte 0x{raw[error.start]:02x} shows that it is not {form}; convert it to UTF-8"
        raise NetworkFileError(source.what, source.path, cause, line, column) from None

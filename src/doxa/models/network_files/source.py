"""`Source`: the text of a file, with its name and the limits it is held to; opened without trusting anything.

A packed file is unpacked twice, first to count its bytes and keep none: what is refused has cost no memory.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.network_files.limits import Limits, NetworkFileError

__all__ = ["Source", "check_path", "open_source", "shown"]

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
    """Read a file, whole, as text.

    Parameters
    ----------
    path : str
        Unpacked on the way if it ends in ``.gz``.
    limits : Limits, optional
    what : str
        What messages call it.
    xml : bool
        Whether an XML declaration may name an encoding; other files are UTF-8.

    Raises
    ------
    NetworkFileError
        If it cannot be opened, is larger than ``limits.max_bytes``, damaged, empty, or not of its encoding.
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

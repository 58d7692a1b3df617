"""The header as a row of the run file: its JSON text beside a SHA-256 digest of it."""

from __future__ import annotations

import hashlib
import sqlite3

from doxa.errors import ArgumentError
from doxa.estimates.store.header import RunHeader

__all__ = ["MAX_HEADER", "insert_header", "read_header", "update_header"]

MAX_HEADER = 2**24  # characters


def insert_header(connection: sqlite3.Connection, body: str) -> None:
    """Write the header of a new run, inside a transaction of the caller."""
    connection.execute("INSERT INTO header VALUES (1, ?, ?)", (body, _digest(body)))


def update_header(connection: sqlite3.Connection, body: str) -> None:
    """Write another header over the one that is there, inside a transaction of the caller."""
    connection.execute("UPDATE header SET body = ?, sha256 = ? WHERE id = 1", (body, _digest(body)))


def read_header(connection: sqlite3.Connection) -> RunHeader:
    """Read the header and check it.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If it is missing, too long, fails its checksum, or is no header.
    """
    rows = connection.execute("SELECT id, length(body), body, sha256 FROM header LIMIT 2").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][2], str) or rows[0][0] != 1 or len(rows[0][2]) > MAX_HEADER:
        raise ArgumentError("it has no header")
    if _digest(rows[0][2]) != rows[0][3]:
        raise ArgumentError("its header fails its checksum")
    return RunHeader.from_json(rows[0][2])


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()

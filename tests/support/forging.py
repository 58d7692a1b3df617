"""Run files as a forger would change them: the checksums are right, and only what the file means is wrong."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from doxa.estimates.store.reader import block_key, checksum, state_key


def put(*way: Any) -> Callable[[dict[str, Any]], None]:
    """A change: the last of ``way`` in the place that the others lead to."""
    *place, name, value = way

    def change(body: Any) -> None:
        for key in place:
            body = body[key]
        body[name] = value

    return change


def forge_header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header in place."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        body = json.loads(connection.execute("SELECT body FROM header").fetchone()[0])
        change(body)
        text = json.dumps(body)
        digest = hashlib.sha256(text.encode()).hexdigest()
        connection.execute("UPDATE header SET body = ?, sha256 = ?", (text, digest))


def forge_chain(path: Path, change: Callable[[dict[str, Any]], object], chain: int = 0) -> None:
    """Change what is said of a chain, its arrays left out, in place."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        number, text = connection.execute("SELECT round, body FROM chains WHERE chain = ?", (chain,)).fetchone()
        body = json.loads(text)
        change(body)
        text = json.dumps(body)
        crc = checksum(state_key(number, chain, "", ("", "", "")), text.encode())
        connection.execute("UPDATE chains SET body = ?, crc32 = ? WHERE chain = ?", (text, crc, chain))


def forge_state(path: Path, name: str, change: Callable[[Any], Any], chain: int = 0) -> None:
    """Put another array in the place of one of a chain's state."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (number,) = connection.execute("SELECT max(round) FROM rounds").fetchone()
        query = "SELECT id, dtype, shape, codec, data FROM states WHERE chain = ? AND name = ?"
        identity, *packed = connection.execute(query, (chain, name)).fetchone()
        dtype, shape, data = _packed(change(_array(packed)))
        crc = checksum(state_key(number, chain, name, (dtype, shape, "raw")), data)
        statement = "UPDATE states SET dtype = ?, shape = ?, codec = 'raw', crc32 = ?, data = ? WHERE id = ?"
        connection.execute(statement, (dtype, shape, crc, data, identity))


def forge_draws(
    path: Path, name: str, change: Callable[[Any], Any], *, everywhere: bool = False, deflated: bool = False
) -> None:
    """Put other draws of a quantity in the place of the first block of the first chain, or of every block."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        query = "SELECT id, round, chain, first, dtype, shape, codec, data FROM blocks WHERE name = ? ORDER BY id"
        rows = connection.execute(query, (name,)).fetchall()
        for identity, number, chain, first, *packed in rows if everywhere else rows[:1]:
            dtype, shape, data = _packed(change(_array(packed)))
            codec, data = ("deflate", zlib.compress(data)) if deflated else ("raw", data)
            crc = checksum(block_key(number, chain, name, first, (dtype, shape, codec)), data)
            statement = "UPDATE blocks SET dtype = ?, shape = ?, codec = ?, crc32 = ?, data = ? WHERE id = ?"
            connection.execute(statement, (dtype, shape, codec, crc, data, identity))


def _array(packed: Any) -> Any:
    dtype, shape, codec, data = packed
    raw = zlib.decompress(data) if codec == "deflate" else data
    return np.frombuffer(raw, dtype=dtype).reshape(json.loads(shape)).copy()


def _packed(values: Any) -> tuple[str, str, bytes]:
    values = np.asarray(values)
    return values.dtype.str, json.dumps(list(values.shape), separators=(",", ":")), values.tobytes()

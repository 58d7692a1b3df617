"""Who writes a run file: what the sidecar of its lease says, which is not touched.

The lock itself is not asked: to ask is to hold it for a moment, in which a writer that begins would be refused.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["Writer", "writer_of"]

_HOLDER = re.compile(r"process (\d{1,9}) on (.+)")


class Writer(NamedTuple):
    """Who writes a run file."""

    alive: bool | None  # None: cannot tell from here
    since: float | None  # seconds since 1970


def writer_of(path: Path) -> Writer:
    """The process that writes a run file, by the sidecar of its lease (`doxa.estimates.store.lease`).

    Examples
    --------
    >>> writer_of(Path("no such run.doxa"))
    Writer(alive=False, since=None)
    """
    real = path.resolve()
    sidecar = real.with_name(real.name + ".lock")
    try:
        with sidecar.open("rb") as file:
            since = os.fstat(file.fileno()).st_mtime
            holder = _HOLDER.fullmatch(file.read(200).decode("utf-8", "replace").strip())
    except FileNotFoundError:
        return Writer(None if sys.platform == "win32" else False, None)
    except OSError:
        return Writer(None, None)
    if holder is None or holder[2] != socket.gethostname() or sys.platform == "win32":
        return Writer(None, since)
    try:
        os.kill(int(holder[1]), 0)
    except ProcessLookupError:
        return Writer(False, None)  # killed: who ends in order takes the sidecar away
    except OSError:
        pass  # it is another user's, and alive
    return Writer(True, since)

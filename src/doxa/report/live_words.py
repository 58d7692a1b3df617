"""How far a run is, in words for the live view."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from doxa.text import printable

__all__ = ["Progress", "gone_text", "progress_text"]

_COMMANDS = {"structure": "learn", "parameters": "fit"}


class Progress(NamedTuple):
    """What a run file says of how far its run is."""

    state: str  # "before" there is a file, "warm-up", "running", "finished", or "stopped" before its end
    kind: str = "structure"
    chains: int = 0
    draws: int = 0  # kept, of each chain
    planned: int | None = None  # None: as many as it takes
    warmup: int = 0  # draws that were discarded
    stop: str | None = None  # why it finished
    since: float | None = None  # when its writer began, in seconds since 1970


def progress_text(progress: Progress, path: Path, now: float | None = None) -> str:
    """One or two sentences; ``now`` is the time in seconds since 1970.

    Examples
    --------
    >>> print(progress_text(Progress("running", chains=4, draws=1200, planned=4000, since=0.0), Path("r.doxa"), 35.0))
    Running: 1200 draws of 4000 of each of 4 chains, 35 s so far, not finished.
    >>> print(progress_text(Progress("warm-up", since=0.0), Path("r.doxa"), now=150.0))
    In the warm-up or before it, 2 min 30 s so far; no draws are kept yet. The page comes with the first that are.
    """
    now = time.time() if now is None else now
    sofar = "" if progress.since is None else f", {_time_text(max(0.0, now - progress.since))} so far"
    of_plan = "" if progress.planned is None else f" of {progress.planned}"
    chains = "1 chain" if progress.chains == 1 else f"each of {progress.chains} chains"
    match progress.state:
        case "before":
            return f"The run has no file yet{sofar}: its table is being read. The page comes with the first draws."
        case "warm-up":
            done = f": {progress.warmup} draws of each chain" if progress.warmup else " or before it"
            return f"In the warm-up{done}{sofar}; no draws are kept yet. The page comes with the first that are."
        case "running":
            return f"Running: {progress.draws} draws{of_plan} of {chains}{sofar}, not finished."
        case "finished":
            return f"Finished: {progress.draws} draws of {chains}. {progress.stop or ''}".rstrip()
        case _:
            command = _COMMANDS.get(progress.kind, "learn")
            return (
                f"Stopped before its end: {progress.draws} draws{of_plan} of {chains}. "
                f"Go on with it by: doxa {command} --resume {printable(str(path))}"
            )


def gone_text(path: Path) -> str:
    """What a page says when nobody answers it any more."""
    return (
        "The run has ended, or what served this page is gone. The page stays as it is; one of the whole run is made "
        f"by: doxa report {printable(str(path))} -o report.html"
    )


def _time_text(seconds: float) -> str:
    """Seconds, minutes or hours.

    Examples
    --------
    >>> _time_text(59.4), _time_text(3599.0), _time_text(7300.0)
    ('59 s', '59 min 59 s', '2 h 1 min')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

"""Why a run stopped, as a run file keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from doxa.errors import ArgumentError
from doxa.estimates.stopping import Audit, Shortfall, StopReport

if TYPE_CHECKING:
    from doxa.estimates.store.writer import RunWriter

__all__ = ["keep_stop", "stop_as_json", "stored_stop"]


def stored_stop(options: Mapping[str, Any]) -> StopReport | None:
    """Why a run stopped; None if that is not known, or it has not come to its end.

    Raises
    ------
    ArgumentError
        If the option is not as `stop_as_json` writes it.
    """
    match options.get("saved", {"stop": options.get("stop")}):
        case {"stop": None}:
            return None
        case {"stop": {"reason": str(reason), "seconds": str(seconds), "held_back": held_back, **more}}:
            return StopReport(reason, _shortfall(held_back), _number(seconds), _audit(more.get("audit")))
        case _:
            raise ArgumentError("its option 'saved' has no such form")


def keep_stop(store: RunWriter, stop: StopReport) -> None:
    """Write why a run stopped into the file in which it was kept as it went."""
    options = {**store.header.options, "stop": stop_as_json(stop)}
    store.change_header(replace(store.header, options=options))


def stop_as_json(stop: StopReport | None) -> dict[str, Any] | None:
    """Floats as hexadecimal text, so that every bit is kept, infinity included."""
    if stop is None:
        return None
    held = stop.held_back
    described = None if held is None else [held.name, held.what, *(float(x).hex() for x in held[2:])]
    audited = stop.audit
    audit = None if audited is None else [audited.found, float(audited.seconds).hex(), audited.n_starts]
    return {"reason": stop.reason, "seconds": float(stop.seconds).hex(), "held_back": described, "audit": audit}


def _audit(stored: object) -> Audit | None:
    match stored:
        case None:
            return None
        case [str(found), str(seconds)]:
            return Audit(found, _number(seconds))
        case [str(found), str(seconds), int(n_starts)]:
            return Audit(found, _number(seconds), n_starts)
        case _:
            raise ArgumentError("its option 'saved' has no such form")


def _shortfall(stored: object) -> Shortfall | None:
    match stored:
        case None:
            return None
        case [str(name), str(what), str(value), str(target), str(factor)]:
            return Shortfall(name, what, _number(value), _number(target), _number(factor))
        case _:
            raise ArgumentError("its option 'saved' has no such form")


def _number(digits: str) -> float:
    try:
        return float.fromhex(digits)
    except (ValueError, OverflowError):
        raise ArgumentError("its option 'saved' holds a number that cannot be read") from None

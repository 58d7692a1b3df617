"""What heads every page: whether to trust the answer, why, and what to do."""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from doxa.text import printable

if TYPE_CHECKING:
    from doxa.estimates.verdict import Verdict

__all__ = ["closing_facts", "verdict_box"]

_NEXT = {
    True: "Nothing need be done; look at the Monte Carlo errors of the numbers that you use.",
    False: "Do not rely on the numbers of this page yet.",
    None: "Take the numbers of this page as provisional.",
}
_NEXT_AFTER = {
    "Exact": "Nothing need be done.",
    "Approximation": "Use the numbers of this page as approximations: how far off they are is not known.",
}
_STATES = {True: "yes", False: "no", None: "unknown"}


def verdict_box(found: Verdict) -> dict[str, str]:
    """``state`` (yes, no, unknown), the ``word`` for it, ``why``, and ``next``, what to do."""
    then = _NEXT_AFTER.get(found.word, _NEXT[found.converged])
    why = printable(found.reason)
    return {
        "state": "unknown" if found.word == "Approximation" else _STATES[found.converged],
        "word": found.word,
        "why": why[:1].upper() + why[1:],
        "next": f"{printable(found.advice)} {then}".lstrip(),
    }


def closing_facts(packages: tuple[str, ...], written: datetime) -> list[tuple[str, str]]:
    """Versions of what is installed now, and the time."""
    return [
        ("Versions", ", ".join(f"{name} {_version(name)}" for name in packages)),
        ("Page written", written.isoformat(sep=" ", timespec="seconds")),
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not known"

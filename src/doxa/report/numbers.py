"""Numbers and text for the page: as few digits as are read, in JSON that no name can end, or packed in base 64.

Also what heads every page: whether to trust the answer, why, and what to do.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.text import printable

if TYPE_CHECKING:
    from doxa.estimates.diagnostics import RealDiagnosis
    from doxa.estimates.estimate import Verdict

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
    then = _NEXT_AFTER.get(found.status, _NEXT[found.converged])
    why = printable(found.reason)
    return {
        "state": "unknown" if found.status == "Approximation" else _STATES[found.converged],
        "word": found.status,
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


DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LEVELS = len(DIGITS) ** 2 - 1  # steps from the lowest to the highest number; a drawing shows fewer


def packed(values: NDArray[Any], low: float, high: float) -> str:
    """Two characters for each number from ``low`` to ``high``, rounded to 1/4095 of the way; others are cut to it."""
    share = (
        (np.asarray(values, dtype=np.float64).ravel() - low) / (high - low) if high > low else np.zeros(np.size(values))
    )
    steps = np.round(np.clip(share, 0.0, 1.0) * LEVELS).astype(np.int64)
    digits = np.array(list(DIGITS))
    return "".join(np.char.add(digits[steps // 64], digits[steps % 64]).tolist())


Number = float | str | None

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def decimals(values: Iterable[Any], places: int) -> list[Number]:
    """Numbers rounded to so many decimals; None for what is not a number, "inf" and "-inf" for infinities."""
    return [_short(value, places) for value in _floats(values)]


def significant(values: Iterable[Any], digits: int) -> list[Number]:
    """Numbers rounded to so many digits that count, otherwise as `decimals`."""
    return [
        _short(value, digits - 1 - math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0)
        for value in _floats(values)
    ]


def decimal(value: float, places: int) -> Number:
    """One number, as `decimals`."""
    return decimals([value], places)[0]


def rounded(value: float, digits: int) -> Number:
    """One number, as `significant`."""
    return significant([value], digits)[0]


def diagnosis(found: RealDiagnosis) -> dict[str, Number]:
    """Mean, error, effective draws and R-hat of one quantity along the chains."""
    return {
        "mean": decimal(found.estimate.value, 2),
        "mcse": rounded(found.estimate.mcse, 2),
        "ess": decimal(found.bulk_ess, 0),
        "r_hat": decimal(found.r_hat, 4),
    }


def json_block(data: Any) -> str:
    r"""JSON of finite numbers for a script element of HTML: nothing in it can end the element, open a comment or end a
    line.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    # a lone surrogate, which a name from Python may hold, has no form in UTF-8
    return re.sub("[\ud800-\udfff]", lambda lone: f"\\u{ord(lone[0]):04x}", text)


def _floats(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in np.asarray(values, dtype=np.float64).ravel()]


def _short(value: float, places: int) -> Number:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    rounded = round(value, places) + 0.0  # no negative zero
    return int(rounded) if rounded == int(rounded) else rounded

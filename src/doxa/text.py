"""Words for a terminal: names from a stranger's file made fit for it, and numbers as people say them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

__all__ = [
    "Lines", "a_kind", "counted", "duration", "in_message", "listed", "many", "memory", "near", "printable", "shown",
    "span",
]  # fmt: skip

_SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (10**3, "thousand"))
_WIDEST = 80  # characters of a value in a message
_BYTES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def printable(text: str) -> str:
    r"""Show control characters as escapes: a name must not break a line or steer the terminal.

    Examples
    --------
    >>> print(printable("age\n\x1b[31m"))
    age\n\x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: object) -> str:
    r"""A value in a message: as Python writes it, on one line, cut where it is long.

    Examples
    --------
    >>> print(shown("a\x1b[31m"), shown(["b" * 40] * 9)[-9:], shown(10**5000))
    'a\x1b[31m' bbbbbb... a whole number of some 5000 digits
    """
    if isinstance(value, int) and abs(value) >= 10**_WIDEST:
        return f"a whole number of some {int(value.bit_length() * 0.30103)} digits"
    text = repr(value[: _WIDEST + 1] if isinstance(value, (str, bytes)) else value)
    return printable(text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "...")


def a_kind(value: object) -> str:
    """What sort of object a value is, with its article.

    Examples
    --------
    >>> a_kind([1]), a_kind(3), a_kind(None)
    ('a list', 'an int', 'None')
    """
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """So many of a thing.

    Examples
    --------
    >>> counted(1, "row"), counted(3, "stretch", "stretches")
    ('1 row', '3 stretches')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in quotes, the first ``most`` of them.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b', ... 1 more"
    """
    more = f", ... {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def near(word: str, known: Iterable[str]) -> str:
    """Words that look alike, else the first few of what is known.

    Examples
    --------
    >>> near("Smoke", ["smoke", "phys"]), near("x", ["smoke", "phys"])
    ("close to it is 'smoke'", "there are 'smoke', 'phys'")
    """
    names = list(known)
    folded = {name.casefold(): name for name in reversed(names)}
    found = get_close_matches(word.casefold(), folded, n=3, cutoff=0.6)
    if found:
        return f"close to it {'is' if len(found) == 1 else 'are'} {', '.join(repr(folded[name]) for name in found)}"
    return f"there are {listed(names, 8)}"


def span(numbers: Iterable[float]) -> str:
    """From the smallest to the largest of some numbers.

    Examples
    --------
    >>> span([2.0, 2.0]), span([2.5, 10.0, 5.0])
    ('2', '2.5 to 10')
    """
    values = list(numbers)
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


class Lines(str):
    """A message of several lines, in which no name or value holds a line break."""

    __slots__ = ()


def in_message(text: str) -> str:
    r"""A message that repeats what somebody gave, fit to be read: on one line, without control characters, not long.

    Whatever is longer than 200 characters, a word or a text in quotes, loses its middle; so does a message of more than
    2000.  Of a message of `Lines`, each is.

    Examples
    --------
    >>> print(in_message("probability is '0." + "3" * 5000 + "'; it must be from 0 to 1")[:40])
    probability is '0.3333333333333333333333
    >>> print(in_message("no node 'a\x1b[31m\nb'"))
    no node 'a\x1b[31m\nb'
    """
    if isinstance(text, Lines):
        return Lines("\n".join(map(in_message, text.split("\n"))))
    text = printable(text)
    if len(text) > _MOST_OF_WORD:
        text = _LONG.sub(lambda found: _without_middle(found[0], _MOST_OF_WORD), text)
    return _without_middle(text, _MOST_OF_MESSAGE)


_MOST_OF_WORD, _MOST_OF_MESSAGE = 200, 2000
_LONG = re.compile(
    rf"""'(?>[^'\\]|\\.){{{_MOST_OF_WORD},}}+'|"(?>[^"\\]|\\.){{{_MOST_OF_WORD},}}+"|\S{{{_MOST_OF_WORD + 1},}}+""",
    re.DOTALL,
)


def _without_middle(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[len(text) - most // 3 :]}"


def many(number: float) -> str:
    """About how many, in two figures.

    Examples
    --------
    >>> many(27), many(3300.4), many(99_999), many(7_200_000_000), many(10**30)
    ('27', '3300', '100 thousand', '7.2 billion', '10^30')
    """
    if number < 9_999.5:
        return f"{number:.0f}"
    if number >= 999.5 * 10**12:
        return f"10^{len(str(int(number))) - 1}"
    return _scaled(number, _SCALES)


def memory(n_bytes: float) -> str:
    """About how much memory.

    Examples
    --------
    >>> memory(999), memory(12_345_678), memory(750_000_000), memory(4_000_000_000)
    ('999 bytes', '12 MB', '750 MB', '4 GB')
    """
    return f"{n_bytes:.0f} bytes" if n_bytes < 10**3 else _scaled(n_bytes, _BYTES)


def duration(seconds: float) -> str:
    """About how long.

    Examples
    --------
    >>> duration(0.4), duration(75), duration(1500), duration(8000), duration(421265)
    ('a second', '75 seconds', '25 minutes', '2.2 hours', '4.9 days')
    """
    if seconds < 1.5:
        return "a second"
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def _scaled(number: float, scales: tuple[tuple[int, str], ...]) -> str:
    """In the largest unit of which there is one, when rounded."""
    unit, name = next(((unit, name) for unit, name in scales if number >= 0.9995 * unit), scales[-1])
    value = number / unit
    return f"{value:.0f} {name}" if value >= 10 else f"{value:.2g} {name}"

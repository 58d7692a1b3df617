"""Results as notebooks show them: a card of HTML with the verdict, a small picture, a table and the way to the report.

What a card says comes from the result; how it looks is said here, once for all results.  All text is escaped, nothing
is loaded from elsewhere, and colours follow those of the notebook, light or dark.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote
from weakref import ReferenceType, ref

from doxa.text import printable

if TYPE_CHECKING:
    from doxa.estimates.estimate import Estimate, Verdict

__all__ = ["Arrow", "Markup", "arrows", "bar", "card", "curve", "interval", "remember_report", "report_link"]

_ACCENT = "#4a86c5"  # is read on white and on black
_SIGNS = {True: ("✓", "#2e8b57"), False: ("✗", "#d1553b"), None: ("?", "#c98a1b")}
_CELL = "padding:2px 10px 2px 0;border:0;background:none"

_reports: dict[int, tuple[ReferenceType[object], Path]] = {}  # by identity: not every result has a hash


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Arrow(NamedTuple):
    """An edge of a small picture."""

    source: str
    target: str
    weight: float  # between 0 and 1: how dark it is


def card(
    title: str,
    verdict: Verdict | None,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    n_left: int = 1,
    picture: Markup | None = None,
    more: Sequence[str] = (),
) -> str:
    """One result as HTML.

    Parameters
    ----------
    title : str
    verdict : Verdict, optional
        Shown with its reason and advice.
    head, rows : sequences of str
        The table; cells that are `Markup` go in as they are.
    n_left : int, default=1
        Columns that stand to the left, as names do; numbers stand to the right.
    picture : Markup, optional
        Beside the table.
    more : sequence of str
        Lines below it.

    Examples
    --------
    >>> "a &lt; b" in card("a < b", None, ["x"], [["1"]])
    True
    """
    beside = f'<div style="max-width:100%">{picture}</div>' if picture else ""
    parts = [
        f'<div style="font-weight:600">{_escaped(title)}</div>',
        "" if verdict is None else _verdict(verdict),
        f'<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:center;margin:6px 0">{beside}'
        f'<div style="max-width:100%;overflow-x:auto">{_table(head, rows, n_left)}</div></div>',
        *(f'<div style="opacity:.8">{_escaped(line)}</div>' for line in more),
    ]
    return f'<div class="doxa" style="max-width:900px;line-height:1.4">{"".join(parts)}</div>'


def bar(estimate: Estimate) -> Markup:
    """A probability as a bar, with its 95% interval where it has an error."""
    width = 100.0
    low, high = (width * min(1.0, max(0.0, end)) for end in estimate.interval())
    value = width * min(1.0, max(0.0, estimate.value))
    error = f'<path d="M{low:.1f} 7H{high:.1f}" stroke="currentColor" stroke-width="2"/>' if high > low else ""
    return _svg(
        width,
        14,
        f'<rect width="{width:g}" height="14" fill="currentColor" opacity=".08"/>'
        f'<rect width="{value:.1f}" height="14" fill="{_ACCENT}" opacity=".75"/>{error}',
        f"{estimate.value:.3g}",
    )


def interval(low: float, mean: float, high: float, least: float, most: float) -> Markup:
    """A mean and its interval on a scale from ``least`` to ``most``, with a line at 0 where that is on it."""
    width, span = 160.0, (most - least) or 1.0
    at_low, at_mean, at_high = (width * (x - least) / span for x in (low, mean, high))
    zero = width * (0.0 - least) / span
    line = f'<path d="M{zero:.1f} 0V14" stroke="currentColor" opacity=".35"/>' if 0 <= zero <= width else ""
    return _svg(
        width,
        14,
        f'{line}<path d="M{at_low:.1f} 7H{at_high:.1f}" stroke="{_ACCENT}" stroke-width="2"/>'
        f'<circle cx="{at_mean:.1f}" cy="7" r="3.5" fill="{_ACCENT}"/>',
        f"{mean:.3g}, from {low:.3g} to {high:.3g}",
    )


def curve(x: Sequence[float], height: Sequence[float], mean: float, ends: tuple[float, float]) -> Markup:
    """A density through points ``x``, increasing, its mean and a central interval, over a scale with three numbers."""
    width, top, base = 240.0, 4.0, 78.0
    least, span, highest = x[0], (x[-1] - x[0]) or 1.0, max(height) or 1.0
    at = [(width * (a - least) / span, base - (base - top) * h / highest) for a, h in zip(x, height, strict=True)]
    line = "L".join(f"{a:.1f} {h:.1f}" for a, h in at)
    left, middle, right = (width * min(1.0, max(0.0, (value - least) / span)) for value in (ends[0], mean, ends[1]))
    within = [(a, h) for a, h in at if left < a < right]
    inside = "".join(
        f"L{a:.1f} {h:.1f}" for a, h in [(left, _between(at, left)), *within, (right, _between(at, right))]
    )
    drawn = (
        f'<path d="M{left:.1f} {base:g}{inside}L{right:.1f} {base:g}Z" fill="{_ACCENT}" opacity=".3"/>'
        f'<path d="M{line}" fill="none" stroke="{_ACCENT}" stroke-width="1.8"/>'
        f'<path d="M{middle:.1f} {base:g}V{_between(at, middle):.1f}" stroke="{_ACCENT}" stroke-width="1.8"/>'
        f'<path d="M0 {base:g}H{width:g}" stroke="currentColor" opacity=".5"/>'
    )
    texts = [_rounded(value, ends[1] - ends[0]) for value in (ends[0], mean, ends[1])]
    for k, (place, text) in enumerate(zip(_apart([left, middle, right], texts, width), texts, strict=True)):
        mark = (left, middle, right)[k]
        drawn += (
            f'<path d="M{mark:.1f} {base:g}v4" stroke="currentColor" opacity=".7"/>'
            f'<text x="{place:.1f}" y="{base + 16:g}" text-anchor="middle" font-size="11" fill="currentColor">'
            f"{text}</text>"
        )
    said = f"density with mean {mean:.4g}, from {ends[0]:.4g} to {ends[1]:.4g} with 95%"
    return _svg(width, base + 22, drawn, said, shrinks=True)


def arrows(names: Sequence[str], edges: Iterable[Arrow]) -> Markup:
    """Nodes on a circle and edges between them, the more probable the darker."""
    radius = max(60.0, 9.0 * len(names))
    shown = [_shortened(printable(name)) for name in names]
    margin = 12.0 + 7.0 * max(map(len, shown))
    wide, high = 2 * (radius + margin), 2 * (radius + 24.0)
    angles = [2 * math.pi * (k + 0.5) / len(names) - math.pi / 2 for k in range(len(names))]
    at = {
        name: (wide / 2 + radius * math.cos(a), high / 2 + radius * math.sin(a))
        for name, a in zip(names, angles, strict=True)
    }
    drawn = "".join(_arrow(*at[edge.source], *at[edge.target], edge.weight) for edge in edges)
    drawn += "".join(_label(text, *at[name], wide / 2) for name, text in zip(names, shown, strict=True))
    return _svg(wide, high, drawn, "the probable edges", shrinks=True)


def remember_report(result: object, path: Path) -> None:
    """From now on the card of a result leads to this report."""
    key = id(result)
    _reports[key] = ref(result, lambda _: _reports.pop(key, None)), path


def report_link(result: object) -> Markup:
    """Where the report of a result is, or how it is made."""
    _, path = _reports.get(id(result), (None, None))
    if path is None or not path.exists():
        return Markup('The whole report: <code>doxa.report(answer, "report.html")</code>')
    inside = path.is_relative_to(Path.cwd())
    shown = str(path.relative_to(Path.cwd()) if inside else path)
    address = quote(shown.replace(os.sep, "/")) if inside else path.as_uri()
    return Markup(f'The whole report: <a href="{html.escape(address)}" target="_blank">{_escaped(shown)}</a>')


def _between(at: Sequence[tuple[float, float]], x: float) -> float:
    """Height of a line through points at a place between them."""
    for (a, low), (b, high) in pairwise(at):
        if a <= x <= b:
            return low + (high - low) * ((x - a) / (b - a) if b > a else 0.0)
    return at[0][1] if x < at[0][0] else at[-1][1]


def _rounded(value: float, length: float) -> str:
    """A number to about a fiftieth of the length of an interval."""
    step = (length or abs(value) or 1.0) / 50.0
    places = -math.floor(math.log10(step))
    if places > 6 or abs(value) >= 1e6:
        return f"{value:.4g}"
    text = f"{round(value, max(0, places)) + 0.0:.{max(0, places)}f}"  # no negative zero
    return text if len(text) <= 9 else f"{value:.6g}"


def _apart(places: list[float], texts: Sequence[str], width: float) -> list[float]:
    """Middles of three texts, moved so that they neither touch nor leave the picture, the one in the middle first."""
    half = [3.4 * len(text) + 3.0 for text in texts]
    middle = min(max(places[1], half[1]), width - half[1])
    left = max(half[0], min(places[0], middle - half[1] - half[0]))
    right = min(width - half[2], max(places[2], middle + half[1] + half[2]))
    return [left, middle, right]


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else html.escape(printable(text))


def _verdict(verdict: Verdict) -> str:
    sign, colour = _SIGNS[verdict.converged]
    word = f'<b style="color:{colour}">{sign} {_escaped(verdict.status)}</b>'
    return f"<div>{word}: {_escaped(f'{verdict.reason} {verdict.advice}'.rstrip())}</div>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], n_left: int) -> str:
    def line(cells: Sequence[str], tag: str, more: str) -> str:
        sides = ("left" if k < n_left else "right;white-space:nowrap" for k in range(len(cells)))
        made = (
            f'<{tag} style="{_CELL};text-align:{side}{more}">{_escaped(cell)}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        )
        return f'<tr style="background:none">{"".join(made)}</tr>'

    body = "".join(line(cells, "td", ";font-variant-numeric:tabular-nums") for cells in rows)
    heads = line(head, "th", ";opacity:.7")
    return f'<table style="border-collapse:collapse;margin:0;color:inherit">{heads}{body}</table>'


def _svg(width: float, height: float, drawn: str, said: str, *, shrinks: bool = False) -> Markup:
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{html.escape(said)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="vertical-align:middle{";max-width:100%;height:auto" if shrinks else ""}">{drawn}</svg>'
    )


def _arrow(x: float, y: float, to_x: float, to_y: float, weight: float) -> str:
    """A line between two nodes that ends in a head, short of both."""
    length = math.hypot(to_x - x, to_y - y)
    dx, dy = (to_x - x) / length, (to_y - y) / length
    x, y, to_x, to_y = x + 6 * dx, y + 6 * dy, to_x - 7 * dx, to_y - 7 * dy
    left, right = ((to_x - 8 * dx + side * dy, to_y - 8 * dy - side * dx) for side in (3.5, -3.5))
    return (
        f'<g opacity="{min(1.0, max(0.1, weight)):.2f}" stroke="{_ACCENT}" fill="{_ACCENT}">'
        f'<path d="M{x:.1f} {y:.1f}L{to_x - 5 * dx:.1f} {to_y - 5 * dy:.1f}" stroke-width="2"/>'
        f'<path d="M{to_x:.1f} {to_y:.1f}L{left[0]:.1f} {left[1]:.1f}L{right[0]:.1f} {right[1]:.1f}Z"/></g>'
    )


def _label(text: str, x: float, y: float, middle: float) -> str:
    """A node and its name, on the outer side."""
    side, anchor = (8, "start") if x > middle else (-8, "end")
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="currentColor"/>'
        f'<text x="{x + side:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}" font-size="12" fill="currentColor">'
        f"{html.escape(text)}</text>"
    )


def _shortened(text: str, most: int = 18) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

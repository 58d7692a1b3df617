"""Bins: how a column of numbers becomes categories when the user asks for it.

A `Binning` is what was asked: quantiles, equal widths, cuts of the user's own, or cuts that tell most of another
column (Fayyad & Irani, *Multi-interval discretization of continuous-valued attributes for classification learning*,
IJCAI 1993).  `find_cuts` turns it into cuts, which are needed of a column's order alone, so that a source that is
counted where it lives has the same.  A number's bin is the number of cuts that are not above it: `doxa.Table.cuts`
holds them, and new rows are cut there and nowhere else.

Quantile cuts are values of the column, so that every bin holds a row; where the values are all different the bins are
those of the ordinary (interpolated) quantiles.  A value that is several of the quantiles, as zero often is, gets a bin
of its own, and the others share the rest.  Such a bin ends at the next float above its value.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data.options import MOST_BINS, near
from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["Binning", "Cuts", "Rank", "check_bins", "codes_of_numbers", "find_cuts", "informative_cuts", "rank_in"]

Rank = Callable[[Sequence[int]], Floats]  # the k-th smallest numbers of a column, from 0

_log = logging.getLogger("doxa")

_AT_ONCE = 64  # ranks that are asked for together, where each question is a pass over a source
_FORMS = "a number of quantile bins (4), cuts ([18.5, 25, 30]), 'uniform:4' for equal widths or 'supervised:COLUMN'"


@dataclass(frozen=True)
class Binning:
    """What is asked of a column of numbers."""

    method: Literal["quantiles", "uniform", "cuts", "supervised"]
    n_bins: int = 0
    cuts: tuple[float, ...] = ()
    target: str = ""  # the column that cuts are to tell of


class Cuts(NamedTuple):
    """Cuts of a column of numbers, rising, and the labels of the bins between them."""

    cuts: Floats  # (n_bins - 1,)
    labels: tuple[str, ...]  # (n_bins,)


def check_bins(bins: Any, names: Sequence[str]) -> Binning | dict[str, Binning] | None:
    """Return ``bins`` checked against the names of the columns that are read."""
    if bins is None:
        return None
    if not isinstance(bins, Mapping):
        asked = _binning(bins, "bins")
        if asked.method == "cuts":
            raise ArgumentTypeError(f"bins is {bins!r}; cuts belong to one column: bins={{'age': {bins!r}}}")
        _check_target("bins", asked, names)
        return asked
    found = {}
    for name, one in bins.items():
        if name not in names:
            raise ArgumentError(f"bins names {name!r}, which is no column that is read{near(str(name), names)}")
        found[name] = _binning(one, f"bins[{name!r}]")
        _check_target(f"bins[{name!r}]", found[name], [other for other in names if other != name])
    return found


def codes_of_numbers(cuts: Sequence[float] | Floats, numbers: Floats) -> NDArray[np.int16]:
    """The bin of every number, -1 where it is NaN."""
    return np.where(np.isnan(numbers), -1, np.searchsorted(cuts, numbers, side="right")).astype(np.int16)


def rank_in(numbers: Floats) -> tuple[int, Rank]:
    """How many of some numbers are present, and how to rank them."""
    ordered = np.sort(numbers[~np.isnan(numbers)])
    return ordered.size, lambda ranks: ordered[np.asarray(ranks, dtype=np.int64)]


def find_cuts(
    name: str, asked: Binning, n_present: int, ranked: Rank, informative: Callable[[], Sequence[float]] | None = None
) -> Cuts:
    """Cut a column of numbers, of which ``n_present`` are not missing; ``informative`` finds supervised cuts.

    A column of one value has one bin.  Where there are fewer bins than were asked for, the log says so.
    """
    low, high = ranked([0, n_present - 1]).tolist()
    if asked.method == "cuts":
        ends = [_number_text(cut, digits) for digits in (_digits(asked.cuts),) for cut in asked.cuts]
        between = [f"[{left}, {right})" for left, right in itertools.pairwise(ends)]
        return Cuts(np.array(asked.cuts), (f"< {ends[0]}", *between, f">= {ends[-1]}"))
    if low == high:
        _log.warning("column %r has one bin: all its values are %s", name, _number_text(low, 6))
        return Cuts(np.empty(0), (_number_text(low, 6),))
    own: set[float] = set()
    if asked.method == "quantiles":
        cuts, own = _quantile_cuts(asked.n_bins, n_present, ranked)
    elif asked.method == "uniform":
        share = np.arange(1, asked.n_bins) / asked.n_bins
        cuts = np.unique(low * (1 - share) + high * share)  # no difference of the two, which may overflow
        cuts = cuts[(cuts > low) & (cuts <= high)]
    else:
        assert informative is not None
        cuts = np.array(informative())
    n_bins = cuts.size + 1
    if own:
        values = " and ".join(_number_text(value, 6) for value in sorted(own))
        _log.warning(
            "column %r is cut into %d bins; %s has one of its own, for many rows hold it", name, n_bins, values
        )
    elif asked.n_bins and n_bins < asked.n_bins:
        _log.warning(
            "column %r is cut into %d bins, not %d: some of its quantiles coincide", name, n_bins, asked.n_bins
        )
    return Cuts(cuts, _labels(low, cuts, high, own))


def _quantile_cuts(n_bins: int, n_present: int, ranked: Rank) -> tuple[Floats, set[float]]:
    """Cuts at quantiles, and the values that have bins of their own."""
    last = n_present - 1
    quantiles = ranked([0, *_ranks_of_quantiles(n_bins, n_present), last])
    low, inner = quantiles[0], quantiles[1:-1]
    cuts = np.unique(inner[inner > low])
    if cuts.size == n_bins - 1:
        return cuts, set()
    found_twice = np.unique(quantiles[1:][np.diff(quantiles) == 0])
    spans = {float(value): _span(float(value), n_present, ranked) for value in found_twice}
    spans = {value: span for value, span in spans.items() if (span[1] - span[0]) * n_bins >= max(n_present, 2 * n_bins)}
    others = n_present - sum(end - start for start, end in spans.values())
    for n_rest in range(max(1, n_bins - len(spans)) if spans else 0, 0, -1):
        if n_rest > max(others, 1):
            continue
        ranks = np.array(_ranks_of_quantiles(n_rest, others), dtype=np.int64)
        for start, end in spans.values():  # ranks among the others to ranks among all
            ranks[ranks >= start] += end - start
        found = _with_own_bins(ranked(ranks.tolist()) if ranks.size else np.empty(0), spans, ranked, n_present)
        if found.size < n_bins:
            return found, set(spans)
    return cuts, set()  # too many values of their own: bins that hold them together


def _ranks_of_quantiles(n_bins: int, n: int) -> list[int]:
    return [math.ceil((n - 1) * k / n_bins) for k in range(1, n_bins)]


def _span(value: float, n_present: int, ranked: Rank) -> tuple[int, int]:
    """The ranks of a value that occurs: the first, and the one after the last."""
    ends = []
    for limit in (value, float(np.nextafter(value, np.inf))):
        low, high = 0, n_present  # the first rank whose number is past lies here; n_present if none is
        while low < high:
            step = max(1, (high - low) // _AT_ONCE)
            ranks = np.arange(low, high, step)
            past = ranked(ranks.tolist()) >= limit
            at = int(past.argmax()) if past.any() else ranks.size
            high = int(ranks[at]) if at < ranks.size else high
            low = int(ranks[at - 1]) + 1 if at else high
        ends.append(low)
    return ends[0], ends[1]


def _with_own_bins(cuts: Floats, spans: Mapping[float, tuple[int, int]], ranked: Rank, n_present: int) -> Floats:
    """Cuts before and after the values with these ranks, and others where no empty bin comes of it."""
    found = set(cuts.tolist()) | set(spans)
    for value, (_, end) in spans.items():
        above = float(ranked([end])[0]) if end < n_present else value
        if above not in spans:  # then the cut is there, and a bin between would be empty
            found.discard(above)
            found.add(float(np.nextafter(value, np.inf)))
    return np.array(sorted(found - {float(ranked([0])[0])}))


def informative_cuts(numbers: Floats, classes: NDArray[np.integer[Any]]) -> list[float]:
    """Cuts that tell most of some classes, by the least entropy and the criterion of description length.

    Parameters
    ----------
    numbers : ndarray of float, shape (n,)
        NaN where missing; rows in which either is missing are left aside.
    classes : ndarray of int, shape (n,)
        -1 where missing.

    Returns
    -------
    list of float
        Rising; the best single cut where the criterion takes none, and none at all where numbers do not differ.
    """
    known = ~np.isnan(numbers) & (classes >= 0)
    values, place = np.unique(numbers[known], return_inverse=True)
    if values.size < 2:
        return []
    labels, of_class = np.unique(classes[known], return_inverse=True)
    counts = np.zeros((values.size + 1, labels.size))
    np.add.at(counts, (place + 1, of_class), 1.0)
    below = counts.cumsum(axis=0)  # below[i]: rows of each class with a value less than values[i]
    found: list[int] = []
    open_parts = [(0, values.size)]
    while open_parts:
        first, end = open_parts.pop()
        if end - first < 2:
            continue
        at, is_taken = _best_split(below[first : end + 1])
        if is_taken or (not found and (first, end) == (0, values.size)):
            found.append(first + at)
        if is_taken:
            open_parts += [(first, first + at), (first + at, end)]
    return [float(value) for value in values[sorted(found)]]


def _best_split(below: Floats) -> tuple[int, bool]:
    """The split of least entropy, and whether its gain pays for its description (the paper's equation 1)."""
    whole, left = below[-1] - below[0], below[1:-1] - below[0]
    right = whole - left
    n = whole.sum()
    entropies = (left.sum(axis=1) * _entropy(left) + right.sum(axis=1) * _entropy(right)) / n
    at = int(entropies.argmin())
    k, k_left, k_right = (int((part > 0).sum()) for part in (whole, left[at], right[at]))
    entropy = _entropy(whole)
    change = k * entropy - k_left * _entropy(left[at]) - k_right * _entropy(right[at])
    price = (math.log2(n - 1) + math.log2(3.0**k - 2) - change) / n
    return at + 1, bool(entropy - entropies[at] > price)


def _entropy(counts: Floats) -> Any:
    """Entropy of each row of counts, bits."""
    total = counts.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counts > 0, counts / total * np.log2(counts / total), 0.0)
    return -terms.sum(axis=-1)


# -- labels ----------------------------------------------------------------------------------------------------------


def _labels(low: float, cuts: Floats, high: float, own: set[float]) -> tuple[str, ...]:
    """Label bins by their intervals, or by their value if they hold one."""
    after = {float(np.nextafter(value, np.inf)): value for value in own}
    edges = [low, *cuts.tolist(), high]
    plain = [after.get(edge, edge) for edge in edges]
    digits = _digits(plain)
    texts = [_number_text(edge, digits) for edge in plain]
    labels = []
    for i in range(len(edges) - 1):
        is_last = i == len(edges) - 2
        if plain[i] in own and edges[i] == plain[i] and (is_last or plain[i + 1] == plain[i]):
            labels.append(texts[i])
        else:
            labels.append(f"{'[' if edges[i] == plain[i] else '('}{texts[i]}, {texts[i + 1]}{']' if is_last else ')'}")
    return tuple(labels)


def _digits(edges: Sequence[float]) -> int:
    """As many digits as keep different edges apart, six at least."""
    n = len(set(edges))
    return next((d for d in range(6, 17) if len({_number_text(edge, d) for edge in edges}) == n), 17)


def _number_text(number: float, digits: int) -> str:
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.{digits}g}"


# -- checks ----------------------------------------------------------------------------------------------------------


def _binning(asked: Any, where: str) -> Binning:
    if isinstance(asked, str):
        return _in_words(asked, where)
    if isinstance(asked, Sequence | np.ndarray):
        return Binning("cuts", cuts=_cuts(list(asked), where))
    if isinstance(asked, bool) or not hasattr(asked, "__index__"):
        raise ArgumentTypeError(f"{where} is {asked!r}; give {_FORMS}, or one for each column ({{'age': 4}})")
    return Binning("quantiles", _number_of_bins(int(asked), where))


def _in_words(asked: str, where: str) -> Binning:
    method, colon, rest = asked.partition(":")
    if colon and method == "supervised":
        return Binning("supervised", target=rest)
    if colon and method in ("uniform", "quantiles") and rest.strip().isdecimal():
        n_bins = _number_of_bins(int(rest), where)
        return Binning("uniform", n_bins) if method == "uniform" else Binning("quantiles", n_bins)
    raise ArgumentTypeError(f"{where} is {asked!r}; give {_FORMS}, or one for each column ({{'age': 4}})")


def _cuts(cuts: list[Any], where: str) -> tuple[float, ...]:
    if not cuts:
        raise ArgumentError(f"{where} is empty; give the cuts between its bins, such as [18.5, 25, 30]")
    if len(cuts) >= MOST_BINS:
        raise ArgumentError(f"{where} has {len(cuts)} cuts; a column is cut into 2 to {MOST_BINS} bins")
    for cut in cuts:
        if isinstance(cut, bool) or not isinstance(cut, int | float | np.integer | np.floating):
            raise ArgumentTypeError(f"{where} holds {cut!r}; cuts are numbers")
        if not math.isfinite(cut):
            raise ArgumentError(f"{where} holds {cut!r}; cuts are finite: the outer bins have no ends")
    for left, right in itertools.pairwise(cuts):
        if not left < right:
            raise ArgumentError(f"{where} has {left!r} before {right!r}; cuts rise")
    return tuple(float(cut) for cut in cuts)


def _number_of_bins(number: int, where: str) -> int:
    if not 2 <= number <= MOST_BINS:
        raise ArgumentError(f"{where} is {number}; a column is cut into 2 to {MOST_BINS} bins")
    return number


def _check_target(where: str, asked: Binning, names: Sequence[str]) -> None:
    if asked.method == "supervised" and asked.target not in names:
        raise ArgumentError(
            f"{where} is 'supervised:{asked.target}', and {asked.target!r} is no other column that is read"
            f"{near(asked.target, names)}"
        )

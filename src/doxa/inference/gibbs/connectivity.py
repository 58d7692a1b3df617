"""`connectivity`: can a Gibbs sampler with these blocks get from every possible state to every other?

Where p(x) > 0 for all x it can.  Zeros can cut the possible states into classes that no redraw of a block leaves; a
chain then gives the answer of its class, whatever its length, and no diagnostic of one chain shows it.  The question is
one of zeros alone: a way that is open but never taken (probability 1e-12) is open.

What is here is a proof or no answer: exchangeable states are struck out (`fold`), what remains falls into parts that
zeros hold together, and a part is connected if and only if its configurations are, by the moves of the blocks within
it.  Small parts are listed.  Of larger ones only the neighbourhood of some states is.

Folding: let S be the configurations that no factor forbids, and let a and c be states of a variable such that every
configuration of S with a stays in S when a becomes c.  Exchanging them, r: S -> S, is a move of that variable alone, so
every configuration is connected to its image; and two that differ within a block have images that differ within it.  So
S is connected by moves within the blocks if and only if r(S), the configurations without a, is.  Repeated until nothing
changes this often leaves one configuration, or small parts that can be listed.  (Neighbourhood substitutability:
Freuder 1991; dismantling: Brightwell & Winkler 2000, for connectivity by single moves.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.flat import connected_parts
from doxa.inference.gibbs.supports import (
    Block,
    NoStartError,
    Support,
    Supports,
    check_factors,
    check_n_states,
    check_states,
    classes,
    find_state,
    log_density_at,
    number_rows,
    reached,
    read_blocks,
)
from doxa.models.factors import Factor

__all__ = ["ConnectingBlocks", "Connectivity", "Part", "connecting_blocks", "connectivity"]


class Folded(NamedTuple):
    """What is left of supports."""

    left: tuple[NDArray[np.int64], ...]  # states of each variable, increasing; none where nothing is possible
    supports: Supports  # over the numbers of these states; factors without zeros have gone
    exchanges: tuple[tuple[int, int, int], ...]  # (variable, from, to), in the order in which they were made

    def image(self, states: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the states that a possible configuration has after all exchanges."""
        x = np.array(states, dtype=np.int64)
        for v, a, c in self.exchanges:
            if x[v] == a:
                x[v] = c
        return np.array([int(np.searchsorted(left, state)) for left, state in zip(self.left, x, strict=True)])


def fold(supports: Supports) -> Folded:
    """Strike out states as long as there are any to be exchanged."""
    left = [np.arange(size) for size in supports.n_states]
    tables = [support.table for support in supports.supports]
    exchanges: list[tuple[int, int, int]] = []
    waiting = {v: None for v, touching in enumerate(supports.touching) if touching}
    free = [v for v, touching in enumerate(supports.touching) if not touching]
    for v in free:
        exchanges += [(v, int(a), 0) for a in left[v][1:]]
        left[v] = left[v][:1]
    while waiting:
        v = next(iter(waiting))
        del waiting[v]
        if not len(left[v]):
            continue
        target = _targets(v, supports, tables, len(left[v]))
        kept = np.flatnonzero(target == np.arange(len(target)))
        if len(kept) == len(target):
            continue
        exchanges += [(v, int(left[v][a]), int(left[v][c])) for a, c in enumerate(target) if c not in (a, -1)]
        left[v] = left[v][kept]
        for f in supports.touching[v]:
            scope = supports.supports[f].variables
            tables[f] = tables[f].take(kept, axis=scope.index(v))
            waiting |= dict.fromkeys(scope)
    scopes = [support.variables for support in supports.supports]
    rest = [Support(scope, table) for scope, table in zip(scopes, tables, strict=True)]
    return Folded(tuple(left), Supports([len(own) for own in left], rest), tuple(exchanges))


def _targets(v: int, supports: Supports, tables: list[NDArray[np.bool_]], size: int) -> NDArray[np.intp]:
    """For each state of ``v``, one that is kept and that it can always be exchanged for; -1 where it is impossible."""
    can = np.ones((size, size), dtype=bool)
    possible = np.ones(size, dtype=bool)
    for f in supports.touching[v]:
        rows = np.moveaxis(tables[f], supports.supports[f].variables.index(v), 0).reshape(size, -1)
        can &= rows.astype(np.float32) @ ~rows.T == 0  # of the places where a is possible, none forbids c
        possible &= rows.any(axis=1)
    target = np.arange(size)
    for a in range(size):
        others = [c for c in np.flatnonzero(can[a]) if c != a and target[c] == c]
        if not possible[a]:
            target[a] = -1
        elif others:
            target[target == a] = others[0]
    return target


Codes = NDArray[np.int64]

MOST_LISTED = 50_000  # configurations of a part
_NOTHING = "factors exclude every state; there is nothing to connect"
_MOST_VISITED = 5000  # configurations of a part too large to list, from each start
_N_STARTS = 4  # searched for, beside those that are given


class Part(NamedTuple):
    """Variables that zeros hold together, after folding."""

    variables: tuple[int, ...]
    n_configurations: int | None  # None: too many to list
    n_classes: int | None  # that the blocks do not connect; None: not known
    n_started: int | None  # of these, classes that have a start


class Connectivity(NamedTuple):
    """Whether the blocks connect all possible states."""

    answer: bool | None  # None: cannot tell
    reason: str
    parts: tuple[Part, ...]  # none where folding leaves a single configuration


def connectivity(
    n_states: Sequence[int],
    factors: Sequence[Factor],
    blocks: Iterable[Sequence[int]] | None = None,
    starts: ArrayLike | None = None,
    most_configurations: int = MOST_LISTED,
) -> Connectivity:
    """Ask whether redrawing the blocks, in any order that takes all of them, connects all possible states.

    Parameters
    ----------
    n_states : sequence of int
    factors : sequence of Factor
    blocks : iterable of sequence of int, optional
        Those of a scan (`Scan.blocks`); each variable alone when left out.
    starts : array_like of int, shape (n, n_variables), optional
        Possible states, to say how many classes they begin in.
    most_configurations : int, default=50000
        Largest number of configurations of a part to list.

    Returns
    -------
    Connectivity
        True and False are proven.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If factors, blocks or starts do not fit the variables, a variable is in no block, nothing is possible, or a
        start is not.

    Examples
    --------
    >>> xor = np.where(np.indices((2, 2)).sum(axis=0) % 2 == 0, 0.0, -np.inf)  # two coins that were seen to agree
    >>> print(connectivity([2, 2], [Factor((0, 1), xor)]).reason)
    the variables (0, 1) fall into 2 classes that the blocks do not connect; redraw some of these together
    >>> connectivity([2, 2], [Factor((0, 1), xor)], [(0, 1)]).answer
    True
    """
    sizes = check_n_states(n_states)
    given = check_factors(factors, sizes)
    read = read_blocks(blocks, sizes)
    most = check_whole("most_configurations", most_configurations, 1)
    begun = None if starts is None else check_states(np.asarray(starts), "starts", sizes)
    for i, row in enumerate([] if begun is None else begun):
        if log_density_at(given, row) == -np.inf:
            raise ArgumentError(f"starts[{i}] is {row.tolist()}, which has probability 0; give possible states")
    folded = fold(Supports.of(sizes, given))
    if any(not len(left) for left in folded.left) or any(
        not support.table.any() for support in folded.supports.supports
    ):
        raise ArgumentError(_NOTHING)
    rng = np.random.default_rng(0)
    parts = [_look_at(variables, folded, read, begun, most, rng) for variables in _parts(folded)]
    return _judge(parts)


def inner_blocks(variables: Block, blocks: Iterable[Block]) -> list[Block]:
    """What a part has of the blocks, as positions in it; none within another."""
    place = {v: j for j, v in enumerate(variables)}
    inner = list(dict.fromkeys(tuple(sorted(place[v] for v in block if v in place)) for block in blocks))
    return [own for own in inner if own and not any(set(own) < set(other) for other in inner)]


def _parts(folded: Folded) -> list[Block]:
    """Variables of two states or more, by what zeros hold together."""
    several = {v: None for v, left in enumerate(folded.left) if len(left) > 1}
    return connected_parts(several, [[v for v in own.variables if v in several] for own in folded.supports.supports])


def _look_at(
    variables: Block, folded: Folded, blocks: list[Block], starts: Codes | None, most: int, rng: np.random.Generator
) -> Part:
    inner = inner_blocks(variables, blocks)
    begun = None if starts is None else np.array([folded.image(row) for row in starts])[:, variables]
    rows = folded.supports.configurations(variables, most)
    if rows is not None:
        if not len(rows):
            raise ArgumentError(_NOTHING)
        number = classes(rows, inner)
        n_started = None
        if begun is not None:
            numbers = number_rows(np.concatenate([rows, begun]))
            n_started = len({int(number[np.flatnonzero(numbers[: len(rows)] == k)[0]]) for k in numbers[len(rows) :]})
        return Part(variables, len(rows), len(set(number.tolist())), n_started)
    tried = _some_states(variables, folded, rng)
    tried = tried if begun is None else np.concatenate([begun, tried])
    return Part(variables, None, 2 if _is_cut(variables, folded, inner, tried) else None, None)


def _some_states(variables: Block, folded: Folded, rng: np.random.Generator) -> Codes:
    """Possible configurations of a part, as many as are found easily."""
    place = {v: j for j, v in enumerate(variables)}
    supports = [
        Factor(tuple(place[v] for v in scope), np.where(table, 0.0, -np.inf))
        for scope, table in folded.supports.among(variables)
    ]
    sizes = [len(folded.left[v]) for v in variables]
    found = np.empty((0, len(variables)), dtype=np.int64)
    try:
        for _ in range(_N_STARTS):
            found = np.concatenate([found, find_state(sizes, supports, rng, most_dead_ends=200)[None]])
    except NoStartError:
        pass
    return found


def _is_cut(variables: Block, folded: Folded, inner: list[Block], starts: Codes) -> bool:
    """Whether some start has a class that was visited as a whole without meeting another start."""
    for start in starts:
        seen = reached(start, variables, folded.supports, inner, _MOST_VISITED)
        if seen is not None and not {row.tobytes() for row in starts} <= seen:
            return True
    return False


def _judge(parts: list[Part]) -> Connectivity:
    for part in parts:
        if part.n_classes is not None and part.n_classes > 1:
            n = part.n_classes if part.n_configurations is not None else f"{part.n_classes} or more"
            begun = f"; the starts lie in {part.n_started} of them" if part.n_started is not None else ""
            reason = (
                f"the variables {part.variables} fall into {n} classes that the blocks do not connect{begun}; redraw "
                "some of these together"
            )
            return Connectivity(False, reason, tuple(parts))
    for part in parts:
        if part.n_classes is None:
            reason = (
                f"the variables {part.variables} have too many configurations to list, and from the states that were "
                "tried no end of a class was found"
            )
            return Connectivity(None, reason, tuple(parts))
    listed = sum(part.n_configurations or 0 for part in parts)
    how = f"the {listed} configurations that remain after folding were listed" if parts else "all fold into one"
    return Connectivity(True, f"the blocks connect all possible states: {how}", tuple(parts))


_MOST_PAIRS = 200  # of blocks of a part, whose union is tried


class ConnectingBlocks(NamedTuple):
    """Blocks, and what they connect."""

    blocks: tuple[Block, ...]
    connectivity: Connectivity


def connecting_blocks(
    n_states: Sequence[int],
    factors: Sequence[Factor],
    blocks: Iterable[Sequence[int]] | None = None,
    most_configurations: int = 4096,
) -> ConnectingBlocks:
    """Join blocks until they connect all possible states, as far as that can be told and done.

    Parameters
    ----------
    n_states : sequence of int
    factors : sequence of Factor
    blocks : iterable of sequence of int, optional
        To begin with, such as those of `deterministic_blocks`; each variable alone when left out.
    most_configurations : int, default=4096
        Largest number of configurations of a block that no single factor forbids.

    Returns
    -------
    ConnectingBlocks
        Of two blocks that are joined the union takes the place of the first.

    Notes
    -----
    Where `connectivity` proves that a part falls into classes, the two of its blocks are joined whose union leaves the
    fewest, the smaller union of equal ones; where no union of two helps, all blocks of the part.  What is too large to
    list, or to join, stays as it is.

    Examples
    --------
    >>> import numpy as np
    >>> never_differ = np.where([[True, True, False], [True, True, False], [False, False, True]], 0.0, -np.inf)
    >>> connecting_blocks([3, 3], [Factor((0, 1), never_differ)]).blocks
    ((0, 1),)
    """
    now: list[Block] = (
        [(v,) for v in range(len(n_states))] if blocks is None else [tuple(int(v) for v in b) for b in blocks]
    )
    supports = Supports.of(n_states, factors)
    while True:
        found = connectivity(n_states, factors, now)
        union = next(
            (
                better
                for part in found.parts
                if part.n_classes is not None and part.n_classes > 1
                if (better := _union(part, supports, now, most_configurations)) is not None
            ),
            None,
        )
        if union is None:
            return ConnectingBlocks(tuple(now), found)
        first = next(b for b, block in enumerate(now) if set(block) <= set(union))
        now[first] = union
        now = [block for b, block in enumerate(now) if b <= first or not set(block) <= set(union)]


def _union(part: Part, supports: Supports, blocks: list[Block], most: int) -> Block | None:
    """The union of blocks that leaves the fewest classes; None if none helps or is small enough."""
    if part.n_configurations is None:
        return None
    rows = fold(supports).supports.configurations(part.variables, MOST_LISTED)
    assert rows is not None, "they have been listed before"
    own = [block for block in blocks if not set(block).isdisjoint(part.variables)]
    scopes = [set(support.variables) for support in supports.among(part.variables)]
    pairs = [pair for pair in combinations(own, 2) if any(all(scope & set(b) for b in pair) for scope in scopes)]
    for groups in (pairs[:_MOST_PAIRS], [own]):
        best: tuple[int, int, Block] | None = None
        for group in groups:
            union = tuple(sorted({v for block in group for v in block}))
            codes = supports.configurations(union, most)
            if codes is None:
                continue
            n_classes = len(set(classes(rows, inner_blocks(part.variables, [*blocks, union])).tolist()))
            tried = (n_classes, len(codes), union)
            best = tried if best is None else min(best, tried)
        if best is not None and part.n_classes is not None and best[0] < part.n_classes:
            return best[2]
    return None

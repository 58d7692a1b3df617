"""`IsingGrid`: heat bath of one Ising chain on a square grid or torus, 64 sites at a time (checkerboard).

The grid is cut into A x B <= 64 blocks of h x w sites.  Word (y, x) holds the sites at row y, column x of all blocks,
bit a B + b that of block (a, b).  Neighbours of the sites of a word are then the bits of another word, but at the edge
of the blocks: there they are the bits of a word at the opposite edge, moved to the next block; such *halo* words are
made anew before each colour.  Blocks have even sides (unless there is one block in that direction), so that a word is
of one colour; a grid that does not divide is filled up with sites that nothing is coupled with, unless it is a torus.

Sites of one word are hence independent given the rest, and are drawn as 64 chains are
(`doxa.inference.spins.bit_parallel`); only the thresholds may differ from lane to lane.  Where all couplings have one
size, a site's class is the number of its neighbours that are up (turned over where the coupling is negative), else the
pattern of the four.  What is not coupled with a site counts as down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.spins.graph import N_PLANES, same_rows, thresholds_of
from doxa.inference.spins.model import Draws, IsingBase, IsingModel, Run, SpinState
from doxa.inference.spins.words import (
    MASKS,
    N_LANES,
    N_WORDS,
    TO_UNIT,
    WORK_SIZE,
    VectorType,
    add_neighbour,
    aligned,
    aligned_zeros,
    begin_masks,
    class_of,
    load,
    next_word,
    next_words,
    same,
    store,
)

__all__ = ["IsingGrid"]


ABOVE, BELOW, LEFT, RIGHT = range(4)


class GridLayout(NamedTuple):
    """Words of h rows and w columns, number w y + x; then halo words above, below, left and right; then a spare one."""

    n_down: int  # A
    n_across: int  # B
    h: int
    w: int
    site: Ints  # (h w, 64) of the grid, row by row; -1 where there is none
    near: Ints  # (h w, 4) the words above, below, left and right
    batches: Ints  # (n_batches, 8) words of one colour, filled up with the spare one
    n_first: int  # batches of the first colour

    @property
    def spare(self) -> int:
        """The number of the spare word, the last."""
        return self.h * self.w + 2 * (self.h + self.w)


def directed_couplings(model: IsingModel, shape: tuple[int, int]) -> Floats:
    """Couplings of every site with those above, below, left and right of it, shape (4, rows, columns); 0 where none.

    Refused where the sites do not fill the grid, or an edge joins sites that are not neighbours on it, or on the torus.
    """
    rows, columns = _as_shape(shape)
    if rows * columns != model.n_sites:
        raise ArgumentError(f"shape {shape} has {rows * columns} sites but the model has {model.n_sites}")
    found = np.zeros((4, rows, columns))
    ends = [np.divmod(model.graph.edges[:, side], columns) for side in (0, 1)]
    left = np.ones(len(model.graph.edges), dtype=bool)
    for around in (False, True):  # of two sites in a row of two, the second is right of the first, not left around
        for (y, x), (v, u) in (ends, ends[::-1]):
            right = (y == v) & ((x == columns - 1) & (u == 0) if around else u == x + 1)
            below = (x == u) & ((y == rows - 1) & (v == 0) if around else v == y + 1)
            for forth, back, is_so in ((RIGHT, LEFT, right & left), (BELOW, ABOVE, below & left)):
                found[forth, y[is_so], x[is_so]] = model.graph.couplings[is_so]
                found[back, v[is_so], u[is_so]] = model.graph.couplings[is_so]
                left &= ~is_so
    if left.any():
        e = int(np.flatnonzero(left)[0])
        raise ArgumentError(
            f"edges[{e}] joins sites {model.graph.edges[e].tolist()}, which are not neighbours on a grid of shape "
            f"{shape}; use IsingGibbs or IsingBitParallel for other graphs"
        )
    return found


def _as_shape(shape: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise ArgumentError(f"shape is {shape!r}; it must be a pair, (rows, columns)")
    return check_whole("shape[0]", shape[0], 1), check_whole("shape[1]", shape[1], 1)


def grid_layout(shape: tuple[int, int], wraps: tuple[bool, bool]) -> GridLayout:
    """The layout with the fewest words; ``wraps`` says whether the last row, and column, is coupled with the first."""
    for side, name in ((0, "rows"), (1, "columns")):
        if wraps[side] and shape[side] % 2:
            raise ArgumentError(
                f"shape is {shape} and its {name} wrap around: a ring of {shape[side]} sites cannot be coloured with "
                "two colours; use IsingGibbs or IsingBitParallel, which take any graph"
            )
    splits = [(a, b) for a in (1, 2, 4, 8, 16, 32, 64) for b in (1, 2, 4, 8, 16, 32, 64) if a * b <= N_LANES]
    sides = [(_side(shape[0], a, wraps[0]), _side(shape[1], b, wraps[1])) for a, b in splits]
    possible = [(h * w, h + w, i) for i, (h, w) in enumerate(sides) if h and w]  # one block of all always is
    best = min(possible)[2]
    return _laid_out(shape, *splits[best], *sides[best])


def _side(length: int, n_blocks: int, wraps: bool) -> int:
    """Length of a block, or 0 where blocks of an even length do not meet around the torus."""
    if n_blocks == 1:
        return length
    side = -(-length // n_blocks)
    side += side % 2
    return 0 if wraps and side * n_blocks != length else side


def _laid_out(shape: tuple[int, int], n_down: int, n_across: int, h: int, w: int) -> GridLayout:
    y, x = np.divmod(np.arange(h * w), w)
    a, b = np.divmod(np.arange(N_LANES), n_across)
    row, column = a * h + y[:, None], b * w + x[:, None]
    inside = (a < n_down) & (row < shape[0]) & (column < shape[1])
    site = np.where(inside, row * shape[1] + column, -1)
    halo = h * w
    above = np.where(y > 0, (y - 1) * w + x, halo + x)
    below = np.where(y < h - 1, (y + 1) * w + x, halo + w + x)
    left = np.where(x > 0, y * w + x - 1, halo + 2 * w + y)
    right = np.where(x < w - 1, y * w + x + 1, halo + 2 * w + h + y)
    colours = [np.flatnonzero((y + x) % 2 == colour) for colour in (0, 1)]
    spare = halo + 2 * (h + w)
    filled = [np.append(words, np.full(-len(words) % N_WORDS, spare)).reshape(-1, N_WORDS) for words in colours]
    near = np.stack([above, below, left, right], axis=1)
    return GridLayout(n_down, n_across, h, w, site, near, np.concatenate(filled), len(filled[0]))


N_COUNTERS = 8  # binary digits of a lane's tally
_SETTLE_EVERY = 2**N_COUNTERS - 1

_ALL = 2**64 - 1
_DIGITS = np.uint64(N_PLANES)


@hot
def advance_grid(
    layout: GridLayout, tables: GridTables, run: Run, work: Words, tallies: Words, counts: Words, n_sites: int
) -> None:
    """Sweep, one colour after the other; ``tallies`` is empty without marginals."""
    energy, magnetisation, up, packed = run.draws
    words, streams, sums = run.state, run.streams, run.sums
    unsettled = 0
    for step in range(1, run.n_steps + 1):
        _renew_halo(layout, words)
        for b in range(layout.n_first):
            _draw_batch(layout, tables, b, words, streams, work, tallies)
        _renew_halo(layout, words)
        for b in range(layout.n_first, layout.batches.shape[0]):
            _draw_batch(layout, tables, b, words, streams, work, tallies)
        unsettled += 1
        if tallies.size > 0 and (unsettled == _SETTLE_EVERY or step % run.thin == 0):
            _settle(layout, tables, tallies, sums, counts, unsettled)
            unsettled = 0
        if step % run.thin == 0:
            kept = step // run.thin - 1
            _renew_halo(layout, words)
            energy[kept], magnetisation[kept] = _measure(layout, tables, words, n_sites)
            _record(layout, words, sums, run.thin, up[kept], packed[kept])


@inlined
def _renew_halo(layout: GridLayout, words: Words) -> None:
    """Bits of the words at the edges of the blocks, moved to the next block; around the torus where the last ends."""
    h, w, across = layout.h, layout.w, np.uint64(layout.n_across)
    n_lanes = np.uint64(layout.n_down * layout.n_across)
    lanes = np.uint64(_ALL) >> (np.uint64(64) - n_lanes)
    first = np.uint64(0)  # lanes of the blocks of the first column
    for a in range(layout.n_down):
        first |= np.uint64(1) << np.uint64(a * layout.n_across)
    last = first << (across - np.uint64(1))
    halo = h * w
    rest = n_lanes - across
    if rest == np.uint64(0):  # one block high: a shift by all 64 bits is not defined
        for x in range(w):
            words[halo + x] = words[(h - 1) * w + x]
            words[halo + w + x] = words[x]
    else:
        for x in range(w):
            value = words[(h - 1) * w + x] & lanes
            words[halo + x] = ((value << across) | (value >> rest)) & lanes
            value = words[x] & lanes
            words[halo + w + x] = ((value >> across) | (value << rest)) & lanes
    one, back = np.uint64(1), across - np.uint64(1)
    for y in range(h):
        value = words[y * w + w - 1]
        words[halo + 2 * w + y] = ((value << one) & ~first & lanes) | ((value >> back) & first)
        value = words[y * w]
        words[halo + 2 * w + h + y] = ((value >> one) & ~last) | ((value << back) & last)


@inlined
def _draw_batch(
    layout: GridLayout, tables: GridTables, b: int, words: Words, streams: Words, work: Words, tallies: Words
) -> None:
    n_classes = tables.n_classes
    begin_masks(work)
    top = 0
    for j in range(4):
        for w in range(8):
            word = layout.batches[b, w]
            work[w] = words[layout.near[word, j]] if word < layout.near.shape[0] else np.uint64(0)
        place = 32 * b + 8 * j
        up = (load(work, 0) ^ load(tables.turned, place)) & load(tables.present, place)
        top = add_neighbour(work, up, top, tables.strides[j])
    if tallies.size > 0:
        for m in range(n_classes):
            _count(tallies, 8 * N_COUNTERS * (n_classes * b + m), load(work, MASKS + 8 * m))
    undecided = same(np.uint64(_ALL))
    up = undecided ^ undecided
    place = tables.planes_at[b]
    for _ in range(N_PLANES):
        threshold = undecided ^ undecided
        for m in range(n_classes):
            threshold = threshold | (load(work, MASKS + 8 * m) & load(tables.planes, place + 8 * m))
        place += 8 * n_classes
        u = next_words(streams)
        up = up | (undecided & threshold & ~u)
        undecided = undecided & ~(threshold ^ u)
    store(work, 0, up)
    store(work, 8, undecided)
    for w in range(8):
        word = layout.batches[b, w]
        if word >= layout.near.shape[0]:
            break  # filled up: no random words for it
        found = work[w]
        left = work[8 + w]
        while left != np.uint64(0):
            lane = np.uint64(lowest_bit(left))
            left &= left - np.uint64(1)
            m = class_of(work, w, lane)
            rest = tables.thresholds[tables.table[64 * word + np.int64(lane)] + m] << _DIGITS
            if next_word(streams, w) >> _DIGITS < rest >> _DIGITS:
                found |= np.uint64(1) << lane
        words[word] = found


@inlined
def _count(tallies: Words, place: int, carry: VectorType) -> None:
    """Add one to the tallies of the lanes of ``carry``: digit d of the 64 tallies of word w is entry 8 d + w."""
    for d in range(N_COUNTERS):
        digit = load(tallies, place + 8 * d)
        store(tallies, place + 8 * d, digit ^ carry)
        carry = digit & carry


@hot
def _settle(layout: GridLayout, tables: GridTables, tallies: Words, sums: Floats, counts: Words, largest: int) -> None:
    """Add the probabilities that the tallies stand for to ``sums`` (word, lane), and begin new tallies."""
    n_digits = 0
    while (1 << n_digits) <= largest:
        n_digits += 1
    for b in range(layout.batches.shape[0]):
        for m in range(tables.n_classes):
            for w in range(8):
                word = layout.batches[b, w]
                if word >= layout.near.shape[0]:
                    continue
                place = 8 * N_COUNTERS * (tables.n_classes * b + m) + w
                counts[:] = 0
                for d in range(n_digits):
                    digit = tallies[place + 8 * d]
                    for lane in range(64):
                        counts[lane] += ((digit >> np.uint64(lane)) & np.uint64(1)) << np.uint64(d)
                for lane in range(64):
                    threshold = tables.thresholds[tables.table[64 * word + lane] + m]
                    sums[64 * word + lane] += float(counts[lane]) * (float(threshold) * TO_UNIT)
    tallies[:] = 0


@hot
def _measure(layout: GridLayout, tables: GridTables, words: Words, n_sites: int) -> tuple[float, float]:
    """Energy -sum J s s - sum h s and mean spin; halo words are fresh, and lanes without a site have no couplings."""
    energy = 0.0
    n_up = 0
    for word in range(layout.near.shape[0]):
        spin = words[word]
        right, below = spin ^ words[layout.near[word, 3]], spin ^ words[layout.near[word, 1]]
        found = 0.0
        for lane in range(64):
            place, bit = 64 * word + lane, np.uint64(lane)
            a, c, f = tables.right[place], tables.below[place], tables.fields[place]
            found += a if (right >> bit) & np.uint64(1) else -a
            found += c if (below >> bit) & np.uint64(1) else -c
            found -= f if (spin >> bit) & np.uint64(1) else -f
            if layout.site[word, lane] >= 0 and (spin >> bit) & np.uint64(1):
                n_up += 1
        energy += found
    return energy, 2.0 * n_up / n_sites - 1.0


@hot
def _record(layout: GridLayout, words: Words, sums: Floats, thin: int, up: Floats, packed: NDArray[np.uint8]) -> None:
    """Means and spins, site by site; begin new sums."""
    if up.size == 0 and packed.size == 0:
        return
    packed[:] = 0
    for word in range(layout.near.shape[0]):
        for lane in range(64):
            site = layout.site[word, lane]
            if site < 0:
                continue
            if up.size > 0:
                up[site] = sums[64 * word + lane] / thin
                sums[64 * word + lane] = 0.0
            if packed.size > 0:
                bit = np.uint8((words[word] >> np.uint64(lane)) & np.uint64(1))
                packed[site >> 3] |= bit << (7 - (site & 7))


class GridTables(NamedTuple):
    """Entry 64 v + l of a flat array is of lane l of word v."""

    strides: Ints  # (4,)
    n_classes: int
    turned: Words  # entry 32 b + 8 j + w, lane: neighbour j of word w of batch b has a negative coupling
    present: Words  # likewise: there is a coupling
    planes_at: Ints  # (n_batches,)
    planes: Words  # entry 8 (n_classes d + m) + w: binary digit d (0 is 1/2) of the threshold of class m, in every lane
    table: Ints  # (h w + halo + 1) 64
    thresholds: Words
    right: Floats  # (h w 64,) couplings with the site to the right
    below: Floats
    fields: Floats


def grid_tables(layout: GridLayout, couplings: Floats, fields: Floats) -> GridTables:
    """Tables of couplings (4, rows, columns) and fields (n_sites,)."""
    is_site = layout.site >= 0
    near = np.where(is_site, couplings.reshape(4, -1)[:, layout.site], 0.0)  # (4, words, lanes)
    field = np.where(is_site, fields[layout.site], 0.0)
    sizes = np.unique(np.abs(couplings[couplings != 0]))
    one_size = sizes.size <= 1
    if one_size:
        strides, n_classes = np.ones(4, dtype=np.int64), 5
        keys = np.stack([field, (near != 0).sum(axis=0)], axis=-1)
    else:
        strides, n_classes = np.array([1, 2, 4, 8]), 16
        keys = np.stack([field, *near], axis=-1)
    size = float(sizes[0]) if sizes.size == 1 else 0.0
    kind = _same(keys.reshape(-1, keys.shape[-1]).view(np.uint64))
    own, which = np.unique(kind, return_inverse=True)
    local = _class_fields(keys.reshape(-1, keys.shape[-1])[own], n_classes, size if one_size else None)
    table = np.zeros((layout.spare + 1) * N_LANES, dtype=np.int64)
    table[: which.size] = which * n_classes
    thresholds = thresholds_of(local)
    members = np.where(layout.batches < len(layout.site), layout.batches, layout.batches[:, :1])
    planes_at, planes = _planes(thresholds, which.reshape(-1, N_LANES)[members])
    at_batch = np.moveaxis(near[:, members], 0, 1)  # (batch, 4, 8, lane)
    is_turned = (at_batch < 0) & one_size
    return GridTables(
        strides, n_classes,
        aligned(pack_lanes(is_turned).reshape(-1)), aligned(pack_lanes(at_batch != 0).reshape(-1)),
        planes_at, aligned(planes.reshape(-1)), table, thresholds.reshape(-1),
        near[RIGHT].reshape(-1), near[BELOW].reshape(-1), field.reshape(-1),
    )  # fmt: skip


def pack_lanes(bits: NDArray[np.bool_]) -> Words:
    """Words of shape (...) from lanes (..., 64)."""
    packed = np.packbits(bits, axis=-1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u8")[..., 0].astype(np.uint64)


def _same(rows: Words) -> Ints:
    n, length = rows.shape
    return same_rows(np.arange(n + 1) * length, np.ascontiguousarray(rows).reshape(-1))


def _class_fields(keys: Floats, n_classes: int, size: float | None) -> Floats:
    """Local fields (n_kinds, n_classes) from rows (field, number of neighbours) or (field, four couplings)."""
    classes = np.arange(n_classes)
    if size is not None:
        return keys[:, :1] + size * (2 * classes - keys[:, 1:])
    signs = 2.0 * ((classes[:, None] >> np.arange(4)) & 1) - 1
    return np.asarray(keys[:, :1] + keys[:, 1:] @ signs.T)


def _planes(thresholds: Words, kinds: Ints) -> tuple[Ints, Words]:
    """Binary digits of the thresholds of every batch's lanes, kinds (n_batches, 8, 64); equal batches share them."""
    batch = _same(kinds.reshape(len(kinds), -1).view(np.uint64))
    own, which = np.unique(batch, return_inverse=True)
    n_classes = thresholds.shape[1]
    planes = np.empty((own.size, N_PLANES, n_classes, N_WORDS), dtype=np.uint64)
    for d in range(N_PLANES):
        digit = ((thresholds >> np.uint64(63 - d)) & np.uint64(1)).astype(bool)
        for m in range(n_classes):
            planes[:, d, m] = pack_lanes(digit[:, m][kinds[own]])
    return which.reshape(-1) * (N_PLANES * n_classes * N_WORDS), planes


@dataclass(frozen=True, eq=False)
class IsingGrid(IsingBase):
    r"""One Ising chain on a grid: all even sites, then all odd sites, each given its neighbours.

    Parameters
    ----------
    model : IsingModel
        Edges join neighbours on the grid, or its last row or column with the first; couplings and fields are any.
    shape : (int, int)
        Rows and columns; site ``columns * row + column``.
    thin, marginals, keep_spins
        As of `doxa.inference.spins.IsingGibbs`, and so are the draws.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the shape does not have the model's sites, an edge is not of the grid, a side that wraps around is odd (three
        colours would be needed), or ``thin`` is not a whole number of at least one.

    Notes
    -----
    A grid that wraps around is fastest where its sides are multiples of 16, or one is a multiple of 128: it is cut into
    at most 64 equal blocks.  Others are filled up.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = IsingModel([[0, 1], [0, 2], [1, 3], [2, 3]], 0.4, [0.3, 0, 0, 0])
    >>> trace = sample(IsingGrid(model, (2, 2), thin=10), Schedule(4, 5000, 10), seed=1)
    >>> trace["up"].mean(axis=(0, 1)).round(2)
    array([0.65, 0.56, 0.56, 0.54])
    """

    model: IsingModel
    shape: tuple[int, int]
    thin: int = 1
    marginals: bool = True
    keep_spins: bool = False

    def __post_init__(self) -> None:
        """Refuse graphs that are no such grid, and a bad ``thin``."""
        super().__post_init__()
        _ = self._laid_out

    @cached_property
    def _laid_out(self) -> tuple[GridLayout, GridTables]:
        couplings = directed_couplings(self.model, self.shape)
        wraps = bool(couplings[ABOVE, 0].any()), bool(couplings[LEFT, :, 0].any())
        layout = grid_layout(self.shape, wraps)
        return layout, grid_tables(layout, couplings, self.model.fields)

    def _advance(self, state: SpinState, n_steps: int) -> tuple[SpinState, Draws, dict[str, int]]:
        layout, tables = self._laid_out
        n, n_words, is_site = self.model.n_sites, len(layout.site), layout.site >= 0
        words = np.zeros(layout.spare + 1, dtype=np.uint64)
        words[:n_words] = pack_lanes(is_site & (state.spins[layout.site] > 0))
        n_tallies = len(layout.batches) * tables.n_classes * N_COUNTERS * 8 if self.marginals else 0
        run, draws = self._begin_run(words, aligned(state.streams), n_steps, n_words * N_LANES)
        counts = np.zeros(N_LANES, dtype=np.uint64)
        advance_grid(layout, tables, run, aligned_zeros(WORK_SIZE), aligned_zeros(n_tallies), counts, n)
        bits = (words[:n_words, None] >> np.arange(N_LANES, dtype=np.uint64)) & np.uint64(1)
        spins = np.empty(n, dtype=np.int8)
        spins[layout.site[is_site]] = 2 * bits[is_site].astype(np.int8) - 1
        return SpinState(spins, run.streams.copy()), draws, {"updates": n * n_steps}

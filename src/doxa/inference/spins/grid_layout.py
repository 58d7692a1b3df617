r"""`GridLayout`: 64 blocks of one grid side by side, so that one chain is drawn 64 sites at a time.

The grid is cut into A x B <= 64 blocks of h x w sites.  Word (y, x) holds the sites at row y, column x of all blocks,
bit a B + b that of block (a, b).  Neighbours of the sites of a word are then the bits of another word, but at the edge
of the blocks: there they are the bits of a word at the opposite edge, moved to the next block; such *halo* words are
made anew before each colour.  Blocks have even sides (unless there is one block in that direction), so that a word is
of one colour; a grid that does not divide is filled up with sites that nothing is coupled with, unless it is a torus.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.spins.model import IsingModel
from doxa.inference.spins.words import N_WORDS

__all__ = ["ABOVE", "BELOW", "LEFT", "N_LANES", "RIGHT", "GridLayout", "directed_couplings", "grid_layout"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

N_LANES = 64
ABOVE, BELOW, LEFT, RIGHT = range(4)


class GridLayout(NamedTuple):
    """Words of h rows and w columns, number w y + x; then halo words above, below, left and right; then a spare one."""

    n_down: int  # A
    n_across: int  # B
    h: int
    w: int
    site: Integers  # (h w, 64) of the grid, row by row; -1 where there is none
    near: Integers  # (h w, 4) the words above, below, left and right
    batches: Integers  # (n_batches, 8) words of one colour, filled up with the spare one
    n_first: int  # batches of the first colour

    @property
    def spare(self) -> int:
        """The number of the spare word, the last."""
        return self.h * self.w + 2 * (self.h + self.w)


def directed_couplings(model: IsingModel, shape: tuple[int, int]) -> Floats:
    """Couplings of every site with those above, below, left and right of it, shape (4, rows, columns); 0 where none.

    Raises
    ------
    ArgumentError
        If the sites do not fill the grid, or an edge joins sites that are not neighbours on it, or on the torus.

    Examples
    --------
    >>> model = IsingModel([[0, 1], [0, 2], [1, 3], [2, 3]], [1.0, 2.0, 3.0, 4.0], [0, 0, 0, 0])
    >>> directed_couplings(model, (2, 2))[BELOW]
    array([[2., 3.],
           [0., 0.]])
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
    """The layout with the fewest words; ``wraps`` says whether the last row, and column, is coupled with the first.

    Raises
    ------
    ArgumentError
        If a side that wraps around is odd: two colours are then not enough.

    Examples
    --------
    >>> layout = grid_layout((64, 64), (True, True))
    >>> layout.n_down, layout.n_across, layout.h, layout.w
    (8, 8, 8, 8)
    """
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

"""`GridTables`: couplings, fields and thresholds of a grid, laid out as `GridLayout` lays out its sites.

Where all couplings have one size, a site's class is the number of its neighbours that are up (turned over where the
coupling is negative), else the pattern of the four.  What is not coupled with a site counts as down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.spins.aligned import aligned
from doxa.inference.spins.batches import N_PLANES
from doxa.inference.spins.classes import same_rows, thresholds_of
from doxa.inference.spins.grid_layout import BELOW, N_LANES, RIGHT, GridLayout
from doxa.inference.spins.words import N_WORDS

__all__ = ["GridTables", "grid_tables", "pack_lanes"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]


class GridTables(NamedTuple):
    """Entry 64 v + l of a flat array is of lane l of word v."""

    strides: Integers  # (4,)
    n_classes: int
    turned: Words  # entry 32 b + 8 j + w, lane: neighbour j of word w of batch b has a negative coupling
    present: Words  # likewise: there is a coupling
    planes_at: Integers  # (n_batches,)
    planes: Words  # entry 8 (n_classes d + m) + w: binary digit d (0 is 1/2) of the threshold of class m, in every lane
    table: Integers  # (h w + halo + 1) 64
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


def _same(rows: Words) -> Integers:
    n, length = rows.shape
    return same_rows(np.arange(n + 1) * length, np.ascontiguousarray(rows).reshape(-1))


def _class_fields(keys: Floats, n_classes: int, size: float | None) -> Floats:
    """Local fields (n_kinds, n_classes) from rows (field, number of neighbours) or (field, four couplings)."""
    classes = np.arange(n_classes)
    if size is not None:
        return keys[:, :1] + size * (2 * classes - keys[:, 1:])
    signs = 2.0 * ((classes[:, None] >> np.arange(4)) & 1) - 1
    return np.asarray(keys[:, :1] + keys[:, 1:] @ signs.T)


def _planes(thresholds: Words, kinds: Integers) -> tuple[Integers, Words]:
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

"""Small tables with skewed, asymmetric dependence: a symmetric target would hide sign errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from doxa.data import Table


def skewed_table(n_nodes: int, n_rows: int, seed: int, n_states: int = 2, density: float = 0.6) -> Table:
    """Records from a random network with strong, uneven dependence; node 1 has ``n_states`` states."""
    rng = np.random.default_rng(seed)
    radix = [n_states if node == 1 else 2 for node in range(n_nodes)]
    codes = np.zeros((n_rows, n_nodes), dtype=np.int64)
    for node in range(n_nodes):
        parents = [p for p in range(node) if rng.random() < density]
        logits = rng.normal(0.0, 0.7, size=(*[radix[p] for p in parents], radix[node]))
        chances = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        rows = (
            chances[tuple(codes[:, p] for p in parents)] if parents else np.broadcast_to(chances, (n_rows, radix[node]))
        )
        codes[:, node] = (rng.random((n_rows, 1)) >= np.cumsum(rows, axis=1)[:, :-1]).sum(axis=1)
    names = tuple(f"x{i}" for i in range(n_nodes))
    return Table.from_codes(names, tuple(tuple(f"s{k}" for k in range(r)) for r in radix), codes)


def table_of(names: Sequence[str], codes: ArrayLike, counts: Any = None) -> Table:
    """Columns with the states no and yes."""
    return Table.from_codes(names, [("no", "yes")] * len(names), np.reshape(codes, (-1, len(names))), counts)

"""Tables that are drawn: random networks, parities, codes, copies, noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from honesty_parts.problems import Codes
from support.networks import load_network

__all__ = ["as_table", "copies", "hamming", "network_cut", "parity", "random_network_rows"]

_HAMMING = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]])  # parity checks over the four data bits


def as_table(codes: Codes, n_states: NDArray[np.int64] | int) -> Table:
    """Columns a, b, ... with states 0, 1, ...; states that no row has stay states."""
    sizes = np.broadcast_to(n_states, codes.shape[1])
    names = [f"x{j}" for j in range(codes.shape[1])]
    return Table.from_codes(names, [tuple(map(str, range(size))) for size in sizes], codes)


def random_network_rows(
    rng: np.random.Generator, n_rows: int, n_states: NDArray[np.int64], *, concentration: float, most_parents: int = 3
) -> Codes:
    """Rows of a network whose graph and tables are random; a small ``concentration`` is near deterministic."""
    n = len(n_states)
    codes = np.zeros((n_rows, n), dtype=np.int64)
    order = rng.permutation(n)
    for place, node in enumerate(order):
        parents = rng.permutation(order[:place])[: rng.integers(0, most_parents + 1)]
        configurations = np.zeros(n_rows, dtype=np.int64)
        for parent in parents:
            configurations = configurations * n_states[parent] + codes[:, parent]
        rows = rng.dirichlet(np.full(n_states[node], concentration), int(n_states[parents].prod()))
        below = np.cumsum(rows, axis=1)[configurations]
        draws = (rng.random((n_rows, 1)) >= below).sum(axis=1)
        codes[:, node] = np.minimum(draws, n_states[node] - 1)
    return codes


def parity(rng: np.random.Generator, n_rows: int, n: int, k: int, modulus: int, noise: float) -> Codes:
    """Column k - 1 is the sum of the first k - 1, modulo ``modulus``, replaced at random with probability ``noise``."""
    codes = rng.integers(0, modulus, (n_rows, n))
    codes[:, k - 1] = codes[:, : k - 1].sum(axis=1) % modulus
    return replaced(rng, codes, [k - 1], modulus, noise)


def hamming(rng: np.random.Generator, n_rows: int, n_noise: int, noise: float) -> Codes:
    """Words of the Hamming(7,4) code with bits flipped, and columns of noise beside them."""
    data = rng.integers(0, 2, (n_rows, 4))
    words = np.hstack([data, data @ _HAMMING.T % 2])
    words ^= rng.random(words.shape) < noise
    return np.hstack([words, rng.integers(0, 2, (n_rows, n_noise))])


def copies(rng: np.random.Generator, n_rows: int, n: int, n_states: int, noise: float) -> Codes:
    """A few sources, and columns that copy one of them but for some cells."""
    n_sources = int(rng.integers(1, max(2, n // 2)))
    sources = rng.integers(0, n_states, (n_rows, n_sources))
    codes = sources[:, rng.integers(0, n_sources, n)]
    return replaced(rng, codes, list(range(n)), n_states, noise)


def replaced(rng: np.random.Generator, codes: Codes, columns: list[int], n_states: int, share: float) -> Codes:
    """Codes with a share of the cells of some columns drawn anew."""
    for j in columns:
        codes[:, j] = np.where(rng.random(len(codes)) < share, rng.integers(0, n_states, len(codes)), codes[:, j])
    return codes


def network_cut(name: str, n_rows: int, n_columns: int, seed: int) -> Table:
    """Records of a reference network, of random columns."""
    table = load_network(name).sample(n_rows, seed=seed)
    chosen = np.sort(np.random.default_rng(seed).choice(len(table.names), n_columns, replace=False))
    return table.select([table.names[j] for j in chosen])

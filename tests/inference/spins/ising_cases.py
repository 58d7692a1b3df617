"""Small Ising models, their distribution by enumeration, and plain twins of the compiled kernels."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
from scipy.special import expit

from doxa.inference.spins import IsingModel
from doxa.inference.spins.graph import N_PLANES

MASK = 2**64 - 1


def grid_edges(rows, columns, periodic=False):
    """Pairs of neighbours, each once."""
    site = np.arange(rows * columns).reshape(rows, columns)
    pairs = [np.stack([site[:, :-1], site[:, 1:]], -1), np.stack([site[:-1], site[1:]], -1)]
    if periodic and columns > 2:
        pairs.append(np.stack([site[:, -1:], site[:, :1]], -1))
    if periodic and rows > 2:
        pairs.append(np.stack([site[-1:], site[:1]], -1))
    return np.concatenate([pair.reshape(-1, 2) for pair in pairs])


def uneven_grid(rows, columns, periodic=False, seed=0, scale=0.5):
    """A grid with couplings of both signs and fields."""
    rng = np.random.default_rng(seed)
    edges = grid_edges(rows, columns, periodic)
    return IsingModel(edges, rng.normal(0.1, scale, len(edges)), rng.normal(0.2, 0.4, rows * columns))


def even_grid(rows, columns, periodic=False, coupling=0.4, field=0.1):
    """One coupling, one field."""
    return IsingModel(grid_edges(rows, columns, periodic), coupling, np.full(rows * columns, field))


def glass_grid(rows, columns, periodic=False, seed=0):
    """Couplings of one size and both signs, uneven fields."""
    rng = np.random.default_rng(seed)
    edges = grid_edges(rows, columns, periodic)
    return IsingModel(edges, rng.choice([-0.5, 0.5], len(edges)), rng.normal(0, 0.3, rows * columns))


def random_graph(n, n_edges, seed=0, values=None):
    """Any graph; ``values``: couplings are drawn from these."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(n) for j in range(i)]).reshape(-1, 2)
    edges = rng.permuted(pairs[rng.choice(len(pairs), n_edges, replace=False)], axis=1)
    couplings = rng.normal(0, 0.5, n_edges) if values is None else rng.choice(values, n_edges)
    return IsingModel(edges, couplings, rng.normal(0, 0.4, n))


SMALL = {
    "one site": IsingModel([], [], [0.3]),
    "isolated": IsingModel([[0, 2]], [0.7], [0.3, -0.5, 0.1, 0.0]),
    "2 x 2": even_grid(2, 2),
    "2 x 2 uneven": uneven_grid(2, 2),
    "antiferromagnet": even_grid(2, 2, coupling=-0.8, field=0.2),
    "triangle": random_graph(3, 3),
    "complete": random_graph(4, 6, seed=3),
    "no coupling": IsingModel([[0, 1], [1, 2]], 0.0, [0.5, -0.5, 0.1]),
    "strong": IsingModel([[0, 1], [1, 2]], [50.0, -50.0], [0.3, 0.0, 0.1]),
}


def all_spins(n):
    """All states, shape (2^n, n), -1 and +1; state numbers count with site 0 as the highest digit."""
    return np.array(list(product([-1, 1], repeat=n)))


def number(spins):
    """State numbers of spins (..., n)."""
    return ((np.asarray(spins) > 0) @ (1 << np.arange(spins.shape[-1])[::-1])).astype(np.intp)


def exact(model):
    """Probabilities of `all_spins`, by the definition."""
    s = all_spins(model.n_sites)
    log_p = np.zeros(len(s))
    for (i, j), coupling in zip(model.graph.edges, model.graph.couplings, strict=True):
        log_p += coupling * s[:, i] * s[:, j]
    log_p += s @ model.fields
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


def couplings_of(model):
    """A symmetric matrix."""
    found = np.zeros((model.n_sites, model.n_sites))
    for (i, j), coupling in zip(model.graph.edges, model.graph.couplings, strict=True):
        found[i, j] = found[j, i] = coupling
    return found


def site_matrix(n, i, up):
    """Drawing site i, where ``up[state]`` is its probability of +1 in each state."""
    states = all_spins(n)
    matrix = np.zeros((len(states), len(states)))
    for spin, p in ((1, up), (-1, 1 - up)):
        after = states.copy()
        after[:, i] = spin
        matrix[np.arange(len(states)), number(after)] += p
    return matrix


def scan_matrix(n, order, up):
    """Drawing sites one after another; ``up`` (states, n)."""
    return reduce(np.matmul, [site_matrix(n, i, up[:, i]) for i in order])


def conditionals(model, spins):
    """P(s_i = +1 | rest) of spins (..., n)."""
    return expit(2 * (model.fields + spins @ couplings_of(model)))


def thresholds(model, i, spins):
    """The nearest whole numbers to 2^64 P, as Python's, of spins (n_states, n)."""
    p = expit(2 * (model.fields[i] + spins @ couplings_of(model)[i]))
    return [min(MASK, round(float(value) * 2**64)) for value in p]  # exact: a float times a power of two


class Xoshiro:
    """Eight streams of xoshiro256++ in Python's numbers."""

    def __init__(self, streams):
        self.states = [[int(streams[8 * w + k]) for w in range(4)] for k in range(8)]

    def next(self, k):
        a, b, c, d = self.states[k]
        found = (_rotated((a + d) & MASK, 23) + a) & MASK
        c ^= a
        d ^= b
        self.states[k] = [a ^ d, b ^ c, c ^ ((b << 17) & MASK), _rotated(d, 45)]
        return found

    def uniform(self, k):
        return (self.next(k) >> 11) / 2**53

    @property
    def streams(self):
        return np.array([self.states[k][w] for w in range(4) for k in range(8)], dtype=np.uint64)


def _rotated(value, left):
    return ((value << left) | (value >> (64 - left))) & MASK


def chain_sweep(model, order, spins, random, scan="cyclic"):
    """The twin of one sweep of `IsingGibbs`: in place."""
    n = len(order)
    for t in range(n):
        k = t % 8
        i = int(random.uniform(k) * n) if scan == "random" else order[t]
        spins[i] = 1 if random.next(k) < thresholds(model, i, spins[None])[0] else -1


def draw_lanes(limits, random):
    """The twin of one batch of 64 lanes: up or not, from thresholds ``limits[word][lane]`` of at most eight words."""
    planes = [[random.next(k) for k in range(8)] for _ in range(N_PLANES)]
    found = np.zeros((len(limits), 64), dtype=bool)
    for w, lane in product(range(len(limits)), range(64)):
        u = sum(((planes[d][w] >> lane) & 1) << (63 - d) for d in range(N_PLANES))
        if u >> (64 - N_PLANES) == limits[w][lane] >> (64 - N_PLANES):
            u |= random.next(w) >> N_PLANES  # the other 54 digits matter
        found[w, lane] = u < limits[w][lane]
    return found


def bit_parallel_sweep(model, batches, spins, random):
    """The twin of one sweep of `IsingBitParallel` without wide sites: spins (64, n) in place."""
    n = model.n_sites
    for batch in batches.sites.reshape(-1, 8):
        sites = [i for i in batch if i < n]
        up = draw_lanes([thresholds(model, i, spins) for i in sites], random)
        spins[:, sites] = np.where(up.T, 1, -1)


def grid_sweep(model, layout, spins, random):
    """The twin of one sweep of `IsingGrid`: spins (n,) in place."""
    for batch in layout.batches:
        sites = layout.site[[word for word in batch if word < len(layout.site)]]
        limits = [[thresholds(model, i, spins[None])[0] if i >= 0 else 2**63 for i in word] for word in sites]
        up = draw_lanes(limits, random)
        spins[sites[sites >= 0]] = np.where(up[sites >= 0], 1, -1)

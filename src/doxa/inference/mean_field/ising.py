r"""Mean field for Ising models (the notes' last example), at the speed of their arrays.

With spins -1 and +1 and means m, the update is :math:`m_i = \tanh(h_i + \sum_j J_{ij} m_j)` and the bound

.. math:: \log Z \ge c + \sum_i h_i m_i + \sum_{(i, j)} J_{ij} m_i m_j + \sum_i H\big((1 + m_i) / 2\big).

With variables 0 and 1 and means :math:`\mu` it is :math:`\mu_i = \sigma(m_i + \sum_j m_{ij} \mu_j)`, which is the same
update: :math:`m = 2 \mu - 1`, with the couplings and fields of `doxa.models.ising.ising`.  Sites are updated one after
another, each with the others' latest means; all at once, the bound can fall and the means go round in circles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.mean_field.fit import MeanField, best_ascent, check_search
from doxa.inference.mean_field.problem import Ascending, kinds
from doxa.models.ising import IsingNetwork

__all__ = ["IsingMeanField", "ising_mean_field"]


@hot
def spin_sweep(starts: Ints, neighbours: Ints, couplings: Floats, fields: Floats, scale: float, m: Floats) -> float:
    """m_i = tanh(scale (h_i + sum_j J_ij m_j)), site after site, in place; the largest change of a probability."""
    change = 0.0
    for i in range(fields.size):
        field = fields[i]
        for k in range(starts[i], starts[i + 1]):
            field += couplings[k] * m[neighbours[k]]
        e = math.exp(-2.0 * abs(scale * field))  # half the time of tanh
        new = math.copysign((1.0 - e) / (1.0 + e), field)
        change = max(change, abs(new - m[i]))
        m[i] = new
    return change / 2.0


@hot
def spin_bound(
    starts: Ints, neighbours: Ints, couplings: Floats, fields: Floats, m: Floats
) -> tuple[float, float, float]:
    """Bound (nats), sum of the sizes of its terms, entropy; sums are compensated, for many equal terms round alike."""
    bound, lost, size, entropy = 0.0, 0.0, 0.0, 0.0
    for i in range(fields.size):
        local = 0.0
        for k in range(starts[i], starts[i + 1]):
            local += couplings[k] * m[neighbours[k]]
        expected, own = m[i] * (fields[i] + local / 2.0), 0.0
        up, down = (1.0 + m[i]) / 2.0, (1.0 - m[i]) / 2.0
        if up > 0.0 and down > 0.0:
            own = -up * math.log(up) - down * math.log(down)
        term = expected + own - lost
        total = bound + term
        lost = (total - bound) - term
        bound = total
        size += abs(expected) + own
        entropy += own
    return bound, size, entropy


_KINDS = ("uniform", "tempered", "up", "down")
_NEAR = 0.99  # mean of a spin where a start is up or down
_LEVELS, _SWEEPS, _OFF = 20, 3, 0.02  # of the tempered start


class _Neighbours(NamedTuple):
    """Edges by site: those of site i are starts[i] to starts[i + 1]."""

    starts: NDArray[np.int64]  # (n + 1,)
    sites: NDArray[np.int64]  # (2 n_edges,)
    couplings: Floats  # (2 n_edges,)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class IsingMeanField(MeanField):
    """What `ising_mean_field` returns: a `MeanField` with the means of the spins."""

    magnetisation: Floats  # (n,), of spins -1 and +1


@dataclass(frozen=True, eq=False)
class SpinProblem(Ascending[Floats]):
    """The bound of an Ising model as a function of the spins' means, shape (n,); made by `spin_problem`."""

    network: IsingNetwork
    neighbours: _Neighbours

    def step(self, q: Floats) -> tuple[Floats, float]:
        """One sweep, site after site: the new means, and the largest change of a probability."""
        new = q.copy()
        return new, spin_sweep(*self.neighbours, self.network.fields, 1.0, new)

    def gradient(self, m: Floats) -> Floats:
        r"""Derivatives of the bound by artanh(m), shape (n,): :math:`(1 - m^2) (h + J m - artanh(m))`, |m| < 1."""
        ends, couplings = self.network.edges, self.network.couplings
        pull = np.zeros(len(m))
        np.add.at(pull, ends[:, 0], couplings * m[ends[:, 1]])
        np.add.at(pull, ends[:, 1], couplings * m[ends[:, 0]])
        return np.asarray((1 - m**2) * (self.network.fields + pull - np.arctanh(m)))

    def _bound(self, q: Floats) -> tuple[float, float, float]:
        bound, size, entropy = spin_bound(*self.neighbours, self.network.fields, q)
        return bound + self.network.constant, size + abs(self.network.constant), entropy


def spin_problem(network: IsingNetwork) -> SpinProblem:
    """Prepare an Ising network of either coding."""
    if not isinstance(network, IsingNetwork):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; give an IsingNetwork, as doxa.models.ising makes, "
            f"or use mean_field for others"
        )
    return SpinProblem(network, _neighbours(network.edges, network.couplings, len(network.fields)))


def ising_mean_field(
    network: IsingNetwork,
    *,
    starts: int = 5,
    start: ArrayLike | None = None,
    seed: int | None = None,
    tolerance: float = 1e-9,
    max_sweeps: int = 1000,
) -> IsingMeanField:
    r"""Approximate an Ising model by independent spins, by coordinate ascent on the bound of log Z.

    Parameters
    ----------
    network : IsingNetwork
        Of either coding.
    starts : int, default=5
        Starts: means 0, led up from a high temperature, all up, all down, then random ones.  The best bound is kept.
        Of a ferromagnet, all up and all down lead to the largest and the smallest means that are fixed points.
    start : array_like, shape (n,), optional
        Means of one more start, from -1 to 1.
    seed : int, optional
        Of the starts.
    tolerance, max_sweeps
        As in `mean_field`.

    Returns
    -------
    IsingMeanField
        ``marginals`` has shape (n, 2), over the states in order.

    Raises
    ------
    ArgumentError, ArgumentTypeError

    Notes
    -----
    Where ``field`` is 0 the model is symmetric, and so is the true mean of every spin, 0; beyond a critical coupling
    (1/4 on the square grid, against 0.4407 in truth) the best product is not, and starts up and down differ.

    Examples
    --------
    >>> from doxa.models.ising import ising_grid
    >>> fit = ising_mean_field(ising_grid(4, 4, coupling=0.5, field=0.1), seed=1)
    >>> fit
    <mean field, an approximation: log Z >= 14.5147>
    >>> fit.magnetisation[:2].round(3)
    array([0.755, 0.885])
    """
    problem = spin_problem(network)
    n, n_starts = len(network.fields), check_whole("starts", starts, 0 if start is not None else 1)
    check_search(tolerance, max_sweeps)
    begins: list[tuple[str, Floats]] = [] if start is None else [("given", _check_start(start, n))]
    for kind, child in zip(kinds(n_starts, *_KINDS), np.random.SeedSequence(seed).spawn(n_starts), strict=True):
        begins.append((kind, _begin(problem, kind, np.random.default_rng(child))))
    best, search = best_ascent(problem, begins, tolerance, max_sweeps)
    return IsingMeanField(
        marginals=np.stack([(1 - best.q) / 2, (1 + best.q) / 2], axis=1),
        entropy=problem.entropy(best.q),
        exact=not network.couplings.any(),
        method="mean field",
        magnetisation=best.q,
        **search,
    )


def _neighbours(edges: NDArray[np.int64], couplings: Floats, n: int) -> _Neighbours:
    ends = edges.T.ravel()
    order = np.argsort(ends, kind="stable")
    counts = np.bincount(ends, minlength=n)
    others = edges[:, ::-1].T.ravel()
    return _Neighbours(np.concatenate([[0], np.cumsum(counts)]), others[order], np.tile(couplings, 2)[order])


def _begin(problem: SpinProblem, kind: str, rng: np.random.Generator) -> Floats:
    n = len(problem.network.fields)
    if kind in ("up", "down"):
        return np.full(n, _NEAR if kind == "up" else -_NEAR)
    if kind == "random":
        return rng.uniform(-1.0, 1.0, n)
    m = np.zeros(n)
    if kind == "tempered":
        for level in np.linspace(0.0, 1.0, _LEVELS + 1)[1:]:
            m += (1 - m**2) * np.tanh(_OFF * rng.standard_normal(n))  # off the saddle of symmetric models
            for _ in range(_SWEEPS):
                spin_sweep(*problem.neighbours, problem.network.fields, level, m)
    return m


def _check_start(start: ArrayLike, n: int) -> Floats:
    m = np.array(start, dtype=np.float64)
    if m.shape != (n,):
        raise ArgumentError(f"start has shape {m.shape}; it must be ({n},), a mean for every spin")
    if not (np.abs(m) <= 1).all():
        raise ArgumentError(f"start holds {m[~(np.abs(m) <= 1)][0]:g}; means of spins are from -1 to 1")
    return m

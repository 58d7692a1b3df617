r"""Annealing along a path of distributions: importance sampling, bounds on log Z, and the most probable states.

*Annealed importance sampling* (Neal 2001).  With :math:`0 = \beta_0 < \dots < \beta_K = 1`, a particle is drawn from
:math:`f_{\beta_0}`, gets the factor :math:`f_{\beta_k}(x) / f_{\beta_{k-1}}(x)` at every step, and is moved between
steps by a kernel that leaves :math:`f_{\beta_k}` invariant.  Its weight, times :math:`Z_0`, has mean Z, whatever the
schedule and however slowly the kernels mix.  *In reverse* (Burda, Grosse & Salakhutdinov 2015) a particle is drawn from
the target itself and goes the same way back, moved by the reversals of the kernels; the mean of its *inverse* weight is
1/Z, or less where parts of the base lead to weights of 0.

*Bounds*, by Markov's inequality, sharpened by groups.  Forward weights w are not negative, independent, and have mean
Z.  So has the mean of any group of them, m, and Markov's inequality gives :math:`P(m \ge c Z) \le 1 / c`.  The means of
g groups are independent, so

.. math:: P(\min_j m_j \ge c Z) \le c^{-g}, \qquad
          P \Big( \ln \min_j m_j + \frac{1}{g} \ln \alpha \ge \ln Z \Big) \le \alpha,

taking :math:`c = \alpha^{-1/g}`: a lower bound that fails with probability alpha at most, whatever the variance of the
weights and however few they are.  Inverse weights r of reverse runs that begin at exact draws have mean 1/Z or less,
and the same argument gives :math:`-\ln \min_j r_j - \frac{1}{g} \ln \alpha` as an upper bound.  Both together fail with
probability 2 alpha at most.  One group is the usual form (Grosse, Ghahramani & Adams 2015): the log of the mean weight
itself exceeds log Z in about half the runs, so ln 0.025 = -3.7 nats are added.  With g groups it is -3.7 / g, and what
the smallest of g means lies below the mean of all: more groups are better until they are too small.  Their number is to
be chosen before the weights are seen.

*Simulated annealing* (Kirkpatrick, Gelatt & Vecchi 1983): the best of many chains that grow cold.  It is a lower bound:
nothing here says that no state is better.  Where a network is narrow, `doxa.inference.exact` finds the best state and
knows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.sampling.importance import ImportanceSample
from doxa.sampling.importance_weights import WeightedEstimate, log_mean_exp
from doxa.sampling.workers import run_in_parallel

__all__ = [
    "Annealed",
    "Cooled",
    "Path",
    "Reversed",
    "anneal",
    "anneal_back",
    "best_groups",
    "cool",
    "inverse_mean",
    "lower_bound",
    "upper_bound",
]

LEVEL = 0.025  # of each side: both hold with probability 0.95


def lower_bound(log_weights: ArrayLike, groups: int = 1, level: float = LEVEL) -> float:
    """A number below log Z with probability 1 - ``level`` at least.

    Parameters
    ----------
    log_weights : array_like, shape (n,)
        Of independent forward particles, nats; -inf is a weight of 0.
    groups : int, default=1
        At most n; chosen without a look at these weights.
    level : float, default=0.025
        Probability of failure, in (0, 1).

    Returns
    -------
    float
        Nats; -inf where a group has no weight.

    Raises
    ------
    ArgumentError
        If there are more groups than weights, or a number is out of range.

    Examples
    --------
    >>> round(lower_bound(np.zeros(100)), 3), round(lower_bound(np.zeros(100), groups=10), 3)
    (-3.689, -0.369)
    """
    return min(_group_means(log_weights, groups, level)) + math.log(level) / groups


def upper_bound(log_weights: ArrayLike, groups: int = 1, level: float = LEVEL) -> float:
    """A number above log Z with probability 1 - ``level`` at least.

    The weights are those of reverse runs that began at independent exact draws (`Reversed.log_weights`); parameters,
    errors and units are those of `lower_bound`.

    Examples
    --------
    >>> round(upper_bound(np.zeros(100), groups=10), 3)
    0.369
    """
    return -min(_group_means(-np.asarray(log_weights, dtype=np.float64), groups, level)) - math.log(level) / groups


def best_groups(n: int, variance: float, level: float = LEVEL) -> int:
    """Number of groups that makes the bound tightest, if log weights are normal with this variance.

    Examples
    --------
    >>> best_groups(512, 0.2), best_groups(512, 3.0), best_groups(1, 0.2)
    (24, 6, 1)
    """
    spread = math.sqrt(math.expm1(min(variance, 100.0)) / check_whole("n", n, 1))
    choices = [g for g in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if g <= max(1, n // 8)]
    return min(choices, key=lambda g: -math.log(level) / g + _normal_extreme(g) * spread * math.sqrt(g))


def _normal_extreme(g: int) -> float:
    """About the mean of the largest of g standard normal numbers."""
    from scipy.special import ndtri

    return float(ndtri((g - 0.375) / (g + 0.25)))  # Blom (1958)


def _group_means(log_values: ArrayLike, groups: int, level: float) -> list[float]:
    values: NDArray[np.float64] = np.asarray(log_values, dtype=np.float64)
    groups = check_whole("groups", groups, 1)
    if values.ndim != 1 or groups > values.size:
        raise ArgumentError(f"groups is {groups} and log_weights has shape {values.shape}; each group needs a weight")
    if np.isnan(values).any() or (values == np.inf).any():
        raise ArgumentError("log_weights contains nan or a number that is infinite on the wrong side")
    if not 0 < level < 1:
        raise ArgumentError(f"level is {level}; it must lie strictly between 0 and 1, such as 0.025")
    return [float(np.logaddexp.reduce(part)) - math.log(part.size) for part in np.array_split(values, groups)]


class Path(Protocol):
    """Distributions from one that can be drawn from to one that cannot: `SpinPath` and `TablePath`."""

    block: int  # particles that are annealed together
    speed: int  # moves of a variable in the time that tables take for one

    @property
    def n_variables(self) -> int:
        """Columns of the states."""

    @property
    def log_z0(self) -> float:
        """Log of the sum of f at beta = 0, nats."""

    def log_value(self, states: ArrayLike) -> Floats:
        """Log f at beta = 1, nats."""

    def forward(self, betas: Floats, rng: np.random.Generator, sweeps: int = 1) -> tuple[Floats, NDArray[Any], Floats]:
        """Anneal one block from beta = 0.

        Returns log weights (nats, log Z_0 included), states after the last sweep, and the variance of the log weights
        after every step.
        """

    def reverse(
        self, betas: Floats, states: ArrayLike, rng: np.random.Generator, sweeps: int = 1
    ) -> tuple[Floats, NDArray[Any], Floats]:
        """Anneal one block from states at beta = 1; ``betas`` rise as in `forward`, weights are those of `forward`."""

    def stay(self, states: ArrayLike, n_sweeps: int, rng: np.random.Generator) -> NDArray[Any]:
        """Sweep one block at beta = 1."""

    def cool(self, betas: Floats, rng: np.random.Generator) -> NDArray[Any]:
        """Cool one block from anywhere along rising inverse temperatures, then let it ascent; return its states."""


class Annealed(NamedTuple):
    """Particles of a forward run; independent of each other."""

    log_weights: Floats  # (n,), nats; the mean of the weights estimates Z without bias
    states: NDArray[Any]  # (n, n_variables); with the weights, draws of the target
    betas: Floats
    variances: Floats  # (len(betas) - 1,), of the log weights after every step

    def estimate(self) -> WeightedEstimate:
        """Estimate log Z, with an error if the weights allow one."""
        return as_sample(self.log_weights).log_normalising_constant()

    def resample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """States drawn with probabilities in proportion to the weights: close to the target, not exactly of it."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(self.states[rng.choice(len(weights), n, p=weights / weights.sum())])


def as_sample(log_weights: Floats) -> ImportanceSample:
    """Weights alone, as those of an importance sample."""
    return ImportanceSample(np.arange(len(log_weights)), log_weights, np.zeros(len(log_weights)))


class Reversed(NamedTuple):
    """Weights of a reverse run, one for each draw that it began with."""

    log_weights: Floats  # (n,), nats; the mean of the inverse weights estimates 1/Z, or less
    betas: Floats


def check_betas(betas: ArrayLike) -> Floats:
    """Return a schedule: inverse temperatures that rise from 0 to 1."""
    checked = np.array(betas, dtype=np.float64)
    rises = checked.ndim == 1 and len(checked) > 1 and bool((np.diff(checked) > 0).all())
    if not rises or checked[0] != 0.0 or checked[-1] != 1.0:
        raise ArgumentError("betas must be at least two numbers that rise from 0.0 to 1.0, such as linear(1000)")
    return checked


def anneal(
    path: Path, betas: ArrayLike, n: int, rng: np.random.Generator, *, sweeps: int = 1, workers: int | None = None
) -> Annealed:
    """Anneal particles from the base to the target.

    Parameters
    ----------
    path : Path
    betas : array_like, shape (n_steps + 1,)
        Rising from 0 to 1; see `doxa.inference.annealing.tempering`.  Chosen without a look at these particles.
    n : int
        Particles, at least 2; rounded up to a multiple of ``path.block``.
    rng : numpy.random.Generator
        Advanced by the same amount whatever the path.
    sweeps : int, default=1
        Between two steps.
    workers : int, optional
        Threads; they do not change the result.

    Examples
    --------
    >>> from doxa.inference.annealing import SpinPath, linear
    >>> run = anneal(SpinPath([[0, 1]], 0.5, [0.0, 0.2]), linear(50), 512, np.random.default_rng(1))
    >>> print(run.estimate(), "exact:", round(float(np.log(4 * np.cosh(0.5) * np.cosh(0.2))), 4))
    1.523 +/- 0.003 exact: 1.5263
    """
    schedule, sweeps = check_betas(betas), check_whole("sweeps", sweeps, 1)
    n_blocks = -(-check_whole("n", n, 2) // path.block)
    parts = run_blocks(path, "forward", schedule, [()] * n_blocks, rng, workers, sweeps)
    mean = np.mean([variances for _, _, variances in parts], axis=0)
    log_weights, states = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Annealed(log_weights, states, schedule, mean)


def anneal_back(
    path: Path,
    betas: ArrayLike,
    draws: ArrayLike,
    rng: np.random.Generator,
    *,
    sweeps: int = 1,
    workers: int | None = None,
) -> Reversed:
    """Anneal particles from draws of the target to the base.

    Parameters
    ----------
    path, betas, rng, sweeps, workers
        As in `anneal`.
    draws : array_like of int, shape (n, n_variables)
        Independent draws of the target.  Where they do not fill the last block, some begin more than one particle, and
        the inverse weights of these are averaged.

    Returns
    -------
    Reversed
        Inverse weights have mean 1/Z only if the draws are exact: `doxa.inference.annealing.exact_draws` makes such.

    Examples
    --------
    >>> from doxa.inference.annealing import SpinPath, draw_by_elimination, linear
    >>> from doxa.models.ising import ising
    >>> network, rng = ising([[0, 1]], 0.5, [0.0, 0.2]), np.random.default_rng(1)
    >>> path = SpinPath(network.edges, network.couplings, network.fields)
    >>> draws = draw_by_elimination(network.n_states, network.factors, 512, rng)
    >>> back = anneal_back(path, linear(50), draws, rng)
    >>> round(-float(np.log(np.exp(-back.log_weights).mean())), 3), round(float(np.log(4 * 1.12763 * 1.02007)), 3)
    (1.529, 1.526)
    """
    schedule, sweeps = check_betas(betas), check_whole("sweeps", sweeps, 1)
    states = np.asarray(draws)
    if states.ndim != 2 or not len(states) or states.shape[1] != path.n_variables:
        raise ArgumentError(f"draws has shape {states.shape}; it must be (n, {path.n_variables}), a state in each row")
    n_blocks = -(-len(states) // path.block)
    starts = np.arange(n_blocks * path.block) % len(states)
    blocks = [(states[own],) for own in np.split(starts, n_blocks)]
    parts = run_blocks(path, "reverse", schedule, blocks, rng, workers, sweeps)
    log_weights = np.concatenate([part[0] for part in parts])
    lowest = log_weights.min()
    inverse = np.bincount(starts, weights=np.exp(lowest - log_weights)) / np.bincount(starts)
    with np.errstate(divide="ignore"):
        return Reversed(lowest - np.log(inverse), schedule)


def inverse_mean(log_weights: ArrayLike) -> float:
    """Minus the log of the mean inverse weight: the estimate of log Z of a reverse run, nats."""
    return -log_mean_exp(-np.asarray(log_weights, dtype=np.float64))


def run_blocks(
    path: Path,
    way: str,
    betas: Floats,
    blocks: Sequence[tuple[Any, ...]],
    rng: np.random.Generator,
    workers: int | None,
    *options: int,
) -> list[Any]:
    """Send every block along the path on threads; seeds depend on ``rng`` and the block's number alone."""
    root = np.random.SeedSequence(int(rng.integers(2**63)))
    seeds = [int(child.generate_state(1, np.uint64)[0]) for child in root.spawn(len(blocks))]
    common, tasks = (getattr(path, way), betas, options), list(zip(seeds, blocks, strict=True))
    if len(tasks) == 1:
        return [_run_block(common, tasks[0], 0)]
    with run_in_parallel(_run_block, len(tasks), workers) as run_all:
        return run_all(common, tasks, 0)


def _run_block(common: Any, task: Any, _: int) -> Any:
    (go, betas, options), (seed, states) = common, task
    return go(betas, *states, np.random.default_rng(seed), *options)


_HOTTEST, _COLDEST = 0.05, 8.0  # inverse temperatures, in units of the network's own


class Cooled(NamedTuple):
    """What the restarts found."""

    states: NDArray[np.int64]  # (n_variables,), the best
    log_value: float  # log of the product of the factors there, nats; -inf where no restart found a possible state
    log_values: NDArray[np.float64]  # (restarts,): how often the best was found says how far to trust it


def cool(
    path: Path,
    n_sweeps: int,
    restarts: int,
    rng: np.random.Generator,
    *,
    betas: ArrayLike | None = None,
    workers: int | None = None,
) -> Cooled:
    """Search for the most probable states of a network.

    Parameters
    ----------
    path : Path
        Its base plays no part; zeros are softened on the way and count at the end.
    n_sweeps : int
        Of every restart.
    restarts : int
        Rounded up to a multiple of ``path.block``.
    rng : numpy.random.Generator
    betas : array_like, shape (n_sweeps,), optional
        Inverse temperatures of the sweeps, not negative; from 0.05 to 8, geometrically, when left out.
    workers : int, optional
        Threads; they do not change the result.

    Examples
    --------
    >>> from doxa.inference.annealing import SpinPath
    >>> found = cool(SpinPath([[0, 1], [1, 2]], [1.0, -2.0], [0.1, 0.0, 0.0]), 50, 512, np.random.default_rng(1))
    >>> found.states, round(found.log_value, 9)
    (array([1, 1, 0]), 3.1)
    """
    n_sweeps = check_whole("n_sweeps", n_sweeps, 1)
    plan = np.geomspace(_HOTTEST, _COLDEST, n_sweeps) if betas is None else np.asarray(betas, dtype=np.float64)
    if plan.shape != (n_sweeps,) or not np.isfinite(plan).all() or (plan < 0).any():
        raise ArgumentError(f"betas has shape {plan.shape}; it must hold {n_sweeps} numbers, none negative")
    n_blocks = -(-check_whole("restarts", restarts, 1) // path.block)
    states = np.concatenate(run_blocks(path, "cool", plan, [()] * n_blocks, rng, workers))
    log_values = path.log_value(states)
    best = int(log_values.argmax())
    return Cooled(states[best].astype(np.int64), float(log_values[best]), log_values)

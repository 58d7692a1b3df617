r"""Hamiltonian Monte Carlo with a dense metric, for many walkers in lockstep, tuned in warm-up.

Where a posterior is far from any Gaussian this is the last resort: it needs gradients and nothing else.  All walkers
take the same number of leapfrog steps, so each evaluation of the target is one batch, and their draws teach one metric,
one step and one length, as in ChEES-HMC (Hoffman, Radul & Sountsov 2021).  Two rules differ from theirs.  The step aims
at the mean acceptance: the harmonic mean is near 0 at every useful step where the posterior has walls, as it does with
separable data (62 coefficients: .19 where the mean is .94).  And the length is chosen by effective draws a gradient, of
coordinates or of their squares, whichever are fewer: the criterion of that paper, which knows no cost, chose twice the
length and lost a third of the draws (200 coefficients, separable data).

Steps that need fewer gradients, where a Gaussian is nearly right, are in `doxa.parameters.kernels.split`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal, check_cholesky, check_gaussian
from doxa.parameters.kernels.kernel import Path, SmoothTarget, Target, ValueAndGradient, Walkers, check_inside
from doxa.parameters.kernels.random_walk import shrunk_cholesky
from doxa.parameters.kernels.trajectory import (
    Phase,
    Trajectory,
    Whitening,
    as_smooth,
    leapfrog,
    mixing,
    move,
    run_trajectories,
)

__all__ = ["Hamiltonian", "LengthPilot", "WarmUp", "warmed_up"]

_METRICS = (0.1, 0.15, 0.25)  # shares of the steps, after each of which the metric is learnt anew
_PILOT = 0.1  # share for each length that is tried, for the step of the one chosen, and for a look at the result
_MOST_GRADIENTS = (32, 64, 128, 256)  # a step of the stages of warm-up, so that a bad beginning ends
_GOAL = 0.8  # mean acceptance; with walls as without, .65 to .9 are within a fifth of the best
_QUARTER = np.pi / 2  # a quarter turn of a Gaussian with this metric: where squares are least alike
_LONGER = np.sqrt(2.0)
_FIRST = (-2, -1, 0)  # powers of it that are tried first: lengths from 0.8 to a quarter turn
_FARTHEST = 4  # and last: 0.4 or 6.3


@dataclass(frozen=True, eq=False)
class Hamiltonian:
    r"""Leapfrog trajectories of random length, accepted or not by their end (Duane et al. 1987).

    Parameters
    ----------
    metric_cholesky : ndarray of float, shape (d, d)
        Lower triangular factor of the target's covariance, roughly: the inverse of the mass matrix.
    step : float
        Of the leapfrog scheme, in whitened coordinates; at most, as each trajectory is cut into equal steps.
    length : float
        Mean length of a trajectory, in whitened coordinates; pi / 2 suits a Gaussian.
    jitter : float, default=0.3
        Each length is drawn uniformly from ``length`` times (1 - jitter, 1 + jitter), the same for all walkers.

    Raises
    ------
    ArgumentError
        If ``metric_cholesky`` is not lower triangular with a positive diagonal, or a number is out of range; when it is
        run, if the target has another number of coordinates.
    ArgumentTypeError
        When it is run: if the target has no gradient.
    TargetError
        When it is run: if a log density is NaN or plus infinity, or a gradient is not finite.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> class Logistic:
    ...     n_dimensions = 1
    ...
    ...     def log_density(self, x):
    ...         return -2 * np.logaddexp(x, -x)[:, 0]
    ...
    ...     def value_and_gradient(self, x):
    ...         return self.log_density(x), -2 * np.tanh(x)
    >>> kernel, rng = Hamiltonian(np.array([[0.9]]), step=0.5, length=1.5), np.random.default_rng(1)
    >>> walkers, path = kernel.run(Logistic(), start_at(Logistic(), np.zeros((64, 1))), 500, rng)
    >>> round(float(path.thetas.var()), 1), round(np.pi**2 / 12, 1)  # found, exact
    (0.8, 0.8)
    """

    metric_cholesky: Floats
    step: float
    length: float
    jitter: float = 0.3

    def __post_init__(self) -> None:
        """Refuse what cannot move."""
        object.__setattr__(self, "metric_cholesky", check_cholesky("metric_cholesky", self.metric_cholesky))
        for name in ("step", "length"):
            value = getattr(self, name)
            if not 0 < value < np.inf:
                raise ArgumentError(f"{name} is {value!r}; it must be above 0 and finite")
        if not 0 <= self.jitter < 1:
            raise ArgumentError(f"jitter is {self.jitter!r}; it must be at least 0 and below 1")

    @property
    def n_gradients(self) -> int:
        """Evaluations of the target and its gradient in a trajectory of mean length."""
        return _count(self.length, self.step)

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times."""
        smooth = as_smooth(target, len(self.metric_cholesky), type(self).__name__)
        whitening = Whitening(np.zeros(smooth.n_dimensions), self.metric_cholesky)
        trajectory = _trajectory(smooth, whitening, self.step, self.length, self.jitter, rng)
        with np.errstate(over="ignore", invalid="ignore"):  # far out on trajectories that will be rejected
            return run_trajectories(trajectory, whitening.begin(smooth, walkers.thetas), n_steps, rng)


class LengthPilot(NamedTuple):
    """What a few steps with this mean length showed."""

    length: float
    n_gradients: float  # a step, on average
    acceptance: float  # mean probability of accepting
    efficiency: float  # effective draws a gradient, of coordinates or their squares, whichever are fewer


class WarmUp(NamedTuple):
    """How a kernel was tuned."""

    acceptance: float  # mean probability of accepting, of the frozen kernel in the last steps
    efficiency: float  # effective draws a gradient there, as in `LengthPilot`
    shrinkage: tuple[float, ...]  # share of the diagonal in each change of the metric
    pilots: tuple[LengthPilot, ...]  # in the order in which they were tried
    n_steps: int  # in all
    n_evaluations: int  # of the target, points


def warmed_up(
    target: Target,
    walkers: Walkers,
    rng: np.random.Generator,
    gaussian: GaussianProposal | None = None,
    *,
    n_steps: int = 240,
    jitter: float = 0.3,
) -> tuple[Hamiltonian, Walkers, WarmUp]:
    """Learn metric, step and length, and freeze them.

    Parameters
    ----------
    target : SmoothTarget
    walkers : Walkers
        Where to begin; at least 2, and 32 to 64 make the tuning sure.
    rng : Generator
    gaussian : GaussianProposal, optional
        Its covariance is the first metric; the walkers' own spread, coordinate by coordinate, when left out.
    n_steps : int, default=240
        At least 100, about: half of them learn the metric, a tenth is spent on each length that is tried (three to
        seven), a tenth on the step, and a tenth on a look at the result.
    jitter : float, default=0.3
        As in `Hamiltonian`.

    Returns
    -------
    kernel : Hamiltonian
        Frozen.
    walkers : Walkers
        Moved on; all steps so far are warm-up.
    report : WarmUp

    Raises
    ------
    ArgumentError, ArgumentTypeError, TargetError
        As in `Hamiltonian`; if there are fewer than two walkers, ``n_steps`` is too small, or a walker stands where the
        target has no density.

    Notes
    -----
    Each stage tunes the step by dual averaging (Nesterov 2009; Hoffman & Gelman 2014, section 3.2) towards a mean
    acceptance probability of .8 over the walkers. The metric is then changed by the covariance of the stage's later
    draws in the coordinates so far, shrunk towards its diagonal (`shrunk_cholesky`).

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> class Narrow:
    ...     n_dimensions = 2
    ...
    ...     def log_density(self, x):
    ...         return -np.logaddexp(x, -x)[:, 0] - np.logaddexp(50 * x, -50 * x)[:, 1]
    ...
    ...     def value_and_gradient(self, x):
    ...         return self.log_density(x), -np.tanh(x * [1, 50]) * [1, 50]
    >>> rng = np.random.default_rng(1)
    >>> kernel, walkers, report = warmed_up(Narrow(), start_at(Narrow(), rng.standard_normal((32, 2))), rng)
    >>> exact = np.array([np.pi / 2, np.pi / 100])  # standard deviations
    >>> bool(np.abs(kernel.metric_cholesky.diagonal() / exact - 1).max() < 0.2)
    True
    >>> kernel.n_gradients <= 4, bool(abs(report.acceptance - 0.8) < 0.15)
    (True, True)
    """
    n_steps = check_whole("n_steps", n_steps, 100)
    if gaussian is not None:
        check_gaussian("gaussian", gaussian)
    d = walkers.thetas.shape[1] if gaussian is None else gaussian.mean.size
    counted = _Counted(as_smooth(target, d, "warmed_up"))
    _check_start(walkers, d)
    factor = np.diag(_spread(walkers.thetas)) if gaussian is None else gaussian.cholesky
    kernel = Hamiltonian(factor, d**-0.25, _QUARTER, jitter)
    shrinkage = []
    with np.errstate(over="ignore", invalid="ignore"):
        for share, most in zip(_METRICS, _MOST_GRADIENTS, strict=False):
            kernel, walkers, y = _tune_step(kernel, counted, walkers, rng, round(share * n_steps), most)
            later = y[len(y) // 3 :]
            if (later.std(axis=(0, 1)) > 0).all():
                kernel, shrunk = _with_metric(kernel, later)
                shrinkage.append(shrunk)
        n_pilot = round(_PILOT * n_steps)
        kernel, walkers, pilots = _choose_length(kernel, counted, walkers, rng, n_pilot)
        kernel, walkers, _ = _tune_step(kernel, counted, walkers, rng, n_pilot, _MOST_GRADIENTS[-1])
    result, walkers = _try(kernel, counted, walkers, rng, n_pilot)
    n_made = sum(round(share * n_steps) for share in _METRICS) + n_pilot * (len(pilots) + 2)
    report = WarmUp(result.acceptance, result.efficiency, tuple(shrinkage), pilots, n_made, counted.n_evaluations)
    return kernel, walkers, report


def _with_metric(kernel: Hamiltonian, later: Floats) -> tuple[Hamiltonian, float]:
    """The metric changed by the covariance of draws in the coordinates so far; and how far that was shrunk."""
    change, shrunk = shrunk_cholesky(later)
    longer = float(np.exp(np.log(np.diag(change)).mean()))
    factor = np.tril(kernel.metric_cholesky @ change)
    return replace(kernel, metric_cholesky=factor, step=kernel.step / longer), shrunk


class _Counted:
    """The target, counting the points at which it is evaluated."""

    def __init__(self, target: SmoothTarget) -> None:
        self.target = target
        self.n_dimensions = target.n_dimensions
        self.n_evaluations = 0

    def log_density(self, thetas: Floats) -> Floats:
        self.n_evaluations += len(thetas)
        return self.target.log_density(thetas)

    def value_and_gradient(self, thetas: Floats) -> ValueAndGradient:
        self.n_evaluations += len(thetas)
        return self.target.value_and_gradient(thetas)


def _check_start(walkers: Walkers, d: int) -> None:
    if walkers.thetas.shape[1] != d or len(walkers.thetas) < 2:
        raise ArgumentError(
            f"walkers have shape {walkers.thetas.shape}; it must be (n, {d}) with n of at least 2, as their spread is "
            "used; 32 to 64 make the tuning sure"
        )
    check_inside(walkers)


def _spread(thetas: Floats) -> Floats:
    sd = thetas.std(axis=0)
    return np.asarray(np.where(sd > 0, sd, 1.0))


def _tune_step(
    kernel: Hamiltonian, target: SmoothTarget, walkers: Walkers, rng: np.random.Generator, n_steps: int, most: int
) -> tuple[Hamiltonian, Walkers, Floats]:
    """Move ``n_steps`` times, tuning the step by dual averaging; the whitened path (n_steps, walkers, d) as well."""
    whitening = Whitening(np.zeros(target.n_dimensions), kernel.metric_cholesky)
    phase = whitening.begin(target, walkers.thetas)
    path = np.empty((n_steps, *phase.y.shape))
    tuner = _DualAveraging(np.log(kernel.step))
    for t in range(n_steps):
        step = float(np.exp(tuner.log_step))
        length = min(kernel.length, most * step)
        phase, acceptance = move(phase, _trajectory(target, whitening, step, length, kernel.jitter, rng), rng)
        tuner.learn(float(acceptance.mean()))
        path[t] = phase.y
    return replace(kernel, step=float(np.exp(tuner.average))), Walkers(phase.thetas, phase.value), path


class _DualAveraging:
    """Nesterov's dual averaging of the logarithm of a step, with the constants of Hoffman & Gelman 2014.

    But it is drawn towards twice the first step rather than ten times: many walkers are a sure guide.
    """

    def __init__(self, log_step: float) -> None:
        self.log_step = self.average = log_step
        self._towards = log_step + np.log(2.0)
        self._lack = 0.0
        self._t = 0

    def learn(self, acceptance: float) -> None:
        self._t += 1
        self._lack += (_GOAL - acceptance - self._lack) / (self._t + 10)
        self.log_step = float(self._towards - np.sqrt(self._t) / 0.05 * self._lack)
        self.average += self._t**-0.75 * (self.log_step - self.average)


def _choose_length(
    kernel: Hamiltonian, target: _Counted, walkers: Walkers, rng: np.random.Generator, n_steps: int
) -> tuple[Hamiltonian, Walkers, tuple[LengthPilot, ...]]:
    """Try lengths up to a quarter turn, and go on from whichever end is best while that is better.

    Longer ones are not tried for their own sake: efficiency has further peaks at three quarter turns, five and so on.
    """
    tried: list[LengthPilot] = []

    def attempt(k: int) -> float:
        nonlocal walkers
        pilot, walkers = _try(replace(kernel, length=_QUARTER * float(_LONGER**k)), target, walkers, rng, n_steps)
        tried.append(pilot)
        return pilot.efficiency

    found = {k: attempt(k) for k in _FIRST}
    best = max(found, key=lambda k: found[k])
    if best != _FIRST[1]:
        way = 1 if best == _FIRST[2] else -1
        while abs(best) < _FARTHEST:
            efficiency = attempt(best + way)
            if efficiency <= found[best]:
                break
            best += way
            found[best] = efficiency
    return replace(kernel, length=_QUARTER * float(_LONGER**best)), walkers, tuple(tried)


def _try(
    kernel: Hamiltonian, target: _Counted, walkers: Walkers, rng: np.random.Generator, n_steps: int
) -> tuple[LengthPilot, Walkers]:
    before = target.n_evaluations
    walkers, path = kernel.run(target, walkers, n_steps, rng)
    cost = ((target.n_evaluations - before) / len(walkers.thetas) - 1) / n_steps  # one evaluation begins the run
    whitening = Whitening(np.zeros(target.n_dimensions), kernel.metric_cholesky)
    efficiency = mixing(whitening.undo(path.thetas)) / cost
    return LengthPilot(kernel.length, cost, float(path.acceptance.mean()), efficiency), walkers


def _trajectory(
    target: SmoothTarget, whitening: Whitening, step: float, length: float, jitter: float, rng: np.random.Generator
) -> Trajectory:
    def trajectory(start: Phase, momenta: Floats) -> tuple[Phase, Floats]:
        whole = length * (1 + jitter * (2 * rng.random() - 1))
        n = _count(whole, step)
        return leapfrog(target, whitening, start, momenta, whole / n, n)

    return trajectory


def _count(length: float, step: float) -> int:
    return max(1, int(np.ceil(length / step - 1e-9)))

r"""Metropolis-Hastings for any target and proposal, on any space, as a sampler for `doxa.sampling.driver`.

A state is an array of any shape and type: numbers, whole numbers, booleans, texts.  From state x the step proposes y
from q(y | x) and goes there with probability (Antal & Sárközy, slides, eq. 14; Riggelsen, chapter 4, section 2.1.3; de
Freitas et al. 2001, figure 4)

.. math:: \min\Big\{1, \frac{\pi(y)\, q(x \mid y)}{\pi(x)\, q(y \mid x)}\Big\};

for a symmetric proposal the q cancel (Metropolis et al. 1953).  Step 3b of the slides prints q(y | x) twice, which is
no Hastings ratio and has another stationary law.

Here a step is a few calls of Python.  For batches of real vectors `doxa.parameters.kernels` is a hundred times faster;
runs with their diagnostics are `doxa.sampling.metropolis_run`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError

__all__ = ["MetropolisHastings", "MetropolisState", "TargetError", "no_density"]

State: TypeAlias = NDArray[Any]

_TRIES = 100


class TargetError(DoxaError):
    """A log density that cannot be drawn from: NaN, plus infinity, or an array of the wrong shape."""


def no_density(value: float, at: State) -> TargetError:
    """What to raise where a log density is NaN or plus infinity."""
    return TargetError(
        f"the log density is {value} at {np.array2string(at, threshold=8, precision=4)}; it must be a number, or minus "
        "infinity where the distribution has no mass"
    )


class MetropolisState(NamedTuple):
    """Where a chain stands."""

    position: State
    log_density: float  # there, nats


@dataclass(frozen=True)
class MetropolisHastings:
    """A target and a proposal as a sampler.

    Parameters
    ----------
    log_density : callable
        From a state to its log density or log probability (nats), up to a constant; minus infinity outside the support.
    propose : callable
        ``propose(state, rng)`` returns a new state of the same shape and type.  States are read-only: copy first.
    begin : callable
        ``begin(rng)`` returns a state to begin at.  Begin chains far apart, or their agreement shows little.
    log_proposal : callable, optional
        ``log_proposal(new, old)`` is the log probability (or density) with which ``propose`` makes ``new`` of ``old``,
        up to a constant that is the same for all pairs; minus infinity if it cannot.  When left out, the proposal is
        symmetric: as likely there as back.
    thin : int, default=1
        Steps between kept draws.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an argument cannot be called, or ``thin`` is below one; while it runs, if ``propose`` returns another shape
        or type, or a state that ``log_proposal`` says it cannot make.
    TargetError
        While it runs: if the log density is NaN or infinite, or no start lies in the support.

    Notes
    -----
    Draws are ``state`` of shape (n_kept, ...), and ``log_density`` and ``acceptance``, the probability with which the
    step before was to be accepted, of shape (n_kept,).

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> walk = MetropolisHastings(  # a geometric law on 0, 1, 2, ..., by steps to the left and the right
    ...     log_density=lambda x: -0.7 * int(x) if x >= 0 else -np.inf,
    ...     propose=lambda x, rng: x + rng.choice([-1, 1]),
    ...     begin=lambda rng: rng.integers(10),
    ... )
    >>> sample(walk, Schedule(4, 2000, 100), seed=1, workers=1)["state"].mean().round(1)  # exact: .99
    np.float64(1.0)
    """

    log_density: Callable[[State], Any]
    propose: Callable[[State, np.random.Generator], Any]
    begin: Callable[[np.random.Generator], Any]
    log_proposal: Callable[[State, State], Any] | None = None
    thin: int = 1
    is_compiled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse what cannot be called."""
        wanted = {"log_density": "(state)", "propose": "(state, rng)", "begin": "(rng)"}
        for name, arguments in wanted.items():
            value = getattr(self, name)
            if not callable(value):
                raise ArgumentTypeError(f"{name} is of type {type(value).__name__}; give a function {name}{arguments}")
        if self.log_proposal is not None and not callable(self.log_proposal):
            raise ArgumentTypeError(
                f"log_proposal is of type {type(self.log_proposal).__name__}; give a function log_proposal(new, old), "
                "or leave it out if the proposal is symmetric"
            )
        check_whole("thin", self.thin, 1)

    def init(self, rng: np.random.Generator) -> MetropolisState:
        """A start in the target's support."""
        for _ in range(_TRIES):
            position = _frozen(np.array(self.begin(rng)))
            if position.dtype == object:
                raise ArgumentTypeError("begin returns objects; states are arrays of numbers, booleans or texts")
            value = self._value(position)
            if value > -math.inf:
                return MetropolisState(position, value)
        raise TargetError(
            f"no start in the target's support in {_TRIES} tries; let begin(rng) return states where the log density "
            "is finite"
        )

    def log_hastings(self, old: State, new: State) -> float:
        """log q(old | new) - log q(new | old): minus infinity where there is no way back."""
        if self.log_proposal is None:
            return 0.0
        there, back = float(self.log_proposal(new, old)), float(self.log_proposal(old, new))
        if not math.isfinite(there) or math.isnan(back) or back == math.inf:
            raise ArgumentError(
                f"log_proposal is {there} for a state that propose made, and {back} for the way back; it must be a "
                "number for what was made, and a number or minus infinity for the way back"
            )
        return back - there

    def run(
        self, state: MetropolisState, n_steps: int, rng: np.random.Generator
    ) -> tuple[MetropolisState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``) and keep every ``thin``-th."""
        position, value = _frozen(np.asarray(state.position)), float(state.log_density)
        n_kept = n_steps // self.thin
        states = np.empty((n_kept, *position.shape), dtype=position.dtype)
        values, acceptance = np.empty(n_kept), np.empty(n_kept)
        n_accepted = 0
        for step in range(1, n_steps + 1):
            proposed = self._proposed(position, rng)
            new = self._value(proposed)
            log_ratio = -math.inf if new == -math.inf else new - value + self.log_hastings(position, proposed)
            if math.log1p(-rng.random()) < log_ratio:  # 1 - u is in (0, 1], so finite
                position, value = proposed, new
                n_accepted += 1
            if step % self.thin == 0:
                k = step // self.thin - 1
                states[k], values[k], acceptance[k] = position, value, math.exp(min(0.0, log_ratio))
        draws = {"state": states, "log_density": values, "acceptance": acceptance}
        return MetropolisState(position, value), draws, {"steps": n_steps, "accepted": n_accepted}

    def _value(self, position: State) -> float:
        value = float(self.log_density(position))
        if math.isnan(value) or value == math.inf:
            raise no_density(value, position)
        return value

    def _proposed(self, position: State, rng: np.random.Generator) -> State:
        proposed = np.array(self.propose(position, rng))
        if proposed.shape != position.shape or not np.can_cast(proposed.dtype, position.dtype, "same_kind"):
            raise ArgumentError(
                f"propose returned an array of shape {proposed.shape} and type {proposed.dtype}; states have shape "
                f"{position.shape} and type {position.dtype}, as begin made the first"
            )
        cast = proposed.astype(position.dtype)
        if cast.dtype != proposed.dtype and cast.dtype.kind not in "fc" and not np.array_equal(cast, proposed):
            raise ArgumentError(f"propose returned {proposed!r}, which type {position.dtype} of the states cannot hold")
        return _frozen(cast)


def _frozen(array: State) -> State:
    """Read-only, so that a proposal that works in place is told so and does not change the past."""
    array = array.view()
    array.setflags(write=False)
    return array

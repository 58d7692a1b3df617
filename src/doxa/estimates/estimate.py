"""One answer with its Monte Carlo error: what every approximate result of doxa is made of.

An `Estimate` carries the value, the standard error of the simulation that produced it, the effective number of draws
behind it, and the law its interval follows.  How errors are found is not here: see `doxa.estimates.indicators` for 0/1
quantities and `doxa.estimates.diagnostics` for real ones.

A `Verdict` on a run, as data, says whether it can be trusted, why, and what to do; the text follows from these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.intervals import StudentInterval, TwoStateInterval, UnmetInterval, UnseenInterval

__all__ = [
    "Estimate",
    "Verdict",
    "check_prob",
]


Law: TypeAlias = StudentInterval | TwoStateInterval | UnmetInterval | UnseenInterval


def check_prob(prob: float) -> float:
    """``prob`` as a float, or raise if it cannot be the probability of an interval.

    >>> check_prob(95)
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: prob is 95; it must lie strictly between 0 and 1, such as 0.95
    """
    if isinstance(prob, bool) or not isinstance(prob, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"prob is {prob!r}; it must be a number strictly between 0 and 1, such as 0.95")
    if not 0 < prob < 1:
        raise ArgumentError(f"prob is {prob}; it must lie strictly between 0 and 1, such as 0.95")
    return float(prob)


@dataclass(frozen=True)
class Estimate:
    """A number found by simulation, with its Monte Carlo error; or an exact one.

    Parameters
    ----------
    value : float
        The estimate.
    mcse : float
        Monte Carlo standard error, in the unit of ``value``: how far a repetition of the run would land from the
        truth. It says nothing about the data's own uncertainty. 0 only when ``exact``; nan when unknown.
    ess : float
        Effective number of independent draws behind the value; ``inf`` when exact, nan when unknown.
    exact : bool, default=False
        Whether the value was computed without sampling.
    law : StudentInterval, TwoStateInterval, UnmetInterval or UnseenInterval, optional
        What the interval follows; by default a normal distribution.

    Raises
    ------
    ArgumentError
        If ``mcse`` or ``ess`` is negative, if an exact estimate has an error, or one that is not exact has an error
        of 0.

    Examples
    --------
    >>> guess = Estimate(0.4117, 0.0061, 6500.0)
    >>> print(guess)
    0.412 +/- 0.006
    >>> low, high = guess.interval()
    >>> round(low, 3), round(high, 3)
    (0.4, 0.424)
    >>> print(Estimate.exactly(0.25), Estimate.exactly(0.25).interval())
    0.25 (exact) (0.25, 0.25)
    """

    value: float
    mcse: float
    ess: float
    exact: bool = False
    law: StudentInterval | TwoStateInterval | UnmetInterval | UnseenInterval = field(
        default=StudentInterval(), repr=False
    )

    def __post_init__(self) -> None:
        """Refuse errors that contradict ``exact``."""
        if self.exact and self.mcse != 0:
            raise ArgumentError(f"mcse is {self.mcse} for an exact estimate; it must be 0 (or leave exact=False)")
        if not self.exact and self.mcse <= 0:
            raise ArgumentError(
                f"mcse is {self.mcse}; an estimate that is not exact needs a positive error, or nan when it is unknown"
            )
        if self.ess < 0:
            raise ArgumentError(f"ess is {self.ess}; the effective number of draws cannot be negative")

    @classmethod
    def exactly(cls, value: float) -> Estimate:
        """Wrap a value that was computed without sampling.

        Parameters
        ----------
        value : float
            The exact number.

        Returns
        -------
        Estimate
            With ``mcse`` 0, ``ess`` infinite and an interval of zero width.

        Examples
        --------
        >>> Estimate.exactly(0.25).mcse
        0.0
        """
        return cls(float(value), 0.0, np.inf, exact=True)

    def interval(self, prob: float = 0.95) -> tuple[float, float]:
        """Interval that covers the true value in a share ``prob`` of repeated runs.

        Parameters
        ----------
        prob : float, default=0.95
            Nominal coverage, strictly between 0 and 1.

        Returns
        -------
        low, high : float
            Probabilities stay in [0, 1] and have no zero width; both ends are nan when the error is unknown.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If ``prob`` is not a number in (0, 1).

        Examples
        --------
        >>> never = Estimate(1.0, 0.0014, 1000.0, law=UnseenInterval(1000.0, 8000))
        >>> tuple(round(x, 4) for x in never.interval())
        (0.997, 1.0)
        """
        prob = check_prob(prob)
        return (self.value, self.value) if self.exact else self.law.bounds(self.value, self.mcse, prob)

    def __str__(self) -> str:
        """Value and error; a bound where the chain never switched."""
        if self.exact:
            return f"{self.value:.6g} (exact)"
        if isinstance(self.law, UnseenInterval):
            return _unseen_text(self, self.law)
        if not np.isfinite(self.mcse):
            return f"{self.value:.6g} (error unknown)"
        exponent = int(np.floor(np.log10(self.mcse)))
        decimals = max(0, -exponent + (self.mcse < 2 * 10.0**exponent))  # two figures where the first is 1
        return f"{self.value:.{decimals}f} +/- {self.mcse:.{decimals}f}"


def _unseen_text(estimate: Estimate, law: UnseenInterval) -> str:
    """Bound at 95%, rounded away from the value seen so that the text claims no more than the interval."""
    if law.ess <= 0:
        return f"{estimate.value:.0f} in all {law.n_draws} draws (cannot tell: nothing switched)"
    low, high = estimate.interval()
    width = high - low
    decimals = max(1, 1 - int(np.floor(np.log10(width))))
    scale = 10.0**decimals
    shown = np.ceil(width * scale) / scale
    sign, edge = ("<", shown) if estimate.value == 0 else (">", 1 - shown)
    return f"{sign} {edge:.{decimals}f} (no switch in {law.n_draws} draws)"


_OF_CHAINS = {True: "Converged", False: "Not converged", None: "Cannot tell"}


class Verdict(NamedTuple):
    """Whether a run can be trusted.

    Examples
    --------
    >>> verdict = Verdict.of_chains(None, "there is one chain.", advice="Run several.")
    >>> verdict.status, verdict.text
    ('Cannot tell', 'Cannot tell: there is one chain. Run several.')
    """

    converged: bool | None  # None: cannot tell
    status: str  # what the text begins with, such as "Converged"
    reason: str  # why, in sentences
    advice: str = ""  # what to do; empty when there is nothing to add

    @classmethod
    def of_chains(cls, converged: bool | None, *reason: str, advice: str = "") -> Verdict:
        """With the status that chains have; empty sentences are left out."""
        return cls(converged, _OF_CHAINS[converged], " ".join(filter(None, reason)), advice)

    @property
    def text(self) -> str:
        """All of it in a line."""
        return f"{self.status}: {self.reason} {self.advice}".rstrip()

"""`IndicatorDiagnostics`: what is known of many 0/1 quantities, as arrays, intervals and single estimates.

How it is found is in `doxa.estimates.indicators`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.estimates.intervals import TwoStateInterval, UnseenInterval, two_state_bounds, unseen_bound, unseen_error

__all__ = ["IndicatorDiagnostics", "Status", "never_switched"]


class Status(IntEnum):
    """What the counts of one quantity allow to say."""

    OK = 0  # the error can be used
    UNCONVERGED = 1  # the chains disagree: R-hat above the limit; the interval leans on few effective draws
    CANNOT_TELL = 2  # never switched, and nothing else in the run did: no interval but [0, 1]


@dataclass(frozen=True, eq=False)
class IndicatorDiagnostics:
    """Estimates of many 0/1 quantities; every array has the shape of the quantities.

    Parameters
    ----------
    probability : ndarray of float
        Share of draws in state 1.
    mcse : ndarray of float
        Monte Carlo standard error of ``probability``, always positive; for a quantity that never switched, the root
        mean square of what may be missing (`doxa.estimates.intervals.unseen_error`).
    ess : ndarray of float
        ``probability * (1 - probability) / mcse**2``, at most ``n log10(n)`` for n draws; for a quantity that never
        switched, the reference it was judged by (0 when there is none).
    r_hat : ndarray of float
        Split R-hat; nan for a quantity that never switched, inf when every half-chain is constant and they differ.
    switches : ndarray of int
        Switches over all chains, in both directions.
    status : ndarray of int8
        A `Status` each.
    reference_ess : float
        Effective draws by which quantities that never switched were judged; 0 if unknown.
    n_zero, n_one, dispersion, df, skew : ndarray of float
        What the interval follows, see `doxa.estimates.intervals.two_state_bounds`.
    n_chains, n_draws : int
        Number of chains, and of draws in each.

    Examples
    --------
    >>> from doxa.estimates.indicators import IndicatorCounts, diagnose_indicators
    >>> draws = np.array([[0, 1, 0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 1, 0, 1, 0]])
    >>> result = diagnose_indicators(IndicatorCounts.from_draws(draws))
    >>> float(result.probability), int(result.switches)
    (0.5, 10)
    """

    probability: NDArray[np.float64]
    mcse: NDArray[np.float64]
    ess: NDArray[np.float64]
    r_hat: NDArray[np.float64]
    switches: NDArray[np.int64]
    status: NDArray[np.int8]
    reference_ess: float
    n_zero: NDArray[np.float64]
    n_one: NDArray[np.float64]
    dispersion: NDArray[np.float64]
    df: NDArray[np.float64]
    skew: NDArray[np.float64]
    n_chains: int
    n_draws: int

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower limits of the 95% intervals."""
        return self._limits[0]

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper limits of the 95% intervals."""
        return self._limits[1]

    @cached_property
    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Found when first asked for: a run that only asks whether it may stop has no use for them."""
        return self.interval()

    def judged_by(self, reference_ess: float) -> IndicatorDiagnostics:
        """The same, with quantities that never switched judged by other effective draws.

        Parameters
        ----------
        reference_ess : float
            As for `diagnose_indicators`.

        Returns
        -------
        IndicatorDiagnostics

        Examples
        --------
        >>> from doxa.estimates.indicators import IndicatorCounts, diagnose_indicators
        >>> counts = IndicatorCounts.from_draws(np.zeros((4, 2000), dtype=np.int8))
        >>> print(diagnose_indicators(counts).judged_by(900).estimate())
        < 0.0034 (no switch in 8000 draws)
        """
        reference_ess = float(min(reference_ess, self.n_chains * self.n_draws))
        constant = never_switched(self.probability)
        verdict = Status.OK if reference_ess > 0 else Status.CANNOT_TELL
        return replace(
            self,
            mcse=np.where(constant, unseen_error(reference_ess), self.mcse),
            ess=np.where(constant, reference_ess, self.ess),
            status=np.where(constant, verdict, self.status).astype(np.int8),
            reference_ess=reference_ess,
        )

    def mirrored(self) -> IndicatorDiagnostics:
        """A square array of which the lower half is that of the upper: for quantities of unordered pairs.

        Examples
        --------
        >>> from doxa.estimates.indicators import IndicatorCounts, diagnose_indicators
        >>> draws = np.zeros((4, 100, 2, 2), dtype=np.int8)
        >>> draws[:, ::3, 0, 1] = 1
        >>> diagnose_indicators(IndicatorCounts.from_draws(draws)).mirrored().probability
        array([[0.  , 0.34],
               [0.34, 0.  ]])
        """
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        upper = np.triu(np.ones(self.probability.shape, dtype=np.bool_))
        mirrored = {name: np.where(upper, value, value.T) for name, value in arrays.items()}
        return replace(self, **mirrored)  # type: ignore[arg-type]

    def interval(self, prob: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Intervals of all quantities.

        Parameters
        ----------
        prob : float, default=0.95
            Nominal coverage, strictly between 0 and 1.

        Returns
        -------
        lower, upper : ndarray of float
            In [0, 1], never of zero width.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If ``prob`` is not a number in (0, 1).

        Examples
        --------
        >>> from doxa.estimates.indicators import IndicatorCounts, diagnose_indicators
        >>> draws = np.tile(np.array([0, 1, 1, 0], dtype=np.int8), (2, 500))
        >>> lower, upper = diagnose_indicators(IndicatorCounts.from_draws(draws)).interval(0.5)
        >>> bool(0.48 < lower < 0.5 < upper < 0.52)
        True
        """
        prob = check_prob(prob)
        arguments = self.n_zero, self.n_one, self.switches / 2, self.dispersion, self.df, self.skew
        return _bounds(*arguments, self.probability, self.reference_ess, prob)

    def estimate(self, index: int | tuple[int, ...] = ()) -> Estimate:
        """The estimate of one quantity.

        Parameters
        ----------
        index : int or tuple of int, default=()
            Position in the array of quantities; ``()`` when there is only one.

        Returns
        -------
        Estimate
            Same value, error and interval as the arrays hold.

        Raises
        ------
        ArgumentError
            If the index does not name one quantity.

        Examples
        --------
        >>> from doxa.estimates.indicators import IndicatorCounts, diagnose_indicators
        >>> draws = np.zeros((4, 2000, 2), dtype=np.int8)
        >>> draws[:, ::2, 1] = 1  # the second quantity switches at every draw
        >>> result = diagnose_indicators(IndicatorCounts.from_draws(draws), reference_ess=900)
        >>> print(result.estimate(0))
        < 0.0034 (no switch in 8000 draws)
        """
        position = index if isinstance(index, tuple) else (index,)
        try:
            value = self.probability[position]
        except IndexError:
            value = None
        if value is None or np.ndim(value) != 0:
            message = f"index is {index}; it must name one quantity of an array of shape {self.probability.shape}"
            raise ArgumentError(message)
        law: TwoStateInterval | UnseenInterval
        if never_switched(value):
            law = UnseenInterval(self.reference_ess, self.n_chains * self.n_draws)
        else:
            arrays = self.n_zero, self.n_one, self.switches / 2, self.dispersion, self.df, self.skew
            law = TwoStateInterval(*(float(a[position]) for a in arrays))
        return Estimate(float(value), float(self.mcse[position]), float(self.ess[position]), law=law)


def never_switched(probability: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether every draw of every chain was the same."""
    result: NDArray[np.bool_] = (probability == 0) | (probability == 1)
    return result


def _bounds(
    n_zero: NDArray[np.float64],
    n_one: NDArray[np.float64],
    switches: NDArray[np.float64],
    dispersion: NDArray[np.float64],
    df: NDArray[np.float64],
    skew: NDArray[np.float64],
    probability: NDArray[np.float64],
    reference_ess: float,
    prob: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-state intervals, with one-sided ones where nothing switched."""
    lower, upper = two_state_bounds(n_zero, n_one, switches, dispersion, df, skew, prob)
    bound = unseen_bound(reference_ess, prob) if reference_ess > 0 else np.float64(1.0)
    lower = np.where(probability == 0, 0.0, np.where(probability == 1, 1 - bound, lower))
    upper = np.where(probability == 1, 1.0, np.where(probability == 0, bound, upper))
    return lower, upper

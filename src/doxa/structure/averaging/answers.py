"""Answers averaged over networks: probabilities that carry a Monte Carlo error and, apart from it, posterior spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.text import printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AveragedProbability", "QueryAnswer"]


@dataclass(frozen=True)
class AveragedProbability(Estimate):
    """Posterior mean of a conditional probability, with its Monte Carlo error and its posterior spread.

    Two intervals must not be confused.  `interval` says where the posterior *mean* lies, and shrinks to nothing with
    more networks.  `credible_interval` says where the conditional probability itself lies, as far as the data tell,
    and does not.

    Attributes
    ----------
    draws : ndarray of float, shape (chain, draw)
        The conditional probability in every drawn network.
    """

    draws: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)), repr=False, compare=False)

    @classmethod
    def of(cls, estimate: Estimate, draws: NDArray[np.float64]) -> AveragedProbability:
        """An estimate of the mean, with the draws."""
        return cls(estimate.value, estimate.mcse, estimate.ess, estimate.exact, estimate.law, draws)

    @property
    def n_networks(self) -> int:
        """Networks averaged over."""
        return self.draws.size

    @property
    def posterior_sd(self) -> float:
        """Standard deviation of the conditional probability over the posterior."""
        return float(self.draws.std(ddof=1))

    def credible_interval(self, prob: float = 0.95) -> tuple[float, float]:
        """Interval that holds the conditional probability itself with posterior probability ``prob``, equal tails.

        Parameters
        ----------
        prob : float, default=0.95

        Returns
        -------
        low, high : float
            Quantiles of ``draws``.
        """
        tail = (1 - check_prob(prob)) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail])
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class QueryAnswer(Mapping[str, Estimate]):
    """The distribution of a column, or the probability of an event, averaged over networks.

    A mapping from states of the column to `AveragedProbability` (or `Estimate`, where nothing but a mean is asked).

    Attributes
    ----------
    target : str
        The column.
    given, do : mapping of str to str
        What was seen, and what was set.
    n_networks : int
        Networks averaged over.
    effective_networks : float
        As many as their unequal weights are worth: (sum of weights) squared by the sum of squares.  ``n_networks``
        where weights are equal.
    """

    target: str
    estimates: Mapping[str, Estimate] = field(repr=False)
    given: Mapping[str, str]
    do: Mapping[str, str]
    n_networks: int
    effective_networks: float

    def __getitem__(self, state: str) -> Estimate:
        """The probability of a state."""
        if state not in self.estimates:
            raise ArgumentError(f"{state!r} is no state of {self.target!r}; there are {', '.join(map(repr, self))}")
        return self.estimates[state]

    def __iter__(self) -> Iterator[str]:
        """The states."""
        return iter(self.estimates)

    def __len__(self) -> int:
        """Number of states."""
        return len(self.estimates)

    def __str__(self) -> str:
        """A line for each state."""
        heads = [printable(f"{self.target} = {state}") for state in self]
        width = max(map(len, heads))
        return "\n".join(f"{head:{width}}  {e}" for head, e in zip(heads, self.estimates.values(), strict=True))

    def to_frame(self, prob: float = 0.95) -> pd.DataFrame:
        """A row for each state.

        Columns ``target, state, probability, mcse, ess, lower, upper`` (Monte Carlo interval of the mean) and, where
        networks were drawn, ``sd, credible_lower, credible_upper`` (posterior spread).
        """
        import pandas as pd

        rows = []
        for state, e in self.items():
            row = [self.target, state, e.value, e.mcse, e.ess, *e.interval(prob)]
            if isinstance(e, AveragedProbability):
                row += [e.posterior_sd, *e.credible_interval(prob)]
            rows.append(row)
        columns = ["target", "state", "probability", "mcse", "ess", "lower", "upper"]
        spread = ["sd", "credible_lower", "credible_upper"]
        return pd.DataFrame(rows, columns=columns + spread[: len(rows[0]) - len(columns)])

"""`ParameterAverages`: what a fit says of the parameters that has kept averages in the place of draws."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NoReturn

import numpy as np

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import RealDiagnosis, diagnose_real
from doxa.estimates.estimate import Estimate
from doxa.estimates.level_shares import LevelShares
from doxa.parameters.drawing import chains_of
from doxa.parameters.fitted import FittedParameters

__all__ = ["NoDrawsError", "ParameterAverages"]

_OF_DRAWS = frozenset({"draws", "log_density", "predict", "to_arviz", "to_frame"})


class NoDrawsError(ArgumentError, AttributeError):
    """A fit that has kept averages is asked for what only draws tell."""


class ParameterAverages(FittedParameters):
    """The posterior of a network's parameters, as averaged by ``doxa.fit(keep=Averages(every))``.

    It says of every parameter what `doxa.ParameterPosterior` says, with the same errors; what only draws tell, such as
    ``draws`` and ``predict``, is refused with a `NoDrawsError`, and the log marginal likelihood is nan.

    Attributes
    ----------
    network : LogisticNetwork
    states : dict of str to tuple of str
        Labels of each observed node's values; the second is 1.
    trace : Trace
        Averages of each part k of the posterior: ``k.theta`` (group, average, walker, parameter) and ``k.square``,
        ``k.below`` (group, average, walker, parameter, level), ``k.log_density`` (nats) and ``k.acceptance``.
    report : FitReport
        How each part was drawn, and why so; its parts hold the levels.
    stop : StopReport or None
        Why the run stopped.

    Examples
    --------
    >>> import doxa
    >>> from doxa.parameters import Averages
    >>> network = doxa.LogisticNetwork({"systol": ["smoke", "phys"]})
    >>> fit = doxa.fit(network, doxa.datasets.load("reinis"), keep=Averages(50), draws=200, seed=1)
    >>> print(repr(fit).splitlines()[0])
    ParameterAverages: 3 nodes, 4 chains of 200 averages of 50 draws, auto
    >>> print(fit.quantile("systol", "smoke", 0.9))
    -0.1004 +/- 0.0004
    >>> print(fit.probability("systol", "phys"))
    0.763 +/- 0.002
    """

    @property
    def kept(self) -> str:
        """What is kept of the chains, in words."""
        return f"averages of {self.trace.thin} draws"

    def quantile(self, node: str, label: str, prob: float) -> Estimate:
        """A quantile of one parameter, such as ``("systol", "smoke", 0.975)``; `LevelShares.quantile` says how.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If there is no such parameter, ``prob`` is not strictly between 0 and 1, or the quantile is farther out than
            the levels that draws were counted at.
        """
        return self._shares(node, self._place(node, label)).quantile(prob)

    def probability(self, node: str, label: str, above: float = 0.0) -> Estimate:
        """Probability that one parameter is above a number, such as ``("systol", "smoke")``.

        At 0, of a probability at 0.5, draws were counted; elsewhere it is interpolated between levels.

        Raises
        ------
        ArgumentError
            If there is no such parameter, or the number is farther out than the levels that draws were counted at.
        """
        return self._shares(node, self._place(node, label)).above(above)

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what needs draws, in words."""
        if name in _OF_DRAWS:
            raise NoDrawsError(
                f"{name} needs draws, and this fit has kept {self.kept}; fit with keep='draws' (as when left out)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @cached_property
    def _diagnoses(self) -> dict[str, list[RealDiagnosis]]:
        """By the averages, but for the effective number, which is of draws."""
        found: dict[str, list[RealDiagnosis]] = {}
        for node, labels in self._coefficients():
            found[node] = []
            for j in range(len(labels)):
                diagnosis = diagnose_real(self._averages(node, j, "theta"))
                variance, estimate = self._variance(node, j), diagnosis.estimate
                ess = variance / estimate.mcse**2 if estimate.mcse > 0 else np.nan
                found[node].append(diagnosis._replace(estimate=replace(estimate, ess=ess)))
        return found

    def _spread(self, node: str, j: int) -> tuple[float, float, float]:
        shares = self._shares(node, j)
        limits = []
        for p in (0.025, 0.975):
            try:
                limits.append(shares.quantile(p).value)
            except ArgumentError:  # beyond the levels
                limits.append(np.nan)
        return float(np.sqrt(self._variance(node, j))), limits[0], limits[1]

    def _variance(self, node: str, j: int) -> float:
        mean, square = (float(self._averages(node, j, name).mean()) for name in ("theta", "square"))
        return max(0.0, square - mean**2) * self._n_averaged / (self._n_averaged - 1)

    @property
    def _n_averaged(self) -> int:
        return self.n_chains * self.n_draws * self.trace.thin

    def _shares(self, node: str, j: int) -> LevelShares:
        part = self.part(node)
        place = self._packings[self._part(node)].place[node].start + j
        slowest = min(diagnosis.estimate.ess for found in self._diagnoses.values() for diagnosis in found)
        return LevelShares(
            np.array(part.levels[place]), self._averages(node, j, "below"), self._n_averaged, np.nan_to_num(slowest)
        )

    def _averages(self, node: str, j: int, name: str) -> Floats:
        """Of a node's parameter j, shape (chain, average) or (chain, average, level)."""
        k = self._part(node)
        return chains_of(self.trace[f"{k}.{name}"][:, :, :, self._packings[k].place[node].start + j])

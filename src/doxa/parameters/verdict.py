"""Has a fit converged?  A verdict in words, with its reasons and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from doxa.estimates.diagnostics import RealDiagnosis
from doxa.estimates.stopping import StopReport
from doxa.estimates.verdict import Verdict
from doxa.models import LogisticNetwork
from doxa.parameters.report import FitReport

__all__ = ["LEAST_ESS", "R_HAT_LIMIT", "Verdict", "judge"]

R_HAT_LIMIT = 1.01  # Vehtari et al. (2021)
LEAST_ESS = 100.0  # effective draws of the slowest coefficient below which agreement could be chance


class _Judged(Protocol):
    """What of a posterior its verdict depends on; `doxa.parameters.fitted.FittedParameters` has it."""

    network: LogisticNetwork
    report: FitReport
    stop: StopReport | None

    @property
    def n_chains(self) -> int:
        """Number of chains."""

    @property
    def n_draws(self) -> int:
        """Kept draws of each chain, or averages of draws."""

    @property
    def kept(self) -> str:
        """Which of them, in words."""

    @property
    def method(self) -> Mapping[str, str]:
        """For each node with parameters, how they were drawn."""

    @property
    def _diagnoses(self) -> Mapping[str, Sequence[RealDiagnosis]]:
        """For each node with parameters, how well each of them is known."""


def judge(posterior: _Judged) -> Verdict:
    """Ask whether the chains agree in every parameter, and how many effective draws the slowest has."""
    if posterior.report.method == "variational":
        reason = f"independent draws from the variational approximation, not from the posterior. {_pilots(posterior)}"
        advice = "Fit with method='auto' to draw from the posterior itself."
        return Verdict(False, "Approximation", reason, advice)
    converged, reason, advice = _judge(posterior)
    stopped = "" if posterior.stop is None else posterior.stop.text
    if posterior.report.symmetries:
        advice = (
            f"{advice} Not identified: {'; '.join(posterior.report.symmetries)}. Coefficients of these nodes have "
            "equal modes; ask for what the exchange leaves alone, such as predictions."
        ).lstrip()
    return Verdict.of_chains(converged, f"{reason}.", stopped, advice=advice)


def _judge(posterior: _Judged) -> tuple[bool | None, str, str]:
    drawn = [node for node in posterior.network.parameters if posterior.method[node] != "exact"]
    names = [(node, label) for node in drawn for label in posterior.network.coefficients(node)]
    found = [diagnosis for node in drawn for diagnosis in posterior._diagnoses[node]]
    if not found:
        return True, "all are independent draws from the exact posterior", ""
    if posterior.n_chains == 1:
        return None, "one chain alone cannot show that others would agree", "Run several: chains=4."
    r_hat = np.array([diagnosis.r_hat for diagnosis in found])
    ess = np.array([min(diagnosis.bulk_ess, diagnosis.estimate.ess) for diagnosis in found])
    if np.isnan(r_hat).any():
        node, label = names[int(np.isnan(r_hat).argmax())]
        return None, f"{node}: {label} never changed", "Run longer, or with another method."
    worst, slowest = int(r_hat.argmax()), int(ess.argmin())
    longer = f"Run longer: draws={4 * posterior.n_draws}."
    if r_hat[worst] > R_HAT_LIMIT:
        name = ": ".join(names[worst])
        reason = f"the chains disagree about {name}: R-hat {r_hat[worst]:.4f} (limit {R_HAT_LIMIT})"
        return False, reason, f"{longer} If it stays so, there are modes between which they do not move."
    if ess[slowest] < LEAST_ESS:
        name = ": ".join(names[slowest])
        reason = f"{name} has only {ess[slowest]:.0f} effective {posterior.kept} (at least {LEAST_ESS:.0f} are wanted)"
        return False, reason, longer
    if posterior.stop is not None and posterior.stop.reason == "warm-up":
        return False, "these draws are of a warm-up that was not over", "Allow more time: max_seconds."
    reason = (
        f"{posterior.n_chains} chains agree (largest R-hat {r_hat[worst]:.4f}); "
        f"the slowest parameter has {ess[slowest]:.0f} effective {posterior.kept}"
    )
    doubted = [part for part in posterior.report.parts if part.doubt]
    if doubted:
        (part, *_) = doubted
        return None, f"{reason}, but for {', '.join(part.nodes)} {part.doubt}", "Fit with method='auto' or 'hmc'."
    return True, reason + _bounded(posterior.report), ""


def _bounded(report: FitReport) -> str:
    """What is known of the weights of independent proposals, as a clause; empty where nothing is."""
    known = [part.log_beta for part in report.parts if math.isfinite(part.log_beta)]
    return f"; weights of proposals are at most exp({max(known):.1f})" if known else ""


def _pilots(posterior: _Judged) -> str:
    tried = [part for part in posterior.report.parts if part.method == "variational"]
    if not tried:
        return "It is exact here."
    worst = min(tried, key=lambda part: part.efficiency)
    return (
        f"Its weights against the posterior have an efficiency of at least {worst.efficiency:.2f} and a Pareto k of at "
        f"most {max(part.tail for part in tried):.2f} (below 0.5 is good)."
    )

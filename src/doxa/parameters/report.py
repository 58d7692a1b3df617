"""What a fit remembers of how it was made, as plain data: for people, for the verdict, for the run file.

Has a fit converged?  A verdict in words, with its reasons and what to do.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from doxa.estimates.estimate import Estimate, Verdict
from doxa.parameters.method_options import Method
from doxa.parameters.options import FitOptions
from doxa.sampling.agreement import judge_chains
from doxa.schema import HEX, Within

if TYPE_CHECKING:
    from doxa.parameters.fitted import FittedParameters

__all__ = ["FitReport", "PartReport", "Verdict", "judge"]

_MOST = 1e100  # nats: more is not added up, nor squared
_ADDED = Within(-_MOST, _MOST)


@dataclass(frozen=True)
class PartReport:
    """How the parameters of one part were drawn.

    Parameters
    ----------
    nodes : tuple of str
    method : str
        The rung of the cascade that was used.
    why : str
        What decided.
    approximation : str
        What the kernel proposes from.
    efficiency, tail : float
        Of the pilot's weights: effective draws a draw, and their Pareto k; nan where there was no pilot.
    log_evidence, log_evidence_mcse : float
        Of the part, nats; nan where it was not estimated.
    bound : float
        Lower bound of the log evidence, nats; nan where there is none.
    log_beta : float
        Bound on the log weights of independent proposals (nats), which makes their chains uniformly ergodic: corollary
        1 of de Freitas et al. (2001), corrected.  Infinite where none is known, or the method is another.
    doubt : str
        What speaks against the chains, however well they agree: proposals that do not reach the tails.  Empty if
        nothing does.
    levels : tuple of tuples of float
        Of each parameter, at which draws were counted; empty where the draws themselves were kept.
    counts : tuple of int
        Cases in which a root is 1 and is 0, where its posterior is known: Beta(1 + ones, 1 + zeros); empty elsewhere.
    """

    nodes: tuple[str, ...]
    method: str
    why: str
    approximation: str
    efficiency: Annotated[float, HEX]
    tail: Annotated[float, HEX]
    log_evidence: Annotated[float, HEX, _ADDED] = math.nan
    log_evidence_mcse: Annotated[float, HEX, Within(0.0, _MOST)] = math.nan
    bound: Annotated[float, HEX, _ADDED] = math.nan
    log_beta: Annotated[float, HEX] = math.inf
    doubt: str = ""
    levels: tuple[tuple[Annotated[float, HEX], ...], ...] = field(default=(), repr=False)
    counts: tuple[Annotated[int, Within(0)], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Floats as hexadecimal text, so that every bit is kept, nan and infinity included."""
        return {key: value.hex() if isinstance(value, float) else value for key, value in asdict(self).items()} | {
            "nodes": list(self.nodes),
            "counts": list(self.counts),
            "levels": [[level.hex() for level in levels] for levels in self.levels],
        }


@dataclass(frozen=True)
class FitReport:
    """How a fit was made.

    Parameters
    ----------
    options : FitOptions
        As they were asked for, and filled in.
    parts : tuple of PartReport
    symmetries : tuple of str
        Exchanges of signs and labels that leave the posterior as it is.
    n_rows, n_missing : int
        Rows of the table, and missing cells of the network's nodes, hidden nodes included.
    data_digest : str
    fixed : float
        Log probability (nats) of what factors without parameters say, such as given roots.
    """

    options: FitOptions
    parts: tuple[PartReport, ...]
    symmetries: tuple[str, ...]
    n_rows: int
    n_missing: int
    data_digest: str
    fixed: float = 0.0

    @property
    def method(self) -> Method:
        """As it was asked for; a word where its options are the defaults."""
        return self.options.method

    @property
    def is_averaged(self) -> bool:
        """Whether averages were kept in the place of draws."""
        return any(part.levels for part in self.parts)

    @property
    def log_evidence(self) -> Estimate:
        """Sum over the parts; its error unknown where one is not estimated."""
        value = math.fsum([self.fixed, *(part.log_evidence for part in self.parts)])
        if math.isnan(value):
            return Estimate(value, math.nan, math.nan)
        mcse = math.sqrt(math.fsum(part.log_evidence_mcse**2 for part in self.parts))
        if mcse == 0:
            return Estimate(value, 0.0, math.inf, exact=True)
        return Estimate(value, mcse, math.nan)

    @property
    def bound(self) -> float:
        """Sum of the parts' lower bounds, nats."""
        return math.fsum([self.fixed, *(part.bound for part in self.parts)])


def judge(posterior: FittedParameters) -> Verdict:
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


def _judge(posterior: FittedParameters) -> tuple[bool | None, str, str]:
    drawn = [node for node in posterior.network.parameters if posterior.method[node] != "exact"]
    names = [f"{node}: {label}" for node in drawn for label in posterior.network.coefficients(node)]
    found = [diagnosis for node in drawn for diagnosis in posterior._diagnoses[node]]
    if not found:
        return True, "all are independent draws from the exact posterior", ""
    if posterior.n_chains == 1:
        return None, "one chain alone cannot show that others would agree", "Run several: chains=4."
    r_hat = np.array([diagnosis.r_hat for diagnosis in found])
    ess = np.array([min(diagnosis.bulk_ess, diagnosis.estimate.ess) for diagnosis in found])
    if np.isnan(r_hat).any():
        return None, f"{names[int(np.isnan(r_hat).argmax())]} never changed", "Run longer, or with another method."
    length = posterior.n_chains, posterior.n_draws
    agree, reason, advice = judge_chains(names, r_hat, ess, *length, "parameter", posterior.kept)
    if not agree:
        return False, reason, advice
    if posterior.stop is not None and posterior.stop.is_provisional:
        return False, "these draws are of a warm-up that was not over", "Allow more time: max_seconds."
    doubted = [part for part in posterior.report.parts if part.doubt]
    if doubted:
        (part, *_) = doubted
        return None, f"{reason}, but for {', '.join(part.nodes)} {part.doubt}", "Fit with method='auto' or 'hmc'."
    return True, reason + _bounded(posterior.report), ""


def _bounded(report: FitReport) -> str:
    """What is known of the weights of independent proposals, as a clause; empty where nothing is."""
    known = [part.log_beta for part in report.parts if math.isfinite(part.log_beta)]
    return f"; weights of proposals are at most exp({max(known):.1f})" if known else ""


def _pilots(posterior: FittedParameters) -> str:
    tried = [part for part in posterior.report.parts if part.method == "variational"]
    if not tried:
        return "It is exact here."
    worst = min(tried, key=lambda part: part.efficiency)
    return (
        f"Its weights against the posterior have an efficiency of at least {worst.efficiency:.2f} and a Pareto k of at "
        f"most {max(part.tail for part in tried):.2f} (below 0.5 is good)."
    )

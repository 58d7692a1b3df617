"""Chains that estimate marginals: run them until their errors are small enough, and say whether to trust them.

Samplers here keep ``probability`` (means of conditional probabilities) and a scalar that tells where the chain is, a
log density or an energy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from doxa.errors import ArgumentError
from doxa.estimates.accuracy import confirmed, is_settled, real_shortfalls
from doxa.estimates.diagnostics import RealDiagnosis, diagnose_real
from doxa.estimates.estimate import Verdict
from doxa.estimates.real import AverageDiagnostics, diagnose_averages
from doxa.estimates.stopping import MOST_DRAWS, Shortfall, StopReport, Until, worst_shortfall
from doxa.estimates.trace import Trace
from doxa.sampling.agreement import LEAST_ESS, R_HAT_LIMIT
from doxa.sampling.driver import Schedule, run_chains
from doxa.sampling.runner import Sampler

R_HAT_OF_MARGINALS = 1.05  # of so many quantities the largest is above 1.01 by chance
_MOST_BYTES = 2**30  # of draws that are kept
_STUCK = 1.2  # R-hat of a marginal at which chains are given up that another method can follow: it falls like 1 / draws
_PATIENCE = 4000  # draws of each chain before that


class Running(NamedTuple):
    """How long to run, and from which seed."""

    schedule: Schedule
    until: Until
    seed: int
    gives_up: bool = False  # chains that sit in different modes end early, as there is another method to try
    workers: int | None = None  # chains that run at the same time; None: one for each core


class ChainRun(NamedTuple):
    """Errors of the marginals, and a verdict."""

    marginals: AverageDiagnostics
    judgement: Verdict
    numbers: dict[str, float]
    trace: Trace | None = None


def run_to_accuracy(
    sampler: Sampler[Any],
    running: Running,
    n_quantities: int,
    name_of: Callable[[int], str],
    *,
    scalar: str = "log_density",
    probability: str = "probability",
    steps_per_block: int | None = None,
) -> ChainRun:
    """Run chains until every marginal is as accurate as asked, by `Until.mcse`.

    ``probability`` and ``scalar`` name the draws, of which the first are ``n_quantities`` wide and called by
    ``name_of``; ``steps_per_block`` are the steps between two commits, for samplers whose steps are long.
    """
    schedule, until = running.schedule, running.until
    allowed = max(4, _MOST_BYTES // (8 * max(n_quantities, 1) * schedule.chains))
    if schedule.draws is not None and schedule.draws > allowed:
        raise ArgumentError(
            f"draws is {schedule.draws}, which takes more than {_MOST_BYTES >> 20} MiB for {n_quantities} states; "
            f"ask for fewer variables, or for at most {allowed} draws"
        )
    if until.max_draws is None or until.max_draws > allowed:
        until = replace(until, max_draws=min(allowed, MOST_DRAWS))

    def is_stuck(trace: Trace) -> bool:
        """Whether chains sit in different modes, and another method can follow them."""
        if not running.gives_up or trace.n_draws < _PATIENCE:
            return False
        r_hat = diagnose_averages(trace[probability]).r_hat
        return bool((r_hat[~np.isnan(r_hat)] > _STUCK).any())

    def assess(trace: Trace) -> Shortfall | None:
        if is_stuck(trace):
            return None
        return confirmed(
            lambda n: _worst(trace[probability][:, :n], trace[scalar][:, :n], until, name_of),
            trace.n_draws,
            until,
            trace.n_warmup // trace.thin,
        )

    def settled(trace: Trace) -> bool:
        if trace.n_chains == 1 or is_stuck(trace):
            return True
        return bool(is_settled(diagnose_real(trace[scalar]).r_hat).all())

    block = None if steps_per_block is None else max(1, steps_per_block // sampler.thin)
    run = run_chains(
        sampler,
        schedule,
        until=until,
        assess=assess,
        settled=settled,
        seed=running.seed,
        workers=running.workers,
        block=block,
    )
    marginals = diagnose_averages(run.trace[probability])
    where = diagnose_real(run.trace[scalar])
    judgement = _judge(marginals, where, run.trace, run.stop, name_of)
    numbers = {
        "draws": float(run.trace.n_draws * run.trace.n_chains),
        "chains": float(run.trace.n_chains),
        "r_hat": _largest_r_hat(marginals, where),
        "ess": marginals.slowest,
    }
    return ChainRun(marginals, judgement, numbers, run.trace)


def _largest_r_hat(marginals: AverageDiagnostics, where: RealDiagnosis) -> float:
    """Of the log density and the marginals; nan where nothing moved."""
    every = np.append(marginals.r_hat, where.r_hat)
    return float(np.nanmax(every)) if not np.isnan(every).all() else math.nan


def _worst(probability: Any, scalar: Any, until: Until, name_of: Callable[[int], str]) -> Shortfall | None:
    found = list(real_shortfalls("the log density", diagnose_real(scalar), until))
    marginals = diagnose_averages(probability)
    errors = np.where(np.isnan(marginals.mcse), 0.0, marginals.errors)
    if errors.size and errors.max() > until.mcse:
        k = int(errors.argmax())
        factor = float((errors[k] / until.mcse) ** 2)
        found.append(Shortfall(name_of(k), "Monte Carlo error", float(errors[k]), until.mcse, factor))
    return worst_shortfall(found)


def _judge(
    marginals: AverageDiagnostics,
    where: RealDiagnosis,
    trace: Trace,
    stop: StopReport,
    name_of: Callable[[int], str],
) -> Verdict:
    converged, reason = _reason(marginals, where, trace, name_of)
    if stop.is_provisional:
        reason = "these draws are of a warm-up that was not over"
        return Verdict.of_chains(False, f"{reason}.", stop.text, advice="Allow more time: max_seconds.")
    accurate = converged or stop.reason != "reached"  # what gives up, or never moved, has not been accurate
    advice = "Run longer (draws=), or try method='tempering'." if converged is False else ""
    if converged is None and trace.n_chains > 1:
        advice = "Try method='tempering', or an exact method."
    return Verdict.of_chains(converged, f"{reason}.", stop.text if accurate else "", advice=advice)


def _reason(
    marginals: AverageDiagnostics, where: RealDiagnosis, trace: Trace, name_of: Callable[[int], str]
) -> tuple[bool | None, str]:
    if trace.n_chains == 1:
        return None, "one chain alone cannot show that others would agree; run several (chains=4)"
    if where.r_hat > R_HAT_LIMIT:
        return False, f"the chains disagree about the log density: R-hat {where.r_hat:.3f} (limit {R_HAT_LIMIT})"
    moved = ~np.isnan(marginals.mcse)
    if not moved.any():
        return None, (
            f"no marginal changed in {trace.n_draws} draws of {trace.n_chains} chains, which says nothing of where "
            "they have not been"
        )
    r_hat = np.where(np.isnan(marginals.r_hat), 1.0, marginals.r_hat)
    k = int(r_hat.argmax()) if r_hat.size else 0
    if r_hat.size and r_hat[k] > R_HAT_OF_MARGINALS and marginals.errors[k] > 1e-3:
        return False, f"the chains disagree about {name_of(k)}: R-hat {r_hat[k]:.3f} (limit {R_HAT_OF_MARGINALS})"
    if marginals.slowest < LEAST_ESS:
        return False, f"the slowest marginal has only {marginals.slowest:.0f} effective draws"
    by = f"the log density {where.r_hat:.3f}"
    if np.isnan(where.r_hat):  # possible states may all have the same
        by = f"the marginals {r_hat.max():.3f}"
    agree = f"{trace.n_chains} chains agree (R-hat of {by})"
    return True, f"{agree}; the largest Monte Carlo error is {float(marginals.errors.max()):.2g}"

"""Drawing from the parts of a posterior, each by its own kernel, in one run of the driver's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from doxa.estimates.bridge import bridge
from doxa.estimates.estimate import Estimate
from doxa.estimates.stopping import Shortfall, StopReport, TimeUpError, Until
from doxa.estimates.trace import Trace
from doxa.parameters.approximate import Approximated
from doxa.parameters.cascade import Rung
from doxa.parameters.diagnosis import chains_of, check_quantities, has_settled, missing
from doxa.parameters.keeping import Levels
from doxa.parameters.kernels.kernel import values_at
from doxa.parameters.samplers import TURN, ChainSampler, PartsSampler
from doxa.parameters.targets import RootPosterior
from doxa.sampling.driver import Run, Sampler, Schedule, run_chains

if TYPE_CHECKING:
    from doxa.estimates.store import RunWriter
    from doxa.sampling.importance_proposals import Proposal

__all__ = ["PlannedPart", "draw", "log_evidence", "plan_parts"]

_SHORT_BLOCK = 4 * TURN  # draws, where a step takes thousandths of a second: some seconds between looks
_LEAST_DRAWS = 4  # of each chain, below which nothing can be diagnosed
_MOST_EVIDENCE_DRAWS = 4000  # of the approximation, for bridge sampling


class PlannedPart(NamedTuple):
    """One part of the posterior, and what will draw from it."""

    found: Approximated
    rung: Rung
    sampler: Any  # a ChainSampler, mostly
    levels: Levels = ()  # of each parameter, where draws are not kept but counted


def plan_parts(chosen: Sequence[tuple[Approximated, Rung]]) -> list[PlannedPart]:
    """Samplers of all parts, with as many walkers in lockstep as the part that needs most of them."""
    walkers = max((rung.walkers for _, rung in chosen), default=1)
    if any(rung.kernel is None for _, rung in chosen):
        walkers = 1  # a sampler of its own moves one
    most = max(1, TURN // max((rung.n_evaluations for _, rung in chosen), default=1))  # all parts take the same turns
    return [PlannedPart(found, rung, _sampler(found, rung, walkers, most)) for found, rung in chosen]


def _sampler(found: Approximated, rung: Rung, walkers: int, most: int) -> Any:
    if rung.kernel is None or rung.start is None:
        return rung.sampler
    target = found.target
    if rung.method == "variational":
        target = _AsTarget(found.proposal, target.n_dimensions)
    return ChainSampler(target, rung.kernel, rung.start, walkers, most=most)


def draw(
    parts: Sequence[PlannedPart],
    labels: Sequence[Sequence[str]],
    schedule: Schedule,
    until: Until,
    entropy: int,
    store: RunWriter | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    averaged: Callable[[PartsSampler], Sampler[Any]] | None = None,
) -> Run:
    """Run the chains; ``labels`` name the coefficients of each part, for `Until` and for what is said of it.

    Their draws are kept, or what ``averaged`` makes of these, in which ``k.theta`` has the same coefficients.

    Where the time ends in a warm-up without a fixed length, the draws of its last epoch are the answer, and the verdict
    says so; a file is left as it would be had the run been interrupted.
    """
    if schedule.draws is None:  # else nothing is diagnosed before it is asked for
        _load_diagnostics_meanwhile()
    check_quantities(until, labels)
    known = _drawn_later(parts) if averaged is None else {}
    whole = PartsSampler({k: part.sampler for k, part in enumerate(parts) if k not in known})
    sampler = whole if averaged is None else averaged(whole)
    slow = any(part.rung.walkers > 1 or part.rung.kernel is None for part in parts)

    def assess(trace: Trace) -> Shortfall | None:
        return missing(trace, labels, until, known)

    try:
        return run_chains(
            sampler,
            schedule,
            until=until,
            assess=assess,
            settled=has_settled,
            store=store,
            seed=entropy,
            workers=workers,
            progress=progress,
            block=max(1, _SHORT_BLOCK // sampler.thin) if slow else None,
        )
    except TimeUpError as error:
        if error.warmup is None or error.warmup.n_draws < _LEAST_DRAWS:
            raise
        return Run(error.warmup, StopReport("warm-up", None, 0.0))


def _drawn_later(parts: Sequence[PlannedPart]) -> dict[int, RootPosterior]:
    """Parts that no chain need draw, if there are others: their draws are made when they are asked for."""
    known = {k: part.found.target for k, part in enumerate(parts) if isinstance(part.found.target, RootPosterior)}
    return known if len(known) < len(parts) else {}


def log_evidence(planned: PlannedPart, trace: Trace, k: int, rng: np.random.Generator) -> Estimate:
    """Log evidence (nats) of part k, by bridge sampling between its draws and those of what they were proposed from."""
    reach = planned.rung.reach
    proposal = planned.found.proposal if reach is None or reach.gaussian_will_do else reach.proposal
    thetas, inside = chains_of(trace[f"{k}.theta"]), chains_of(trace[f"{k}.log_density"])
    inside = inside - proposal.log_density(thetas.reshape(-1, thetas.shape[-1])).reshape(inside.shape)
    sample = np.asarray(proposal.sample(min(inside.size, _MOST_EVIDENCE_DRAWS), rng))
    return bridge(inside, values_at(planned.found.target, sample) - proposal.log_density(sample))


class _AsTarget(NamedTuple):
    """A proposal as a target."""

    proposal: Proposal
    n_dimensions: int

    def log_density(self, thetas: np.ndarray) -> np.ndarray:
        return self.proposal.log_density(thetas)


def _load_diagnostics_meanwhile() -> None:
    """Import arviz-stats, which takes seconds, while the chains run."""
    threading.Thread(target=import_module, args=("arviz_stats.base",), daemon=True).start()

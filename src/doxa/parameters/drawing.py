"""Drawing from the parts of a posterior, each by its own kernel, in one run of the driver's.

Each diagnosis of `doxa.estimates.diagnose_real` takes thousandths of a second.  At every look of a run over hundreds of
coefficients only those are diagnosed that look worst by cheap stand-ins, computed for all at once: split R-hat without
ranks, and effective draws by batch means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.accuracy import confirmed, is_settled, real_shortfalls
from doxa.estimates.bridge import bridge
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.estimate import Estimate
from doxa.estimates.stopping import Shortfall, Until, worst_shortfall
from doxa.estimates.trace import Trace
from doxa.parameters.approximate import Approximated
from doxa.parameters.cascade import Rung
from doxa.parameters.keeping import Levels
from doxa.parameters.kernels.kernel import Function, values_at
from doxa.parameters.samplers import TURN, ChainSampler, PartsSampler
from doxa.parameters.targets import RootPosterior
from doxa.sampling.driver import Run, Sampler, Schedule, run_chains

if TYPE_CHECKING:
    from doxa.estimates.store import RunWriter

__all__ = [
    "PlannedPart",
    "chains_of",
    "check_quantities",
    "draw",
    "has_settled",
    "log_evidence",
    "missing",
    "plan_parts",
    "worst_columns",
]


_FEW = 48  # columns that are all diagnosed
_WORST = 16  # columns of each stand-in that are diagnosed where there are more
_BATCHES = 20


def chains_of(draws: Floats) -> Floats:
    """Draws (group, draw, walker, ...) as (chain, draw, ...): each walker of each group is a chain."""
    moved = np.moveaxis(draws, 2, 1)
    return moved.reshape(-1, *moved.shape[2:])


def worst_columns(draws: Floats) -> NDArray[np.intp]:
    """Columns of draws (chain, draw, d) that have to be diagnosed to know how the worst of all fares."""
    n_chains, n_draws, d = draws.shape
    if d <= _FEW:
        return np.arange(d)
    half = n_draws // 2
    halves = draws[:, : 2 * half].reshape(2 * n_chains, half, d)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.nan_to_num(between / within, nan=np.inf)
    n_batches = min(_BATCHES, n_draws // 2)
    size = n_draws // n_batches
    means = draws[:, : n_batches * size].reshape(n_chains, n_batches, size, d).mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        time = np.nan_to_num(size * means.var(axis=1, ddof=1).mean(axis=0) / within, nan=np.inf)
    return np.union1d(np.argsort(-spread)[:_WORST], np.argsort(-time)[:_WORST])


def has_settled(trace: Trace) -> bool:
    """Whether the chains of one warm-up epoch agree, in every coefficient and log density."""
    for name in trace.names:
        if name.endswith((".theta", ".log_density")):
            draws = chains_of(trace[name])
            columns = draws.reshape(*draws.shape[:2], -1)
            for k in worst_columns(columns):
                if len(columns) > 1 and not is_settled(diagnose_real(columns[..., k]).r_hat):
                    return False
    return True


def missing(
    trace: Trace, labels: Sequence[Sequence[str]], until: Until, known: Mapping[int, RootPosterior] | None = None
) -> Shortfall | None:
    """The coefficient that is farthest from what ``until`` asks; None when none is, at two looks.

    Parameters
    ----------
    trace : Trace
        With draws ``k.theta`` of each part k but the known ones.
    labels : sequence of sequences of str
        What the coefficients of each part are called.
    until : Until
    known : mapping of int to RootPosterior, optional
        Parts whose independent draws are made when they are asked for: here if ``until`` names them.
    """
    known = known or {}
    everything = {k: chains_of(trace[f"{k}.theta"]) for k in range(len(labels)) if k not in known}
    asked = {k: root for k, root in known.items() if set(labels[k]).intersection(until.quantities or ())}
    everything |= {k: root.chains(trace, k) for k, root in asked.items()}

    def assess(n_draws: int) -> Shortfall | None:
        return worst_shortfall([*_shortfalls({k: d[:, :n_draws] for k, d in everything.items()}, labels, until)])

    return confirmed(assess, trace.n_draws, until, trace.n_warmup // trace.thin)


def _shortfalls(parts: Mapping[int, Floats], labels: Sequence[Sequence[str]], until: Until) -> list[Shortfall]:
    found: list[Shortfall] = []
    for k, draws in parts.items():
        asked = [j for j in worst_columns(draws) if until.quantities is None or labels[k][j] in until.quantities]
        if until.quantities is not None:
            asked = [j for j, label in enumerate(labels[k]) if label in until.quantities]
        for j in asked:
            found += real_shortfalls(labels[k][j], diagnose_real(draws[..., j]), until)
    return found


def check_quantities(until: Until, labels: Sequence[Sequence[str]]) -> None:
    """Raise `ArgumentError` when ``until`` monitors a coefficient that there is not."""
    known = {label for part in labels for label in part}
    for name in until.quantities or ():
        if name not in known:
            example = next(iter(known))
            raise ArgumentError(
                f"until.quantities names {name!r}, which is no coefficient; write for example {example!r}"
            )


_SHORT_BLOCK = 4 * TURN  # draws, where a step takes thousandths of a second: some seconds between looks
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
        target = Function(found.proposal.log_density, target.n_dimensions)
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
    check_quantities(until, labels)
    known = _drawn_later(parts) if averaged is None else {}
    whole = PartsSampler({k: part.sampler for k, part in enumerate(parts) if k not in known})
    sampler = whole if averaged is None else averaged(whole)
    slow = any(part.rung.walkers > 1 or part.rung.kernel is None for part in parts)

    def assess(trace: Trace) -> Shortfall | None:
        return missing(trace, labels, until, known)

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

"""Marginals of directed networks by importance sampling: proposals told of the evidence, then left to learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.estimate import Verdict
from doxa.inference.answers import Answer, certain
from doxa.inference.chains import Running
from doxa.inference.flat import drawn_columns
from doxa.inference.importance import (
    NetworkProposal,
    NetworkSampler,
    lay_out,
    learned,
    propagated,
    sample_network,
    sample_until,
)
from doxa.inference.problem import Problem, prepare
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence

_START_DRAWS = 8192
_STARTS = 256
_NEVER = 1e-300  # an error that no number of draws reaches: their number is what ends the run
_CHECK_DRAWS = 2**15
_DISAGREE = 6.0  # standard errors of the difference: of a thousand quantities none is that far off by chance


def answer_by_importance(
    network: CategoricalNetwork, evidence: Evidence, query: Sequence[int], running: Running
) -> Answer:
    """Marginals and the log evidence, with errors by the delta method and a verdict on the weights.

    Proposals that belief propagation makes are tried first; only where their weights are not good do they learn.
    """
    problem = prepare(network, evidence, query)
    proposal = _propagated(network, evidence, query, problem)
    answer = _sampled(proposal, problem, query, running)
    if not answer.judgement.converged and not proposal.layout.is_weightless:
        answer = _sampled(learned(proposal, seed=running.seed), problem, query, running)
    return answer


def _sampled(proposal: NetworkProposal, problem: Problem, query: Sequence[int], running: Running) -> Answer:
    if running.schedule.draws is not None:
        n = running.schedule.draws * running.schedule.chains
        stopped, until = "", replace(running.until, max_draws=n, mcse=_NEVER)
        if until.max_seconds is None:
            sample = sample_network(proposal, n, seed=running.seed, workers=running.workers)
        else:
            sample, report = sample_until(proposal, until, seed=running.seed, workers=running.workers)
            stopped = report.text if report.reason == "max_seconds" else ""
    else:
        sample, report = sample_until(proposal, running.until, seed=running.seed, workers=running.workers)
        stopped = report.text
    estimates = {v: certain(problem.expand(v)) if v in problem.fixed else [*sample.marginal(v)] for v in query}
    numbers = {"draws": float(sample.n), "ess": sample.ess, "pareto_k": sample.pareto_k}
    weights = sample.verdict
    found = Verdict(weights.reliable, weights.status, f"{weights.reason}. {stopped}".rstrip(), weights.advice)
    return Answer("importance", estimates, sample.log_evidence(), found, numbers)


def cross_checked(
    answer: Answer, network: CategoricalNetwork, evidence: Evidence, query: Sequence[int], seed: int
) -> Answer:
    """The answer of chains, held against some weighted draws where these can be relied on.

    Chains that all miss a mode agree with each other; independent draws do not need to travel to it.
    """
    if not answer.judgement.converged:
        return answer
    problem = prepare(network, evidence, query)
    sample = sample_network(_propagated(network, evidence, query, problem), _CHECK_DRAWS, seed=seed)
    if not sample.verdict.reliable:
        return answer
    worst, where = 0.0, ""
    for v in query:
        if v in problem.fixed:
            continue
        for label, one, other in zip(network.states[v], answer.estimates[v], sample.marginal(v), strict=True):
            apart = abs(one.value - other.value) / max(np.hypot(one.mcse, other.mcse), 1e-9)
            if apart > worst:
                worst, where = float(apart), f"P({network.names[v]} = {label})"
    if worst <= _DISAGREE:
        return answer
    advice = "Use method='importance'."
    reason = (
        f"the chains agree, but their {where} is {worst:.0f} standard errors from that of weighted draws: they miss a "
        "mode."
    )
    return answer._replace(judgement=Verdict.of_chains(False, reason, advice=advice))


def weighted_starts(
    network: CategoricalNetwork, evidence: Evidence, query: Sequence[int], seed: int
) -> Callable[[Problem], NDArray[np.int64] | None]:
    """Possible states for chains to begin at, drawn by their weights; None where no draw has any."""

    def starts(problem: Problem) -> NDArray[np.int64] | None:
        proposal = _propagated(network, evidence, query, problem)
        drawn = NetworkSampler(proposal).draw(_START_DRAWS, seed)
        top = drawn.log_weights.max()
        if top == -np.inf:
            return None
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        weights = np.exp(drawn.log_weights - top)
        chosen = rng.choice(len(weights), _STARTS, p=weights / weights.sum())
        rows = _completed(network, drawn.rows[chosen].astype(np.int64), rng)
        codes = np.asarray(problem.encode(rows), dtype=np.int64)
        return codes[(codes >= 0).all(axis=1)]

    return starts


def _propagated(
    network: CategoricalNetwork, evidence: Evidence, query: Sequence[int], problem: Problem
) -> NetworkProposal:
    whole = problem.whole()
    supported = {v: whole.expand(v, np.ones(n)) > 0 for v, n in zip(whole.variables, whole.n_states, strict=True)}
    supported |= {v: whole.expand(v) > 0 for v in whole.fixed}
    return propagated(lay_out(network, evidence, query, supported))


def _completed(network: CategoricalNetwork, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw what was left out, given its parents: nothing observed depends on it."""
    position = {name: v for v, name in enumerate(network.names)}
    for name in network.dag.topological_order():
        v = position[name]
        missing = np.flatnonzero(rows[:, v] < 0)
        if missing.size:
            table = network.tables[name]
            given = tuple(rows[missing, p] for p in network.parents[v])
            rows[missing, v] = drawn_columns(np.broadcast_to(table[given], (missing.size, table.shape[-1])), rng)
    return rows

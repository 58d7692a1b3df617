"""Marginals by chains over tables.

Gibbs sampling: blocks join deterministic variables with their parents, and starts are possible.  Parallel tempering:
chains on flatter networks lead the first one from mode to mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from doxa.estimates.estimate import Estimate
from doxa.estimates.verdict import Verdict
from doxa.inference.annealing import ParallelTempering, TablePath, tune_ladder
from doxa.inference.answers import Answer, certain, certain_answer
from doxa.inference.blocks import Plan, connected_by, scan_of
from doxa.inference.chains import ChainRun, Running, run_to_accuracy
from doxa.inference.gibbs import (
    Connectivity,
    Scan,
    TableGibbs,
    connecting_blocks,
    connectivity,
    cyclic,
    deterministic_blocks,
    scope_blocks,
)
from doxa.inference.population import Begun, Population, looking, spread, vouched
from doxa.inference.problem import Problem, prepare
from doxa.inference.propagation import determined
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork

_THIN = 10  # sweeps behind each kept draw, so that draws are correlated little
_KEPT_PER_SWEEP = 20  # states asked for that one more sweep between kept draws makes up for

Starts = Callable[[Problem], NDArray[np.int64] | None]


def answer_by_gibbs(
    network: DiscreteNetwork,
    evidence: Evidence,
    query: Sequence[int],
    running: Running,
    starts: Starts | None = None,
    plan: Plan | None = None,
) -> Answer:
    """Marginals with Monte Carlo errors.

    ``starts`` makes of the problem possible states (n, n_free) to begin at, drawn nearly as they should be; else states
    are searched for.  ``plan`` has the user's own blocks and scan.
    """
    problem = prepare(network, evidence, query)
    asked = [problem.position[v] for v in query if v not in problem.fixed]
    if not asked:
        return certain_answer("exact", {v: certain(problem.expand(v)) for v in query})
    made = gibbs_sampler(problem, asked, None) if plan is None else _planned(network, problem, asked, plan)
    sampler, connected = made[0], _by_name(made[1], [network.names[v] for v in problem.variables])
    alone = [i for i in asked if _is_alone(problem, sampler, i)]
    rng = looking(running)
    population = Population.annealed(TablePath(problem.n_states, problem.factors), rng)
    given = starts(problem) if starts is not None else None
    rows = population.apart(running.schedule.chains, rng) if given is None else spread(given, running.schedule.chains)
    names = [
        f"{network.names[problem.variables[i]]} = {network.states[problem.variables[i]][s]}"
        for i in asked
        for s in problem.states[i]
    ]
    begun = sampler if not len(rows) else Begun(sampler, rows)
    run = run_to_accuracy(begun, running, len(names), names.__getitem__)
    columns = np.repeat(asked, [problem.n_states[i] for i in asked])
    values = np.concatenate([np.arange(problem.n_states[i]) for i in asked])
    run = vouched(run, population, columns, values, names.__getitem__, rng)
    estimates = dict(estimates_of(problem, query, asked, run))
    for v in query:
        if v not in problem.fixed and problem.position[v] in alone:  # redrawn from its marginal
            estimates[v] = certain(estimate.value for estimate in estimates[v])
    if len(alone) == len(asked):
        exactly = Verdict(True, "Exact", "every block that was asked for is summed over, and nothing else bears on it.")
        return Answer("gibbs", estimates, None, exactly, run.numbers)
    return Answer("gibbs", estimates, None, _with_connectivity(run.judgement, connected), run.numbers)


def _planned(
    network: DiscreteNetwork, problem: Problem, asked: Sequence[int], plan: Plan
) -> tuple[TableGibbs, Connectivity]:
    """The sampler with the user's own blocks, or doxa's in the user's order."""
    if plan.entries is None:
        sampler, connected = gibbs_sampler(problem, asked, None)
        assert sampler.scan is not None
        return replace(sampler, scan=scan_of(plan, network, problem, sampler.scan.blocks)), connected
    scan = scan_of(plan, network, problem, ())
    return _sampler(problem, asked, scan, None), connected_by(scan, problem)


def _is_alone(problem: Problem, sampler: TableGibbs, variable: int) -> bool:
    """Whether a variable is in no block but one that nothing outside of it bears on."""
    assert sampler.scan is not None
    block, *others = [set(block) for block in sampler.scan.blocks if variable in block]
    touching = [set(f.variables) for f in problem.factors if not block.isdisjoint(f.variables)]
    return not others and all(scope <= block for scope in touching)


def gibbs_sampler(
    problem: Problem, asked: Sequence[int], starts: NDArray[np.int64] | None
) -> tuple[TableGibbs, Connectivity]:
    """The sampler of a problem, and whether its blocks connect all possible states."""
    n_states, factors = problem.n_states, problem.factors
    blocks = scope_blocks(n_states, factors, deterministic_blocks(n_states, factors, determined(factors)).blocks)
    connected = connectivity(n_states, factors, blocks)
    if connected.answer is False:
        blocks = connecting_blocks(n_states, factors, blocks).blocks
        connected = connectivity(n_states, factors, blocks)
    return _sampler(problem, asked, cyclic(blocks), starts), connected


def _sampler(problem: Problem, asked: Sequence[int], scan: Scan, starts: NDArray[np.int64] | None) -> TableGibbs:
    width = sum(problem.n_states[i] for i in asked)
    thin = max(_THIN, math.ceil(width / _KEPT_PER_SWEEP))
    return TableGibbs(problem.n_states, problem.factors, scan, thin=thin, starts=starts, wanted=asked)


def estimates_of(
    problem: Problem, query: Sequence[int], asked: Sequence[int], run: ChainRun
) -> Mapping[int, list[Estimate]]:
    """Estimates of all states of the variables asked for; states that are impossible have an exact 0."""
    ends = np.cumsum([problem.n_states[i] for i in asked])
    begin = {problem.variables[i]: int(end) - problem.n_states[i] for i, end in zip(asked, ends, strict=True)}
    found = {}
    for v in query:
        if v in problem.fixed:
            found[v] = certain(problem.expand(v))
            continue
        left = {int(s): begin[v] + k for k, s in enumerate(problem.states[problem.position[v]])}
        found[v] = [
            run.marginals.estimate(left[s]) if s in left else Estimate.exactly(0.0) for s in range(problem.sizes[v])
        ]
    return found


def _by_name(connected: Connectivity, names: Sequence[str]) -> Connectivity:
    """With the names of variables where the reason has their numbers."""
    reason = connected.reason
    for part in connected.parts:
        reason = reason.replace(str(part.variables), f"({', '.join(names[i] for i in part.variables)})")
    return connected._replace(reason=reason)


def _with_connectivity(found: Verdict, connected: Connectivity) -> Verdict:
    """The verdict on chains, knowing whether their blocks connect all possible states."""
    if connected.answer is False:
        advice = "Use method='importance' or 'tempering'."
        return Verdict.of_chains(False, f"{connected.reason}.", advice=advice)
    if connected.answer is None and found.converged:
        return Verdict.of_chains(None, found.reason, f"Zeros may keep states apart: {connected.reason}.")
    return found


_CAVEAT = "A mode that is narrow at every temperature can be missed by all chains."
_STEPS = 10**7  # updates between two commits: a second or less
_THIN = 10  # sweeps behind each kept draw
_NUMBERS_PER_SWEEP = 20  # that one more sweep between kept draws makes up for


def answer_by_tempering(network: DiscreteNetwork, evidence: Evidence, query: Sequence[int], running: Running) -> Answer:
    """Marginals with Monte Carlo errors; the ladder is tuned by pilots and then frozen."""
    problem = prepare(network, evidence, query)
    alone = _alone(problem)
    known = {v: certain(problem.expand(v, alone.get(v))) for v in query if v in problem.fixed or v in alone}
    if len(known) == len(query):
        why = () if not alone else ("nothing that is unknown bears on what was asked",)
        return certain_answer("tempering", known, *why)
    running = running._replace(gives_up=False)  # there is no other method after it
    path = TablePath(problem.n_states, problem.factors)
    rng = np.random.default_rng(np.random.SeedSequence(running.seed, spawn_key=(0, 0)))
    ladder = tune_ladder(path, rng)
    width = sum(problem.n_states)
    thin = max(_THIN, math.ceil(width / _NUMBERS_PER_SWEEP))
    names = [
        f"{network.names[v]} = {network.states[v][s]}"
        for v, states in zip(problem.variables, problem.states, strict=True)
        for s in states
    ]
    sampler = ParallelTempering(path, ladder.betas, thin=thin)
    run = run_to_accuracy(
        sampler,
        running,
        width,
        names.__getitem__,
        scalar="log_value",
        probability="marginals",
        steps_per_block=max(1, _STEPS // (len(problem.variables) * len(ladder.betas))),
    )
    numbers = run.numbers | {"rungs": float(len(ladder.betas)), "barrier": ladder.barrier}
    estimates = dict(estimates_of(problem, query, range(len(problem.variables)), run)) | known
    found = run.judgement
    if found.converged:
        found = found._replace(reason=f"{found.reason} {_CAVEAT}")
    return Answer("tempering", estimates, None, found, numbers)


def _alone(problem: Problem) -> dict[int, NDArray[np.float64]]:
    """Distributions of the variables that share no factor with another, over the states left, by variable."""
    bound = {i for factor in problem.factors if len(factor.variables) > 1 for i in factor.variables}
    own = [factor for factor in problem.factors if factor.variables and factor.variables[0] not in bound]
    sums = {factor.variables[0]: np.zeros(problem.n_states[factor.variables[0]]) for factor in own}
    for factor in own:
        sums[factor.variables[0]] = sums[factor.variables[0]] + factor.log_values
    return {problem.variables[i]: softmax(total) for i, total in sums.items()}

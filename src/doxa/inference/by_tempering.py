"""Marginals by parallel tempering: chains on flatter networks lead the first one from mode to mode."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from doxa.inference.annealing import ParallelTempering, TablePath, tune_ladder
from doxa.inference.answers import Answer, certain, certain_answer
from doxa.inference.by_gibbs import estimates_of
from doxa.inference.chains import Running, run_to_accuracy
from doxa.inference.problem import Problem, prepare
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork

__all__ = ["answer_by_tempering"]

_CAVEAT = "A mode that is narrow at every temperature can be missed by all chains."
_STEPS = 10**7  # updates between two commits: a second or less
_THIN = 10  # sweeps behind each kept draw
_NUMBERS_PER_SWEEP = 20  # that one more sweep between kept draws makes up for


def answer_by_tempering(network: DiscreteNetwork, evidence: Evidence, query: Sequence[int], running: Running) -> Answer:
    """Marginals with Monte Carlo errors; the ladder is tuned by pilots and then frozen.

    Raises
    ------
    ArgumentError
        If no possible state is found to begin at.
    """
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
        found = found._replace(text=f"{found.text} {_CAVEAT}")
    return Answer("tempering", estimates, None, found, numbers)


def _alone(problem: Problem) -> dict[int, NDArray[np.float64]]:
    """Distributions of the variables that share no factor with another, over the states left, by variable."""
    bound = {i for factor in problem.factors if len(factor.variables) > 1 for i in factor.variables}
    own = [factor for factor in problem.factors if factor.variables and factor.variables[0] not in bound]
    sums = {factor.variables[0]: np.zeros(problem.n_states[factor.variables[0]]) for factor in own}
    for factor in own:
        sums[factor.variables[0]] = sums[factor.variables[0]] + factor.log_values
    return {problem.variables[i]: softmax(total) for i, total in sums.items()}

"""Marginals by mean field: an approximation, labelled as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from doxa.estimates.estimate import Estimate, Verdict
from doxa.inference.annealing import condition_spins
from doxa.inference.answers import Answer, certain, certain_answer
from doxa.inference.by_spins import certain_spin
from doxa.inference.mean_field import MeanField, mean_field
from doxa.inference.mean_field.ising import ising_mean_field
from doxa.inference.problem import prepare
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork
from doxa.models.ising import IsingNetwork


def answer_by_mean_field(network: DiscreteNetwork, evidence: Evidence, query: Sequence[int], seed: int) -> Answer:
    """Marginals without errors, and a lower bound on the log evidence among the numbers."""
    if isinstance(network, IsingNetwork):
        return _of_spins(network, evidence, query, seed)
    problem = prepare(network, evidence, query)
    if not problem.variables:
        return certain_answer("mean_field", {v: certain(problem.expand(v)) for v in query})
    found = mean_field(problem.n_states, problem.factors, seed=seed)
    estimates = {}
    for v in query:
        if v in problem.fixed:
            estimates[v] = certain(problem.expand(v))
        else:
            marginal = found.marginals[problem.position[v]]
            estimates[v] = [_approximate(float(p)) for p in problem.expand(v, marginal)]
    numbers = {"log_evidence_bound": found.log_z_bound + problem.log_constant} if problem.rest is None else {}
    return Answer("mean_field", estimates, None, _judgement(found), numbers)


def _of_spins(network: IsingNetwork, evidence: Evidence, query: Sequence[int], seed: int) -> Answer:
    left, free = condition_spins(network, evidence)
    if not free:
        return certain_answer("mean_field", {v: certain_spin(v, evidence) for v in query})
    found = ising_mean_field(left, seed=seed)
    place = {v: i for i, v in enumerate(free)}
    estimates = {}
    for v in query:
        if v in place:
            estimates[v] = [_approximate(float(p)) for p in found.marginals[place[v]]]
        else:
            estimates[v] = certain_spin(v, evidence)
    return Answer("mean_field", estimates, None, _judgement(found), {"log_evidence_bound": found.log_z_bound})


def _approximate(p: float) -> Estimate:
    return Estimate(p, np.nan, np.nan)


def _judgement(found: MeanField) -> Verdict:
    parts = [
        "the best product of tables that was found; its errors are not known, and its probabilities "
        "are too sure as a rule."
    ]
    if not found.converged:
        n_sweeps = len(found.bounds) - 1
        parts.append(f"It had not come to rest after {n_sweeps} {'sweep' if n_sweeps == 1 else 'sweeps'}.")
    if found.excluded:
        n = len(found.excluded)
        lost = "1 variable loses states that are" if n == 1 else f"{n} variables lose states that are"
        parts.append(f"No product of tables holds the network's hard constraints: {lost} possible.")
    return Verdict(None, "Approximation", " ".join(parts))

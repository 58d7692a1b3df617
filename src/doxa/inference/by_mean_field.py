"""Marginals by mean field: an approximation, labelled as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from doxa.arrays import Floats
from doxa.estimates.estimate import Estimate, Verdict
from doxa.inference.annealing import condition_spins
from doxa.inference.annealing.network_paths import known_spins
from doxa.inference.answers import Answer, certain, certain_answer, in_state
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
    marginals = {v: problem.expand(v, found.marginals[i]) for v, i in problem.position.items()}
    estimates = {v: _approximate(marginals[v]) if v in marginals else certain(problem.expand(v)) for v in query}
    numbers = {"log_evidence_bound": found.log_z_bound + problem.log_constant} if problem.rest is None else {}
    return Answer("mean_field", estimates, None, _judgement(found), numbers)


def _of_spins(network: IsingNetwork, evidence: Evidence, query: Sequence[int], seed: int) -> Answer:
    (left, free), known = condition_spins(network, evidence), known_spins(evidence)
    if not free:
        return certain_answer("mean_field", {v: in_state(known[v], 2) for v in query})
    found = ising_mean_field(left, seed=seed)
    marginals = dict(zip(free, found.marginals, strict=True))
    estimates = {v: in_state(known[v], 2) if v in known else _approximate(marginals[v]) for v in query}
    return Answer("mean_field", estimates, None, _judgement(found), {"log_evidence_bound": found.log_z_bound})


def _approximate(probabilities: Floats) -> list[Estimate]:
    return [Estimate(float(p), np.nan, np.nan) for p in probabilities]


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

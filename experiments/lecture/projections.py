"""I- and M-projections of small grids, the printed conditional, and variational EM's likelihood."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from doxa.data import Table
from doxa.inference.mean_field.em import variational_em
from doxa.inference.mean_field.projections import Comparison, compare_projections
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.ising import ising_grid

__all__ = ["FIELD", "SIDE", "Climbs", "climbs_of_em", "printed_conditional", "project"]

SIDE, FIELD = 4, 0.02


def project(coupling: float) -> Comparison:
    """Both projections of a 4 x 4 ferromagnet on independent spins."""
    network = ising_grid(SIDE, SIDE, coupling=coupling, field=FIELD)
    return compare_projections(network.n_states, network.factors, seed=1)


def printed_conditional(seed: int = 1) -> tuple[float, float]:
    """The conditional as printed, 0/1 coding, one site with four neighbours: largest value, share above 1."""
    rng = np.random.default_rng(seed)
    x = np.array(list(product((0, 1), repeat=4)))
    field, couplings = rng.normal(size=(2000, 1)), rng.normal(size=(2000, 4))
    pull = couplings @ x.T
    printed = np.exp(field + pull) / (1 + np.exp(pull))
    return float(printed.max()), float((printed > 1).mean())


class Climbs(NamedTuple):
    """Iterations of variational EM on random problems."""

    n_problems: int
    n_iterations: int
    bound_fell: int  # iterations
    likelihood_fell: int
    worst: float  # largest fall of the log likelihood in one iteration, nats


def climbs_of_em(n_problems: int, n_iterations: int) -> Climbs:
    """Two hidden parents of three observed nodes; exact log likelihoods of the tables of every iteration."""
    bound_fell = likelihood_fell = 0
    worst = 0.0
    for k in range(n_problems):
        rng = np.random.default_rng([7, k])
        network, table = _hidden_pair(rng), _records(rng)
        likelihoods, last = [], None
        for length in range(1, n_iterations + 1):
            last = variational_em(network, table, max_iterations=length, tolerance=1e-300)
            exact = variational_em(last.network, table, e_step="exact", max_iterations=1)
            likelihoods.append(exact.log_likelihood_bound)
        steps = np.diff(likelihoods)
        likelihood_fell += int((steps < -1e-9).sum())
        worst = max(worst, float(-steps.min()))
        bound_fell += int((np.diff(last.bounds) < 0).sum())
    return Climbs(n_problems, n_problems * (n_iterations - 1), bound_fell, likelihood_fell, worst)


_EDGES = [(h, x) for h in "gh" for x in "abc"]


def _hidden_pair(rng: np.random.Generator) -> CategoricalNetwork:
    dag = Dag.from_edges(_EDGES)
    tables = {name: rng.dirichlet([1.0, 1.0], size=(2,) * len(dag.parents(name))) for name in dag.names}
    return CategoricalNetwork(dag, tables, dict.fromkeys(dag.names, ("0", "1")))


def _records(rng: np.random.Generator) -> Table:
    return _hidden_pair(rng).simulate(200, rng).select(["a", "b", "c"])

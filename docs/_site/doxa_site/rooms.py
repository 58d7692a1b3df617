"""Which modules the reference documents, on which page.

A page lists the names in ``__all__`` of its modules.  A name that stands on two pages is documented on the first
and linked from the second.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ROOMS", "Room"]


class Room(NamedTuple):
    """One page of the reference."""

    module: str  # whose docstring opens the page, and whose name the page has
    title: str
    also: tuple[str, ...] = ()  # modules whose public names follow


def _below(parent: str, names: str) -> tuple[str, ...]:
    return tuple(f"{parent}.{name}" for name in names.split())


ROOMS = (
    Room("doxa", "What users call first"),
    Room("doxa.errors", "Exceptions"),
    Room("doxa.data", "Tables", ("doxa.datasets", "doxa.data.large")),
    Room(
        "doxa.structure",
        "Posteriors over graphs",
        _below("doxa.structure", "answers.loss answers.consensus answers.compare answers.verdict logistic"),
    ),
    Room("doxa.structure.incomplete", "Graphs of tables with missing cells"),
    Room("doxa.structure.sums.enumeration", "Sums over all graphs", ("doxa.structure.sums.dag_budget",)),
    Room(
        "doxa.structure.graph", "For moves of your own", _below("doxa.structure", "moves.changes families.cache limits")
    ),
    Room("doxa.averaging", "Queries, imputation and prediction"),
    Room(
        "doxa.parameters",
        "Posteriors over parameters",
        _below("doxa.parameters", "averages report verdict regression joint_target modes mode_search"),
    ),
    Room("doxa.inference", "Hidden values", ("doxa.inference.exact",)),
    Room(
        "doxa.models",
        "Networks",
        _below("doxa.models", "ising factors evidence network_files interop logistic_parts logistic_regression"),
    ),
    Room(
        "doxa.variational",
        "Variational methods",
        _below(
            "doxa.variational",
            "bound batch one_pass case_order sequential spiegelhalter_lauritzen laplace optimal gaussian predictive "
            "evidence_bracket hidden mean_field conjugate em latent_trait latent_map latent_model maximum_likelihood "
            "projections",
        ),
    ),
    Room(
        "doxa.mcmc",
        "Chains and their driver",
        _below(
            "doxa.mcmc",
            "driver targets chain_sampler averaged metropolis metropolis_run normal student adaptation regeneration "
            "resampling_adaptation atoms pilot tour_moments ergodicity",
        ),
    ),
    Room("doxa.mcmc.kernels", "Kernels for continuous targets"),
    Room("doxa.mcmc.gibbs", "Gibbs sampling and fast chains of spins", ("doxa.mcmc.ising",)),
    Room("doxa.mcmc.annealing", "Annealing, tempering and exact draws"),
    Room(
        "doxa.mcmc.importance",
        "Importance sampling",
        _below(
            "doxa.mcmc",
            "importance_proposals importance_weights importance_estimate importance_baseline network_importance",
        ),
    ),
    Room("doxa.mcmc.chain_theory", "Chains as matrices", ("doxa.mcmc.kernel_matrices",)),
    Room(
        "doxa.estimates",
        "Estimates and diagnostics",
        _below("doxa.estimates", "diagnostics intervals level_shares stopping verdict store"),
    ),
    Room("doxa.plots", "Pictures", ("doxa.plots.latent_map",)),
    Room("doxa.sklearn", "Estimators for scikit-learn"),
)

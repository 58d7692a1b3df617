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
    Room("doxa.data", "Tables", ("doxa.datasets",)),
    Room(
        "doxa.structure",
        "Posteriors over graphs",
        _below("doxa.structure", "posterior.loss posterior.consensus posterior.verdict families.logistic"),
    ),
    Room("doxa.structure.cases.incomplete", "Graphs of tables with missing cells"),
    Room("doxa.structure.exact.enumeration", "Sums over all graphs", ("doxa.structure.exact.dag_budget",)),
    Room(
        "doxa.structure.graph",
        "For moves of your own",
        _below("doxa.structure", "moves.changes families.cache limits priors"),
    ),
    Room("doxa.structure.averaging", "Queries, imputation and prediction"),
    Room(
        "doxa.parameters",
        "Posteriors over parameters",
        _below("doxa.parameters", "averages report regression joint_target population mode_search"),
    ),
    Room("doxa.inference", "Hidden values", ("doxa.inference.exact",)),
    Room(
        "doxa.models",
        "Networks",
        _below(
            "doxa.models",
            "ising factors evidence network_files graph_files interop logistic_parts logistic_regression",
        ),
    ),
    Room(
        "doxa.parameters.variational",
        "Variational methods",
        _below(
            "doxa.parameters.variational",
            "bound batch sequential laplace optimal evidence_bracket hidden latent_trait latent_quadrature",
        ),
    ),
    Room(
        "doxa.parameters.kernels",
        "Kernels for continuous targets",
        _below(
            "doxa.parameters",
            "kernels.kernel samplers keeping kernels.gaussians kernels.adaptation kernels.regeneration "
            "kernels.resampling_adaptation kernels.splitting kernels.tour_moments kernels.ergodicity",
        ),
    ),
    Room("doxa.inference.gibbs", "Gibbs sampling and fast chains of spins", ("doxa.inference.spins",)),
    Room(
        "doxa.inference.mean_field",
        "Mean field",
        _below("doxa.inference", "conjugate mean_field.em mean_field.projections"),
    ),
    Room("doxa.inference.annealing", "Annealing, tempering and exact draws"),
    Room("doxa.inference.importance", "Importance sampling in networks"),
    Room(
        "doxa.sampling",
        "Chains, their driver, and importance sampling",
        _below(
            "doxa.sampling",
            "driver metropolis metropolis_run importance importance_proposals importance_weights importance_baseline "
            "gaussian",
        ),
    ),
    Room("doxa.testing", "Chains as matrices: prove your move"),
    Room(
        "doxa.estimates",
        "Estimates and diagnostics",
        _below("doxa.estimates", "estimate diagnostics stopping store"),
    ),
    Room("doxa.plots", "Pictures", ("doxa.plots.latent_map",)),
    Room("doxa.sklearn", "Estimators for scikit-learn"),
)

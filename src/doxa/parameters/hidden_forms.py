"""Variational approximations of parts with hidden values: what they propose, and their bound on the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import block_diag
from scipy.special import digamma, polygamma

from doxa.errors import ArgumentError
from doxa.mcmc.importance_proposals import Mixture, Proposal
from doxa.mcmc.student import Student
from doxa.models.logistic_parts import fixed_log_likelihood, independent_parts, root_counts
from doxa.parameters.joint_target import JointTarget
from doxa.parameters.root_posterior import RootPosterior
from doxa.variational.gaussian import Gaussian
from doxa.variational.hidden import HiddenPosterior, hidden_posterior, hidden_posteriors, mixture_weights

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models import LogisticNetwork

__all__ = ["HIDDEN_FORMS", "approximate_by_form", "joint_bound"]

HIDDEN_FORMS = ("unconstrained", "structured", "mean_field")


def approximate_by_form(target: JointTarget, table: Table, form: str, rng: np.random.Generator) -> Proposal:
    """The optima that several starts find, as a mixture of Gaussians; a single one as a Gaussian.

    Raises
    ------
    ArgumentError
        If the form needs too many configurations; the message names a way out.
    """
    seed = int(rng.integers(2**31))
    found = hidden_posteriors(target.network, table, form=form, seed=seed)  # type: ignore[arg-type]
    components = [_component(target, result) for result in found]
    if len(components) == 1:
        return Gaussian(components[0].mean, components[0].cholesky)
    return Mixture(components, mixture_weights(found))


def joint_bound(network: LogisticNetwork, table: Table) -> float:
    """Lower bound (nats) of the log evidence of all parts that are not complete; nan if it costs too much."""
    result = _bounded(network, table)
    if result is None:
        return np.nan
    bound = result.log_evidence - fixed_log_likelihood(network, table)
    for part in independent_parts(network, table):
        if part.complete:
            (node,) = part.nodes
            if node in network.roots:
                bound -= RootPosterior(*root_counts(network, node, table)).log_evidence
            else:
                bound -= result.gaussians[node].log_evidence
    return float(bound)


def _bounded(network: LogisticNetwork, table: Table) -> HiddenPosterior | None:
    for options in ({"form": "unconstrained"}, {"form": "structured"}, {"form": "mean_field", "xi": "row"}):
        try:
            return hidden_posterior(network, table, **options)  # type: ignore[arg-type]
        except ArgumentError:
            continue  # too many configurations for this form
    return None


def _component(target: JointTarget, result: HiddenPosterior) -> Student:
    """A Gaussian over the part's packed vector: blocks of the nodes, and the logits of learned roots by moments."""
    means, factors = [], []
    for node in target.packing.nodes:
        if node in target.packing.roots:
            a, b = result.roots[node]
            means.append(np.array([digamma(a) - digamma(b)]))
            factors.append(np.sqrt([[polygamma(1, a) + polygamma(1, b)]]))
        else:
            means.append(result.gaussians[node].mean)
            factors.append(result.gaussians[node].cholesky)
    return Student(np.concatenate(means), block_diag(*factors), np.inf)

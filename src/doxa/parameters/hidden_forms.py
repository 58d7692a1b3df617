"""Variational approximations of parts with hidden values: what they propose, and their bound on the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import block_diag
from scipy.special import digamma, polygamma

from doxa.errors import ArgumentError
from doxa.models.logistic_parts import fixed_log_likelihood, independent_parts, root_counts
from doxa.parameters.joint_target import JointTarget
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.targets import RootPosterior
from doxa.parameters.variational.hidden import (
    HiddenPosterior,
    SequentialHiddenPosterior,
    hidden_posterior,
    hidden_posteriors,
    mixture_weights,
    sequential_hidden_posteriors,
)
from doxa.parameters.variational.sequential import Order
from doxa.sampling.gaussian import Gaussian
from doxa.sampling.importance_proposals import Mixture, Proposal

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models import LogisticNetwork

__all__ = ["HIDDEN_FORMS", "PASSES", "approximate_by_form", "approximate_by_pass", "joint_bound"]

HIDDEN_FORMS = ("unconstrained", "structured", "mean_field")
PASSES = {f"sequential_{form}": form for form in HIDDEN_FORMS}  # one pass over the cases


@dataclass(frozen=True)
class NamedMixture(Mixture):
    """A mixture that says how it was made."""

    method: str = ""


@dataclass(frozen=True, eq=False)
class NamedGaussian(Gaussian):
    """A Gaussian that says how it was made."""

    method: str = ""


_LONG_ASCENT = 2**16  # numbers of q times iterations: a tenth of a second
_ASCENTS, _TOLERANCE = 6, 1e-6  # besides the first, and where they end: thousandths of a nat below the top, at most


def approximate_by_form(target: JointTarget, table: Table, form: str, rng: np.random.Generator) -> Proposal:
    """The optima that several starts find, as a mixture of Gaussians; a single one as a Gaussian."""
    seed = int(rng.integers(2**31))
    found = hidden_posteriors(target.network, table, form=form, seed=seed)  # type: ignore[arg-type]
    components = [_component(target, result) for result in found]
    if len(components) == 1:
        return Gaussian(components[0].mean, components[0].cholesky)
    return Mixture(components, mixture_weights(found))


def approximate_by_pass(
    target: JointTarget, table: Table, name: str, rng: np.random.Generator, order: Order = "auto"
) -> Proposal:
    """What several passes over the cases find, as a mixture of Gaussians; a single one as a Gaussian."""
    form, seed = PASSES[name], int(rng.integers(2**31))
    found = sequential_hidden_posteriors(target.network, table, form=form, seed=seed, order=order)  # type: ignore[arg-type]
    components = [_component(target, result) for result in found]
    method = f"hidden variational in one pass ({form} q)" + (", cases in random order" if found[0].order.drawn else "")
    if len(components) == 1:
        return NamedGaussian(components[0].mean, components[0].cholesky, method)
    return NamedMixture(components, mixture_weights(found), method)


def joint_bound(network: LogisticNetwork, table: Table) -> float:
    """Lower bound (nats) of the log evidence of all parts that are not complete; nan if it costs too much.

    An ascent ends at one optimum of several; every one of them is a bound, and the highest of those found is returned.
    """
    result = None if network.scales else _bounded(network, table)
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
    """The best of several ascents in the first form that is not too large; of one where each takes long."""
    for options in ({"form": "unconstrained"}, {"form": "structured"}, {"form": "mean_field", "xi": "row"}):
        try:
            first = hidden_posterior(network, table, **options)  # type: ignore[arg-type]
        except ArgumentError:
            continue  # too many configurations for this form
        if first.q.size * first.n_iterations > _LONG_ASCENT:
            return first
        others = hidden_posteriors(network, table, starts=_ASCENTS, seed=0, tolerance=_TOLERANCE, **options)  # type: ignore[arg-type]
        return max([first, *others], key=lambda result: result.log_evidence)
    return None


def _component(target: JointTarget, result: HiddenPosterior | SequentialHiddenPosterior) -> Student:
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

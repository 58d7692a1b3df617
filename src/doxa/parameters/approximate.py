"""Approximations of the parts of a posterior, by name: what the kernels propose from.

A complete family has a Gaussian; a complete root its exact Beta, in the logit of its probability; parts with hidden
values a mixture of t distributions around the modes that were found.  Families that share a learned scale have such
mixtures too, in the coordinates that suit them best.  Variational approximations of parts with hidden values have a
bound on the evidence, `joint_bound`, as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import digamma, polygamma

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.models.logistic_parts import Part, fixed_log_likelihood, independent_parts, part_regression, root_counts
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.models.logistic_rows import binary_codes
from doxa.parameters.augmentation import AugmentationSampler
from doxa.parameters.joint_target import JointTarget, Symmetry, apart, find_symmetries, images_of
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.pilot import run_pilot
from doxa.parameters.population import Mode, curvature_at, find_modes, fit_mixture, grow_mixture, mixture_at
from doxa.parameters.scaled_target import InCoordinates, ScaledCoordinates, ScaledProposal, ScaledTarget
from doxa.parameters.targets import RegressionTarget, RootPosterior
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.hidden import (
    HiddenPosterior,
    SequentialHiddenPosterior,
    hidden_posterior,
    hidden_posteriors,
    mixture_weights,
    sequential_hidden_posteriors,
)
from doxa.parameters.variational.laplace import laplace_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.parameters.variational.sequential import (
    Order,
    order_cases,
    sequential_posterior,
    spiegelhalter_lauritzen_posterior,
)
from doxa.sampling.gaussian import Gaussian, GaussianPosterior
from doxa.sampling.importance_proposals import Mixture, Proposal

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models import LogisticNetwork

__all__ = [
    "APPROXIMATIONS",
    "FEW",
    "HIDDEN_FORMS",
    "ONE_PASS",
    "PASSES",
    "Approximated",
    "approximate",
    "approximate_by_form",
    "approximate_by_pass",
    "check_approximation",
    "in_order",
    "joint_bound",
]


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


APPROXIMATIONS: dict[str, Callable[[LogisticRegressionProblem], GaussianPosterior]] = {
    "optimal": optimal_posterior,
    "laplace": laplace_posterior,
    "jaakkola_jordan": batch_posterior,
    "sequential": sequential_posterior,
    "spiegelhalter_lauritzen": spiegelhalter_lauritzen_posterior,
}

ONE_PASS = ("sequential", "spiegelhalter_lauritzen")  # which take case after case, and must not be given collapsed rows

_FEWEST_ASCENTS, _MOST_ASCENTS = 3, 24
_WORK = 2**21  # hidden configurations times coefficients that all ascents may take at a time: seconds
FEW = 10  # parameters up to which mixtures with a wide component are worth fitting; beyond, wide draws are wasted
_DF = 5.0
_POINTS = 8  # at which a symmetry must hold
_CENTRINGS, _JUDGED = (0.0, 0.5, 1.0), 4000  # coordinates of learned scales, and draws that judge each
_GOOD_GAUSSIAN = 0.3  # efficiency of independent proposals that will do
_WIDE_DRAWS, _MORE_ASCENTS = 4000, 6
_WIDEST = 3.0  # standard deviations of starts; the prior's own are often so wide that every ascent begins on a plateau


class Approximated(NamedTuple):
    """One part of the posterior with its approximation."""

    part: Part
    target: Any  # RegressionTarget, JointTarget, RootPosterior; or an AugmentationSampler
    proposal: Any  # GaussianPosterior, Mixture or RootPosterior; None with an AugmentationSampler
    modes: tuple[Mode, ...] = ()  # of a joint part
    mixture: Mixture | None = None  # of a joint part with one mode and few parameters
    symmetries: tuple[Symmetry, ...] = ()  # of a joint part: exchanges that leave its posterior as it is
    inside: Approximated | None = None  # the same in the coordinates that kernels move in, where these are others


def approximate(
    network: LogisticNetwork,
    part: Part,
    table: Table,
    name: str | None,
    rng: np.random.Generator,
    *,
    augment: bool = False,
    order: Order = "auto",
) -> Approximated:
    """Approximate one part of the posterior."""
    check_approximation(name)
    if not set(network.scales).isdisjoint(part.nodes):
        if augment or name is not None:
            what = "data augmentation does not draw" if augment else f"approximation={name!r} does not know"
            raise ArgumentError(
                f"{what} learned scales ({', '.join(map(repr, network.scales))}) of the prior; leave method and "
                "approximation to doxa, or give prior_scale a number"
            )
        return _approximate_scaled(ScaledTarget(network, part, table), rng)
    if not part.complete:
        if augment:
            return Approximated(part, AugmentationSampler(network, part, table), None)
        target = JointTarget(network, part, table)
        symmetries = _symmetries(target, table)
        if name in HIDDEN_FORMS:
            found = Approximated(part, target, approximate_by_form(target, table, name, rng))
        elif name in PASSES:
            found = Approximated(part, target, approximate_by_pass(target, table, name, rng, order))
        else:
            found = _approximate_jointly(target, rng, symmetries)
        return found._replace(symmetries=symmetries)
    (node,) = part.nodes
    if node in network.roots:
        root = RootPosterior(*root_counts(network, node, table))
        return Approximated(part, root, root)
    problem = part_regression(network, part, table)
    method = "jaakkola_jordan" if name in HIDDEN_FORMS else "sequential" if name in PASSES else name or "optimal"
    if method in ONE_PASS:
        cases, drawn = order_cases(table, order, rng)
        gaussian = in_order(method, part_regression(network, part, table, cases), drawn=drawn)
    else:
        gaussian = APPROXIMATIONS[method](problem)
    return Approximated(part, RegressionTarget(problem), gaussian)


def in_order(name: str, problem: LogisticRegressionProblem, *, drawn: bool) -> GaussianPosterior:
    """An approximation of one pass over cases that stand in their order; its ``method`` says if that was drawn."""
    found = APPROXIMATIONS[name](problem)
    return replace(found, method=f"{found.method}, cases in random order") if drawn else found


def check_approximation(name: str | None) -> None:
    """Raise ArgumentError unless there is an approximation of this name, or none is named."""
    known = [*APPROXIMATIONS, *HIDDEN_FORMS, *PASSES]
    if name is not None and name not in known:
        raise ArgumentError(f"approximation is {name!r}; it must be one of {', '.join(map(repr, known))}")


def _symmetries(target: JointTarget, table: Table) -> tuple[Symmetry, ...]:
    """Exchanges of labels, or of nodes that are observed nowhere, that hold at some points of the prior."""
    names = target.network.names
    codes = binary_codes(table, names)
    hidden = tuple(name for j, name in enumerate(names) if (codes[:, j] < 0).all())
    mean, cholesky = target.prior_spread
    noise = np.random.default_rng(0).standard_normal((_POINTS, mean.size))  # any points will do
    return tuple(find_symmetries(target, hidden, mean + noise @ cholesky.T))


def _approximate_jointly(
    target: JointTarget, rng: np.random.Generator, symmetries: tuple[Symmetry, ...]
) -> Approximated:
    modes = _modes(target, _starts(target, rng), rng)
    if symmetries and target.n_dimensions > FEW:
        modes = _one_of_each(modes, symmetries)
        whole = images_of(fit_mixture(target, mixture_at(modes), rng)[0], symmetries)
        if len(whole.components) > 1:
            return Approximated(target.part, target, whole, tuple(modes))
    return _approximate_at(target.part, target, modes, rng)


def _approximate_scaled(target: ScaledTarget, rng: np.random.Generator) -> Approximated:
    """Of coordinates between centred and not those in which the weights of the approximation vary least.

    Modes are those of the non-centred density: the others grow beyond all bounds as scales tend to 0.
    """
    plain = ScaledCoordinates(tuple(target.groups), 0.0)
    starts = plain.inner(_starts(target, rng))
    modes = [mode.mean for mode in _modes(InCoordinates(target, plain), starts, rng)]
    tried = []
    for centring in _CENTRINGS:
        coordinates = ScaledCoordinates(plain.groups, centring)
        inner = InCoordinates(target, coordinates)
        points = coordinates.inner(plain.outer(np.array(modes)))
        at = [Mode(x, float(inner.log_density(x[None])[0]), curvature_at(inner, x)) for x in points]
        found = _approximate_at(target.part, inner, sorted(at, key=lambda mode: -mode.log_mass), rng)
        tried.append((_fitness(found, rng), ScaledProposal(found.proposal, coordinates), found))
    _, proposal, found = max(tried, key=lambda one: one[0])  # the first of equals, which is non-centred
    return Approximated(target.part, target, proposal, found.modes, inside=found)


def _fitness(found: Approximated, rng: np.random.Generator) -> float:
    """Efficiency of the weights of a mixture, less where their tail is long.

    In the neck of a funnel a centred mixture has efficiencies of 0.2 to 0.6 with a Pareto k of 0.6 to 0.9, where a
    non-centred one has 0.6 to 0.75 with 0.15 at most.  Over more parameters there is a Gaussian alone.  Where it is no
    good in any coordinates, Hamiltonian chains take its place, which centred stay out of the neck (a hundredth of the
    mass, with 25 coefficients and 30 cases), though they agree: 0 then, for the non-centred to be better.
    """
    pilot = run_pilot(found.target, found.mixture or found.proposal, rng, _JUDGED)
    if found.target.n_dimensions <= FEW:
        return pilot.efficiency - max(0.0, pilot.tail)
    return pilot.efficiency if pilot.efficiency >= _GOOD_GAUSSIAN else 0.0


def _approximate_at(part: Part, target: Any, modes: list[Mode], rng: np.random.Generator) -> Approximated:
    """A Gaussian at the only mode, or a mixture around several."""
    mixture = None
    if target.n_dimensions <= FEW:
        mixture, _ = grow_mixture(target, mixture_at(modes), rng, _wide(target))
    if len(modes) > 1:
        several = mixture or fit_mixture(target, mixture_at(modes), rng)[0]
        return Approximated(part, target, several, tuple(modes))
    gaussian, _ = fit_mixture(target, mixture_at(modes, df=np.inf), rng)
    (only,) = gaussian.components
    assert isinstance(only, Student)
    return Approximated(part, target, Gaussian(only.mean, only.cholesky), tuple(modes), mixture)


def _one_of_each(modes: list[Mode], symmetries: tuple[Symmetry, ...]) -> list[Mode]:
    """Modes of which none is the image of another under the exchanges; the first of each kind."""
    kept: list[Mode] = []
    for mode in modes:
        known: Sequence[Any] = images_of(mixture_at(kept), symmetries).components if kept else ()
        here = Student(mode.mean, mode.cholesky, _DF)
        if all(apart(here, component) for component in known):
            kept.append(mode)
    return kept


def _wide(target: Any) -> Student:
    mean, cholesky = target.prior_spread
    return Student(mean, cholesky, _DF)


def _modes(target: Any, starts: Floats, rng: np.random.Generator) -> list[Mode]:
    """Modes by ascents from the starts; with few parameters also from wide draws that those account for least."""
    modes = find_modes(target, starts)
    if target.n_dimensions > FEW:
        return modes
    wide = _wide(target)
    thetas = wide.sample(_WIDE_DRAWS, rng)
    seen = np.logaddexp(mixture_at(modes).log_density(thetas), wide.log_density(thetas))
    heaviest = np.argsort(target.log_density(thetas) - seen)[-_MORE_ASCENTS:]
    return find_modes(target, np.concatenate([[mode.mean for mode in modes], thetas[heaviest]]))


def _starts(target: JointTarget, rng: np.random.Generator) -> Floats:
    """Draws from the prior, made narrower where it is wide; half of them narrow, near its mean."""
    work = max(1, target.likelihood.n_configurations) * target.n_dimensions
    n_ascents = max(_FEWEST_ASCENTS, min(_MOST_ASCENTS, _WORK // work))
    starts = rng.standard_normal((n_ascents, target.n_dimensions))
    starts[::2] *= 0.3
    for node, place in target.packing.place.items():
        if node not in target.packing.roots:
            prior = target.prior_of(node)
            widths = np.minimum(np.sqrt(np.diag(prior.covariance)), _WIDEST)
            starts[:, place] = prior.mean + widths * starts[:, place]
    return starts

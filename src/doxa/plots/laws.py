r"""Approximations and exact densities as what a picture needs: densities of the one or two coefficients it shows.

A region of highest density holds a given share of the mass in the least room.  Of a Gaussian in two dimensions it is an
ellipse, the points at a Mahalanobis distance of at most :math:`\sqrt{-2 \ln(1 - p)}`; of other densities it is found on
a grid, as the cells of most mass that together hold the share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.plots.style import LAW_LOOKS

if TYPE_CHECKING:
    from doxa.parameters.posterior import ParameterPosterior
    from doxa.sampling.gaussian import Gaussian

LogDensity: TypeAlias = Callable[[Floats], ArrayLike]

REACH = 3.5  # standard deviations of a Gaussian that are shown


class DensityGrid(NamedTuple):
    """A density of two coefficients on a grid."""

    x: Floats  # (m,) rising
    y: Floats  # (n,) rising
    log_density: Floats  # (m, n), nats, up to a constant


@dataclass(frozen=True)
class Law:
    """A density of the coefficients shown."""

    log_density: Callable[[Floats], Floats]  # points (n, k) to (n,), nats, up to a constant
    gaussian: Gaussian | None = None  # the same, where it is one
    normalised: bool = True


def laws_of(approximations: Any, place: list[int], size: int) -> dict[str, Law]:
    """Densities of some coordinates (``place``, in the order of the axes) of approximations, by name.

    ``approximations`` is None, one, or a mapping of names to them.  Each is a `Gaussian`, a `Student` or a `Mixture` of
    these, over all ``size`` coefficients or over those shown; a pair (mean, covariance); or a function from points (n,
    k) to log densities, which need not be normalised.
    """
    if approximations is None:
        return {}
    named = approximations if isinstance(approximations, Mapping) else {"approximation": approximations}
    return {str(name): _law(str(name), found, place, size) for name, found in named.items()}


def own_law(fit: ParameterPosterior, columns: list[tuple[str, str]]) -> Law | None:
    """What the fit proposed some coefficients from; None where it kept nothing, or they do not belong together."""
    nodes = {node for node, _ in columns}
    part = fit.part(columns[0][0])
    if not nodes <= set(part.nodes):
        return None
    try:
        proposal = fit.approximation(columns[0][0])
    except ArgumentError:
        return None
    from doxa.parameters.joint_target import Packing

    packing = Packing(fit.network, part.nodes)
    place = [packing.labels.index(column) for column in columns]
    law = _law("approximation", proposal, place, packing.n_dimensions)
    return _of_probabilities(law, [column[0] in packing.roots for column in columns])


def own_or_given(
    fit: ParameterPosterior | None,
    columns: list[tuple[str, str]],
    approximation: Any,
    given: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Approximations by name: the fit's own where ``approximation`` is "own", else those that ``given`` reads."""
    if isinstance(approximation, str):
        if approximation != "own":
            raise ArgumentError(f"approximation is {approximation!r}; the only one with a name is 'own'")
        own = None if fit is None else own_law(fit, columns)
        named = {} if own is None else {"approximation": own}
    else:
        named = given()
    if len(named) > len(LAW_LOOKS):
        raise ArgumentError(f"approximation has {len(named)} entries; at most {len(LAW_LOOKS)} can be told apart")
    return named


def places_in_part(fit: ParameterPosterior, columns: list[tuple[str, str]]) -> tuple[list[int], int]:
    """Where coefficients stand among those of their part of the posterior, and how many these are."""
    labels = [(node, label) for node in fit.part(columns[0][0]).nodes for label in fit.network.coefficients(node)]
    if not set(columns) <= set(labels):
        return list(range(len(columns))), len(columns)
    return [labels.index(column) for column in columns], len(labels)


def exact_law(fit: ParameterPosterior, columns: list[tuple[str, str]], table: Any) -> Law:
    """The exact posterior of coefficients that depend on no others, given the table of the fit."""
    from doxa.data import Table, read_table
    from doxa.models.logistic_parts import independent_parts
    from doxa.parameters.joint_target import JointTarget

    if not isinstance(table, Table):
        table = read_table(table)
    (part,) = [part for part in independent_parts(fit.network, table) if columns[0][0] in part.nodes]
    target = JointTarget(fit.network, part, table)
    labels = target.packing.labels
    if sorted(labels) != sorted(columns):
        others = ", ".join(f"{node}: {label}" for node, label in labels if (node, label) not in columns)
        raise ArgumentError(
            "exact is a table, but the posterior of these coefficients "
            + (f"depends on others too ({others})" if others else "is that of independent parts")
            + "; its density can be computed only for coefficients that stand alone"
        )
    order = [labels.index(column) for column in columns]
    law = Law(lambda points: target.log_density(points[:, np.argsort(order)]), normalised=False)
    return _of_probabilities(law, [column[0] in target.packing.roots for column in columns])


def ellipse(gaussian: Gaussian, share: float) -> Floats:
    """Outline of the region with this share of a Gaussian in two dimensions, shape (2, 200)."""
    angle = np.linspace(0.0, 2 * np.pi, 200)
    circle = np.sqrt(-2 * np.log1p(-share)) * np.stack([np.cos(angle), np.sin(angle)])
    return np.asarray(gaussian.mean[:, None] + gaussian.cholesky @ circle)


def region_levels(log_density: ArrayLike, shares: tuple[float, ...]) -> Floats:
    """Log densities at the borders of the regions of highest density with these shares, on cells of equal size."""
    heights = np.sort(np.ravel(log_density))[::-1]
    mass = np.cumsum(np.exp(heights - heights[0]))
    inside = np.searchsorted(mass, np.asarray(shares) * mass[-1] * (1 - 1e-12))
    return np.asarray(heights[np.minimum(inside, heights.size - 1)])


def _law(name: str, found: Any, place: list[int], size: int) -> Law:
    from doxa.parameters.kernels.gaussians import Student
    from doxa.parameters.targets import RootPosterior
    from doxa.sampling.gaussian import Gaussian
    from doxa.sampling.importance_proposals import Mixture

    if isinstance(found, tuple) and len(found) == 2 and not callable(found):
        found = Gaussian.from_covariance(*found)
    if isinstance(found, Gaussian):
        marginal = found.marginal(_chosen(name, found.mean.size, place, size))
        return Law(marginal.log_density, marginal)
    if isinstance(found, Student):
        return Law(_student(found, _chosen(name, found.mean.size, place, size)).log_density)
    if isinstance(found, Mixture):
        parts = [_law(name, component, place, size) for component in found.components]
        weights = np.asarray(found.weights)
        return Law(lambda points: _mixed([part.log_density(points) for part in parts], weights))
    if isinstance(found, RootPosterior):
        return Law(found.log_density)
    if callable(found):
        return Law(_evaluated(name, found), normalised=False)
    raise ArgumentTypeError(
        f"{name!r} is {type(found).__name__}; an approximation is a Gaussian, a Student or a Mixture of them, a pair "
        "(mean, covariance), or a function from points (n, k) to log densities"
    )


def _chosen(name: str, n: int, place: list[int], size: int) -> list[int]:
    """Coordinates to keep of an approximation over n coefficients."""
    if n == size:
        return place
    if n == len(place):
        return list(range(n))
    raise ArgumentError(
        f"{name!r} is over {n} coefficients; give one over all {size}, or over the {len(place)} that are shown"
    )


def _student(found: Any, place: list[int]) -> Any:
    from doxa.parameters.kernels.gaussians import Student

    rows = found.cholesky[place]
    return Student(found.mean[place], np.linalg.cholesky(rows @ rows.T), found.df)


def _mixed(parts: list[Floats], weights: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp.reduce(np.stack(parts) + np.log(weights)[:, None], axis=0))


def _evaluated(name: str, function: LogDensity) -> Callable[[Floats], Floats]:
    """The function, with its answer checked."""

    def log_density(points: Floats) -> Floats:
        found = np.asarray(function(points), dtype=np.float64)
        if found.shape != (len(points),) or np.isnan(found).any() or not np.isfinite(found.max()):
            raise ArgumentError(
                f"{name!r} gave shape {found.shape} for {len(points)} points; it must give a log density for each, no "
                "nan among them and not all of them -inf"
            )
        return found

    return log_density


def _of_probabilities(law: Law, roots: list[bool]) -> Law:
    """The law of probabilities where it is that of their logits, on the axes of learned roots."""
    if not any(roots):
        return law

    def log_density(points: Floats) -> Floats:
        p = np.where(roots, np.clip(points, 1e-12, 1 - 1e-12), 0.5)
        logits = np.log(p) - np.log1p(-p)
        slopes = np.where(roots, np.log(p) + np.log1p(-p), 0.0)
        inside = ((points > 0) & (points < 1) | ~np.asarray(roots)).all(axis=1)
        found = law.log_density(np.where(roots, logits, points)) - slopes.sum(axis=1)
        return np.where(inside, found, -np.inf)

    return Law(log_density, normalised=law.normalised)

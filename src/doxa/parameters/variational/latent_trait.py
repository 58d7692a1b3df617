r"""The latent trait model: binary columns that depend on a few hidden positions (Jaakkola & Jordan 2000, section 6).

It is the dual of logistic regression: the explanatory values of a row are hidden and normal, and each column has its
own coefficients, here called loadings and biases.  `fit_latent_trait` learns these, with standard normal positions or
together with the law of the positions; `fit_latent_prior` keeps them and learns that law.  Missing cells are integrated
out.

With ``posterior=True`` loadings and biases get a posterior under their Gaussian prior ("strictly speaking the dual
interpretation would require us to assign a prior distribution", section 6).

**What the data can tell.** With loadings W, biases b and positions :math:`N(\mu, \Sigma)`, :math:`\Sigma = L L^T`, the
likelihood depends on :math:`b + W \mu` and on :math:`W \Sigma W^T` alone: on W L but for rotations of its columns.  So
with biases a mean and a covariance add nothing, and without them :math:`\mu` gives the biases k numbers in the place of
p.  Of all that are equally likely `fit_latent_trait` returns the one with principal axes, and with either the positions
or the loadings in units of one (``prior``).

The variational methods maximise a *lower bound* on the likelihood.  It is loose where a row's position is uncertain and
loadings are large, which pulls loadings towards 0, the more so the fewer columns there are.  Of planted standard normal
loadings in two dimensions (3000 rows, medians of five draws) it found 60% with 8 columns, 72% with 20, 89% with 50 and
96% with 150; the likelihood by quadrature, which is the default in one and two dimensions, found 103% with 8 and 99%
with 20.  The algorithms are in `doxa.parameters.variational.latent_em` and
`doxa.parameters.variational.latent_quadrature`, which also says what a fitted model can be asked.

`latent_map` puts each row at the mean of its latent position, with an ellipse for what its cells leave open (Tipping
1999 drew such maps): rows that answer alike lie close together.  Pictures are made in `doxa.plots.latent_map`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from doxa.arrays import Floats
from doxa.checks import check_positive, check_whole
from doxa.errors import ArgumentError
from doxa.parameters.variational.latent_em import (
    PRIOR,
    EMResult,
    Learned,
    TraitParameters,
    cost,
    run_em,
    settle,
    whitened,
)
from doxa.parameters.variational.latent_quadrature import (
    LatentPosterior,
    LatentTrait,
    ascend_on_grids,
    grid,
    grid_moments,
)
from doxa.parameters.variational.latent_rows import BinaryRows, Coding, code_rows, opened

__all__ = [
    "Ellipses",
    "LatentMap",
    "LatentPosterior",
    "LatentTrait",
    "fit_latent_prior",
    "fit_latent_trait",
    "latent_map",
]


_MOST_COLUMNS = 100  # for quadrature by itself: loadings by the bound are 95% of the truth at 150


def fit_latent_trait(
    data: Any,
    n_components: int = 2,
    *,
    counts: ArrayLike | None = None,
    biases: bool = True,
    prior: Literal["standard", "learned"] = "standard",
    likelihood: Literal["auto", "bound", "quadrature"] = "auto",
    posterior: bool = False,
    prior_scale: float | None = 10.0,
    tolerance: float = 1e-10,
    max_iterations: int = 5000,
    memory: int = 6,
) -> LatentTrait:
    """Learn the latent trait model by variational EM (Jaakkola & Jordan 2000, eqs. 36-42, eq. 38 corrected).

    The paper's own model, in which loadings, mean and covariance are learned together and there are no biases, is
    ``biases=False, prior="learned"``.

    Parameters
    ----------
    data : Table, frame, path, or array_like, shape (n_rows, p)
        Two states a column. Arrays hold 0, 1, and NaN or -1 for missing. Frames and paths are read by
        `doxa.read_table`; of a column's two states the second is 1.
    n_components : int, default=2
        Dimensions k of the positions, at most p.
    counts : array_like of float, shape (n_rows,), optional
        Cases that each row of an array stands for; 1 by default.
    biases : bool, default=True
        Whether every column has a bias b_i of its own. Without, b_i is 0.
    prior : {"standard", "learned"}, default="standard"
        Law of the positions: N(0, I), or one whose covariance is learned, and whose mean is learned where there are no
        biases. Where there are, it stays 0: only b + W mean can be told.
    likelihood : {"auto", "bound", "quadrature"}, default="auto"
        What is maximised: the variational lower bound, or, in one or two dimensions, the likelihood itself by
        quadrature, from where the bound is largest. "auto" is quadrature in at most two dimensions, with the standard
        prior, no ``posterior``, and at most 100 columns, beyond which the bound is close and quadrature ten times
        slower; and the bound elsewhere, and where some rows' positions are too sharp for a grid.
    posterior : bool, default=False
        Learn a Gaussian posterior of the loadings and biases of every column, in the place of their maximum, by
        variational Bayes: the law of all that is unknown is held to be a product over rows and columns. Takes the
        standard prior of positions, and a ``prior_scale``.
    prior_scale : float or None, default=10.0
        Standard deviation of a Gaussian prior of every loading W L and bias b + W mean that standard normal positions
        would have, without which those of a constant column, or of one that the others tell apart exactly, grow for
        ever. None for no prior.
    tolerance : float, default=1e-10
        Stop when three iterations in a row raise the bound by less than this share of 1 + its size.
    max_iterations : int, default=5000
        Limit of the number of times that the posteriors of all rows are computed; each costs O(rows p k^2).
    memory : int, default=6
        Iterations from which the next is extrapolated; 0 for plain EM.

    Returns
    -------
    LatentTrait
        In principal axes: the columns of ``loadings`` are orthogonal, the longest first, and the largest entry of each
        is positive. With the standard prior positions have unit variances and loadings their lengths; with a learned
        one loadings have columns of length one, and ``prior_covariance`` is diagonal and has the squares of those
        lengths. So the answer is unique, unless two columns are equally long; the bound may have several maxima, and
        the search starts at the singular vectors of the centred data. With ``posterior`` loadings and biases are
        posterior means, ``spread`` has their covariances, which are too small, and ``log_bound`` is a lower bound of
        the log evidence.

    Raises
    ------
    ArgumentError, ArgumentTypeError, TableError
        If the data are not binary or an option is out of range; without a prior, if a column is constant or has no
        observed cell.

    Examples
    --------
    >>> import doxa
    >>> fit = fit_latent_trait(doxa.datasets.load("reinis"), 1)
    >>> fit
    <LatentTrait(n_columns=6, n_components=1): log likelihood -6699.7058>
    >>> dict(zip(fit.names, fit.loadings[:, 0].round(2).tolist()))  # strenuous for the mind or for the body
    {'smoke': 0.27, 'mental': -2.64, 'phys': 6.29, 'systol': -0.02, 'protein': -0.26, 'family': -0.09}
    """
    rows, _, coding = code_rows(data, counts)
    rows = _seen_rows(rows)
    p = rows.half.shape[1]
    n_components = check_whole("n_components", n_components, 1)
    if n_components > p:
        raise ArgumentError(f"n_components is {n_components}; it must be at most {p}, the number of columns of data")
    if prior_scale is None:
        _refuse_unbounded(rows, coding.names)
    elif not 0 < prior_scale < np.inf:
        raise ArgumentError(f"prior_scale is {prior_scale!r}; it must be above 0 and finite, or None for no prior")
    if prior not in ("standard", "learned"):
        raise ArgumentError(f'prior is {prior!r}; it must be "standard" or "learned"')
    ridge = 0.0 if prior_scale is None else float(prior_scale) ** -2
    _check_search(tolerance, max_iterations, memory)
    free = prior == "learned"
    if posterior and (free or prior_scale is None):
        raise ArgumentError(
            f"posterior is True with prior={prior!r} and prior_scale={prior_scale!r}; a posterior of the loadings "
            'takes a prior_scale, and positions that are standard normal (prior="standard")'
        )
    if likelihood not in ("auto", "bound", "quadrature"):
        raise ArgumentError(f'likelihood is {likelihood!r}; it must be "auto", "bound" or "quadrature"')
    offered = n_components <= 2 and not free and not posterior
    if likelihood == "quadrature" and not offered:
        raise ArgumentError(
            f'likelihood is "quadrature" with n_components={n_components}, prior={prior!r} and posterior={posterior}; '
            'it takes at most 2 components, prior="standard" and no posterior: use "bound" or "auto"'
        )
    start = _start(rows, n_components, biases)
    if posterior:
        free_ones = np.diag([1.0] * n_components + [float(biases)])
        start = start._replace(spread=np.tile(min(0.1, 1 / ridge) * free_ones, (p, 1, 1)))
    learn = Learned(True, biases, free and not biases, free, posterior)
    search: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations, "memory": memory}
    found = run_em(rows, start, learn, ridge=ridge, **search)
    best = _principal(found.state.parameters, unit_loadings=free)
    spacing = None
    if offered and (likelihood == "quadrature" or (likelihood == "auto" and p <= _MOST_COLUMNS)):
        onward, spacing = ascend_on_grids(rows, best, learn, ridge, **search)
        if spacing is not None:
            found, best = onward, _principal(onward.state.parameters, unit_loadings=False)
        elif likelihood == "quadrature":
            raise ArgumentError(
                'likelihood is "quadrature", and some rows\' positions are too sharp for a grid of reasonable size; '
                'with that many columns "bound" is close'
            )
    return _result(rows, found, best, coding, ridge, spacing)


def fit_latent_prior(
    data: Any,
    loadings: ArrayLike,
    biases: ArrayLike = 0.0,
    *,
    counts: ArrayLike | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 5000,
    memory: int = 6,
) -> LatentTrait:
    """Learn the mean and covariance of the positions for given loadings (eqs. 36-39, eq. 38 corrected).

    As printed, eq. 38 is the mean of the posterior covariances alone; with it the bound can fall, and mostly does. The
    maximum has the spread of the posterior means about mu as well.

    Parameters
    ----------
    data : Table, frame, path, or array_like, shape (n_rows, p)
        As `fit_latent_trait` takes it.
    loadings : array_like of float, shape (p, k)
    biases : float or array_like of float, shape (p,), default=0.0
        The paper has none.
    counts, tolerance, max_iterations, memory
        As in `fit_latent_trait`.

    Returns
    -------
    LatentTrait
        With the loadings given, in the coordinates given. The covariance tends to 0 in directions in which the rows do
        not differ, and the mean has no maximum where all rows lie on one side.

    Raises
    ------
    ArgumentError, ArgumentTypeError, TableError
        If the data are not binary, shapes disagree, a number is not finite, or an option is out of range.

    Examples
    --------
    >>> fit = fit_latent_prior([[1, 1], [1, 1], [0, 0], [1, 0]], [[2.0], [2.0]])
    >>> fit.prior_mean.round(3), fit.prior_covariance.round(3)
    (array([0.299]), array([[0.34]]))
    """
    rows, _, coding = code_rows(data, counts)
    rows = _seen_rows(rows)
    p = rows.half.shape[1]
    weights = _finite("loadings", loadings)
    if weights.ndim != 2 or weights.shape[0] != p or weights.shape[1] == 0:
        raise ArgumentError(f"loadings has shape {weights.shape}; it must be ({p}, k), a row for each column of data")
    shifts = _finite("biases", biases)
    if shifts.shape not in ((), (p,)):
        raise ArgumentError(f"biases has shape {shifts.shape}; it must be one number, or ({p},)")
    _check_search(tolerance, max_iterations, memory)
    k = weights.shape[1]
    start = TraitParameters(weights, np.broadcast_to(shifts, (p,)).copy(), np.zeros(k), np.eye(k))
    found = run_em(
        rows, start, PRIOR, ridge=0.0, tolerance=tolerance, max_iterations=max_iterations, memory=memory
    )  # fmt: skip
    return _result(rows, found, found.state.parameters, coding, 0.0)


def _result(
    rows: BinaryRows,
    found: EMResult,
    parameters: TraitParameters,
    coding: Coding,
    ridge: float,
    spacing: float | None = None,
) -> LatentTrait:
    if spacing is None:
        at_best = settle(rows, parameters, found.state.rows.next_xi).rows
    else:
        at_best = grid_moments(rows, parameters, grid(parameters.loadings.shape[1], spacing))
    log_bound = float(rows.counts @ at_best.log_bound)
    price = cost(parameters, ridge)
    last = max(log_bound - price, found.trace[-1])  # they differ by rounding where xi had settled
    if parameters.spread is not None:
        log_bound -= price
    return LatentTrait(
        coding.names,
        parameters.loadings,
        parameters.biases,
        parameters.prior_mean,
        parameters.prior_root,
        log_bound,
        found.n_iterations,
        found.converged,
        np.array([*found.trace, last]),
        parameters.spread,
        spacing,
        coding,
    )


def _start(rows: BinaryRows, k: int, biases: bool) -> TraitParameters:
    """Singular vectors of the centred cells, scaled as if logits were linear; a missing cell counts as the mean.

    Without biases the cells are centred at 1/2, and the positions' mean is at 0.
    """
    seen = rows.counts @ rows.seen
    mean = (rows.counts @ (rows.half + 0.5 * rows.seen) + 0.5) / (seen + 1)
    mean = mean if biases else np.full_like(mean, 0.5)
    centred = (rows.half + rows.seen * (0.5 - mean)) * np.sqrt(rows.counts / rows.counts.sum())[:, None]
    _, length, axes = np.linalg.svd(centred, full_matrices=False)
    loadings = np.zeros((len(mean), k))
    n_axes = min(k, len(length))
    loadings[:, :n_axes] = 2 * axes[:n_axes].T * length[:n_axes] / np.sqrt(mean * (1 - mean))[:, None]
    return TraitParameters(loadings, np.log(mean / (1 - mean)), np.zeros(k), np.eye(k))


def _principal(parameters: TraitParameters, *, unit_loadings: bool) -> TraitParameters:
    """An equally likely model: orthogonal columns, the longest first, the largest entries positive.

    Lengths are those of the loadings, or deviations of the positions along loadings of length one.
    """
    left, length, right = np.linalg.svd(whitened(parameters)[0], full_matrices=False)
    turned = left * length
    largest = turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])]
    sign = np.where(largest < 0, -1.0, 1.0)
    centre = sign * (right @ solve_triangular(parameters.prior_root, parameters.prior_mean, lower=True))
    if unit_loadings:
        return TraitParameters(left * sign + 0.0, parameters.biases, length * centre, np.diag(length))
    spread = parameters.spread
    if spread is not None:
        turn = np.eye(len(length) + 1)  # the posterior of all loadings turns with them; biases stay
        turn[:-1, :-1] = sign[:, None] * right
        spread = turn @ spread @ turn.T
    return TraitParameters(turned * sign + 0.0, parameters.biases, centre + 0.0, np.eye(len(length)), spread)


def _seen_rows(rows: BinaryRows) -> BinaryRows:
    kept = rows.counts > 0
    return rows if kept.all() else BinaryRows(rows.half[kept], rows.seen[kept], rows.counts[kept])


def _refuse_unbounded(rows: BinaryRows, names: tuple[str, ...]) -> None:
    for j, name in enumerate(names):
        values = np.unique(rows.half[rows.seen[:, j] > 0, j])
        if values.size < 2:
            what = f"is {values[0] + 0.5:g} in every row" if values.size else "has no observed cell"
            raise ArgumentError(
                f"column {name!r} {what}, so that without a prior its bias has no maximum; give prior_scale, or leave "
                "the column out"
            )


def _finite(name: str, values: ArrayLike) -> Floats:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name} is not an array of numbers: {error}") from None
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name} holds {array[~np.isfinite(array)][0]}; every number must be finite")
    return array


def _check_search(tolerance: float, max_iterations: int, memory: int) -> None:
    check_positive("tolerance", tolerance)
    check_whole("max_iterations", max_iterations, 1)
    check_whole("memory", memory, 0, "; 0 is plain EM")


class Ellipses(NamedTuple):
    """Outlines at one number of standard deviations about the positions; each of shape (n_rows,)."""

    major: Floats  # semi-axes, in units of the map
    minor: Floats
    angle: Floats  # of the major axis against the first dimension, degrees in (-90, 90]


@dataclass(frozen=True, eq=False, repr=False)
class LatentMap:
    """Rows of binary data in a few dimensions.

    Attributes
    ----------
    positions : ndarray of float, shape (n_rows, k)
        Posterior mean of each row, in the order of the source. A priori a position is standard normal.
    covariances : ndarray of float, shape (n_rows, k, k)
        Of the positions given the loadings; too small where ``fit.spacing`` is None, as of every such bound.
    fit : LatentTrait
        The model: names and loadings of the columns, the likelihood or the bound on it.
    """

    positions: Floats
    covariances: Floats
    fit: LatentTrait

    @property
    def sd(self) -> Floats:
        """Standard deviations of the positions, shape (n_rows, k)."""
        return np.asarray(np.sqrt(np.einsum("tii->ti", self.covariances)))

    def ellipses(self, n_sd: float = 1.0) -> Ellipses:
        """Outline of each row's position at ``n_sd`` standard deviations; 1 holds 39% of a Gaussian, 2.45 holds 95%.

        Raises
        ------
        ArgumentError
            If the map has not two dimensions, or ``n_sd`` is not above 0.
        """
        if self.positions.shape[1] != 2:
            raise ArgumentError(f"the map has n_components={self.positions.shape[1]}; ellipses need 2")
        if not 0 < n_sd < np.inf:
            raise ArgumentError(f"n_sd is {n_sd!r}; it must be above 0 and finite")
        variances, axes = np.linalg.eigh(self.covariances)  # increasing
        major = axes[:, :, 1]
        angle = np.degrees(np.arctan2(major[:, 1], major[:, 0]))
        angle = -((90 - angle) % 180 - 90)
        minor_length, major_length = n_sd * np.sqrt(np.maximum(variances, 0)).T
        return Ellipses(major_length, minor_length, angle)

    def __repr__(self) -> str:
        n_rows, k = self.positions.shape
        return f"<LatentMap(n_rows={n_rows}, n_components={k}, n_columns={len(self.fit.names)})>"


def latent_map(data: Any, n_components: int = 2, **options: Any) -> LatentMap:
    """Place the rows of binary data in a few dimensions, so that rows that answer alike lie close.

    Parameters
    ----------
    data : Table, frame, path, or array_like, shape (n_rows, p)
        Two states a column; missing cells are integrated out. Columns that are to be compared with the map, not
        explained by it, are left out first: ``table.select([...])``.
    n_components : int, default=2
        Dimensions, at most p.
    **options
        As `fit_latent_trait` takes them: ``counts``, ``likelihood``, ``prior_scale``, ``tolerance``,
        ``max_iterations``, ``memory``.

    Returns
    -------
    LatentMap
        The first dimension explains most. Signs are fixed by the loadings, whose largest entry in each dimension is
        positive.

    Raises
    ------
    ArgumentError, ArgumentTypeError, TableError
        As `fit_latent_trait` does.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("house_votes")
    >>> votes = latent_map(table.select(table.names[1:]))
    >>> votes
    <LatentMap(n_rows=435, n_components=2, n_columns=16)>
    >>> party = table.codes[table.row_index, 0]
    >>> [float(votes.positions[party == k, 0].mean().round(2)) for k in (0, 1)]
    [-0.6, 0.96]
    """
    source = opened(data)
    fit = fit_latent_trait(source, n_components, **options)
    found = fit.posterior(source)
    return LatentMap(found.mean, found.covariance, fit)

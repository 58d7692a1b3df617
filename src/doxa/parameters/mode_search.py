r"""Where modes can still be: upper bounds of the posterior's mass in boxes, until little is left away from known modes.

De Freitas et al. (2001, section 6) ask for lower and upper variational bounds together, to locate modes.  Ascents and
wide draws can miss a mode that is far and narrow; a bound cannot.  Over a box of parameters the log density lies below
its tangent plane and what the Gaussian prior takes off, plus a constant for the sums over hidden values
(`LogisticLikelihood.above_tangent`), and the exponential of that has an integral in closed form: a product over the
axes of the whitened prior.  Quadratics that touch the log density from below give lower bounds, in sum of the evidence.

The box with the largest bound is cut in two, again and again; those inside the neighbourhood of a known mode only to
close in on the evidence.  Where bounds stay large ascents begin.  When all that is left is below a share of the
evidence, no mode with more of the posterior has been missed: a proof, up to rounding.  The number of boxes grows
exponentially with the parameters, so that `doxa.fit` does not search by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri_exp

from doxa.arrays import Floats
from doxa.checks import check_positive, check_whole
from doxa.errors import ArgumentError
from doxa.models.logistic_rows import all_configurations
from doxa.parameters.joint_target import JointTarget
from doxa.parameters.kernels.gaussians import Centred
from doxa.parameters.kernels.kernel import ValueAndGradient
from doxa.parameters.population import Mode, find_modes
from doxa.parameters.variational.bound import lambda_of
from doxa.parameters.variational.evidence_bracket import log_normal_mass

__all__ = ["ModeSearch", "search_modes"]

_TAIL = 0.01  # of what may be left, for what lies beyond the first box
_AT_ONCE = 256  # boxes cut in a round, at most
_ASCENTS = 2  # of each kind at a time
_APART = 3.0  # standard deviations between their starts, along some axis
_STEP = 1e-5  # for the derivative of a log integral
_MOST = 10  # parameters, so that corners can be listed
_CELLS = 2**20  # numbers held at once
_ENOUGH = 0.25  # of the evidence that its bounds near the modes may leave open


class ModeSearch(NamedTuple):
    """What a search found, and what it can promise."""

    modes: tuple[Mode, ...]  # new ones
    away: float  # at most this share of the posterior lies away from known and new modes; 1 promises nothing
    share: float  # what was asked for
    log_evidence: float  # lower bound, nats
    starts: Floats  # (n, d), in the heaviest boxes that are left, apart from each other
    n_boxes: int  # whose masses were bounded

    @property
    def certified(self) -> bool:
        """Whether at most the share asked for lies away from the modes."""
        return self.away <= self.share


def search_modes(
    target: JointTarget,
    gaussians: Sequence[Centred] = (),
    *,
    share: float = 0.01,
    boxes: int = 20_000,
    radius: float = 6.0,
) -> ModeSearch:
    """Locate modes of a posterior with hidden values, or prove that none of weight is missing.

    Parameters
    ----------
    target : JointTarget
        Of few parameters: tens of thousands of boxes prove something for one or two, hundreds of thousands for three;
        with more only modes are located.
    gaussians : sequence of Centred, optional
        Around the modes that are known; an ascent from the prior's mean when left out.
    share : float, default=0.01
        Of the posterior, below 1: the search ends when no more lies away from the modes for certain.
    boxes : int, default=20000
        At most about so many boxes are bounded.
    radius : float, default=6.0
        Whatever lies within so many standard deviations of one of the Gaussians, or of a new mode by the curvature
        there, is not away.

    Returns
    -------
    ModeSearch
        No random numbers are used: the same call has the same answer.

    Raises
    ------
    ArgumentError
        If an argument is out of range, the parameters are more than ten, or the scale of the prior is learned.

    Examples
    --------
    >>> from doxa import LogisticNetwork, Table
    >>> from doxa.models.logistic_parts import independent_parts
    >>> network = LogisticNetwork({"y": ["h"]}, bias=1.0, prior_scale=2.0, roots={"h": 0.3})
    >>> table = Table.from_codes(["y"], [["0", "1"]], [[0]] * 30 + [[1]] * 10)
    >>> target = JointTarget(network, independent_parts(network, table)[0], table)
    >>> found = search_modes(target, find_modes(target, np.array([[3.0]])))
    >>> found.modes[0].mean.round(2).tolist(), found.certified
    ([-3.8], True)
    """
    boxes = check_whole("boxes", boxes, 1)
    _check(target, share, radius)
    found = list(gaussians) or find_modes(target, target.prior_spread[0][None])
    search = _Search(target, found, share, radius)
    ascend_at = _AT_ONCE
    while not search.finished and search.n_boxes < boxes:
        search.cut()
        if search.n_boxes >= ascend_at:
            search.ascend()
            ascend_at *= 2
    search.ascend()
    away = float(np.exp(min(0.0, search.log_away - search.log_evidence)))
    starts = search.surface.outer(search.starts())
    new = search.modes if gaussians else [*found, *search.modes]
    return ModeSearch(tuple(new), away, share, search.log_evidence, starts, search.n_boxes)


def _check(target: JointTarget, share: float, radius: float) -> None:
    check_positive("radius", radius)
    if not 0 < share < 1:
        raise ArgumentError(f"share is {share!r}; it must be above 0 and below 1")
    if target.packing.scales:
        raise ArgumentError(
            "target has a learned scale of the prior, and bounds need a given one: prior_scale=10.0, say"
        )
    if target.n_dimensions > _MOST:
        raise ArgumentError(
            f"target has {target.n_dimensions} parameters; boxes can be searched for up to {_MOST}, and prove "
            "something for up to three: ascend from more starts instead, by find_modes"
        )


class _Boxes(NamedTuple):
    """Boxes in coordinates in which the Gaussian prior is standard normal, with bounds of their log masses."""

    low: Floats  # (n, d)
    high: Floats
    point: Floats  # (n, d), where the tangent plane of the upper bound touches
    above: Floats  # (n,)
    below: Floats
    near: NDArray[np.bool_]  # wholly in the neighbourhood of one mode

    def take(self, chosen: NDArray[np.intp]) -> _Boxes:
        return _Boxes(*(array[chosen] for array in self))  # type: ignore[arg-type]

    @property
    def open(self) -> Floats:
        """Log of what cutting a box can gain: all of its bound away from modes; what bounds leave open near them."""
        return np.where(
            self.near, self.above + np.log(-np.expm1(np.minimum(self.below - self.above, -1e-12))), self.above
        )


class _Search:
    """The state of a search: known modes, and the boxes of which the parameters' space is made up."""

    def __init__(self, target: JointTarget, known: Sequence[Centred], share: float, radius: float) -> None:
        self.target, self.known, self.share, self.radius = target, list(known), share, radius
        self.modes: list[Mode] = []
        self.tried: list[Floats] = []
        self.surface = _Surface(target)
        self.first = max(self.surface.evidence_below(one.mean) for one in known)
        self.tail = float(np.log(_TAIL * share) + self.first)
        self.lengths = self.surface.lengths(known[0].mean)
        self.n_boxes = 0
        edges = self.surface.edges(self.tail)
        self.boxes = self.bounded(-edges[None], edges[None], np.zeros((1, edges.size)))

    @property
    def log_evidence(self) -> float:
        """Lower bound."""
        return max(self.first, float(logsumexp(self.boxes.below)))

    @property
    def log_away(self) -> float:
        """Upper bound of the log mass away from the modes."""
        return float(np.logaddexp(self.tail, logsumexp(self.boxes.above, b=~self.boxes.near)))

    @property
    def finished(self) -> bool:
        """Whether little enough is left."""
        return bool(self.log_away <= np.log(self.share) + self.log_evidence)

    def cut(self) -> None:
        """Halve the boxes that gain most, along the axis that is longest in units of its standard deviation."""
        boxes, gain = self.boxes, self.boxes.open
        if logsumexp(gain, b=boxes.near) < np.log(_ENOUGH) + self.log_evidence:
            gain = np.where(boxes.near, -np.inf, gain)
        order = np.argsort(-gain)
        enough = np.log(self.share / len(gain)) + self.log_evidence  # all that gain more must be cut some time
        n = min(_AT_ONCE, max(1, int((gain > enough).sum())))
        parents = boxes.take(order[:n])
        axis = ((parents.high - parents.low) / self.lengths).argmax(axis=1)
        rows, middle = np.arange(n), (parents.low + parents.high) / 2
        low, high = parents.low.copy(), parents.high.copy()
        high[rows, axis] = low[rows, axis] = middle[rows, axis]
        lows, highs = np.concatenate([parents.low, low]), np.concatenate([high, parents.high])
        halves = self.bounded(lows, highs, np.tile(parents.point, (2, 1)))
        self.boxes = _Boxes(*(np.concatenate(pair) for pair in zip(boxes.take(order[n:]), halves, strict=True)))

    def bounded(self, low: Floats, high: Floats, point: Floats) -> _Boxes:
        """Bound the masses of boxes; never above what tangents at the points given would have."""
        self.n_boxes += len(low)
        step = max(1, _CELLS // (self.surface.size * 2 ** low.shape[1]))
        parts = [slice(k, k + step) for k in range(0, len(low), step)]
        found = [self.surface.bounds(low[part], high[part], point[part]) for part in parts]
        points, above, below = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        near = np.concatenate([self.near(low[part], high[part], self.known) for part in parts])
        return _Boxes(low, high, points, above, below, near)

    def ascend(self) -> None:
        """Ascend from heavy boxes not ascended from before, and keep modes that lie away from those known."""
        starts = self.starts(self.tried)
        self.tried += list(starts)
        for mode in find_modes(self.target, self.surface.outer(starts)):
            if all(_distances(one, mode.mean[None])[0] > self.radius for one in self.known):
                self.modes.append(mode)
                self.known.append(mode)
                self.first = max(self.first, self.surface.evidence_below(mode.mean))
                near = self.boxes.near | self.near(self.boxes.low, self.boxes.high, [mode])
                self.boxes = self.boxes._replace(near=near)

    def starts(self, tried: Sequence[Floats] = ()) -> Floats:
        """Whitened points (n, d) apart from each other, in boxes away from the modes.

        Those of most mass and of most density by their bounds in turn: the tail of a known mode has more mass than a
        narrow mode, and less density.
        """
        boxes = self.boxes.take(np.flatnonzero(~self.boxes.near))
        points = np.clip(boxes.point, boxes.low, boxes.high)
        free = np.ones(len(points), dtype=np.bool_)
        for one in self.known:
            free &= _distances(one, self.surface.outer(points)) > self.radius
        for point in tried:
            free &= self._apart(points, point)
        found: list[Floats] = []
        density = boxes.above - np.log(boxes.high - boxes.low).sum(axis=1)
        for weight in _ASCENTS * (boxes.above, density):
            if free.any():
                found.append(points[np.where(free, weight, -np.inf).argmax()])
                free &= self._apart(points, found[-1])
        return np.array(found).reshape(-1, points.shape[1])

    def _apart(self, points: Floats, point: Floats) -> NDArray[np.bool_]:
        return np.asarray((np.abs(points - point) > _APART * self.lengths).any(axis=1))

    def near(self, low: Floats, high: Floats, known: Sequence[Centred]) -> NDArray[np.bool_]:
        """Whether a box lies wholly near one mode: as distance is convex, whether its corners do."""
        n, d = low.shape
        upper = all_configurations(d).astype(bool)
        corners = self.surface.outer(np.where(upper, high[:, None], low[:, None]).reshape(-1, d))
        found = np.zeros(n, dtype=np.bool_)
        for one in known:
            found |= (_distances(one, corners) <= self.radius).reshape(n, -1).all(axis=1)
        return found


class _Surface:
    """The log density in whitened coordinates, with planes above and quadratics below."""

    def __init__(self, target: JointTarget) -> None:
        self.target = target
        self.size = max(1, 4 * target.likelihood.n_configurations)
        self.mean, prior = target.prior_spread
        self.normal = np.ones(target.n_dimensions, dtype=np.bool_)
        for node in target.packing.roots:
            self.normal[target.packing.place[node]] = False
        self.root = np.where(self.normal, prior, np.eye(target.n_dimensions))  # logits of roots stay as they are
        self.axes = {node: self.root[place, place] for node, place in target.packing.place.items()}

    def outer(self, points: Floats) -> Floats:
        """Parameters of whitened points."""
        return np.asarray(self.mean + points @ self.root.T)

    def edges(self, log_tail: float) -> Floats:
        """Half-widths (d,) of a box around 0 beyond which the prior, and so prior times likelihood, has little mass."""
        log_each = log_tail - np.log(2 * self.normal.size)
        return np.asarray(np.where(self.normal, -ndtri_exp(log_each), -log_each))  # a logistic tail is below exp(-x)

    def lengths(self, theta: Floats) -> Floats:
        """Standard deviations (d,) at a point, by which the axes are compared."""
        return np.asarray(1 / np.sqrt(np.diag(self._precision(theta[None])[0])))

    def evidence_below(self, theta: Floats) -> float:
        """Lower bound of the log evidence: the integral of a quadratic that touches the log density at a point."""
        value, gradient = self._density(theta[None])
        precision = self._precision(theta[None])[0]
        rise = float(gradient[0] @ np.linalg.solve(precision, gradient[0]))
        size = theta.size * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1]
        return float(value[0] + 0.5 * (rise + size))

    def bounds(self, low: Floats, high: Floats, point: Floats) -> tuple[Floats, Floats, Floats]:
        """Of a few points of each box that where the tangent plane is best, and log bounds from above and below."""
        best, above, mean = point, *self._above(low, high, point)
        middle = (low + high) / 2
        for attempt in (middle, None, None):
            point = mean if attempt is None else attempt
            new, there = self._above(low, high, point)
            better = new < above
            best, above = np.where(better[:, None], point, best), np.where(better, new, above)
            mean = there
        return best, above, np.minimum(above, self._below(low, high, middle))

    def _below(self, low: Floats, high: Floats, point: Floats) -> Floats:
        """Log lower bounds: of a quadratic, the matrix of which is below the diagonal of its absolute row sums."""
        value, gradient = self._density(self.outer(point))
        scale = np.sqrt(np.abs(self._precision(self.outer(point))).sum(axis=2))
        slope = gradient / scale
        mass = log_normal_mass((low - point) * scale - slope, (high - point) * scale - slope)
        mass += 0.5 * slope**2 + 0.5 * np.log(2 * np.pi) - np.log(scale)
        return np.asarray(value + mass.sum(axis=1))

    def _above(self, low: Floats, high: Floats, point: Floats) -> tuple[Floats, Floats]:
        """Log upper bounds from tangents at the points, and the means of the bounding densities."""
        thetas = self.outer(point)
        value, gradient = self._density(thetas)
        reach = np.maximum(np.abs(low - point), np.abs(high - point))
        places = self.target.packing.place
        parameters = self.target.packing.unpack(thetas)
        rise = self.target.likelihood.above_tangent(
            parameters, self.axes, {node: reach[:, place] for node, place in places.items()}
        )
        log_mass = self._log_integral(gradient, low - point, high - point)
        more = self._log_integral(gradient + _STEP, low - point, high - point)
        mean = np.clip(point + (more - log_mass) / _STEP, low, high)
        return np.asarray(value + rise + log_mass.sum(axis=1)), mean

    def _density(self, thetas: Floats) -> ValueAndGradient:
        """Of the whitened points."""
        value, gradient = self.target.value_and_gradient(thetas)
        return ValueAndGradient(value + np.log(np.diag(self.root)).sum(), gradient @ self.root)

    def _log_integral(self, slope: Floats, low: Floats, high: Floats) -> Floats:
        """Of exp(slope x - x^2 / 2) from low to high on axes of the Gaussian prior, of exp(slope x) on the others."""
        found = np.empty(low.shape)
        on = self.normal
        a = slope[:, on]
        found[:, on] = log_normal_mass(low[:, on] - a, high[:, on] - a) + 0.5 * a**2 + 0.5 * np.log(2 * np.pi)
        half = (high[:, ~on] - low[:, ~on]) / 2
        size = np.maximum(np.abs(slope[:, ~on] * half), 1e-8)
        sinhc = size + np.log(-np.expm1(-2 * size)) - np.log(2 * size)
        found[:, ~on] = slope[:, ~on] * (high[:, ~on] + low[:, ~on]) / 2 + np.log(2 * half) + sinhc
        return found

    def _precision(self, thetas: Floats) -> Floats:
        """Of quadratics, of whitened points, below the log density that touch it at the points, shape (n, d, d)."""
        packing = self.target.packing
        blocks = self.target.likelihood.touching_precision(packing.unpack(thetas))
        found = np.zeros((len(thetas), *self.root.shape))
        found += np.diag(self.normal)
        for node, place in packing.place.items():
            axes = self.axes[node]
            found[:, place, place] += axes.T @ blocks[node] @ axes
        roots = np.flatnonzero(~self.normal)
        found[:, roots, roots] += 4 * lambda_of(thetas[:, roots])  # Beta(1, 1) in its logit: log g(x) + log g(-x)
        return found


def _distances(one: Centred, thetas: Floats) -> Floats:
    """In standard deviations of a mode, shape (n,)."""
    return np.asarray(np.sqrt((np.linalg.solve(one.cholesky, (thetas - one.mean).T) ** 2).sum(axis=0)))

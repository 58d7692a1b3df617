r"""`CoefficientPosterior`: the coefficients of one logistic family given its counts, drawn and averaged.

**Draws** are independent, by rejection.  A draw t of Student's law with 6 degrees of freedom is moved as the nodes of
`doxa.structure.families.logistic.evidence` are, by the map that makes a normal as wide as the posterior on both sides
of every axis; it is kept with probability w(t) / M, where w is the posterior's density over that of what was moved.
The posterior falls as the prior does, as a normal, so that w has a largest value.  Which it is no formula says: M is
twice the largest w of 1024 fixed points, and of four times as many, again and again, as long as of the second half of
them some exceed twice the largest of the first by more than 1e-5 of the whole.  Where w exceeds M all the same the
draws have the density of M instead, and are too rare by the excess: their law is at a total variation distance from the
posterior of at most

.. math:: \delta = E[(w - M)_+] / E[w].

The proposals say how large it is (``excess``), and more than a twentieth is an error.

**Means** of probabilities are ratios of sums over the nodes of the evidence, weights times g(logit) over weights.  A
small one that these do not find is the evidence with one more case of its kind over the evidence: both are integrated
where they are large.

Loops over the coefficients of one logistic family: which weights occur, exact draws, mean probabilities.

All of them work on the law that `doxa.structure.families.logistic.evidence.choose_law` left in ``work``: at the point
that a standard normal z is moved to, `weigh` says how many times denser the posterior is than that law, up to a
constant.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Flags, Floats
from doxa.models.bits import pack_rows
from doxa.structure.exact.dag_sums import PrecisionError
from doxa.structure.families.logistic.evidence import Family, choose_law, weigh
from doxa.structure.families.logistic.softplus import log_one_logit
from doxa.structure.families.logistic.work import (
    CHUNK,
    LEVELS,
    REPLICATES,
    LogisticWork,
    Nodes,
    gather_cells,
    logistic_work,
)

__all__ = ["FREEDOM", "CoefficientPosterior", "accept", "largest_weight", "log_tables_of", "sum_probabilities"]

FREEDOM = 6.0  # degrees of freedom


@hot
def largest_weight(safety: float, family: Family, work: LogisticWork) -> tuple[float, float, float]:
    """Largest weights of the first and of the second half of the nodes of ``work``; ``family`` as `weigh` takes it.

    The third number is the share of the second half's weights that lies above ``safety`` times the first's largest.
    """
    n = work.nodes.value.shape[1]
    most_first, most_second, total, excess = 0.0, 0.0, 0.0, 0.0
    for first in range(0, n, CHUNK):
        last = min(first + CHUNK, n)
        weigh(first, last, family, work, FREEDOM)
        for p in range(last - first):
            weight = work.weights[p]
            if 2 * (first + p) < n:
                most_first = max(most_first, weight)
            else:
                most_second = max(most_second, weight)
                total += weight
                excess += max(weight - safety * most_first, 0.0)
    return most_first, most_second, excess / total if total > 0.0 else 1.0


@hot
def accept(
    each: int, uniforms: Floats, bound: float, family: Family, work: LogisticWork, found: Flags, coefficients: Floats
) -> tuple[float, float]:
    """Take for every draw the first of its ``each`` proposals that rejection lets through.

    The proposals are the nodes of ``work``, ``each`` for a draw, with a uniform number for each.  Returns the sum of
    the weights, and of what they exceed ``bound`` by.
    """
    n_parents, scale = family[1], family[2]
    total, excess, n = 0.0, 0.0, work.nodes.value.shape[1]
    for first in range(0, n, CHUNK):
        last = min(first + CHUNK, n)
        weigh(first, last, family, work, FREEDOM)
        for p in range(last - first):
            weight = work.weights[p]
            total += weight
            excess += max(weight - bound, 0.0)
            k = (first + p) // each
            if not found[k] and uniforms[first + p] * bound < weight:
                found[k] = True
                for i in range(n_parents + 1):
                    coefficients[k, i] = scale * work.moved[i, p]
    return total, excess


@hot
def sum_probabilities(n_nodes: int, family: Family, work: LogisticWork, sums: Floats, shares: Floats) -> None:
    """Sums of weights, and of weights times P(second state), over each part of the nodes.

    ``sums`` (n_parts,) and ``shares`` (n_parts, 2**n_parents), the last parent varying fastest, are 0 before.
    """
    n_parents, scale = family[1], family[2]
    n_parts, logits = sums.size, work.logits
    for first in range(0, n_nodes, CHUNK):
        last = min(first + CHUNK, n_nodes)
        weigh(first, last, family, work, 0.0)
        for p in range(last - first):
            sums[(first + p) * n_parts // n_nodes] += work.weights[p]
        for c in range(shares.shape[1]):
            for p in range(last - first):
                logits[p] = work.moved[0, p]
            for j in range(n_parents):
                sign = 1.0 if c >> (n_parents - 1 - j) & 1 else -1.0
                for p in range(last - first):
                    logits[p] += sign * work.moved[j + 1, p]
            for p in range(last - first):
                share = work.weights[p] / (1.0 + math.exp(-scale * logits[p]))
                shares[(first + p) * n_parts // n_nodes, c] += share


_PROBES, _MOST_PROBES = 2**10, 2**18
_PROBE_SEED = 2002
_SAFETY, _UNSEEN = 2.0, 1e-5
_MOST_WORK = 4e7  # cells times probes, after which no more are tried: a fifth of a second
_WRONG = 0.05  # excess beyond which draws are refused
_FIRST_EACH, _MOST_EACH = 4, 64  # proposals for a draw at once: in the first round, and the most
_MOST_PROPOSALS = 2**17  # for a draw
_MOST_RATIOS = 256  # means that are found as ratios of evidences
_probes: dict[tuple[int, int], Nodes] = {}
_lock = threading.Lock()


class CoefficientPosterior:
    """The posterior of bias and coefficients of a logistic family, states coded -1 and +1.

    Parameters
    ----------
    codes : ndarray of int, shape (n_cells, 1 + n_parents)
        States of the child and of its parents, 0 or 1.
    times : ndarray of int, shape (n_cells,)
        Cases of each.
    sizes : sequence of int
        Numbers of states of the parents, 1 or 2; those with a single state have a coefficient of 0.
    prior_scale : float
        Standard deviation of the normal prior of every coefficient.
    tolerance : float, default=0.01
        Standard error (nats) to which the log evidence is refined, and the logs of mean probabilities.

    Attributes
    ----------
    log_evidence, error : float
        Nats, and its standard error.
    error_of_probabilities : float
        Of the last `probabilities`: the largest standard error of the log of a mean or of its complement.

    Examples
    --------
    >>> codes, times = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]), np.array([30, 10, 5, 25])
    >>> posterior = CoefficientPosterior(codes, times, [2], 2.0)
    >>> draws = posterior.draws(4000, lambda number: np.random.default_rng((1, number)))
    >>> draws.shape, draws.mean(axis=0).round(1)
    ((4000, 2), array([0.3, 1.4]))
    >>> posterior.probabilities().round(2)
    array([0.25, 0.83])
    """

    def __init__(
        self,
        codes: NDArray[np.integer],
        times: NDArray[np.integer],
        sizes: Sequence[int],
        prior_scale: float,
        tolerance: float = 0.01,
    ) -> None:
        self.prior_scale, self.tolerance = prior_scale, tolerance
        self.varying = [1 + j for j, size in enumerate(sizes) if size == 2]
        self._n_coefficients = 1 + len(sizes)
        self._columns = np.ascontiguousarray(codes[:, [0, *self.varying]].T, dtype=np.int16)
        self._weights = np.array(times, dtype=np.int64)
        self.error_of_probabilities = 0.0
        self._proposed = self._total = self._excess = self._kept = 0.0
        work, self._n_cells = self._gathered()
        self.log_evidence, self.error, self._n_nodes, peak = choose_law(
            self._n_cells, len(self.varying), prior_scale, tolerance, self._columns, work
        )
        d = 1 + len(self.varying)
        self._fixed = (self._n_cells, len(self.varying), prior_scale, peak, self._columns)
        self._law = (work.mean[:d].copy(), work.frame[:d, :d].copy(), work.centre[:d].copy(), work.tilt[:d].copy())
        self._bound = 0.0

    @property
    def acceptance(self) -> float:
        """Share of the proposals that were kept so far; nan before the first."""
        return self._kept / self._proposed if self._proposed else np.nan

    @property
    def excess(self) -> float:
        """Total variation distance of the draws' law from the posterior, at most, as their proposals measure it."""
        return self._excess / self._total if self._total else np.nan

    def draws(self, n: int, stream: Callable[[int], np.random.Generator]) -> Floats:
        """Independent draws of bias and coefficients.

        Parameters
        ----------
        n : int
            Draw k is the same whatever ``n`` is.
        stream : callable
            A fresh generator for each number, the same for the same number.

        Returns
        -------
        ndarray of float, shape (n, 1 + n_parents)

        Raises
        ------
        PrecisionError
            If 2**17 proposals for a draw are too few, or the excess is above 0.05.
        """
        work = self._settled()
        self._bound = self._bound or self._find_bound(work)
        d = 1 + len(self.varying)
        found, places = np.zeros((n, self._n_coefficients)), np.array([0, *self.varying])
        waiting, number, proposed = np.arange(n), 0, 0
        while waiting.size:
            if proposed > _MOST_PROPOSALS:
                raise PrecisionError(
                    f"{waiting.size} of {n} draws of {d} coefficients found no place in {proposed} proposals each; "
                    f"{self._easier}"
                )
            each = min(_FIRST_EACH ** (1 + number), _MOST_EACH)
            z, uniforms = _student(stream, number, int(waiting[-1]) + 1, each, d)
            z, uniforms = z[waiting].reshape(-1, d), uniforms[waiting].ravel()
            is_found, drawn = np.zeros(waiting.size, dtype=np.bool_), np.zeros((waiting.size, d))
            proposals = work._replace(nodes=_nodes_of(z))
            total, excess = accept(each, uniforms, self._bound, self._fixed, proposals, is_found, drawn)
            found[waiting[is_found, None], places] = drawn[is_found]
            self._proposed += uniforms.size
            self._kept += total / self._bound
            self._total += total
            self._excess += excess
            waiting = waiting[~is_found]
            number, proposed = number + 1, proposed + each
        if self.excess > _WRONG and self._proposed >= _PROBES:
            raise PrecisionError(
                f"draws of {d} coefficients are off by up to {self.excess:.2g} in probability; {self._easier}"
            )
        return found

    def probabilities(self) -> Floats:
        """Posterior mean of P(second state) in each configuration of the parents, shape (n_configurations,)."""
        if len(self.varying) <= 1:
            deviation = self.prior_scale * np.sqrt(1.0 + len(self.varying))
            counts = np.zeros((2 ** len(self.varying), 2))
            np.add.at(counts, (self._columns[1:].sum(axis=0), self._columns[0]), self._weights)
            logs = [
                log_one_logit(b + 1, a + b + 1, deviation)[0] - log_one_logit(b, a + b, deviation)[0]
                for a, b in counts.tolist()
            ]
            return np.exp(logs)
        means, errors = self._means_over_nodes(max(self._n_nodes, LEVELS[0]))
        poor = np.flatnonzero(errors > self.tolerance)
        for k in poor[np.argsort(-errors[poor], kind="stable")][:_MOST_RATIOS].tolist():
            state = int(means[k] < 0.5)  # the rarer
            with_one = self._with_case(k, state)
            ratio = np.exp(with_one.log_evidence - self.log_evidence)
            means[k], errors[k] = ratio if state else 1.0 - ratio, np.hypot(with_one.error, self.error)
        self.error_of_probabilities = float(errors.max())
        return means

    def _means_over_nodes(self, n_nodes: int) -> tuple[Floats, Floats]:
        """Means over so many nodes, and standard errors of the logs of these or, where larger, of their complements."""
        sums, shares = np.zeros(REPLICATES), np.zeros((REPLICATES, 2 ** len(self.varying)))
        sum_probabilities(n_nodes, self._fixed, self._settled(), sums, shares)
        means: Floats = shares.sum(axis=0) / sums.sum()
        spread = (shares - means * sums[:, None]) / sums.mean()
        errors = np.sqrt((spread**2).sum(axis=0) / (REPLICATES * (REPLICATES - 1)))
        return means, errors / np.minimum(means, 1 - means)

    def _with_case(self, configuration: int, state: int) -> CoefficientPosterior:
        """The same with one more case."""
        case = [state, *(int(bit) for bit in np.binary_repr(configuration, len(self.varying)))]
        codes, times = np.vstack([self._columns.T, case]), np.append(self._weights, 1)
        return CoefficientPosterior(codes, times, [2] * len(self.varying), self.prior_scale, self.tolerance)

    def _find_bound(self, work: LogisticWork) -> float:
        """Twice the largest weight of so many fixed points that half of them would have found it."""
        n, d = _PROBES, 1 + len(self.varying)
        while True:
            probes = work._replace(nodes=_probes_for(d, n))
            first, most, excess = largest_weight(_SAFETY, self._fixed, probes)
            if excess <= _UNSEEN or 4 * n > _MOST_PROBES or 4 * n * self._n_cells > _MOST_WORK:
                return _SAFETY * max(first, most)
            n *= 4

    @property
    def _easier(self) -> str:
        return f"a smaller prior_scale than {self.prior_scale:g}, or fewer parents, make this easier"

    def _gathered(self) -> tuple[LogisticWork, int]:
        n_columns = len(self._columns)
        work = logistic_work(len(self._weights), n_columns)
        sizes = np.full(n_columns, 2, dtype=np.int64)
        parents = pack_rows(np.arange(n_columns) > 0)
        n_cells, _ = gather_cells(0, parents, (self._columns, self._weights, sizes), work)
        return work, n_cells

    def _settled(self) -> LogisticWork:
        """Work space with the cells and the law in it."""
        work, _ = self._gathered()
        d = 1 + len(self.varying)
        work.mean[:d], work.frame[:d, :d], work.centre[:d], work.tilt[:d] = self._law
        return work


def log_tables_of(coefficients: Floats, sizes: Sequence[int]) -> Floats:
    """Log of the tables that coefficients stand for.

    Parameters
    ----------
    coefficients : ndarray of float, shape (n, 1 + n_parents)
    sizes : sequence of int
        Numbers of states of the parents, 1 or 2.

    Returns
    -------
    ndarray of float, shape (n, n_configurations, 2)
        Nats; the last parent varies fastest.

    Examples
    --------
    >>> np.exp(log_tables_of(np.array([[0.0, 1.0]]), [2])).round(3)[0]
    array([[0.731, 0.269],
           [0.269, 0.731]])
    """
    logits = coefficients[:, :1]
    for j, size in enumerate(sizes):
        if size == 2:
            own = coefficients[:, 1 + j, None, None]
            logits = (logits[:, :, None] + own * np.array([-1.0, 1.0])).reshape(len(logits), -1)
    return -np.logaddexp(0.0, np.stack([logits, -logits], axis=-1))


def _student(
    stream: Callable[[int], np.random.Generator], number: int, n: int, each: int, d: int
) -> tuple[Floats, Floats]:
    """Draws (n, each, d) of the Student law and uniforms (n, each): rows are the same whatever ``n``."""
    normals, rest = stream(2 * number), stream(2 * number + 1)
    z = normals.standard_normal((n, each, d))
    uniform = rest.random((n, each, 1 + int(FREEDOM) // 2))
    chi_square = -2.0 * np.log1p(-uniform[..., 1:]).sum(axis=-1)  # of an even number of degrees of freedom
    z *= np.sqrt(FREEDOM / chi_square)[..., None]
    return z, uniform[..., 0]


def _nodes_of(z: Floats) -> Nodes:
    value = np.ascontiguousarray(z.T)
    return Nodes(value, np.sqrt(1.0 + value * value) - 1.0, np.array([len(z)], dtype=np.int64))


def _probes_for(d: int, n: int) -> Nodes:
    with _lock:
        if (d, n) not in _probes:
            z, _ = _student(lambda number: np.random.default_rng((_PROBE_SEED, number)), 0, n, 1, d)
            _probes[d, n] = _nodes_of(z.reshape(-1, d))
        return _probes[d, n]

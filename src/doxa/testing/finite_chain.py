"""`FiniteChain`: a transition matrix, and everything that follows from it.

How fast a finite chain reaches its stationary distribution: by its eigenvalues, and by counting steps.

Linear equations of an irreducible chain by the elimination of Grassmann, Taksar & Heyman (1985).

It never subtracts, and so keeps its relative accuracy however rarely the chain moves between its parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.testing.checks import CommunicatingClass, LabelledChain, as_distribution, as_numbers, frozen


def eliminate(matrix: Floats) -> tuple[Floats, Floats]:
    """Watch an irreducible chain only on states 0..k-1, for k = n-1, ..., 1 (Grassmann, Taksar & Heyman 1985).

    Row k of the first array, up to its diagonal: moves from k of the chain that is watched on 0..k.  Column k, above:
    expected visits to k on each step from a lower state.  The second array: probability of leaving k downwards, summed
    rather than taken as 1 - P_kk, which is all the method does for its accuracy.
    """
    reduced, exits = matrix.copy(), np.ones(len(matrix))
    for k in range(len(matrix) - 1, 0, -1):
        exits[k] = reduced[k, :k].sum()
        reduced[:k, k] /= exits[k]
        reduced[:k, :k] += np.outer(reduced[:k, k], reduced[k, :k])
    return reduced, exits


def stationary_law(reduced: Floats) -> Floats:
    """The stationary distribution, from the first array of `eliminate`."""
    pi = np.ones(1)
    for k in range(1, len(reduced)):
        pi = np.append(pi, pi @ reduced[:k, k])
        pi /= pi.sum()  # so that it cannot overflow
    return pi


def poisson_solution(reduced: Floats, exits: Floats, centred: Floats) -> Floats:
    """Solve g - Pg = centred with g[0] = 0, by the same elimination.

    The second column is for rounding: what is left of the mean is found on the way, and taken off.
    """
    right = np.stack([centred, np.ones_like(centred)], axis=1)
    for k in range(len(reduced) - 1, 0, -1):
        right[:k] += np.outer(reduced[:k, k], right[k])
    g = np.zeros_like(right)
    for k in range(1, len(reduced)):
        g[k] = (right[k] + reduced[k, :k] @ g[:k]) / exits[k]
    solution: Floats = g[:, 0] - right[0, 0] / right[0, 1] * g[:, 1]
    return solution


REVERSIBLE = 1e-9  # relative: elimination gives each stationary probability to some n * 1e-16


def in_balance(pi: Floats, matrix: Floats) -> bool:
    """Does the stationary flow from x to y equal that from y to x, for every pair of states?"""
    flow = pi[:, None] * matrix
    return bool((np.abs(flow - flow.T) <= REVERSIBLE * np.maximum(flow, flow.T)).all())


def sorted_eigenvalues(matrix: Floats, classes: Iterable[CommunicatingClass]) -> NDArray[np.inexact[Any]]:
    """Eigenvalues, class by class, then sorted: largest modulus first."""
    values = np.concatenate([_class_eigenvalues(matrix, one) for one in classes])
    return values[np.lexsort((-values.real, -np.abs(values).round(12)))]


def _class_eigenvalues(matrix: Floats, one: CommunicatingClass) -> NDArray[np.inexact[Any]]:
    block = matrix[np.ix_(one.states, one.states)]
    if one.closed and in_balance(stationary_law(eliminate(block)[0]), block):
        return np.linalg.eigvalsh(np.sqrt(block * block.T))
    return np.linalg.eigvals(block)


def distances_by_step(matrix: Floats, stationary: Floats, laws: Floats, n_steps: int) -> Floats:
    """Distance from the stationary distribution after 0, 1, ..., ``n_steps`` steps, of the worst row of ``laws``."""
    distances = np.empty(n_steps + 1)
    for step in range(n_steps + 1):
        distances[step] = _distance(laws, stationary)
        laws = _row_normalised(laws @ matrix)
    return distances


def laws_after(matrix: Floats, laws: Floats, n_steps: int) -> Floats:
    """The rows of ``laws``, distributions, after that many steps: by squaring, rows kept at a sum of 1."""
    power, left = matrix, n_steps
    while left:
        if left % 2:
            laws = _row_normalised(laws @ power)
        left //= 2
        if left:
            power = _row_normalised(power @ power)
    return laws


def steps_to_mix(matrix: Floats, stationary: Floats, epsilon: float, max_steps: int) -> int:
    """First step at which all rows of the power are within ``epsilon``, of a chain that is known to converge."""
    if _distance(np.eye(len(matrix)), stationary) <= epsilon:
        return 0
    powers, steps = [matrix], 1  # of 1, 2, 4, ... steps
    while (distance := _distance(powers[-1], stationary)) > epsilon:
        if steps >= max_steps:
            raise ArgumentError(f"after {steps} steps the distance is still {distance:.3g}, above epsilon={epsilon}")
        powers.append(_row_normalised(powers[-1] @ powers[-1]))
        steps *= 2
    below, law = 0, np.eye(len(matrix))  # `below` steps are too few
    for exponent in range(len(powers) - 2, -1, -1):
        further = _row_normalised(law @ powers[exponent])
        if _distance(further, stationary) > epsilon:
            below, law = below + 2**exponent, further
    if below + 1 > max_steps:
        raise ArgumentError(f"the chain needs {below + 1} steps, above max_steps={max_steps}")
    return below + 1


def _distance(laws: Floats, stationary: Floats) -> float:
    """Largest total variation distance of the rows from the stationary distribution."""
    return 0.5 * float(np.abs(laws - stationary).sum(axis=1).max())


def _row_normalised(laws: Floats) -> Floats:
    scaled: Floats = laws / laws.sum(axis=1, keepdims=True)
    return scaled


@dataclass(frozen=True, eq=False, init=False)
class FiniteChain(LabelledChain):
    """A Markov chain on finitely many states, and all that follows from its matrix.

    Everything is computed when first asked for, and kept; the arrays cannot be written to.  Whatever rests on *the*
    stationary distribution is refused with an `ArgumentError` where several classes are closed, for then it is not
    unique; the message names the classes.  Transient states are welcome.

    Parameters
    ----------
    matrix : array of float, shape (n_states, n_states)
        ``[x, y]`` is the probability of y after x; rows sum to 1 (within 1e-9).  It is copied.
    labels : sequence of hashable, optional
        Names of the states, for the messages; 0, 1, ... when left out.

    Raises
    ------
    ArgumentError
        If the matrix is not square or not stochastic, or the labels do not name its states.

    Examples
    --------
    >>> weather = FiniteChain([[0.9, 0.1], [0.3, 0.7]], labels=["dry", "wet"])
    >>> weather.stationary
    array([0.75, 0.25])
    >>> weather.mixing_time(0.01)
    9
    """

    @cached_property
    def stationary(self) -> Floats:
        """The stationary distribution, 0 on transient states (definition 2), shape (n_states,).

        Notes
        -----
        By the elimination of Grassmann, Taksar & Heyman (1985), which never subtracts and never reads the diagonal: the
        relative error of every probability, however small, is rounding times a factor that depends on the number of
        states alone (O'Cinneide 1993), also where a chain changes sides once in 1e12 steps.

        Examples
        --------
        >>> FiniteChain([[1 - 1e-12, 1e-12], [3e-12, 1 - 3e-12]]).stationary
        array([0.75, 0.25])
        """
        states = self._closed_class("stationary distribution").states
        whole = np.zeros(self.n_states)
        whole[list(states)] = stationary_law(self._eliminated[0])
        return frozen(whole)

    @cached_property
    def _eliminated(self) -> tuple[Floats, Floats]:
        states = self._closed_class("stationary distribution").states
        return eliminate(self.matrix[np.ix_(states, states)])

    @cached_property
    def is_reversible(self) -> bool:
        """Does the stationary chain look the same in reverse: detailed balance, eq. 13?

        Flows are compared pair by pair, to 1e-9 relative to themselves.

        Examples
        --------
        >>> FiniteChain([[0.0, 0.9, 0.1], [0.1, 0.0, 0.9], [0.9, 0.1, 0.0]]).is_reversible
        False
        """
        return in_balance(self.stationary, self.matrix)

    @cached_property
    def eigenvalues(self) -> NDArray[np.inexact[Any]]:
        """Eigenvalues of the matrix, largest modulus first: 1 is among them once for every closed class.

        Class by class (the matrix is block triangular).  A reversible closed class goes through the symmetric matrix of
        sqrt(P_xy P_yx), so its eigenvalues are real and right to about 1e-15; others can lose digits where eigenvalues
        nearly coincide.

        Examples
        --------
        >>> FiniteChain([[0.9, 0.1], [0.3, 0.7]]).eigenvalues.round(12)
        array([1. , 0.6])
        """
        return frozen(sorted_eigenvalues(self.matrix, self.classes))

    @cached_property
    def rate_of_convergence(self) -> float:
        """The lambda of eq. 10: the distance from the stationary distribution falls like its t-th power.

        The second largest modulus of an eigenvalue; 1 when the chain is periodic, and so never converges.

        Examples
        --------
        >>> round(FiniteChain([[0.9, 0.1], [0.3, 0.7]]).rate_of_convergence, 12)
        0.6
        """
        if self._closed_class("rate of convergence").period != 1:
            return 1.0
        others = np.delete(self.eigenvalues, np.abs(self.eigenvalues - 1).argmin())
        return float(np.abs(others).max(initial=0.0).clip(max=1.0))

    @property
    def absolute_spectral_gap(self) -> float:
        """1 - `rate_of_convergence`: the gap that governs convergence, for any chain with one closed class.

        Its error is about 1e-15, so a gap of 1e-14 has no digits; `mixing_time` and `asymptotic_variance` have them.

        Examples
        --------
        >>> round(FiniteChain([[0.1, 0.9], [0.9, 0.1]]).absolute_spectral_gap, 12)
        0.2
        """
        return 1.0 - self.rate_of_convergence

    @property
    def spectral_gap(self) -> float:
        """1 - the second largest eigenvalue, of an irreducible reversible chain: the gap that governs averages.

        An eigenvalue near -1 keeps the chain from converging but does averages no harm, so this gap can be the larger
        one; it exceeds 1 when all other eigenvalues are negative.  With gap g, no function has an
        `asymptotic_variance` above its variance times (2 - g) / g.

        Raises
        ------
        ArgumentError
            If the chain is reducible or not reversible.

        Examples
        --------
        >>> round(FiniteChain([[0.1, 0.9], [0.9, 0.1]]).spectral_gap, 12)
        1.8
        """
        self._closed_class("spectral gap")
        if not self.is_irreducible:
            transient = [state for one in self.classes if not one.closed for state in one.states]
            raise ArgumentError(
                f"states {self._named(transient)} are transient, so the matrix cannot be made symmetric; "
                "leave them out with restricted_to, or take absolute_spectral_gap"
            )
        if not self.is_reversible:
            raise ArgumentError(
                "the chain is not reversible, so its eigenvalues need not be real; take absolute_spectral_gap"
            )
        return float(1.0 - np.sort(self.eigenvalues.real)[-2]) if self.n_states > 1 else 1.0

    def after(self, n_steps: int, start: int | ArrayLike | None = None) -> Floats:
        """Where the chain is after ``n_steps`` steps: the matrix of eq. 9, or a row of it.

        Parameters
        ----------
        n_steps : int
            At least 0.  Large numbers cost two matrix products for each doubling.
        start : int or array of float, shape (n_states,), optional
            A state or a distribution to begin from; each state in turn when left out.

        Returns
        -------
        ndarray of float, shape (n_states, n_states) or (n_states,)
            Row x is the distribution after a start at x; with ``start``, the distribution after it.

        Raises
        ------
        ArgumentError
            If an argument is not as stated.

        Examples
        --------
        >>> weather = FiniteChain([[0.9, 0.1], [0.3, 0.7]])
        >>> weather.after(2)
        array([[0.84, 0.16],
               [0.48, 0.52]])
        >>> weather.after(10**6, start=1)
        array([0.75, 0.25])
        """
        n = check_whole("n_steps", n_steps, 0)
        laws = np.eye(self.n_states) if start is None else np.atleast_2d(self._start(start))
        found = laws_after(self.matrix, laws, n)
        return found if start is None else found.reshape(self.n_states)

    def total_variation_by_step(self, n_steps: int, start: int | ArrayLike | None = None) -> Floats:
        """Total variation distance from the stationary distribution after 0, 1, ..., ``n_steps`` steps.

        Parameters
        ----------
        n_steps : int
            At least 0.
        start : int or array of float, shape (n_states,), optional
            A state or a distribution to begin from; the worst state at each step when left out.

        Returns
        -------
        ndarray of float, shape (n_steps + 1,)
            Never increases.  Half the sum of eq. 10.

        Raises
        ------
        ArgumentError
            If an argument is not as stated.

        Examples
        --------
        >>> FiniteChain([[0.9, 0.1], [0.3, 0.7]]).total_variation_by_step(3).round(3)
        array([0.75 , 0.45 , 0.27 , 0.162])
        """
        if n_steps < 0:
            raise ArgumentError(f"n_steps is {n_steps}; it is at least 0")
        laws = np.eye(self.n_states) if start is None else np.atleast_2d(self._start(start))
        return distances_by_step(self.matrix, self.stationary, laws, n_steps)

    def mixing_time(self, epsilon: float = 0.25, max_steps: int = 2**50) -> int:
        """First step at which the total variation distance is at most ``epsilon``, whatever the start.

        Doubling, then bisection over powers of the matrix: about two matrix products for each doubling of the answer.

        Parameters
        ----------
        epsilon : float, default=0.25
            Between 1e-12 (rounding hides smaller distances) and 1.
        max_steps : int, default=2**50
            Give up when more are needed.

        Returns
        -------
        int
            Steps.

        Raises
        ------
        ArgumentError
            If the chain is periodic, or ``max_steps`` do not suffice.

        Examples
        --------
        >>> FiniteChain([[0.9, 0.1], [0.3, 0.7]]).mixing_time()
        3
        >>> FiniteChain([[1 - 1e-12, 1e-12], [3e-12, 1 - 3e-12]]).mixing_time()
        274653072167
        """
        if not 1e-12 <= epsilon < 1:
            raise ArgumentError(f"epsilon is {epsilon}; it is at least 1e-12 and below 1")
        if (period := self._closed_class("mixing time").period) > 1:
            raise ArgumentError(
                f"the chain has period {period} and never converges, though its averages do; "
                "a lazy chain, (P + I) / 2, converges to the same distribution"
            )
        return steps_to_mix(self.matrix, self.stationary, epsilon, max_steps)

    def asymptotic_variance(self, values: ArrayLike) -> float:
        r"""Variance of a long average: the tau^2 of eq. 11, N times the variance of the mean of N values as N grows.

        Parameters
        ----------
        values : array of float, shape (n_states,)
            The function f at each state.

        Returns
        -------
        float
            At least 0.  Divided by the stationary variance of f it is the integrated autocorrelation time: how many
            steps are worth one independent draw.

        Raises
        ------
        ArgumentError
            If ``values`` are not finite numbers, one a state.

        Notes
        -----
        With g a solution of Poisson's equation :math:`g - Pg = f - \pi f`, f minus its mean is a martingale difference
        plus a telescoping term, and :math:`\tau^2 = \sum_{xy} \pi_x P_{xy} [g_y - (Pg)_x]^2`: a sum of squares, which
        cannot come out negative (Meyn & Tweedie 2009, 17.4).  It holds for periodic chains as well, where the sum of
        eq. 11 converges only in the sense of Cesàro.

        Examples
        --------
        >>> FiniteChain([[0.9, 0.1], [0.3, 0.7]]).asymptotic_variance([0.0, 1.0])
        0.75
        >>> FiniteChain([[0.0, 1.0], [1.0, 0.0]]).asymptotic_variance([0.0, 1.0])
        0.0
        """
        function = as_numbers(values, "values", self.n_states)
        states = list(self._closed_class("asymptotic variance").states)
        block, pi = self.matrix[np.ix_(states, states)], self.stationary[states]
        centred = function[states] - pi @ function[states]
        g = poisson_solution(*self._eliminated, centred)
        jumps = g[None, :] - g[:, None] + centred[:, None]  # g_y - (Pg)_x, as Pg = g - (f - mean)
        return float((pi[:, None] * block * jumps**2).sum())

    def restricted_to(self, states: Iterable[int]) -> FiniteChain:
        """The chain on a closed set of states.

        Raises
        ------
        ArgumentError
            If the chain can leave the set.

        Examples
        --------
        >>> FiniteChain(np.eye(3)).restricted_to([0, 2]).labels
        (0, 2)
        """
        inside = sorted({int(state) for state in states})
        if not inside or inside[0] < 0 or inside[-1] >= self.n_states:
            raise ArgumentError(f"states {inside} are not some of the states 0..{self.n_states - 1}")
        away = self.matrix[inside].copy()
        away[:, inside] = 0.0
        if (away > 0).any():
            x, y = np.argwhere(away > 0)[0]
            raise ArgumentError(
                f"the chain leaves {self._named(inside)} from {self.labels[inside[x]]} to {self.labels[y]}; "
                "take a closed set"
            )
        return FiniteChain(self.matrix[np.ix_(inside, inside)], [self.labels[state] for state in inside])

    def _start(self, start: int | ArrayLike) -> Floats:
        if not isinstance(start, int | np.integer):
            return as_distribution(start, "start", self.n_states)
        if not 0 <= start < self.n_states:
            raise ArgumentError(f"start is {start}; states are 0..{self.n_states - 1}")
        law = np.zeros(self.n_states)
        law[start] = 1.0
        return law

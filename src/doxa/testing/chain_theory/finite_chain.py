"""`FiniteChain`: a transition matrix, and everything that follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.testing.chain_theory.classes import LabelledChain, frozen
from doxa.testing.chain_theory.convergence import (
    distances_by_step,
    in_balance,
    laws_after,
    sorted_eigenvalues,
    steps_to_mix,
)
from doxa.testing.chain_theory.elimination import eliminate, poisson_solution, stationary_law
from doxa.testing.kernel_matrices.checks import Array, as_distribution, as_numbers

__all__ = ["FiniteChain"]


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
    def stationary(self) -> Array:
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
    def _eliminated(self) -> tuple[Array, Array]:
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

    def after(self, n_steps: int, start: int | ArrayLike | None = None) -> Array:
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

    def total_variation_by_step(self, n_steps: int, start: int | ArrayLike | None = None) -> Array:
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

    def _start(self, start: int | ArrayLike) -> Array:
        if not isinstance(start, int | np.integer):
            return as_distribution(start, "start", self.n_states)
        if not 0 <= start < self.n_states:
            raise ArgumentError(f"start is {start}; states are 0..{self.n_states - 1}")
        law = np.zeros(self.n_states)
        law[start] = 1.0
        return law

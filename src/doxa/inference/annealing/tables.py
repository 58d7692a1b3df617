r"""`TablePath`: any discrete network at rising inverse temperatures.

The path of distributions, for 0 <= beta < 1, is

.. math:: f_\beta(x) = f_0(x)^{1 - \beta} \prod_f \tilde\ell_f(x_f)^\beta,

with a base :math:`f_0` that can be drawn from, and factors *softened*, so that chains at high temperature can go
anywhere: the zeros of a factor become :math:`e^{-d}` times its smallest other entry; other entries stay.  At beta = 1
it is the network itself, :math:`f_1(x) = \prod_f \ell_f(x_f)`, zeros and all: a softened distribution is proportional
to the exact one wherever that is not 0, so weights and chains become exact by one look at the zeros, at the end.  The
base is uniform, independent, or a directed network over the same variables, whose own zeros are softened too.

The log density of a state is a sum over tables of ``low[cell] + beta * rise[cell]``.  A *link* joins a variable to a
table that it is in: the cell of state s is ``at + s * stride`` plus the strides of the table's other variables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints, Words
from doxa.errors import ArgumentError
from doxa.inference.flat import drawn_columns, end_to_end, joined, starts_of, strides_of
from doxa.inference.spins.words import fresh_streams, uniform
from doxa.models.factors import Factor
from doxa.models.markov import sum_factors

__all__ = ["TablePath"]


@hot
def anneal_tables(
    tables: Tables,
    betas: Floats,
    is_reversed: bool,
    sweeps: int,
    states: NDArray[np.int32],
    streams: Words,
    work: Floats,
    weights: tuple[Floats, Floats],
) -> None:
    """Take particles, the rows of ``states``, along ``betas``, in place.

    ``weights`` are log weights and sums.  The first grow by the log of the ratio of two neighbouring distributions, the
    one of larger beta above; row k of the sums gets that of the log weights after step k, counted from their first
    values, and that of their squares.
    """
    log_weights, sums = weights
    n = log_weights.size
    first = log_weights[0]
    for k in range(1, betas.size):
        step = abs(betas[k] - betas[k - 1])
        for p in range(n):
            _, rise, _ = log_parts(tables, states[p])
            log_weights[p] += step * rise
            sums[k - 1, 0] += log_weights[p] - first
            sums[k - 1, 1] += (log_weights[p] - first) ** 2
            if k < betas.size - 1:
                for _ in range(sweeps):
                    sweep_tables(tables, betas[k], False, is_reversed, states[p], streams, p & 7, work)


@hot
def stay_tables(tables: Tables, n_sweeps: int, states: NDArray[np.int32], streams: Words, work: Floats) -> None:
    """Sweep particles at beta = 1, zeros and all; those at a zero stay where they are."""
    for p in range(states.shape[0]):
        if not log_parts(tables, states[p])[2]:
            for _ in range(n_sweeps):
                sweep_tables(tables, 1.0, True, False, states[p], streams, p & 7, work)


@hot
def log_parts(tables: Tables, state: NDArray[np.int32]) -> tuple[float, float, bool]:
    """Sums of ``low`` and of ``rise`` over all tables, and whether a cell is one of the zeros."""
    low, rise, is_zero = 0.0, 0.0, False
    for f in range(tables.first.size):
        cell = tables.first[f]
        for e in range(tables.scope_starts[f], tables.scope_starts[f + 1]):
            cell += tables.scope_strides[e] * state[tables.scopes[e]]
        low += tables.low[cell]
        rise += tables.rise[cell]
        is_zero = is_zero or tables.zero[cell]
    return low, rise, is_zero


@hot
def sweep_tables(
    tables: Tables,
    beta: float,
    is_exact: bool,
    is_reversed: bool,
    state: NDArray[np.int32],
    streams: Words,
    k: int,
    work: Floats,
) -> None:
    """Draw every variable given the others: in order, or in the opposite order, which is the reversal of that.

    ``is_exact``: zeros are zeros; the state must be possible then.
    """
    n = state.size
    for t in range(n):
        i = n - 1 - t if is_reversed else t
        size = tables.n_states[i]
        log_densities(tables, beta, is_exact, i, state, work)
        largest = work[0]
        for s in range(1, size):
            largest = max(largest, work[s])
        total, last = 0.0, 0
        for s in range(size):
            p = math.exp(work[s] - largest)
            if p > 0.0:
                last = s  # rounding must not lead beyond it
            total += p
            work[s] = total
        u = uniform(streams, k) * total
        s = 0
        while s < last and work[s] <= u:
            s += 1
        state[i] = s


@inlined
def log_densities(tables: Tables, beta: float, is_exact: bool, i: int, state: NDArray[np.int32], work: Floats) -> None:
    """Log density of every state of variable ``i`` given the others, up to a constant, into ``work``."""
    size = tables.n_states[i]
    for s in range(size):
        work[s] = 0.0
    for link in range(tables.starts[i], tables.starts[i + 1]):
        cell, stride = tables.at[link], tables.strides[link]
        for e in range(tables.other_starts[link], tables.other_starts[link + 1]):
            cell += tables.other_strides[e] * state[tables.others[e]]
        for s in range(size):
            if is_exact and tables.zero[cell]:
                work[s] = -np.inf
            work[s] += tables.low[cell] + beta * tables.rise[cell]
            cell += stride


@hot
def cool_tables(tables: Tables, betas: Floats, states: NDArray[np.int32], streams: Words, work: Floats) -> None:
    """Sweep particles once at every beta, then let them fall to the next local maximum."""
    for p in range(states.shape[0]):
        for k in range(betas.size):
            sweep_tables(tables, betas[k], False, False, states[p], streams, p & 7, work)
        while _descend(tables, states[p], work):
            pass


@hot
def _descend(tables: Tables, state: NDArray[np.int32], work: Floats) -> bool:
    """Put every variable into its best state given the others, at beta = 1; whether any changed."""
    changed = False
    for i in range(state.size):
        log_densities(tables, 1.0, False, i, state, work)
        best = state[i]
        for s in range(tables.n_states[i]):
            if work[s] > work[best]:
                best = s
        if best != state[i]:
            state[i] = np.int32(best)
            changed = True
    return changed


States = NDArray[np.int32]


class Part(NamedTuple):
    """One table: its log values are ``low + beta * rise``."""

    variables: tuple[int, ...]
    low: Floats
    rise: Floats
    zero: NDArray[np.bool_]  # cells that are 0 at beta = 1


class Tables(NamedTuple):
    """What the compiled loops read."""

    n_states: Ints  # (n,)
    low: Floats  # all cells
    rise: Floats
    zero: NDArray[np.bool_]
    first: Ints  # (n_tables,) first cell
    scope_starts: Ints  # (n_tables + 1,)
    scopes: Ints  # variables of each table
    scope_strides: Ints  # their strides, in cells
    starts: Ints  # (n + 1,) links of each variable
    at: Ints  # (n_links,) first cell of the table
    strides: Ints  # (n_links,) of the variable there
    other_starts: Ints  # (n_links + 1,)
    others: Ints  # the table's other variables
    other_strides: Ints


def lay_out(n_states: Sequence[int], parts: Sequence[Part]) -> Tables:
    """Put tables into arrays; those over no variables are left out."""
    parts = [part for part in parts if part.variables]
    sizes = [part.low.size for part in parts]
    first = starts_of(sizes)[:-1]
    strides = [strides_of(part.low.shape).tolist() for part in parts]
    links: list[list[tuple[int, int, list[tuple[int, int]]]]] = [[] for _ in n_states]
    for cell, part, own in zip(first.tolist(), parts, strides, strict=True):
        scope = list(zip(part.variables, own, strict=True))
        for variable, stride in scope:
            links[variable].append((cell, stride, [pair for pair in scope if pair[0] != variable]))
    flat = [link for group in links for link in group]
    others = [pair for _, _, pairs in flat for pair in pairs]
    return Tables(
        joined([n_states]),
        end_to_end(part.low for part in parts),
        end_to_end(part.rise for part in parts),
        end_to_end(part.zero for part in parts).astype(np.bool_),
        first,
        starts_of([len(part.variables) for part in parts]),
        joined(part.variables for part in parts),
        joined(strides),
        starts_of([len(group) for group in links]),
        joined([[cell for cell, _, _ in flat]]),
        joined([[stride for _, stride, _ in flat]]),
        starts_of([len(pairs) for _, _, pairs in flat]),
        joined([[variable for variable, _ in others]]),
        joined([[stride for _, stride in others]]),
    )


Conditional = tuple[int, tuple[int, ...], Floats]  # child, variables of the axes, log probabilities


def read_independent(base: Sequence[ArrayLike], n_states: Sequence[int]) -> list[Floats]:
    """Probabilities by variable, checked and normalised."""
    if len(base) != len(n_states):
        raise ArgumentError(f"base has {len(base)} entries; it must have one for each of the {len(n_states)} variables")
    found = []
    for i, (values, size) in enumerate(zip(base, n_states, strict=True)):
        p = np.asarray(values, dtype=np.float64)
        if p.shape != (size,) or not (p > 0).all() or not np.isfinite(p).all():
            raise ArgumentError(
                f"base[{i}] is {p.tolist()}; it must be {size} positive probabilities: a state that the base never "
                "draws would never be reached"
            )
        found.append(p / p.sum())
    return found


def draw_independent(n: int, probabilities: Sequence[Floats], rng: np.random.Generator) -> States:
    """Rows of states (n, n_variables)."""
    columns = [drawn_columns(np.broadcast_to(p, (n, len(p))), rng) for p in probabilities]
    return np.ascontiguousarray(np.stack(columns, axis=1).astype(np.int32))


def draw_directed(n: int, n_variables: int, conditionals: Sequence[Conditional], rng: np.random.Generator) -> States:
    """Rows of states, every variable given its parents; the order of the conditionals does not matter."""
    states = np.zeros((n, n_variables), dtype=np.int32)
    waiting = {child: (variables, log_p) for child, variables, log_p in conditionals}
    while waiting:
        ready = [c for c, (variables, _) in waiting.items() if all(v == c or v not in waiting for v in variables)]
        if not ready:
            raise ArgumentError(f"base has a cycle through variables {sorted(waiting)}; it must be a directed network")
        for child in ready:
            variables, log_p = waiting.pop(child)
            last = np.moveaxis(log_p, variables.index(child), -1)
            rows = np.exp(last[tuple(states[:, v] for v in variables if v != child)])
            states[:, child] = drawn_columns(np.broadcast_to(rows, (n, last.shape[-1])), rng)
    return states


_SHARE = 0.01  # of the softened distribution that meets a zero, if a zero costs and gains nothing but its depth


def default_depth(factors: Sequence[Factor]) -> float:
    """Depth d (nats) at which, roughly, one state in a hundred meets a zero: ln(100 zeros), at least 3."""
    zeros = sum(int(np.isneginf(factor.log_values).sum()) for factor in factors)
    return max(3.0, math.log(max(zeros, 1) / _SHARE))


def soften(log_values: NDArray[np.float64], depth: float) -> NDArray[np.float64]:
    """Return a factor's table without -inf."""
    zero = np.isneginf(log_values)
    if zero.all():
        raise ArgumentError("a factor is -inf everywhere; no state is possible")
    return np.where(zero, log_values[~zero].min() - depth, log_values)


def soften_conditional(log_values: NDArray[np.float64], axis: int, depth: float) -> NDArray[np.float64]:
    """A table of conditional distributions along ``axis``, mixed with the uniform one where it has zeros."""
    if not np.isneginf(log_values).any():
        return log_values
    share = math.exp(-depth)
    return np.asarray(np.log((1 - share) * np.exp(log_values) + share / log_values.shape[axis]))


@dataclass(frozen=True, eq=False)
class TablePath:
    """From a base to a network of factors.

    Parameters
    ----------
    n_states : sequence of int
        Of every variable, at least 1.
    factors : sequence of Factor
        Log values in nats; -inf where 0.
    base : sequence of array_like, or mapping of int to int, optional
        Uniform when left out.  A sequence: the probabilities of every variable's states, all positive, for independent
        variables.  A mapping, of positions in ``factors`` to variables: those factors are conditional distributions of
        these variables, one for each, and together a directed network.
    depth : float, optional
        How deep zeros are softened, in nats; when left out ln(100 zeros), at least 3.
    constant : float, default=0.0
        Nats, in the log of every weight.

    Raises
    ------
    ArgumentError
        If the base is none of these, or a factor is -inf everywhere.

    Examples
    --------
    >>> xor = np.where([[True, False], [False, True]], -np.inf, 0.0)
    >>> path = TablePath((2, 2), [Factor((0, 1), xor), Factor((0,), np.log([0.9, 0.3]))])
    >>> log_weights, states, _ = path.forward(np.linspace(0, 1, 30), np.random.default_rng(1))
    >>> np.unique(states[log_weights > -np.inf], axis=0).tolist()
    [[0, 1], [1, 0]]
    """

    n_states: Sequence[int]
    factors: Sequence[Factor]
    base: Sequence[ArrayLike] | Mapping[int, int] | None = None
    depth: float | None = None
    constant: float = 0.0

    block = 64  # particles that share random streams
    speed = 1

    def __post_init__(self) -> None:
        """Refuse what is wrong now rather than later."""
        if self.depth is not None and not 0 < self.depth < np.inf:
            raise ArgumentError(f"depth is {self.depth}; it must be a positive number of nats")
        _ = self.tables

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.n_states)

    @cached_property
    def log_z0(self) -> float:
        """Log of the sum of f at beta = 0, nats, with what multiplies all states."""
        constant = self.constant + sum(float(f.log_values) for f in self.factors if not f.variables)
        return constant + (float(np.log(self.n_states).sum()) if self.base is None else 0.0)

    @cached_property
    def _independent(self) -> list[Floats] | None:
        if self.base is None or isinstance(self.base, Mapping):
            return None
        return read_independent(self.base, self.n_states)

    @cached_property
    def _depth(self) -> float:
        return default_depth(self.factors) if self.depth is None else float(self.depth)

    @cached_property
    def _conditionals(self) -> dict[int, Floats]:
        """By position in ``factors``, the tables of a directed base, softened."""
        if not isinstance(self.base, Mapping):
            return {}
        found = {}
        for at, child in self.base.items():
            factor = self.factors[at]
            if child not in factor.variables:
                raise ArgumentError(
                    f"base says that factors[{at}] is of variable {child}; it is over {factor.variables}"
                )
            found[at] = soften_conditional(factor.log_values, factor.variables.index(child), self._depth)
        if sorted(self.base.values()) != list(range(self.n_variables)):
            raise ArgumentError("base must give every variable one conditional distribution")
        return found

    @cached_property
    def tables(self) -> Tables:
        """What the kernels read."""
        parts = []
        for at, (variables, log_values) in enumerate(self.factors):
            target = soften(log_values, self._depth)
            low = self._conditionals.get(at, np.zeros_like(target))
            parts.append(Part(variables, low, target - low, np.isneginf(log_values)))
        for variable, p in enumerate(self._independent or ()):
            parts.append(Part((variable,), np.log(p), -np.log(p), np.zeros(p.shape, dtype=bool)))
        return lay_out(self.n_states, parts)

    def log_value(self, states: ArrayLike) -> Floats:
        """Log f at beta = 1, nats, of rows of states; -inf where impossible."""
        return sum_factors(self.factors, np.asarray(states).astype(np.intp)) + self.constant

    def draw_base(self, n: int, rng: np.random.Generator) -> States:
        """Draw rows of states at beta = 0."""
        if isinstance(self.base, Mapping):
            pairs = [(self.base[at], self.factors[at].variables, p) for at, p in self._conditionals.items()]
            return draw_directed(n, self.n_variables, pairs, rng)
        uniform = [np.full(size, 1 / size) for size in self.n_states]
        return draw_independent(n, uniform if self._independent is None else self._independent, rng)

    def forward(self, betas: Floats, rng: np.random.Generator, sweeps: int = 1) -> tuple[Floats, States, Floats]:
        """Anneal 64 particles from beta = 0; see `doxa.inference.annealing.path.Path`."""
        states = self.draw_base(self.block, rng)
        log_weights, states, variances = self._anneal(betas, False, sweeps, states, rng)
        log_weights[np.isneginf(sum_factors(self.factors, states.astype(np.intp)))] = -np.inf
        return log_weights, states, variances

    def reverse(
        self, betas: Floats, states: ArrayLike, rng: np.random.Generator, sweeps: int = 1
    ) -> tuple[Floats, States, Floats]:
        """Anneal particles from draws of the network to beta = 0; see `doxa.inference.annealing.path.Path`."""
        return self._anneal(betas[::-1].copy(), True, sweeps, np.array(states, dtype=np.int32), rng)

    def stay(self, states: ArrayLike, n_sweeps: int, rng: np.random.Generator) -> States:
        """Sweep particles at beta = 1, zeros and all."""
        after = np.array(states, dtype=np.int32)
        stay_tables(self.tables, n_sweeps, after, fresh_streams(rng), np.empty(max(self.n_states)))
        return after

    def cool(self, betas: Floats, rng: np.random.Generator) -> States:
        """Cool 64 particles along inverse temperatures of the factors alone, then let them ascent."""
        flat = self if self.base is None else replace(self, base=None)
        states = flat.draw_base(self.block, rng)
        cool_tables(flat.tables, betas, states, fresh_streams(rng), np.empty(max(self.n_states)))
        return states

    def _anneal(
        self, betas: Floats, is_reversed: bool, sweeps: int, states: States, rng: np.random.Generator
    ) -> tuple[Floats, States, Floats]:
        n = len(states)
        log_weights, sums = np.full(n, self.log_z0), np.zeros((len(betas) - 1, 2))
        work = np.empty(max(self.n_states))
        weights = log_weights, sums
        anneal_tables(self.tables, betas, is_reversed, sweeps, states, fresh_streams(rng), work, weights)
        mean = sums[:, 0] / n
        return log_weights, states, np.maximum(sums[:, 1] / n - mean**2, 0.0) * n / max(n - 1, 1)

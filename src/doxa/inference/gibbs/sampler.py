"""`TableGibbs`: Gibbs sampling in a discrete network, of single variables or of blocks; and where it forgets its past.

A sweep redraws the first of its blocks given all other variables, and never looks at what that block held.  So all
states in which the other variables have certain values lead to the same distribution of the next state: in discrete
spaces they are a proper atom, and the step after a visit to it begins a tour, independent of all before (Mykland,
Tierney & Yu 1995; de Freitas et al. 2001, section 4.4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Ints
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.flat import end_to_end, joined, starts_of, strides_of
from doxa.inference.gibbs.block_tables import BlockTable, tabulate
from doxa.inference.gibbs.kernels import Plan, Work, advance
from doxa.inference.gibbs.scans import Scan, cyclic, single_sites
from doxa.inference.gibbs.supports import (
    Supports,
    check_covered,
    check_factors,
    check_n_states,
    find_state,
    log_density_at,
    pick_state,
)
from doxa.inference.spins.model import BaseSampler, Draws, Run
from doxa.inference.spins.words import fresh_streams
from doxa.models.factors import Factor

__all__ = ["GibbsState", "TableGibbs", "regenerations"]

_SHARE = 10  # one draw in so many chooses the atom, and begins no tour


def regenerations(states: ArrayLike, first: Sequence[int], at: ArrayLike | None = None) -> NDArray[np.bool_]:
    """Which draws begin a tour, for `doxa.estimates.regenerative.cut_tours`.

    Parameters
    ----------
    states : array_like of int, shape (n_draws, n_variables) or (n_chains, n_draws, n_variables)
        Every state of chains whose steps are whole sweeps in one order: `TableGibbs` with ``keep_states=True``,
        ``thin=1`` and its own scan, or ``in_turn`` of one list of blocks.
    first : sequence of int
        The variables of the block that a sweep redraws first.
    at : array_like of int, shape (n_variables - len(first),), optional
        Values of the others, in the order of the variables, whose visits are waited for.  When left out, those that
        the first tenth of the draws visits most; tours then begin after that tenth.

    Returns
    -------
    ndarray of bool, shape (n_draws,) or (n_chains, n_draws)

    Raises
    ------
    ArgumentError
        If the shapes do not fit, or ``first`` names no variable, all of them, or one that there is not.

    Examples
    --------
    >>> regenerations([[0, 1], [1, 1], [0, 0], [1, 1], [1, 0]], [0], at=[1])
    array([False,  True,  True, False,  True])
    """
    draws = np.asarray(states)
    if draws.ndim not in (2, 3):
        raise ArgumentError(f"states has shape {draws.shape}; it must be (draw, variable) or (chain, draw, variable)")
    n = draws.shape[-1]
    if not set(first) < set(range(n)) or not len(first):
        raise ArgumentError(f"first is {list(first)}; it must name some of the {n} variables by number, and not all")
    others = draws[..., sorted(set(range(n)) - set(first))]
    begin = 0
    if at is None:
        begin = draws.shape[-2] // _SHARE
        seen = others[..., :begin, :].reshape(-1, others.shape[-1])
        if not len(seen):
            raise ArgumentError(f"there are {draws.shape[-2]} draws; at least {_SHARE} are needed to choose an atom")
        values, counts = np.unique(seen, axis=0, return_counts=True)
        at = values[counts.argmax()]
    atom = np.asarray(at)
    if atom.shape != (others.shape[-1],):
        raise ArgumentError(f"at has shape {atom.shape}; it must be ({others.shape[-1]},), for the other variables")
    marks = np.zeros(draws.shape[:-1], dtype=np.bool_)
    marks[..., begin + 1 :] = (others[..., begin:-1, :] == atom).all(axis=-1)
    return marks


class Layout(NamedTuple):
    """Block b has ``n_configurations[b]`` of them, with members and groups from ``...[b]`` to ``...[b + 1]``."""

    kinds: Ints  # (n_blocks,)
    n_configurations: Ints  # (n_blocks,)
    members_at: Ints  # (n_blocks + 1,) in ``members``
    members: Ints  # variables
    codes_at: Ints  # (n_blocks,) in ``codes``: the states of configuration k begin at codes_at + k * n_members
    codes: Ints
    groups_at: Ints  # (n_blocks + 1,)
    blanket_at: Ints  # (n_groups + 1,) in ``blanket`` and ``strides``
    blanket: Ints  # variables
    strides: Ints  # what a state of each counts for in the place of a row
    values_at: Ints  # (n_groups,)
    columns_at: Ints  # (n_groups,) in ``columns``; -1 where configuration k reads column k
    columns: Ints
    values: NDArray[np.float64]
    sums_at: Ints  # (n_blocks,) in an array of all configurations of all blocks, one after another
    n_sums: int
    home: Ints  # (n_variables,) the smallest block that has the variable; -1 where there is none


def lay_out(tables: Sequence[BlockTable], n_variables: int) -> Layout:
    """Put the tables of blocks one after another."""
    groups = [group for table in tables for group in table.groups]
    n_configurations = [len(table.codes) for table in tables]
    is_own = [np.array_equal(group.columns, np.arange(group.values.shape[-1])) for group in groups]
    columns_at = starts_of([0 if own else group.columns.size for group, own in zip(groups, is_own, strict=True)])
    home = np.full(n_variables, -1, dtype=np.int64)
    for b in sorted(range(len(tables)), key=lambda b: -n_configurations[b]):
        home[list(tables[b].block)] = b
    sums_at = starts_of(n_configurations)
    return Layout(
        np.array([table.kind for table in tables], dtype=np.int64),
        np.array(n_configurations, dtype=np.int64),
        starts_of([len(table.block) for table in tables]),
        joined([table.block for table in tables]),
        starts_of([table.codes.size for table in tables])[:-1],
        joined([table.codes.ravel() for table in tables]),
        starts_of([len(table.groups) for table in tables]),
        starts_of([len(group.blanket) for group in groups]),
        joined([group.blanket for group in groups]),
        joined([strides_of(group.values.shape)[:-1] for group in groups]),
        starts_of([group.values.size for group in groups])[:-1],
        np.where(is_own, -1, columns_at[:-1]),
        joined([group.columns for group, own in zip(groups, is_own, strict=True) if not own]),
        end_to_end(group.values for group in groups),
        sums_at[:-1],
        int(sums_at[-1]),
        home,
    )


class FlatFactors(NamedTuple):
    """Factors as they are given; factor f has variables from ``scopes_at[f]`` to ``scopes_at[f + 1]``."""

    scopes_at: Ints  # (n_factors + 1,)
    scopes: Ints
    strides: Ints
    values_at: Ints  # (n_factors,)
    log_values: NDArray[np.float64]  # nats


def flat_factors(factors: Iterable[Factor]) -> FlatFactors:
    """Put factors one after another."""
    given = tuple(factors)
    return FlatFactors(
        starts_of([len(factor.variables) for factor in given]),
        joined([factor.variables for factor in given]),
        joined([strides_of(factor.log_values.shape) for factor in given]),
        starts_of([factor.log_values.size for factor in given])[:-1],
        end_to_end(factor.log_values for factor in given),
    )


class GibbsState(NamedTuple):
    """Where a chain stands."""

    states: NDArray[np.int64]  # (n_variables,)
    streams: NDArray[np.uint64]  # (32,), of the random words
    position: int  # of the list that comes next, where lists are taken in turn


@dataclass(frozen=True, eq=False)
class TableGibbs(BaseSampler[GibbsState]):
    """One chain of p(x) proportional to the product of factors.

    Parameters
    ----------
    n_states : sequence of int
        Number of states of each variable.
    factors : sequence of Factor
        Over these variables.
    scan : Scan, optional
        Which blocks a step redraws; when left out, each variable alone, as numbered.
    thin : int, default=1
        Steps between kept draws.
    starts : array_like of int, shape (n, n_variables), or callable, optional
        States to begin at, one of them by chance, or a function of a generator that returns one.  When left out, a
        state of positive probability is searched for.
    start_weights : array_like of float, shape (n,), optional
        How probable each of ``starts`` is, up to a factor; equally when left out.
    wanted : sequence of int, optional
        Variables whose probabilities and visits are kept; all when left out.
    marginals : bool, default=True
        Keep conditional probabilities.
    visits : bool, default=False
        Keep the shares of the steps at whose end a variable was in each state.
    keep_states : bool, default=False
        Keep the states of all variables at every kept draw.
    most_configurations : int, default=4096
        Largest number of possible configurations of a block.
    most_entries : int, default=4096
        Up to what size tables are multiplied beforehand; changes the time alone, and the last digits.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If factors, blocks or starts do not fit the variables, a variable is in no block, a block has too many
        configurations, or a start has probability 0.

    Notes
    -----
    Draws are ``log_density``, the sum of the log factors in nats, shape (n_kept,); ``probability`` and ``visits``, of
    shape (n_kept, sum of the wanted variables' ``n_states``), which `split` takes apart; and ``states``, shape (n_kept,
    n_variables).  A variable's ``probability`` is its distribution given all variables outside of the block that was
    redrawn, averaged over the redraws since the last kept draw: the mean is that of the visits, the variance smaller.
    Where values choose the blocks (`by_value`), it is the one at the end of each step, of the smallest block that has
    the variable: an average over redraws would count states in which there are more of them too often.

    A chain reaches every possible state only if the blocks connect them, which zeros can prevent: see
    `doxa.inference.gibbs.connectivity`.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> coin, copy = Factor((0,), np.log([0.3, 0.7])), Factor((0, 1), np.log([[0.9, 0.1], [0.2, 0.8]]))
    >>> sampler = TableGibbs([2, 2], [coin, copy], thin=10)
    >>> trace = sample(sampler, Schedule(4, 5000, 100), seed=1)
    >>> [mean.round(2) for mean in sampler.split(trace["probability"].mean(axis=(0, 1)))]  # exact: .3 .7, .41 .59
    [array([0.3, 0.7]), array([0.41, 0.59])]
    """

    n_states: Sequence[int]
    factors: Sequence[Factor]
    scan: Scan | None = None
    thin: int = 1
    starts: ArrayLike | Callable[[np.random.Generator], ArrayLike] | None = None
    start_weights: ArrayLike | None = None
    wanted: Sequence[int] | None = None
    marginals: bool = True
    visits: bool = False
    keep_states: bool = False
    most_configurations: int = 4096
    most_entries: int = 4096
    state_type: ClassVar[type[GibbsState]] = GibbsState

    def __post_init__(self) -> None:
        """Check what can be checked without tables."""
        sizes = check_n_states(self.n_states)
        set_field = object.__setattr__
        set_field(self, "n_states", sizes)
        set_field(self, "factors", check_factors(self.factors, sizes))
        scan = cyclic(single_sites(len(sizes))) if self.scan is None else self.scan.checked(sizes)
        check_covered(scan.blocks, sizes)
        set_field(self, "scan", scan)
        set_field(self, "thin", check_whole("thin", self.thin, 1))
        check_whole("most_configurations", self.most_configurations, 1)
        check_whole("most_entries", self.most_entries, 0)
        wanted = range(len(sizes)) if self.wanted is None else self.wanted
        for i, v in enumerate(wanted):
            if check_whole(f"wanted[{i}]", v, 0) >= len(sizes):
                raise ArgumentError(f"wanted[{i}] is {v}; variables are 0 to {len(sizes) - 1}")
        set_field(self, "wanted", tuple(dict.fromkeys(int(v) for v in wanted)))

    @cached_property
    def tables(self) -> tuple[BlockTable, ...]:
        """How each block of the scan is drawn."""
        assert self.scan is not None
        touching: list[list[int]] = [[] for _ in self.n_states]
        for f, factor in enumerate(self.factors):
            for v in factor.variables:
                touching[v].append(f)
        supports = Supports.of(self.n_states, self.factors)
        tables = []
        for block in self.scan.blocks:
            codes = supports.configurations(block, self.most_configurations)
            own = [self.factors[f] for f in sorted({f for v in block for f in touching[v]})]
            if codes is None:
                raise ArgumentError(
                    f"the block {block} has more than most_configurations = {self.most_configurations} possible "
                    "configurations; make it smaller, or allow more"
                )
            tables.append(tabulate(block, codes, own, self.n_states, self.most_entries))
        return tuple(tables)

    @cached_property
    def _flat(self) -> Plan:
        assert self.scan is not None
        assert self.wanted is not None
        offsets = np.full(len(self.n_states), -1, dtype=np.int64)
        offsets[list(self.wanted)] = self._begins[:-1]
        sizes = np.array(self.n_states, dtype=np.int64)
        layout = lay_out(self.tables, len(self.n_states))
        scan = self.scan.flat()
        if len(scan.by_variables):
            home = np.unique(layout.home[list(self.wanted)])
            scan = scan._replace(looked_at=home[home >= 0])
        return Plan(layout, flat_factors(self.factors), scan, offsets, sizes)

    @cached_property
    def _begins(self) -> Ints:
        assert self.wanted is not None
        return starts_of(self.n_states[v] for v in self.wanted)

    def split(self, rows: ArrayLike) -> list[NDArray[Any]]:
        """Take rows of probabilities or visits apart: an array (..., n_states) for each wanted variable."""
        return np.split(np.asarray(rows), self._begins[1:-1], axis=-1)

    def init(self, rng: np.random.Generator) -> GibbsState:
        """Begin at one of ``starts``, or at a state of positive probability that is found."""
        if self.starts is None:
            states = find_state(self.n_states, self.factors, rng)
        else:
            states = pick_state(self.starts, self.start_weights, self.n_states, rng)
            if log_density_at(self.factors, states) == -np.inf:
                raise ArgumentError(
                    f"starts has the state {states.tolist()}, which has probability 0; give possible ones"
                )
        return GibbsState(states, fresh_streams(rng), 0)

    def begin(self, states: NDArray[np.int64], rng: np.random.Generator) -> GibbsState:
        """A chain that stands at a possible state, shape (n_variables,)."""
        return GibbsState(states.astype(np.int64), fresh_streams(rng), 0)

    def _advance(self, state: GibbsState, n_steps: int) -> tuple[GibbsState, Draws, dict[str, int]]:
        plan, layout = self._flat, self._flat.layout
        n_kept, width = n_steps // self.thin, int(self._begins[-1])
        draws: Draws = {
            "log_density": np.empty(n_kept),
            "probability": np.empty((n_kept, width if self.marginals else 0)),
            "visits": np.zeros((n_kept, width if self.visits else 0)),
            "states": np.empty((n_kept, len(plan.sizes) if self.keep_states else 0), dtype=np.int16),
        }
        states, streams, sums = np.array(state.states, dtype=np.int64), state.streams.copy(), np.zeros(layout.n_sums)
        run = Run(states, streams, sums, n_steps, self.thin, tuple(draws.values()))
        weights, redrawn = np.empty(int(layout.n_configurations.max())), np.zeros(len(layout.kinds), dtype=np.int64)
        n_redrawn = advance(plan, run, Work(weights, redrawn, np.zeros(layout.n_sums)), state.position)
        draws["visits"] /= self.thin
        position = (state.position + n_steps) % plan.scan.n_lists
        return GibbsState(states, streams, position), draws, {"updates": int(n_redrawn)}

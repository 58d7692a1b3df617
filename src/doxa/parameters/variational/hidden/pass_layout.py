"""A table laid out for a pass over its cases: what is observed around each group of missing cells, in flat arrays.

Components, blocks and given roots are those of `doxa.parameters.variational.hidden.problem`;
`doxa.parameters.variational.hidden.one_case` takes the arrays.  A family that is complete in a case is a component of
its own without missing cells.

What compiled code knows of a pass over cases: flat arrays, which `pass_layout` beside this makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa.arrays import Bits, Floats
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models.logistic import LogisticNetwork
from doxa.models.logistic_factors import Factor, LogisticFactor, RootFactor
from doxa.models.logistic_rows import MAX_CONFIGURATIONS, all_configurations, binary_codes, distinct_rows
from doxa.parameters.variational.hidden.blocks import Block, Component, components_of_table, lay_out
from doxa.parameters.variational.hidden.families import Coordinates, log_given_observed, log_given_roots, signs_of

__all__ = ["Case", "Family", "Group", "PassLayout", "Place", "Shape", "State", "lay_out_pass"]

_Index: TypeAlias = NDArray[np.intp]


@by_address
class Shape(NamedTuple):
    """Factors and blocks of a component, in flat arrays; factors are its families, then its learned roots."""

    family: _Index  # (n_families,), which of the state's
    root: _Index  # (n_roots,), likewise
    entry_at: _Index  # (n_factors + 1,), where each factor's entries begin
    unit: Floats  # (n_family_entries, most), h = unit @ u
    n_units: _Index  # (n_families,), k + 1
    share_block: _Index  # (n_shares,), the block that has some of a factor's cells; shares stand factor by factor
    share_at: _Index  # (n_shares + 1,), where the marginals of each begin
    factor_share: _Index  # (n_factors + 1,), where each factor's shares begin
    share_entry_at: _Index  # (n_shares,), where its stretch of ``share_entry`` begins
    share_entry: _Index  # for each entry of its factor, the marginal it needs
    share_cell_at: _Index  # (n_shares,), where its stretch of ``share_cell`` begins
    share_cell: _Index  # for each configuration of its block, the marginal it belongs to
    block_at: _Index  # (n_blocks + 1,), where each block's probabilities begin in q
    block_share: _Index  # shares, block by block
    block_share_at: _Index  # (n_blocks + 1,)
    share_factor: _Index  # (n_shares,)


@by_address
class Case(NamedTuple):
    """What is observed around a component."""

    rows: Floats  # flat: for each family (k + 1, 1 + d), extended rows of u
    row_at: _Index  # (n_families,)
    sign: Floats  # (n_family_entries,), of the child
    configuration: _Index  # (n_family_entries,), which of the state's
    log_given: Floats  # (n_q,), log probability of given roots


@by_address
class State(NamedTuple):
    """Gaussians and Betas of all families and learned roots, in whitened coordinates; changed in place."""

    dimension: _Index  # (families,)
    mean_at: _Index  # (families,)
    covariance_at: _Index  # (families,)
    mean: Floats  # flat
    covariance: Floats  # flat
    beta: Floats  # (roots, 2): cases of 0 and of 1, with the prior's
    weight: Floats  # (configurations,), of all families: what each added to the precision
    pull: Floats  # (configurations,), and to precision times mean


class Family(NamedTuple):
    """A node with parents that is not complete in every case."""

    node: str
    coordinates: Coordinates
    configurations: Bits  # (n, n_scope), all that the pass may need
    first: int  # of its configurations, in the state's arrays


class Group(NamedTuple):
    """Missing cells that share factors, in all their neighbourhoods; without cells, one complete family."""

    nodes: tuple[int, ...]
    blocks: tuple[Block, ...]
    shape: Shape
    cases: tuple[Case, ...]  # one for each neighbourhood


class Place(NamedTuple):
    """Where a distinct row takes part."""

    groups: tuple[tuple[int, int], ...]  # group and neighbourhood
    roots: tuple[tuple[int, int], ...]  # learned roots that it observes, and what they are
    log_given: float  # log probability (nats) of what given roots are observed to be


class PassLayout(NamedTuple):
    """All that a pass needs of a table."""

    network: LogisticNetwork
    codes: Bits  # (n_distinct, n_nodes)
    families: tuple[Family, ...]  # that are not complete in every case
    settled: tuple[LogisticFactor, ...]  # the others
    roots: tuple[str, ...]  # learned
    groups: tuple[Group, ...]
    places: tuple[Place, ...]  # of each distinct row

    def fresh_state(self) -> State:
        """The prior."""
        dimension = np.array([family.coordinates.root.shape[0] for family in self.families], dtype=np.intp)
        means, squares = np.cumsum(dimension) - dimension, np.cumsum(dimension**2) - dimension**2
        eyes = [np.eye(d).ravel() for d in dimension]
        n = sum(len(family.configurations) for family in self.families)
        covariance = np.concatenate([np.empty(0), *eyes])
        betas = np.ones((len(self.roots), 2))
        return State(dimension, means, squares, np.zeros(dimension.sum()), covariance, betas, np.zeros(n), np.zeros(n))


def lay_out_pass(network: LogisticNetwork, table: Table, size: int | None) -> PassLayout:
    """Lay a table out, with blocks of at most ``size`` cells (None: one block for a component)."""
    codes, factors, names = binary_codes(table, network.names), network.factors, network.names
    components = components_of_table(factors, codes, table.counts)
    layout = lay_out(components, factors, names, size)
    tables = [factor for factor in factors if isinstance(factor, RootFactor)]
    log_given = log_given_roots(tables, components, layout, names)
    blocks = [[b for stage in layout.stages for b in stage.blocks if b.component == c] for c in range(len(components))]
    coupled = {f for component in components for f in component.factors}
    families = [f for f in sorted(coupled) if isinstance(factors[f], LogisticFactor)]
    index = {f: k for k, f in enumerate(families)}
    learned = [f for f, factor in enumerate(factors) if isinstance(factor, RootFactor) and factor.probabilities is None]
    drafts = [_Draft(component, factors, families, learned) for component in components]
    whole = {f: _complete(factors[f], codes) for f in families}
    n_entries = sum(draft.n_entries for draft in drafts)
    if n_entries > MAX_CONFIGURATIONS:
        raise ArgumentError(
            f"a pass needs {n_entries:,} configurations of families with missing cells, and the limit is "
            f"{MAX_CONFIGURATIONS:,}; hidden_posterior with xi='row' needs no more than their mean rows, or leave out "
            "the rows that miss most"
        )
    known: list[Family] = []
    first = 0
    for f in families:
        factor = factors[f]
        assert isinstance(factor, LogisticFactor)
        pieces = [whole[f].configurations, *(draft.entries[f] for draft in drafts if f in draft.entries)]
        configurations, numbers = distinct_rows(np.concatenate(pieces))
        coordinates = Coordinates(factor, network.prior(factor.node))
        known.append(Family(factor.node, coordinates, configurations, first))
        ends = np.cumsum([len(piece) for piece in pieces])[:-1]
        certain, *rest = np.split(numbers.astype(np.intp) + first, ends)
        whole[f] = whole[f]._replace(numbers=certain)
        for draft in drafts:
            if f in draft.entries:
                draft.numbers[f] = rest.pop(0)
        first += len(configurations)
    groups = []
    for draft, own in zip(drafts, blocks, strict=True):
        given = [np.concatenate([log_given[b.place].reshape(b.shape)[k] for b in own]) for k in range(draft.n_local)]
        groups.append(draft.group(own, index, known, given))
    places: list[tuple[list[tuple[int, int]], list[tuple[int, int]], float]] = [([], [], 0.0) for _ in codes]
    for c, component in enumerate(components):
        for row, local in zip(component.rows.tolist(), component.local.tolist(), strict=True):
            places[row][0].append((c, local))
    for f in families:
        for row, local in zip(whole[f].rows.tolist(), whole[f].local.tolist(), strict=True):
            places[row][0].append((len(groups), local))
        groups.append(_whole_group(factors[f], index[f], known[index[f]], whole[f]))
    given_complete = _given_complete(factors, codes, names)
    roots = {f: k for k, f in enumerate(learned)}
    for f in learned:
        column = codes[:, factors[f].scope[0]]
        for row in np.flatnonzero(column >= 0).tolist():
            places[row][1].append((roots[f], int(column[row])))
    return PassLayout(
        network=network,
        codes=codes,
        families=tuple(known),
        settled=tuple(f for k, f in enumerate(factors) if isinstance(f, LogisticFactor) and k not in coupled),
        roots=tuple(str(factors[f].node) for f in learned),
        groups=tuple(groups),
        places=tuple(
            Place(tuple(at), tuple(seen), log)
            for (at, seen, _), log in zip(places, given_complete.tolist(), strict=True)
        ),
    )


class _Complete(NamedTuple):
    """Rows in which a family is complete, and its configurations there."""

    rows: _Index
    local: _Index
    configurations: Bits
    numbers: _Index


def _complete(factor: Factor, codes: Bits) -> _Complete:
    family = codes[:, list(factor.scope)]
    rows = np.flatnonzero((family >= 0).all(axis=1))
    configurations, local = distinct_rows(family[rows])
    return _Complete(rows, local.astype(np.intp), configurations, np.empty(0, dtype=np.intp))


def _given_complete(factors: Sequence[Factor], codes: Bits, names: Sequence[str]) -> Floats:
    """Log probability of given roots in the rows that observe all of them, shape (n_distinct,)."""
    total = np.zeros(len(codes))
    for factor in factors:
        if not isinstance(factor, RootFactor) or factor.probabilities is None:
            continue
        family = codes[:, list(factor.scope)]
        rows = np.flatnonzero((family >= 0).all(axis=1))
        total[rows] += log_given_observed(factor, family[rows], names)
    return total


class _Draft:
    """A component's factors and the configurations of their missing cells, before these have numbers."""

    def __init__(
        self, component: Component, factors: Sequence[Factor], families: Sequence[int], learned: Sequence[int]
    ) -> None:
        self.component, self.factors = component, factors
        self.families = [f for f in component.factors if f in families]
        self.roots = [f for f in component.factors if f in learned]
        self.learned = list(learned)
        self.n_local = component.cases.size
        self.cells = {f: [v for v in component.nodes if v in factors[f].scope] for f in (*self.families, *self.roots)}
        self.n_entries = self.n_local * sum(2 ** len(self.cells[f]) for f in self.families)
        self.numbers: dict[int, _Index] = {}
        self.entries: dict[int, Bits] = {}
        if self.n_entries <= MAX_CONFIGURATIONS:
            self.entries = {f: self._filled(f) for f in self.families}

    def _filled(self, f: int) -> Bits:
        """Codes of the family, neighbourhood after neighbourhood, every configuration of the missing cells a row."""
        scope = list(self.factors[f].scope)
        bits = all_configurations(len(self.cells[f]))
        codes = np.repeat(self.component.codes[:, scope], len(bits), axis=0)
        for k, v in enumerate(self.cells[f]):
            codes[:, scope.index(v)] = np.tile(bits[:, k], self.n_local)
        return codes

    def group(
        self, blocks: Sequence[Block], index: dict[int, int], known: Sequence[Family], log_given: Sequence[Floats]
    ) -> Group:
        """The component in flat arrays."""
        units, rows = [], []
        for f in self.families:
            scope = list(self.factors[f].scope)
            parents = [scope.index(v) for v in self.cells[f] if v != scope[-1]]
            bits = all_configurations(len(self.cells[f]))
            inner = [k for k, v in enumerate(self.cells[f]) if v != scope[-1]]
            units.append(np.column_stack([np.ones(len(bits)), bits[:, inner]]))
            coordinates = known[index[f]].coordinates
            lowest = coordinates.rows(np.maximum(self.component.codes[:, scope[:-1]], 0))
            steps = coordinates.step[parents]
            rows.append([np.concatenate([row[None, :], steps]) for row in lowest])
        shape = _shape(
            [index[f] for f in self.families],
            [self.learned.index(f) for f in self.roots],
            units,
            [self.cells[f] for f in (*self.families, *self.roots)],
            blocks,
        )
        cases = []
        for k in range(self.n_local):
            own = [piece[k] for piece in rows]
            entries = {f: 2 ** len(self.cells[f]) for f in self.families}
            part = {f: slice(k * n, (k + 1) * n) for f, n in entries.items()}
            signs = [signs_of(self.entries[f][part[f], -1]) for f in self.families]
            numbers = [self.numbers[f][part[f]] for f in self.families]
            cases.append(_case(own, signs, numbers, log_given[k]))
        return Group(self.component.nodes, tuple(blocks), shape, tuple(cases))


def _whole_group(factor: Factor, index: int, family: Family, whole: _Complete) -> Group:
    """A family in the cases in which it is complete."""
    assert isinstance(factor, LogisticFactor)
    shape = _shape([index], [], [np.ones((1, 1))], [[]], [])
    rows = family.coordinates.rows(whole.configurations[:, :-1])
    signs = signs_of(whole.configurations[:, -1])
    cases = [
        _case([rows[k : k + 1]], [signs[k : k + 1]], [whole.numbers[k : k + 1]], np.empty(0))
        for k in range(len(whole.configurations))
    ]
    return Group((), (), shape, tuple(cases))


def _case(rows: Sequence[Floats], signs: Sequence[Floats], numbers: Sequence[_Index], log_given: Floats) -> Case:
    return Case(
        np.concatenate([np.empty(0), *(row.ravel() for row in rows)]),
        _begins([row.size for row in rows])[:-1],
        np.concatenate([np.empty(0), *signs]),
        np.concatenate([np.empty(0, dtype=np.intp), *numbers]),
        log_given,
    )


def _shape(
    families: Sequence[int],
    roots: Sequence[int],
    units: Sequence[Floats],
    cells: Sequence[Sequence[int]],
    blocks: Sequence[Block],
) -> Shape:
    width = max((unit.shape[1] for unit in units), default=1)
    padded = [np.pad(unit, ((0, 0), (0, width - unit.shape[1]))) for unit in units]
    share_block: list[int] = []
    share_factor, sizes, entries, configurations, per_factor = [], [], [], [], []
    for g, own in enumerate(cells):
        n_before = len(share_block)
        for b, block in enumerate(blocks):
            common = [v for v in own if v in block.nodes]
            if not common:
                continue
            strides = 1 << np.arange(len(common))
            entries.append(all_configurations(len(own))[:, [own.index(v) for v in common]].astype(np.intp) @ strides)
            places = [block.nodes.index(v) for v in common]
            configurations.append(block.bits[:, places].astype(np.intp) @ strides)
            share_block.append(b)
            share_factor.append(g)
            sizes.append(2 ** len(common))
        per_factor.append(len(share_block) - n_before)
    by_block = [[s for s, owner in enumerate(share_block) if owner == b] for b in range(len(blocks))]
    return Shape(
        family=_whole(families),
        root=_whole(roots),
        entry_at=_begins([2 ** len(own) for own in cells]),
        unit=np.concatenate([np.empty((0, width)), *padded]),
        n_units=_whole([unit.shape[1] for unit in units]),
        share_block=_whole(share_block),
        share_at=_begins(sizes),
        factor_share=_begins(per_factor),
        share_entry_at=_begins([part.size for part in entries])[:-1],
        share_entry=_joined(entries),
        share_cell_at=_begins([part.size for part in configurations])[:-1],
        share_cell=_joined(configurations),
        block_at=_begins([block.shape[1] for block in blocks]),
        block_share=_whole([s for own in by_block for s in own]),
        block_share_at=_begins([len(own) for own in by_block]),
        share_factor=_whole(share_factor),
    )


def _whole(numbers: Sequence[int]) -> _Index:
    return np.array(numbers, dtype=np.intp)


def _begins(sizes: Sequence[int]) -> _Index:
    """Where stretches of these sizes begin, and where the last ends."""
    return np.concatenate([[0], np.cumsum(_whole(sizes))]).astype(np.intp)


def _joined(parts: Sequence[_Index]) -> _Index:
    return np.concatenate([np.empty(0, dtype=np.intp), *parts])

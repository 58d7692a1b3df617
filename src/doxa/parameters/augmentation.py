r"""Data augmentation for logistic networks with missing cells and hidden nodes: a sampler for many hidden cells.

A step draws the hidden cells given the parameters (`doxa.parameters.hidden_cells`), then each node's parameters given
the completed table, exactly or by moves that keep their posterior (`doxa.parameters.completed_factors`), and offers
every hidden node an exchange of its two labels, which jumps between modes that mirror each other.  Where hidden
configurations are few, `doxa.parameters.joint_target` sums them out instead, which mixes better.

A node that is observed nowhere may as well have 0 and 1 exchanged, if its coefficients change with them.  Where parents
count as -1 and +1 its own coefficients and those of its children change sign; where they count as 0 and 1,
:math:`b + w x = (b + w) - w (1 - x)` moves a part into the children's biases.  The likelihood of a completed table then
stays as it is (but for biases that are fixed and roots whose distribution is given), and so does the posterior, if the
prior is symmetric.  The map is its own inverse and its determinant is 1 or -1, so it is accepted with the ratio of the
densities.  It is proposed with probability 1/2: one that is always accepted would else alternate between the modes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Bits, Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import LogisticNetwork
from doxa.models.logistic_factors import Factor, LogisticFactor, RootFactor
from doxa.models.logistic_parts import Part
from doxa.models.logistic_rows import binary_codes
from doxa.parameters.completed_factors import (
    CompletedFamily,
    GivenRoots,
    LearnedRoots,
    find_centre,
    hamiltonian,
    try_ends,
)
from doxa.parameters.hidden_cells import find_cells, flip, make_blocks
from doxa.parameters.joint_target import Packing, label_exchange_matrix
from doxa.schema import Within

if TYPE_CHECKING:
    from doxa.data import Table

__all__ = ["AugmentationSampler", "AugmentationState", "CompletedTable", "LabelExchange", "label_exchanges"]

Ints: TypeAlias = NDArray[np.intp]


class LabelExchange(NamedTuple):
    """An exchange of 0 and 1 in one hidden node."""

    cells: Ints  # the node's, all of them
    matrix: Floats  # (d, d); the parameters after it are matrix @ theta
    families: tuple[int, ...]  # factors of the node and its children

    def apply(self, theta: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Parameters (d,) and values of the hidden cells (n_cells + 3,) after the exchange: new arrays."""
        changed = values.copy()
        changed[self.cells] = 1.0 - changed[self.cells]
        return self.matrix @ theta, changed


def label_exchanges(
    network: LogisticNetwork,
    factors: Sequence[Factor],
    packing: Packing,
    hidden: Sequence[int],
    nodes: Ints,
) -> tuple[LabelExchange, ...]:
    """One for each node that is observed nowhere and has cells."""
    exchanges = []
    for v in hidden:
        cells = np.flatnonzero(nodes == v)
        if cells.size:
            touched = tuple(
                f for f, factor in enumerate(factors) if isinstance(factor, LogisticFactor) and v in factor.scope
            )
            exchanges.append(LabelExchange(cells, label_exchange_matrix(network, packing, network.names[v]), touched))
    return tuple(exchanges)


_LOW = {"pm1": -1.0, "01": 0.0}
_WIDTH = 4.0  # starts have so many times the posterior's variance
_WIDEST = 2.0  # and this standard deviation at most, in half the change of a logit: e^4 in odds


class CompletedTable:
    """What a chain works with, all of it a function of the arguments: nothing here moves."""

    def __init__(self, network: LogisticNetwork, part: Part, table: Table) -> None:
        factors = [network.factors[f] for f in part.factors]
        codes = binary_codes(table, network.names)
        low = _LOW[network.coding]
        self.packing = Packing(network, part.nodes)
        self.cells = find_cells(factors, codes, table.row_index, network.names)
        self.blocks = make_blocks(factors, self.cells, len(network.names), low, self.packing.place)
        self.families: dict[int, CompletedFamily] = {}
        self.given: dict[int, GivenRoots] = {}
        roots: list[tuple[RootFactor, int, NDArray[np.intp]]] = []
        for f, (factor, share) in enumerate(zip(factors, self.cells.shares, strict=True)):
            if isinstance(factor, LogisticFactor):
                place, prior = self.packing.place[factor.node], network.prior(factor.node)
                self.families[f] = CompletedFamily(factor, place, prior, codes, table.counts, share)
            elif factor.node is not None:
                roots.append((factor, self.packing.place[factor.node].start, share))
            else:
                self.given[f] = GivenRoots(factor, codes, table.counts, share, network.names)
        self.roots = LearnedRoots(
            [factor for factor, _, _ in roots],
            [place for _, place, _ in roots],
            codes,
            table.counts,
            [share for _, _, share in roots],
        )
        unseen = np.flatnonzero((codes < 0).all(axis=0)).tolist()
        self.exchanges = label_exchanges(network, factors, self.packing, unseen, self.cells.nodes)
        filled = self._filled(codes, table.counts)
        self._centres = {
            f: find_centre(family, family.complete_roughly(filled), family.mean) for f, family in self.families.items()
        }
        self.starts = {f: centre.mean for f, centre in self._centres.items()}

    def log_density(self, theta: Floats, values: Floats) -> float:
        """Log prior density plus log probability of the completed table (nats)."""
        total = self.roots.log_density(self.roots.complete(values), theta[self.roots.places])
        total += sum(given.log_probability(values) for given in self.given.values())
        for family in self.families.values():
            total += float(family.log_density(family.complete(values), theta[None, family.place])[0])
        return total

    def draw_start(self, rng: np.random.Generator) -> Floats:
        """Parameters from a wide distribution around the centres of the roughly completed table, shape (d,)."""
        theta = np.empty(self.packing.n_dimensions)
        widest = _WIDEST * 2.0 / self.blocks.step
        for f, family in self.families.items():
            centre = self._centres[f]
            learned = centre.factor @ centre.factor.T - family.precision
            wide = learned / _WIDTH + family.precision + np.eye(family.mean.size) / widest**2
            noise = rng.standard_normal(family.mean.size)
            theta[family.place] = centre.mean + np.linalg.solve(np.linalg.cholesky(wide).T, noise)
        theta[self.roots.places] = self.roots.draw(self.roots.observed / _WIDTH, rng)
        return theta

    def _filled(self, codes: NDArray[np.int8], counts: NDArray[np.int64]) -> Floats:
        """Every hidden cell at the mean of what is observed of its node, 1/2 if nothing is; extended."""
        ones, zeros = counts @ (codes == 1), counts @ (codes == 0)
        means = (ones + 0.5) / (ones + zeros + 1.0)
        return np.concatenate([means[self.cells.nodes], [0.0, 1.0, 0.0]])


class AugmentationState(NamedTuple):
    """Where a chain stands."""

    theta: Floats  # (d,), packed as by `Packing`
    cells: Annotated[Bits, Within(0, 1)]  # (n_cells,), values of the hidden cells


@dataclass(frozen=True)
class AugmentationSampler:
    """The joint posterior of one part's parameters and the hidden cells that tie them, as a sampler for the driver.

    Draws are ``theta`` of shape (n_kept, 1, d), ``log_density`` (n_kept, 1), which is that of parameters *and* hidden
    cells (nats, normalised but for the evidence; not that of the parameters alone), ``acceptance`` (n_kept, 1), of the
    independence steps and averaged over the nodes, and with ``keep_cells`` also ``cells`` (n_kept, n_cells).
    The average of a cell's draws estimates the probability that it is 1.

    The cost of a step is linear in the number of hidden cells; no sum over joint configurations is made.
    """

    network: LogisticNetwork
    part: Part
    table: Table
    thin: int = 1
    keep_cells: bool = False
    tries: int = 4
    state_type: ClassVar[type[AugmentationState]] = AugmentationState

    def __post_init__(self) -> None:
        """Check the arguments, and lay out the table."""
        _check_part(self.network, self.part)
        check_whole("thin", self.thin, 1)
        check_whole("tries", self.tries, 1)
        if not isinstance(self.keep_cells, bool):
            raise ArgumentTypeError(f"keep_cells is {self.keep_cells!r}; it must be True or False")
        _ = self.completed

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the settings only: what follows from them is made again."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def completed(self) -> CompletedTable:
        """The table as it is worked on."""
        return CompletedTable(self.network, self.part, self.table)

    @property
    def packing(self) -> Packing:
        """How parameters stand in ``theta``."""
        return self.completed.packing

    @property
    def cell_rows(self) -> NDArray[np.intp]:
        """Row of the source of every hidden cell, shape (n_cells,)."""
        return self.completed.cells.rows

    @property
    def cell_nodes(self) -> tuple[str, ...]:
        """Node of every hidden cell."""
        return tuple(self.network.names[v] for v in self.completed.cells.nodes)

    def log_density(self, theta: Floats, cells: Bits) -> float:
        """Log of prior density times probability of the table with these hidden cells (nats)."""
        return self.completed.log_density(theta, self.completed.cells.extended(cells))

    def init(self, rng: np.random.Generator) -> AugmentationState:
        """Parameters at twice the width of the posterior without hidden cells, and these at random."""
        return AugmentationState(
            self.completed.draw_start(rng), rng.integers(0, 2, self.completed.cells.n_cells).astype(np.int8)
        )

    def run(
        self, state: AugmentationState, n_steps: int, rng: np.random.Generator
    ) -> tuple[AugmentationState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``) and keep every ``thin``-th."""
        n_kept, n_cells = n_steps // self.thin, self.completed.cells.n_cells
        walk = _Walk(self.completed, state, self.tries)
        draws: dict[str, NDArray[Any]] = {
            "theta": np.empty((n_kept, 1, state.theta.size)),
            "log_density": np.empty((n_kept, 1)),
            "acceptance": np.empty((n_kept, 1)),
        }
        if self.keep_cells:
            draws["cells"] = np.empty((n_kept, n_cells), dtype=np.int8)
        for step in range(1, n_steps + 1):
            walk.step(rng)
            if step % self.thin == 0:
                kept = step // self.thin - 1
                draws["theta"][kept, 0] = walk.theta
                draws["log_density"][kept, 0] = walk.log_density
                draws["acceptance"][kept, 0] = walk.acceptance
                if self.keep_cells:
                    draws["cells"][kept] = walk.values[:n_cells]
        after = AugmentationState(walk.theta.copy(), walk.values[:n_cells].astype(np.int8))
        return after, draws, {"steps": n_steps, "exchanges": walk.exchanges}


class _Walk:
    """A chain under way."""

    def __init__(self, table: CompletedTable, state: AugmentationState, tries: int) -> None:
        self.table, self.tries = table, tries
        self.theta = state.theta.copy()
        self.values = table.cells.extended(state.cells)
        self.completed = {f: family.complete(self.values) for f, family in table.families.items()}
        self.family_densities: dict[int, float] = {}
        self.root_density = self.given_density = 0.0
        self.acceptance, self.exchanges = 1.0, 0
        self._logits = np.empty(table.blocks.n_logits)

    @property
    def log_density(self) -> float:
        """Of parameters and cells together (nats)."""
        return sum(self.family_densities.values()) + self.root_density + self.given_density

    def step(self, rng: np.random.Generator) -> None:
        """Every cell, every parameter and every exchange of labels once."""
        self._draw_cells(rng)
        self._draw_parameters(rng)
        for exchange in self.table.exchanges:
            self._exchange(exchange, rng)

    def _draw_cells(self, rng: np.random.Generator) -> None:
        blocks = self.table.blocks
        for f, family in self.table.families.items():
            rows = slice(blocks.starts[f], blocks.starts[f] + len(family.share))
            self._logits[rows] = family.logits(self.completed[f], self.theta[family.place])
        theta = np.append(self.theta, 0.0)
        steps = blocks.step * theta
        for batch in blocks.batches:
            uniforms: Floats = 1.0 - rng.random((batch.cells.shape[1],))
            flip(batch, self.values, self._logits, steps, theta, uniforms)

    def _draw_parameters(self, rng: np.random.Generator) -> None:
        accepted = 0.0
        for f, family in self.table.families.items():
            completed = self.completed[f] = family.complete(self.values)
            centre = find_centre(family, completed, self.table.starts[f])
            moved = try_ends(family, completed, centre, self.theta[family.place], self.tries, rng)
            accepted += moved.acceptance
            moved = hamiltonian(family, completed, centre, moved, rng)
            self.theta[family.place], self.family_densities[f] = moved.theta, moved.log_density
        self.acceptance = accepted / max(1, len(self.table.families))
        roots = self.table.roots
        cases = roots.complete(self.values)
        logits = self.theta[roots.places] = roots.draw(cases, rng)
        self.root_density = roots.log_density(cases, logits)
        self.given_density = self._given_density(self.values)

    def _exchange(self, exchange: LabelExchange, rng: np.random.Generator) -> None:
        propose, accept = rng.random(2)
        if propose < 0.5:
            return
        theta, values = exchange.apply(self.theta, self.values)
        families = {f: self.table.families[f] for f in exchange.families}
        completed = {f: family.complete(values) for f, family in families.items()}
        densities = {
            f: float(family.log_density(completed[f], theta[None, family.place])[0]) for f, family in families.items()
        }
        given_density = self._given_density(values)  # that of learned roots stays: Beta(1, 1) is symmetric
        ratio = given_density - self.given_density + sum(densities[f] - self.family_densities[f] for f in families)
        if _is_accepted(ratio, accept):
            self.theta, self.values, self.given_density = theta, values, given_density
            self.completed.update(completed)
            self.family_densities.update(densities)
            self.exchanges += 1

    def _given_density(self, values: Floats) -> float:
        return sum(given.log_probability(values) for given in self.table.given.values())


def _is_accepted(log_ratio: float, uniform: float) -> bool:
    return uniform < math.exp(min(log_ratio, 0.0))


def _check_part(network: LogisticNetwork, part: Part) -> None:
    if not isinstance(network, LogisticNetwork):
        raise ArgumentTypeError(f"network is {network!r}; it must be a LogisticNetwork")
    if not isinstance(part, Part):
        raise ArgumentTypeError(f"part is {part!r}; give one of independent_parts(network, table)")
    known = all(0 <= f < len(network.factors) for f in part.factors)
    named = {network.factors[f].node for f in part.factors} - {None} if known else set()
    if not known or named != set(part.nodes):
        raise ArgumentError(
            f"part has nodes {part.nodes!r} and factors {part.factors!r}, which do not belong together in this "
            f"network; give one of independent_parts(network, table)"
        )

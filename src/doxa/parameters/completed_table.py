"""One part of a network on a table whose hidden cells have values: its factors and cells, and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.models.logistic_factors import LogisticFactor, RootFactor
from doxa.models.logistic_rows import binary_codes
from doxa.parameters.cell_blocks import make_blocks
from doxa.parameters.completed_factors import CompletedFamily, GivenRoots, LearnedRoots
from doxa.parameters.completed_moves import find_centre
from doxa.parameters.hidden_cells import find_cells
from doxa.parameters.joint_target import Packing
from doxa.parameters.label_exchange import label_exchanges

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models import LogisticNetwork
    from doxa.models.logistic_parts import Part

__all__ = ["CompletedTable"]

Floats: TypeAlias = NDArray[np.float64]

_LOW = {"pm1": -1.0, "01": 0.0}
_WIDTH = 4.0  # starts have so many times the posterior's variance
_WIDEST = 2.0  # and this standard deviation at most, in half the change of a logit: e^4 in odds


class CompletedTable:
    """What a chain works with, all of it a function of the arguments: nothing here moves.

    Parameters
    ----------
    network : LogisticNetwork
    part : Part
    table : Table

    Attributes
    ----------
    packing : Packing
    cells : HiddenCells
    blocks : Blocks
    families, given : dict of int to CompletedFamily and GivenRoots
        By the factor's position in the part.
    roots : LearnedRoots
    exchanges : tuple of LabelExchange
    starts : dict of int to ndarray
        Where the climb to each family's mode begins.
    """

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

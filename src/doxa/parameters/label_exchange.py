r"""The exchange of a hidden node's two labels: a move that jumps between modes that mirror each other.

A node that is observed nowhere may as well have 0 and 1 exchanged, if its coefficients change with them.  Where parents
count as -1 and +1 its own coefficients and those of its children change sign; where they count as 0 and 1,
:math:`b + w x = (b + w) - w (1 - x)` moves a part into the children's biases.  The likelihood of a completed table then
stays as it is (but for biases that are fixed and roots whose distribution is given), and so does the posterior, if the
prior is symmetric.  The map is its own inverse and its determinant is 1 or -1, so it is accepted with the ratio of the
densities.  It is proposed with probability 1/2: one that is always accepted would else alternate between the modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.models.logistic_factors import Factor, LogisticFactor
from doxa.parameters.symmetry import label_exchange_matrix

if TYPE_CHECKING:
    from doxa.models import LogisticNetwork
    from doxa.parameters.joint_target import Packing

__all__ = ["LabelExchange", "label_exchanges"]

Floats: TypeAlias = NDArray[np.float64]
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
    """One for each node that is observed nowhere and has cells.

    Parameters
    ----------
    network : LogisticNetwork
    factors : sequence of Factor
    packing : Packing
    hidden : sequence of int
        Positions of the nodes that are observed nowhere.
    nodes : ndarray of int, shape (n_cells,)
        Position of each hidden cell's node.
    """
    exchanges = []
    for v in hidden:
        cells = np.flatnonzero(nodes == v)
        if cells.size:
            touched = tuple(
                f for f, factor in enumerate(factors) if isinstance(factor, LogisticFactor) and v in factor.scope
            )
            exchanges.append(LabelExchange(cells, label_exchange_matrix(network, packing, network.names[v]), touched))
    return tuple(exchanges)

r"""`Factor` and `DiscreteNetwork`: what every engine of inference sees of a network.

A network over discrete variables, directed or not, is a list of factors, non-negative tables over a few variables each:

.. math:: p(x) = \frac{1}{Z} \prod_f \exp \ell_f(x_f),

where :math:`\ell_f = -\infty` where a factor is 0.  In a directed network each factor is one conditional probability
table and Z = 1.  Hard evidence makes factors smaller, soft evidence adds factors of one variable, and what remains is
such a list again.  Where tables come from, and what the states are called, is not here.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["DiscreteNetwork", "Factor"]


class Factor(NamedTuple):
    """A table over a few variables."""

    variables: tuple[int, ...]  # positions in the network, all different, in the order of the table's axes
    log_values: NDArray[np.float64]  # shape (n_states of each variable...); nats; -inf where 0, never nan or +inf


class DiscreteNetwork(Protocol):
    """A network as the engines see it; `CategoricalNetwork` and `MarkovNetwork` are such."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables, in order."""

    @property
    def states(self) -> tuple[tuple[str, ...], ...]:
        """Labels of each variable's states."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Tables whose product is proportional to the joint distribution."""

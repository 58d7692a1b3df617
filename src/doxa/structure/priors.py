r"""Priors over graphs: soft knowledge, as a sum over families.

Every prior here is modular, a product over the nodes' families, so that it joins the score of each family and costs the
samplers nothing:

.. math:: \log P(G) = \text{const} + \sum_j \Big[ f_j(|pa(j)|) + \sum_{i \in pa(j)} \lambda_{ij} \Big].

With :math:`f(k) = -\log \binom{n - 1}{k} - k \log n` it is *sparse*, the default: a node has k parents with a
probability proportional to :math:`n^{-k}`, but for the ban on cycles, whichever they are, so that about one edge is
expected beforehand in the whole graph, however many columns there are (a complexity prior: Castillo & van der Vaart
2012).  Among a table's many pairs of columns chance alone makes some look dependent; this is what their number costs.
Where some nodes have no parents in any case, copies of the past, :math:`k \log n` counts the others alone.

With f = 0 and :math:`\lambda = 0` it is uniform over graphs.  A constant :math:`\lambda < 0` is a penalty on
edges; single values :math:`\lambda_{ij}` are log odds of single edges, before the ban on cycles.  With
:math:`f(k) = -\log \binom{n - 1}{k}` a node's number of parents is uniform a priori, again but for the ban on cycles
(Friedman & Koller 2003; Koivisto & Sood 2004).  Hard knowledge is in `doxa.structure.limits`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.arrays import Floats, Words
from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["PRIORS", "StructurePrior", "family_log_prior", "make_prior", "uniform_prior"]

PRIORS = ("sparse", "uniform", "in_degree")


class StructurePrior(NamedTuple):
    """A modular prior over graphs; see the module's notes."""

    kind: str  # one of PRIORS: what the number of parents has to do with it
    by_in_degree: NDArray[np.float64]  # (n_nodes,): f(k) for k parents
    edge_log_odds: NDArray[np.float64]  # (n_nodes, n_nodes): [i, j] for i -> j

    @property
    def is_uniform(self) -> bool:
        """Whether all graphs are equally probable."""
        return not self.by_in_degree.any() and not self.edge_log_odds.any()

    @property
    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What compiled loops need."""
        return self.by_in_degree, self.edge_log_odds


def uniform_prior(n_nodes: int) -> StructurePrior:
    """The prior that is uniform over graphs."""
    return StructurePrior("uniform", np.zeros(n_nodes), np.zeros((n_nodes, n_nodes)))


def make_prior(
    names: Sequence[str],
    kind: str = "sparse",
    edge_log_odds: float | Mapping[tuple[str, str], float] | NDArray[Any] | None = None,
    n_children: int | None = None,
) -> StructurePrior:
    """Check a prior and bring it into one form.

    Parameters
    ----------
    names : sequence of str
        The nodes.
    kind : str, default="sparse"
        ``"sparse"``; ``"uniform"`` over graphs; or ``"in_degree"``: uniform over the number of parents of each node,
        then over the sets of that size.  See the module's notes.
    edge_log_odds : number, mapping or array, optional
        Added for each edge of the graph: one number for all (negative: a penalty), a mapping from (source, target) to
        numbers, or an array of shape (n_nodes, n_nodes), ``[i, j]`` for i -> j.
    n_children : int, optional
        Nodes that may have parents, all when left out: about one edge is expected for these together.  Copies of the
        past may have none.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the kind or a node is unknown, or a log odds is not a finite number; the message names it.

    Examples
    --------
    >>> make_prior(["a", "b"], "uniform", edge_log_odds={("a", "b"): 2.0}).edge_log_odds
    array([[0., 2.],
           [0., 0.]])
    """
    n = len(names)
    if kind not in PRIORS:
        raise ArgumentError(f"prior is {kind!r}; it must be one of {', '.join(map(repr, PRIORS))}")
    by_in_degree = np.zeros(n)
    if kind != "uniform":
        by_in_degree = np.array([-math.log(math.comb(n - 1, k)) for k in range(n)])
    if kind == "sparse":
        by_in_degree -= np.arange(n) * math.log(n if n_children is None else n_children)
    return StructurePrior(kind, by_in_degree, _log_odds(names, edge_log_odds))


def _log_odds(names: Sequence[str], given: Any) -> NDArray[np.float64]:
    n = len(names)
    matrix = np.zeros((n, n))
    form = "give a number, a mapping from (source, target), or an array"
    if given is None:
        return matrix
    if isinstance(given, Mapping):
        for edge, value in given.items():
            if not isinstance(edge, tuple) or len(edge) != 2:
                raise ArgumentTypeError(f"edge_log_odds has the key {edge!r}; keys are pairs of names (source, target)")
            for node in edge:
                if node not in names:
                    raise ArgumentError(f"edge_log_odds names {node!r}, which is not a column of the table")
            if edge[0] == edge[1]:
                raise ArgumentError(f"edge_log_odds names the edge {edge[0]!r} -> {edge[1]!r}; edges join two nodes")
            matrix[names.index(edge[0]), names.index(edge[1])] = _finite(value, f"edge_log_odds[{edge!r}]")
        return matrix
    if isinstance(given, (bool, str)):
        raise ArgumentTypeError(f"edge_log_odds is {given!r}; {form}")
    if isinstance(given, numbers.Real):
        matrix[:] = _finite(given, "edge_log_odds")
    else:
        try:
            array = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"edge_log_odds is {given!r}; {form}") from None
        if array.shape != (n, n):
            raise ArgumentError(f"edge_log_odds has shape {array.shape}; for {n} columns it must be ({n}, {n})")
        matrix = array.copy()
        np.fill_diagonal(matrix, 0.0)
        if not np.isfinite(matrix).all():
            i, j = np.argwhere(~np.isfinite(matrix))[0]
            raise ArgumentError(
                f"edge_log_odds of {names[i]!r} -> {names[j]!r} is {matrix[i, j]}; it must be finite "
                "(required= and forbidden= say what is certain)"
            )
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _finite(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"{what} is {value!r}; it must be a finite number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ArgumentError(f"{what} is {value!r}; it must be finite (required= and forbidden= say what is certain)")
    return number


@hot
def family_log_prior(child: int, parents: Words, prior: tuple[Floats, Floats]) -> float:
    """The share of one family in the log prior, up to a constant; ``prior`` is `StructurePrior.arrays`."""
    by_in_degree, edge_log_odds = prior
    total = 0.0
    count = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            total += edge_log_odds[64 * w + lowest_bit(word), child]
            word &= word - np.uint64(1)
            count += 1
    return total + by_in_degree[count]  # type: ignore[no-any-return]

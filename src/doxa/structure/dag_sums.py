r"""Sums over all directed acyclic graphs on some twenty nodes, by dynamic programming over sets of nodes.

A graph weighs the product of a weight :math:`w_i(P)` for every node i and its parents P.  With
:math:`\alpha_i(R) = \sum_{P \subseteq R} w_i(P)`, the graphs on a set S weigh together

.. math:: A(S) = \sum_{\emptyset \ne T \subseteq S} (-1)^{|T| + 1} A(S - T) \prod_{i \in T} \alpha_i(S - T),

T running over sets of nodes without children in S (Robinson 1973; Tian & He 2009).  The derivative of A(V) by A(R),

.. math:: F(R) = \sum_{\emptyset \ne T \subseteq V - R} (-1)^{|T| + 1} F(R \cup T) \prod_{i \in T} \alpha_i(R),

weighs the ways to choose parents for the nodes outside R when all of R comes first.  The derivative by
:math:`\alpha_i(R)` is :math:`D_i(R) \ge 0`, and :math:`w_i(P) D_i(R) / A(V)` is the probability that i has the parents
P and R is the set of its non-descendants: the one ancestral set after which i alone can follow.  Summed over the
supersets R of P this is the posterior of parent sets.

Three things make it fast and right.

- *Range.*  Weights differ by thousands of nats, so a number is a mantissa and a power of two.  A(S) is kept relative to
  2^e(S), the best order of S: e(S) = max_i e(S - i) + exponent of alpha_i(S - i).  Then
  2^-|S| <= A(S) / 2^e(S) <= |S|!, and no term exceeds A(S): nothing over- or underflows and nothing needs
  renormalising.  F(R) likewise, relative to f(R).
- *Signs.*  The terms of A(S) without their signs add up to A(S) E[2^sinks - 1]: harmless for graphs with few sinks, yet
  over twenty nearly independent variables the recursion may lose a score of digits.  So mantissas are pairs of doubles,
  some 31 digits (Dekker 1971; Joldes, Muller & Popescu 2017), and beside each sum runs a bound of its error that takes
  every rounding at its worst.  An answer whose bound exceeds 1e-6 is refused.
- *Pruning.*  e(R) + f(R) - e(V) bounds the probability that no edge enters R.  Sets for which it is below 2^-160 are
  left out: together they change A(V) by less than a part in 2^120.

Work is cut by the high bits of the target set; blocks with equally many high bits are independent and run on threads.
The cut depends on the number of nodes alone, and so do the results.

Drawing graphs is in `doxa.structure.dag_draws`, what it all costs in `doxa.structure.dag_budget`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot
from doxa.errors import ArgumentError, DoxaError

if TYPE_CHECKING:
    from doxa.structure.dag_draws import DrawTables

__all__ = [
    "DROP",
    "MOST_NODES",
    "POWERS",
    "ExactPosterior",
    "Families",
    "LogWeights",
    "ParentSets",
    "PrecisionError",
    "SetSums",
    "SubsetSums",
    "grow_products",
    "log_sum_over_dags",
    "minus",
    "plus",
    "product_scratch",
    "sum_over_dags",
    "times",
]

LogWeights = ArrayLike | Sequence[tuple[ArrayLike, ArrayLike]]

MOST_NODES = 24  # n! 4^n must stay below the largest power in the table; memory ends sooner
_WIDEST = 5e7  # nats between the weights of one node: sums of their exponents must fit 32 bits
_WORST_ERROR = 1e-6
_LOW_BITS = 12  # 2^12 cells of 32 bytes fit a core's cache

DROP = 200  # terms 2^-200 below the reference are left out
_PRUNE = 160
_FAR = 1 << 40  # exponent of what is impossible or pruned
POWERS = np.ldexp(1.0, np.arange(-DROP, 256))
_UNIT = 2.0**-104  # pairs of doubles: one addition or half a multiplication errs by less, relatively


class PrecisionError(DoxaError, ArithmeticError):
    """A sum lost too many digits to be given out."""


class ParentSets(NamedTuple):
    """Posterior of the parents of one node, likeliest first."""

    masks: NDArray[np.uint64]  # (n_sets,) bit j: node j is a parent
    probability: NDArray[np.float64]  # (n_sets,) sums to 1


@dataclass(frozen=True, eq=False, repr=False)
class ExactPosterior:
    """Exact answers over all graphs; made by `sum_over_dags`.

    Attributes
    ----------
    names : tuple of str
        The nodes.
    log_evidence : float
        Logarithm of the sum of the weights of all graphs, nats.  With log marginal likelihoods plus a log prior that
        sums to one over the graphs, this is the log marginal likelihood of the data; for another prior
        subtract its own `log_sum_over_dags`.
    edge_probabilities : ndarray of float, shape (n_nodes, n_nodes)
        ``[i, j]`` is P(i -> j).
    ancestor_probabilities : ndarray of float, shape (n_nodes, n_nodes)
        ``[i, j]`` is the probability of a directed path from i to j.
    log_relative_error : float
        Logarithm of a bound of two errors: the relative error of the evidence, and the absolute errors of the
        parent-set probabilities of any one node, added up.  It covers rounding of the sums and of the weights.

    Notes
    -----
    It holds on to the tables that `draw` needs: 20 bytes times ``n_nodes * 2**n_nodes``.
    """

    names: tuple[str, ...]
    log_evidence: float
    edge_probabilities: NDArray[np.float64]
    ancestor_probabilities: NDArray[np.float64]
    log_relative_error: float
    _parent_sets: tuple[ParentSets, ...]
    _tables: DrawTables

    def __repr__(self) -> str:
        error = math.exp(self.log_relative_error)
        return f"ExactPosterior({self.n_nodes} nodes, log evidence {self.log_evidence:.6f}, error below {error:.1e})"

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.names)

    def parent_sets(self, node: int | str) -> ParentSets:
        """All parent sets of ``node`` with a finite weight and their probabilities, likeliest first."""
        if isinstance(node, str) and node not in self.names:
            raise ArgumentError(f"node {node!r} is not among the nodes {', '.join(map(repr, self.names))}")
        position = self.names.index(node) if isinstance(node, str) else node
        if not 0 <= position < self.n_nodes:
            raise ArgumentError(f"node is {position}; positions run from 0 to {self.n_nodes - 1}")
        return self._parent_sets[position]

    def draw(self, n_draws: int, rng: np.random.Generator) -> NDArray[np.uint64]:
        """Independent draws of graphs: adjacency rows as bit sets, shape (n_draws, n_nodes, 1)."""
        from doxa.structure.dag_draws import draw_dags

        return draw_dags(self._tables, n_draws, rng)


class Families(NamedTuple):
    """The possible families of one node, heaviest first; a weight is ``mantissa * 2^exponent * exp(reference)``."""

    masks: NDArray[np.int64]
    mantissa: NDArray[np.float64]  # in [0.5, 1)
    exponent: NDArray[np.int64]
    reference: float  # nats, the heaviest log weight
    rounding: float  # bound of the relative error of one weight


class SubsetSums(NamedTuple):
    """alpha_i(R) as a pair of doubles times a power of two, each of shape (2^n, n); zero where i is in R."""

    high: NDArray[np.float64]  # 0 or in [0.5, 1)
    low: NDArray[np.float64]
    exponent: NDArray[np.int32]


class SetSums(NamedTuple):
    """A(S) or F(S) for all sets: columns high, low, error bound, and the exponent all three are relative to."""

    cells: NDArray[np.float64]  # (2^n, 4)
    exponents: NDArray[np.int64]  # the same memory; the last column counts

    @classmethod
    def of(cls, exponents: NDArray[np.int64]) -> SetSums:
        """Zeros relative to these powers of two."""
        cells = np.zeros((len(exponents), 4))
        sums = cls(cells, cells.view(np.int64))
        sums.exponents[:, 3] = exponents
        return sums


def sum_over_dags(
    log_weights: LogWeights, names: Sequence[str] | None = None, workers: int | None = None
) -> ExactPosterior:
    """Sum over all graphs: evidence, edges, parent sets, ancestors, and exact draws.

    Parameters
    ----------
    log_weights : array of float, shape (n_nodes, 2**n_nodes), or list of (masks, log_weights)
        Log weight of every family.  In the array, column P is for the parents whose bits are set in P, and ``-inf``
        says impossible.  In the list, entry i holds the possible parent sets of node i as bit masks, none twice, and
        their log weights.
    names : sequence of str, optional
        ``X0, X1, ...`` when left out.
    workers : int, optional
        Threads; as many as there are processors when left out.  Results do not depend on it.

    Raises
    ------
    ArgumentError
        If the weights have another shape, are NaN or ``inf``, or allow no graph at all.
    PrecisionError
        If the alternating sums lose so many digits that the error may exceed 1e-6.

    Notes
    -----
    At most 2 * 3^n_nodes steps, on some 40 bytes times n_nodes * 2^n_nodes: `doxa.structure.dag_budget.predicted_cost`.

    Examples
    --------
    >>> posterior = sum_over_dags([([0b00, 0b10], np.log([1, 3])), ([0b00, 0b01], np.log([1, 1]))])
    >>> round(float(np.exp(posterior.log_evidence)), 9)  # 1 for no edge, 3 for 1 -> 0, 1 for 0 -> 1
    5.0
    >>> posterior.edge_probabilities.round(9).tolist()
    [[0.0, 0.2], [0.6, 0.0]]
    """
    from doxa.structure.dag_draws import DrawTables

    families = _families(log_weights)
    n = len(families)
    labels = tuple(names) if names is not None else tuple(f"X{i}" for i in range(n))
    if len(labels) != n:
        raise ArgumentError(f"names has {len(labels)} entries but log_weights has {n} nodes")
    with _Threads(n, workers) as threads:
        alpha = _subset_sums(families, threads)
        inside, outside = _references(alpha)
        _forward(alpha, inside, threads)
        log_evidence, error = _log_total(families, inside)
        _check_error(error)
        derivative = _backward(alpha, inside, outside, threads)
        error = _posterior_error(inside, outside, error)
        _check_error(error)
        edges, ancestors = np.zeros((n, n)), np.zeros((n, n))
        found: list[Any] = [None] * n
        excess = np.zeros(n)

        def finish(node: int) -> None:
            found[node], excess[node] = _node_posterior(node, families[node], alpha, derivative, edges, ancestors)

        threads.run(finish, range(n))
    observed = max(float(excess.max()), abs(_ratio(outside, 0, inside, len(inside.cells) - 1) - 1.0))
    _check_error(observed)
    tables = DrawTables.of(families, alpha, outside)
    return ExactPosterior(labels, log_evidence, edges, ancestors, math.log(max(error, observed)), tuple(found), tables)


def log_sum_over_dags(log_weights: LogWeights, workers: int | None = None) -> float:
    """Logarithm of the sum of the weights of all graphs: `sum_over_dags` without its second half.

    Examples
    --------
    >>> every_family = [([P for P in range(8) if not P >> i & 1], np.zeros(4)) for i in range(3)]
    >>> round(float(np.exp(log_sum_over_dags(every_family))), 9)  # the number of graphs on three nodes
    25.0
    """
    families = _families(log_weights)
    with _Threads(len(families), workers) as threads:
        alpha = _subset_sums(families, threads)
        inside, _ = _references(alpha)
        _forward(alpha, inside, threads)
    log_evidence, error = _log_total(families, inside)
    _check_error(error)
    return log_evidence


def _check_error(error: float) -> None:
    if not error <= _WORST_ERROR:  # NaN too
        raise PrecisionError(
            f"the sums over all graphs alternate in sign; their relative error may reach {error:.1e}, more than "
            f"{_WORST_ERROR:g}: too many nodes are nearly independent for so many at once; leave out nodes without "
            "likely edges, forbid unlikely edges, or sample graphs instead (exact=False)"
        )


class _Threads:
    """Runs independent tasks on threads, or in turn when the sums are small."""

    def __init__(self, n_nodes: int, workers: int | None) -> None:
        self._workers = 1 if n_nodes <= _LOW_BITS else workers or _n_processors()
        self._pool: Any = None

    def __enter__(self) -> _Threads:
        if self._workers > 1:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._workers)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(self, task: Callable[[int], Any], items: Iterable[int]) -> None:
        """``task(item)`` for every item; returns when all are done."""
        list((map if self._pool is None else self._pool.map)(task, items))


def _n_processors() -> int:
    from joblib import cpu_count

    return int(cpu_count())


def _families(log_weights: LogWeights) -> list[Families]:
    """Check the weights and bring both forms into one."""
    if isinstance(log_weights, np.ndarray):
        n = len(log_weights)
        if log_weights.ndim != 2 or n > MOST_NODES or log_weights.shape[1] != 2**n:
            raise ArgumentError(
                f"log_weights has shape {log_weights.shape}; it must be (n_nodes, 2**n_nodes), "
                f"for at most {MOST_NODES} nodes"
            )
        everything = np.arange(2**n)
        rows: list[Any] = [(everything, row) for row in log_weights]
    else:
        rows = list(log_weights)  # type: ignore[arg-type]
        n = len(rows)
    if not 1 <= n <= MOST_NODES:
        raise ArgumentError(f"log_weights has {n} nodes; sums over all graphs are for 1 to {MOST_NODES} nodes")
    return [_family_list(node, n, masks, values) for node, (masks, values) in enumerate(rows)]


def _family_list(node: int, n: int, masks: ArrayLike, values: ArrayLike) -> Families:
    sets, logs = np.asarray(masks).astype(np.int64), np.asarray(values, dtype=np.float64)
    where = f"log_weights[{node}]"
    if sets.ndim != 1 or sets.shape != logs.shape:
        raise ArgumentError(f"{where} has {sets.shape} masks and {logs.shape} weights; give one weight for each mask")
    if np.isnan(logs).any() or (logs == np.inf).any():
        raise ArgumentError(f"{where} contains NaN or inf; a log weight is finite, or -inf for an impossible family")
    keep = logs > -np.inf
    sets, logs = sets[keep], logs[keep]
    if not logs.size:
        raise ArgumentError(f"{where} has no finite entry; node {node} needs at least one possible parent set")
    if ((sets >> node) & 1).any() or (sets < 0).any() or (sets >> n).any():
        raise ArgumentError(f"{where} has a finite weight for parents that include {node} itself or no node at all")
    reference = float(logs.max())
    if reference - logs.min() > _WIDEST or abs(reference) > 1e15:
        raise ArgumentError(
            f"{where} spans {logs.min():g} to {reference:g} nats; weights of one node may differ by {_WIDEST:g}: "
            "use -inf for what is impossible"
        )
    order = np.lexsort((sets, -logs))
    sets, logs = sets[order], logs[order]
    if len(np.unique(sets)) < len(sets):
        raise ArgumentError(f"{where} lists a parent set twice")
    binary = (logs - reference) / math.log(2)
    exponent = np.floor(binary)
    rounding = 2.0**-52 * (float(np.abs(binary).max()) + 4)
    return Families(sets, np.exp2(binary - exponent - 1), exponent.astype(np.int64) + 1, reference, rounding)


def _subset_sums(families: list[Families], threads: _Threads) -> SubsetSums:
    n = len(families)
    alpha = SubsetSums(np.zeros((2**n, n)), np.zeros((2**n, n)), np.zeros((2**n, n), dtype=np.int32))

    def sum_node(node: int) -> None:
        work = _work(n)
        _place(node, families[node], work)
        _sum_subsets(n - 1, work, POWERS)
        _write_column(node, n, work, alpha)

    threads.run(sum_node, range(n))
    return alpha


def _work(n: int) -> tuple[NDArray[Any], ...]:
    size = 2 ** (n - 1)
    return np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)


def _references(alpha: SubsetSums) -> tuple[SetSums, SetSums]:
    """Empty tables for A and F with their exponents e and f; pruned sets are marked by far-off exponents."""
    n_sets, n = alpha.high.shape
    before, after = np.full(n_sets, -_FAR), np.full(n_sets, -_FAR)
    _best_orders(alpha, before, after)
    best = before[-1]
    if best < -_FAR // 2:
        raise ArgumentError("log_weights allow no graph at all: every choice of possible parent sets has a cycle")
    slack = _PRUNE + n + math.lgamma(n + 1) / math.log(2)
    pruned = before + after < best - slack
    inside, outside = SetSums.of(np.where(pruned, _FAR, before)), SetSums.of(np.where(pruned, -_FAR, after))
    inside.cells[0, 0] = outside.cells[-1, 0] = 1.0
    return inside, outside


def _blocks(n: int) -> tuple[int, list[list[int]]]:
    """How many low bits a block has, and the high parts of the sets, by their number of bits."""
    low = min(n, _LOW_BITS)
    waves: list[list[int]] = [[] for _ in range(n - low + 1)]
    for high in range(2 ** (n - low)):
        waves[high.bit_count()].append(high)
    return low, waves


def _forward(alpha: SubsetSums, inside: SetSums, threads: _Threads) -> None:
    """Fill in A(S) for all S."""
    low, waves = _blocks(alpha.high.shape[1])

    def push(high: int) -> None:
        _push_block(high, low, alpha, inside, POWERS, product_scratch(low))

    for wave in waves:
        threads.run(push, wave)


def _backward(alpha: SubsetSums, inside: SetSums, outside: SetSums, threads: _Threads) -> tuple[NDArray[Any], ...]:
    """Fill in F(R) for all R; return D_i(R) / A(V) as mantissas and exponents, shape (2^n, n) each."""
    n_sets, n = alpha.high.shape
    low, waves = _blocks(n)
    derivative = np.zeros((n_sets, n)), np.zeros((n_sets, n), dtype=np.int32)
    top = float(inside.cells[-1, 0]), int(inside.exponents[-1, 3])

    def pull(high: int) -> None:
        scratch = _pull_scratch(low), _pull_scratch(n - low)
        _pull_block(high, low, alpha, inside, outside, top, derivative, POWERS, scratch)

    for wave in reversed(waves):
        threads.run(pull, wave)
    return derivative


def _pull_scratch(n_bits: int) -> tuple[tuple[NDArray[Any], ...], ...]:
    """Room for products, for the sums they multiply, for those sums folded, and for the factors."""
    size = 2**n_bits
    return product_scratch(n_bits), (np.zeros(size), np.zeros(size), np.zeros(size)), (np.zeros(size), np.zeros(size))


def product_scratch(n_bits: int) -> tuple[NDArray[Any], ...]:
    """Products over all subsets of some nodes (high, low, exponent, the subset), and the factors (high, low, node)."""
    size, whole = 2**n_bits, np.int64
    return (
        np.zeros(size), np.zeros(size), np.zeros(size, dtype=whole), np.zeros(size, dtype=whole),
        np.zeros(n_bits + 1), np.zeros(n_bits + 1), np.zeros(n_bits + 1, dtype=whole),
    )  # fmt: skip


def _log_total(families: list[Families], inside: SetSums) -> tuple[float, float]:
    """log A(V), and a bound of the relative error of A(V)."""
    total, _, bound, _ = inside.cells[-1]
    if not total > 0.0:
        return math.nan, math.inf
    log_total = math.log(total) + math.log(2) * int(inside.exponents[-1, 3]) + math.fsum(f.reference for f in families)
    size = abs(log_total) + math.fsum(abs(f.reference) for f in families)
    return log_total, bound / total + sum(f.rounding for f in families) + 2.0**-52 * size + 2.0**-120


def _posterior_error(inside: SetSums, outside: SetSums, evidence_error: float) -> float:
    r"""Bound of the summed absolute error of the parent-set probabilities of any one node.

    :math:`\alpha_i(R) D_i(R)` is A(R) times the terms of F(R) in which T contains i, so that summed over R the errors
    are at most those of A(R) F(R).
    """
    kept = (inside.exponents[:, 3] < _FAR) & (inside.cells[:, 0] != 0.0)
    shift = (inside.exponents[:, 3] + outside.exponents[:, 3] - inside.exponents[-1, 3])[kept]
    (a, _, a_error, _), (f, _, f_error, _) = inside.cells[kept].T, outside.cells[kept].T
    if not (np.isfinite(a_error).all() and np.isfinite(f_error).all()):
        return math.inf
    error = np.ldexp(a * f_error + a_error * f, np.maximum(shift, -2000).astype(np.int32))
    return float(error.sum() / inside.cells[-1, 0]) + 2 * evidence_error


def _ratio(one: SetSums, i: int, two: SetSums, j: int) -> float:
    shift = int(one.exponents[i, 3] - two.exponents[j, 3])
    return math.ldexp(float(one.cells[i, 0] / two.cells[j, 0]), shift)


def _node_posterior(
    node: int,
    families: Families,
    alpha: SubsetSums,
    derivative: tuple[NDArray[Any], ...],
    edges: NDArray[np.float64],
    ancestors: NDArray[np.float64],
) -> tuple[ParentSets, float]:
    """Parent sets of one node and how far their sum was from 1; fills in its ``edges`` and ``ancestors``."""
    n = len(edges)
    work = _work(n)
    outsiders = np.zeros(n)
    total = _read_column(node, n, alpha, derivative, work, outsiders)
    _sum_supersets(n - 1, work, POWERS)
    probability = np.empty(len(families.masks))
    _weigh_families(node, families, work, probability)
    excess = max(abs(float(probability.sum()) - 1.0), abs(total - 1.0))
    probability /= probability.sum()
    for parent in range(n):
        edges[parent, node] = probability[(families.masks >> parent & 1).astype(np.bool_)].sum()
    ancestors[node] = np.minimum(outsiders, 1.0)
    order = np.argsort(-probability, kind="stable")
    return ParentSets(families.masks[order].astype(np.uint64), probability[order]), excess


# Compiled from here on.  A pair of doubles (h, l) is the number h + l with |l| <= half a unit of h in the last place.


@intrinsic  # type: ignore[untyped-decorator]
def _fused(_typing: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
    """a * b + c, rounded once."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@hot
def times(a_h: float, a_l: float, b_h: float, b_l: float) -> tuple[float, float]:
    """Product of two pairs; relative error below 5 * 2^-106 (Joldes, Muller & Popescu 2017, algorithm 12)."""
    product = a_h * b_h
    rest = _fused(a_h, b_l, _fused(a_l, b_h, _fused(a_h, b_h, -product)))
    high = product + rest
    return high, rest - (high - product)


@hot
def plus(a_h: float, a_l: float, b_h: float, b_l: float) -> tuple[float, float]:
    """Sum of two pairs; error below 4 * 2^-106 (|a| + |b|), signs whatever (their algorithm 5)."""
    total = a_h + b_h
    b_part = total - a_h
    rest = (a_h - (total - b_part)) + (b_h - b_part) + (a_l + b_l)
    high = total + rest
    return high, rest - (high - total)


@hot
def minus(one: int, two: int, node: int, alpha: Any, powers: Any) -> float:
    """(alpha_i(one) - alpha_i(two)) / alpha_i(one), for two within one; 0 where alpha_i(one) is 0."""
    a_h, a_l, a_e = alpha
    if a_h[one, node] == 0.0:
        return 0.0
    k = np.int64(a_e[two, node]) - np.int64(a_e[one, node])
    if a_h[two, node] == 0.0 or k <= -DROP:
        return 1.0
    scale = powers[k + DROP]
    high, _ = plus(a_h[one, node], a_l[one, node], -a_h[two, node] * scale, -a_l[two, node] * scale)
    return max(0.0, high / a_h[one, node])  # type: ignore[no-any-return]


@hot
def _squeeze(members: int, node: int) -> int:
    """The set without the bit of ``node``, higher bits moved down."""
    return (members >> (node + 1) << node) | (members & ((1 << node) - 1))


@hot
def _spread(members: int, node: int) -> int:
    """Undo `_squeeze`: a set without ``node``."""
    return (members >> node << (node + 1)) | (members & ((1 << node) - 1))


@hot
def _place(node: int, families: Any, work: Any) -> None:
    masks, mantissa, exponent = families[0], families[1], families[2]
    for f in range(masks.size):
        at = _squeeze(masks[f], node)
        work[0][at], work[1][at], work[2][at] = mantissa[f], 0.0, exponent[f]


@hot
def _add_into(to: int, other: int, work: Any, powers: Any) -> None:
    """Add one number of ``work`` to another, both non-negative with exponents of their own."""
    high, low, exponent = work
    if high[other] == 0.0:
        return
    k = exponent[other] - exponent[to]
    if high[to] == 0.0 or k >= DROP:
        high[to], low[to], exponent[to] = high[other], low[other], exponent[other]
        return
    if k <= -DROP:
        return
    if k <= 0:
        up, down = 1.0, powers[k + DROP]
    else:
        up, down = powers[DROP - k], 1.0
        exponent[to] = exponent[other]
    h, l = plus(high[to] * up, low[to] * up, high[other] * down, low[other] * down)  # noqa: E741
    if h >= 1.0:
        h, l = 0.5 * h, 0.5 * l  # noqa: E741
        exponent[to] += 1
    high[to], low[to] = h, l


@hot
def _sum_subsets(n_bits: int, work: Any, powers: Any) -> None:
    """Every set's number becomes the sum over its subsets."""
    for bit in range(n_bits):
        half = 1 << bit
        for start in range(0, 1 << n_bits, 2 * half):
            for without in range(start, start + half):
                _add_into(without + half, without, work, powers)


@hot
def _sum_supersets(n_bits: int, work: Any, powers: Any) -> None:
    """Every set's number becomes the sum over its supersets."""
    for bit in range(n_bits):
        half = 1 << bit
        for start in range(0, 1 << n_bits, 2 * half):
            for without in range(start, start + half):
                _add_into(without, without + half, work, powers)


@hot
def _write_column(node: int, n: int, work: Any, alpha: Any) -> None:
    for at in range(1 << (n - 1)):
        members = _spread(at, node)
        alpha[0][members, node], alpha[1][members, node] = work[0][at], work[1][at]
        alpha[2][members, node] = work[2][at]


@hot
def _power(exponent: int) -> float:
    return math.ldexp(1.0, max(exponent, -1074)) if exponent > -1074 else 0.0


@hot
def _read_column(node: int, n: int, alpha: Any, derivative: Any, work: Any, outsiders: Any) -> float:
    """D_i into ``work``; adds P(the non-descendants of i are R) to all nodes outside R, and returns its sum."""
    total = 0.0
    for at in range(1 << (n - 1)):
        members = _spread(at, node)
        mantissa, exponent = derivative[0][members, node], derivative[1][members, node]
        work[0][at], work[2][at] = mantissa, exponent
        if mantissa > 0.0:
            probability = mantissa * alpha[0][members, node] * _power(exponent + alpha[2][members, node])
            total += probability
            if probability > 0.0:
                for other in range(n):
                    if other != node and not members >> other & 1:
                        outsiders[other] += probability
    return total


@hot
def _weigh_families(node: int, families: Any, work: Any, probability: Any) -> None:
    masks, mantissa, exponent = families[0], families[1], families[2]
    for f in range(masks.size):
        at = _squeeze(masks[f], node)
        probability[f] = mantissa[f] * work[0][at] * _power(exponent[f] + work[2][at])


@hot
def _best_orders(alpha: Any, before: Any, after: Any) -> None:
    """Exponents of the best order of each set, and of the best order of the rest after it."""
    a_h, a_e = alpha[0], alpha[2]
    n_sets, n = a_h.shape
    before[0] = after[n_sets - 1] = 0
    for members in range(n_sets):
        for node in range(n):
            if not members >> node & 1 and a_h[members, node] > 0.0:
                larger = members | 1 << node
                before[larger] = max(before[larger], before[members] + a_e[members, node])
    for members in range(n_sets - 1, -1, -1):
        for node in range(n):
            if not members >> node & 1 and a_h[members, node] > 0.0:
                after[members] = max(after[members], after[members | 1 << node] + a_e[members, node])


@hot
def _double(size: int, p_h: Any, p_l: Any, m_h: float, m_l: float) -> None:
    old_h, old_l, new_h, new_l = p_h[:size], p_l[:size], p_h[size : 2 * size], p_l[size : 2 * size]
    for t in range(size):
        new_h[t], new_l[t] = times(old_h[t], old_l[t], m_h, m_l)


@hot
def _double_sets(size: int, p_e: Any, p_s: Any, exponent: int, bit: int) -> None:
    old_e, old_s, new_e, new_s = p_e[:size], p_s[:size], p_e[size : 2 * size], p_s[size : 2 * size]
    for t in range(size):
        new_e[t] = old_e[t] + exponent
        new_s[t] = old_s[t] | bit


@hot
def grow_products(rest: int, first: int, n_bits: int, alpha: Any, products: Any) -> int:
    """Products of ``-alpha_i(rest)`` over all sets of the nodes from ``first`` to ``first + n_bits - 1``.

    They multiply what stands in the first places.  Nodes in ``rest``, or with alpha 0, are left out; returns how many
    are not.
    """
    p_h, p_l, p_e, p_s, m_h, m_l, nodes = products
    a_h, a_l, a_e = alpha
    n_factors = 0
    for node in range(first, first + n_bits):
        if not rest >> node & 1 and a_h[rest, node] > 0.0:
            m_h[n_factors], m_l[n_factors], nodes[n_factors] = -a_h[rest, node], -a_l[rest, node], node
            _double(1 << n_factors, p_h, p_l, m_h[n_factors], m_l[n_factors])
            _double_sets(1 << n_factors, p_e, p_s, a_e[rest, node], 1 << node)
            n_factors += 1
    return n_factors


@hot
def _term_error(rest: int, n: int) -> float:
    """Bound of the relative rounding error of a product of alphas after ``rest``, carried up a tree of sums."""
    n_rest = 0
    for node in range(n):
        n_rest += rest >> node & 1
    return (n - n_rest + 1) * (n_rest + 6) * _UNIT  # a factor: |rest| additions, two multiplications, a level of sums


@hot
def _push_block(high: int, n_low: int, alpha: Any, inside: Any, powers: Any, products: Any) -> None:
    """Send A(R) on from all R to the sets whose high bits are ``high``; those in this block are final when met."""
    cells, exponents = inside
    p_h, p_l, p_e, p_s = products[:4]
    a_h, a_l, a_e = alpha
    n = a_h.shape[1]
    source = 0
    while True:
        added = high ^ source
        for low in range(1 << n_low):
            rest = source << n_low | low
            if exponents[rest, 3] == _FAR:
                continue
            if not cells[rest, 0] > 0.0:
                cells[rest, 2] = np.inf  # lost all digits: the bound says so
                cells[rest, 0] = 1.0
            p_h[0], p_l[0], p_e[0] = -cells[rest, 0], -cells[rest, 1], exponents[rest, 3]
            p_s[0] = high << n_low | low
            for bit in range(n - n_low):
                if added >> bit & 1:
                    node = n_low + bit
                    p_h[0], p_l[0] = times(p_h[0], p_l[0], -a_h[rest, node], -a_l[rest, node])
                    p_e[0] += a_e[rest, node]
            if p_h[0] == 0.0:
                continue
            size = 1 << grow_products(rest, 0, n_low, alpha, products)
            relative = cells[rest, 2] / cells[rest, 0] + _term_error(rest, n)
            for t in range(1 if added == 0 else 0, size):
                to = p_s[t]
                k = p_e[t] - exponents[to, 3]
                if k > -DROP:
                    scale = powers[k + DROP]
                    term = p_h[t] * scale
                    h, l = plus(cells[to, 0], cells[to, 1], term, p_l[t] * scale)  # noqa: E741
                    cells[to, 0], cells[to, 1] = h, l
                    cells[to, 2] += abs(term) * relative + abs(h) * _UNIT
        if source == high:
            break
        source = (source - high) & high


@hot
def _gather(size: int, base: int, shift: int, products: Any, outside: Any, sums: Any, powers: Any) -> bool:
    """The F(R + T) for one high part of T and all low parts, to a common scale; whether any is left."""
    cells, exponents = outside
    x_h, x_l, x_error = sums
    p_e, p_s = products[2], products[3]
    some = False
    for t in range(size):
        at = base | p_s[t]
        k = exponents[at, 3] + p_e[t] + shift
        if k > -DROP:
            scale = powers[k + DROP]
            x_h[t], x_l[t], x_error[t] = cells[at, 0] * scale, cells[at, 1] * scale, cells[at, 2] * scale
            some = True
        else:
            x_h[t], x_l[t], x_error[t] = 0.0, 0.0, 0.0
    return some


@hot
def _multiply_into(size: int, m_h: float, m_l: float, x_h: Any, x_l: Any, c_h: Any, c_l: Any) -> None:
    """c += m x."""
    for t in range(size):
        y_h, y_l = times(x_h[t], x_l[t], m_h, m_l)
        c_h[t], c_l[t] = plus(c_h[t], c_l[t], y_h, y_l)


@hot
def _multiply_errors(size: int, factor: float, x: Any, y: Any) -> None:
    for t in range(size):
        x[t] += factor * y[t]


@hot
def _fold(n_factors: int, products: Any, sums: Any) -> None:
    """Sum ``x[t]`` times its product of factors over all t, into ``x[0]``; the error bound with absolute factors."""
    m_h, m_l = products[4], products[5]
    x_h, x_l, x_error = sums
    for factor in range(n_factors - 1, -1, -1):
        half = 1 << factor
        upper = slice(half, 2 * half)
        _multiply_into(half, m_h[factor], m_l[factor], x_h[upper], x_l[upper], x_h[:half], x_l[:half])
        _multiply_errors(half, abs(m_h[factor]), x_error[:half], x_error[upper])


@hot
def _differentiate(
    n_factors: int, products: Any, c: Any, rest: int, scale: float, exponent: int, alpha: Any, derivative: Any
) -> None:
    """Derivatives of ``-sum of c[t] * product`` by each alpha, times ``scale * 2^exponent``; folds ``c``."""
    p_h, p_l, _, _, m_h, m_l, nodes = products
    c_h, c_l = c
    for factor in range(n_factors - 1, -1, -1):
        half = 1 << factor
        d_h, d_l = 0.0, 0.0
        for t in range(half):
            y_h, y_l = times(p_h[t], p_l[t], c_h[half + t], c_l[half + t])
            d_h, d_l = plus(d_h, d_l, y_h, y_l)
        upper = slice(half, 2 * half)
        _multiply_into(half, m_h[factor], m_l[factor], c_h[upper], c_l[upper], c_h[:half], c_l[:half])
        if d_h > 0.0:
            mantissa, power = math.frexp(d_h * scale)
            derivative[0][rest, nodes[factor]] = mantissa
            derivative[1][rest, nodes[factor]] = power + exponent - alpha[2][rest, nodes[factor]]


@hot
def _pull_block(
    high: int, n_low: int, alpha: Any, inside: Any, outside: Any, top: Any, derivative: Any, powers: Any, scratch: Any
) -> None:
    """F(R) and all D_i(R) for the sets R whose high bits are ``high``, from those of larger sets."""
    (low_products, sums, folded), (high_products, high_sums, high_folded) = scratch
    c_h, c_l = folded
    v_h, v_l, v_error = high_sums
    p_h, p_l, p_e, p_s = low_products[:4]
    q_h, q_l, q_e, q_s = high_products[:4]
    cells, exponents = outside
    n = alpha[0].shape[1]
    for low in range((1 << n_low) - 1, -1, -1):
        rest = high << n_low | low
        if exponents[rest, 3] == -_FAR or rest == (1 << n) - 1:
            continue
        p_h[0], p_l[0], p_e[0], p_s[0] = 1.0, 0.0, 0, 0
        n_low_factors = grow_products(rest, 0, n_low, alpha, low_products)
        q_h[0], q_l[0], q_e[0], q_s[0] = 1.0, 0.0, -exponents[rest, 3], rest
        n_high_factors = grow_products(rest, n_low, n - n_low, alpha, high_products)
        size = 1 << n_low_factors
        c_h[:size] = 0.0
        c_l[:size] = 0.0
        term_error = _term_error(rest, n) + (1 << n_high_factors) * _UNIT
        for j in range(1 << n_high_factors):  # T = the empty set takes part as the zero still in F(R)
            v_h[j], v_l[j], v_error[j] = 0.0, 0.0, 0.0
            if _gather(size, q_s[j], q_e[j], low_products, outside, sums, powers):
                _multiply_errors(size, term_error, sums[2], sums[0])
                _multiply_into(size, q_h[j], q_l[j], sums[0], sums[1], c_h, c_l)
                _fold(n_low_factors, low_products, sums)
                v_h[j], v_l[j], v_error[j] = sums[0][0], sums[1][0], sums[2][0]
        for j in range(1 << n_high_factors):
            high_folded[0][j], high_folded[1][j] = v_h[j], v_l[j]
        _fold(n_high_factors, high_products, high_sums)
        cells[rest, 0], cells[rest, 1], cells[rest, 2] = -v_h[0], -v_l[0], v_error[0]
        if not cells[rest, 0] > 0.0:
            cells[rest, 0], cells[rest, 2] = 1.0, np.inf
        scale = inside[0][rest, 0] / top[0]
        exponent = inside[1][rest, 3] + exponents[rest, 3] - top[1]
        _differentiate(n_low_factors, low_products, folded, rest, scale, exponent, alpha, derivative)
        _differentiate(n_high_factors, high_products, high_folded, rest, scale, exponent, alpha, derivative)

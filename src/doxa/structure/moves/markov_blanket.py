r"""`MarkovBlanket`: MB-MCMC, Algorithm 1 of Riggelsen, chapter 4 (section 3.3), corrected.

The chain visits the nodes in turn.  At node x it tries k + 1 single-pair changes (line 7 counts from 0 to k) in the
block of x: with probability w a pair within E' (x and its Markov blanket), else a pair in E'' (x and a node
outside its blanket); a pair takes one of its two other states with probability 1/2 each.  So one step
proposes a given change of the pair e with probability

.. math:: q_x(e; G) = \frac{w}{2|E'|} \text{ if } e \in E', \quad \frac{1 - w}{2|E''|} \text{ if } e \in E'',

with w = 0 where E' is empty and w = 1 where E'' is (the book leaves that undefined).  Section 3.3.2 thinks of
proposals that are not uniform, from prior knowledge.  With weights u of pairs the pair e of a set is drawn with
probability :math:`u_e / \sum_{e'} u_{e'}`, so that this takes the place of 1 / |E'| or 1 / |E''|; the sums change with
the block, and with them the ratio.

*Erratum.*  As printed, the block is fixed on arrival at x and a change is accepted on the posterior ratio alone, on the
ground that the proposal ratio of eq. 4.13 cancels.  It does not: the block is read off the graph, a change can
alter it, and then the way back is drawn from another block.  The printed chain does not keep the posterior (Theorem 4.1
fails; total variation distance 0.25 on four nodes).  Here the block is found anew at every step, and the
ratio q_x(e; G') / q_x(e; G) is part of the acceptance; a pair that lies in no block of G' has q = 0 there and
is rejected.  ``published=True`` runs the printed algorithm for comparison.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._call_at import settled
from doxa._jit import branching, hot, lowest_bit, popcount
from doxa.arrays import Floats, Words
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.schema import Within
from doxa.structure.graph import (
    ILLEGAL,
    REVERSE,
    WorkingGraph,
    apply_change,
    candidate_kind,
    is_in,
    toggle_bit,
    working_graph,
)
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accept_change, cache_is_full, keep, score_change
from doxa.structure.moves.covered_arcs import reverse_covered_arcs
from doxa.structure.moves.sampler import Work

if TYPE_CHECKING:
    from doxa.testing import Proposal

__all__ = ["MarkovBlanket"]

_Settings = tuple[int, float, int, bool, bool, Floats]  # k, weight, reversals, published, is_random, weights

_WIDEST = 1e6  # ratio of weights of pairs
_HOPELESS = -100.0  # 2^-53 is exp(-36.7), and n^2 is below exp(60) for any graph that fits in memory


@dataclass(frozen=True)
class MarkovBlanket:
    """Markov blanket MCMC (Riggelsen, ch. 4, Algorithm 1), corrected; see the module's notes.

    Parameters
    ----------
    k : int, default=5
        Each visit of a node makes k + 1 steps.
    w : float, default=0.95
        Probability of a change within the Markov blanket rather than across its border, 0 < w < 1.
    covered_arc_reversals : int, optional
        Covered-arc reversals tried on arrival at a node (line 4); they are not counted as steps.  The paper has 10,
        which ``published`` keeps; otherwise 1, which was as good for each second on Asia (benchmarks/structure.py).
    published : bool, default=False
        Run the algorithm as printed.  Its answers are **biased**; it is here for comparison.
    scan : str, default="systematic"
        Visit the nodes in turn, or ``"random"``: each visit at a node drawn afresh.
    pair_weights : array_like of float, shape (n_nodes, n_nodes), optional
        How often each pair of columns is proposed, relative to the others of its set: symmetric, above 0, the largest
        at most a million times the smallest; the diagonal is not looked at.  Alike when left out.  Weights from prior
        knowledge save steps; they do not change the posterior.

    Raises
    ------
    ArgumentError
        If ``k`` or ``covered_arc_reversals`` is negative, ``w`` is not strictly between 0 and 1, or ``pair_weights``
        are not as above, or given with ``published``.
    ArgumentTypeError
        If a setting is of the wrong type.

    Examples
    --------
    >>> import doxa
    >>> doxa.learn(doxa.datasets.load("reinis"), sampler=MarkovBlanket(k=3), draws=100, seed=1).sampler
    MarkovBlanket(k=3, w=0.95, covered_arc_reversals=None, published=False, scan='systematic', pair_weights=None)
    """

    k: int = 5
    w: float = 0.95
    covered_arc_reversals: int | None = None
    published: bool = False
    scan: str = "systematic"
    pair_weights: ArrayLike | None = None

    name: ClassVar[str] = "markov_blanket"
    _in_file: ClassVar[dict[str, Any]] = {
        "k": Annotated[int, Within(0, 2**31)],
        "covered_arc_reversals": Annotated[int | None, Within(0, 2**31)],
        "pair_weights": tuple[tuple[float, ...], ...] | None,
    }
    uses_table: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for field in ("k", "covered_arc_reversals"):
            value = getattr(self, field)
            if value is None and field == "covered_arc_reversals":
                continue
            object.__setattr__(self, field, check_whole(field, value, 0))
        if isinstance(self.w, bool) or not isinstance(self.w, numbers.Real):
            raise ArgumentTypeError(
                f"w is {self.w!r}; it must be a number strictly between 0 and 1 (the paper uses 0.95)"
            )
        if not 0.0 < self.w < 1.0:
            raise ArgumentError(f"w is {self.w!r}; it is a probability strictly between 0 and 1 (the paper uses 0.95)")
        object.__setattr__(self, "w", float(self.w))
        if not isinstance(self.published, bool):
            raise ArgumentTypeError(f"published is {self.published!r}; it must be True or False")
        if self.scan not in ("systematic", "random"):
            raise ArgumentError(f"scan is {self.scan!r}; it must be 'systematic' or 'random'")
        if self.pair_weights is not None:
            object.__setattr__(self, "pair_weights", _checked_weights(self.pair_weights))
            if self.published:
                raise ArgumentError("pair_weights is given with published=True; Algorithm 1 proposes all pairs alike")

    @property
    def bias(self) -> str | None:
        """What is wrong with the answers, if something is."""
        if not self.published:
            return None
        return (
            "Algorithm 1 as printed does not keep the posterior (its blocks depend on the state they change): "
            "these probabilities are biased"
        )

    def cycle_length(self, n_nodes: int) -> int:
        """Steps after which the kernel repeats itself: one visit of every node."""
        self._weights(n_nodes)  # raises where they are of another number of nodes
        return n_nodes * (self.k + 1)

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        printed = 10 if self.published else 1
        reversals = printed if self.covered_arc_reversals is None else self.covered_arc_reversals
        weights = self._weights(len(work.local))
        settings = (self.k, float(self.w), reversals, bool(self.published), self.scan == "random", weights)
        return settled(_advance, work.scoring.address)(work, settings, first, n_steps, rng)

    def _weights(self, n_nodes: int) -> NDArray[np.float64]:
        """Weights of pairs; empty where all are alike."""
        if self.pair_weights is None:
            return np.empty((0, 0))
        weights = np.array(self.pair_weights, dtype=np.float64, order="C")
        if len(weights) != n_nodes:
            raise ArgumentError(f"pair_weights has shape {weights.shape}, but there are {n_nodes} columns")
        return weights

    def proposals(
        self,
        rows: NDArray[np.uint64],
        limits: Limits,
        centre: int,
        block: NDArray[np.uint64] | None = None,
    ) -> Iterator[Proposal[NDArray[np.uint64]]]:
        """Every graph that one step at ``centre`` can propose from ``rows``, by the compiled kernel's own rules.

        The outcomes of the kernel's draw are listed by running it on a fine grid of uniform numbers, not by
        trusting the probability that it computes for its Hastings term; weights of pairs are whole numbers here.  With
        ``block``, the printed algorithm's step in that fixed block.
        """
        from doxa.testing import Proposal  # checks alone list what a step can propose

        n = len(rows)
        graph = working_graph(rows)
        members = np.zeros(rows.shape[1], dtype=np.uint64)
        size = _find_block(graph[0], graph[1], centre, members)
        if self.published and block is not None:
            members[:] = block
            size = int(np.bitwise_count(members).sum())
        weights = self._weights(n)
        within = round(_total(members, size, n, centre, weights, True))
        across = round(_total(members, size, n, centre, weights, False))
        cells = math.lcm(max(within, 1), max(across, 1))  # so that the grid divides evenly whichever set is drawn from
        probability: dict[tuple[int, int], float] = {}
        for u, share in ((0.0, self.w), (1 - 1e-9, 1 - self.w)):
            for cell in range(cells):
                i, j = _draw_pair(members, size, n, centre, self.w, weights, self.published, (u, (cell + 0.5) / cells))
                probability[i, j] = probability.get((i, j), 0.0) + share / cells
        for (i, j), drawn in probability.items():
            kind = ILLEGAL if i < 0 else settled(candidate_kind)(graph, limits, i, j)
            if kind == ILLEGAL:
                continue
            after = working_graph(rows)
            settled(apply_change)(after, kind, i, j)
            log_hastings = 0.0
            if not self.published:
                before = _pair_probability(members, size, n, centre, i, j, self.w, weights)
                again = np.zeros_like(members)
                size_after = settled(_block_after)(graph, kind, i, j, centre, again)
                with np.errstate(divide="ignore"):
                    after_it = _pair_probability(again, size_after, n, centre, i, j, self.w, weights)
                    log_hastings = float(np.log(after_it / before))
            yield Proposal(after[1], drawn, log_hastings)

    def block(self, rows: NDArray[np.uint64], centre: int) -> NDArray[np.uint64]:
        """Bit set of ``centre`` and its Markov blanket."""
        graph = working_graph(rows)
        members = np.zeros(rows.shape[1], dtype=np.uint64)
        _find_block(graph[0], graph[1], centre, members)
        return members


def _checked_weights(given: ArrayLike) -> tuple[tuple[float, ...], ...]:
    """Weights of pairs as plain numbers, which compare and can be kept in a file."""
    try:
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            "pair_weights is no matrix of numbers; give one row of numbers for each column"
        ) from None
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or len(weights) < 2:
        raise ArgumentError(f"pair_weights has shape {weights.shape}; it must have a row and a column for each column")
    np.fill_diagonal(weights, weights[0, 1])
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        i, j = np.argwhere(~(np.isfinite(weights) & (weights > 0)))[0]
        raise ArgumentError(
            f"pair_weights[{i}][{j}] is {weights[i, j]:g}; weights are finite and above 0 (to rule an edge out, use "
            "forbidden)"
        )
    if not np.array_equal(weights, weights.T):
        i, j = np.argwhere(weights != weights.T)[0]
        raise ArgumentError(
            f"pair_weights[{i}][{j}] is {weights[i, j]:g} and pair_weights[{j}][{i}] is {weights[j, i]:g}; a pair has "
            "one weight"
        )
    if weights.max() > _WIDEST * weights.min():
        raise ArgumentError(
            f"pair_weights go from {weights.min():g} to {weights.max():g}; the largest is at most {_WIDEST:.0e} times "
            "the smallest, so that every pair has its turn"
        )
    return tuple(tuple(row) for row in weights.tolist())


@hot
def _find_block(parents: Words, children: Words, centre: int, members: Words) -> int:
    """Fill ``members`` with ``centre`` and its Markov blanket; return how many nodes that is."""
    n_words = members.size
    for w in range(n_words):
        members[w] = parents[centre, w] | children[centre, w]
    for w in range(n_words):
        word = children[centre, w]
        while word != np.uint64(0):
            child = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            for v in range(n_words):
                members[v] |= parents[child, v]
    members[centre >> 6] |= np.uint64(1) << np.uint64(centre & 63)
    return _count_members(members)


@hot
def _count_members(members: Words) -> int:
    size = 0
    for w in range(members.size):
        size += popcount(members[w])
    return size


@hot
def _select(members: Words, rank: int, inside: bool) -> int:
    """The node number ``rank`` among those inside (or outside) the set."""
    for w in range(members.size):
        word = members[w] if inside else ~members[w]
        here = popcount(word)
        if rank < here:
            for _ in range(rank):
                word &= word - np.uint64(1)
            return int(64 * w + lowest_bit(word))
        rank -= here
    return -1


@hot
def _draw_pair(
    members: Words,
    size: int,
    n: int,
    centre: int,
    weight: float,
    weights: Floats,
    published: bool,
    uniforms: tuple[float, float],
) -> tuple[int, int]:
    """A candidate (i, j) of the block from two uniform numbers; (-1, -1) where the printed algorithm has none."""
    u, v = uniforms
    within = size * (size - 1)  # ordered pairs: two candidates for each pair of E'
    across = 2 * (n - size)
    if published:
        use_within = u < weight and within > 0
        if not use_within and across == 0:
            return -1, -1
    else:
        use_within = within > 0 and (u < weight or across == 0)
    if weights.size > 0:
        return _draw_weighted(
            members, n, centre, weights, use_within, v * _total(members, size, n, centre, weights, use_within)
        )
    if use_within:
        index = min(int(v * within), within - 1)
        first = index // (size - 1)
        second = index - first * (size - 1)
        if second >= first:
            second += 1
        return _select(members, first, True), _select(members, second, True)
    index = min(int(v * across), across - 1)
    other = _select(members, index >> 1, False)
    if index & 1:
        return centre, other
    return other, centre


@hot
def _total(members: Words, size: int, n: int, centre: int, weights: Floats, within: bool) -> float:
    """Sum of the weights of the ordered pairs of E' or E'': their number where all are alike."""
    if weights.size == 0:
        return float(size * (size - 1)) if within else 2.0 * (n - size)
    total = 0.0
    for i in range(n):
        if within and is_in(members, i):
            for j in range(n):
                if j != i and is_in(members, j):
                    total += weights[i, j]
        elif not within and not is_in(members, i):
            total += 2 * weights[i, centre]
    return total


@hot
def _draw_weighted(members: Words, n: int, centre: int, weights: Floats, within: bool, left: float) -> tuple[int, int]:
    """The ordered pair at which the sum of the weights passes ``left``."""
    last_i, last_j = -1, -1
    for i in range(n):
        if within and is_in(members, i):
            for j in range(n):
                if j != i and is_in(members, j):
                    left -= weights[i, j]
                    last_i, last_j = i, j
                    if left < 0:
                        return i, j
        elif not within and not is_in(members, i):
            for end in range(2):
                left -= weights[i, centre]
                last_i, last_j = (centre, i) if end else (i, centre)
                if left < 0:
                    return last_i, last_j
    return last_i, last_j  # rounding


@hot
def _pair_probability(
    members: Words, size: int, n: int, centre: int, i: int, j: int, weight: float, weights: Floats
) -> float:
    """q of a candidate of the pair {i, j} in the block ``members``: the whole mixture of eq. 4.13."""
    own = weights[i, j] if weights.size > 0 else 1.0
    i_inside, j_inside = is_in(members, i), is_in(members, j)
    if i_inside and j_inside:
        return (weight if size < n else 1.0) * own / _total(members, size, n, centre, weights, True)
    if i == centre or j == centre:
        return (1.0 - weight if size > 1 else 1.0) * own / _total(members, size, n, centre, weights, False)
    return 0.0


@hot
def _block_after(graph: WorkingGraph, kind: int, i: int, j: int, centre: int, members: Words) -> int:
    """`_find_block` in the proposed graph; parents and children, all that it reads, are put back."""
    parents, children = graph[0], graph[1]
    _toggle_change(parents, children, kind, i, j)
    size = _find_block(parents, children, centre, members)
    _toggle_change(parents, children, kind, i, j)
    return size


@hot
def _toggle_change(parents: Words, children: Words, kind: int, i: int, j: int) -> None:
    toggle_bit(parents, j, i)
    toggle_bit(children, i, j)
    if kind == REVERSE:
        toggle_bit(parents, i, j)
        toggle_bit(children, j, i)


@hot
def _is_accepted(
    work: Work, settings: _Settings, change: tuple[int, int, int], centre: int, size: int, ratio: float, below: float
) -> bool:
    """Whether ``below`` is under the posterior ratio times q(old | new) / q(new | old); fills ``work.spare[1]``."""
    _, weight, _, published, _, weights = settings
    if published:
        return below < ratio
    graph, block, block_after = work.graph, work.block, work.spare[1]
    kind, i, j = change
    n = graph[0].shape[0]
    q = _pair_probability(block, size, n, centre, i, j, weight, weights)
    if below * q >= ratio:  # q in the proposed graph is at most 1
        return False
    size_after = _block_after(graph, kind, i, j, centre, block_after)
    return below * q < ratio * _pair_probability(block_after, size_after, n, centre, i, j, weight, weights)


@branching
def _advance(work: Work, settings: _Settings, first: int, n_steps: int, rng: np.random.Generator) -> int:
    graph, local, beta, limits = work.graph, work.local, work.beta, work.limits
    cache, scoring, proposed = work.cache, work.scoring, work.proposed
    block, memory, block_after = work.block, work.memory, work.spare[1]
    k, weight, reversals, published, random_scan, weights = settings
    n = local.size
    visit = k + 1
    turn = (work.position + first) % (n * visit)
    centre, step_of_visit = turn // visit, turn % visit
    if random_scan:
        centre = memory[0]
    size = _find_block(graph[0], graph[1], centre, block) if not published else _count_members(block)
    for step in range(first, n_steps):
        if cache_is_full(cache):
            return step
        if step_of_visit == 0:
            if random_scan:
                centre = int(rng.random() * n)
                memory[0] = centre
            reverse_covered_arcs(work, reversals, published, rng)
            size = _find_block(graph[0], graph[1], centre, block)
        u = rng.random()
        i, j = _draw_pair(block, size, n, centre, weight, weights, published, (u, rng.random()))
        kind = ILLEGAL if i < 0 else candidate_kind(graph, limits, i, j)
        if kind != ILLEGAL:
            delta = beta * score_change(graph, local, kind, i, j, cache, scoring, proposed)
            below = 1.0 - rng.random()  # in (0, 1], a multiple of 2^-53: accepted below the ratio
            # q is at least 1e-6 / n^2 and at most 1, so the Hastings ratio cannot save a proposal that is bad enough.
            if delta > _HOPELESS and _is_accepted(work, settings, (kind, i, j), centre, size, np.exp(delta), below):
                accept_change(graph, local, kind, i, j, proposed)
                if not published:
                    size = _count_members(block_after)
                    for w in range(block.size):
                        block[w] = block_after[w]
                work.info[1] += 1
        work.info[0] += 1
        step_of_visit += 1
        if step_of_visit == visit:
            step_of_visit = 0
            if not random_scan:
                centre = centre + 1 if centre < n - 1 else 0
        keep(work, step)
    return n_steps

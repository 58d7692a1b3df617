"""Remember the scores of families: one hash table a node, keyed by the bit set of the parents.

A chain proposes the same few thousand families over and over; counting one takes microseconds to
milliseconds, finding it again some ten nanoseconds (Riggelsen, ch. 4, end of 3.3.4).  Memory is bounded: a table
grows by doubling up to the bound; a new score that finds its window of slots full takes the place of an old one.
What the cache holds never changes a draw, only the time it takes; it is not part of a chain's state and is not
pickled.

`FamilyScores` is what samplers are given: the data, the score, and a pool of caches, one for each
chain that runs at the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import layout, real_at, settled
from doxa._jit import branching, cold, hot, inlined
from doxa.arrays import Floats, Ints, Words
from doxa.data import Table
from doxa.data.scaled import Scaled, scaled
from doxa.errors import ArgumentError, TableError
from doxa.models.bits import n_words, pack_rows, unpack_rows
from doxa.structure.families.counting import CountingScratch, Rule, counting_scratch
from doxa.structure.families.kind import Data, FamilyKind, Scorer, raise_caught
from doxa.structure.families.scores import BDeu, family_log_marginal
from doxa.structure.families.shared_counts import SharedCounts
from doxa.structure.limits import Limits
from doxa.structure.priors import StructurePrior, family_log_prior, uniform_prior

__all__ = [
    "CacheArrays",
    "CacheUse",
    "FamilyScores",
    "Memory",
    "ScoreCache",
    "Scoring",
    "counted_log_score",
    "family_log_score",
    "local_scores",
    "local_weights",
]

_PROBES = 16  # slots looked at for one key; a key that finds them all taken replaces one

_FIRST_CAPACITY = 256  # slots a node; doubled as the table fills


@by_address
class CacheArrays(NamedTuple):
    """The scores of a cache as compiled loops have them."""

    keys: Words
    scores: Floats
    used: Ints
    statistics: Ints
    limit: Ints  # the ``used`` at which to grow


@by_address
class Scoring(NamedTuple):
    """What a family is scored by."""

    data: Data
    rule: Rule
    prior: tuple[Floats, Floats]
    scratch: CountingScratch
    address: int  # where the machine code of `_score_from_data` stands: one for all loops that call it

    @classmethod
    def of(
        cls,
        data: Data,
        rule: Rule,
        prior: tuple[Floats, Floats],
        scorer: Scorer | None = None,
    ) -> Scoring:
        """By these; a scorer must be kept as long."""
        scratch = counting_scratch(len(data[1]), None if scorer is None else scorer.addresses)
        made = cls(data, rule, prior, scratch, 0)
        scored = settled(_score_from_data, layout(made))
        return made._replace(address=scored.of(0, np.zeros(1, dtype=np.uint64), made))


class CacheUse(NamedTuple):
    """What the score caches of a run cost and did."""

    n_bytes: int  # held by all caches together
    n_scores: int  # families stored
    n_misses: int  # families counted in the data
    n_evictions: int  # scores replaced: their window of slots was full, often because the bound was reached


class ScoreCache:
    """Scores of families for one chain; see the module docstring.

    Parameters
    ----------
    n_nodes : int
    max_bytes : int
        Bound of the tables.

    Notes
    -----
    A slot is the key's words followed by the score, in one block of memory that is seen through two
    arrays, so that a look-up touches one cache line.
    """

    def __init__(self, n_nodes: int, max_bytes: int) -> None:
        self._n_nodes, self._max_bytes = n_nodes, max_bytes
        self._words = n_words(n_nodes)
        self.held: Any = None  # what must live as long: the scorer's arrays
        self.used = np.zeros(n_nodes, dtype=np.int64)
        self.statistics = np.zeros(3, dtype=np.int64)  # misses, evictions, whether a table wants to grow
        self.allocate(_FIRST_CAPACITY)

    def allocate(self, capacity: int) -> None:
        """Make empty tables of so many slots, a power of two, for each node."""
        self.scores = np.full((self._n_nodes, capacity, self._words + 1), np.nan)
        self.keys = self.scores.view(np.uint64)
        limit = self.capacity // 2 if self.can_grow else np.iinfo(np.int64).max
        self.arrays = CacheArrays(
            self.keys, self.scores, self.used, self.statistics, np.array([limit], dtype=np.int64)
        )  # what compiled loops need: keys, scores, used, statistics, and the ``used`` at which to grow

    @property
    def capacity(self) -> int:
        """Slots of each node."""
        return self.scores.shape[1]

    @property
    def can_grow(self) -> bool:
        """Whether a table of twice the size is within the bound."""
        return 2 * self.scores.nbytes <= self._max_bytes

    @property
    def wants_to_grow(self) -> bool:
        """Whether some node's table has passed the load at which it should be doubled."""
        return bool(self.statistics[2])

    def forget(self) -> None:
        """Empty the tables, as large as they are."""
        self.scores[:] = np.nan
        self.used[:] = 0
        self.statistics[:] = 0

    def make_room(self, n_scores: int) -> None:
        """Grow until so many scores of a node fill no more than a quarter of its table, or the bound is reached."""
        while self.capacity < 4 * n_scores and self.can_grow:
            self.grow()

    def grow(self) -> None:
        """Double the tables and move the scores over."""
        old_keys, old_scores = self.keys, self.scores
        self.allocate(2 * self.capacity)
        self.used[:] = 0
        self.statistics[2] = 0
        _move(old_keys, old_scores, self.arrays)


class Memory:
    """Things that are made once a process, by the first chain that asks; a pickle of it is empty."""

    def __init__(self) -> None:
        self.made: dict[tuple[Any, ...], Any] = {}
        self._making = threading.RLock()

    def __call__(self, what: str, limits: Limits, make: Callable[[], Any]) -> Any:
        """What ``make`` returned for these limits."""
        key = (what, *(array.tobytes() for array in limits))
        with self._making:
            if key not in self.made:
                self.made[key] = make()
            return self.made[key]

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()


@dataclass(eq=False)
class FamilyScores:
    """Scores of the families of a complete table, the structure prior's share included.

    Parameters
    ----------
    table : Table
        Without missing cells, at least two columns.
    score : FamilyKind, default=BDeu(1.0)
        Such as `BDeu`, `K2` or `BIC`.
    prior : StructurePrior, optional
        Uniform over graphs when left out.
    max_bytes : int, default=512 MiB
        Bound of each cache; there is one for each chain that runs at the same time.
    like : Scaled, optional
        How numbers are scaled; by their means and standard deviations when left out.

    Raises
    ------
    TableError
        If cells are missing (the message names columns and counts) or there are fewer than two columns.

    Examples
    --------
    >>> from doxa.data import datasets
    >>> scores = FamilyScores(datasets.load("reinis"))
    >>> round(scores.log_score("systol", ("protein",)) - scores.log_score("systol"), 3)
    2.113
    """

    table: Table
    score: FamilyKind = field(default_factory=BDeu)
    prior: StructurePrior = None  # type: ignore[assignment]  # filled in below: it needs the table
    max_bytes: int = 512 * 2**20
    like: Scaled | None = None
    data: tuple[NDArray[Any], ...] = field(init=False, repr=False)
    numbers: NDArray[np.float64] | None = field(init=False, repr=False)  # scaled, (n_nodes, n_rows)
    _pool: list[tuple[ScoreCache, Scoring]] = field(init=False, repr=False, default_factory=list)
    _all: list[ScoreCache] = field(init=False, repr=False, default_factory=list)
    _lock: Any = field(init=False, repr=False, default_factory=threading.Lock)
    remember: Memory = field(init=False, repr=False, default_factory=Memory)

    def __post_init__(self) -> None:
        _check_table(self.table)
        if self.prior is None:
            self.prior = uniform_prior(len(self.table.names))
        if self.table.interventions is not None:
            from doxa.structure.families.intervened import intervened  # compiled on import

            self.score = intervened(self.score, self.table.interventions)
        self.data = self._rows()
        self.score.check_columns(self.names, self.data[2], self.table.is_number)
        self.numbers = None if self.table.numbers is None else scaled(self.table, self.like).values

    def _rows(self) -> tuple[NDArray[Any], ...]:
        """Columns of codes, counts and numbers of states, as compiled loops take them."""
        columns = np.array(self.table.codes.T, order="C")  # always a writable copy: one type for the kernels
        return columns, np.array(self.table.counts, dtype=np.int64), self.table.n_states

    @property
    def rule(self) -> Rule:
        """The score as compiled loops take it."""
        return self.score.rule(self.table.n_rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return self.table.names

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.table.names)

    def log_score(self, child: str, parents: tuple[str, ...] = ()) -> float:
        """Log score of one family plus its share in the log prior, nats; kept in the cache."""
        for name in (child, *parents):
            if name not in self.names:
                raise ArgumentError(f"the family names {name!r}, which is not a column of the table")
        if child in parents:
            raise ArgumentError(f"the family names {child!r} as its own parent")
        members = np.isin(np.array(self.names, dtype=object), np.array(parents, dtype=object))
        with self.borrow() as (cache, scoring):
            return float(family_log_score(self.names.index(child), pack_rows(members), cache.arrays, scoring))

    @contextmanager
    def borrow(self) -> Iterator[tuple[ScoreCache, Scoring]]:
        """A cache and the scoring arrays for compiled code, for one chain at a time."""
        with self._lock:
            cache, scoring = self._pool.pop() if self._pool else self._new_cache()
        try:
            yield cache, scoring
        finally:
            with self._lock:
                self._pool.append((cache, scoring))
        raise_caught(cache.held)

    def shared_counts(self, most_columns: int, pool: ThreadPoolExecutor) -> SharedCounts:
        """Sums of sets of up to so many columns, for score tables."""
        return SharedCounts(self.data, self.rule, most_columns, pool)

    def _new_cache(self) -> tuple[ScoreCache, Scoring]:
        cache = ScoreCache(self.n_nodes, self.max_bytes)
        self._all.append(cache)
        cache.held = self.score.scorer(self.data, self.numbers, fixed=True)
        return cache, Scoring.of(self.data, self.rule, self.prior.arrays, cache.held)

    @property
    def use(self) -> CacheUse:
        """What the caches in this process hold and did so far."""
        return CacheUse(
            sum(c.scores.nbytes for c in self._all),
            sum(int(c.used.sum()) for c in self._all),
            sum(int(c.statistics[0]) for c in self._all),
            sum(int(c.statistics[1]) for c in self._all),
        )

    def __getstate__(self) -> dict[str, Any]:
        # Caches and the lock stay behind: a worker process starts with empty ones.
        return {**self.__dict__, "_pool": [], "_all": [], "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


def local_weights(scores: FamilyScores, graphs: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Score and log prior of every family of many graphs.

    Parameters
    ----------
    scores : FamilyScores
    graphs : ndarray of uint64, shape (n_graphs, n_nodes, n_words)
        Adjacency rows as bit sets.

    Returns
    -------
    ndarray of float, shape (n_graphs, n_nodes)
        Nats; a row's sum is the log posterior of the graph, up to a constant.
    """
    n = scores.n_nodes
    parents = pack_rows(unpack_rows(graphs, n).swapaxes(1, 2))
    distinct, which = np.unique(parents, axis=0, return_inverse=True)
    weights = np.empty((len(distinct), n))
    with scores.borrow() as (cache, scoring):
        for families, local in zip(distinct, weights, strict=True):
            settled(local_scores, scoring.address)(families, cache.arrays, scoring, local)
            if cache.wants_to_grow:
                cache.grow()
    return weights[which.ravel()]


def _check_table(table: Table) -> None:
    if len(table.names) < 2:
        raise TableError(f"table has only the column {table.names[0]!r}; a structure needs at least two columns")
    if table.n_missing:
        listed = ", ".join(f"{name!r} ({count})" for name, count in table.missing_by_column.items())
        raise TableError(
            f"table has missing cells, in the columns {listed}; scores are of complete tables: "
            "doxa.structure.cases.incomplete completes them"
        )


@hot
def _slot_of(words: Words, mask: int) -> int:
    """First slot to look at: a multiplicative hash of the key's words."""
    mixed = np.uint64(0x243F6A8885A308D3)
    for w in range(words.size):
        mixed = (mixed ^ words[w]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return int(mixed >> np.uint64(33)) & mask


@hot
def store_score(child: int, words: Words, score: float, cache: CacheArrays) -> None:
    """Write a score into the first free slot of its window, or over the window's first."""
    keys, scores, used, statistics, limit = cache
    n = words.size
    mask = keys.shape[1] - 1
    first = _slot_of(words, mask)
    slot = first
    for probe in range(_PROBES):
        candidate = (first + probe) & mask
        if np.isnan(scores[child, candidate, n]):
            slot = candidate
            used[child] += 1
            if used[child] > limit[0]:
                statistics[2] = 1
            break
    else:
        statistics[1] += 1
    for w in range(n):
        keys[child, slot, w] = words[w]
    scores[child, slot, n] = score


@hot
def _move(old_keys: Words, old_scores: Floats, cache: CacheArrays) -> None:
    n = old_keys.shape[2] - 1
    for child in range(old_keys.shape[0]):
        for slot in range(old_keys.shape[1]):
            if not np.isnan(old_scores[child, slot, n]):
                store_score(child, old_keys[child, slot, :n], old_scores[child, slot, n], cache)


@inlined
def _look_up(child: int, words: Words, cache: CacheArrays) -> float:
    """The score if the cache holds it, else NaN.

    Apart from the counting, and without the arrays that only counting needs, the compiler puts this in the place of
    its call: handing over a hundred numbers costs more than the look-up.
    """
    keys, scores = cache[0], cache[1]
    n = words.size
    mask = keys.shape[1] - 1
    first = _slot_of(words, mask)
    for probe in range(_PROBES):
        slot = (first + probe) & mask
        stored = scores[child, slot, n]
        if np.isnan(stored):
            break
        same = True
        for w in range(n):
            if keys[child, slot, w] != words[w]:
                same = False
                break
        if same:
            return stored  # type: ignore[no-any-return]
    return np.nan


@hot
def _score_from_data(child: int, words: Words, scoring: Scoring) -> float:
    score = family_log_marginal(child, words, scoring.data, scoring.rule, scoring.scratch)
    return score + family_log_prior(child, words, scoring.prior)


@hot
def counted_log_score(child: int, words: Words, scoring: Scoring) -> float:
    """Score and log prior of ``child`` with the parents in the bit set ``words``, counted in the data."""
    return real_at(scoring.address, (child, words, scoring))  # type: ignore[no-any-return]


@cold
def _count(child: int, words: Words, cache: CacheArrays, scoring: Scoring) -> float:
    """Count the family, and keep its score."""
    score = counted_log_score(child, words, scoring)
    cache[3][0] += 1
    store_score(child, words, score, cache)
    return score


@inlined
def family_log_score(child: int, words: Words, cache: CacheArrays, scoring: Scoring) -> float:
    """Score of ``child`` with the parents in the bit set ``words``, from the cache or counted and cached."""
    stored = _look_up(child, words, cache)
    return _count(child, words, cache, scoring) if np.isnan(stored) else stored


@branching
def local_scores(parents: Words, cache: CacheArrays, scoring: Scoring, local: Floats) -> None:
    """Fill ``local`` with the score of every node's family; ``parents`` are those of a graph, (n_nodes, n_words)."""
    for node in range(local.size):
        local[node] = family_log_score(node, parents[node], cache, scoring)

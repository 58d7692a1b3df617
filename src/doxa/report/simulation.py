r"""Answers to try on the page: P(y = s | x = t) and P(y = s | do(x = t)) for all pairs of columns, by simulation.

Exact inference in every network for every pair would take minutes; rows simulated from drawn networks answer all pairs
at once.  Networks count as much as they make x = t probable, so that the shares estimate the probability of y in one
new case of which x has been seen, as `doxa.structure.averaging.query.predictive`:

.. math:: p(y \mid x, D) = \frac{\sum_m p(y, x \mid \theta_m, G_m)}{\sum_m p(x \mid \theta_m, G_m)}.

For interventions, each simulated row has one column, chosen at random, set to a random state.  Networks are cut into
batches along their chains, and errors come from the scatter of batches (ratio estimates, by their residuals): they hold
both the error of the simulation and that of the chains.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats

if TYPE_CHECKING:
    from doxa.structure.averaging.draws import NetworkDraws
    from doxa.structure.averaging.number_draws import GaussianDraws

__all__ = ["Cells", "PairAnswers", "simulate_number_pairs", "simulate_pairs"]

_ROWS = 250_000  # simulated, at most
_OPERATIONS = 30_000_000_000  # of counting pairs of states: rows times states squared
_MOST_TABLES = 20_000  # looked up: networks times nodes
_BATCHES = 20
_LEAST_ROWS = 100  # with x = t, below which no answer is given
_STREAM = 20_012  # keeps this apart from the streams of chains and tables


class PairAnswers(NamedTuple):
    """Answers for all pairs of cells, states or intervals; those of all columns are numbered one after the other."""

    starts: NDArray[np.intp]  # (n_nodes + 1,): the first cell of each column as y
    x_starts: NDArray[np.intp]  # as x: of a number levels, where y has bars
    probability: Floats  # [y, x]: P(y | x); nan where too few rows have x
    mcse: Floats
    joint: Floats  # [y, x]: share of the rows with x, times that of y among them
    n_networks: int
    n_rows: int  # simulated


def simulate_pairs(draws: NetworkDraws, *, intervene: bool = False, rows: int = _ROWS) -> PairAnswers:
    """Simulate about ``rows`` rows from drawn networks, x seen or set, and count pairs of states.

    The same networks give the same numbers: the stream is that of the run.
    """
    n = len(draws.names)
    chosen = _chosen(draws)
    starts = np.concatenate([[0], np.cumsum(draws.n_states)])
    each = max(1, min(rows, _OPERATIONS // int(starts[-1]) ** 2) // len(chosen))
    rng = np.random.default_rng(np.random.SeedSequence(draws.entropy, spawn_key=(_STREAM, int(intervene))))
    both = np.zeros((_BATCHES, starts[-1], starts[-1]), dtype=np.float32)  # exact up to 16 million
    for batch, members in enumerate(np.array_split(chosen, _BATCHES)):
        codes = np.zeros((n, len(members), each), dtype=np.intp)
        which = np.zeros((len(members), each), dtype=np.intp)
        for at, t in enumerate(members.tolist()):
            if intervene:
                which[at] = rng.integers(n, size=each)
            codes[:, at] = _simulate(draws, t, each, which[at] if intervene else None, rng)
        y = (codes.reshape(n, -1) + starts[:-1, None]).T
        x = np.take_along_axis(y, which.reshape(-1, 1), axis=1) if intervene else y
        both[batch] = _together(y, starts[-1], x, starts[-1])
    # x is itself in every row that has it
    return _shares(both, np.stack([np.diagonal(batch) for batch in both]), starts, starts, len(chosen), each)


class Cells(NamedTuple):
    """What a column is told by: a state of a category, an interval of a number."""

    sizes: tuple[int, ...]  # of each column
    edges: tuple[Floats | None, ...]  # inner ends of the intervals of each number; None of a category

    def of(self, codes: NDArray[np.integer], numbers: Floats) -> NDArray[np.intp]:
        """The cell of every column in rows, counted over all columns: shape (n, n_columns)."""
        first = np.cumsum((0, *self.sizes))
        own = [
            codes[:, j] if edges is None else np.searchsorted(edges, numbers[:, j], side="right")
            for j, edges in enumerate(self.edges)
        ]
        return np.asarray(np.stack(own, axis=1) + first[:-1], dtype=np.intp)


def simulate_number_pairs(draws: GaussianDraws, bars: Cells, levels: Cells, *, intervene: bool = False) -> PairAnswers:
    """`simulate_pairs` of a table with numbers; a number is set to one that was observed, any as often as it was."""
    n, n_y, n_x = len(draws.names), sum(bars.sizes), sum(levels.sizes)
    chosen = _chosen(draws)
    each = max(1, min(_ROWS, _OPERATIONS // (n_y * n_x)) // len(chosen))
    rng = np.random.default_rng(np.random.SeedSequence(draws.entropy, spawn_key=(_STREAM, int(intervene))))
    table = draws.completed.table
    assert table.numbers is not None  # such draws are of such a table
    seen = [table.numbers[~np.isnan(table.numbers[:, j]), j] for j in range(n)]
    weight = [table.counts[~np.isnan(table.numbers[:, j])].cumsum() for j in range(n)]
    both = np.zeros((_BATCHES, n_y, n_x), dtype=np.float32)  # exact up to 16 million
    total = np.zeros((_BATCHES, n_x), dtype=np.float64)
    for batch, members in enumerate(np.array_split(chosen, _BATCHES)):
        codes, numbers = np.zeros((len(members), each, n), dtype=np.int16), np.zeros((len(members), each, n))
        which = np.zeros((len(members), each), dtype=np.intp)
        for at, t in enumerate(members.tolist()):
            made: dict[int, tuple[NDArray[np.intp], NDArray[Any]]] = {}
            which[at] = rng.integers(n, size=each)
            for j in range(n if intervene else 0):
                own = np.flatnonzero(which[at] == j)
                uniform = rng.random(len(own))
                made[j] = (own, (uniform * draws.n_states[j]).astype(np.int16))
                if draws.is_number[j]:
                    one = np.searchsorted(weight[j], uniform * weight[j][-1], side="right").clip(0, len(seen[j]) - 1)
                    made[j] = (own, draws.on_scale([j], seen[j][one][:, None])[:, 0])
            codes[at], numbers[at] = draws.all[t].draw_cells(each, rng, made)
        states, values = codes.reshape(-1, n), draws.restored(numbers.reshape(-1, n))
        x = levels.of(states, values)
        if intervene:
            x = np.take_along_axis(x, which.reshape(-1, 1), axis=1)
        both[batch] = _together(bars.of(states, values), n_y, x, n_x)
        total[batch] = np.bincount(x.ravel(), minlength=n_x)
    y_starts, x_starts = (np.cumsum((0, *cells.sizes)) for cells in (bars, levels))
    return _shares(both, total, y_starts, x_starts, len(chosen), each)


def _shares(
    both: NDArray[np.float32],
    with_x: NDArray[Any],
    y_starts: NDArray[np.intp],
    x_starts: NDArray[np.intp],
    n_networks: int,
    each: int,
) -> PairAnswers:
    """Shares and their errors, of counts [batch, y, x] and of rows [batch, x] that have x; ``each``: of one network."""
    total = with_x.sum(axis=0, dtype=np.float64)
    enough = total >= _LEAST_ROWS
    safe = np.where(enough, total, 1.0)
    summed = both.sum(axis=0, dtype=np.float64)
    probability = summed / safe
    squares = np.zeros_like(probability)
    for batch, own in zip(both, with_x, strict=True):
        squares += (batch - probability * own) ** 2
    n = len(both)
    mcse = np.sqrt(squares * n / (n - 1)) / safe
    # What no row shows, or every row, has been looked for in `total` rows only.
    mcse = np.maximum(mcse, 1.0 / safe)
    probability[:, ~enough] = np.nan
    mcse[:, ~enough] = np.nan
    n_rows = each * n_networks
    return PairAnswers(y_starts, x_starts, probability, mcse, summed / n_rows, n_networks, n_rows)


def _together(y: NDArray[np.intp], n_y: int, x: NDArray[np.intp], n_x: int) -> NDArray[Any]:
    """Rows that have both of two cells, [y, x]; each row lists the cells that it has."""
    if x.shape[1] == 1:
        return np.bincount((y * n_x + x).ravel(), minlength=n_y * n_x).reshape(n_y, n_x)
    has_x = _one_hot(x, n_x)
    return np.asarray((has_x if y is x else _one_hot(y, n_y)).T @ has_x)


def _one_hot(cells: NDArray[np.intp], n_cells: int) -> NDArray[np.float32]:
    found = np.zeros((len(cells), n_cells), dtype=np.float32)
    found[np.arange(len(cells))[:, None], cells] = 1
    return found


def _simulate(
    draws: NetworkDraws, t: int, n_rows: int, set_column: NDArray[np.intp] | None, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Columns from one network, parents first; in each row, one of them may be set to a random state."""
    parents, n_states = draws.parents[t], draws.n_states
    codes = np.zeros((len(parents), n_rows), dtype=np.intp)
    for node, uniform in zip(_parents_first(tuple(parents)), rng.random(codes.shape), strict=True):
        table = np.exp(draws.log_table(t, node, False)).reshape(-1, n_states[node])
        row = np.zeros(n_rows, dtype=np.intp)
        for j in parents[node]:
            row = row * n_states[j] + codes[j]
        state = codes[node]
        for end in table.cumsum(axis=1).T[:-1]:  # the last state takes what is left
            state += uniform >= end.take(row)
        if set_column is not None:
            np.copyto(codes[node], (uniform * n_states[node]).astype(np.intp), where=set_column == node)
    return codes


@lru_cache(4096)
def _parents_first(parents: tuple[tuple[int, ...], ...]) -> list[int]:
    order: list[int] = []
    placed: set[int] = set()

    for root in range(len(parents)):
        waiting = [root]
        while waiting:
            node = waiting[-1]
            rest = [j for j in parents[node] if j not in placed]
            if rest:
                waiting += rest
                continue
            waiting.pop()
            if node not in placed:
                placed.add(node)
                order.append(node)
    return order


def _chosen(draws: NetworkDraws) -> NDArray[np.intp]:
    """Networks at even distances along each chain, chain by chain."""
    n_chains, each = draws.shape
    most = max(_BATCHES, min(len(draws), _MOST_TABLES // len(draws.names)))
    kept = max(1, min(each, most // n_chains))
    along = (2 * np.arange(kept) + 1) * each // (2 * kept)
    found: NDArray[np.intp] = (np.arange(n_chains)[:, None] * each + along).ravel()
    return found

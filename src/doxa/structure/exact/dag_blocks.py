"""How the work over all sets of nodes is cut into blocks and put on threads.

A block is all sets that share their high bits.  Blocks with equally many high bits are independent of each other, so
they form a wave: a wave's blocks run at once, the waves one after another.  The cut depends on the number of nodes
alone, and so do the results.

What is done in a block is in `doxa.structure.exact.dag_recursions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Threads", "blocks"]

_LOW_BITS = 12  # 2^12 cells of 32 bytes fit a core's cache


def blocks(n: int) -> tuple[int, list[list[int]]]:
    """How many low bits a block has, and the high parts of the sets, by their number of bits."""
    low = min(n, _LOW_BITS)
    waves: list[list[int]] = [[] for _ in range(n - low + 1)]
    for high in range(2 ** (n - low)):
        waves[high.bit_count()].append(high)
    return low, waves


class Threads:
    """Runs independent tasks on threads, or in turn when the sums are small."""

    def __init__(self, n_nodes: int, workers: int | None) -> None:
        self._workers = 1 if n_nodes <= _LOW_BITS else workers or _n_processors()
        self._pool: Any = None

    def __enter__(self) -> Threads:
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

"""Run one block of every chain, on as many threads, processes or machines as there are: joblib.

Matrix products run on one thread each: chains already keep the cores busy, and a product that is shared out between
threads may round differently, so that draws would depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

__all__ = ["run_in_parallel", "single_threaded_products"]


@contextmanager
def run_in_parallel(task: Callable[..., Any], chains: int, workers: int | None) -> Iterator[Callable[..., list[Any]]]:
    """A function that runs one block of every chain, on as many workers as asked for."""
    from joblib import Parallel, cpu_count, delayed

    n_jobs = min(chains, workers or cpu_count())
    if workers is None and _joblib_is_configured():
        n_jobs = None
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:

        def run_all(sampler: Any, runner: Iterable[Any], n_steps: int) -> list[Any]:
            return list(parallel(delayed(task)(sampler, chain, n_steps) for chain in runner))

        yield run_all


def single_threaded_products() -> AbstractContextManager[Any]:
    """A context in which matrix products of this process run on one thread."""
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # takes some milliseconds to look at the libraries that are loaded


def _joblib_is_configured() -> bool:
    """Whether the user has an active ``joblib.parallel_config`` (which may well say ``n_jobs=1``)."""
    from joblib import parallel, parallel_config

    probe = parallel_config()  # it remembers what it takes the place of
    probe.unregister()
    return probe.old_parallel_config is not parallel.default_parallel_config

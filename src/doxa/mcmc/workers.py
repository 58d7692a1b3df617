"""Run one block of every chain, on as many threads, processes or machines as there are: joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["run_in_parallel"]


@contextmanager
def run_in_parallel(task: Callable[..., Any], chains: int, workers: int | None) -> Iterator[Callable[..., list[Any]]]:
    """A function that runs one block of every chain, on as many workers as asked for."""
    from joblib import Parallel, cpu_count, delayed

    n_jobs = min(chains, workers or cpu_count())
    if workers is None and _joblib_is_configured():
        n_jobs = None
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:

        def run_all(sampler: Any, fleet: Iterable[Any], n_steps: int) -> list[Any]:
            return list(parallel(delayed(task)(sampler, chain, n_steps) for chain in fleet))

        yield run_all


def _joblib_is_configured() -> bool:
    """Whether the user has an active ``joblib.parallel_config`` (which may well say ``n_jobs=1``)."""
    from joblib import parallel

    config = getattr(parallel._backend, "config", None)  # joblib has no public word for this
    return config is not None and config is not parallel.default_parallel_config

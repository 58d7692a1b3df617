"""Workers: the same task for every chain, on threads, processes or the machines of a cluster, as joblib is configured.

Processes and machines die.  Tasks are functions of their arguments, which stay here until their results have come, so
what a lost worker had under way is done again by another, and the draws are those of a run that lost none:

- where a process of a pool dies, the pool is made anew, and all tasks of the round are done again;
- a Dask cluster does the tasks of a lost worker again by itself.  Where it has lost what the tasks share, that is sent
  again; where it has no workers left, they are waited for; where it is gone, the run ends with an error that says so.

What all tasks of a run share, a sampler with its table, is unpacked once by each process, not once a task: the scores
and lists of parent sets that the first task made serve the next ones, too.
"""

from __future__ import annotations

import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any
from uuid import uuid4

from doxa.errors import WorkersLostError

__all__ = ["Threads", "run_in_parallel"]

Task = Callable[[Any, Any, Any], Any]  # of what all tasks share, what is its own, and one thing more

_TRIES = 3  # losses in a row after which the next is taken for certain
_PATIENCE = 60.0  # seconds for a cluster without workers to get some
_LOOK = 1.0  # seconds between two looks at a cluster
_MOST_HELD = 2  # of what runs share, in one process
_RESUME = "A run that is kept in a file (store=) goes on from there with doxa.resume"


@contextmanager
def run_in_parallel(task: Task, chains: int, workers: int | None) -> Iterator[Callable[..., list[Any]]]:
    """A function that runs one block of every chain, on as many workers as asked for.

    It takes what all tasks share, what is each one's own, and one thing more; each task is called with the three.

    Raises
    ------
    WorkersLostError
        By the function, where workers die again and again, or the cluster is gone.
    """
    backend = _active_backend()
    if getattr(backend, "client", None) is None and not _joblib_is_configured():
        with Threads(workers, most=chains) as threads:
            yield lambda common, own, more: threads.run(lambda one: task(common, one, more), own)
        return
    crew = _Pool(task, chains, workers) if getattr(backend, "client", None) is None else _Cluster(task, backend)
    try:
        yield crew.run_all
    finally:
        crew.close()


class Threads:
    """Independent tasks on so many threads, or as many as there are processors; ``most``: on no more than so many.

    These are not joblib's, which looks for results a hundred times a second, and has those of short tasks late.
    """

    def __init__(self, n_threads: int | None, most: int | None = None) -> None:
        if n_threads is None:
            from joblib import cpu_count  # of those that a container may use

            n_threads = int(cpu_count())
        wanted = n_threads if most is None else min(n_threads, most)
        self._pool = ThreadPoolExecutor(wanted) if wanted > 1 else None

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the threads go; after an interrupt, without waiting for what they have under way."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """``task(item)`` of every item, in order; raises what the first of them raised that failed."""
        return list((map if self._pool is None else self._pool.map)(task, items))


class _Shared:
    """What all tasks share: pickled once, and unpickled once in each process."""

    def __init__(self, value: Any, token: str, pickled: bytes | None = None) -> None:
        self.value, self.token, self.pickled = value, token, pickled

    def __reduce__(self) -> tuple[Callable[..., _Shared], tuple[Any, ...]]:
        if self.pickled is None:
            from joblib.externals.loky.backend.reduction import dumps  # which knows classes of a script, too

            self.pickled = bytes(dumps(self.value))
        return _received, (self.token, self.pickled)


_held: OrderedDict[str, _Shared] = OrderedDict()
_lock = Lock()


def _received(token: str, pickled: bytes) -> _Shared:
    """What was sent, made by the first task that brings it to this process."""
    with _lock:
        if token not in _held:
            value = pickle.loads(pickled)  # noqa: S301 (as the pool itself sends tasks)
            _held[token] = _Shared(value, token, pickled)
            while len(_held) > _MOST_HELD:
                _held.popitem(last=False)
        _held.move_to_end(token)
        return _held[token]


def _do(task: Task, shared: _Shared, own: Any, more: Any) -> Any:
    """One task, where it is done."""
    return task(shared.value, own, more)


class _Pool:
    """Threads or processes, as joblib was configured."""

    def __init__(self, task: Task, chains: int, workers: int | None) -> None:
        self.task, self.n_jobs = task, None if workers is None else min(chains, workers)
        self.shared = _Shared(None, "")
        self.parallel = self._opened()

    def _opened(self) -> Any:
        from joblib import Parallel

        return Parallel(n_jobs=self.n_jobs, prefer="threads").__enter__()

    def close(self) -> None:
        """Let the workers go."""
        self.parallel.__exit__(None, None, None)

    def run_all(self, common: Any, own: Iterable[Any], more: Any) -> list[Any]:
        """The results of all, in order."""
        from joblib import delayed

        own = list(own)
        if self.shared.value is not common:
            self.shared = _Shared(common, uuid4().hex)
        for tried in range(1, _TRIES + 1):
            try:
                return list(self.parallel(delayed(_do)(self.task, self.shared, one, more) for one in own))
            except BrokenExecutor as error:
                self.close()
                self.parallel = self._opened()
                if tried == _TRIES:
                    raise WorkersLostError(
                        f"worker processes died {tried} times in a row over the same steps, mostly for want of memory: "
                        f"let fewer run at a time (n_jobs= of joblib.parallel_config), or use threads. {_RESUME}"
                    ) from error
        raise AssertionError


class _Cluster:
    """The workers of a Dask cluster."""

    def __init__(self, task: Task, backend: Any) -> None:
        self.task, self.client = task, backend.client
        self.patience = max(_PATIENCE, backend.wait_for_workers_timeout or 0.0)
        self.common: Any = None
        self.sent: Any = None  # the future of what the tasks share
        self.address = self.client.scheduler.address

    def close(self) -> None:
        """Let the workers forget what they were sent."""
        self.common = self.sent = None

    def run_all(self, common: Any, own: Iterable[Any], more: Any) -> list[Any]:
        """The results of all, in order."""
        own = list(own)
        for _ in range(_TRIES):
            self._wait_for_workers()
            futures: list[Any] = []
            try:
                if self.sent is None or self.common is not common:
                    self.common, shared = common, _Shared(common, uuid4().hex)
                    self.sent = self.client.scatter(shared, broadcast=True, hash=False)
                futures = [self.client.submit(_do, self.task, self.sent, one, more, pure=False) for one in own]
                self._wait(futures)
                if all(future.status == "finished" for future in futures):
                    return list(self.client.gather(futures))
            except (CancelledError, OSError):  # what was under way is lost, or the connection
                pass
            except BaseException as error:
                if self.client.status == "running" or not isinstance(error, AttributeError):  # of a closed client
                    self.client.cancel(futures)
                    raise
            _raise_errors(futures)
            self.sent = None
        raise WorkersLostError(f"the Dask cluster at {self.address} lost the same steps {_TRIES} times. {_RESUME}")

    def _wait(self, futures: Sequence[Any]) -> None:
        """Until all are done or lost."""
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=_LOOK)  # type: ignore[no-untyped-call]
            except TimeoutError:
                self._wait_for_workers()
            else:
                return

    def _wait_for_workers(self) -> None:
        """Until there are some; raises if they do not come."""
        begin = time.monotonic()
        while not self._n_threads():
            if self.client.status == "closed" or time.monotonic() - begin > self.patience:
                what = "has no workers" if self.client.status == "running" else "cannot be reached"
                raise WorkersLostError(
                    f"the Dask cluster at {self.address} {what} any more ({time.monotonic() - begin:.0f} seconds were "
                    f"waited): start it again. {_RESUME}"
                )
            time.sleep(min(_LOOK, self.patience / 10))

    def _n_threads(self) -> int:
        """Threads of all workers; 0 where the scheduler does not answer."""
        if self.client.status != "running":
            return 0
        try:
            return sum(self.client.ncores().values())
        except (CancelledError, OSError):
            return 0


def _raise_errors(futures: Sequence[Any]) -> None:
    """Raise what a task raised; nothing where tasks were lost."""
    from distributed import KilledWorker

    for future in futures:
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker):
                raise WorkersLostError(
                    f"workers of the Dask cluster died again and again over the same steps, mostly for want of memory: "
                    f"give them more, or fewer threads each. {_RESUME}"
                ) from error
            raise error


def _active_backend() -> Any:
    """What an active ``joblib.parallel_config`` names, or joblib's own."""
    from joblib.parallel import get_active_backend

    return get_active_backend()[0]


def _joblib_is_configured() -> bool:
    """Whether an active ``joblib.parallel_config`` says anything (perhaps ``n_jobs=1``)."""
    from joblib import parallel

    with parallel.parallel_config() as config:  # adds nothing, and gives what is active
        return bool(config != parallel.default_parallel_config)

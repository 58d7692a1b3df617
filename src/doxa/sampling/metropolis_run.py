"""`metropolis_hastings`: a run of Metropolis-Hastings chains for a target of the user's own, diagnosed like any other.

The step is `doxa.sampling.metropolis`'s; chains, warm-up, stopping and the store are the driver's; diagnostics and
errors are those of `doxa.estimates`.  What a verdict can see here is the chains' agreement and their effective draws
alone: nothing is known of the target by which a search for what all chains missed could be made.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.accuracy import confirmed, indicator_shortfalls, is_settled, real_shortfalls
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.diagnostics import RealDiagnosis, diagnose_real
from doxa.estimates.estimate import Estimate, Verdict
from doxa.estimates.indicators import IndicatorDiagnostics, diagnose_indicators, split_r_hat
from doxa.estimates.stopping import Shortfall, StopReport, Until, worst_shortfall
from doxa.estimates.store import RunFileError, RunHeader, RunWriter, create_run, keep_stop, open_reader, open_writer
from doxa.estimates.trace import Trace
from doxa.sampling.agreement import judge_chains
from doxa.sampling.driver import Schedule, fresh_entropy, plan_length, run_chains
from doxa.sampling.metropolis import MetropolisHastings, MetropolisState, State

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MetropolisRun", "metropolis_hastings"]

Quantity: TypeAlias = Callable[[NDArray[Any]], Any]

_MOST_ELEMENTS = 48  # of a state, monitored when no quantities are named
_FREE = ("draws", "until", "stop")  # options that may change when a run is gone on with
_DENSITY = "log_density"
_KIND = "metropolis_hastings"


class MetropolisRun:
    """Draws of a target, with their errors and a verdict.

    Attributes
    ----------
    trace : Trace
        ``state``, ``log_density`` and ``acceptance`` of each chain and draw.
    stop : StopReport
        Why the run stopped.
    """

    def __init__(self, trace: Trace, stop: StopReport, quantities: Mapping[str, Quantity] | None) -> None:
        self.trace, self.stop = trace, stop
        self._named = quantities is not None
        self._values = _values(trace, quantities)

    @property
    def draws(self) -> NDArray[Any]:
        """States, shape (chain, draw, ...)."""
        return self.trace["state"]

    @property
    def acceptance(self) -> float:
        """Mean acceptance probability."""
        return float(self.trace["acceptance"].mean())

    def estimate(self, quantity: str) -> Estimate:
        """Mean of a quantity, with its Monte Carlo error; of a boolean one, its probability.

        Raises
        ------
        ArgumentError
            If there is no such quantity; the message lists them.
        """
        if quantity not in self._values:
            known = ", ".join(map(repr, self._values))
            raise ArgumentError(f"quantity is {quantity!r}; this run has {known}")
        found = self._diagnoses[quantity]
        return found.estimate(()) if isinstance(found, IndicatorDiagnostics) else found.estimate

    def summary(self) -> pd.DataFrame:
        """A row for each quantity: ``quantity, mean, sd, lower, upper, mcse, ess, r_hat`` (the central 95%)."""
        import pandas as pd

        rows = []
        for name, values in self._values.items():
            estimate = self.estimate(name)
            numbers = np.asarray(values, dtype=np.float64)
            lower, upper = np.quantile(numbers, [0.025, 0.975])
            rows.append(
                [name, estimate.value, numbers.std(), lower, upper, estimate.mcse, estimate.ess, self._r_hat(name)]
            )
        return pd.DataFrame(rows, columns=["quantity", "mean", "sd", "lower", "upper", "mcse", "ess", "r_hat"])

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the chains agree in every quantity, and how many effective draws the slowest has."""
        converged, reason, advice = self._judge()
        return Verdict.of_chains(converged, f"{reason}.", self.stop.text, advice=advice)

    @property
    def converged(self) -> bool | None:
        """The verdict in one word: None where it cannot be told."""
        return self.verdict.converged

    def __repr__(self) -> str:
        n_chains, n_draws = self.trace["acceptance"].shape
        return f"<MetropolisRun: {n_chains} chains of {n_draws} draws, acceptance {self.acceptance:.2f}>"

    @cached_property
    def _diagnoses(self) -> dict[str, RealDiagnosis | IndicatorDiagnostics]:
        return {name: _diagnosed(values) for name, values in self._values.items()}

    def _r_hat(self, name: str) -> float:
        found = self._diagnoses[name]
        return found.r_hat if isinstance(found, RealDiagnosis) else float(_quick_r_hat(self._values[name]))

    def _judge(self) -> tuple[bool | None, str, str]:
        n_chains, n_draws = self.trace["acceptance"].shape
        if n_chains == 1:
            return None, "one chain alone cannot show that others would agree", "Run several: chains=4."
        changed = [name for name, values in self._values.items() if (values != values.ravel()[0]).any()]
        if not changed:
            return None, "nothing ever changed", "Propose smaller steps, or begin where the target has its mass."
        asked = [name for name in self._values if name != _DENSITY] if self._named else []
        still = [name for name in asked if name not in changed]
        if still:
            return None, f"{still[0]} never changed", "Run longer, or leave it out if it is constant."
        r_hat, ess = [self._r_hat(name) for name in changed], [self._effective(name) for name in changed]
        return judge_chains(changed, r_hat, ess, n_chains, n_draws, "quantity")

    def _effective(self, name: str) -> float:
        found = self._diagnoses[name]
        if isinstance(found, RealDiagnosis):
            return min(found.bulk_ess, found.estimate.ess)
        return found.estimate(()).ess


def metropolis_hastings(
    log_density: Callable[[State], Any],
    propose: Callable[[State, np.random.Generator], Any],
    start: Callable[[np.random.Generator], Any],
    *,
    log_proposal: Callable[[State, State], Any] | None = None,
    quantities: Mapping[str, Quantity] | None = None,
    thin: int = 1,
    chains: int = 4,
    draws: int | None = None,
    warmup: int | None = None,
    until: Until | None = None,
    seed: int | None = None,
    store: str | os.PathLike[str] | None = None,
    resume: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
) -> MetropolisRun:
    """Draw from a target of your own by proposals of your own, on any space.

    Parameters
    ----------
    log_density : callable
        From a state, an array, to its log density or log probability (nats), up to a constant; minus infinity outside.
    propose : callable
        ``propose(state, rng)`` returns a new state of the same shape and type.  States are read-only: copy first.
    start : callable
        ``start(rng)`` returns a state to begin at.  Begin chains far apart, or their agreement shows little.
    log_proposal : callable, optional
        ``log_proposal(new, old)``: log probability (or density) with which ``propose`` makes ``new`` of ``old``, up to
        one constant; minus infinity if it cannot.  When left out, the proposal is symmetric.
    quantities : mapping of str to callable, optional
        What to monitor: from states (n, ...) to n numbers, or booleans for probabilities.  When left out, the elements
        of a state of numbers or booleans, up to 48.  The log density is always monitored.
    thin : int, default=1
        Steps between kept draws.
    chains, draws, warmup, until, seed, workers, progress
        As for `doxa.fit`.  ``until.quantities`` names those of ``quantities``.
    store : path, optional
        Keep the run in this new file as it goes: states of booleans and real numbers of at most 8 bytes.
    resume : bool, default=False
        Go on with the run in ``store``: to more ``draws``, or after a crash.  The functions must be those of before;
        the file cannot tell.  What else was asked must be the same, and differences are named; a seed and a warm-up
        that are left out are the file's.

    Returns
    -------
    MetropolisRun

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an option is out of range, or a function returns what it must not.
    TargetError
        If the log density is NaN or infinite, or no start lies in the support.
    RunFileError
        If the file exists already, or is not that of this run when it is gone on with.

    Notes
    -----
    Draws depend on the seed and the functions alone, if these draw from the ``rng`` they are given.  The verdict sees
    what the chains do; modes that all of them missed it cannot see.

    Examples
    --------
    >>> def swap(order, rng):  # two elements of an order, chosen at random: symmetric
    ...     i, j = rng.choice(len(order), 2, replace=False)
    ...     new = order.copy()
    ...     new[[i, j]] = order[[j, i]]
    ...     return new
    >>> run = metropolis_hastings(
    ...     lambda order: -0.5 * np.abs(order - np.arange(4)).sum(),  # near 0, 1, 2, 3
    ...     swap,
    ...     lambda rng: rng.permutation(4),
    ...     quantities={"sorted": lambda orders: (orders == np.arange(4)).all(axis=1)},
    ...     draws=2000,
    ...     seed=1,
    ... )
    >>> round(run.estimate("sorted").value, 1), run.converged
    (0.3, True)
    """
    if not callable(start):
        raise ArgumentTypeError(
            f"start is of type {type(start).__name__}; give a function start(rng), which can begin chains far apart"
        )
    sampler = MetropolisHastings(log_density, propose, start, log_proposal, thin)
    entropy = None if seed is None else check_whole("seed", seed, 0)
    if resume:
        if store is None:
            raise ArgumentError("resume is True but there is no store; name the file of the run")
        stored = _header_of(store)
        warmup = stored.options.get("warmup") if warmup is None else warmup
        entropy = stored.entropy if entropy is None else entropy  # type: ignore[assignment]
    schedule, until = plan_length(chains, draws, warmup, until)
    first = sampler.init(np.random.default_rng(0 if entropy is None else entropy))
    _check_quantities(first, quantities, until)
    entropy = fresh_entropy() if entropy is None else entropy

    def assess(trace: Trace) -> Shortfall | None:
        values = _values(trace, quantities)

        def at(n_draws: int) -> Shortfall | None:
            return worst_shortfall(_shortfalls(values, n_draws, until))

        return confirmed(at, trace.n_draws, until, trace.n_warmup // trace.thin)

    def settled(trace: Trace) -> bool:
        values = _values(trace, quantities).values()
        return chains == 1 or all(bool(is_settled(_quick_r_hat(value))) for value in values)

    header = _header(sampler, first, quantities, schedule, until, entropy)
    opened: Any = nullcontext()
    if store is not None:
        opened = open_writer(store, header, free=_FREE) if resume else create_run(store, header)
    with opened as writer:
        run = run_chains(
            sampler, schedule, until=until, assess=assess, settled=settled, store=writer, seed=entropy,
            workers=workers, progress=progress,
        )  # fmt: skip
        if isinstance(writer, RunWriter):
            keep_stop(writer, run.stop)
    return MetropolisRun(run.trace, run.stop, quantities)


def _values(trace: Trace, quantities: Mapping[str, Quantity] | None) -> dict[str, NDArray[Any]]:
    """Each quantity, shape (chain, draw)."""
    states = trace["state"]
    n_chains, n_draws = states.shape[:2]
    flat = states.reshape(n_chains * n_draws, *states.shape[2:])
    values: dict[str, NDArray[Any]] = {}
    if quantities is None:
        for index in np.ndindex(states.shape[2:]):
            name = f"state[{', '.join(map(str, index))}]" if index else "state"
            values[name] = _numbers(name, flat[(slice(None), *index)], len(flat)).reshape(n_chains, n_draws)
    else:
        for name, function in quantities.items():
            values[name] = _numbers(name, function(flat), len(flat)).reshape(n_chains, n_draws)
    return values | {_DENSITY: trace[_DENSITY]}


def _numbers(name: str, values: Any, n: int) -> NDArray[Any]:
    found = np.asarray(values)
    if found.shape != (n,) or found.dtype.kind not in "biuf":
        raise ArgumentError(
            f"quantities[{name!r}] returned an array of shape {found.shape} and type {found.dtype} for {n} states; it "
            "must return a real number or a boolean for each"
        )
    return found if found.dtype == bool else found.astype(np.float64)


def _diagnosed(values: NDArray[Any]) -> RealDiagnosis | IndicatorDiagnostics:
    if values.dtype == bool:
        return diagnose_indicators(IndicatorCounts.from_draws(values))
    return diagnose_real(values)


def _quick_r_hat(values: NDArray[Any]) -> Any:
    return split_r_hat(IndicatorCounts.from_draws(values)) if values.dtype == bool else diagnose_real(values).r_hat


def _shortfalls(values: Mapping[str, NDArray[Any]], n_draws: int, until: Until) -> list[Shortfall]:
    """What is missing by the first draws of each chain."""
    found: list[Shortfall] = []
    for name, draws in values.items():
        diagnosis = _diagnosed(draws[:, :n_draws])
        if isinstance(diagnosis, IndicatorDiagnostics):
            now = diagnosis if n_draws == draws.shape[1] else diagnose_indicators(IndicatorCounts.from_draws(draws))
            found += indicator_shortfalls(lambda name=name: name, diagnosis, until, now=now)
        else:
            found += real_shortfalls(name, diagnosis, until)
    return found


def _check_quantities(first: MetropolisState, quantities: Mapping[str, Quantity] | None, until: Until) -> None:
    position = np.asarray(first.position)
    if quantities is None:
        if position.dtype.kind not in "biuf" or position.size > _MOST_ELEMENTS:
            raise ArgumentError(
                f"quantities is left out, but states have {position.size} elements of type {position.dtype}; say what "
                "to monitor: quantities={'name': function of states (n, ...)}"
            )
    elif not isinstance(quantities, Mapping) or not all(callable(function) for function in quantities.values()):
        raise ArgumentTypeError("quantities must be a mapping of names to functions of states (n, ...)")
    elif _DENSITY in quantities:
        raise ArgumentError(f"quantities names {_DENSITY!r}, which is monitored anyway; leave it out")
    one = Trace({"state": position[None, None], _DENSITY: np.array([[first.log_density]])})
    known = _values(one, quantities)
    for name in until.quantities or ():
        if name not in known:
            raise ArgumentError(f"until.quantities names {name!r}; this run has {', '.join(map(repr, known))}")


def _header(
    sampler: MetropolisHastings,
    first: MetropolisState,
    quantities: Mapping[str, Quantity] | None,
    schedule: Schedule,
    until: Until,
    entropy: int,
) -> RunHeader:
    position = np.asarray(first.position)
    options = {
        "shape": list(position.shape),
        "dtype": position.dtype.str,
        "symmetric": sampler.log_proposal is None,
        "quantities": None if quantities is None else list(quantities),
        "warmup": schedule.warmup,
        "draws": schedule.draws,
        "until": {"r_hat": until.r_hat, "mcse": until.mcse, "ess": until.ess},
        "stop": None,
    }
    versions = {name: version(name) for name in ("doxa", "numpy")} | {"machine": platform.machine()}
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return RunHeader(_KIND, options, "", versions, schedule.chains, sampler.thin, entropy, created)


def _header_of(store: str | os.PathLike[str]) -> RunHeader:
    with open_reader(store, check=False) as reader:
        if reader.header.kind != _KIND:
            raise RunFileError(f"'{store}' holds a run of the kind {reader.header.kind!r}, not of {_KIND}")
        return reader.header

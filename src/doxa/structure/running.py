"""`learn`: from a table to the posterior over graphs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.data import Table, read_table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import Shortfall, Until
from doxa.estimates.store.stops import keep_stop
from doxa.estimates.trace import Trace
from doxa.mcmc.driver import check_one_end, fresh_entropy, plan_length, run_chains
from doxa.structure.cache import FamilyScores
from doxa.structure.limits import Limits, make_limits
from doxa.structure.monitor import check_quantities, has_settled, missing
from doxa.structure.moves import check_move, sampler_of
from doxa.structure.options import RunOptions, check_score
from doxa.structure.posterior import StructurePosterior
from doxa.structure.priors import StructurePrior, make_prior
from doxa.structure.runs import RunPlan, begin, go_on
from doxa.structure.sampler import StructureMove
from doxa.structure.scores import Score

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from doxa.estimates.store import RunWriter

__all__ = ["exact_answer", "learn", "make_plan", "resume", "run_plan"]


def learn(
    table: Table | IntoDataFrame | str | os.PathLike[str],
    *,
    score: str | Score = "bdeu",
    equivalent_sample_size: float = 1.0,
    prior: str = "uniform",
    edge_log_odds: float | Mapping[tuple[str, str], float] | NDArray[Any] | None = None,
    sampler: str | StructureMove = "auto",
    max_parents: int | Mapping[str, int] | None = None,
    required: Iterable[tuple[str, str]] = (),
    forbidden: Iterable[tuple[str, str]] = (),
    tiers: Sequence[Sequence[str]] | None = None,
    exact: bool | None = None,
    chains: int = 4,
    draws: int | None = None,
    warmup: int | None = None,
    thin: int | None = None,
    until: Until | None = None,
    seed: int | None = None,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> StructurePosterior:
    """Sample the posterior over directed acyclic graphs given a complete table of categories.

    Parameters
    ----------
    table : Table, data frame or path
        As `doxa.read_table` takes it; at least two columns and no missing cells.
    score : str or score, default="bdeu"
        ``"bdeu"``, ``"k2"`` or ``"bic"``, or an object such as ``K2(prior_count=0.5)`` from `doxa.structure`.
    equivalent_sample_size : float, default=1.0
        Weight of the BDeu prior, in cases, above 0.
    prior : str, default="uniform"
        ``"uniform"`` over graphs, or ``"in_degree"``: uniform over the number of parents of each node, then over sets.
    edge_log_odds : number, mapping or array, optional
        Soft knowledge, added to the log prior for each edge: one number for all (negative: a penalty), a mapping from
        (source, target), or an array of shape (n_columns, n_columns), ``[i, j]`` for i -> j.
    sampler : str or move, default="auto"
        ``"auto"``, ``"single_edge"``, ``"edge_gibbs"``, ``"emc3"``, ``"markov_blanket"``, ``"parent_set_gibbs"``,
        ``"edge_reversal"``, ``"tempered"``, or an object such as ``MarkovBlanket(k=5, w=0.95)`` from `doxa.structure`.
    max_parents : int or mapping of column to int, optional
        Largest number of parents of every node, or of those named; any number when left out.
    required, forbidden : iterable of (source, target)
        Hard knowledge: edges that every graph has, and edges that none has.
    tiers : sequence of sequences of str, optional
        Groups of columns in the order of time: no edge leads from a later group to an earlier one.
    exact : bool, optional
        Sum over all graphs instead of sampling.  True insists, False forbids it.  When left out, small tables are
        summed, if nothing is asked that only a sampler can do (``sampler``, ``draws``, ``warmup``, ``thin``,
        ``until``, ``store``): up to 17 columns, with ``max_parents`` the same.
    chains : int, default=4
        Independent chains, started far apart: the first at the empty graph, the second at a greedy optimum, the others
        at random graphs.
    draws : int, optional
        Graphs kept from each chain, at least 4.  When left out, as many as ``until`` asks for.
    warmup : int, optional
        Draws discarded before that.  When left out: half of ``draws`` if these are given, else until the chains agree
        in the log score and the number of edges.
    thin : int, optional
        Steps between draws; when left out n(n - 1) for n columns, so that each pair of nodes has its turns, but at
        least 200.
    until : Until, optional
        The accuracy at which to stop, and limits; ``Until()`` when neither it nor ``draws`` is given.
    seed : int, optional
        The same seed and options give the same draws, whatever the number of workers.  Fresh when left out, and
        kept in the trace.
    store : path, optional
        Keep the run in this new file as it goes, so that `resume` can go on with it after a crash or for more draws,
        and `load` can read it.
    workers : int, optional
        Chains that run at the same time: when left out, what an active ``joblib.parallel_config`` says, else one for
        each core.
    progress : bool, optional
        Show a progress bar on standard error; when left out, if that is a terminal.

    Returns
    -------
    StructurePosterior
        An `ExactStructurePosterior` if all graphs were summed.

    Raises
    ------
    TableError
        If the table cannot be read, has a single column, or has missing cells.
    ArgumentError, ArgumentTypeError
        If an option is out of range or of the wrong type, or both ``draws`` and ``until`` are given; the message names
        it.
    TimeUpError
        If ``until.max_seconds`` ends in the warm-up.
    RunFileError
        If ``store`` names a file that exists or cannot be made.
    PrecisionError
        If ``exact`` is True and the sums over graphs lose too many digits.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    >>> posterior.converged
    True
    """
    source = {"source": str(Path(table).absolute())} if isinstance(table, (str, os.PathLike)) else None
    data = table if isinstance(table, Table) else read_table(table)
    plan = make_plan(
        data,
        source,
        score=check_score(score, equivalent_sample_size),
        prior=make_prior(data.names, prior, edge_log_odds),
        limits=make_limits(data.names, max_parents=max_parents, required=required, forbidden=forbidden, tiers=tiers),
        sampler=sampler,
        chains=chains,
        draws=draws,
        warmup=warmup,
        thin=thin,
        until=until,
        seed=seed,
    )
    asked = sampler != "auto" or store is not None or any(x is not None for x in (draws, warmup, thin, until))
    answer = exact_answer(plan, exact, asked, workers)
    if answer is not None:
        return answer
    return run_plan(plan, None if store is None else lambda: begin(store, plan), workers, progress)


def exact_answer(plan: RunPlan, exact: bool | None, asked: bool, workers: int | None) -> StructurePosterior | None:
    """The sum over all graphs, if it is wanted; ``asked``: something that only a sampler can do was asked."""
    from doxa.structure.dag_sums import PrecisionError
    from doxa.structure.exact_answer import sum_over_graphs, worth_it

    if exact is not None and not isinstance(exact, bool):
        raise ArgumentTypeError(f"exact is {exact!r}; it must be True, False, or left out")
    if exact and asked:
        raise ArgumentError(
            "exact is True, but sampler, draws, warmup, thin, until or store is given too: they belong to sampling; "
            "leave them out, or leave out exact"
        )
    if exact is False or asked or not (exact or worth_it(plan.options)):
        return None
    scores = FamilyScores(plan.table, plan.options.score, plan.options.structure_prior)
    try:
        return sum_over_graphs(scores, plan.options, plan.schedule.chains, plan.entropy, workers)
    except PrecisionError:
        if exact:
            raise
        return None


def make_plan(
    table: Table,
    source: dict[str, Any] | None,
    *,
    score: Score,
    prior: StructurePrior,
    limits: Limits,
    sampler: str | StructureMove,
    chains: int,
    draws: int | None,
    warmup: int | None,
    thin: int | None,
    until: Until | None,
    seed: int | None,
) -> RunPlan:
    """Check the options of `learn` and fill in what was left out; ``source`` is how the table was read."""
    move = check_move(sampler)
    schedule, until = plan_length(chains, draws, warmup, until)
    n = len(table.names)
    return RunPlan(
        table,
        RunOptions.of(table, score, prior, limits),
        move,
        max(200, n * (n - 1)) if thin is None else check_whole("thin", thin, 1),
        schedule,
        until,
        fresh_entropy() if seed is None else check_whole("seed", seed, 0),
        source,
    )


def resume(
    path: str | os.PathLike[str],
    table: Table | IntoDataFrame | str | os.PathLike[str] | None = None,
    *,
    draws: int | None = None,
    until: Until | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> StructurePosterior:
    """Go on with a run that `learn` keeps in a file: one that was interrupted, or one that is to be longer.

    Parameters
    ----------
    path : path
        The file given to ``learn(..., store=path)``.
    table : Table, data frame or path, optional
        The same table as before; when left out it is read again from where it was read then.
    draws : int, optional
        Draws of each chain in all; as the run was started when left out.
    until : Until, optional
        When to stop instead.
    workers, progress
        As for `learn`.

    Returns
    -------
    StructurePosterior
        With the draws that a run never interrupted would have.

    Raises
    ------
    RunFileError
        If the file is no run, is damaged, is being written, or was started with another table or other versions; every
        difference is named.
    ArgumentError
        If both ``draws`` and ``until`` are given.

    Examples
    --------
    >>> import doxa, tempfile
    >>> table = doxa.datasets.load("reinis")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     part = doxa.learn(table, draws=50, warmup=10, seed=1, store=f"{folder}/run.doxa")
    ...     more = doxa.resume(f"{folder}/run.doxa", table, draws=80)
    >>> whole = doxa.learn(table, draws=80, warmup=10, seed=1)
    >>> bool((more.trace["rows"] == whole.trace["rows"]).all())
    True
    """
    check_one_end(draws, until)
    data = table if table is None or isinstance(table, Table) else read_table(table)
    plan, writer = go_on(path, data, draws, until)
    with writer:
        return run_plan(plan, lambda: nullcontext(writer), workers, progress)


def run_plan(
    plan: RunPlan,
    open_store: Callable[[], AbstractContextManager[RunWriter]] | None,
    workers: int | None,
    progress: bool | None,
) -> StructurePosterior:
    """Run a plan, and keep it in a file if there is one."""
    scores = FamilyScores(plan.table, plan.options.score, plan.options.structure_prior)
    names = plan.table.names
    check_quantities(plan.until, names)

    def assess(trace: Trace) -> Shortfall | None:
        return missing(StructurePosterior(names, trace, plan.move, plan.options), plan.until)

    _load_diagnostics_meanwhile()
    with nullcontext() if open_store is None else open_store() as store:
        run = run_chains(
            sampler_of(plan.move, scores, plan.options.limits, plan.thin),
            plan.schedule,
            until=plan.until,
            assess=assess,
            settled=has_settled,
            store=store,
            seed=plan.entropy,
            workers=workers,
            progress=progress,
        )
        if store is not None:
            keep_stop(store, run.stop)
    return StructurePosterior(names, run.trace, plan.move, plan.options, scores.use, run.stop)


def _load_diagnostics_meanwhile() -> None:
    """Import arviz-stats, which takes seconds, while compiled loops run without the GIL."""
    threading.Thread(target=import_module, args=("arviz_stats.base",), daemon=True).start()

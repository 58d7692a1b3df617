"""`learn`: from a table, with missing cells or without, to the posterior over graphs, parameters and missing cells."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from doxa.data import Table, large
from doxa.data.declared import own_absence
from doxa.data.interventions import intervention_columns
from doxa.data.read import read_without_empty, without_empty
from doxa.errors import ArgumentError, FileError
from doxa.estimates.stopping import Until
from doxa.progress import following, tell
from doxa.structure.averaging.posterior import Posterior, with_table
from doxa.structure.cases import out_of_core as counted
from doxa.structure.families.kind import FamilyKind
from doxa.structure.limits import forbid_more
from doxa.structure.runs.options import LearnOptions
from doxa.structure.runs.plan import RunPlan, exact_answer, make_plan

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from doxa.data.large import OutOfCoreSource
    from doxa.estimates.store import RunWriter
    from doxa.structure.moves.sampler import StructureMove

__all__ = ["learn", "learn_from", "load", "opened", "resume"]


def learn(
    table: Table | OutOfCoreSource | IntoDataFrame | str | os.PathLike[str],
    *,
    family: str | Mapping[str, str] | None = None,
    score: str | FamilyKind | None = None,
    equivalent_sample_size: float = 1.0,
    prior_scale: float | None = None,
    prior: str = "sparse",
    edge_log_odds: float | Mapping[tuple[str, str], float] | NDArray[Any] | None = None,
    sampler: str | StructureMove = "auto",
    max_parents: int | Mapping[str, int] | None = None,
    required: Iterable[tuple[str, str]] = (),
    forbidden: Iterable[tuple[str, str]] = (),
    tiers: Sequence[Sequence[str]] | None = None,
    indicator: Iterable[str] = (),
    hidden: Mapping[str, int] | None = None,
    interventions: str | Mapping[int, str | Iterable[str]] | None = None,
    imperfect: bool | Iterable[str] = False,
    uncertain_targets: bool = False,
    time: str | None = None,
    unit: str | None = None,
    lags: int | None = None,
    step: float | str | None = None,
    gaps: str | None = None,
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
) -> Posterior:
    """Sample the posterior over directed acyclic graphs, and over missing cells, given a table.

    Missing cells are assumed to be missing at random: that a cell is missing may depend on what was observed in its
    row, not on what it holds.  They are drawn together with the graphs, parameters integrated out.

    Parameters
    ----------
    table : Table, data frame, path, DuckDB relation or lazy frame
        As `doxa.read_table` takes it, or what `doxa.data.large.open_source` returned; at least two columns.  Cells may
        be missing.  Where the distinct rows of a large file or lazy source are too many to hold in memory, all families
        are counted where the data live; see the notes.
    family : str or mapping of str to str, optional
        How a node depends on its parents: ``"categorical"``, by a table; ``"logistic"``, by a logistic regression
        without interactions, for columns of two states; ``"auto"``, a sum over both types for every node;
        ``"gaussian"``, by a linear regression, for columns of numbers; ``"conditional_gaussian"``, a number by a
        linear regression in each configuration of its parents that are categories, a category by a table, its parents
        being categories; ``"additive"``, for both, a number by one linear regression on all its parents, a category by
        a logistic or multinomial one, so that every edge is possible.  In a table with numbers ``"auto"`` is a sum over
        the last two.  A mapping names kinds by column, as in ``{"type": "additive"}``; columns that it does not name
        are tables, or linear regressions in each configuration.  When left out, the table decides: categories alone are
        ``"categorical"``, numbers alone ``"gaussian"``, and both together ``"conditional_gaussian"``.  A logistic
        family has at most 63 parents.  Where cells are missing, ``"logistic"``, ``"auto"``, kinds by column and
        families of numbers take the samplers ``"auto"``, ``"single_edge"`` and ``"tempered"``.
    score : str or score, optional
        Of tables: ``"bdeu"``, the usual one, ``"k2"`` or ``"bic"``; of numbers: ``"bge"``, the usual one, or
        ``"gaussian_bic"``; or an object such as ``K2(prior_count=0.5)`` or ``BGe(alpha_mu=2)`` from `doxa.structure`;
        or a kind of family of your own, derived from `doxa.structure.FamilyKind`.  The BIC are no probabilities, and
        refused where cells are missing.
    equivalent_sample_size : float, default=1.0
        Weight of the BDeu prior, in cases, above 0.
    prior_scale : float, optional
        Standard deviation of the normal prior of logistic coefficients, states coded -1 and +1; 2 when left out, which
        says as much as one case (`doxa.structure.families.logistic`).
    prior : str, default="sparse"
        ``"sparse"``: about one edge is expected in the whole graph before the data speak, and the parents of a node
        have no more configurations than the table has rows (their tables would say nothing of most of them; required
        parents and logistic families are exempt).  ``"uniform"``: over all graphs, as in the papers, with any number of
        configurations; in tables with few rows or many states it favours dense graphs.  ``"in_degree"``: uniform over
        the number of parents of each node, then over sets.  See `doxa.structure.priors`.
    edge_log_odds : number, mapping or array, optional
        Soft knowledge, added to the log prior for each edge: one number for all (negative: a penalty), a mapping from
        (source, target), or an array of shape (n_columns, n_columns), ``[i, j]`` for i -> j.
    sampler : str or move, default="auto"
        ``"auto"``, ``"single_edge"``, ``"edge_gibbs"``, ``"emc3"``, ``"markov_blanket"``, ``"parent_set_gibbs"``,
        ``"edge_reversal"``, ``"tempered"``, or an object such as ``MarkovBlanket(k=5, w=0.95)`` from `doxa.structure`.
    max_parents : int or mapping of column to int, optional
        Largest number of parents of every node, or of those named; any number when left out.  Needed where families
        are counted where the data live.
    required, forbidden : iterable of (source, target)
        Hard knowledge: edges that every graph has, and edges that none has.
    tiers : sequence of sequences of str, optional
        Groups of columns in the order of time: no edge leads from a later group to an earlier one.
    indicator : iterable of str, optional
        Columns that matter by their absence, too: each adds a column ``"<name> is missing"`` to the graph.  No edge
        joins a column and the indicator of its own absence, which are never seen together, unless it is required;
        see the notes.
    hidden : mapping of str to int, optional
        Columns that nobody observed, with their numbers of states.  The names of their states mean nothing: the
        posterior is the same when they are exchanged.
    interventions : str or mapping of int to str or list of str, optional
        What somebody did in which rows: the column whose cells name the columns that were set there (empty: none;
        several between commas or semicolons), which is then no node; or a mapping from rows, from 0, to such names.  A
        row in which a column was set says nothing of its parents, and counts for all other columns; see the notes.
    imperfect : bool or iterable of str, default=False
        Whether interventions changed how a column comes about without setting it, for all columns or those named: in
        these rows it has other parameters, and the same parents.
    uncertain_targets : bool, default=False
        Whether the names are those of interventions, and what they act on is to be learned: each becomes a column
        ``"intervention: <name>"`` of states ``no`` and ``yes``, to which no edge leads.
    time : str, optional
        The column that says when, if rows are moments in time: numbers, or dates as in ``2024-01-31``.  What happens at
        a moment may then depend on the same moment and on those before, in the same way at all times; see the notes.
    unit : str, optional
        The column that says of whom: units are independent.  All rows are of one when left out.
    lags : int, optional
        How many moments back the past reaches that a moment may depend on; 1 when left out.
    step : float or "rank", optional
        How far apart moments are that follow each other; 1 when left out, which is a day for dates.  With ``"rank"``
        those times follow each other that occur anywhere in the table.
    gaps : {"break", "missing"}, optional
        What a moment is that is not in the table: it ends a stretch, after which there is no past (the default), or it
        is a row of missing cells.
    exact : bool, optional
        Sum over all graphs instead of sampling.  True insists, False forbids it.  When left out, small tables are
        summed, if nothing is asked that only a sampler can do (``sampler``, ``draws``, ``warmup``, ``thin``,
        ``until``) and the sum takes some half a minute and 2 GB at most, which is counted beforehand: 19 columns of 500
        rows.  Few missing cells are summed over, too: up to 12 columns and some thousand completions of the table.
    chains : int, default=4
        Independent chains, started far apart: the first at the empty graph, the second at the best graph of a search,
        the third at a dense graph, the others at random ones, with random values in missing cells.
    draws : int, optional
        Graphs kept from each chain, at least 4.  When left out, as many as ``until`` asks for.
    warmup : int, optional
        Draws discarded before that.  When left out: half of ``draws`` if these are given, else until the chains agree
        in the log score and the number of edges.
    thin : int, optional
        Steps between draws; when left out 8 n for n columns, n^2 / 20 where that is more, from 100 to 25 n, beyond
        350 columns n^3 / 7000, at most 50 n, and of moves without lists of parent sets n(n - 1), at least 200.  With
        missing cells a sweep, at whose beginning these are redrawn: n^2 steps, at least 320 (without lists 2.5 n^2, at
        least 640), and fewer of less than six columns; at least 100 where families may be logistic or additive.  Runs
        without ``draws`` keep four draws of a sweep, unless the limits leave only one graph, the sampler is
        ``"tempered"``, or a draw's missing cells, 1 byte each or, beside numbers, 8, take more than 16 KiB.  Another
        number changes the length of a sweep by what makes it a number of draws, or a draw a number of sweeps.
    until : Until, optional
        The accuracy at which to stop, and limits; ``Until()`` when neither it nor ``draws`` is given.
    seed : int, optional
        The same seed and options give the same draws, whatever the number of workers.  Fresh when left out, and
        kept in the trace.
    store : path, optional
        Keep the run in this new file as it goes, so that `resume` can go on with it after a crash or for more draws,
        and `load` can read it.  An exact answer is written when it is there, and is exact when it is loaded.  Counts
        that were made where the data live are kept beside it, in ``<store>.counts``.
    workers : int, optional
        Chains that run at the same time: when left out, what an active ``joblib.parallel_config`` says, else one for
        each core.
    progress : bool, optional
        Say on one line of standard error what goes on.  When left out: on a terminal and in a notebook, and elsewhere
        in a few lines where it takes long.

    Returns
    -------
    Posterior
        An `ExactGraphsPosterior` if all graphs were summed.

    Raises
    ------
    TableError
        If the table cannot be read, has a single column, or a column without any value that is not declared as hidden.
    ArgumentError, ArgumentTypeError
        If an option is out of range or of the wrong type, or both ``draws`` and ``until`` are given; the message names
        it.
    SourceError
        If a large source fails or changes while it is counted.  What was counted before is kept if ``store`` is given
        (or the source was opened with ``keep``): the same call goes on from there.
    RunFileError
        If ``store`` names a file that exists or cannot be made.
    PrecisionError
        If ``exact`` is True and the sums over graphs lose too many digits.

    Notes
    -----
    An edge between a column and the indicator of its own absence says that cells are not missing at random, and cannot
    be learned: the table does not tell which values are absent.  One that is ``required`` is kept, as an assumption
    whose consequences the caller wants to see; what the missing cells hold then rests on the prior, and the chains may
    need long to agree.

    With interventions, the values of cells that were set stand in the table like others: they count as parents' values.
    Graphs that say the same of rows that were only watched may say different things of those in which somebody
    intervened, so scores are no longer equivalent; averages over graphs use the parameters of a column that nobody
    intervened on.  What was set must not have been missing.

    With ``time``, columns of the moment before are called ``"<name> [t-1]"``, and so on for more lags: in ``required``,
    ``forbidden``, ``edge_log_odds`` and all answers.  A row is a moment that has all its predecessors; the others are
    its past.  No edge leads into the past, and about one edge in all is expected by the sparse prior.  Parameters are
    the same at all times.  ``hidden``, ``indicator`` and ``uncertain_targets`` do not go with it.

    A source of more than 2**23 distinct rows is not held.  Every family within the limits is then counted where the
    data live, in passes that group rows by many sets of columns, before the run begins; nothing is screened away.
    There may be at most two million families, 2**26 cells in all and 10 parents, and no missing cells; a message says
    which ``max_parents`` would do.  The posterior's digest of the data then covers the counts of all families, which
    are all that it depends on, and not the rows; queries and predictions use these counts.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    >>> posterior.converged
    True
    """
    source = {"source": str(Path(table).absolute())} if isinstance(table, (str, os.PathLike)) else None
    asked = LearnOptions(
        family=family,
        score=score,
        equivalent_sample_size=equivalent_sample_size,
        prior_scale=prior_scale,
        prior=prior,
        edge_log_odds=edge_log_odds,
        sampler=sampler,
        max_parents=max_parents,
        required=required,
        forbidden=forbidden,
        tiers=tiers,
        indicator=indicator,
        hidden=hidden,
        interventions=interventions,
        imperfect=imperfect,
        uncertain_targets=uncertain_targets,
        time=time,
        unit=unit,
        lags=lags,
        step=step,
        gaps=gaps,
        exact=exact,
        chains=chains,
        draws=draws,
        warmup=warmup,
        thin=thin,
        until=until,
        seed=seed,
    )
    with following(progress), opened(table, store, hidden or (), keys=asked.keys) as data:
        return learn_from(data, source, asked, store, workers, progress)


def learn_from(
    table: Table | OutOfCoreSource,
    source: dict[str, Any] | None,
    asked: LearnOptions,
    store: str | os.PathLike[str] | None,
    workers: int | None,
    progress: bool | None,
) -> Posterior:
    """`learn` from a table that was read; ``source`` says how, for `resume` and `load`.

    ``table`` is a source if its distinct rows are too many to hold: what `doxa.data.large.read_or_open` returns.
    """
    indicator = tuple(asked.indicator)
    data = asked.declared(table) if isinstance(table, Table) else counted.uncounted(table)
    limits = asked.limits(data)
    if isinstance(table, Table):
        done = intervention_columns(data, asked.done)
        limits = forbid_more(
            limits, data.names, own_absence(indicator) + [(a, b) for b in done for a in data.names if a != b]
        )
    plan = make_plan(data, source, asked, limits)
    if store is not None and not _can_be_made(store):
        _begin(store, plan).close()  # raises, before anything is summed or counted
    if not isinstance(table, Table):
        plan = _counted(plan, table, declares=bool(indicator or asked.hidden or asked.done or asked.order))
    answer = exact_answer(plan, asked.exact, asked.is_about_sampling, workers)
    if answer is None:
        from doxa.structure.runs.running import run_plan

        answer = run_plan(plan, None if store is None else partial(_begin, store, plan), workers, progress)
    elif store is not None:
        answer.save(store)
    return with_table(answer, plan.table)


def _counted(plan: RunPlan, source: OutOfCoreSource, *, declares: bool) -> RunPlan:
    """The plan of a run over a source that is too large to hold, its families counted."""
    if declares:
        raise ArgumentError(
            "indicator, hidden, interventions or time is given, but the distinct rows of the table are too many to "
            "hold, and these take rows; leave them out, or give fewer rows"
        )
    counted.check_counts(source, plan.options.limits, plan.options.score)
    return counted.with_counts(plan, source)


def _can_be_made(store: str | os.PathLike[str]) -> bool:
    """Whether a file of this name seems possible."""
    path = Path(store) if isinstance(store, (str, os.PathLike)) else None
    return path is not None and not os.path.lexists(path) and path.absolute().parent.is_dir()


def _begin(store: str | os.PathLike[str], plan: RunPlan) -> RunWriter:
    """Make the run file of a new run."""
    from doxa.structure.runs.files import begin

    return begin(store, plan)


def load(
    path: str | os.PathLike[str], table: Table | IntoDataFrame | str | os.PathLike[str] | None = None
) -> Posterior:
    """Read the posterior of a run file of `learn`; see `doxa.load`."""
    from doxa.structure.runs.files import load as load_graphs

    posterior = load_graphs(path)
    data = table if isinstance(table, Table) else counted.kept_table(path) if table is None else _table_of(path, table)
    return with_table(posterior, None if data is None else _declared_of(posterior, data))


def resume(
    path: str | os.PathLike[str],
    table: Table | IntoDataFrame | str | os.PathLike[str] | None = None,
    *,
    draws: int | None = None,
    until: Until | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Posterior:
    """Go on with a run of `learn` that is kept in a file; see `doxa.resume`."""
    from doxa.structure.runs.running import resume_run

    with following(progress):
        tell(f"resuming {path}")
        data = table if isinstance(table, Table) else None
        if data is None:
            data = counted.kept_table(path) if table is None else _table_of(path, table)
        posterior = resume_run(path, data, draws, until, workers, progress)
    return with_table(posterior, None if data is None else _declared_of(posterior, data))


def _declared_of(posterior: Any, table: Table) -> Table:
    """A table as it was given to `learn`, with the columns that were declared there."""
    made: Table = posterior.options.declared(table)
    return made


def _table_of(path: str | os.PathLike[str], table: Any) -> Table:
    """The table of a run; where it is too large to hold, the counts of the families of the run."""
    options = counted.stored_options(path)
    with opened(table, hidden=[name for name, _ in options.hidden], keys=options.keys) as data:
        if isinstance(data, Table):
            return data
        if data.names != options.names:
            raise ArgumentError(
                f"'{path}' is a run over the columns {', '.join(options.names)}; the table has {', '.join(data.names)}"
            )
        if counted.beside(path).exists():
            with suppress(FileError):  # if they are of another table, the digest will say so
                data.keep_in(counted.beside(path))
        return counted.count_table(data, options.limits)


@contextmanager
def opened(
    table: Any,
    store: str | os.PathLike[str] | None = None,
    hidden: Collection[str] = (),
    keys: Collection[str] = (),
    **reading: Any,
) -> Iterator[Table | OutOfCoreSource]:
    """A table, or a source whose distinct rows are too many to hold; what is opened here is closed.

    Columns without a value are left out if they are declared as hidden; ``reading`` is for `doxa.read_table`.  Counts
    are kept beside ``store``.  Where there are ``keys``, columns of times and units, all rows are read.
    """
    if isinstance(table, Table):
        yield table
        return
    tell(f"reading {table}" if isinstance(table, (str, os.PathLike)) else "reading the table")
    if keys:
        yield read_without_empty(table, (), keys, **reading)
        return
    keep = None if store is None else counted.beside(store)
    data = without_empty(partial(large.read_or_open, table, keep=keep), hidden, reading)
    try:
        yield data
    finally:
        if not isinstance(data, Table) and data is not table:
            data.close()

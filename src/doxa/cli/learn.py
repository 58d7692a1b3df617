"""`doxa learn`: the posterior over graphs of a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import doxa
from doxa.cli import options
from doxa.cli.app import check_kind, interruptible
from doxa.cli.networks import ToHandOn, check_network, write_network
from doxa.cli.options import HOW_TO_READ, Words, check_end, check_going_on, said, typed
from doxa.cli.report import check_page, tell, watching
from doxa.cli.show import show_effects, show_forecast, show_graphs, show_slopes, write_edges
from doxa.cli.values import Questions
from doxa.cli.words import parse_edges, parse_family, parse_log_odds, parse_names, parse_numbers, parse_states, refuse
from doxa.errors import ArgumentError

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.data.large import OutOfCoreSource
    from doxa.structure.averaging.posterior import Posterior
    from doxa.structure.runs.options import LearnOptions

__all__ = ["learn"]

Data = Annotated[
    Path | None,
    typer.Argument(help="A CSV or Parquet file: a header, then one case a row.", metavar="DATA", show_default=False),
]
Sampler = Annotated[
    str,
    said(
        "How to move between graphs: auto, single_edge, edge_gibbs, emc3, markov_blanket, parent_set_gibbs, "
        "edge_reversal or tempered.",
        True,
    ),
]
Chains = Annotated[int, said("Independent chains, started far apart.", True)]
Draws = Annotated[int | None, said("Graphs kept from each chain.", "until accurate enough")]
Thin = Annotated[int | None, said("Steps between two draws.", "8 n for n columns, more in large tables")]
Mcse = Annotated[float, said("Stop when no probability has a larger Monte Carlo error.", True)]
RHat = Annotated[float, said("Stop when the chains agree to this R-hat.", True)]
Ess = Annotated[float, said("Stop when there are so many effective draws.", True)]
MaxParents = Annotated[
    Words, said("Largest number of parents: 3, or heart=2 for one column (repeat for more).", "any number")
]
Family = Annotated[
    Words,
    said(
        "How a node depends on its parents: categorical (a table), logistic, auto (both), gaussian (numbers), "
        "conditional_gaussian, or additive (numbers and categories, every edge); or type=additive for one column "
        "(repeat for more).",
        "by the columns",
    ),
]
Score = Annotated[
    str | None, said("Of tables: bdeu, k2 or bic; of numbers: bge or gaussian_bic.", "bdeu, bge for numbers")
]
EquivalentSampleSize = Annotated[float, said("Weight of the BDeu prior, in cases.", True)]
PriorScale = Annotated[float | None, said("Standard deviation of logistic coefficients a priori.", "2")]
Prior = Annotated[str, said("sparse, uniform over graphs, or uniform over the in_degree of each node.", True)]
EdgeLogOdds = Annotated[
    Words, said("Added to the log prior for each edge: -2, or smokes,heart=1.5 for one edge (repeat for more).")
]
Required = Annotated[Words, said("An edge that every graph has: smokes,heart (repeat for more).")]
Forbidden = Annotated[Words, said("An edge that no graph has: heart,age (repeat for more).")]
Tier = Annotated[
    Words, said("Columns of one time, age,sex; repeat in the order of time. No edge leads to an earlier tier.")
]
Indicator = Annotated[
    Words, said("A column that matters by its absence, too (repeat for more): adds a column for that.")
]
Hidden = Annotated[Words, said("A column that nobody observed and its states: cause=2 (repeat for more).")]
Interventions = Annotated[
    str | None,
    said("The column whose cells name what was set in each row; several between commas, none where they are empty."),
]
Imperfect = Annotated[Words, said("A column that interventions changed without setting it (repeat for more), or all.")]
Uncertain = Annotated[
    bool,
    typer.Option("--uncertain-targets", help="Learn what the interventions act on: they become columns of their own."),
]
Time = Annotated[str | None, said("The column that says when, if rows are moments in time.")]
Unit = Annotated[str | None, said("The column that says of whom they are.", "all of one")]
Lags = Annotated[int | None, said("How many moments back a moment may depend on.", "1")]
Step = Annotated[str | None, said("How far apart moments are that follow each other, or rank.", "1; of dates a day")]
Gaps = Annotated[
    str | None, said("What an absent moment is: break ends a stretch, missing is a row of missing cells.", "break")
]
Forecast = Annotated[
    int | None,
    said("Also print what comes next, so many moments after the last of every unit; of times alone."),
]
Query = Annotated[
    Words,
    said(
        "How probable is party=republican, or each state of party, or 'age>50'; or how is the number age distributed?"
    ),
]
Given = Annotated[Words, said("Among cases where crime=y or age=50 was seen (repeat for more).")]
Do = Annotated[Words, said("Where crime=y or age=50 was set by intervention (repeat for more).")]
Slopes = Annotated[
    bool, typer.Option("--slopes", help="Also print the slopes of edges between numbers, with intervals.")
]
Effect = Annotated[
    Words, said("Also print the causal effect of one column on another: smokes,heart (repeat for more), or all.")
]
Exact = Annotated[
    bool | None,
    typer.Option(
        "--exact/--sample", help="Sum over all graphs, or sample them.", show_default="sum if there are few columns"
    ),
]
Store = Annotated[Path | None, options.kept_as_it_goes("run")]
Resume = Annotated[Path | None, options.gone_on_with("run")]
Output = Annotated[Path | None, options.written_too("all edges")]
Graph = Annotated[str, said("The graph of that network: consensus or most_probable.", True)]


_WHEN_TO_STOP = ("r_hat", "mcse", "ess", "max_draws", "max_seconds")
_AT_THE_START = (
    "sampler", "chains", "warmup", "thin", "seed", "max_parents", "family", "score", "equivalent_sample_size",
    "prior_scale", "prior", "edge_log_odds", "required", "forbidden", "tier", "indicator", "hidden",
    "interventions", "imperfect", "uncertain_targets", "time", "unit", "lags", "step", "gaps", "exact",
)  # fmt: skip


def learn(
    context: typer.Context,
    data: Data = None,
    sampler: Sampler = "auto",
    chains: Chains = 4,
    draws: Draws = None,
    warmup: options.Warmup = None,
    thin: Thin = None,
    mcse: Mcse = 0.01,
    r_hat: RHat = 1.01,
    ess: Ess = 400.0,
    max_draws: options.MaxDraws = None,
    max_seconds: options.MaxSeconds = None,
    seed: options.Seed = None,
    workers: options.Workers = None,
    max_parents: MaxParents = None,
    family: Family = None,
    score: Score = None,
    equivalent_sample_size: EquivalentSampleSize = 1.0,
    prior_scale: PriorScale = None,
    prior: Prior = "sparse",
    edge_log_odds: EdgeLogOdds = None,
    required: Required = None,
    forbidden: Forbidden = None,
    tier: Tier = None,
    indicator: Indicator = None,
    hidden: Hidden = None,
    interventions: Interventions = None,
    imperfect: Imperfect = None,
    uncertain_targets: Uncertain = False,
    time: Time = None,
    unit: Unit = None,
    lags: Lags = None,
    step: Step = None,
    gaps: Gaps = None,
    forecast: Forecast = None,
    query: Query = None,
    given: Given = None,
    do: Do = None,
    slopes: Slopes = False,
    effect: Effect = None,
    exact: Exact = None,
    columns: options.Columns = None,
    bins: options.Bins = None,
    missing: options.Missing = None,
    drop: options.Drop = None,
    numbers: options.Numbers = None,
    categories: options.Categories = None,
    counts: options.Counts = None,
    transform: options.Transform = None,
    store: Store = None,
    resume: Resume = None,
    watch: options.Watch = False,
    watch_port: options.WatchPort = None,
    output: Output = None,
    network: ToHandOn = None,
    graph: Graph = "consensus",
    report: options.Report = None,
) -> None:
    """Learn which columns of a table depend on which: the posterior over graphs, with errors."""
    from doxa.structure.runs.options import LearnOptions

    kept = resume if resume is not None else store
    chosen = typed(context)
    _check_words(chosen, data)
    _check_files(data, kept, output, report)
    check_network(network, (data, kept))
    if graph not in ("consensus", "most_probable"):
        refuse("--graph", f"{graph!r} must be consensus or most_probable")
    if forecast is not None and (forecast < 1 or (time is None and resume is None)):
        refuse("--forecast", f"{forecast} moments ahead need a number from 1 on, and --time, the column of times")
    goal = doxa.Until(r_hat=r_hat, mcse=mcse, ess=ess, max_draws=max_draws, max_seconds=max_seconds)
    until = goal if chosen.intersection(_WHEN_TO_STOP) else None
    questions = Questions.parse(query, given, do)
    effects = [] if effect == ["all"] else parse_edges("--effect", effect)
    read = options.reading(
        columns=columns, missing=missing, bins=bins, drop=drop, numbers=numbers, categories=categories, counts=counts,
        transform=transform,
    )  # fmt: skip
    with interruptible("learn", kept), watching(watch, watch_port, kept):
        if resume is not None:
            posterior = _go_on(resume, data, read, draws=draws, until=until, workers=workers)
        else:
            asked = LearnOptions(
                family=parse_family(family),
                score=score,
                equivalent_sample_size=equivalent_sample_size,
                prior_scale=prior_scale,
                prior=prior,
                **_knowledge(edge_log_odds, max_parents, required, forbidden, tier),
                indicator=indicator or (),
                hidden=parse_states(hidden, "NAME=STATES, as in cause=2"),
                interventions=interventions,
                imperfect=True if imperfect == ["all"] else tuple(imperfect or ()),
                uncertain_targets=uncertain_targets,
                time=time,
                unit=unit,
                lags=lags,
                step=_step(step),
                gaps=gaps,
                sampler=sampler,
                exact=exact,
                chains=chains,
                draws=draws,
                warmup=warmup,
                thin=thin,
                until=until,
                seed=seed,
            )
            posterior = _begin(data, read, asked, store, workers, partial(_check_questions, questions, effects, asked))
    show_graphs(posterior)
    if slopes:
        show_slopes(posterior)
    if effect:
        show_effects(posterior, effects)
    if forecast is not None:
        show_forecast(posterior, forecast)
    questions.answer(posterior)
    if output is not None:
        write_edges(posterior, output)
    if network is not None:
        write_network(posterior.network(graph), network)
    if report is not None:
        doxa.report(posterior, report)
        print()
        tell(report)


def _check_files(data: Path | None, kept: Path | None, output: Path | None, report: Path | None) -> None:
    """Before hours of sampling, not after."""
    from doxa.output import check_output
    from doxa.report.document import libraries

    if report is not None:
        libraries()  # that a page is drawn with
    check_output(output, data, kept)
    check_page(report, data, kept)


def _check_words(given: set[str], data: Path | None) -> None:
    """Raise unless a run is begun or gone on with, and one thing says when it ends."""
    check_going_on(given, "run", _AT_THE_START if data is not None else _AT_THE_START + HOW_TO_READ)
    if "graph" in given and "network" not in given:
        refuse("--graph", "it is the graph of the network that --network FILE writes; give that, too")
    if "resume" not in given and data is None:
        refuse("DATA", "name the file with the table, or give --resume RUN")
    check_end(given, _WHEN_TO_STOP)


def _step(step: str | None) -> float | str | None:
    """A number, where it is written as one."""
    try:
        return None if step is None else float(step)
    except ValueError:
        return step


def _knowledge(
    edge_log_odds: list[str] | None,
    max_parents: list[str] | None,
    required: list[str] | None,
    forbidden: list[str] | None,
    tier: list[str] | None,
) -> dict[str, Any]:
    """What is known of the graphs beforehand, read from its words."""
    return {
        "edge_log_odds": parse_log_odds("--edge-log-odds", edge_log_odds),
        "max_parents": parse_numbers("--max-parents", max_parents),
        "required": parse_edges("--required", required),
        "forbidden": parse_edges("--forbidden", forbidden),
        "tiers": None if tier is None else [parse_names("--tier", names) for names in tier],
    }


def _check_questions(
    questions: Questions, effects: list[tuple[str, str]], asked: LearnOptions, cases: Table | OutOfCoreSource
) -> None:
    """Before hours of sampling, not after."""
    from doxa.data.options import near

    if not isinstance(cases, doxa.Table) or not (questions.targets or effects):
        return
    table = asked.declared(cases)
    questions.check(table)
    for pair in effects:
        for name in pair:
            if name not in table.names:
                raise ArgumentError(f"--effect names {name!r}, which is not a column{near(name, table.names)}")


def _begin(
    data: Any,
    read: dict[str, Any],
    asked: LearnOptions,
    store: Path | None,
    workers: int | None,
    check: Callable[[Table | OutOfCoreSource], None],
) -> Posterior:
    """Learn from a file; ``read`` says how it is read."""
    from doxa.structure.learn import learn_from, opened

    with opened(data, store, asked.hidden or (), keys=asked.keys, **read) as cases:
        check(cases)
        return learn_from(cases, {"source": str(data.absolute()), **read}, asked, store, workers, None)


def _go_on(run: Path, data: Path | None, read: dict[str, Any], **asked: Any) -> Posterior:
    """Go on with a run, with its table if that is named."""
    from doxa.data.read import read_without_empty
    from doxa.structure.cases.out_of_core import stored_options
    from doxa.structure.learn import resume

    check_kind(run, "structure")
    if data is None:
        return resume(run, None, **asked)
    return resume(run, read_without_empty(data, (), stored_options(run).keys, **read), **asked)

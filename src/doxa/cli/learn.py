"""`doxa learn`: the posterior over graphs of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import doxa
from doxa.cli import learn_options as own
from doxa.cli import options
from doxa.cli.app import check_kind, interruptible
from doxa.cli.options import HOW_TO_READ, check_end, check_going_on, refuse, typed
from doxa.cli.questions import Questions
from doxa.cli.show import show_graphs, write_edges
from doxa.cli.watch import watching
from doxa.cli.words import parse_edges, parse_log_odds, parse_names, parse_numbers

if TYPE_CHECKING:
    from doxa.structure.averaging.posterior import Posterior
    from doxa.structure.runs.options import LearnOptions

__all__ = ["learn"]


_WHEN_TO_STOP = ("r_hat", "mcse", "ess", "max_draws", "max_seconds")
_AT_THE_START = (
    "sampler", "chains", "warmup", "thin", "seed", "max_parents", "family", "score", "equivalent_sample_size",
    "prior_scale", "prior", "edge_log_odds", "required", "forbidden", "tier", "indicator", "hidden", "exact",
)  # fmt: skip


def learn(
    context: typer.Context,
    data: own.Data = None,
    sampler: own.Sampler = "auto",
    chains: own.Chains = 4,
    draws: own.Draws = None,
    warmup: options.Warmup = None,
    thin: own.Thin = None,
    mcse: own.Mcse = 0.01,
    r_hat: own.RHat = 1.01,
    ess: own.Ess = 400.0,
    max_draws: options.MaxDraws = None,
    max_seconds: options.MaxSeconds = None,
    seed: options.Seed = None,
    workers: options.Workers = None,
    max_parents: own.MaxParents = None,
    family: own.Family = "categorical",
    score: own.Score = "bdeu",
    equivalent_sample_size: own.EquivalentSampleSize = 1.0,
    prior_scale: own.PriorScale = None,
    prior: own.Prior = "sparse",
    edge_log_odds: own.EdgeLogOdds = None,
    required: own.Required = None,
    forbidden: own.Forbidden = None,
    tier: own.Tier = None,
    indicator: own.Indicator = None,
    hidden: own.Hidden = None,
    query: own.Query = None,
    given: own.Given = None,
    do: own.Do = None,
    exact: own.Exact = None,
    columns: options.Columns = None,
    bins: options.Bins = None,
    missing: options.Missing = None,
    store: own.Store = None,
    resume: own.Resume = None,
    watch: options.Watch = False,
    watch_port: options.WatchPort = None,
    output: own.Output = None,
) -> None:
    """Learn which columns of a table depend on which: the posterior over graphs, with errors."""
    from doxa.structure.runs.options import LearnOptions, check_family

    kept = resume if resume is not None else store
    chosen = typed(context)
    _check_words(chosen, data)
    _check_files(data, kept, output)
    goal = doxa.Until(r_hat=r_hat, mcse=mcse, ess=ess, max_draws=max_draws, max_seconds=max_seconds)
    until = goal if chosen.intersection(_WHEN_TO_STOP) else None
    questions = Questions.parse(query, given, do)
    read: dict[str, Any] = {"columns": columns, "missing": missing, "bins": parse_numbers("--bins", bins)}
    with interruptible("learn", kept), watching(watch, watch_port, kept):
        if resume is not None:
            posterior = _go_on(resume, data, read, draws=draws, until=until, workers=workers)
        else:
            asked = LearnOptions(
                score=check_family(family, score, equivalent_sample_size, prior_scale),
                prior=prior,
                **_knowledge(edge_log_odds, max_parents, required, forbidden, tier),
                indicator=indicator or (),
                hidden=_states(hidden),
                sampler=sampler,
                exact=exact,
                chains=chains,
                draws=draws,
                warmup=warmup,
                thin=thin,
                until=until,
                seed=seed,
            )
            posterior = _begin(data, read, asked, store, workers)
    show_graphs(posterior)
    questions.answer(posterior)
    if output is not None:
        write_edges(posterior, output)


def _check_files(data: Path | None, kept: Path | None, output: Path | None) -> None:
    """Before hours of sampling, not after."""
    from doxa.output import check_output

    if output is not None:
        for needed in (data, kept):
            check_output(output, needed)


def _check_words(given: set[str], data: Path | None) -> None:
    """Raise unless a run is begun or gone on with, and one thing says when it ends."""
    check_going_on(given, "run", _AT_THE_START if data is not None else _AT_THE_START + HOW_TO_READ)
    if "resume" not in given and data is None:
        refuse("DATA", "name the file with the table, or give --resume RUN")
    check_end(given, _WHEN_TO_STOP)


def _states(hidden: list[str] | None) -> Any:
    """Numbers of states of hidden columns."""
    states = parse_numbers("--hidden", hidden)
    if isinstance(states, int):
        raise typer.BadParameter(f"{str(states)!r} should be NAME=STATES, as in cause=2", param_hint="--hidden")
    return states


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


def _begin(data: Any, read: dict[str, Any], asked: LearnOptions, store: Path | None, workers: int | None) -> Posterior:
    """Learn from a file; ``read`` says how it is read."""
    from doxa.structure.learn import learn_from, opened

    with opened(data, store, asked.hidden or (), **read) as cases:
        return learn_from(cases, {"source": str(data.absolute()), **read}, asked, store, workers, None)


def _go_on(run: Path, data: Path | None, read: dict[str, Any], **asked: Any) -> Posterior:
    """Go on with a run, with its table if that is named."""
    from doxa.structure.learn import resume

    check_kind(run, "structure")
    return resume(run, None if data is None else doxa.read_table(data, **read), **asked)

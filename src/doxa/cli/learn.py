"""`doxa learn`: the posterior over graphs of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import doxa
from doxa.cli.app import check_kind, interruptible
from doxa.cli.graphs import show_graphs, write_edges
from doxa.cli.questions import Questions
from doxa.words import parse_edges, parse_log_odds, parse_names, parse_numbers

__all__ = ["learn"]


def learn(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="A CSV or Parquet file: a header, then one case a row.", metavar="DATA", show_default=False
        ),
    ] = None,
    sampler: Annotated[
        str,
        typer.Option(
            help="How to move between graphs: auto, single_edge, edge_gibbs, emc3, markov_blanket, parent_set_gibbs, "
            "edge_reversal or tempered."
        ),
    ] = "auto",
    chains: Annotated[int, typer.Option(help="Independent chains, started far apart.")] = 4,
    draws: Annotated[
        int | None, typer.Option(help="Graphs kept from each chain.", show_default="until accurate enough")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(help="Draws discarded first.", show_default="half of --draws, or until the chains agree"),
    ] = None,
    thin: Annotated[
        int | None, typer.Option(help="Steps between two draws.", show_default="n(n-1) for n columns, at least 200")
    ] = None,
    mcse: Annotated[float, typer.Option(help="Stop when no probability has a larger Monte Carlo error.")] = 0.01,
    r_hat: Annotated[float, typer.Option(help="Stop when the chains agree to this R-hat.")] = 1.01,
    ess: Annotated[float, typer.Option(help="Stop when there are so many effective draws.")] = 400.0,
    max_draws: Annotated[
        int | None, typer.Option(help="Stop after so many draws of each chain all the same.", show_default="100000")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="Stop after so many seconds all the same.", show_default="none")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same draws.", show_default="fresh")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Chains that run at the same time.", show_default="one for each core")
    ] = None,
    max_parents: Annotated[
        list[str] | None,
        typer.Option(
            help="Largest number of parents: 3, or heart=2 for one column (repeat for more).", show_default="any number"
        ),
    ] = None,
    family: Annotated[
        str, typer.Option(help="How a node depends on its parents: categorical (a table), logistic, or auto (both).")
    ] = "categorical",
    score: Annotated[str, typer.Option(help="Of tables: bdeu, k2 or bic.")] = "bdeu",
    equivalent_sample_size: Annotated[float, typer.Option(help="Weight of the BDeu prior, in cases.")] = 1.0,
    prior_scale: Annotated[
        float | None, typer.Option(help="Standard deviation of logistic coefficients a priori.", show_default="2")
    ] = None,
    prior: Annotated[str, typer.Option(help="uniform over graphs, or over the in_degree of each node.")] = "uniform",
    edge_log_odds: Annotated[
        list[str] | None,
        typer.Option(
            help="Added to the log prior for each edge: -2, or smokes,heart=1.5 for one edge (repeat for more).",
            show_default=False,
        ),
    ] = None,
    required: Annotated[
        list[str] | None,
        typer.Option(help="An edge that every graph has: smokes,heart (repeat for more).", show_default=False),
    ] = None,
    forbidden: Annotated[
        list[str] | None,
        typer.Option(help="An edge that no graph has: heart,age (repeat for more).", show_default=False),
    ] = None,
    tier: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of one time, age,sex; repeat in the order of time. No edge leads to an earlier tier.",
            show_default=False,
        ),
    ] = None,
    indicator: Annotated[
        list[str] | None,
        typer.Option(
            help="A column that matters by its absence, too (repeat for more): adds a column for that.",
            show_default=False,
        ),
    ] = None,
    hidden: Annotated[
        list[str] | None,
        typer.Option(
            help="A column that nobody observed and its states: cause=2 (repeat for more).", show_default=False
        ),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            help="How probable is party=republican, or each state of party (repeat for more), averaged over networks?",
            show_default=False,
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(help="Among cases where crime=y was seen (repeat for more).", show_default=False),
    ] = None,
    do: Annotated[
        list[str] | None,
        typer.Option(help="Where crime=y was set by intervention (repeat for more).", show_default=False),
    ] = None,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--sample", help="Sum over all graphs, or sample them.", show_default="sum if there are few columns"
        ),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="Use this column (repeat for more); all when left out.", show_default=False)
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(
            help="Cut numeric columns into so many quantile bins: 4, or age=4 for one column (repeat for more).",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="A text that marks a missing cell (repeat for more), instead of NA, NaN, null, ? and the empty cell.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Keep the run in this new file as it goes: safe against crashes.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with the run in this file, as it was started; only --draws and the accuracy may change.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write all edges to this file, too: .csv, .json or .parquet.", show_default=False),
    ] = None,
) -> None:
    """Learn which columns of a table depend on which: the posterior over graphs, with errors."""
    from doxa.averaging.learn import learn_from, opened
    from doxa.averaging.learn import resume as go_on
    from doxa.output import check_output
    from doxa.structure.counted import beside
    from doxa.structure.options import check_family

    kept = resume if resume is not None else store
    if output is not None:  # before hours of sampling, not after
        for needed in (data, kept):
            check_output(output, needed)
    questions = Questions.parse(query, given, do)
    read: dict[str, Any] = {"columns": columns, "missing": missing, "bins": parse_numbers("--bins", bins)}
    with interruptible("learn", kept):
        if resume is not None:
            if store is not None:
                raise typer.BadParameter(
                    "--resume goes on with a run and --store begins one; give one of them", param_hint="--store"
                )
            check_kind(resume, "structure")
            asked = (r_hat, mcse, ess, max_draws, max_seconds)
            until = None if asked == (1.01, 0.01, 400.0, None, None) else doxa.Until(*asked)
            table = None if data is None else doxa.read_table(data, **read)
            posterior = go_on(resume, table, draws=draws, until=until, workers=workers)
        else:
            if data is None:
                raise typer.BadParameter("name the file with the table, or give --resume RUN", param_hint="DATA")
            states = parse_numbers("--hidden", hidden)
            if isinstance(states, int):
                raise typer.BadParameter(f"{str(states)!r} should be NAME=STATES, as in cause=2", param_hint="--hidden")
            accuracy = (mcse, r_hat, ess, max_draws, max_seconds) != (0.01, 1.01, 400.0, None, None)
            with opened(data, None if store is None else beside(store), states or (), **read) as cases:
                posterior = learn_from(
                    cases,
                    {"source": str(data.absolute()), **read},
                    score=check_family(family, score, equivalent_sample_size, prior_scale),
                    prior=prior,
                    edge_log_odds=parse_log_odds("--edge-log-odds", edge_log_odds),
                    max_parents=parse_numbers("--max-parents", max_parents),
                    required=parse_edges("--required", required),
                    forbidden=parse_edges("--forbidden", forbidden),
                    tiers=None if tier is None else [parse_names("--tier", names) for names in tier],
                    indicator=indicator or (),
                    hidden=states,
                    sampler=sampler,
                    exact=exact,
                    chains=chains,
                    draws=draws,
                    warmup=warmup,
                    thin=thin,
                    until=doxa.Until(r_hat, mcse, ess, max_draws, max_seconds) if accuracy and draws is None else None,
                    seed=seed,
                    store=store,
                    workers=workers,
                    progress=None,
                )
    show_graphs(posterior)
    questions.answer(posterior)
    if output is not None:
        write_edges(posterior, output)

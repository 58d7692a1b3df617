"""`doxa fit`: the posterior of the parameters of a graph."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

import doxa
from doxa.cli.app import check_kind, interruptible
from doxa.cli.fit_checks import (
    WHEN_TO_STOP,
    check_files,
    check_same_graph,
    check_words,
    read_rows,
    say_what_is_hidden,
)
from doxa.cli.node_words import parse_node_values, parse_value
from doxa.cli.parameters import show_parameters, write_summary
from doxa.text import printable
from doxa.words import parse_numbers

__all__ = ["fit"]


def fit(
    context: typer.Context,
    graph: Annotated[
        Path | None,
        typer.Argument(
            help="The graph: lines 'child: parent parent', the structure of a .bif file, or edges as .csv.",
            metavar="GRAPH",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="A CSV or Parquet file: a header, then one case a row. Nodes without a column are hidden.",
            metavar="DATA",
            show_default=False,
        ),
    ] = None,
    prior_scale: Annotated[
        list[str] | None,
        typer.Option(
            help="Standard deviation of the normal prior of the coefficients: 2.5, or heart=2.5 for one node (repeat "
            "for more).",
            show_default="10",
        ),
    ] = None,
    prior_mean: Annotated[
        list[str] | None,
        typer.Option(
            help="Mean of that prior: 1, or heart=1 for one node (repeat for more).",
            show_default="0",
        ),
    ] = None,
    coding: Annotated[str, typer.Option(help="Parents count as -1 and +1 (pm1), or as 0 and 1 (01).")] = "pm1",
    bias: Annotated[
        list[str] | None,
        typer.Option(
            help="learned, or fixed at a number: 0.5, or heart=0.5 for one node (repeat for more).",
            show_default="learned",
        ),
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option(
            help="Probability that a node without parents is 1: smokes=0.3 (repeat for more).", show_default="learned"
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="How to draw: auto, independence, flip, split_hmc, hmc, block, mixture, random_walk, tempered, "
            "regeneration, augmentation, or variational for the approximation itself."
        ),
    ] = "auto",
    approximation: Annotated[
        str | None,
        typer.Option(
            help="What steps are proposed from: optimal, laplace, jaakkola_jordan, sequential or "
            "spiegelhalter_lauritzen; where values are hidden unconstrained, structured or mean_field.",
            show_default="optimal",
        ),
    ] = None,
    chains: Annotated[int, typer.Option(help="Independent chains, or groups of them.")] = 4,
    draws: Annotated[
        int | None, typer.Option(help="Draws kept from each chain.", show_default="until accurate enough")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(help="Draws discarded first.", show_default="half of --draws, or until the chains agree"),
    ] = None,
    r_hat: Annotated[float, typer.Option(help="Stop when the chains agree to this R-hat in every coefficient.")] = 1.01,
    ess: Annotated[float, typer.Option(help="Stop when every coefficient has so many effective draws.")] = 400.0,
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
    columns: Annotated[
        list[str] | None, typer.Option(help="Use this column (repeat for more); all when left out.", show_default=False)
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(
            help="Cut numeric columns into quantile bins: 2, or age=2 for one column (repeat for more).",
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
        typer.Option(help="Keep the fit in this new file as it goes: safe against crashes.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with the fit in this file, as it was started; only --draws and the accuracy may change. GRAPH "
            "and DATA may be left out.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the summary to this file, too: .csv, .json or .parquet.", show_default=False),
    ] = None,
    predict: Annotated[
        Path | None,
        typer.Option(
            help="Rows whose missing cells are to be predicted: a CSV or Parquet file. Nodes without a column are "
            "missing in every row.",
            show_default=False,
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Write the probability of 1 of each of those cells to this file: .csv, .json or .parquet.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Fit the parameters of a graph of binary nodes: their posterior given a table, with errors."""
    from doxa.estimates.store import create_run
    from doxa.models.graph_files import read_parents
    from doxa.output import write_frame
    from doxa.parameters.fit import make_plan, run_plan
    from doxa.parameters.predict import recode
    from doxa.parameters.runs import go_on

    given = _given(context)
    if resume is not None and data is None:
        graph, data = None, graph  # the only name is the table's
    kept = resume if resume is not None else store
    check_words(given, graph, data)
    check_files({"--output": output, "--predictions": predictions}, (graph, data, predict, kept))
    until = doxa.Until(r_hat=r_hat, ess=ess, max_draws=max_draws, max_seconds=max_seconds)
    wanted = until if given.intersection(WHEN_TO_STOP) else None
    read: dict[str, Any] = {"columns": columns, "missing": missing, "bins": parse_numbers("--bins", bins)}
    with interruptible("fit", kept):
        rows = None if predict is None else read_rows(predict, missing)
        if resume is not None:
            check_kind(resume, "parameters")
            if graph is not None:
                check_same_graph(resume, graph)
            plan, writer = go_on(resume, None if data is None else doxa.read_table(data, **read), draws, wanted)
            with writer:
                posterior = run_plan(plan, lambda: nullcontext(writer), workers, None)
        else:
            assert graph is not None
            assert data is not None
            network = doxa.LogisticNetwork(
                read_parents(graph),
                prior_mean=_for_nodes("--prior-mean", prior_mean, 0.0),
                prior_scale=_for_nodes("--prior-scale", prior_scale, 10.0),
                bias=_for_nodes("--bias", bias, "learned", learned=True),
                roots=None if root is None else parse_node_values("--root", root),
                coding=coding,  # type: ignore[arg-type]  # it is checked there
            )
            table = doxa.read_table(data, **read)
            say_what_is_hidden(network, table)
            plan = make_plan(
                network,
                table,
                {"source": str(data.absolute()), **read},
                method=method,
                approximation=approximation,
                chains=chains,
                draws=draws,
                warmup=warmup,
                until=wanted,
                seed=seed,
            )
            if rows is not None:
                recode(rows, plan.network, plan.states)  # what it refuses, before the fit
            posterior = run_plan(
                plan, None if store is None else lambda: create_run(store, plan.header()), workers, None
            )
        predicted = None if rows is None else posterior.predict(rows)
        show_parameters(posterior)
    if output is not None:
        write_summary(posterior, output)
    if predictions is not None and predicted is not None:
        write_frame(predicted, predictions)
        n_cells = f"{len(predicted)} missing {'cell' if len(predicted) == 1 else 'cells'}"
        print(f"\nPredictions of {n_cells} are in {printable(str(predictions))}.")


def _given(context: typer.Context) -> set[str]:
    """Names of the options that were typed."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}


def _for_nodes(option: str, words: list[str] | None, default: float | str, learned: bool = False) -> Any:
    """One value for all nodes, or a mapping."""
    if not words:
        return default
    if len(words) == 1 and "=" not in words[0]:
        return parse_value(option, words[0], learned)
    return parse_node_values(option, words, learned)

"""`doxa fit`: the posterior of the parameters of a graph.

Options that give numbers to nodes: ``10``, or ``heart=0.5`` for one node and ``age=learned`` for another.  The last
equals sign counts, so that names may hold others.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import doxa
from doxa.cli import options
from doxa.cli.app import check_kind, interruptible
from doxa.cli.networks import ToHandOn, check_network, write_network
from doxa.cli.options import HOW_TO_READ, Words, check_end, check_going_on, said, typed
from doxa.cli.report import watching
from doxa.cli.show import show_fit, write_summary
from doxa.cli.words import parse_states, parsed, refuse
from doxa.errors import ArgumentError, TableError
from doxa.text import counted, printable

if TYPE_CHECKING:
    import pandas as pd

    from doxa.data import Table
    from doxa.models import LogisticNetwork

Graph = Annotated[
    Path | None,
    typer.Argument(
        help="The graph: lines 'child: parent parent', the structure of a .bif file, or edges as .csv.",
        metavar="GRAPH",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Argument(
        help="A CSV or Parquet file: a header, then one case a row. Nodes without a column are hidden.",
        metavar="DATA",
        show_default=False,
    ),
]
PriorScale = Annotated[
    Words,
    said(
        "Standard deviation of the normal prior of the coefficients: 2.5, or heart=2.5 for one node (repeat for "
        "more); or learned, for one that is learned from all coefficients of parents.",
        "10",
    ),
]
PriorMean = Annotated[Words, said("Mean of that prior: 1, or heart=1 for one node (repeat for more).", "0")]
Coding = Annotated[str, said("Parents count as -1 and +1 (pm1), or as 0 and 1 (01).", True)]
Bias = Annotated[
    Words, said("learned, or fixed at a number: 0.5, or heart=0.5 for one node (repeat for more).", "learned")
]
Root = Annotated[Words, said("Probability that a node without parents is 1: smokes=0.3 (repeat for more).", "learned")]
Method = Annotated[
    str,
    said(
        "How to draw: auto, independence, flip, split_hmc, hmc, block, mixture, random_walk, tempered, "
        "regeneration, resampling, augmentation, or variational for the approximation itself.",
        True,
    ),
]
Approximation = Annotated[
    str | None,
    said(
        "What steps are proposed from: optimal, laplace, jaakkola_jordan, sequential or spiegelhalter_lauritzen; "
        "where values are hidden unconstrained, structured or mean_field, or in one pass "
        "sequential_unconstrained, sequential_structured or sequential_mean_field.",
        "optimal",
    ),
]
Order = Annotated[
    str,
    said("Of the cases, where the approximation takes one after another: auto, table (as they stand) or random.", True),
]
Family = Annotated[
    str | None,
    said(
        "How a node depends on its parents: logistic, for columns of two states, or categorical, by a table; with "
        "columns of numbers gaussian, conditional_gaussian, additive or auto.",
        "logistic if no column has more than two states or holds numbers",
    ),
]
EquivalentSampleSize = Annotated[float, said("Of tables: weight of the BDeu prior, in cases.", True)]
Hidden = Annotated[Words, said("Of tables: states of a node without a column, cause=3 (repeat for more).", "2")]
Chains = Annotated[int, said("Independent chains, or groups of them.", True)]
Draws = Annotated[int | None, said("Draws kept from each chain.", "until accurate enough")]
Average = Annotated[
    int | None, said("Keep averages of so many draws in the place of draws; --draws and --warmup then count averages.")
]
RHat = Annotated[float, said("Stop when the chains agree to this R-hat in every coefficient.", True)]
Ess = Annotated[float, said("Stop when every coefficient has so many effective draws.", True)]
Store = Annotated[Path | None, options.kept_as_it_goes("fit")]
Resume = Annotated[Path | None, options.gone_on_with("fit", " GRAPH and DATA may be left out.")]
Output = Annotated[Path | None, options.written_too("the summary")]
Predict = Annotated[
    Path | None,
    said(
        "Rows whose missing cells are to be predicted: a CSV or Parquet file. Nodes without a column are missing "
        "in every row."
    ),
]
Predictions = Annotated[
    Path | None, said("Write the probability of 1 of each of those cells to this file: .csv, .json or .parquet.")
]

WHEN_TO_STOP = ("r_hat", "ess", "max_draws", "max_seconds")
_AT_THE_START = (
    "prior_scale", "prior_mean", "coding", "bias", "root", "method", "approximation", "order", "chains", "warmup",
    "seed", "average", "family", "equivalent_sample_size", "hidden",
)  # fmt: skip
_OF_LOGISTIC = (
    "prior_scale", "prior_mean", "coding", "bias", "root", "method", "approximation", "order", "average",
)  # fmt: skip
_OF_TABLES = ("equivalent_sample_size", "hidden", "network")
_HIDDEN_SAID = 5

_log = logging.getLogger("doxa")


def check_words(given: set[str], graph: Path | None, data: Path | None) -> None:
    """Raise unless the options belong together."""
    check_going_on(given, "fit", _AT_THE_START if data is not None else _AT_THE_START + HOW_TO_READ)
    if "resume" not in given:
        if graph is None:
            refuse("GRAPH", "name the files with the graph and the table, or give --resume RUN")
        if data is None:
            refuse("DATA", "name the file with the table, after that with the graph")
    if ("predict" in given) != ("predictions" in given):
        refuse("--predict", "--predict ROWS and --predictions FILE belong together; give both")
    if {"predict", "average"} <= given:
        refuse("--predict", "predictions need draws, and --average keeps none; leave one of them out")
    check_end(given, WHEN_TO_STOP)


def check_files(outputs: Mapping[str, Path | None], needed: Iterable[Path | None]) -> None:
    """Raise unless every output can be written, and is none of the files that are read or another output."""
    from doxa.output import check_output, is_same_file

    taken = [path for path in needed if path is not None]
    for option, path in outputs.items():
        check_output(path)
        if path is not None:
            for other in taken:
                if path.absolute() == other.absolute() or is_same_file(path, other):
                    refuse(option, f"'{path}' is read or written by this command already; give it another name")
            taken.append(path)


def read_rows(path: Path, missing: list[str] | None) -> Table:
    """Read the rows that are to be predicted."""
    try:
        return doxa.read_table(path, missing=missing)
    except TableError as error:
        raise TableError(
            f"--predict: {error}. Of these rows, leave out of the file what has no use: nodes without a column are "
            "predicted in every row"
        ) from error


def check_same_graph(run: Path, graph: Path) -> None:
    """Raise unless a graph is that of a run."""
    from doxa.models.graph_files import read_parents
    from doxa.run_files import parents_of_run

    parents, known = read_parents(graph), parents_of_run(run)
    for node in dict.fromkeys((*known, *parents)):
        if node not in known or sorted(known[node]) != sorted(parents.get(node, ())):
            raise ArgumentError(
                f"graph '{graph}' is not that of the fit in '{run}': they differ at {node!r}; leave GRAPH out to go on "
                "with that fit, or begin another one with --store"
            )


def say_what_is_hidden(network: LogisticNetwork, table: Table, columns: Iterable[str]) -> None:
    """A misspelt node would be a hidden one: say which are."""
    hidden = [node for node in network.names if node not in table.names]
    if len(hidden) == len(network.names):
        return  # refused in a moment
    unused = [name for name in columns if name not in network.names]
    for node in hidden[:_HIDDEN_SAID]:
        near = difflib.get_close_matches(node, unused, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        _log.warning("%s", printable(f"{node!r} is no column of the table, so it is a hidden node{hint}"))
    if len(hidden) > _HIDDEN_SAID:
        _log.warning("%d more nodes are no columns, and hidden", len(hidden) - _HIDDEN_SAID)


def parse_value(option: str, word: str, learned: bool = False) -> float | str:
    """``"0.5"`` to a number; ``"learned"`` as it is, where it may stand."""
    if learned and word == "learned":
        return word
    rule = "'learned', a number" if learned else "a number"
    return parsed(float, word, option, f"{word!r} should be {rule}, or NODE=NUMBER, as in {option} heart=0.5")


def parse_node_values(option: str, words: list[str], learned: bool = False) -> dict[str, float | str]:
    """``["heart=0.5", "age=learned"]`` to a mapping."""
    found: dict[str, float | str] = {}
    for word in words:
        node, equals, value = word.rpartition("=")
        if not equals or not node:
            refuse(option, f"{word!r} should be NODE=NUMBER, as in {option} heart=0.5")
        if node in found:
            refuse(option, f"node {node!r} is given twice")
        found[node] = parse_value(option, value, learned)
    return found


def fit(
    context: typer.Context,
    graph: Graph = None,
    data: Data = None,
    prior_scale: PriorScale = None,
    prior_mean: PriorMean = None,
    coding: Coding = "pm1",
    bias: Bias = None,
    root: Root = None,
    family: Family = None,
    equivalent_sample_size: EquivalentSampleSize = 1.0,
    hidden: Hidden = None,
    method: Method = "auto",
    approximation: Approximation = None,
    order: Order = "auto",
    chains: Chains = 4,
    draws: Draws = None,
    average: Average = None,
    warmup: options.Warmup = None,
    r_hat: RHat = 1.01,
    ess: Ess = 400.0,
    max_draws: options.MaxDraws = None,
    max_seconds: options.MaxSeconds = None,
    seed: options.Seed = None,
    workers: options.Workers = None,
    columns: options.Columns = None,
    bins: options.Bins = None,
    missing: options.Missing = None,
    drop: options.Drop = None,
    categories: options.Categories = None,
    counts: options.Counts = None,
    store: Store = None,
    resume: Resume = None,
    watch: options.Watch = False,
    watch_port: options.WatchPort = None,
    output: Output = None,
    predict: Predict = None,
    predictions: Predictions = None,
    network: ToHandOn = None,
) -> None:
    """Fit the parameters of a graph, coefficients or tables: their posterior given a table, with errors."""
    from doxa.parameters.fit import make_plan, run_plan
    from doxa.parameters.keeping import Averages
    from doxa.parameters.options import FitOptions
    from doxa.parameters.posterior import recode
    from doxa.run_files import FAMILIES
    from doxa.structure.averaging.given_graph import TablePosterior, fit_tables
    from doxa.structure.runs.options import LearnOptions

    given = typed(context)
    if resume is not None and data is None:
        graph, data = None, graph  # the only name is the table's
    kept = resume if resume is not None else store
    check_words(given, graph, data)
    check_files({"--output": output, "--predictions": predictions}, (graph, data, predict, kept))
    check_network(network, (graph, data, predict, kept))
    if family is not None and family not in FAMILIES:
        refuse("--family", f"{family!r} must be one of {', '.join(FAMILIES)}")
    until = doxa.Until(r_hat=r_hat, ess=ess, max_draws=max_draws, max_seconds=max_seconds)
    wanted = until if given.intersection(WHEN_TO_STOP) else None
    read = options.reading(columns=columns, missing=missing, bins=bins, drop=drop, categories=categories, counts=counts)
    with interruptible("fit", kept), watching(watch, watch_port, kept):
        rows = None if predict is None else read_rows(predict, missing)
        posterior: Any
        if resume is not None:
            posterior = _go_on(resume, graph, data, read, draws=draws, until=wanted, workers=workers)
        else:
            assert graph is not None
            assert data is not None
            fitted = _network(graph, prior_mean, prior_scale, bias, root, coding)  # for tables, its graph alone
            table = _read(fitted, data, read)
            states = parse_states(hidden, "NODE=STATES, as in cause=3")
            logistic = _is_logistic(family, table, given)
            common: dict[str, Any] = {
                "chains": chains, "draws": draws, "warmup": warmup, "until": wanted, "seed": seed,
            }  # fmt: skip
            source = {"source": str(data.absolute()), **read, "columns": list(table.names)}
            if logistic:
                asked = FitOptions(
                    method=method,
                    approximation=approximation,
                    order=order,  # type: ignore[arg-type]  # it is checked there
                    keep="draws" if average is None else Averages(average),
                    **common,
                )
                plan = make_plan(fitted, table, source, asked)
                if rows is not None:
                    recode(rows, plan.network, plan.states)  # what it refuses, before the fit
                posterior = run_plan(plan, store, workers, None)
            else:
                of_tables = LearnOptions(
                    family=family if family != "categorical" or table.is_number.any() else None,
                    equivalent_sample_size=equivalent_sample_size,
                    hidden=states,
                    **common,
                )
                posterior = fit_tables(fitted.dag, table, source, of_tables, store, workers)
        predicted = None if rows is None else posterior.predict(rows)
        show_fit(posterior)
    if output is not None:
        write_summary(posterior, output)
    if predictions is not None and predicted is not None:
        _write_predictions(predicted, predictions)
    if network is not None:
        if not isinstance(posterior, TablePosterior):
            refuse("--network", "the fit has coefficients; files of networks hold tables, as of --family categorical")
        write_network(posterior.network(), network)


def _is_logistic(family: str | None, table: Table, given: set[str]) -> bool:
    """Whether families are logistic: as asked, else if no column has more than two states; options must fit."""
    many = [name for name, labels in zip(table.names, table.states, strict=True) if len(labels) > 2]
    numbers = [name for name, one in zip(table.names, table.is_number.tolist(), strict=True) if one]
    if numbers and family is None:
        _log.warning("%s", printable(f"{numbers[0]!r} holds numbers, so regressions are fitted"))
        family = "conditional_gaussian"  # for what is asked here; the graph says which
    if family is None and not many and given.intersection(_OF_TABLES):
        family = "categorical"
    logistic = not many if family is None else family == "logistic"
    for name in _OF_TABLES if logistic else _OF_LOGISTIC:
        if name in given:
            option = f"--{name.replace('_', '-')}"
            why = "of logistic families" if not logistic else "of tables"
            more = f", and {many[0]!r} has more than two states" if family is None and many else ""
            refuse(option, f"it is an option {why}{more}; leave it out, or give the other --family")
    if family is None and many:
        _log.warning("%s", printable(f"{many[0]!r} has more than two states, so tables are fitted, not coefficients"))
    return logistic


def _network(
    graph: Path,
    prior_mean: list[str] | None,
    prior_scale: list[str] | None,
    bias: list[str] | None,
    root: list[str] | None,
    coding: str,
) -> doxa.LogisticNetwork:
    """The network of a graph, with its options in words."""
    from doxa.models.graph_files import read_parents

    return doxa.LogisticNetwork(
        read_parents(graph),
        prior_mean=_for_nodes("--prior-mean", prior_mean, 0.0),
        prior_scale=_for_nodes("--prior-scale", prior_scale, 10.0, learned=True),
        bias=_for_nodes("--bias", bias, "learned", learned=True),
        roots=None if root is None else parse_node_values("--root", root),
        coding=coding,  # type: ignore[arg-type]  # it is checked there
    )


def _write_predictions(predicted: pd.DataFrame, path: Path) -> None:
    from doxa.output import write_frame

    write_frame(predicted, path)
    print(f"\nPredictions of {counted(len(predicted), 'missing cell')} are in {printable(str(path))}.")


def _read(network: LogisticNetwork, data: Path, read: dict[str, Any]) -> Table:
    """The columns that are nodes, after a word on the nodes that the table does not have."""
    from doxa.data.options import Among
    from doxa.run_files import read_nodes

    nodes = Among(network.names)
    table = read_nodes(data, nodes, **read)
    say_what_is_hidden(network, table, nodes.seen or table.names)
    return table


def _go_on(run: Path, graph: Path | None, data: Path | None, read: dict[str, Any], **asked: Any) -> Any:
    """Go on with a fit, of the same graph if that is named, with its table if that is."""
    from doxa.estimates.store import open_reader
    from doxa.run_files import parents_of_run, read_nodes

    with open_reader(run, check=False) as reader:
        graph_given = reader.header.options.get("graph_given") is True
    if not graph_given:
        check_kind(run, "parameters")
    if graph is not None:
        check_same_graph(run, graph)
    nodes = list(parents_of_run(run))
    return doxa.resume(run, None if data is None else read_nodes(data, nodes, **read), **asked)


def _for_nodes(option: str, words: list[str] | None, default: float | str, learned: bool = False) -> Any:
    """One value for all nodes, or a mapping."""
    if not words:
        return default
    if len(words) == 1 and "=" not in words[0]:
        return parse_value(option, words[0], learned)
    return parse_node_values(option, words, learned)

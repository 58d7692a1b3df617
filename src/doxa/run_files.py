"""What is for every kind of run: `fit`, of coefficients or of tables, and `load` and `resume`, as the file says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.store import open_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.typing import IntoDataFrame

    from doxa.data import Table
    from doxa.estimates.stopping import Until
    from doxa.models import CategoricalNetwork, Dag, LogisticNetwork
    from doxa.parameters import ParameterAverages, ParameterPosterior
    from doxa.parameters.keeping import Keep
    from doxa.parameters.method_options import Method
    from doxa.parameters.variational.sequential import Order
    from doxa.structure.averaging import RegressionPosterior, TablePosterior
    from doxa.structure.averaging.posterior import Posterior
    from doxa.structure.families.kind import FamilyKind

__all__ = ["FAMILIES", "fit", "load", "parents_of_run", "read_nodes", "resume"]

FAMILIES = ("logistic", "categorical", "gaussian", "conditional_gaussian", "additive", "auto")
_OF_LOGISTIC = {"method": "auto", "approximation": None, "order": "auto", "keep": "draws"}
_OF_TABLES = {"score": None, "equivalent_sample_size": 1.0, "hidden": None}


@overload
def fit(
    network: LogisticNetwork, table: Table | IntoDataFrame | str | os.PathLike[str], **options: Any
) -> ParameterPosterior | ParameterAverages: ...
@overload
def fit(
    network: Dag | CategoricalNetwork, table: Table | IntoDataFrame | str | os.PathLike[str], **options: Any
) -> TablePosterior | RegressionPosterior: ...
def fit(  # type: ignore[misc]  # a word may ask for the other family
    network: LogisticNetwork | Dag | CategoricalNetwork,
    table: Table | IntoDataFrame | str | os.PathLike[str],
    *,
    family: str | None = None,
    score: str | FamilyKind | None = None,
    equivalent_sample_size: float = 1.0,
    hidden: Mapping[str, int] | None = None,
    method: Method = "auto",
    approximation: str | None = None,
    order: Order = "auto",
    chains: int = 4,
    draws: int | None = None,
    warmup: int | None = None,
    until: Until | None = None,
    seed: int | None = None,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    keep: Keep = "draws",
) -> ParameterPosterior | ParameterAverages | TablePosterior | RegressionPosterior:
    """The posterior of the parameters of a graph, given a table: coefficients of a logistic network, tables, or
    regressions of numbers.

    Parameters
    ----------
    network : LogisticNetwork, Dag or CategoricalNetwork
        Its graph; nodes without a column are hidden.  Of a `CategoricalNetwork` nothing but the graph is taken, and the
        numbers of states of hidden nodes.
    table : Table, data frame or path
        As `doxa.read_table` takes it.  Columns that are no nodes are not read.
    family : {"logistic", "categorical", "gaussian", "conditional_gaussian", "additive", "auto"}, optional
        Logistic regressions, for columns of two states, or tables, for columns of any number of states.  When left out,
        a `LogisticNetwork` is logistic, and a graph alone has tables.  The last four are for graphs with columns of
        numbers, as in `doxa.learn`; when left out, regressions and tables, and ``"auto"`` where an edge leads from a
        number to a category.
    score : str or score, optional
        Of tables, their prior: ``"bdeu"`` when left out, ``"k2"``, or such as ``K2(0.5)`` from `doxa.structure`.  Of
        numbers such as ``BGe(alpha_mu=2)``.
    equivalent_sample_size : float, default=1.0
        Of tables: weight of the BDeu prior in cases.
    hidden : mapping of str to int, optional
        Of tables: numbers of states of nodes without a column; 2 when left out.
    method, approximation, order, keep
        Of logistic families; see `doxa.parameters.fit.fit`.
    chains, draws, warmup, until, seed, store, workers, progress
        How long to sample, and where to keep the run: as in `doxa.parameters.fit.fit` and `doxa.learn`.  The tables of
        a complete table are not sampled but known.

    Returns
    -------
    ParameterPosterior, ParameterAverages, TablePosterior or RegressionPosterior
        The last but one of tables, the last where a column holds numbers.

    Raises
    ------
    TableError
        If the table cannot be read, or a node's column has more states than its family takes.
    ArgumentError, ArgumentTypeError
        If an option is out of range or of the wrong type, or belongs to the other family.

    Examples
    --------
    >>> import doxa
    >>> network = doxa.LogisticNetwork({"systol": ["smoke", "phys"]})
    >>> doxa.fit(network, doxa.datasets.load("reinis"), seed=1).method
    {'systol': 'independence', 'smoke': 'exact', 'phys': 'exact'}
    >>> graph = doxa.Dag.from_edges([("smoke", "systol"), ("phys", "systol")])
    >>> print(doxa.fit(graph, doxa.datasets.load("reinis"), seed=1).log_marginal_likelihood)
    -3826.52 (exact)
    """
    from doxa.models import CategoricalNetwork, Dag, LogisticNetwork

    if not isinstance(network, (LogisticNetwork, Dag, CategoricalNetwork)):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; it must be a LogisticNetwork, such as "
            "doxa.LogisticNetwork({'heart': ['smokes']}), or a Dag, whose tables are fitted"
        )
    if family is not None and family not in FAMILIES:
        raise ArgumentError(f"family is {family!r}; it must be one of {', '.join(map(repr, FAMILIES))}")
    is_logistic = isinstance(network, LogisticNetwork) if family is None else family == "logistic"
    given: dict[str, Any] = {
        "score": score, "equivalent_sample_size": equivalent_sample_size, "hidden": hidden, "method": method,
        "approximation": approximation, "order": order, "keep": keep,
    }  # fmt: skip
    for name, default in (_OF_TABLES if is_logistic else _OF_LOGISTIC).items():
        if given[name] != default:
            own, other = ("logistic", "categorical") if is_logistic else ("categorical", "logistic")
            raise ArgumentError(
                f"{name} is {given[name]!r}, which belongs to family={other!r}, and the family is {own}; leave it out, "
                "or give the other family"
            )
    dag = network if isinstance(network, Dag) else network.dag
    common: dict[str, Any] = {
        "chains": chains, "draws": draws, "warmup": warmup, "until": until, "seed": seed,
    }  # fmt: skip
    how: dict[str, Any] = {"store": store, "workers": workers, "progress": progress}
    if is_logistic:
        from doxa.parameters.fit import fit as fit_logistic

        if not isinstance(network, LogisticNetwork):
            network = LogisticNetwork({name: dag.parents(name) for name in dag.names})
        options = {name: given[name] for name in _OF_LOGISTIC}
        return fit_logistic(network, table, **options, **common, **how)
    from doxa.progress import following, tell
    from doxa.structure.averaging.given_graph import fit_tables
    from doxa.structure.runs.options import LearnOptions

    asked = LearnOptions(
        family=family, score=score, equivalent_sample_size=equivalent_sample_size, hidden=hidden, **common
    )
    source: dict[str, Any] | None = (
        {"source": str(Path(table).absolute())} if isinstance(table, (str, os.PathLike)) else None
    )
    with following(progress):
        tell(f"reading {table}" if source else "reading the table")
        data = read_nodes(table, dag.names, allowed=hidden or ())
        if isinstance(network, CategoricalNetwork):
            of_network = zip(network.names, network.n_states, strict=True)
            absent = {name: count for name, count in of_network if name not in data.names and count > 1}
            asked = replace(asked, hidden=absent | dict(hidden or {}))
        if source is not None:
            source |= {"columns": list(data.names)}
        return fit_tables(dag, data, source, asked, **how)  # type: ignore[return-value]  # one of both


def read_nodes(source: Any, nodes: Sequence[str], allowed: Any = (), **options: Any) -> Table:
    """The columns of a table that are nodes; ``options`` are those of `doxa.read_table`.

    Those without a value are left out, if they are ``allowed``.
    """
    from doxa.data.options import Among
    from doxa.data.read import read_without_empty

    if options.get("columns") is None:
        options["columns"] = nodes if isinstance(nodes, Among) else Among(nodes)
    return read_without_empty(source, allowed, **options)


def load(
    path: str | os.PathLike[str], table: Table | IntoDataFrame | str | os.PathLike[str] | None = None
) -> Posterior | ParameterPosterior | ParameterAverages:
    """Read the posterior of a run file, finished or not, even while it is written.

    Parameters
    ----------
    path : str or path-like
        A file that `doxa.learn` or `doxa.fit` made with ``store=...``, or in which a posterior was saved.
    table : Table, data frame or path, optional
        Of a run over graphs, the table that it was learned from, which queries and predictions need; when left out it
        is read again from where it was read then, once it is asked for.  Of a fit of parameters made with ``store=``,
        the table that it was made from: with it `ParameterPosterior.approximation` is found again, in the time that the
        search took then; nothing else of a fit of coefficients needs the table.

    Returns
    -------
    Posterior, ParameterPosterior or ParameterAverages
        Of the kind that the file holds; of a fit of tables a `TablePosterior`, which is a `Posterior`.

    Raises
    ------
    RunFileError
        If the file is no run, is damaged, or holds no draws yet.
    ArgumentError
        If the table is another, or is given for a saved fit of parameters, which does not say how it was approximated.

    Examples
    --------
    >>> import doxa, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = doxa.learn(doxa.datasets.load("reinis"), draws=100, seed=1, store=f"{folder}/run.doxa")
    ...     doxa.load(f"{folder}/run.doxa").edges().equals(made.edges())
    True
    """
    if _kind(path) == "parameters":
        from doxa.parameters.fit import load as load_fit

        return load_fit(path, table)
    from doxa.structure.learn import load as load_graphs

    return load_graphs(path, table)


def resume(
    path: str | os.PathLike[str],
    table: Table | IntoDataFrame | str | os.PathLike[str] | None = None,
    *,
    draws: int | None = None,
    until: Until | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Posterior | ParameterPosterior | ParameterAverages:
    """Go on with a run that is kept in a file: one that was interrupted, or one that is to be longer.

    Parameters
    ----------
    path : path
        The file given to ``learn(..., store=path)`` or ``fit(..., store=path)``.
    table : Table, data frame or path, optional
        The same table as before; when left out it is read again from where it was read then.
    draws : int, optional
        Draws of each chain in all; as the run was started when left out.
    until : Until, optional
        When to stop instead.
    workers, progress
        As for `learn` and `fit`.

    Returns
    -------
    Posterior, ParameterPosterior or ParameterAverages
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
    options: dict[str, Any] = {"draws": draws, "until": until, "workers": workers, "progress": progress}
    if _kind(path) == "parameters":
        from doxa.parameters.fit import resume as resume_fit

        return resume_fit(path, table, **options)
    from doxa.structure.learn import resume as resume_graphs

    return resume_graphs(path, table, **options)


def parents_of_run(path: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """The graph of the fit in a run file: every node's parents."""
    if _kind(path) == "parameters":
        from doxa.parameters.runs import checked_header

        with open_reader(path, check=False) as reader:
            network = checked_header(reader)[1].network
        return {name: network.parents(name) for name in network.names}
    from doxa.structure.cases.out_of_core import stored_options

    options = stored_options(path)
    parents: dict[str, tuple[str, ...]] = dict.fromkeys(options.names, ())
    for source, target in options.required:
        parents[target] += (source,)
    return parents


def _kind(path: str | os.PathLike[str]) -> str:
    with open_reader(path, check=False) as reader:
        return reader.header.kind

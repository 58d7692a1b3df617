"""Networks as objects of pyAgrum, pgmpy and NetworkX, and back.  The packages come with ``doxa[interop]``.

Nothing is lost on the way: names, states, the order of variables and every digit of the tables are kept, and what the
other package cannot hold is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError, MissingExtraError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.gaussian import GaussianNetwork, Regression
from doxa.models.markov import MarkovNetwork
from doxa.models.network_files.uai import linear_potential

__all__ = ["from_networkx", "from_pgmpy", "from_pyagrum", "to_networkx", "to_pgmpy", "to_pyagrum"]


def to_pyagrum(network: CategoricalNetwork | MarkovNetwork) -> Any:
    """Make a ``pyagrum.BayesNet``, or a ``pyagrum.MarkovRandomField`` of a MarkovNetwork.

    Raises
    ------
    ArgumentError
        If pyAgrum cannot hold the network: a variable of a MarkovNetwork with potentials beyond the range of numbers,
        or a constant and no other potential to multiply it into.
    MissingExtraError
        If pyAgrum is not installed.

    Notes
    -----
    A Markov random field has one factor for a set of variables: potentials over the same variables are multiplied, and
    so is a constant with the first factor.
    """
    gum = _package("pyagrum", "to_pyagrum")
    if not isinstance(network, (CategoricalNetwork, MarkovNetwork)):
        raise ArgumentTypeError(f"network is of type {type(network).__name__}; give a network of categorical variables")
    made = gum.BayesNet() if isinstance(network, CategoricalNetwork) else gum.MarkovRandomField()
    for name, labels in zip(network.names, network.states, strict=True):
        made.add(gum.LabelizedVariable(name, "", list(labels)))
    if isinstance(network, MarkovNetwork):
        merged = _merged(network)
        for k, factor in enumerate(merged.factors):
            members = [network.names[v] for v in factor.variables]
            made.addFactor(members)
            _fill(made.factor(set(members)), members, linear_potential(merged, k))
        return made
    for node, parents in enumerate(network.parents):
        for parent in parents:
            made.addArc(parent, node)
    for node, parents in enumerate(network.parents):
        family = [network.names[i] for i in (*parents, node)]
        _fill(made.cpt(node), family, network.tables[network.names[node]])
    return made


def from_pyagrum(network: Any) -> CategoricalNetwork | MarkovNetwork:
    """Make a network of a ``pyagrum.BayesNet`` or a ``pyagrum.MarkovRandomField``.

    Raises
    ------
    ArgumentError
        If its tables are no probabilities, as those of a network without tables are.
    ArgumentTypeError
        If it is neither of the two.
    MissingExtraError
        If pyAgrum is not installed.
    """
    gum = _package("pyagrum", "from_pyagrum")
    if not isinstance(network, (gum.BayesNet, gum.MarkovRandomField)):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; give a pyagrum.BayesNet or a pyagrum.MarkovRandomField"
        )
    nodes = sorted(network.nodes())
    names = {node: network.variable(node).name() for node in nodes}
    states = {names[node]: list(network.variable(node).labels()) for node in nodes}
    if isinstance(network, gum.MarkovRandomField):
        potentials = []
        for scope in network.factors():
            factor = network.factor(scope)
            with np.errstate(divide="ignore", invalid="ignore"):
                potentials.append((factor.names[::-1], np.log(np.array(factor.toarray(), dtype=np.float64))))
        return MarkovNetwork(states, potentials)
    dag = Dag.from_edges([(names[parent], names[child]) for parent, child in network.arcs()], list(states))
    tables = {}
    for node in nodes:
        table = network.cpt(node)
        axes = list(table.names)[::-1]
        order = [axes.index(name) for name in (*dag.parents(names[node]), names[node])]
        tables[names[node]] = np.array(table.toarray(), dtype=np.float64).transpose(order)
    return CategoricalNetwork(dag, tables, states)


def to_pgmpy(network: CategoricalNetwork | GaussianNetwork) -> Any:
    """Make a ``pgmpy.models.DiscreteBayesianNetwork``, or a ``LinearGaussianBayesianNetwork`` of a GaussianNetwork.

    Raises
    ------
    ArgumentError
        If a GaussianNetwork has categories, for which pgmpy has no place beside numbers.
    ArgumentTypeError
        If the network is neither of the two.
    MissingExtraError
        If pgmpy is not installed.
    """
    models, factors = _package("pgmpy.models", "to_pgmpy"), _package("pgmpy.factors", "to_pgmpy")
    if isinstance(network, GaussianNetwork):
        return _to_linear_gaussian(network, models.LinearGaussianBayesianNetwork(), factors.continuous)
    if not isinstance(network, CategoricalNetwork):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; give a CategoricalNetwork or a GaussianNetwork"
        )
    made = models.DiscreteBayesianNetwork()
    made.add_nodes_from(network.names)
    made.add_edges_from(network.dag.edges)
    for node, (name, parents) in enumerate(zip(network.names, network.parents, strict=True)):
        family = {network.names[v]: list(network.states[v]) for v in (node, *parents)}
        _, *given = family
        values = network.tables[name].reshape(-1, network.n_states[node]).T
        sizes = [network.n_states[p] for p in parents]
        made.add_cpds(factors.discrete.TabularCPD(name, len(values), values, given, sizes, state_names=family))
    return made


def from_pgmpy(network: Any) -> CategoricalNetwork | GaussianNetwork:
    """Make a network of a ``pgmpy.models.DiscreteBayesianNetwork`` or a ``LinearGaussianBayesianNetwork``.

    States that are no text become text, as 0, 1, ... do, which pgmpy calls states that have no names.

    Raises
    ------
    ArgumentError
        If a node has no table, or no line, the tables do not name the same states, or are no probabilities, or what a
        line depends on is not what the edges say.
    ArgumentTypeError
        If it is of another type, or has nodes that are not text.
    MissingExtraError
        If pgmpy is not installed.
    """
    models = _package("pgmpy.models", "from_pgmpy")
    linear = isinstance(network, models.LinearGaussianBayesianNetwork)
    if not linear and not isinstance(network, models.DiscreteBayesianNetwork):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; give a pgmpy.models.DiscreteBayesianNetwork or a "
            "pgmpy.models.LinearGaussianBayesianNetwork"
        )
    for node in network.nodes():
        if not isinstance(node, str):
            raise ArgumentTypeError(f"network has the node {node!r}; names are text: rename it by relabel_nodes")
        if network.get_cpds(node) is None:
            what = "LinearGaussianCPD" if linear else "table"
            raise ArgumentError(f"network has no {what} for the node {node!r}; give it one by add_cpds")
    if linear:
        return _from_linear_gaussian(network)
    own = {node: network.get_cpds(node).state_names[node] for node in network.nodes()}
    dag = Dag.from_edges(list(network.edges()), list(own))
    tables = {}
    for node in own:
        cpd = network.get_cpds(node)
        family = (*dag.parents(node), node)
        if set(cpd.variables) != set(family):
            raise ArgumentError(f"the table of {node!r} is over {cpd.variables}, but by its edges it is over {family}")
        table = np.asarray(cpd.values, dtype=np.float64).transpose([cpd.variables.index(name) for name in family])
        for axis, name in enumerate(family):
            if set(cpd.state_names[name]) != set(own[name]):
                raise ArgumentError(
                    f"the table of {node!r} knows {name!r} in the states {cpd.state_names[name]}, and its own table in "
                    f"{own[name]}; give both the same state_names"
                )
            table = table.take([cpd.state_names[name].index(state) for state in own[name]], axis=axis)
        tables[node] = table
    return CategoricalNetwork(dag, tables, {node: list(map(str, states)) for node, states in own.items()})


def _to_linear_gaussian(network: GaussianNetwork, made: Any, continuous: Any) -> Any:
    for name, labels in zip(network.names, network.states, strict=True):
        if labels:
            raise ArgumentError(
                f"network has the category {name!r}; pgmpy holds networks of numbers alone, or of categories alone: "
                "write JSON by doxa.write_network"
            )
    made.add_nodes_from(network.names)
    made.add_edges_from(network.dag.edges)
    for name, parents in zip(network.names, network.parents, strict=True):
        intercept, coefficients, sd = network.regressions[name]
        beta, evidence = [float(intercept), *coefficients.tolist()], [network.names[p] for p in parents]
        made.add_cpds(continuous.LinearGaussianCPD(name, beta, float(sd), evidence))
    return made


def _from_linear_gaussian(network: Any) -> GaussianNetwork:
    dag = Dag.from_edges(list(network.edges()), list(network.nodes()))
    regressions = {}
    for node in dag.names:
        cpd, parents = network.get_cpds(node), dag.parents(node)
        if sorted(map(str, cpd.evidence)) != sorted(parents):
            raise ArgumentError(
                f"the LinearGaussianCPD of {node!r} depends on {list(cpd.evidence)}, but by its edges it depends on "
                f"{list(parents)}; let both say the same"
            )
        if len(cpd.beta) != len(parents) + 1:
            raise ArgumentError(
                f"the LinearGaussianCPD of {node!r} has {len(cpd.beta)} numbers in beta; it must have "
                f"{len(parents) + 1}, the intercept first"
            )
        regressions[node] = Regression(cpd.beta[0], dict(zip(cpd.evidence, cpd.beta[1:], strict=True)), cpd.std)
    return GaussianNetwork(dag, regressions)


def to_networkx(network: CategoricalNetwork | MarkovNetwork | Dag) -> Any:
    """Make a ``networkx.DiGraph``, or a ``networkx.Graph`` of a MarkovNetwork.

    Nodes have the attributes ``states``, a tuple of labels, and in a directed network ``table``, an array with an axis
    for each parent, in the order of the graph's nodes, and the last for the node itself.  Edges of a MarkovNetwork join
    variables that share a potential; ``graph.graph["potentials"]`` lists pairs of names and log potentials.

    Raises
    ------
    MissingExtraError
        If NetworkX is not installed.

    Examples
    --------
    >>> to_networkx(Dag.from_edges([("rain", "wet")])).edges
    OutEdgeView([('rain', 'wet')])
    """
    nx = _package("networkx", "to_networkx")
    if isinstance(network, Dag):
        made = nx.DiGraph()
        made.add_nodes_from(network.names)
        made.add_edges_from(network.edges)
        return made
    if isinstance(network, CategoricalNetwork):
        made = to_networkx(network.dag)
        for name, labels in zip(network.names, network.states, strict=True):
            made.nodes[name].update(states=labels, table=network.tables[name])
        return made
    if not isinstance(network, MarkovNetwork):
        raise ArgumentTypeError(f"network is of type {type(network).__name__}; give a network or a Dag")
    made = nx.Graph()
    for name, labels in zip(network.names, network.states, strict=True):
        made.add_node(name, states=labels)
    potentials = [(tuple(network.names[v] for v in f.variables), f.log_values) for f in network.factors]
    for names, _ in potentials:
        made.add_edges_from((a, b) for i, a in enumerate(names) for b in names[i + 1 :])
    made.graph["potentials"] = potentials
    return made


def from_networkx(graph: Any) -> CategoricalNetwork | MarkovNetwork | Dag:
    """Undo `to_networkx`.

    Parameters
    ----------
    graph : networkx.Graph
        Its nodes are text.  A directed graph whose nodes have none of the attributes ``states`` and ``table`` makes a
        `Dag`.

    Raises
    ------
    ArgumentError
        If attributes are missing from some nodes, or do not make a network; a directed graph has a cycle.
    ArgumentTypeError
        If it is no graph, has several edges between two nodes, or nodes that are not text.
    MissingExtraError
        If NetworkX is not installed.
    """
    nx = _package("networkx", "from_networkx")
    if not isinstance(graph, nx.Graph) or graph.is_multigraph():
        raise ArgumentTypeError(f"graph is of type {type(graph).__name__}; give a networkx.DiGraph or networkx.Graph")
    for node in graph.nodes:
        if not isinstance(node, str):
            raise ArgumentTypeError(f"graph has the node {node!r}; names are text: networkx.relabel_nodes(graph, str)")
    if not graph.is_directed():
        if "potentials" not in graph.graph:
            raise ArgumentError("graph is not directed and has no potentials in graph.graph['potentials']; give both")
        return MarkovNetwork(_attribute(graph, "states"), graph.graph["potentials"])
    dag = Dag.from_edges(list(graph.edges), list(graph.nodes))
    if not any("states" in data or "table" in data for _, data in graph.nodes(data=True)):
        return dag
    return CategoricalNetwork(dag, _attribute(graph, "table"), _attribute(graph, "states"))


def _attribute(graph: Any, attribute: str) -> dict[str, Any]:
    for node, data in graph.nodes(data=True):
        if attribute not in data:
            raise ArgumentError(f"graph has no attribute {attribute!r} at the node {node!r}; give it at every node")
    return {node: data[attribute] for node, data in graph.nodes(data=True)}


def _merged(network: MarkovNetwork) -> MarkovNetwork:
    """The same distribution and partition function, with one potential for a set of variables."""
    merged: dict[frozenset[int], tuple[tuple[int, ...], NDArray[np.float64]]] = {}
    constant = 0.0
    for variables, log_values in network.factors:
        if not variables:
            constant += float(log_values)
        elif frozenset(variables) in merged:
            first, total = merged[frozenset(variables)]
            total += log_values.transpose([variables.index(v) for v in first])
        else:
            merged[frozenset(variables)] = variables, log_values.copy()
    if constant and not merged:
        raise ArgumentError("network has a constant and no other potential, which pyAgrum cannot hold; leave it out")
    for _, total in list(merged.values())[:1]:
        total += constant
    named = [([network.names[v] for v in variables], total) for variables, total in merged.values()]
    return MarkovNetwork(dict(zip(network.names, network.states, strict=True)), named)


def _fill(tensor: Any, names: Sequence[str], values: NDArray[np.float64]) -> None:
    """Set a tensor of pyAgrum, whose arrays have its axes in the reverse order."""
    position: Mapping[str, int] = {name: i for i, name in enumerate(names)}
    order = [position[name] for name in reversed(tensor.names)]
    tensor[:] = np.ascontiguousarray(values.transpose(order), dtype=np.float64)


def _package(name: str, caller: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise MissingExtraError(f"{caller} needs the package {package}: pip install 'doxa[interop]'") from error

"""JSON files of networks: of our own form, and of the one in which pgmpy keeps lines."""

from __future__ import annotations

import gzip
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from network_texts import CPDS, JSON, LAWN, MODELS, assert_refused, read

from doxa.errors import ArgumentError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.gaussian import GaussianNetwork, LogOdds, Regression
from doxa.models.network_files import Limits, NetworkFileError, read_network, write_network

LINEAR = ("arth150", "ecoli70", "magic-irri", "magic-niab")


def parts_of(network):
    """Every number, as bytes: -0 is not 0."""
    tables = {name: (table,) for name, table in network.tables.items()}
    values = [*network.regressions.items(), *network.log_odds.items(), *tables.items()]
    return {name: [np.ascontiguousarray(part).tobytes() for part in parts] for name, parts in values}


def assert_comes_back(network, path):
    write_network(network, path)
    again = read_network(path)
    assert again == network
    assert (again.names, again.states, again.dag.edges) == (network.names, network.states, network.dag.edges)
    assert parts_of(again) == parts_of(network)
    before = path.read_bytes()
    again.write(path)
    assert path.read_bytes() == before


def random_network(n, seed):
    """Numbers, categories with tables and with log odds, up to three parents each; names in a random order."""
    rng = np.random.default_rng(seed)
    names = [f"{'é %'[i % 3]}{i}" for i in range(n)]
    kinds = rng.integers(3, size=n).tolist()
    states = {name: [f"s {k}" for k in range(2 + i % 3)] for i, name in enumerate(names) if kinds[i]}
    edges, order = [], rng.permutation(n).tolist()
    for at, i in enumerate(order):
        parents = rng.permutation(order[:at])[:3].tolist()
        edges += [(names[p], names[i]) for p in parents if kinds[i] != 1 or kinds[p]]
    dag = Dag.from_edges(edges, names)
    regressions, tables, log_odds = {}, {}, {}
    for i, name in enumerate(names):
        sizes = [len(states[p]) for p in dag.parents(name) if p in states]
        numbers = len(dag.parents(name)) - len(sizes)
        scale = 10.0 ** rng.integers(-300, 300)
        if kinds[i] == 0:
            parts = rng.normal(size=sizes) * scale, rng.normal(size=(*sizes, numbers)), rng.gamma(1, size=sizes)
            regressions[name] = Regression(*parts)
        elif kinds[i] == 1:
            tables[name] = rng.dirichlet(np.ones(len(states[name])), size=sizes)
        else:
            free = (*sizes, len(states[name]) - 1)
            log_odds[name] = LogOdds(rng.normal(size=free), rng.normal(size=(*free, numbers)))
    return GaussianNetwork(dag, regressions, tables, states, log_odds)


# --- what is written is read again ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("end", [".json", ".JSON.gz"])
def test_networks_of_all_kinds_come_back_to_the_bit(tmp_path, seed, end):
    network = random_network(25, seed)
    assert network.regressions
    assert network.tables
    assert network.log_odds
    assert_comes_back(network, tmp_path / f"mixed{end}")


def test_edges_of_numbers_come_back(tmp_path):
    values = [5e-324, -0.0, 1.7976931348623157e308, 0.1, -1e-17, 1 / 3]
    nodes = {f"x{k}": Regression(value, [], abs(value)) for k, value in enumerate(values)}
    assert_comes_back(GaussianNetwork(Dag(np.zeros((6, 6)), list(nodes)), nodes), tmp_path / "a.json")


def test_a_network_of_categories_comes_back_as_what_it_was(tmp_path):
    states = dict(zip(LAWN.names, LAWN.states, strict=True))
    mixed = GaussianNetwork(LAWN.dag, {}, LAWN.tables, states)
    for network in (LAWN, mixed):
        write_network(network, tmp_path / "lawn.json")
        again = read_network(tmp_path / "lawn.json")
        assert type(again) is type(network)
        assert again == network


def test_the_file_is_json_and_says_what_it_is(tmp_path):
    network = random_network(9, 3)
    network.write(tmp_path / "any", format="json")
    text = (tmp_path / "any").read_text()
    stored = json.loads(text)
    assert list(stored) == ["format", "version", "kind", "nodes"]
    assert (stored["format"], stored["version"], stored["kind"]) == ("doxa network", 1, "Gaussian")
    assert [node["name"] for node in stored["nodes"]] == list(network.names)
    assert text.count("\n") == 5 + 9 + 2  # a line for each node
    (tmp_path / "sorted.json").write_text(json.dumps(stored, sort_keys=True, indent=3))
    assert read_network(tmp_path / "sorted.json") == network


def test_the_order_of_nodes_keys_and_parents_is_free(tmp_path):
    network = read(tmp_path, "a.json", JSON)
    assert network.names == ("pressure", "smokes", "ill", "age", "sex", "weight")
    assert network.states[4] == ("f", "m", 'é "d"')
    assert network.dag.parents("pressure") == ("smokes", "age", "sex")
    intercept, coefficients, sd = network.regressions["pressure"]
    assert intercept.tolist() == [[80, 81, 82], [88, 89, 90]]  # smokes, then sex
    assert coefficients[..., 0].tolist() == [[0.7, 0.75, 0.0], [0.8, 0.85, 0.9]]
    assert sd.tolist() == [[8, 8, 0], [8, 9, 10]]
    assert network.tables["smokes"].tolist() == [[0.6, 0.4], [0.5, 0.5], [0.25, 0.75]]
    assert network.dag.parents("ill") == ("pressure", "smokes", "age")
    assert network.log_odds["ill"].intercept.tolist() == [[-1, -2], [-3, -4.5]]
    # of the parents that are numbers, the file has age before pressure, and the graph pressure before age
    assert network.log_odds["ill"].coefficients.tolist() == [[[0.01, 0.1], [0.02, 0.2]], [[0.03, 0.3], [0.04, 0.4]]]
    assert network.regressions["weight"].coefficients.tolist() == [7, 5]
    assert_comes_back(network, tmp_path / "b.json")


def test_the_order_of_parents_does_not_change_the_density(tmp_path):
    text = JSON.replace("[0, 1e1]", "[2, 1e1]")  # a density needs scatter
    network = read(tmp_path, "a.json", text)
    stored = json.loads(text)
    stored["nodes"].sort(key=lambda node: node["name"])
    other = read(tmp_path, "b.json", json.dumps(stored))
    table = network.simulate(200, seed=1)
    codes, numbers = table.codes[table.row_index], table.numbers[table.row_index]
    order = [network.names.index(name) for name in other.names]
    np.testing.assert_allclose(
        other.log_density(codes[:, order], numbers[:, order]), network.log_density(codes, numbers), rtol=1e-12
    )


def test_rows_that_miss_one_by_rounding_are_divided_by_their_sum(tmp_path):
    node = {"name": "a", "states": ["x", "y", "z"], "parents": [], "table": [0.333, 0.333, 0.333]}
    network = read(tmp_path, "a.json", of_nodes([node], "categorical"))
    assert type(network) is CategoricalNetwork
    np.testing.assert_allclose(network.tables["a"], 1 / 3, rtol=1e-15)


def test_a_packed_file_is_the_same_text(tmp_path):
    network = random_network(5, 1)
    network.write(tmp_path / "a.json")
    network.write(tmp_path / "a.json.gz")
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()


def test_other_formats_refuse_numbers(tmp_path):
    network = random_network(4, 1)
    for end, kind in ((".bif", "bif"), (".xml", "xmlbif"), (".net", "net"), (".xdsl", "xdsl"), (".uai", "uai")):
        with pytest.raises(
            ArgumentError, match=rf"^network is a GaussianNetwork, which the format '{kind}' cannot hold"
        ):
            network.write(tmp_path / f"a{end}")
    assert list(tmp_path.iterdir()) == []


# --- what is refused --------------------------------------------------------------------------------------------------


def of_nodes(nodes, kind="Gaussian", **more):
    return json.dumps({"format": "doxa network", "version": 1, "kind": kind, "nodes": nodes, **more})


A = {"name": "a", "states": ["x", "y"], "parents": [], "table": [0.5, 0.5]}
X = {"name": "x", "parents": [], "regression": {"intercept": 0.0, "sd": 1.0}}


def line(intercept=0.0, coefficients=(), sd=1.0, **more):
    return {"intercept": intercept, "coefficients": coefficients, "sd": sd, **more}


REFUSED = [
    ("", "the file is empty"),
    ("[]", "1:1: '[' stands where '{' should; a network is of the form {\"format\": ..."),
    ("{}", "1:1: the file has no key 'format'; a network is of the form ..."),
    ('{"format": "doxa network"', "1:26: the file ends where ',' or '}' should stand: it has been cut off"),
    ('{"format": ', "1:12: the file ends where a value should stand: it has been cut off"),
    ('{"format": [1, 2', "1:12: the file ends before what begins here is closed: it has been cut off"),
    ('{"format": 1,}', "1:14: '}' stands where a key in double quotes should; ..."),
    ('{"format": 1} {}', "1:15: something stands behind the end of the network; take it away"),
    ('{format: 1}', "1:2: 'format' stands where a key in double quotes should; ..."),
    ('{"format" 1}', "1:11: '1' stands where ':' should; ..."),
    ('{"format": 1, "format": 2}', "1:15: the file has the key 'format' more than once; take one of them away"),
    ('{"\\q": 1}', "1:2: a text that is not closed, or has an unknown escape or a control character in it, stands ..."),
    (of_nodes([X], author="me"), "...the file has the key 'author', which is not known; a network is of the form ..."),
    (of_nodes([X]).replace("doxa network", "other"), '1:12: the format is \'"other"\'; it must be "doxa network"'),
    (of_nodes([X]).replace(": 1,", ": 2,"), "1:39: the version is '2', and this doxa reads 1; read the file by ..."),
    (of_nodes([X]).replace(": 1,", ": 1.0,"), "1:39: the version is '1.0', and this doxa reads 1; ..."),
    (of_nodes([X], "other"), '1:50: the kind is \'"other"\'; it must be "Gaussian" or "categorical"'),
    (of_nodes([X], 3), "1:50: the kind is '3'; it must be \"Gaussian\" or \"categorical\""),
    (of_nodes({}), "1:71: '{' stands where '[' should; ..."),
    (of_nodes([]), "1:1: it declares no variable; has the file been cut off?"),
    (of_nodes([X, 3]), "...: '3' stands where '{' should; ..."),
    (of_nodes([{}]), "1:72: this node has no name; ..."),
    (of_nodes([{**X, "name": ""}]), "1:81: the name of a node is empty; give it a name"),
    (of_nodes([{**X, "name": 3}]), "1:81: '3' stands where the name of a node in double quotes should; ..."),
    (of_nodes([{**X, "name": "\ud800"}]), "1:81: the name of a node has half a character in it; write both ..."),
    (of_nodes([{**X, "unit": "kg"}]), "...the node has the key 'unit', which is not known; ..."),
    (of_nodes([X]).replace('"parents"', '"name"'), "...the node has the key 'name' more than once; take one of ..."),
    (of_nodes([{"name": "x", "regression": line()}]), "1:72: 'x' has no parents; write \"parents\": [] where it ..."),
    (of_nodes([{"name": "x", "parents": []}]), "1:72: 'x' has neither a table nor a regression nor log_odds; ..."),
    (of_nodes([{**A, "regression": line()}]), "...the node has both 'regression' and 'table'; take one ..."),
    (of_nodes([{**X, "states": ["a"]}]), "...: 'x' has states and a regression; a number has no states, a ..."),
    (of_nodes([X], "categorical"), "...'x' has 'regression', and the network is of the kind ..."),
    (of_nodes([{k: v for k, v in A.items() if k != "states"}]), "1:72: 'a' is a category and has no states; name them"),
    (of_nodes([{**A, "states": []}]), "...: 'a' is a category and has no states; name them"),
    (of_nodes([{**A, "states": ["x", "x"]}]), "1:102: 'a' has the state 'x' more than once; states must differ"),
    (of_nodes([{**A, "states": ["x", ""]}]), "1:102: a state is empty; give it a name"),
    (of_nodes([{**A, "states": ["x", 1]}]), "1:102: '1' stands where a state in double quotes should; ..."),
    (of_nodes([{**A, "states": "xy"}]), "1:96: '\"xy\"' stands where '[' should; ..."),
    (of_nodes([A, X, A]), "...: the variable 'a' is declared twice; take one of the two away"),
    (of_nodes([{**X, "parents": ["y"]}]), "...: 'x' has the parent 'y', which is no node; add it to the nodes, or ..."),
    (of_nodes([A, {**X, "parents": ["a", "a"]}]), "...: 'x' has the parent 'a' more than once; name it once"),
    (of_nodes([{**X, "parents": ["x"]}]), "1:72: there is the cycle 'x' -> 'x'; take one of its edges away"),
    (
        of_nodes([{**X, "parents": ["y"]}, {**X, "name": "y", "parents": ["x"]}]),
        "1:72: there is the cycle 'x' -> 'y' -> 'x'; take one of its edges away",
    ),
    (
        of_nodes([X, {**A, "parents": ["x"], "table": [[0.5, 0.5]]}]),
        "...: 'a' is a category with a table, and its parent 'x' is a number; give it log_odds in the place of the ...",
    ),
    (
        of_nodes([{"name": "a", "states": ["x"], "parents": [], "log_odds": {"intercept": [], "coefficients": []}}]),
        "...: 'a' has log_odds and one state; it needs two or more",
    ),
    # numbers
    (of_nodes([{**X, "regression": {"intercept": 0}}]), "...this regression has no sd; give it"),
    (of_nodes([{**X, "regression": 3}]), "...'3' stands where '{' should; ..."),
    (of_nodes([{**X, "regression": line(variance=1)}]), "...the regression has the key 'variance', which is not ..."),
    (of_nodes([{**X, "regression": line(sd=-1.0)}]), "...: the sd of 'x' is -1; it must be 0 or more"),
    (of_nodes([{**X, "regression": line(sd=math.nan)}]), "...: 'NaN' stands where a number should; JSON has ..."),
    (of_nodes([{**X, "regression": line(math.inf)}]), "...: 'Infinity' stands where a number should; JSON has ..."),
    (of_nodes([{**X, "regression": line(-math.inf)}]), "...: '-Infinity' stands where a number should; ..."),
    (of_nodes([X]).replace("0.0", "1e999"), "...: the intercept of 'x' is inf; it must be finite"),
    (of_nodes([X]).replace("0.0", "01"), "...: the intercept of 'x' should be one number, without brackets"),
    (of_nodes([X]).replace("0.0", "null"), "...: 'null' stands where a number should; ..."),
    (of_nodes([X]).replace("0.0", '"0"'), "...: '\"0\"' stands where a number should; ..."),
    (of_nodes([{**X, "regression": line([0.0])}]), "...the intercept of 'x' should be one number, ..."),
    (of_nodes([{**X, "regression": line(0.0, [1.0])}]), "...the coefficients of 'x' should be a list of length 0"),
    (
        of_nodes([X, {**X, "name": "y", "parents": ["x"]}]),
        "...: 'y' has parents that are numbers, and no coefficients",
    ),
    (
        of_nodes([A, {**X, "parents": ["a"], "regression": line([0.0, 1.0, 2.0], [[], []], [1.0, 1.0])}]),
        "...the intercept of 'x' should be a list of length 2",
    ),
    (
        of_nodes([A, {**X, "parents": ["a"], "regression": line([0.0, 1.0], [[], []], [1.0, -1.0])}]),
        "...: the sd of 'x' is -1; it must be 0 or more",
    ),
    (of_nodes([{**A, "table": [0.5, 0.6]}]), "...: the probabilities of 'a' sum to 1.1; they must sum to 1"),
    (of_nodes([{**A, "table": [1.5, -0.5]}]), "...: the probability of 'a' = 'x' is 1.5; probabilities are ..."),
    (of_nodes([{**A, "table": [[0.5, 0.5]]}]), "...: the table of 'a' should be a list of length 2"),
    (of_nodes([{**A, "table": 1}]), "...: the table of 'a' should be a list of length 2"),
    (of_nodes([{**A, "table": {}}]), "...: '{' stands where a number should; ..."),
    (of_nodes([A]).replace("[0.5, 0.5]", "[0.5 0.5]"), "...: '0.5' stands where a number should; ..."),
    (of_nodes([A]).replace("[0.5, 0.5]", "[0.5, 0.5,]"), "...: ']' stands where a number should; ..."),
    (of_nodes([A]).replace("[0.5, 0.5]", "[.5, 0.5]"), "...: '.5' stands where a number should; ..."),
    (of_nodes([A]).replace("[0.5, 0.5]", "[0.5, +0.5]"), "...: '+0.5' stands where a number should; ..."),
    (of_nodes([A]).replace("[0.5, 0.5]", "]0.5, 0.5["), "...: the table of 'a' should be a list of length 2"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_no_network_is_refused_with_its_place(tmp_path, text, message):
    assert_refused(tmp_path, "a.json", text, message)


def test_the_place_is_that_of_the_number(tmp_path):
    lines = of_nodes([A, {**X, "parents": ["a"], "regression": line([0.0, 1.0], [[], []], [1.0, -1.0])}])
    text = lines.replace("{", "\n{")
    with pytest.raises(NetworkFileError) as refused:
        read(tmp_path, "a.json", text)
    at = text.splitlines()[refused.value.line - 1][refused.value.column - 1 :]
    assert at.startswith("-1.0]")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"max_variables": 5}, r"this is variable number 6, more than the 5 allowed; raise it with limits=Limits\("),
        ({"max_states": 7}, r"the variables up to here have 8 states, more than the 7 allowed; raise it with limits="),
        (
            {"max_numbers": 44},
            r"the tables up to here take 45 numbers, more than the 44 allowed; raise it with limits=",
        ),
        ({"max_bytes": 100}, r"the file has \d+ bytes, more than the 100 allowed; raise it with limits=Limits\("),
    ],
)
def test_what_passes_the_limits_is_refused(tmp_path, limit, message):
    (tmp_path / "a.json").write_text(JSON)
    with pytest.raises(NetworkFileError, match=message):
        read_network(tmp_path / "a.json", limits=Limits(**limit))
    assert read_network(tmp_path / "a.json", limits=Limits(max_variables=6, max_states=8, max_numbers=45))


# --- the form of pgmpy ------------------------------------------------------------------------------------------------


def test_lines_with_variances_are_read(tmp_path):
    network = read(tmp_path, "a.json", CPDS)
    assert network.names == ("a", "b", "c")
    assert network.dag.edges == (("a", "b"), ("a", "c"), ("c", "b"))
    found = {name: tuple(part.tolist() for part in parts) for name, parts in network.regressions.items()}
    assert found == {"a": (1.0, [], 0.0), "b": (-1.5, [2.0, 3.0], 1.5), "c": (0.0, [0.1], 2.0)}
    assert_comes_back(network, tmp_path / "b.json")


@pytest.mark.parametrize("name", LINEAR)
def test_the_reference_networks_of_numbers_are_read(tmp_path, name):
    network = read_network(MODELS / f"{name}.json")
    stored = json.loads((MODELS / f"{name}.json").read_text())
    assert list(network.names) == stored["nodes"]
    assert set(network.dag.edges) == set(map(tuple, stored["arcs"]))
    for node, (intercept, coefficients, sd) in network.regressions.items():
        own = stored["cpds"][node]
        assert intercept == own["coefficients"]["(Intercept)"][0]
        assert sd == math.sqrt(own["variance"][0])
        assert coefficients.tolist() == [own["coefficients"][parent][0] for parent in network.dag.parents(node)]
    assert_comes_back(network, tmp_path / f"{name}.json")


@pytest.mark.filterwarnings("ignore")
def test_what_pgmpy_writes_is_read(tmp_path):
    pytest.importorskip("pgmpy.models")
    from doxa.models.interop import to_pgmpy

    network = read_network(MODELS / "ecoli70.json")
    to_pgmpy(network).save(str(tmp_path / "pgmpy.json"))
    again = read_network(tmp_path / "pgmpy.json")
    assert again.dag == network.dag
    for name, parts in network.regressions.items():
        for own, its in zip(parts, again.regressions[name], strict=True):
            np.testing.assert_allclose(own, its, rtol=1e-15)  # a variance is rounded


def changed_cpds(change):
    stored = json.loads(CPDS)
    change(stored)
    return json.dumps(stored)


CPD = json.loads(CPDS)["cpds"]
REFUSED_CPDS = [
    (lambda s: s.pop("nodes"), "1:1: the key 'nodes' is missing; a linear Gaussian network is of the form ..."),
    (lambda s: s.update(kind="Gaussian"), "...the key 'kind' is not known; a linear Gaussian network is of the ..."),
    (lambda s: s["nodes"].append("a"), "...: the variable 'a' is declared twice; take one of the two away"),
    (lambda s: s["nodes"].append("d"), "...: the variable 'd' has no table; has the file been cut off?"),
    (lambda s: s["nodes"].remove("b"), "...: 'b' is not among the nodes; add it there, or leave it out"),
    (lambda s: s["arcs"].pop(), "...: the arc 'a' -> 'c' does not stand once in arcs and once in cpds; let both ..."),
    (lambda s: s["arcs"].append(["a", "b"]), "...: the arc 'a' -> 'b' does not stand once in arcs and once in ..."),
    (lambda s: s["arcs"].append(["a"]), '...: an arc is a list of two names, ["parent", "child"]'),
    (lambda s: s["arcs"].append([]), '...: an arc is a list of two names, ["parent", "child"]'),
    (lambda s: s["arcs"].append(["a", "d"]), "...: 'd' is not among the nodes; add it there, or leave it out"),
    (lambda s: s["cpds"]["a"].update(sd=[1]), "...the distribution of 'a' has the key 'sd', which is not known; ..."),
    (lambda s: s["cpds"]["a"].pop("variance"), "...: the distribution of 'a' has no variance; a linear Gaussian ..."),
    (lambda s: s["cpds"]["a"].update(variance=[-1]), "...: the variance of 'a' is -1; it must be 0 or more, and ..."),
    (lambda s: s["cpds"]["a"].update(variance=[1, 2]), "...the variance of 'a' should be a list of length 1"),
    (lambda s: s["cpds"]["a"].update(variance=1), "...the variance of 'a' should be a list of length 1"),
    (lambda s: s["cpds"]["c"]["coefficients"].pop("a"), "...: the coefficients of 'c' are not of '(Intercept)' ..."),
    (lambda s: s["cpds"]["c"]["coefficients"].pop("(Intercept)"), "...: the coefficients of 'c' are not of ..."),
    (lambda s: s["cpds"]["c"]["coefficients"].update(b=[1]), "...: the coefficients of 'c' are not of ..."),
    (lambda s: s["cpds"]["c"]["parents"].append("a"), "...: 'c' has the parent 'a' more than once; name it once"),
    (
        lambda s: (s["arcs"].append(["b", "a"]), s["cpds"]["a"].update(CPD["c"], coefficients={"(Intercept)": [1],
                   "b": [1]}, parents=["b"])),
        "...: there is the cycle 'b' -> 'a' -> 'c' -> 'b'; take one of its edges away",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), REFUSED_CPDS)
def test_what_is_no_network_of_lines_is_refused(tmp_path, change, message):
    assert_refused(tmp_path, "a.json", changed_cpds(change), message)


def test_a_second_distribution_is_refused(tmp_path):
    text = CPDS.replace(
        '"cpds": {', '"cpds": {"a": {"coefficients": {"(Intercept)": [1]}, "variance": [0], "parents": []},'
    )
    assert_refused(tmp_path, "a.json", text, "...: there is a second table of 'a'; take one of the two away")


def test_infinite_variances_are_refused(tmp_path):
    assert_refused(
        tmp_path,
        "a.json",
        CPDS.replace("2.25", "1e999"),
        "1:30: the variance of 'b' is inf; it must be 0 or more, and finite",
    )


def test_a_file_of_records_is_no_network(tmp_path):
    assert_refused(
        tmp_path, "a.json", '[{"rain": "yes"}]', "1:1: '[' stands where '{' should; a network is of the form ..."
    )
    assert not Path(tmp_path, "b.json").exists()

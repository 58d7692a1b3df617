"""NET, DSC and XDSL: files by hand, every way of being broken, names that they cannot hold, and what others read."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest
from network_texts import (
    BIF,
    DSC,
    LAWN,
    MODELS,
    NET,
    UAI,
    XDSL,
    XMLBIF,
    assert_refused,
    assert_same,
    lawn_of_words,
    read,
    refusal,
)

import doxa
from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.interop import from_pgmpy, from_pyagrum
from doxa.models.network_files import read_network, write_network

TEXTS = {"net": NET, "dsc": DSC, "xdsl": XDSL}
ODD = CategoricalNetwork(
    Dag.from_edges([("low (<5)", "a b"), ("node", "a b"), ("a_b", "node")], ["a b", "low (<5)", "node", "a_b"]),
    {
        "a b": np.random.default_rng(1).dirichlet([1, 1, 1], size=(2, 2)),
        "low (<5)": [0.25, 0.75],
        "node": [[0.5, 0.5], [1 / 3, 2 / 3]],
        "a_b": [0.1, 0.9],
    },
    {"a b": ['"', "\\", "--"], "low (<5)": [">=1", "-->"], "node": ["é", "e"], "a_b": ["x y", "x_y"]},
)


@pytest.mark.parametrize("end", TEXTS)
def test_the_lawn_is_read(tmp_path, end):
    assert_same(read(tmp_path, f"lawn.{end}", TEXTS[end]), lawn_of_words())
    assert_same(read(tmp_path, f"lawn.{end}.gz", gzip.compress(TEXTS[end].encode())), lawn_of_words())


def test_every_format_has_the_same_answers(tmp_path):
    texts = TEXTS | {"bif": BIF, "xml": XMLBIF, "uai": UAI}
    found = {}
    for end, text in texts.items():
        network = read(tmp_path, f"lawn.{end}", text)
        rain, wet, _ = network.names
        found[end] = doxa.infer(network, rain, given={wet: network.states[1][2]}).probabilities(rain)
    p = 0.2 * 0.7 / (0.2 * 0.7 + 0.8 * (0.4 * 0.5 + 0.6 * 0))
    assert found["bif"][1] == pytest.approx(p)
    for probabilities in found.values():
        np.testing.assert_array_equal(probabilities, found["bif"])


@pytest.mark.parametrize("name", ["asia", "sachs"])
def test_reference_networks_have_the_same_answers_in_every_format(tmp_path, name):
    network = read_network(MODELS / f"{name}.bif.gz")
    observed = {network.names[-1]: network.states[-1][0]}
    exact = doxa.infer(network, given=observed)
    for end in (".bif", ".xml", ".net", ".dsc", ".xdsl", ".uai"):
        write_network(network, tmp_path / f"a{end}")
        again = doxa.infer(read_network(tmp_path / f"a{end}"), given=observed)
        assert {v: dict(table) for v, table in again.items()} == {v: dict(table) for v, table in exact.items()}


@pytest.mark.parametrize("end", TEXTS)
def test_names_that_a_format_cannot_hold_come_back(tmp_path, end):
    for network in (ODD, LAWN):
        write_network(network, tmp_path / f"odd.{end}")
        assert_same(read_network(tmp_path / f"odd.{end}"), network)
    assert "variable 0" not in NET
    write_network(lawn_of_words(), tmp_path / f"plain.{end}")
    if end != "xdsl":
        assert "variable 0" not in (tmp_path / f"plain.{end}").read_text()


def test_others_find_words_in_the_place_of_names(tmp_path):
    write_network(ODD, tmp_path / "odd.net")
    text = (tmp_path / "odd.net").read_text()
    assert [line for line in text.splitlines() if line.startswith("node ")] == [
        "node a_b_2",
        "node low_5",
        "node X_node",
        "node a_b",
    ]
    write_network(ODD, tmp_path / "odd.xdsl")
    text = (tmp_path / "odd.xdsl").read_text()
    assert [line for line in text.splitlines() if line.startswith("<cpt ")] == [
        '<cpt id="low_5">',
        '<cpt id="a_b">',
        '<cpt id="node">',
        '<cpt id="a_b_2">',
    ]


NODES = 'node a { states = ("x" "y"); }\nnode b { states = ("u" "v"); }\n'
ROOT = "potential (b) { data = (0.5 0.5); }\n"
BAD_NET = {
    "no NET": ("variable a {", "1:1: 'variable' begins no block; a NET file has blocks..."),
    "nothing": ("net { }", "1:1: it declares no variable; has the file been cut off?"),
    "continuous": ("continuous node a { }", "1:1: this begins a block 'continuous'; only networks of discrete..."),
    "a class": ("class C { }", "1:1: this begins a block 'class'; only networks of discrete nodes are read"),
    "cut off": ("node a { ", "1:1: the file ends in the block that begins here: it has been cut off"),
    "no states": ("node a { }", "1:6: the variable 'a' has no states; write 'states = (\"FIRST\" \"SECOND\");'"),
    "states without brackets": ('node a { states = "x"; }', "1:10: this is not of the form 'states = (..."),
    "an escape without quotes": ("node a { states = (x\\y); }", "1:20: 'x\\\\y' is no state; ...without backslashes"),
    "an escape": ('node a { states = ("x\\n"); }', "1:20: '\"x\\\\n\"' is no state; ...without backslashes"),
    "a state twice": ('node a { states = ("x" "x"); }', "1:24: 'a' has the state 'x' more than once..."),
    "a node twice": (NODES + "node a { states = (\"x\"); }", "3:6: the variable 'a' is declared twice..."),
    "no table": (NODES, "1:6: the variable 'a' has no table; has the file been cut off?"),
    "an unknown child": (NODES + "potential (c) { data = (1); }", "3:12: 'c' is not declared as a variable"),
    "two children": (NODES + "potential (a b) { }", "3:14: 'b' stands where '|' should; a potential has one child..."),
    "a head cut off": (NODES + "potential (a | { }", "3:16: '{' stands where a name should; ..."),
    "no data": (NODES + "potential (b) { }\npotential (a) { }", "3:10: the potential of 'b' has no data; write..."),
    "too few rows": (
        NODES + ROOT + "potential (a | b) { data = ((1 0)); }",
        "4:28: the brackets around this row of 'a' are not those of its parents' states",
    ),
    "no rows": (NODES + "potential (b) { data = ; }" + "potential (a) { data = (1 0); }",
                "3:21: there are 0 rows for 'b', and there should be 1, in brackets"),
    "too few numbers": (NODES + "potential (b) { data = (1); }potential (a) { data = (1 0); }",
                        "3:25: there are 1 numbers for 'b', and there should be 2"),
    "too many rows": (
        NODES + ROOT + "potential (a | b) { data = ((1 0)(1 0)(1 0)); }",
        "4:34: the brackets around this row of 'a' are not those of its parents' states",
    ),
    "more behind": (
        NODES + ROOT + "potential (a | b) { data = ((1 0)(1 0)) 1; }",
        "4:41: '1' stands behind the numbers for 'a'",
    ),
    "the wrong order": (
        NODES + 'node c { states = ("1" "2" "3"); }\npotential (c) { data = (1 0 0); }\n' + ROOT
        + "potential (a | b c) { data = (((1 0)(1 0))((1 0)(1 0))((1 0)(1 0))); }",
        "6:37: the brackets around this row of 'a' are not those of its parents' states",
    ),
    "no number": (NODES + "potential (b) { data = (1 x); }potential (a) { data = (1 0); }",
                  "3:27: 'x' stands where a number should"),
    "a sum": (NODES + ROOT + "potential (a | b) { data = ((1 0) % u\n(0.5 0.4)); }",
              "5:2: the probabilities of 'a' given 'b' = 'v' sum to 0.9; they must sum to 1"),
    "a cycle": (NODES + "potential (a | b) { data = ((1 0)(1 0)); }potential (b | a) { data = ((1 0)(1 0)); }",
                "3:10: there is the cycle 'a' -> 'b' -> 'a'..."),
    "names for some": (NODES + ROOT + "potential (a) { data = (1 0); }\n% variable 0: [\"x\", \"y\", \"z\"]",
                       "comments name variables; they should name each of the 2 once, or none"),
}  # fmt: skip

DSC_NODES = 'node a { type: discrete[2] = { "x", "y" }; }\nnode b { type: discrete[2] = { "u", "v" }; }\n'
DSC_ROOT = "probability(b) { 0.5, 0.5; }\n"
BAD_DSC = {
    "a BIF file": (BIF, "1:1: 'network' begins no block; a DSC file has blocks 'node NAME { ... }' and..."),
    "no states": ("node a { name: \"a\"; }", "1:6: the variable 'a' has no states; write 'type: discrete[N] = ..."),
    "continuous": ("node a { type: continuous; }", "1:10: the type is not of the form 'type: discrete[N] = {..."),
    "too few states": ('node a { type: discrete[2] = { "x" }; }',
                       "1:31: there are not 2 states of 'a', as declared; separate names by commas"),
    "a table": (DSC_NODES + "probability(b) { table 0.5, 0.5; }probability(a) { 1, 0; }",
                "3:18: 'table' stands where a number should"),
    "rows without positions": (DSC_NODES + DSC_ROOT + "probability(a | b) { 1, 0, 1, 0; }",
                               "4:22: '1' stands where a row of the table of 'a' should"),
    "a label": (DSC_NODES + DSC_ROOT + "probability(a | b) { (u): 1, 0; }", "4:22: 'b' has no state 'u'"),
    "a position too far": (DSC_NODES + DSC_ROOT + "probability(a | b) { (2): 1, 0; }", "4:22: 'b' has no state '2'"),
    "no colon": (DSC_NODES + DSC_ROOT + "probability(a | b) { (1) 1, 0; }", "4:22: ':' should stand behind this; ..."),
    "no colon, default": (DSC_NODES + DSC_ROOT + "probability(a | b) { default 1, 0; }",
                          "4:22: ':' should stand behind this; ..."),
    "a row missing": (DSC_NODES + DSC_ROOT + "probability(a | b) { (1): 1, 0; }",
                      "4:1: the table of 'a' has no row given 'b' = 'u', and no default"),
    "a row twice": (DSC_NODES + DSC_ROOT + "probability(a | b) { (1): 1, 0; (1): 1, 0; }",
                    "4:38: there is a second row for 'a' given 'b' = 'v'; take one away"),
    "a function": (DSC_NODES + DSC_ROOT + "probability(a | b) { function: max; }",
                   "4:22: 'function' stands where a row of the table of 'a' should"),
}  # fmt: skip


def smile(inside):
    return f"<smile><nodes>{inside}</nodes></smile>"


def cpt(name, parents="", numbers="1 0", states=("x", "y")):
    own = "".join(f'<state id="{state}"/>' for state in states)
    return f'<cpt id="{name}">{own}<parents>{parents}</parents><probabilities>{numbers}</probabilities></cpt>'


BAD_XDSL = {
    "XMLBIF": (XMLBIF, "8:1: the element 'BIF' is not expected here, and XDSL begins with smile"),
    "no nodes": ("<smile/>", "1:1: it declares no variable; has the file been cut off?"),
    "a decision": (smile('<decision id="d"/>'), "1:15: the element 'decision' is not expected here; only..."),
    "a noisy gate": (smile('<noisymax id="d"/>'), "1:15: the element 'noisymax' is not expected here; only ..."),
    "no id": (smile("<cpt/>"), "1:15: this element cpt has no id"),
    "an empty id": (smile('<cpt id="a"><state id=""/></cpt>'), "1:27: this element state has no id"),
    "no states": (smile('<cpt id="a"/>'), "1:15: the variable 'a' has no element state; give its states"),
    "a state twice": (smile(cpt("a", states=("x", "x"))), "1:15: 'a' has the state 'x' more than once; ..."),
    "no numbers": (smile('<cpt id="a"><state id="x"/></cpt>'), "1:15: 'a' has 0 elements probabilities; it has one"),
    "two tables": (smile(cpt("a").replace("<parents>", "<probabilities/><parents>")),
                   "1:15: 'a' has 2 elements probabilities; it has one"),
    "a node twice": (smile(cpt("a") + cpt("a")), "1:116: the variable 'a' is declared twice; take one of the two away"),
    "an unknown parent": (smile(cpt("a", "b")), "1:15: 'b' is not declared as a variable"),
    "a cycle": (smile(cpt("a", "a", "1 0 1 0")), "1:15: there is the cycle 'a' -> 'a'; take one of its edges away"),
    "too few": (smile(cpt("a", numbers="1")), "1:15: there are 1 numbers for 'a', and there should be 2"),
    "a sum": (smile(cpt("a", numbers="1 1")), "1:91: the probabilities of 'a' sum to 2; they must sum to 1"),
    "text": (smile("x"), "1:15: there is text in nodes outside of its elements"),
    "an entity": ('<!DOCTYPE smile [<!ENTITY a "b">]>' + smile(cpt("a")), "1:18: entities are declared here..."),
    "two comments": (smile(cpt("a")) + '\n<!-- variable 0: ["a", "b", "c"] -->\n<!-- variable 0: ["a", "b", "c"] -->',
                     "comments name variables; they should name each of the 1 once, or none"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("end", "name"),
    [(end, name) for end, bad in (("net", BAD_NET), ("dsc", BAD_DSC), ("xdsl", BAD_XDSL)) for name in bad],
)
def test_files_that_cannot_be_read_are_refused(tmp_path, end, name):
    text, message = {"net": BAD_NET, "dsc": BAD_DSC, "xdsl": BAD_XDSL}[end][name]
    assert_refused(tmp_path, f"network.{end}", text, message)


@pytest.mark.parametrize("end", TEXTS)
def test_truncations_are_refused(tmp_path, end):
    text = TEXTS[end].rstrip()
    for length in range(0, len(text), 3):
        refusal(tmp_path, f"lawn.{end}", text[:length])


def test_numbers_may_stand_in_one_pair_of_brackets(tmp_path):
    text = NODES + ROOT + "potential (a | b) { data = (1 0 0.3 0.7); }"
    assert read(tmp_path, "flat.net", text).tables["a"].tolist() == [[1, 0], [0.3, 0.7]]


def assert_same_answers(network, other):
    """Whatever the order of the nodes."""
    assert set(other.dag.edges) == set(network.dag.edges)
    observed = {network.names[0]: network.states[0][0]}
    exact = doxa.infer(network, given=observed)
    for node, table in doxa.infer(other, given=observed).items():
        for label, estimate in table.items():
            assert estimate.value == pytest.approx(exact[node][label].value, abs=1e-6)


@pytest.mark.parametrize("name", ["asia", "alarm"])
def test_pyagrum_reads_our_net_and_we_read_its(tmp_path, gum, name):
    """Of XDSL it takes the first parent for the fastest (3.3.1), unlike GeNIe and pgmpy."""
    network = read_network(MODELS / f"{name}.bif.gz")
    write_network(network, tmp_path / "ours.net")
    theirs = gum.loadBN(str(tmp_path / "ours.net"))
    assert_same_answers(network, from_pyagrum(theirs))
    gum.saveBN(theirs, str(tmp_path / "theirs.net"))
    assert_same_answers(network, read_network(tmp_path / "theirs.net"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["asia", "alarm"])
@pytest.mark.parametrize("end", ["net", "xdsl"])
def test_pgmpy_reads_what_we_write_and_we_read_its(tmp_path, name, end):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.readwrite import NETReader, NETWriter, XDSLReader, XDSLWriter
    reader, writer = {"net": (NETReader, NETWriter), "xdsl": (XDSLReader, XDSLWriter)}[end]
    network = read_network(MODELS / f"{name}.bif.gz")
    write_network(network, tmp_path / f"ours.{end}")
    theirs = reader(str(tmp_path / f"ours.{end}")).get_model()
    assert_same_answers(network, from_pgmpy(theirs))
    writer(theirs).write(str(tmp_path / f"theirs.{end}"))
    assert_same_answers(network, read_network(tmp_path / f"theirs.{end}"))

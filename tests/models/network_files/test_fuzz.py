"""Texts of a corpus, changed at random: each is a network that can be written again, or a NetworkFileError."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_texts import BIF, CPDS, DSC, JSON, LAWN, MARKOV, NET, UAI, XDSL, XMLBIF, assert_same

from doxa.errors import DoxaError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.gaussian import GaussianNetwork
from doxa.models.network_files import (
    Limits,
    NetworkFileError,
    read_evidence_file,
    read_network,
    write_network,
)

LIMITS = Limits(max_numbers=10_000, max_states=1000, max_variables=100)
NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "1e-400",
    "1e400",
    "nan",
    "4294967296",
    "-0",
    ".",
    "e",
    "1_0",
    "٣",
    "99999999999",
]
CORPUS = {
    "bif": (
        [BIF, 'variable a { type discrete [ 1 ] { x }; } probability ( a ) { table 1; }'],
        ["variable", "probability", "table", "default", "property", "network", "type", "discrete", "(", ")", "{", "}",
         "[", "]", "|", ",", ";", '"', "//", "/*", "*/", "rain", "no", "a bit"],
    ),
    "xmlbif": (
        [XMLBIF, "<BIF><NETWORK><VARIABLE><NAME>a</NAME><OUTCOME>x</OUTCOME></VARIABLE><DEFINITION><FOR>a</FOR>"
         "<TABLE>1</TABLE></DEFINITION></NETWORK></BIF>"],
        ["<", ">", "/", "/>", "</", "<!--", "-->", "<![CDATA[", "]]>", "<?", "?>", "&lt;", "&x;", "&", "&#0;", "&#65;",
         "<VARIABLE>", "</VARIABLE>", "<NAME>", "<FOR>", "<GIVEN>", "<TABLE>", "</TABLE>", "<!DOCTYPE", "<!ENTITY", "]",
         '"', "'", "=", "rain", "no"],
    ),
    "net": (
        [NET, 'node a { states = ("x"); } potential (a) { data = (1); }\n% variable 0: ["a b", "c"]'],
        ["net", "node", "discrete", "potential", "data", "states", "=", "(", ")", "((", "))", "{", "}", "|", ";", '"',
         "%", "% variable 0:", '["a b", "c"]', "\\", "rain", '"no"'],
    ),
    "dsc": (
        [DSC, 'node a { type: discrete[1] = { "x" }; } probability(a) { 1; }\n// variable 0: ["a b", "c"]'],
        ["belief", "node", "probability", "type", "discrete", "default", ":", "=", "(", ")", "(0):", "{", "}", "[", "]",
         "|", ",", ";", '"', "//", "/*", "*/", "// variable 0:", '["a b", "c"]', "rain"],
    ),
    "xdsl": (
        [XDSL, '<smile><nodes><cpt id="a"><state id="x"/><probabilities>1</probabilities></cpt></nodes>\n'
         '<!-- variable 0: ["a b", "c"] -->\n</smile>'],
        ["<", ">", "/", "/>", "</", "<!--", "-->", "&lt;", "&", '<cpt id="a">', "</cpt>", '<state id="x"/>', "id",
         "<parents>", "</parents>", "<probabilities>", "<property>", "</property>", "<!-- variable 0:",
         '["a b", "c"]', '"', "'", "=", "rain", "no"],
    ),
    "uai": (
        [UAI, MARKOV, 'MARKOV 1 2 0\n# variable 0: ["a", "b", "c"]'],
        ["BAYES", "MARKOV", "#", "c ", "# variable 0:", '["a", "b", "c"]', "[", '"'],
    ),
    "json": (
        [JSON, CPDS, '{"format": "doxa network", "version": 1, "kind": "categorical", "nodes": [{"name": "a", '
         '"states": ["x"], "parents": [], "table": [1]}]}'],
        ["{", "}", "[", "]", "[[", "]]", ":", ",", '"', "\\", '"\\u0041"', '"\\ud800"', '""', '"format"', '"nodes"',
         '"name"', '"states"', '"parents"', '"table"', '"regression"', '"log_odds"', '"intercept"', '"coefficients"',
         '"sd"', '"cpds"', '"arcs"', '"variance"', '"(Intercept)"', '"Gaussian"', '"categorical"', "NaN", "Infinity",
         "null", "true", "1e999", '"age"', '"smokes"', "[]", "{}", "[1, 2]"],
    ),
    "evidence": (["2 0 1 1 2", "1\n1 0 1"], ["#", "c "]),
}  # fmt: skip


@st.composite
def changed(draw, kind):
    texts, words = CORPUS[kind]
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.one_of(st.integers(0, 4), st.integers(0, len(text))))
        how = draw(st.integers(0, 4))
        if how == 0:
            text = text[:at] + text[at + length :]
        elif how == 1:
            text = text[:at] + text[at : at + length] + text[at:]
        elif how == 2:
            text = text[:at]
        else:
            new = draw(st.one_of(st.sampled_from([*words, *NUMBERS, " ", "\n", "\0"]), st.text(max_size=3)))
            text = text[:at] + new + text[at + (length if how == 3 else 0) :]
    data = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + 1 :]
    return data


def examine(folder, data, kind):
    path = folder / "any"
    path.write_bytes(data)
    if kind == "evidence":
        given = read_evidence_file(path, LAWN, limits=LIMITS)
        assert all(state in LAWN.states[LAWN.names.index(name)] for name, state in given.items())
        return
    network = read_network(path, format=kind, limits=LIMITS)
    if isinstance(network, GaussianNetwork):
        write_network(network, path, format="json")
        assert read_network(path, format="json") == network
        return
    for end in (
        ("bif", "xmlbif", "net", "dsc", "xdsl", "uai", "json") if isinstance(network, CategoricalNetwork) else ("uai",)
    ):
        try:
            write_network(network, path, format=end)
        except DoxaError as error:
            assert str(error).startswith("the name ")  # noqa: PT017
            assert end in ("bif", "xmlbif")
            continue
        again = read_network(path, format=end)
        if isinstance(network, CategoricalNetwork):
            assert_same(again, network)
        else:
            assert (again.names, again.states) == (network.names, network.states)


@pytest.mark.parametrize("kind", CORPUS)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_files_are_networks_or_refused(tmp_path, kind, data):
    text = data.draw(changed(kind))
    try:
        examine(tmp_path, text, kind)
    except NetworkFileError as error:
        assert (error.line is None) == (error.column is None)  # noqa: PT017
        assert error.line is None or (1 <= error.line <= text.count(b"\n") + 1 and error.column >= 1)  # noqa: PT017


@pytest.mark.slow
@pytest.mark.parametrize("kind", CORPUS)
@settings(max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_many_changed_files_are_networks_or_refused(tmp_path, kind, data):
    with contextlib.suppress(NetworkFileError):
        examine(tmp_path, data.draw(changed(kind)), kind)


@pytest.mark.parametrize("kind", CORPUS)
def test_the_corpus_itself_is_sound(tmp_path, kind):
    for text in CORPUS[kind][0]:
        examine(tmp_path, text.encode(), kind)

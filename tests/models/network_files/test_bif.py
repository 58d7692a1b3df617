"""BIF: the forms in circulation, and every way of being broken, with line, column and cause."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from network_texts import BIF, LAWN, MODELS, REFERENCES, assert_refused, assert_same, read, refusal

from doxa.models.network_files import read_network
from support.networks import load_network

FORM = "a BIF file has blocks 'variable NAME { ... }' and 'probability ( CHILD | PARENT ) { ... }'"
CUT_OFF = "the file ends in the block that begins here: it has been cut off"
AB = "variable a { type discrete [ 2 ] { no, yes }; }\nvariable b { type discrete [ 3 ] { x, y, z }; }\n"
ROOT = "probability ( b ) { table 0.2, 0.3, 0.5; }\n"


def test_the_lawn_is_read(tmp_path):
    assert_same(read(tmp_path, "lawn.bif", BIF), LAWN)
    assert_same(read(tmp_path, "LAWN.BIF", "\ufeff" + BIF.replace("\n", "\r\n")), LAWN)
    assert_same(read(tmp_path, "lawn.bif.gz", gzip.compress(BIF.encode())), LAWN)


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_networks_are_those_of_another_reader(name):
    network, expected = read_network(MODELS / f"{name}.bif.gz"), load_network(name)
    assert (network.dag, network.states) == (expected.dag, expected.states)
    tables = []
    for table, order in zip(expected.tables, expected.orders, strict=True):
        tables.append((table / table.sum(axis=-1, keepdims=True)).transpose([*np.argsort(order), len(order)]).ravel())
    ours = np.concatenate([network.tables[name].ravel() for name in network.names])
    np.testing.assert_allclose(ours, np.concatenate(tables), rtol=1e-14, atol=0)


B = "probability (b) {table 1,0,0;}"
GOOD = {
    "commas left out": f"{AB}probability (a | b) {{ (x) .1 .9; (y) 0.2 0.8; (z) 1 0; }} {B}",
    "the bar left out": f"{AB}probability ( a b ) {{ (x) .1,.9; (y) .2,.8; (z) 1,0; }} {B}",
    "heads before their variables": f"probability (a|b) {{ (x) .1,.9; (y) .2,.8; (z) 1,0; }}{B}{AB}",
    "rows in any order": f"{AB}{B}probability (a | b) {{ (z) 1,0; (x) .1,.9; (y) .2,.8;}}",
    "a table, first state first": f"{AB}probability (a | b) {{ table .1 .2 1, .9 .8 0; }} {B}",
    "a default": f"{AB}probability (a | b) {{ default .1,.9; (y) .2,.8; (z) 1,0; }} {B}",
    "a default alone": f"{AB}probability (b) {{default 1,0,0;}} probability (a | b) {{(x) .1,.9; (y) .2,.8; (z) 1,0;}}",
    "a row of no parents": f"{AB}probability (b) {{() 1,0,0;}} probability (a | b) {{(x) .1,.9; (y) .2,.8; (z) 1,0;}}",
    "comments everywhere": f"/* * / */ {AB}probability /*(*/ (a // x\n | b) {{ (x/**/) .1,/*1*/.9; (y) .2,.8 //;\n; "
    f"(z) 1,0; /**/ }} {B} probability/***/(c){{table/**/1/*2*/;}}variable c{{/**/type/**/discrete[1]{{x}};//}}\n}} //",
    "properties": f'{AB}probability (a|b) {{ property p (1) ; (x) .1 .9; property "}};" ; (y) .2 .8; (z) 1 0; }} '
    "probability (b) {table 1 0 0; property q;} network x { property ; }",
    "quotes": 'variable "a" {type discrete[2]{"no","yes"};} variable b {type discrete [3] {"x",y,"z"};}\n'
    'probability ("a"|"b") { ("x") .1 .9; ( y ) .2 .8; (z) 1 0; } probability (b) {table 1 0 0;}',
}


@pytest.mark.parametrize("form", GOOD)
def test_forms_of_one_network(tmp_path, form):
    network = read(tmp_path, "any.bif", GOOD[form])
    assert network.names[:2] == ("a", "b")
    assert network.states[:2] == (("no", "yes"), ("x", "y", "z"))
    np.testing.assert_array_equal(network.tables["a"], [[0.1, 0.9], [0.2, 0.8], [1, 0]])
    np.testing.assert_array_equal(network.tables["b"], [1, 0, 0])


@pytest.mark.parametrize(
    ("states", "labels"),
    [
        ("Asy/Patch, a/b/c", ("Asy/Patch", "a/b/c")),
        ("low risk, high   risk", ("low risk", "high risk")),
        ("low risk / a, b", ("low risk / a", "b")),
        ("yes no", ("yes", "no")),
        ('"low (risk)" "{;}"', ("low (risk)", "{;}")),
        ('"a, b", " c "', ("a, b", " c ")),
        ("5e-3, <=7[8]", ("5e-3", "<=7[8]")),
        ("é, 日本", ("é", "日本")),
        ("table, default", ("table", "default")),
        ('"//", "/*"', ("//", "/*")),
    ],
)
def test_names_of_states_are_kept(tmp_path, states, labels):
    text = f"variable a {{ type discrete [ 2 ] {{ {states} }}; }} probability ( a ) {{ table 1, 0; }}"
    assert read(tmp_path, "a.bif", text).states == (labels,)


BAD = {
    "empty": ("", "the file is empty"),
    "blanks": (" \n\t\n", "the file holds nothing but blanks"),
    "comments": ("// nothing", "1:1: it declares no variable; has the file been cut off?"),
    "another format": ("net\n{}", f"1:1: 'net' begins no block; {FORM}"),
    "no states": (
        "variable a {\n}",
        "1:10: the variable 'a' has no states; write 'type discrete [ N ] { ... };'",
    ),
    "no name": ("variable {", f"1:10: '{{' stands where a name should; {FORM}"),
    "continuous": (
        "variable a { type continuous; }",
        "1:14: the type is not of the form 'type discrete [ N ] { FIRST, SECOND };'",
    ),
    "more states than declared": (
        "variable a { type discrete [ 2 ] { x, y, z }; }",
        "1:35: there are not 2 states of 'a', as declared; separate names by commas",
    ),
    "fewer": (
        "variable a { type discrete [ 2 ] { x }; }",
        "1:35: there are not 2 states of 'a', as declared; separate names by commas",
    ),
    "an empty state": (
        "variable a { type discrete [ 2 ] { x, }; }",
        "1:35: there are not 2 states of 'a', as declared; separate names by commas",
    ),
    "zero states": ("variable a { type discrete [ 0 ] { }; }", "1:35: 'a' has no states; a variable has at least one"),
    "a state twice": (
        "variable a {\n type discrete [ 3 ] { x, y, x }; }",
        "2:23: 'a' has the state 'x' more than once; states must differ",
    ),
    "two billion states": (
        "variable a { type discrete [ 2000000000 ] { x, y }; }",
        "1:30: 'a' has 2000000000 states, more than the 262144 allowed; "
        "raise it with limits=Limits(max_states=2000000000)",
    ),
    "a variable twice": (AB + "variable a { type discrete[1] { x }; }", "3:10: the variable 'a' is declared twice..."),
    "a table twice": (
        AB + ROOT + ROOT,
        "4:1: there is a second table of 'b'; take one of the two away",
    ),
    "a table missing": (AB + ROOT, "1:10: the variable 'a' has no table; has the file been cut off?"),
    "an unknown parent": (
        AB + ROOT + "probability ( a | c ) { table 1; }",
        "4:1: 'c' is not declared as a variable",
    ),
    "an unknown child": (AB + "probability ( c ) { table 1; }", "3:1: 'c' is not declared as a variable"),
    "a parent twice": (
        AB + "probability ( a | b, b ) { table 1; }",
        "3:1: 'a' has the parent 'b' more than once; name it once",
    ),
    "a cycle": (
        AB + "probability ( a | b ) { default 1, 0; }\nprobability ( b | a ) { default 1, 0, 0; }",
        "3:1: there is the cycle 'a' -> 'b' -> 'a'; take one of its edges away",
    ),
    "its own parent": (
        AB + ROOT + "probability ( a | a ) { default 1, 0; }",
        "4:1: there is the cycle 'a' -> 'a'; take one of its edges away",
    ),
    "a joint distribution": (
        AB + "probability ( a, b ) { table 1; }",
        f"3:13: the head of a probability is not of the form '( CHILD | A, B )'; {FORM}",
    ),
    "no parent behind the bar": (AB + "probability ( a | ) { table 1; }", "3:13: no parent stands behind the bar; ..."),
    "too few numbers": (
        AB + ROOT + "probability ( a | b ) {\n  (x) 0.5;\n}",
        "5:6: there are 1 numbers for 'a', and there should be 2",
    ),
    "too many numbers": (
        AB + "probability ( a ) { table 0.5, 0.5, 0; }" + ROOT,
        "3:26: there are 3 numbers for 'a', and there should be 2",
    ),
    "no number": (
        AB + "probability ( a ) {\n  table 0.5, half; }" + ROOT,
        "4:14: 'half' stands where a number should",
    ),
    "not a number": (AB + "probability ( a ) { table nan, 1; }" + ROOT, "3:27: 'nan' stands where a number should"),
    "infinite": (AB + "probability ( a ) { table 0, inf; }" + ROOT, "3:30: 'inf' stands where a number should"),
    "overflow": (
        AB + "probability ( a ) { table 0, 1e999; }" + ROOT,
        "3:30: the probability of 'a' = 'yes' is inf; probabilities are numbers from 0 to 1",
    ),
    "a literal of Python": (AB + B + "probability ( a ) { table 1_0, 1; }", "3:57: '1_0' stands where a number should"),
    "half an exponent": (AB + ROOT + "probability ( a | b ) {\n (x) 1e, 0; }", "5:6: '1e' stands where..."),
    "two points": (AB + B + "probability ( a ) { table 0.1.2, 0.8; }", "3:57: '0.1.2' stands where a number should"),
    "1.7 and -0.7": (
        AB + ROOT + "probability ( a | b ) {\n (x) 0.5, 0.5;\n (z) 1.7, -0.7; (y) 1, 0;\n}",
        "6:6: the probability of 'a' = 'no' given 'b' = 'z' is 1.7; probabilities are numbers from 0 to 1",
    ),
    "negative": (
        AB + ROOT + "probability ( a | b ) { table 0.5 0.5 1 0.5 0.5\n-1e-9; }",
        "5:1: the probability of 'a' = 'yes' given 'b' = 'z' is -1e-09; probabilities are numbers from 0 to 1",
    ),
    "a sum": (
        AB + ROOT + "probability ( a | b ) {\n (x) 0.5, 0.5;\n (y) 0.5, 0.4; (z) 1, 0;\n}",
        "6:6: the probabilities of 'a' given 'b' = 'y' sum to 0.9; they must sum to 1",
    ),
    "the sum of a default": (
        AB + ROOT + "probability ( a | b ) {\n (x) 0.5, 0.5;\n default 0.5, 0.4;\n}",
        "6:10: the probabilities of 'a' in the row 'default' sum to 0.9; they must sum to 1",
    ),
    "a row twice": (
        AB + ROOT + "probability ( a | b ) {\n (x) 1, 0;\n (x) 1, 0;\n (y) 0, 1; }",
        "6:6: there is a second row for 'a' given 'b' = 'x'; take one away",
    ),
    "a row missing": (
        AB + ROOT + "probability ( a | b ) {\n (x) 1, 0; (z) 1, 0; }",
        "4:1: the table of 'a' has no row given 'b' = 'y', and no default",
    ),
    "no rows": (AB + ROOT + "probability ( a ) { }", "4:1: the table of 'a' has no row, and no default"),
    "an unknown state": (AB + ROOT + "probability ( a | b ) {\n (w) 1, 0;\n}", "5:2: 'b' has no state 'w'"),
    "too few states": (
        AB + ROOT + "probability ( a | b ) {\n () 1, 0;\n}",
        "5:3: there are not 1 parents of 'a'; separate names by commas",
    ),
    "two tables": (
        AB + "probability ( a ) { table 1, 0; table 1, 0; }" + ROOT,
        "3:33: 'table' stands where a row of the table of 'a' should",
    ),
    "no semicolon": (AB + "probability ( a ) { table 1, 0 }" + ROOT, "3:26: no ';' ends the statement..."),
    "cut in a block": (AB + "probability ( a ) { table 1,", f"3:1: {CUT_OFF}"),
    "cut in a head": (AB + "probability ( a", f"3:13: {CUT_OFF}"),
    "cut in a comment": (AB + "/* x", "3:1: a comment is not closed; has the file been cut off?"),
    "a quote open": (AB + 'variable "c\n', "3:10: a quote is not closed on its line, or holds no name; ..."),
    "a name of nothing": (AB + 'variable "" {', "3:10: a quote is not closed on its line, or holds no name; ..."),
    "a block within a block": (AB + "network x { { } }", "3:13: there is a block within a block; ..."),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bif_files_that_cannot_be_read_are_refused(tmp_path, name):
    text, message = BAD[name]
    assert_refused(tmp_path, "network.bif", text, message)


def test_a_configuration_of_many_parents_is_shortened(tmp_path):
    names = [f"x{i}" for i in range(12)]
    variables = "".join(f"variable {name} {{ type discrete [ 1 ] {{ s }}; }} " for name in names)
    heads = "".join(f"probability ( {name} ) {{ table 1; }} " for name in names[1:])
    text = f"{variables}{heads}probability ( x0 | {', '.join(names[1:])} ) {{ ({', '.join(['s'] * 11)}) 0.5; }}"
    said = refusal(tmp_path, "x.bif", text)
    assert said.endswith("'x7' = 's', 'x8' = 's', ... 3 more sum to 0.5; they must sum to 1")


@pytest.mark.parametrize(
    ("numbers", "sound"),
    [
        ("0.333 0.333 0.333", True),
        ("0.3335 0.3335 0.3345", True),
        ("0.332 0.333 0.333", False),
        ("0.33 0.33 0.33", False),
        ("0.3333333 0.3333333 0.3333334", True),
    ],
)
def test_rows_rounded_to_three_decimals_are_divided_by_their_sum(tmp_path, numbers, sound):
    text = f"variable b {{ type discrete [ 3 ] {{ x, y, z }}; }} probability ( b ) {{ table {numbers}; }}"
    if sound:
        values = np.array(list(map(float, numbers.split())))
        np.testing.assert_allclose(read(tmp_path, "b.bif", text).tables["b"], values / values.sum(), rtol=1e-15)
    else:
        assert "they must sum to 1" in refusal(tmp_path, "b.bif", text)


def test_truncations_are_refused(tmp_path):
    text = BIF.rstrip()
    for length in range(0, len(text), 2):
        refusal(tmp_path, "lawn.bif", text[:length])

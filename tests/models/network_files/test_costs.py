"""Families of files that hold as many objects a character as their form allows; most are sound but for their end.

Each is refused within a second of CPU and 20 times its size in memory, from one kilobyte to hundreds.
"""

from __future__ import annotations

import functools
from math import isqrt

import pytest
from network_texts import assert_cheap_refusal

from doxa.models.markov import MarkovNetwork
from doxa.models.network_files import read_evidence_file, read_network

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST = 10_000  # variables


def short(i):
    """A name for each i, as short as can be."""
    name = LETTERS[i % 62]
    while i := i // 62:
        i -= 1
        name = LETTERS[i % 62] + name
    return name


def some(n, length, most=MOST):
    """How many pieces of a length make a file of n characters."""
    return max(2, min(most, n // length))


def many(n, piece):
    return "".join(map(piece, range(n)))


# --- BIF --------------------------------------------------------------------------------------------------------------


def variable(i, n_states=1):
    return f"variable {short(i)}{{type discrete[{n_states}]{{{' '.join(map(short, range(n_states)))}}};}}"


def root(i, n_states=1):
    return f"probability({short(i)}){{table 1{' 0' * (n_states - 1)};}}"


def roots(n, n_states=1, *, last=None):
    k = some(n, 52 + 5 * n_states)
    tables = [root(i, n_states) for i in range(k)]
    if last is not None:
        tables[-1] = f"probability({short(k - 1)}){last}"
    return many(k, lambda i: variable(i, n_states)) + "".join(tables)


def states(n, between=" ", around="", behind="x", twice=False):
    k = some(n, 4 + len(between) - 1 + 2 * len(around), 2**18)
    labels = between.join(around + short(i) + around for i in range(k - twice)) + twice * " 0"
    return f"variable x{{type discrete[{k}]{{{labels}}};}}{behind}"


def rows(n, of_row):
    """A child of one state, with a row for each pair of its parents' states; a table behind it is wrong."""
    k = max(2, isqrt(n // (len(of_row.format("ab", "cd")) - 1)))
    lines = "".join(of_row.format(short(i), short(j)) for i in range(k) for j in range(k))
    parents = f"probability(0){{table 1{' 0' * (k - 1)};}}probability(1){{table 2{' 0' * (k - 1)};}}"
    return f"{variable(0, k)}{variable(1, k)}{variable(2)}probability(2|0 1){{{lines}}}{parents}"


def dense(n):
    """Each variable a child of all others."""
    k = max(3, isqrt(n // 3))
    names = [short(i) for i in range(k)]
    return many(k, variable) + many(k, lambda i: f"probability({names[i]} {' '.join(names[:i] + names[i + 1 :])}){{}}")


def one_wide_parent(n):
    """Children of a variable of many states, which have nothing but defaults."""
    children, k = some(n // 2, 60, 100), some(n // 4, 3, 2**16)
    heads = many(children, lambda i: f"probability({short(i + 1)}|0){{default {int(i == children - 1) + 1};}}")
    first = f"probability(0){{default 1{' 0' * (k - 1)};}}"
    return variable(0, k) + many(children, lambda i: variable(i + 1)) + heads + first


BIF = {
    "variables": lambda n: many(some(n, 34), variable),
    "heads": lambda n: many(some(n, 17, 10**6), lambda i: f"probability({short(i)}){{}}"),
    "parents": lambda n: f"{variable(0)}probability(0|{' '.join(map(short, range(1, some(n, 4))))}){{}}",
    "parents and commas": lambda n: f"{variable(0)}probability(0|{','.join(map(short, range(1, some(n, 4))))}){{}}",
    "one parent twice": lambda n: f"{variable(0)}{variable(1)}probability(0|{'1 ' * some(n, 2)}){{}}",
    "tables": lambda n: roots(n, last="{table 2;}"),
    "rows of one": lambda n: roots(n, last="{()2;}").replace("table", "()"),
    "defaults": lambda n: roots(n, last="{default 2;}").replace("table", "default"),
    "tables of two": lambda n: roots(n, 2, last="{table .5 .6;}"),
    "a last byte": lambda n: roots(n)[:-1],
    "a last brace": lambda n: roots(n) + "}",
    "in wide characters": lambda n: f"//\U0001f600\n{roots(n, last='{table 2;}')}",
    "labels": states,
    "labels in wide characters": lambda n: f"//\U0001f600\n{states(n)}",
    "quoted labels": lambda n: states(n, "", '"'),
    "labels and commas": lambda n: states(n, ","),
    "labels and slashes": lambda n: states(n, "/,"),
    "a label twice": lambda n: states(n, twice=True),
    "one label": lambda n: f"variable a{{type discrete[{n // 2}]{{/**/{'a ' * (n // 2)}}};}}",
    "labels and a table": lambda n: states(n // 2, behind=f"probability(x){{table {'0 ' * (some(n // 2, 4) - 1)}2;}}"),
    "variables of many labels": lambda n: many(some(n, 1500), lambda i: variable(i, 500)) + "x",
    "pairs of labels": lambda n: rows(n, "({},{})1;"),
    "pairs of labels and comments": lambda n: rows(n, "({},{})1/**/;"),
    "one wide parent": one_wide_parent,
    "dense": dense,
}


# --- XMLBIF -----------------------------------------------------------------------------------------------------------


def xml(inside):
    return f"<BIF><NETWORK>{inside}</NETWORK></BIF>"


def xml_roots(n, last):
    k = some(n, 115)
    declared = many(k, lambda i: f"<VARIABLE><NAME>{short(i)}</NAME><OUTCOME>a</OUTCOME></VARIABLE>")
    tables = many(k - 1, lambda i: f"<DEFINITION><FOR>{short(i)}</FOR><TABLE>1</TABLE></DEFINITION>")
    return xml(f"{declared}{tables}<DEFINITION><FOR>{short(k - 1)}</FOR><TABLE>{last}</TABLE></DEFINITION>")


XMLBIF = {
    "tables": lambda n: xml_roots(n, "2"),
    "a last byte": lambda n: xml_roots(n, "1")[:-1],
    "definitions": lambda n: xml(many(some(n, 41), lambda i: f"<DEFINITION><FOR>{short(i)}</FOR></DEFINITION>")),
    "empty tables": lambda n: xml(f"<DEFINITION><FOR>a</FOR>{'<TABLE/>' * (n // 8)}</DEFINITION>"),
    "cut numbers": lambda n: xml_roots(1, "1<??>" * (n // 5)),
    "cut nothing": lambda n: xml_roots(1, "<??>" * (n // 4)),
    "a cut name": lambda n: xml(f"<VARIABLE><NAME>{'a<??>' * (n // 5)}"),
    "names": lambda n: xml(f"<VARIABLE>{'<NAME>a</NAME>' * (n // 14)}</VARIABLE>"),
    "givens": lambda n: xml(
        f"<DEFINITION><FOR>a</FOR>{many(n // 18, lambda i: f'<GIVEN>{short(i)}</GIVEN>')}</DEFINITION>"
    ),
    "outcomes": lambda n: xml(
        f"<VARIABLE><NAME>a</NAME>{many(n // 22, lambda i: f'<OUTCOME>{short(i)}</OUTCOME>')}</VARIABLE>"
    ),
    "references": lambda n: xml(f"<VARIABLE><NAME>{'&#128512;' * (n // 9)}</NAME>"),
}


# --- UAI --------------------------------------------------------------------------------------------------------------


def uai_roots(n, last):
    k = some(n, 13)
    return f"BAYES {k} {'1 ' * k}{k} {many(k, lambda i: f'1 {i} ')}{'1 1 ' * (k - 1)}{last}"


def one_child(n, last):
    """A variable whose parents are all others."""
    k = some(n, 17)
    scopes = many(k - 1, lambda i: f"1 {i + 1} ") + f"{k} {many(k, lambda i: f'{(i + 1) % k} ')}"
    return f"BAYES {k} {'1 ' * k}{k} {scopes}{'1 1 ' * (k - 1)}{last}"


def named(n, comment, behind=""):
    k = some(n, 30)
    return f"MARKOV {k} {'1 ' * k}0 {behind}\n{many(k, lambda i: f'#variable {i}:{comment(i)}{chr(10)}')}"


def named_states(n, label):
    k = some(n, 8, 2**18)
    return f"MARKOV 1 {k} 0 x\n#variable 0:[{','.join(label(i) for i in range(k + 1))}]"


UAI = {
    "roots": lambda n: uai_roots(n, "1 2"),
    "roots cut off": lambda n: uai_roots(n, "1"),
    "roots and more": lambda n: uai_roots(n, "1 1 1"),
    "roots in wide characters": lambda n: f"#\U0001f600\n{uai_roots(n, '1 2')}",
    "one child": lambda n: one_child(n, "1 2"),
    "variables": lambda n: f"BAYES {some(n, 2)} {'1 ' * some(n, 2)}",
    "variables without tables": lambda n: f"BAYES {some(n, 2)} {'1 ' * some(n, 2)}0",
    "scopes": lambda n: f"MARKOV 2 1 1 {n // 6} {'2 0 1 ' * (n // 6)}",
    "constants": lambda n: f"MARKOV 1 1 {n // 6} {'0 ' * (n // 6)}{'1 1 ' * (n // 6 - 1)}1 0",
    "numbers": lambda n: f"MARKOV 2 8 {n // 16} 1 2 0 1 {n // 16 * 8} {'1 ' * (n // 16 * 8 - 1)}-1",
    "names": lambda n: named(n, lambda i: f'["{i}","a"]', "x"),
    "one name": lambda n: named(n, lambda i: '["a","b"]'),
    "labels": lambda n: named_states(n, lambda i: f'"{short(i)}"'),
    "one label": lambda n: named_states(n, lambda i: '"a"'),
    "lists": lambda n: named_states(n, lambda i: "[]"),
    "objects": lambda n: named_states(n, lambda i: f'{{"{short(i)}":[]}}'),
    "comments": lambda n: f"{'#' + chr(10)}" * (n // 2) + "MARKOV",
}

# --- NET, DSC, XDSL ---------------------------------------------------------------------------------------------------


def net_roots(n, last):
    k = some(n, 52)
    nodes = many(k, lambda i: f'node a{short(i)}{{states=("a");}}')
    return nodes + many(k - 1, lambda i: f"potential(a{short(i)}){{data=(1);}}") + f"potential(a{short(k - 1)}){last}"


def net_wide(n, numbers):
    """A child of one state, with a row for each of a parent's states."""
    k = some(n, 12, 2**18)
    labels = many(k, lambda i: f'"{short(i)}"')
    nodes = f'node a{{states=("x");}}node b{{states=({labels});}}'
    return f"{nodes}potential(b){{data=(1{' 0' * (k - 1)});}}potential(a|b){{data={numbers(k)};}}"


NET = {
    "roots": lambda n: net_roots(n, "{data=(2);}"),
    "roots cut off": lambda n: net_roots(n, "{data=(1);"),
    "rows": lambda n: net_wide(n, lambda k: f"({'(1)' * (k - 1)}(2))"),
    "a flat table": lambda n: net_wide(n, lambda k: f"(1{' 1' * (k - 2)} 2)"),
    "brackets": lambda n: net_wide(n // 2, lambda k: "(" * (n // 2)),
    "states": lambda n: f"node a{{states=({many(n // 5, lambda i: f'{short(i)} ')}a);}}x",
    "one state": lambda n: f"node a{{states=({'a ' * (n // 2)});}}",
    "attributes": lambda n: f"node a{{{'a=1;' * (n // 4)}}}",
    "parents": lambda n: f'node a{{states=("x");}}potential(a|{"a " * (n // 2)}){{}}',
    "comments": lambda n: "%\n" * (n // 2) + "x",
    "names": lambda n: net_roots(n // 2, "{data=(1);}") + many(n // 30, lambda i: f'\n% variable {i}: ["a", "b"]'),
}


def dsc_rows(n, last):
    k = some(n, 14, 2**16)
    nodes = (
        f'node a{{type:discrete[1]={{"x"}};}}node b{{type:discrete[{k}]={{{many(k, lambda i: f"{short(i)},")[:-1]}}};}}'
    )
    rows = many(k - 1, lambda i: f"({i}):1;")
    return f"{nodes}probability(b){{1{',0' * (k - 1)};}}probability(a|b){{{rows}{last}}}"


DSC = {
    "rows": lambda n: dsc_rows(n, "default:2;"),
    "a row of digits": lambda n: dsc_rows(n, f"({'9' * n}):1;"),
    "keys": lambda n: f"node a{{{'a:b;' * (n // 4)}}}",
    "belief": lambda n: "belief network a " * (n // 17) + "x",
}


def smile(inside):
    return f"<smile><nodes>{inside}</nodes></smile>"


def xdsl_roots(n, last):
    k = some(n, 80)
    return smile(
        many(k, lambda i: f'<cpt id="a{short(i)}"><state id="a"/><probabilities>{last if i == k - 1 else 1}'
        "</probabilities></cpt>")
    )  # fmt: skip


XDSL = {
    "roots": lambda n: xdsl_roots(n, "2"),
    "a last byte": lambda n: xdsl_roots(n, "1")[:-1],
    "states": lambda n: smile(
        f'<cpt id="a">{many(n // 18, lambda i: f"<state id={chr(34)}{short(i)}{chr(34)}/>")}</cpt>'
    ),
    "parents": lambda n: smile(
        f'<cpt id="a"><state id="x"/><parents>{"a " * (n // 2)}</parents><probabilities/></cpt>'
    ),
    "cut numbers": lambda n: xdsl_roots(1, "1<??>" * (n // 5)),
    "extensions": lambda n: f"<smile><extensions>{'<a/>' * (n // 4)}</extensions>",
    "empty parents": lambda n: smile(f"<cpt id='a'>{'<parents/>' * (n // 10)}</cpt>"),
}

# --- JSON -------------------------------------------------------------------------------------------------------------


def nodes(inside, kind="Gaussian"):
    return f'{{"format":"doxa network","version":1,"kind":"{kind}","nodes":[{inside}]}}'


def texts(k, behind=""):
    return ",".join(f'"{short(i)}{behind}"' for i in range(k))


def category(i, table):
    return f'{{"name":"{short(i)}","states":["a"],"parents":[],"table":[{table}]}}'


def json_roots(n, last, tail=""):
    k = some(n, 56)
    return nodes(",".join(category(i, last if i == k - 1 else 1) for i in range(k))) + tail


def lines(n, last):
    """Numbers, each with the one before it as a parent."""
    k = some(n, 85)
    return nodes(
        ",".join(
            f'{{"name":"{short(i)}","parents":[{f"{chr(34)}{short(i - 1)}{chr(34)}" if i else ""}],"regression":'
            f'{{"intercept":0,"coefficients":[{1 if i else ""}],"sd":{last if i == k - 1 else 1}}}}}'
            for i in range(k)
        )
    )


def json_wide(n, rows):
    """A child of one state or a number, with a row for each of a parent's states."""
    k = some(n, 9, 2**18)
    parent = f'{{"name":"b","states":[{texts(k)}],"parents":[],"table":[1{",0" * (k - 1)}]}}'
    return nodes(f'{parent},{{"name":"a","parents":["b"],{rows(k)}}}')


def states_and_numbers(k, behind):
    return f'"regression":{{"intercept":[0{",0" * (k - 1)}],"coefficients":[[]{",[]" * (k - 1)}],"sd":[1{behind}]}}'


def cpd(parents, intercept="0"):
    named = "".join(f',"{name}":[1]' for name in parents)
    listed = ",".join(f'"{name}"' for name in parents)
    return f'{{"coefficients":{{"(Intercept)":[{intercept}]{named}}},"variance":[1],"parents":[{listed}]}}'


def cpds(n, last="-1e999", parents=lambda k: []):
    k = some(n, 80)
    own = ",".join(f'"{short(i)}":{cpd(parents(i), last if i == k - 1 else 0)}' for i in range(k))
    return f'{{"nodes":[{texts(k)}],"arcs":[],"cpds":{{{own}}}}}'


JSON = {
    "roots": lambda n: json_roots(n, 2),
    "a last byte": lambda n: json_roots(n, 1)[:-1],
    "something behind": lambda n: json_roots(n, 1, "x"),
    "in wide characters": lambda n: json_roots(n, 2, " ").replace('"doxa', ' "doxa').replace('"a"', '"\U0001f600"', 1),
    "lines": lambda n: lines(n, -1),
    "states": lambda n: nodes(f'{{"name":"x","states":[{texts(some(n, 5, 2**18))}],"parents":[],"table":[1]}}'),
    "a state twice": lambda n: nodes(
        f'{{"name":"x","states":[{texts(some(n, 5, 2**18))},"0"],"parents":[],"table":[]}}'
    ),
    "one state": lambda n: nodes(f'{{"name":"x","states":[{",".join(["*a*"] * (n // 4))}]}}'.replace("*", '"')),
    "escaped states": lambda n: nodes(
        f'{{"name":"x","states":[{texts(some(n, 11, 2**18), "@u0041")}]}}'.replace("@", chr(92))
    ),
    "parents": lambda n: nodes(
        f'{{"name":"x","parents":[{texts(some(n, 5, 10**6))}],"regression":{{"intercept":0,"sd":1}}}}'
    ),
    "empty rows": lambda n: json_wide(n, lambda k: states_and_numbers(k, ",1" * (k - 2) + ",-1")),
    "too few rows": lambda n: json_wide(n, lambda k: states_and_numbers(k, ",1" * (k - 2))),
    "rows": lambda n: json_wide(n, lambda k: f'"states":["x"],"table":[[1]{",[1]" * (k - 2)},[2]]'),
    "a row too many": lambda n: json_wide(n, lambda k: f'"states":["x"],"table":[[1]{",[1]" * k}]'),
    "a flat table": lambda n: json_wide(n, lambda k: f'"states":["x"],"table":[1{",1" * (k - 1)}]'),
    "a wide row": lambda n: nodes(
        f'{{"name":"x","states":[{texts(some(n, 7, 2**18))}],"parents":[],"table":[2{",0" * (some(n, 7, 2**18) - 1)}]}}'
    ),
    "a cut row": lambda n: nodes(f'{{"name":"x","states":["a"],"parents":[],"table":[{"1," * (n // 2)}nan]}}'),
    "names": lambda n: f'{{"nodes":[{texts(some(n, 5, 10**6))}],"arcs":[],"cpds":{{}}}}',
    "one name": lambda n: f'{{"nodes":[{",".join(["@"] * (n // 4))}],"arcs":[],"cpds":{{}}}}'.replace("@", '"a"'),
    "distributions": cpds,
    "arcs": lambda n: (
        cpds(n // 2, "0").replace('"arcs":[]', f'"arcs":[{",".join(["@"] * (n // 20))}]').replace("@", '["0","1"]')
    ),
    "parents of one": lambda n: (
        f'{{"nodes":[{texts(some(n, 20))}],"arcs":[],"cpds":{{"0":{cpd(list(map(short, range(1, some(n, 20)))))}}}}}'
    ),
    "a parent twice": lambda n: f'{{"nodes":["a","b"],"arcs":[],"cpds":{{"b":{cpd(["a"] * (n // 12))}}}}}',
}

EVIDENCE = {
    "pairs": lambda n: f"{some(n, 7)} {many(some(n, 7) - 1, lambda i: f'{i} 0 ')}0 0",
    "ones": lambda n: "1 " * (n // 2),
    "digits": lambda n: "1" * n,
    "ones in wide characters": lambda n: "#\U0001f600\n" + "1 " * (n // 2),
}

TEXTS = {"bif": BIF, "xml": XMLBIF, "net": NET, "dsc": DSC, "xdsl": XDSL, "uai": UAI, "json": JSON, "evid": EVIDENCE}
FAMILIES = [(end, name) for end, texts in TEXTS.items() for name in texts]
OBSERVABLE = MarkovNetwork({f"X{i}": ["0"] for i in range(MOST)}, [])


def check(folder, end, name, n):
    read = functools.partial(read_evidence_file, network=OBSERVABLE) if end == "evid" else read_network
    return assert_cheap_refusal(folder / f"a.{end}", TEXTS[end][name](n), read)


@pytest.mark.parametrize(("end", "name"), FAMILIES)
def test_refusals_cost_little(tmp_path, end, name):
    for n in (1000, 10_000):
        check(tmp_path, end, name, n)


@pytest.mark.slow
@pytest.mark.parametrize(("end", "name"), FAMILIES)
def test_larger_refusals_cost_little(tmp_path, end, name):
    check(tmp_path, end, name, 400_000)


@pytest.mark.parametrize(
    ("end", "name", "cause"),
    [
        ("bif", "tables", "the probability of '"),
        ("bif", "defaults", "the probability of '"),
        ("bif", "pairs of labels", "the probability of '1' = '0' is 2"),
        ("bif", "one wide parent", "the probability of '"),
        ("bif", "parents", "'1' is not declared"),
        ("bif", "one parent twice", "'0' has the parent '1' more than once"),
        ("bif", "one label", "'a' has the state 'a' more than once"),
        ("bif", "a label twice", "'x' has the state '0' more than once"),
        ("bif", "labels and a table", "the probability of 'x' = '"),
        ("bif", "dense", "there is the cycle "),
        ("xml", "tables", "the probability of '"),
        ("xml", "cut numbers", "there are 2000 numbers for "),
        ("net", "roots", "the probability of 'a"),
        ("net", "rows", "the probability of 'a' = 'x' given 'b' = '"),
        ("net", "a flat table", "the probability of 'a' = 'x' given 'b' = '"),
        ("net", "parents", "this potential has more parents than there are nodes"),
        ("dsc", "rows", "the probability of 'a' = 'x' in the row 'default' is 2"),
        ("xdsl", "roots", "the probability of 'a"),
        ("xdsl", "parents", "'a' has the parent 'a' more than once"),
        ("uai", "roots", "the probability of 'X"),
        ("uai", "one child", "the probability of 'X0' = '0' given "),
        ("uai", "one name", "comments give two variables one name"),
        ("uai", "constants", "factor 1665 is 0 everywhere"),
        ("json", "roots", "the probability of '"),
        ("json", "lines", "the sd of '"),
        ("json", "states", "the table of 'x' should be a list of length "),
        ("json", "a state twice", "'x' has the state '0' more than once"),
        ("json", "parents", "'x' has the parent '0', which is no node; add it to the nodes"),
        ("json", "empty rows", "the sd of 'a' is -1; it must be 0 or more"),
        ("json", "too few rows", "the sd of 'a' should be a list of length "),
        ("json", "rows", "the probability of 'a' = 'x' given 'b' = '"),
        ("json", "a row too many", "the table of 'a' should be lists in lists, 2 deep, of lengths "),
        ("json", "a flat table", "the table of 'a' should be lists in lists, 2 deep, of lengths "),
        ("json", "a wide row", "the probability of 'x' = '0' is 2"),
        ("json", "a cut row", "'nan' stands where a number should; JSON has"),
        ("json", "names", "the variable '0' has no table"),
        ("json", "one name", "the variable 'a' is declared twice"),
        ("json", "distributions", "a coefficient of '"),
        ("json", "arcs", "the arc '0' -> '1' does not stand once in arcs and once in cpds"),
        ("json", "a parent twice", "'b' has the parent 'a' more than once"),
        ("evid", "pairs", "variable 0, 'X0', is observed twice"),
    ],
)
def test_files_fail_where_they_are_meant_to(tmp_path, end, name, cause):
    assert check(tmp_path, end, name, 10_000).startswith(cause)

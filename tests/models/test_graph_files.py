"""`read_parents`: the three forms of a graph file, every way of being broken, and files made to hurt."""

from __future__ import annotations

import contextlib
import gzip
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError, FileError
from doxa.models import LogisticNetwork
from doxa.models.graph_files import MAX_BYTES, MAX_NODES, read_graph, read_parents, write_graph
from support.networks import load_network

ASIA = Path(next(iter(find_spec("pgmpy").submodule_search_locations)), "utils", "example_models", "asia.bif.gz")
LINES = "write 'child: parent parent', and names with blanks, colons or commas in double quotes"
HEADER = "the header names the two ends of an edge, once each: source,target or from,to or parent,child"
BLOCKS = "a BIF file has blocks 'variable NAME { ... }' and 'probability ( CHILD | PARENT ) { ... }'"
CUT_OFF = "the file ends in the block that begins here: it has been cut off"
OPEN_QUOTE = "a quote is not closed on its line, or holds no name; has the file been cut off?"
ABC = "".join(f"variable {name} {{ type discrete [ 2 ] {{ no, yes }}; }}\n" for name in "abc")


def read(folder, name, text):
    path = Path(folder, name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_parents(path)


def refusal(folder, name, text):
    """What is said of a file, without its name."""
    with pytest.raises(FileError) as refused:
        read(folder, name, text)
    said = str(refused.value)
    assert said.startswith(f"graph '{folder}/{name}'")
    return said.removeprefix(f"graph '{folder}/{name}'").removeprefix(": ")


# --- lines ------------------------------------------------------------------------------------------------------------


GOOD_LINES = {
    "blanks": ("c: a b", {"c": ["a", "b"], "a": [], "b": []}),
    "commas": ("c:a,b ,d", {"c": ["a", "b", "d"], "a": [], "b": [], "d": []}),
    "in their order": ("c: b a\nb: a\nd: c", {"c": ["b", "a"], "b": ["a"], "d": ["c"], "a": []}),
    "nodes alone": ("c\nd:\n  e  ", {"c": [], "d": [], "e": []}),
    "comments": ("# a graph\nc: a # b\n#d\n\nd#1: #x", {"c": ["a"], "d#1": [], "a": []}),
    "quotes": ('"a b": "c:d" e, "f,g" "say ""x"""', {"a b": ["c:d", "e", "f,g", 'say "x"'], "c:d": [], "e": [],
                                                     "f,g": [], 'say "x"': []}),
    "quoted marks": ('"#": "," ":"', {"#": [",", ":"], ",": [], ":": []}),
    "a mark of the byte order, line ends of Windows": ("\ufeffc: a\r\nd: c\r\n", {"c": ["a"], "d": ["c"], "a": []}),
    "letters": ("é: 日本", {"é": ["日本"], "日本": []}),
    "tabs": ("\tc\t:\ta\t,\tb\t", {"c": ["a", "b"], "a": [], "b": []}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD_LINES)
def test_lines_name_a_child_and_its_parents(tmp_path, name):
    text, parents = GOOD_LINES[name]
    found = read(tmp_path, "graph.txt", text)
    assert found == parents
    assert list(found) == list(parents)


BAD_LINES = {
    "no colon": ("c: a\nheart smokes", f"line 2: 'heart smokes' cannot be read; {LINES}"),
    "two colons": ("c: a: b", f"line 1: 'c: a: b' cannot be read; {LINES}"),
    "no child": (": a", f"line 1: ': a' cannot be read; {LINES}"),
    "a comma first": ("c: , a", f"line 1: 'c: , a' cannot be read; {LINES}"),
    "a comma last": ("c: a,", f"line 1: 'c: a,' cannot be read; {LINES}"),
    "two commas": ("c: a,,b", f"line 1: 'c: a,,b' cannot be read; {LINES}"),
    "an arrow": ("a -> b", f"line 1: 'a -> b' cannot be read; {LINES}"),
    "an open quote": ('c: "a b', f"line 1: 'c: \"a b' cannot be read; {LINES}"),
    "an empty name": ('c: ""', f"line 1: 'c: \"\"' cannot be read; {LINES}"),
    "no blank after a quote": ('c: "a"b', f"line 1: 'c: \"a\"b' cannot be read; {LINES}"),
    "a long line": ("x " * 100, f"line 1: '{'x ' * 30}' cannot be read; {LINES}"),
    "control characters": ("a\x1b[31m b", f"line 1: 'a\\x1b[31m b' cannot be read; {LINES}"),
    "a child twice": ("c: a\nd: c\nc: b", "line 3: 'c' has its parents on line 1 already; name all of them there"),
    "alone, then not": ("c\nc: b", "line 2: 'c' has its parents on line 1 already; name all of them there"),
    "a parent twice": ("c: a b a", "line 1: 'c' has the parent 'a' more than once; name it once"),
    "empty": ("", f" names no nodes; {LINES}"),
    "comments alone": ("# c: a\n\n", f" names no nodes; {LINES}"),
    "not UTF-8": (b"c: a\nd: caf\xe9", " is not UTF-8 text: line 2 contains the byte 0xe9; convert it to UTF-8"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_lines_that_cannot_be_read_are_refused(tmp_path, name):
    text, message = BAD_LINES[name]
    assert refusal(tmp_path, "graph.txt", text) == message


NAMES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=4), min_size=1, max_size=5), st.randoms())
def test_every_name_in_quotes_comes_back(tmp_path, parents, random):
    def quoted(name):
        return '"{}"'.format(name.replace('"', '""'))

    lines = [
        f"{quoted(child)}:" + "".join(random.choice([" ", ", ", ","][k > 0 :] if k else [" ", ""]) + quoted(parent)
                                     for k, parent in enumerate(group))
        for child, group in parents.items()
    ]  # fmt: skip
    found = read(tmp_path, "graph", "\n".join(lines))
    assert {child: found[child] for child in parents} == parents
    assert set(found) == {*parents, *(parent for group in parents.values() for parent in group)}


# --- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("source,target", "{0},{1}"),
        ("from,to", "{0},{1}"),
        ("parent,child", "{0},{1}"),
        ("Target, weight ,SOURCE", "{1},3,{0}"),
        ("source;target", "{0};{1}"),
        ("source\ttarget", "{0}\t{1}"),
        ('"source","target"', '"{0}","{1}"'),
    ],
)
def test_edges_stand_under_names_of_their_ends(tmp_path, header, row):
    text = "\n".join([header, *(row.format(*edge) for edge in ("ac", "bc", "cd")), ""])
    assert read(tmp_path, "edges.csv", text) == {"a": [], "c": ["a", "b"], "b": [], "d": ["c"]}


def test_probable_edges_are_taken_and_all_names_are_nodes(tmp_path):
    text = "source,target,probability,ess\na,b,0.51,7\nb,a,0.5,7\nc,b,1e-3,7\nb,d,1,7\n"
    assert read(tmp_path, "edges.csv", text) == {"a": [], "b": ["a"], "c": [], "d": ["b"]}


def test_what_learn_writes_can_be_read(tmp_path):
    edges = doxa.learn(doxa.datasets.load("reinis"), seed=1).edges()
    edges.to_csv(tmp_path / "edges.csv", index=False)
    found = read_parents(tmp_path / "edges.csv")
    probable = edges[edges["probability"] > 0.5]
    assert {(parent, child) for child, group in found.items() for parent in group} == {
        *zip(probable["source"], probable["target"], strict=True)
    }
    assert set(found) == set(edges["source"])


BAD_EDGES = {
    "no header": ("a,b\nb,c", f"line 1: {HEADER}"),
    "half a header": ("source,b\nb,c", f"line 1: {HEADER}"),
    "a header twice": ("source,target,source\na,b,c", f"line 1: {HEADER}"),
    "a header without end": ("source" + "," * 10**6, f"line 1: there are more than 1000 cells; {HEADER}"),
    "empty": ("", f"line 1: {HEADER}"),
    "no edges": ("source,target\n", f" names no nodes; {HEADER}"),
    "ragged": ("source,target\na,b\na\n", "line 3: there are 1 cells, and the header has 2"),
    "an empty end": ("source,target\na,\n", "line 2: an end of the edge is empty; name both nodes"),
    "an edge twice": ("from,to\na,b\nc,b\n\na,b\n", "line 5: the edge 'a' -> 'b' is on line 2 already"),
    "a share": (
        "from,to,probability\na,b,55%\n",
        "line 2: the probability is '55%'; it must be a number from 0 to 1 (edges above 0.5 are taken)",
    ),
    "not a number": (
        "from,to,probability\na,b,nan\n",
        "line 2: the probability is 'nan'; it must be a number from 0 to 1 (edges above 0.5 are taken)",
    ),
    "an open quote": (
        'from,to\na,b\n"a,c\n',
        "line 3: unexpected end of data; put names that hold a separator or a quote in double quotes",
    ),
}


@pytest.mark.parametrize("name", BAD_EDGES)
def test_edges_that_cannot_be_read_are_refused(tmp_path, name):
    text, message = BAD_EDGES[name]
    assert refusal(tmp_path, "edges.csv", text) == message


# --- BIF --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["asia", "alarm", "insurance", "child", "hailfinder", "munin1", "pathfinder", "link"])
def test_reference_networks_have_their_graphs(name):
    expected = load_network(name)
    found = read_parents(ASIA.with_name(f"{name}.bif.gz"))
    assert tuple(found) == expected.dag.names
    for i, node in enumerate(expected.dag.names):
        assert found[node] == [expected.dag.names[p] for p in expected.orders[i]]
    assert LogisticNetwork(found).dag.n_edges == expected.dag.n_edges


def test_odd_but_sound_bif_files_are_read(tmp_path):
    text = (
        '// a { comment\nnetwork "a } network" { property "x { y" ; /* } */ // }\n }\r\n'
        'variable "a b" { type discrete [ 2 ] { "{", yes }; }\nvariable c/1{}variable/**/d { { { } } }'
        'probability(c/1|"a b",d){ (no, yes) 0.1, 0.9; }\nprobability ( "a b" ) { table 1; } /* end { */'
        "probability\n(\nd\n)\n{\n}\n"
    )
    assert read(tmp_path, "odd.BIF", text) == {"a b": [], "c/1": ["a b", "d"], "d": []}


def test_commas_and_bars_may_be_left_out_of_heads(tmp_path):
    text = ABC + "probability ( a b c ) {} probability ( b | c ) {} probability ( c ) {}"
    assert read(tmp_path, "graph.bif", text) == {"a": ["b", "c"], "b": ["c"], "c": []}


def test_every_truncation_of_a_bif_file_is_refused(tmp_path):
    text = gzip.decompress(ASIA.read_bytes()).decode().rstrip()
    whole = read(tmp_path, "asia.bif", text)
    for length in range(len(text)):
        refusal(tmp_path, "asia.bif", text[:length])
    assert read(tmp_path, "asia.bif", text + "\n") == whole


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["variable", "probability", "network", "a", "b", '"a"', "{", "}", "(", ")", "|", ",",
                                 ";", "//", "/*", "*/", '"', "\n", " "]), max_size=40))  # fmt: skip
def test_no_bif_text_ends_in_anything_but_words(tmp_path, words):
    for text in (" ".join(words), "".join(words), ABC + " ".join(words)):
        with contextlib.suppress(FileError):
            read(tmp_path, "any.bif", text)


BAD_BIF = {
    "empty": ("", f" names no nodes; {BLOCKS}"),
    "a network alone": ("network x {\n}\n", f" names no nodes; {BLOCKS}"),
    "another format": ("net\n{\n}\n", f"line 1: 'net' begins no block; {BLOCKS}"),
    "cut in a block": ("network x {}\nvariable a {\n type", f"line 2: {CUT_OFF}"),
    "cut in a head": (f"{ABC}probability ( a | b", f"line 4: {CUT_OFF}"),
    "cut between blocks": (
        f"{ABC}probability ( a ) {{}} probability ( b ) {{}}",
        "line 3: the variable 'c' has no table; has the file been cut off?",
    ),
    "cut in a comment": ("network x {}\n/* variable", "line 2: a comment is not closed; has the file been cut off?"),
    "cut in a quote": ('network x { "', f"line 1: {OPEN_QUOTE}"),
    "an open quote": ('variable "a\n{', f"line 1: {OPEN_QUOTE}"),
    "twice declared": (ABC + "variable b {}", "line 4: the variable 'b' is declared twice; take one of the two away"),
    "twice a child": (
        ABC + "probability ( a ) {}\nprobability ( a | b ) {}",
        "line 5: there is a second table of 'a'; take one of the two away",
    ),
    "twice a parent": (
        ABC + "probability ( a | b, b ) {}",
        "line 4: 'a' has the parent 'b' more than once; name it once",
    ),
    "an unknown parent": (
        ABC + "probability ( a | d ) {}",
        "line 4: 'd' is not declared as a variable",
    ),
    "an unknown child": (
        ABC + "\nprobability ( e ) {}",
        "line 5: 'e' is not declared as a variable",
    ),
    "no name": ("variable { }", f"line 1: '{{' stands where a name should; {BLOCKS}"),
    "no child": (ABC + "probability ( ) {}", f"line 4: ')' stands where a name should; {BLOCKS}"),
    "no block": ("variable a b {", f"line 1: 'b' stands where '{{' should; {BLOCKS}"),
    "no head": (ABC + "probability a {}", f"line 4: 'a' stands where '(' should; {BLOCKS}"),
    "a joint distribution": (
        ABC + "probability ( a, b ) {}",
        f"line 4: the head of a probability is not of the form '( CHILD | A, B )'; {BLOCKS}",
    ),
    "a comma left out": (
        ABC + "probability ( a | b, c a ) {}",
        f"line 4: the head of a probability is not of the form '( CHILD | A, B )'; {BLOCKS}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_BIF)
def test_bif_files_that_cannot_be_read_are_refused(tmp_path, name):
    text, message = BAD_BIF[name]
    assert refusal(tmp_path, "network.bif", text) == message


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_that_cannot_be_opened_are_refused(tmp_path):
    with pytest.raises(FileError, match=rf"^graph: no file 'graph.txt' in '{tmp_path}'$"):
        read_parents(tmp_path / "graph.txt")
    with pytest.raises(FileError, match=r"^graph: no file 'graph.txt' in '/no/such'$"):
        read_parents("/no/such/graph.txt")
    with pytest.raises(FileError, match=rf"^graph '{tmp_path}' is a folder; name a file in it$"):
        read_parents(tmp_path)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(FileError, match=r"pipe.txt' is no regular file; save its content in one$"):
        read_parents(tmp_path / "pipe.txt")
    with pytest.raises(FileError, match=r"' cannot be opened: "):
        read_parents("a\0b.txt")
    with pytest.raises(ArgumentTypeError, match=r"^graph is 3; it must be the name of a file$"):
        read_parents(3)


@pytest.mark.parametrize("end", [".parquet", ".parquet.gz"])
def test_other_formats_are_refused_by_their_names(tmp_path, end):
    with pytest.raises(FileError) as refused:
        read_parents(tmp_path / f"graph{end}")
    kind = end.lower().removesuffix(".gz")
    assert str(refused.value) == (
        f"graph '{tmp_path}/graph{end}': files that end in {kind} are not read as graphs; give a network file, a .dot "
        "file, edges in a .csv file, or lines 'child: parent parent' in a .txt file"
    )


def test_packed_files_are_read_and_damage_is_seen(tmp_path):
    packed = gzip.compress(b"c: a b")
    assert read(tmp_path, "graph.txt.gz", packed)["c"] == ["a", "b"]
    assert read(tmp_path, "edges.csv.gz", gzip.compress(b"from,to\na,b\n")) == {"a": [], "b": ["a"]}
    for damaged in (packed[:-9], b"c: a b", packed[:12] + bytes([packed[12] ^ 0xFF]) + packed[13:]):
        assert refusal(tmp_path, "graph.txt.gz", damaged).startswith(" is not a gzip file, or is damaged: ")


def test_files_that_are_too_large_are_refused(tmp_path):
    large = f" holds more than {MAX_BYTES >> 20} MiB, far more than a graph needs"
    assert refusal(tmp_path, "bomb.txt.gz", gzip.compress(bytes(2**28))) == large
    with Path(tmp_path, "missing_cell.bif").open("wb") as missing_cell:
        missing_cell.truncate(2**40)
    with pytest.raises(FileError, match=large):
        read_parents(tmp_path / "missing_cell.bif")
    many = f" has more than {MAX_NODES} nodes, the most that can be used"
    assert refusal(tmp_path, "graph.txt", "\n".join(f"x{i}" for i in range(MAX_NODES + 1))) == many
    assert refusal(tmp_path, "graph.txt", "c: " + " ".join(f"x{i}" for i in range(MAX_NODES))) == many
    assert refusal(tmp_path, "edges.csv", "from,to\n" + "".join(f"{i},c\n" for i in range(MAX_NODES))) == many
    assert refusal(tmp_path, "x.bif", "".join(f"variable x{i}{{}}" for i in range(MAX_NODES + 1))) == many
    assert len(read(tmp_path, "graph.txt", "\n".join(f"x{i}" for i in range(MAX_NODES)))) == MAX_NODES


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.bif", "network x {" + "/*/" * 2**17),
        ("b.bif", "network x {" + "{" * 2**19),
        ("c.bif", "network x {" + '"' * 2**19),
        ("d.bif", "/" * 2**19),
        ("e.bif", "// x\n" * 2**17),
        ("f.bif", "variable a {} " + "probability ( " * 2**16),
        ("a.txt", '"' * (2**19 - 1)),
        ("b.txt", "a: " + "b  " * 2**18 + ","),
        ("c.txt", "a" + " " * 2**19 + "b"),
        ("d.txt", "a: " + '"" ' * 2**18),
        ("a.csv", '"' * 2**19),
        ("b.csv", "source,target\n" + "," * 2**19),
    ],
)
def test_files_made_to_take_long_end_in_words(tmp_path, name, text):
    assert len(refusal(tmp_path, name, text)) < 400


@pytest.mark.parametrize(("text", "cycle"), [("a: b\nb: c\nc: a\n", "a -> c -> b -> a"), ("a: a\n", "a -> a")])
def test_cycles_are_named_by_the_network(tmp_path, text, cycle):
    with pytest.raises(ArgumentError) as refused:
        LogisticNetwork(read(tmp_path, "graph.txt", text))
    assert str(refused.value) == f"parents has the cycle {cycle}; remove one of its edges"


# --- DOT --------------------------------------------------------------------------------------------------------------


GOOD_DOT = {
    "edges": ("digraph { a -> b; c -> b }", {"a": [], "b": ["a", "c"], "c": []}),
    "a chain, a group": ("strict digraph g {a->b->{c d}->e}",
                         {"a": [], "b": ["a"], "c": ["b"], "d": ["b"], "e": ["c", "d"]}),
    "nodes alone": ("DIGRAPH{a;b c,d}", {"a": [], "b": [], "c": [], "d": []}),
    "quotes": ('digraph "g" {"a b" -> "say \\"x\\"" -> "#";}', {"a b": [], 'say "x"': ["a b"], "#": ['say "x"']}),
    "attributes": ('digraph {\nrankdir=LR; node [shape="box]"]; edge[color=red]; a [l="a -> z"][x=1]\na -> b [w=2]}',
                   {"a": [], "b": ["a"]}),
    "comments": ("# one\n/* two -> */ digraph { // three\na -> b\n# four\n;}", {"a": [], "b": ["a"]}),
    "ports": ("digraph { a:n -> b:f0:s }", {"a": [], "b": ["a"]}),
    "a cluster": ("digraph { subgraph cluster_1 { label=x; a -> b } -> c; subgraph {d} }",
                  {"a": [], "b": ["a"], "c": ["a", "b"], "d": []}),
    "numbers": ("digraph { 1 -> -2.5 -> .5 }", {"1": [], "-2.5": ["1"], ".5": ["-2.5"]}),
    "an edge twice": ("digraph { a -> b; a -> b }", {"a": [], "b": ["a"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD_DOT)
def test_graphs_of_graphviz_are_read(tmp_path, name):
    text, parents = GOOD_DOT[name]
    for end in (".dot", ".gv"):
        found = read(tmp_path, f"graph{end}", text)
        assert found == parents
        assert list(found) == list(parents)
    assert read(tmp_path, "graph.dot.gz", gzip.compress(text.encode())) == parents


DOT = "a DOT file is of the form 'digraph { a -> b; \"node c\"; }'"
BAD_DOT = {
    "a list": ("a: b", f"line 1: {DOT}"),
    "a graph": ("graph { a -- b }", "line 1: the edges of a 'graph' have no direction; write a 'digraph'"),
    "a line": ("digraph {\na -- b }", "line 2: the edge '--' has no direction; write '->'"),
    "no brace": ("digraph g", f"line 1: '' stands where '{{' should; {DOT}"),
    "cut off": ("digraph {\na ->", f"line 2: the end of the file stands where a name should; {DOT}"),
    "cut in a quote": ('digraph {\n"a', f"line 2: '\"' stands where a name should; {DOT}"),
    "cut in attributes": ("digraph {\na [x\n", "line 2: the attributes that begin here are not closed; has"),
    "an empty name": ('digraph { "" }', f"line 1: '\"\"' stands where a name should; {DOT}"),
    "two graphs": ("digraph {a}\ndigraph {b}", "line 2: something stands behind the graph's closing brace; "),
    "a comment in a line": ("digraph { a -> b # c\n}", f"line 1: '#' stands where a name should; {DOT}"),
    "a nest": ("digraph {" + "{" * 20, "line 1: groups are nested more than 16 deep"),
    "too many edges": (
        "digraph { {" + " ".join(map(str, range(1001))) + "} -> {" + " ".join(map(str, range(1001))) + "} }",
        "line 1: the edges up to here are more than 1000000, the most that are read",
    ),
    "nothing": ("digraph {}", f" names no nodes; {DOT}"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_DOT)
def test_dot_files_that_cannot_be_read_are_refused(tmp_path, name):
    text, message = BAD_DOT[name]
    said = refusal(tmp_path, "graph.dot", text)
    assert said.startswith(message.removesuffix("...").removesuffix("'..."))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(min_size=1, max_size=4).filter(lambda name: not name.endswith("\\")), min_size=2, max_size=5,
                unique=True))  # fmt: skip
def test_graphs_come_back_from_dot(tmp_path, names):
    dag = doxa.Dag.from_edges([(names[0], names[-1]), *((names[1], name) for name in names[2:])], names)
    try:
        write_graph(dag, tmp_path / "g.dot")
    except (ArgumentError, FileError) as error:
        assert "which DOT cannot hold" in str(error) or "half a character" in str(error)  # noqa: PT017
    else:
        assert read_graph(tmp_path / "g.dot") == dag


def test_a_graph_is_written_as_people_write_it(tmp_path):
    write_graph(doxa.Dag.from_edges([("a", "b c")], ["a", "b c", "d"]), tmp_path / "g.gv")
    assert (tmp_path / "g.gv").read_text() == 'digraph {\n  "a";\n  "b c";\n  "d";\n  "a" -> "b c";\n}\n'
    with pytest.raises(ArgumentError, match=r"its end must be one of .dot, .gv, also with .gz$"):
        write_graph(doxa.Dag.from_edges([("a", "b")]), tmp_path / "g.txt")
    with pytest.raises(ArgumentTypeError, match=r"^graph is of type int; give a Dag, such as network.dag$"):
        write_graph(3, tmp_path / "g.dot")
    for name in ("a\\", 'a\\"b', "a\\\nb"):
        with pytest.raises(
            ArgumentError, match=r"a backslash before a quote, a line break or its end, which DOT cannot"
        ):
            write_graph(doxa.Dag.from_edges([(name, "b")]), tmp_path / "g.dot")


@pytest.mark.parametrize("end", [".xml", ".net", ".dsc", ".xdsl", ".uai", ".json.gz"])
def test_the_graph_of_a_network_is_read_from_every_format(tmp_path, end):
    network = doxa.read_network(ASIA)
    doxa.write_network(network, tmp_path / f"asia{end}")
    assert read_graph(tmp_path / f"asia{end}") == network.dag


def test_an_undirected_network_has_no_parents(tmp_path):
    doxa.write_network(doxa.ising_grid(2, 2, coupling=0.1), tmp_path / "a.uai")
    assert refusal(tmp_path, "a.uai", (tmp_path / "a.uai").read_bytes()) == (
        " holds an undirected network, which has no parents"
    )

"""Files made to hurt: each ends in words, in time linear in its size, and in memory of a few times its size."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import time

import numpy as np
import pytest
from network_texts import BIF, MAX_SECONDS, MODELS, UAI, assert_cheap_refusal, read, refusal

from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError
from doxa.models.network_files import Limits, NetworkFileError, read_network

N = 30_000


def variables(n, n_states=2):
    labels = ", ".join(f"s{k}" for k in range(n_states))
    return "".join(f"variable x{i} {{ type discrete [ {n_states} ] {{ {labels} }}; }}\n" for i in range(n))


def roots(names):
    return "".join(f"probability ( {name} ) {{ table 1, 0; }}\n" for name in names)


def uai_roots(n, n_states, last):
    scopes = " ".join(f"1 {i}" for i in range(n))
    return f"BAYES {n} {f'{n_states} ' * n} {n} {scopes} {'1 1 ' * (n - 1)} {last}"


PARENTS = ", ".join(f"x{i}" for i in range(1, 36))
MANY_PARENTS = (
    variables(36) + roots(f"x{i}" for i in range(1, 36)) + f"probability ( x0 | {PARENTS} ) {{ default 1, 0; }}"
)
ZEROS = gzip.compress(bytes(2**26), 1)
UAI_PARENTS = " ".join(map(str, range(36)))
DEFAULT = variables(20) + roots(f"x{i}" for i in range(1, 19))


def gaussian(nodes):
    return f'{{"format": "doxa network", "version": 1, "kind": "Gaussian", "nodes": [{nodes}]}}'


def json_roots(n, states=("a", "b"), table=(0.5, 0.5)):
    made = [{"name": f"x{i}", "states": states, "parents": [], "table": table} for i in range(n)]
    return ", ".join(map(json.dumps, made))


def json_child(n, key, value):
    return json.dumps({"name": "y", "states": ["a", "b"], "parents": [f"x{i}" for i in range(n)], key: value})


def json_next(i, n):
    """A number that depends on the next of n."""
    line = {"intercept": 0, "coefficients": [1], "sd": 1}
    return json.dumps({"name": str(i), "parents": [str((i + 1) % n)], "regression": line})


def hostile(n):
    """Files of about n bytes, but for those whose harm lies in what they declare."""
    return {
    "variables.bif": "variable " * (n // 9),
    "heads.bif": "probability ( " * (n // 14),
    "networks.bif": "network a { } " * (n // 14) + "x",
    "braces.bif": "{" * n,
    "quotes.bif": "network x {" + '"' * n,
    "quoted.bif": "network x {" + '"a"' * (n // 3),
    "comments.bif": "/**/" * (n // 4) + "x",
    "lines.bif": "//\n" * (n // 3) + "x",
    "stars.bif": "/*" + "*" * n,
    "slashes.bif": "/" * n,
    "halves.bif": "/*/" * (n // 3),
    "comments in a block.bif": "network a {" + "/**/" * (n // 4),
    "properties.bif": "variable x {" + "property a; " * (n // 12),
    "a number.bif": variables(1) + "probability ( x0 ) { table " + "1" * n + "x; }",
    "numbers.bif": variables(1) + "probability ( x0 ) { table " + "1 " * (n // 2) + "; }",
    "commented numbers.bif": variables(1) + "probability ( x0 ) { table " + "1/**/" * (n // 5) + "; }",
    "declared digits.bif": f"variable a {{ type discrete [ {'9' * n} ] {{ a, b }}; }}",
    "states.bif": f"variable a {{ type discrete [ {n // 6} ] {{ {' '.join(map(str, range(n // 6)))} }}; }} x",
    "a state and a state.bif": "variable a { type discrete [ 100000 ] { " + "a," * (n // 2) + " }; }",
    "a long state list.bif": "variable a { type discrete [ 90000 ] { " + "a/, " * (n // 4) + " }; }",
    "rows.bif": variables(2) + roots(["x1"]) + "probability ( x0 | x1 ) {" + "(s0)1,0;" * (n // 9) + "}",
    "odd rows.bif": variables(2) + roots(["x1"]) + "probability ( x0 | x1 ) {" + "(s0 )1/**/,0;" * (n // 14) + "}",
    "keys.bif": variables(2) + roots(["x1"]) + "probability ( x0 | x1 ) { (" + "s0," * (n // 3) + ") 1, 0; }",
    "parents.bif": variables(1) + "probability ( x0 | " + "bc " * (n // 3) + ") { }",
    "35 parents.bif": MANY_PARENTS,
    "two billion.bif": "variable a { type discrete [ 2000000000 ] { a, b }; }",
    "a default, then an error.bif": DEFAULT + "probability ( x0 | " + ", ".join(f"x{i}" for i in range(1, 20))
    + " ) { default 1, 0; } probability ( x19 ) { table 2, 3; }",
    "10,000 variables.bif": "".join(f"variable {i}{{type discrete[1]{{a}};}}" for i in range(10_001)),
    "a long cycle.bif": "".join(f"variable {i}{{type discrete[1]{{a}};}}" for i in range(n // 72))
    + "".join(f"probability({i}|{(i + 1) % (n // 72)}){{(a)1;}}" for i in range(n // 72)),
    "nul.bif": "\0" * n,
    "binary.bif": np.random.default_rng(1).bytes(n),
    "latin-1.bif": "variable é {".encode("latin-1"),
    "utf-16.bif": BIF.encode("utf-16"),
    "zeros.bif.gz": ZEROS,
    "angles.xml": "<" * n,
    "elements.xml": "<BIF>" * (n // 5),
    "attributes.xml": "<BIF " + 'a="" ' * (n // 5) + ">",
    "outcomes.xml": "<BIF><NETWORK><VARIABLE><NAME>a</NAME>" + "<OUTCOME>a</OUTCOME>" * (n // 20),
    "cdata.xml": "<BIF><NETWORK><NAME>" + "<![CDATA[]]>" * (n // 12),
    "broken numbers.xml": "<BIF><NETWORK><DEFINITION><TABLE>" + "1<!---->" * (n // 8),
    "ampersands.xml": "<BIF><NETWORK><VARIABLE><NAME>" + "&" * n + "</NAME></VARIABLE></NETWORK></BIF>",
    "declarations.xml": "<!DOCTYPE a [" + "<!ELEMENT a (b)>" * (n // 16),
    "dashes.xml": "<!--" + "-" * n,
    "given.xml": "<BIF><NETWORK><DEFINITION><FOR>a</FOR>"
    + "".join(f"<GIVEN>{i}</GIVEN>" for i in range(n // 20)) + "<GIVEN>5</GIVEN></DEFINITION></NETWORK></BIF>",
    "kinds.uai": "BAYES " * (n // 6),
    "digits.uai": "MARKOV " + "9" * n,
    "35 parents.uai": f"BAYES 36 {'2 ' * 36} 36 {' '.join(f'1 {i}' for i in range(35))} 36 {UAI_PARENTS}",
    "a large scope.uai": f"MARKOV 100 {'1000 ' * 100} 1 100 {' '.join(map(str, range(100)))}",
    "two billion.uai": "MARKOV 1 2000000000 0",
    "factors.uai": f"MARKOV 1 2 {n // 2} {'0 ' * (n // 2)}",
    "constants.uai": f"MARKOV 1 1 {n // 6} {'0 ' * (n // 6)} {'1 1 ' * (n // 6 - 1)} 1 -1",
    "roots.uai": uai_roots(n // 36 - 1, 1, "1 1.5"),
    "comments.uai": "#\n" * (n // 2) + "MARKOV",
    "brackets.json": "[" * n,
    "objects.json": '{"a":' * (n // 5),
    "nested values.json": '{"nodes": ' + "[" * n + "]" * n + "}",
    "nested numbers.json": gaussian('{"name": "a", "parents": [], "regression": {"sd": ' + "[" * n + "]" * n + "}}"),
    "opened numbers.json": gaussian('{"name": "a", "parents": [], "regression": {"sd": ' + "[1]," * (n // 4) + "}}"),
    "empty lists.json": '{"nodes": [' + "[]," * (n // 3) + "[]]}",
    "empty objects.json": gaussian("{}," * (n // 3) + "{}"),
    "empty keys.json": "{" + '"":0,' * (n // 5) + "}",
    "escapes.json": '{"' + "\\u0041" * (n // 6) + '": 1}',
    "an open text.json": '{"' + "a" * n,
    "backslashes.json": '{"' + "\\" * n,
    "blanks.json": "{" + " " * n,
    "blanks in numbers.json": gaussian('{"name": "a", "parents": [], "table": [' + " " * n + "x]}"),
    "minus.json": gaussian('{"name": "a", "parents": [], "states": ["x"], "table": ' + "-" * n + "}"),
    "digits.json": gaussian('{"name": "a", "parents": [], "states": ["x"], "table": [' + "9" * n + "]}"),
    "a version of digits.json": gaussian("").replace("1", "1" * n),
    "35 parents.json": gaussian(f"{json_roots(35)}, {json_child(35, 'table', [0.5, 0.5])}"),
    "100 parents of one state.json": gaussian(f"{json_roots(100, ['a'], [1])}, {json_child(100, 'table', [0.5, 0.5])}"),
    "10,000 variables.json": gaussian(json_roots(10_001, ["a"], [1])),
    "a long cycle.json": gaussian(", ".join(json_next(i, n // 90) for i in range(n // 90))),
    "arcs.json": '{"nodes": ["a", "b"], "arcs": [' + '["a","b"],' * (n // 10) + '["a","b"]], "cpds": {}}',
    "cpds.json": '{"nodes": ["a"], "arcs": [], "cpds": {' + '"a":{},' * (n // 7) + '"a":{}}}',
    "json.uai": "MARKOV 1 2 0\n# variable 0: " + "[" * n,
}  # fmt: skip


HOSTILE = hostile(N)


@pytest.mark.parametrize("name", HOSTILE)
def test_refusals_cost_little(tmp_path, name):
    assert_cheap_refusal(tmp_path / name, HOSTILE[name])


def test_360_kilobytes_of_keywords_cost_little(tmp_path):
    assert_cheap_refusal(tmp_path / "variables.bif", "variable " * 40_000)
    assert_cheap_refusal(tmp_path / "probabilities.bif", "probability ( " * 26_000)
    assert_cheap_refusal(tmp_path / "elements.xml", "<VARIABLE>" * 36_000)
    assert_cheap_refusal(tmp_path / "kinds.uai", "MARKOV " * 52_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_larger_refusals_cost_little(tmp_path, name):
    assert_cheap_refusal(tmp_path / name, hostile(360_000)[name])


def test_the_largest_reference_networks_take_a_second_at_most():
    for name in ("munin", "diabetes"):
        begun = time.process_time()
        read_network(MODELS / f"{name}.bif.gz")
        assert time.process_time() - begun < MAX_SECONDS


def test_tables_beyond_the_limit_are_counted_exactly(tmp_path):
    said = refusal(tmp_path, "a.bif", MANY_PARENTS)
    assert said == (
        "72:1: the table of 'x0' takes 68_719_476_736 numbers, more than the 16777216 allowed; "
        "raise it with limits=Limits(max_numbers=137438953472)"
    )
    said = refusal(tmp_path, "a.uai", HOSTILE["35 parents.uai"])
    assert "the table of 'X35' takes 68_719_476_736 numbers" in said
    said = refusal(tmp_path, "a.uai", HOSTILE["a large scope.uai"])
    assert "the table of 'factor 0' takes more than 10**299 numbers" in said
    assert said.endswith("raise it with limits=Limits(max_numbers=...)")


def test_limits_can_be_raised_and_lowered(tmp_path):
    text = variables(5) + roots(["x1", "x2", "x3", "x4"])
    text += "probability ( x0 | x1, x2, x3, x4 ) { default 1, 0; }"
    assert read(tmp_path, "a.bif", text).tables["x0"].size == 32
    path = tmp_path / "a.bif"
    assert read_network(path, limits=Limits(max_numbers=40, max_states=10, max_variables=5)).names[0] == "x0"
    for limits, cause in (
        (Limits(max_numbers=39), "the tables up to here take 40 numbers, more than the 39 allowed"),
        (Limits(max_numbers=31), "the table of 'x0' takes 32 numbers, more than the 31 allowed"),
        (Limits(max_states=9), "the variables up to here have 10 states, more than the 9 allowed"),
        (Limits(max_variables=4), "this is variable number 5, more than the 4 allowed"),
        (Limits(max_bytes=len(text) - 1), f"the file has {len(text)} bytes, more than the {len(text) - 1} allowed"),
    ):
        with pytest.raises(NetworkFileError) as refused:
            read_network(path, limits=limits)
        assert cause in refused.value.cause
        assert "; raise it with limits=Limits(max_" in refused.value.cause
    path = tmp_path / "a.uai"
    path.write_text(UAI)
    with pytest.raises(NetworkFileError, match="there are 3 variables, more than the 2 allowed"):
        read_network(path, limits=Limits(max_variables=2))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ArgumentError, "max_bytes is 0; it must be at least 1"),
        (2.5, ArgumentTypeError, "max_bytes is 2.5; it must be a whole number of at least 1"),
    ],
)
def test_limits_are_checked(value, error, message):
    with pytest.raises(error) as refused:
        Limits(max_bytes=value)
    assert str(refused.value) == message


def test_files_that_cannot_be_opened_are_refused(tmp_path):
    def cause(path):
        with pytest.raises(NetworkFileError) as refused:
            read_network(path)
        assert (refused.value.line, refused.value.column) == (None, None)
        return refused.value.cause

    assert cause(tmp_path / "a.bif") == f"there is no such file in '{tmp_path}'"
    (tmp_path / "folder.bif").mkdir()
    assert cause(tmp_path / "folder.bif") == "it is a folder; name a file in it"
    os.mkfifo(tmp_path / "pipe.bif")
    assert cause(tmp_path / "pipe.bif") == "it is no regular file; save it in one"
    assert cause("a\0b.bif").startswith("it cannot be opened: ")
    packed = gzip.compress(BIF.encode())
    (tmp_path / "a.bif").write_bytes(packed)
    assert cause(tmp_path / "a.bif") == "it is packed by gzip; let its name end in .gz"
    for damaged in (packed[:-9], packed[:-1], b"network", packed[:12] + bytes([packed[12] ^ 0xFF]) + packed[13:]):
        (tmp_path / "a.bif.gz").write_bytes(damaged)
        assert cause(tmp_path / "a.bif.gz").startswith("it is not a gzip file, or is damaged: ")
    (tmp_path / "a.bif.gz").write_bytes(ZEROS)
    assert cause(tmp_path / "a.bif.gz").startswith(
        "unpacked, the file has 16842752 bytes or more, more than the 16777216 allowed; "
    )
    with (tmp_path / "missing_cell.bif").open("wb") as missing_cell:
        missing_cell.truncate(2**40)
    assert cause(tmp_path / "missing_cell.bif").startswith("the file has 1099511627776 bytes, ")
    (tmp_path / "latin.xml").write_bytes("<BIF>é".encode("latin-1"))


def test_errors_are_doxas_and_travel_between_processes(tmp_path):
    with pytest.raises(NetworkFileError) as refused:
        read(tmp_path, "a.bif", "variable a {\n x")
    error = pickle.loads(pickle.dumps(refused.value))
    assert isinstance(error, (DoxaError, ValueError, OSError))
    assert (error.path, error.line, error.column) == (str(tmp_path / "a.bif"), 2, 2)
    assert str(error) == str(refused.value)

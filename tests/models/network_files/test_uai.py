"""UAI networks and their evidence: both kinds, and every way of being broken, with line, column and cause."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from network_texts import LAWN, MARKOV, UAI, assert_refused, read, refusal

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.markov import MarkovNetwork
from doxa.models.network_files import NetworkFileError, read_evidence_file, write_evidence_file


def test_the_lawn_is_read_without_its_names(tmp_path):
    for name, text in (("lawn.uai", UAI), ("LAWN.UAI.GZ", gzip.compress(UAI.encode()))):
        network = read(tmp_path, name, text)
        assert network.names == ("X0", "X1", "X2")
        assert network.states == (("0", "1"), ("0", "1", "2"), ("0", "1"))
        np.testing.assert_array_equal(network.dag.adjacency, LAWN.dag.adjacency)
        for ours, name in zip(network.names, LAWN.names, strict=True):
            np.testing.assert_allclose(network.tables[ours], LAWN.tables[name], rtol=1e-15)


def test_markov_networks_are_read_as_logs(tmp_path):
    network = read(tmp_path, "m.uai", MARKOV)
    assert network == MarkovNetwork(
        {"X0": ["0", "1"], "X1": ["0", "1"], "X2": ["0", "1", "2"]},
        [
            (["X0", "X1"], np.log([[1, 1e-300], [0.25, 3.5]]) * [[1, np.inf], [1, 1]]),
            (["X2", "X1"], np.log([[1, 2], [3, 4], [5, 6]])),
            ([], np.log(2.5)),
        ],
    )


def test_layout_does_not_count(tmp_path):
    assert read(tmp_path, "a.uai", " ".join(UAI.partition("BAYES")[2].join(["BAYES", ""]).replace(
        "# rain, wet grass, sprinkler", "").split())) == read(tmp_path, "b.uai", UAI)  # fmt: skip


def test_comments_give_names_to_all_variables(tmp_path):
    names = '# variable 2: ["sprinkler", "off", "on"]\n# variable 0: ["rain", "no", "yes"]\n'
    text = f'{UAI}{names}#variable 1:["\\u00e9 \\"", "dry", "a bit", "soaked"]'
    network = read(tmp_path, "a.uai", text)
    assert network.names == ("rain", 'é "', "sprinkler")
    assert network.states == LAWN.states


BAD = {
    "empty": ("", "the file is empty"),
    "another kind": ("SPARSE 1", "1:1: 'SPARSE' is no kind of network; a UAI file begins with BAYES or MARKOV"),
    "cut off": (
        "BAYES\n2 2",
        "2:4: the file ends where the number of states of variable 1 should stand: it has been cut off",
    ),
    "no variables": ("BAYES 0 0", "1:7: there are no variables; a network has at least one"),
    "a negative number": ("BAYES -1", "1:7: '-1' stands where the number of variables should, a whole number"),
    "a fraction": ("BAYES 1.5", "1:7: '1.5' stands where the number of variables should, a whole number"),
    "a long number": (f"BAYES {'9' * 99}", "1:7: the number of variables is a number of 99 digits"),
    "no states": ("BAYES 1 0", "1:9: variable 0 has no states; it has at least one"),
    "two billion states": (
        "MARKOV 1 2000000000 0",
        "1:10: the variables up to here have 2000000000 states, more than the 262144 allowed; "
        "raise it with limits=Limits(max_states=2147483648)",
    ),
    "too many factors": ("MARKOV 1 2 99 0", "1:12: the number of factors is 99, and can be 15 at most"),
    "an unknown variable": ("MARKOV 1 2 1 1 1", "1:16: a variable of factor 0 is 1, and can be 0 at most"),
    "a variable twice": ("MARKOV 2 2 2 1\n2 0 0 ", "2:1: factor 0 names a variable more than once; name it once"),
    "a child twice": ("BAYES 2 2 2 2\n1 0\n1 0\n", "3:1: there is a second table of 'X0'; take one of the two away"),
    "no child": ("BAYES 1 2 1\n0", "2:1: factor 0 has no variable; ..."),
    "a table missing": ("BAYES 2 2 2 1\n1 0\n2 1 0", "1:1: the variable 'X1' has no table; ..."),
    "a cycle": (
        "BAYES 2 2 2 2\n2 0 1\n2 1 0\n",
        "2:1: there is the cycle 'X1' -> 'X0' -> 'X1'; take one of its edges away",
    ),
    "a wrong number of entries": ("BAYES 1 2 1 1 0 3 0 0 1", "1:17: factor 0 has 3 entries; ..."),
    "too few entries": (
        "BAYES 1 2 1 1 0 2 1",
        "1:20: the file ends after 1 of the 2 entries of factor 0: it has been cut off",
    ),
    "something behind": ("BAYES 1 2 1 1 0 2 0 1\n1", "2:1: '1' stands behind the last table, ..."),
    "no number": ("BAYES 1 2 1 1 0 2 0 x", "1:21: 'x' stands where a number should"),
    "a comma": ("BAYES 1 2 1 1 0 2 0,5 0,5", "1:19: '0,5' stands where a number should"),
    "not a number": ("BAYES 1 2 1 1 0 2 nan 1", "1:19: 'nan' stands where a number should"),
    "1.7 and -0.7": (
        "BAYES 1 2 1 1 0 2 1.7 -0.7",
        "1:19: the probability of 'X0' = '0' is 1.7; probabilities are numbers from 0 to 1",
    ),
    "a sum": (
        "BAYES 2 2 2 2 1 0 2 0 1 2 0.5 0.5 4 0.5 0.5\n0.5 0.4",
        "2:1: the probabilities of 'X1' given 'X0' = '1' sum to 0.9; they must sum to 1",
    ),
    "a negative factor": ("MARKOV 1 2 1 1 0 2 1 -1", "1:22: the factor has the entry -1; ..."),
    "an infinite factor": (
        "MARKOV 1 2 1 1 0 2 1\n1e999",
        "2:1: the factor has the entry inf; entries are finite and at least 0",
    ),
    "nothing possible": ("MARKOV 1 2 1\n1 0 2 0 0", "2:1: factor 0 is 0 everywhere, so that nothing is possible"),
    "a name without states": (
        "MARKOV 1 2 0\n# variable 0: [\"a\"]",
        "2:1: this comment should give variable 0 its name and those of its states",
    ),
    "a name for no variable": (
        "MARKOV 1 1 0\n# variable 1: [\"a\", \"b\"]",
        "2:1: this comment should give variable 1 its name and those of its states",
    ),
    "a name that is none": (
        "MARKOV 1 1 0\n# variable 0: [0, \"b\"]",
        "2:1: this comment should give variable 0 its name and those of its states",
    ),
    "two states of one name": (
        "MARKOV 1 2 0\n# variable 0: [\"a\", \"b\", \"b\"]",
        "2:1: this comment gives two states of variable 0 one name",
    ),
    "one name for two": (
        "MARKOV 2 1 1 0\n# variable 0: [\"a\", \"b\"]\n# variable 1: [\"a\", \"b\"]",
        "comments give two variables one name",
    ),
    "a name missing": (
        "MARKOV 2 1 1 0\n# variable 1: [\"a\", \"b\"]",
        "comments name variables, but not variable 0; name all of them or none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_uai_files_that_cannot_be_read_are_refused(tmp_path, name):
    text, message = BAD[name]
    assert_refused(tmp_path, "network.uai", text, message)


@pytest.mark.parametrize("text", [UAI, MARKOV])
def test_every_truncation_before_the_last_number_is_refused(tmp_path, text):
    text = text.rstrip()
    for length in range(len(text) - len(text.split()[-1])):
        refusal(tmp_path, "lawn.uai", text[:length])


# --- evidence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("0", {}),
        ("1\n0", {}),
        ("1 2 1", {"sprinkler": "on"}),
        ("2 0 1 1 2", {"rain": "yes", "wet grass": "soaked"}),
        ("1\n2 0 1 1 2\n", {"rain": "yes", "wet grass": "soaked"}),
        ("c seen\n3 # three\n 0 0\n 2 0\n 1 1 ", {"rain": "no", "sprinkler": "off", "wet grass": "a bit"}),
    ],
)
def test_evidence_of_both_forms_is_read(tmp_path, text, given):
    path = tmp_path / "lawn.uai.evid"
    path.write_text(text)
    assert read_evidence_file(path, LAWN) == given
    (tmp_path / "lawn.uai.evid.gz").write_bytes(gzip.compress(text.encode()))
    assert read_evidence_file(tmp_path / "lawn.uai.evid.gz", LAWN) == given
    write_evidence_file(given, LAWN, path)
    assert read_evidence_file(path, LAWN) == given


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("x", "1:1: 'x' stands where the number of observed variables should, a whole number"),
        ("2 0 1", "1:1: 2 pairs of a variable and its state should follow, and nothing else"),
        ("1 0 1 1", "1:3: 0 pairs of a variable and its state should follow, and nothing else"),
        ("2\n1 0 1\n1 0 0", "1:1: 2 pairs of a variable and its state should follow, and nothing else"),
        ("1 3 0", "1:3: a variable is 3, and can be 2 at most"),
        ("1\n0 2", "2:3: a state of variable 0 is 2, and can be 1 at most"),
        ("1 -1 0", "1:3: '-1' stands where a variable should, a whole number"),
        ("2 0 0 0 1", "1:7: variable 0, 'rain', is observed twice; take one away"),
        ("9 " + "0 0 " * 9, "1:1: 9 pairs of a variable and its state should follow, and nothing else"),
    ],
)
def test_evidence_that_cannot_be_read_is_refused(tmp_path, text, message):
    path = tmp_path / "lawn.uai.evid"
    path.write_text(text)
    with pytest.raises(NetworkFileError) as refused:
        read_evidence_file(path, LAWN)
    error = refused.value
    assert message == (error.cause if error.line is None else f"{error.line}:{error.column}: {error.cause}")
    assert str(error).startswith(f"evidence '{path}'")


def test_evidence_that_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "lawn.uai.evid"
    with pytest.raises(ArgumentError, match=r"^given names 'snow', which is not a variable of the network$"):
        write_evidence_file({"snow": "no"}, LAWN, path)
    with pytest.raises(ArgumentError, match=r"^given\['rain'\] is 'maybe'; the states of 'rain' are no, yes$"):
        write_evidence_file({"rain": "maybe"}, LAWN, path)
    with pytest.raises(ArgumentTypeError, match=r"^given is 3; give a mapping of variables to states$"):
        write_evidence_file(3, LAWN, path)
    assert not path.exists()

"""`read_evidence`: names and labels become positions, and what does not fit is refused with what is near it."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.evidence import Evidence, read_evidence
from doxa.models.ising import ising
from doxa.models.markov import MarkovNetwork

NETWORK = MarkovNetwork(
    {"BP": ["LOW", "NORMAL", "HIGH"], "HYPOVOLEMIA": ["TRUE", "FALSE"], "count": ["2", "1", "0"]}, []
)


def test_labels_become_positions():
    evidence = read_evidence(NETWORK, {"BP": "HIGH", "count": "0"}, {"HYPOVOLEMIA": [0.25, 4]})
    assert evidence.hard == {0: 2, 2: 2}
    assert evidence.soft[1].tolist() == [0.25, 4.0]
    assert evidence.variables == (0, 1, 2)
    assert read_evidence(NETWORK) == Evidence({}, {})


def test_whole_numbers_are_labels_never_positions():
    assert read_evidence(NETWORK, {"count": 0}).hard == {2: 2}
    assert read_evidence(NETWORK, {"count": np.int64(2)}).hard == {2: 0}
    assert read_evidence(ising([(0, 1)], 1.0), {"X0": -1, "X1": 1}).hard == {0: 0, 1: 1}
    with pytest.raises(ArgumentError, match=r"given\['BP'\] is 0, which is not one of its states"):
        read_evidence(NETWORK, {"BP": 0})


def test_likelihoods_by_label():
    soft = {"BP": {"HIGH": 2.0, "LOW": 0.5}, "count": {1: 3.0}}
    evidence = read_evidence(NETWORK, None, soft)
    assert evidence.soft[0].tolist() == [0.5, 0.0, 2.0]
    assert evidence.soft[2].tolist() == [0.0, 3.0, 0.0]


def test_likelihoods_are_a_copy_that_stays():
    given = np.array([1.0, 2.0])
    evidence = read_evidence(NETWORK, None, {"HYPOVOLEMIA": given})
    given[0] = 5.0
    assert evidence.soft[1].tolist() == [1.0, 2.0]
    assert not evidence.soft[1].flags.writeable


def test_hard_and_soft_together_where_they_agree():
    evidence = read_evidence(NETWORK, {"BP": "LOW"}, {"BP": [0.5, 0.0, 0.0]})
    assert evidence.hard == {0: 0}
    assert 0 in evidence.soft
    with pytest.raises(ArgumentError, match=r"soft\['BP'\] gives 'HIGH' the likelihood 0, and given says that 'BP' is"):
        read_evidence(NETWORK, {"BP": "HIGH"}, {"BP": [0.5, 1.0, 0.0]})


def test_parts_of_evidence():
    evidence = read_evidence(NETWORK, {"BP": "LOW", "count": 1}, {"BP": [1, 1, 1]})
    assert evidence.only([2]).hard == {2: 1}
    assert evidence.only([2]).soft == {}
    assert evidence.only([0]).variables == (0,)


@pytest.mark.parametrize(
    ("given", "soft", "message"),
    [
        ({"HYPOVOLEMA": "TRUE"}, None, "'HYPOVOLEMA', which is not in the network; close to it is 'HYPOVOLEMIA'"),
        ({"bp": "LOW"}, None, "given names 'bp', which is not in the network; close to it is 'BP'"),
        ({"zzz": "LOW"}, None, "is not in the network; there are 'BP', 'HYPOVOLEMIA', 'count'"),
        ({"BP": "low"}, None, "given['BP'] is 'low', which is not one of its states; close to it is 'LOW'"),
        ({"BP": "?"}, None, "given['BP'] is '?', which is not one of its states; there are 'LOW', 'NORMAL', 'HIGH'"),
        (None, {"BPP": [1, 1, 1]}, "soft names 'BPP', which is not in the network"),
        (None, {"BP": [1, 1]}, "has shape (2,); it must be (3,), a likelihood for each of 'LOW', 'NORMAL', 'HIGH'"),
        (None, {"BP": [1, -1, 1]}, "soft['BP'] gives 'NORMAL' the likelihood -1; it must be 0 or more, finite"),
        (None, {"BP": [1, 1, np.nan]}, "soft['BP'] gives 'HIGH' the likelihood nan"),
        (None, {"BP": [np.inf, 1, 1]}, "soft['BP'] gives 'LOW' the likelihood inf"),
        (None, {"BP": [0, 0, 0]}, "soft['BP'] is 0 in every state; at least one must be possible"),
        (None, {"BP": {}}, "soft['BP'] is 0 in every state"),
        (None, {"BP": {"HIHG": 1.0}}, "'HIHG', which is not one of its states; close to it is 'HIGH'"),
    ],
)  # fmt: skip
def test_bad_values_are_refused(given, soft, message):
    with pytest.raises(ArgumentError) as raised:
        read_evidence(NETWORK, given, soft)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("given", "soft", "message"),
    [
        ("BP=LOW", None, "given is 'BP=LOW'; give a mapping of names to what was observed"),
        (None, ["BP"], "soft is ['BP']; give a mapping"),
        ({3: "LOW"}, None, "given names 3; names of variables are text"),
        ({"BP": 1.0}, None, "given['BP'] is 1.0; give the label of a state, such as 'LOW'"),
        ({"HYPOVOLEMIA": True}, None, "given['HYPOVOLEMIA'] is True; give the label of a state, such as 'TRUE'"),
        ({"BP": None}, None, "given['BP'] is None"),
        (None, {"BP": "LOW"}, "soft['BP'] is not an array of numbers"),
    ],
)
def test_bad_types_are_refused(given, soft, message):
    with pytest.raises(ArgumentTypeError) as raised:
        read_evidence(NETWORK, given, soft)
    assert message in str(raised.value)

"""`CategoricalNetwork`: its joint distribution against plain products, its records against its tables, its refusals."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag
from doxa.models import categorical as categorical_draws
from doxa.models.categorical import CategoricalNetwork
from support.checks import SEED, worst_z, z_limit
from support.small_networks import joint, random_categorical

DAG = Dag.from_edges([("a", "c"), ("b", "c")], nodes=["a", "b", "c"])
STATES = {"a": ["no", "yes"], "b": ["low", "mid", "high"], "c": ["no", "yes"]}
TABLES = {
    "a": [0.3, 0.7],
    "b": [0.2, 0.0, 0.8],
    "c": [[[1.0, 0.0], [0.5, 0.5], [0.1, 0.9]], [[0.0, 1.0], [0.25, 0.75], [0.6, 0.4]]],
}


def network(**changes):
    return CategoricalNetwork(DAG, TABLES | changes, STATES)


def test_axes_are_the_parents_in_node_order_then_the_node():
    made = network()
    assert (made.names, made.n_states, made.parents) == (("a", "b", "c"), (2, 3, 2), ((), (), (0, 1)))
    assert made.states[1] == ("low", "mid", "high")
    variables, log_values = made.factors[2]
    assert variables == (0, 1, 2)
    np.testing.assert_allclose(np.exp(log_values), TABLES["c"], rtol=1e-15)
    assert log_values[0, 0, 1] == -np.inf


def test_the_joint_distribution_is_the_product_of_the_tables():
    rng = np.random.default_rng(SEED)
    for _ in range(20):
        made = random_categorical(rng)
        rows = list(product(*map(range, made.n_states)))
        expected = []
        for row in rows:
            value = dict(zip(made.names, row, strict=True))
            terms = [made.tables[v][tuple(value[p] for p in (*made.dag.parents(v), v))] for v in made.names]
            expected.append(np.prod(terms))
        np.testing.assert_allclose(np.exp(made.log_probability(rows)), expected, rtol=1e-12)
        assert sum(expected) == pytest.approx(1.0)
        np.testing.assert_allclose(joint(made).ravel(), expected, rtol=1e-12)


def compare_records(made, n=100_000):
    """Largest z-value of the counts of all configurations, and how many were compared."""
    table = made.simulate(n, np.random.default_rng([SEED, 8]))
    exact = joint(made)
    counts = np.zeros(exact.shape)
    np.add.at(counts, tuple(table.codes.T.astype(int)), table.counts)
    assert counts[exact == 0].sum() == 0
    kept = exact * n >= 30
    errors = np.sqrt(exact * (1 - exact) / n)[kept]
    return worst_z((counts / n)[kept], exact[kept], errors), int(kept.sum())


def test_records_follow_the_joint_distribution():
    worst, n_compared = compare_records(network())
    assert worst < z_limit(n_compared)


def test_records_of_the_wrong_parents_are_found_out(monkeypatch):
    """The twin: configurations of the parents read in reverse."""
    right = categorical_draws._thresholds
    monkeypatch.setattr(categorical_draws, "_thresholds", lambda rows: right(rows[::-1]))
    with pytest.raises(AssertionError):
        test_records_follow_the_joint_distribution()


def test_rounding_never_reaches_an_impossible_state(monkeypatch):
    """Sums of seven probabilities may fall short of 1; what is above them is the last possible state's."""
    table = np.array([0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1, 0.0])
    table /= table.sum()

    class Highest:
        def random(self, n):
            return np.full(n, 1 - 2.0**-53)

    class Lowest:
        def random(self, n):
            return np.zeros(n)

    assert categorical_draws.draw_records(1, [0], [()], [table], Highest()).tolist() == [[6]]
    assert categorical_draws.draw_records(1, [0], [()], [table[::-1]], Lowest()).tolist() == [[1]]


def test_blanks_leave_the_other_cells_as_they_are():
    whole = network().simulate(20_000, np.random.default_rng(SEED))
    missing_cells = network().simulate(20_000, np.random.default_rng(SEED), missing=0.3)
    codes, full = missing_cells.codes[missing_cells.row_index], whole.codes[whole.row_index]
    blank = codes < 0
    np.testing.assert_array_equal(codes[~blank], full[~blank])
    assert abs(blank.mean() - 0.3) < z_limit(1) * np.sqrt(0.3 * 0.7 / blank.size)
    by_state = [blank[full[:, 2] == k, 2].mean() for k in (0, 1)]  # missing says nothing of what is there
    errors = [np.sqrt(0.21 / (full[:, 2] == k).sum()) for k in (0, 1)]
    assert abs(by_state[0] - by_state[1]) < z_limit(1) * np.hypot(*errors)
    assert network().simulate(5, np.random.default_rng(0), missing=1).n_missing == 15


def test_no_records_are_a_table_too():
    assert network().simulate(0, np.random.default_rng(0)).n_rows == 0


def test_rows_that_nearly_sum_to_one_are_divided_by_their_sum():
    table = network(a=[0.3333333, 0.6666666]).tables["a"]
    np.testing.assert_allclose(table, [1 / 3, 2 / 3], atol=1e-7)
    assert table.sum() == pytest.approx(1.0, abs=1e-16)


def test_it_is_immutable_equal_to_its_copy_and_different_from_others():
    made = network()
    with pytest.raises(AttributeError, match="a CategoricalNetwork is immutable; cannot set 'dag'"):
        made.dag = DAG
    with pytest.raises(ValueError, match="read-only"):
        made.tables["a"][0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        made.factors[0].log_values[0] = 1.0
    with pytest.raises(TypeError):
        made.tables["a"] = np.ones(2) / 2
    mine = np.array([0.3, 0.7])
    kept = network(a=mine)
    mine[0] = 0.9
    assert kept == made
    copied = pickle.loads(pickle.dumps(made))
    assert copied == made
    assert hash(copied) == hash(made)
    assert not copied.tables["c"].flags.writeable
    assert made != network(a=[0.4, 0.6])
    assert made != CategoricalNetwork(DAG, TABLES, STATES | {"a": ["n", "y"]})
    assert made != "network"


def test_the_order_of_the_mappings_does_not_matter():
    backwards = CategoricalNetwork(DAG, dict(reversed(TABLES.items())), dict(reversed(STATES.items())))
    assert backwards == network()


def refusal(dag=DAG, tables=TABLES, states=STATES, kind=ArgumentError):
    with pytest.raises(kind) as raised:
        CategoricalNetwork(dag, tables, states)
    return str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": [0.3, 0.3, 0.4]}, "tables['a'] has shape (3,); it must be (2,), the numbers of states of 'a'"),
        ({"c": np.ones((3, 2, 2)) / 2}, "it must be (2, 3, 2), the numbers of states of 'a', 'b', 'c'"),
        ({"a": [1.7, -0.7]}, "tables['a'] has P(a = 'yes') = -0.7; probabilities are numbers from 0 to 1"),
        ({"a": [np.nan, 1.0]}, "tables['a'] has P(a = 'no') = nan; probabilities are numbers from 0 to 1"),
        ({"a": [0.3, 0.6]}, "has P(a) that sums to 0.9; over the states of a node probabilities sum to 1"),
        ({"a": [np.inf, 0.6]}, "has P(a) that sums to inf"),
        ({"a": [0.0, 0.0]}, "has P(a) that sums to 0;"),
    ],
)  # fmt: skip
def test_tables_that_are_no_distributions_are_refused(change, message):
    assert message in refusal(tables=TABLES | change)


def test_a_refusal_says_for_which_parents():
    table = np.array(TABLES["c"])
    table[1, 2] = [0.5, 0.4]
    assert refusal(tables=TABLES | {"c": table}) == (
        "tables['c'] has P(c | a = 'yes', b = 'high') that sums to 0.9; "
        "over the states of a node probabilities sum to 1"
    )
    table[1, 2] = [1.25, -0.25]
    assert "has P(c = 'yes' | a = 'yes', b = 'high') = -0.25" in refusal(tables=TABLES | {"c": table})


def test_names_and_labels_that_do_not_fit_are_refused():
    only = {name: table for name, table in TABLES.items() if name != "b"}
    assert refusal(tables=only) == (
        "tables lacks the node 'b'; give an array of P(node | parents) for every node of dag"
    )
    assert "tables names 'd', which is not a node of dag" in refusal(tables=TABLES | {"d": [1.0]})
    assert "states names 'd', which is not a node of dag" in refusal(states=STATES | {"d": ["x"]})
    assert "states lacks the node 'c'" in refusal(states={"a": ["x", "y"], "b": ["x", "y", "z"]})
    assert "states['a'] is empty" in refusal(states=STATES | {"a": []})
    assert "states['a'] has the label 'x' more than once" in refusal(states=STATES | {"a": ["x", "x"]})
    assert "states['a'] has the label ''" in refusal(states=STATES | {"a": ["x", ""]})
    assert "labels are text: '1'" in refusal(states=STATES | {"a": [0, 1][::-1]}, kind=ArgumentTypeError)
    assert "give a list of labels" in refusal(states=STATES | {"a": "xy"}, kind=ArgumentTypeError)
    assert "not an array of numbers" in refusal(tables=TABLES | {"c": [[1], [1, 0]]}, kind=ArgumentTypeError)
    assert "not an array of numbers" in refusal(tables=TABLES | {"a": ["0.3", "0.7"]}, kind=ArgumentTypeError)
    assert "dag is of type dict" in refusal(dag={}, kind=ArgumentTypeError)
    assert "tables is of type list" in refusal(tables=[], kind=ArgumentTypeError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": -1}, "n is -1; it must be at least 0"),
        ({"missing": 1.5}, "missing is 1.5; it must be from 0 to 1"),
        ({"missing": np.nan}, "missing is nan; it must be from 0 to 1"),
        ({"missing": "half"}, "missing is 'half'; it must be a number from 0 to 1"),
        ({"rng": 1}, "rng is 1; it must be a numpy.random.Generator"),
    ],
)
def test_records_asked_for_wrongly_are_refused(arguments, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as raised:
        network().simulate(**({"n": 3, "rng": np.random.default_rng(0)} | arguments))
    assert message in str(raised.value)


def test_rows_that_are_no_configurations_are_refused():
    made = network()
    with pytest.raises(ArgumentError, match=r"rows\[1, 1\] is 3, and 'b' has 3 states; positions are 0 to 2"):
        made.log_probability([[0, 0, 0], [0, 3, 0]])
    with pytest.raises(ArgumentError, match=r"rows\[0, 0\] is -1"):
        made.log_probability([[-1, 0, 0]])
    with pytest.raises(ArgumentError, match=r"rows has shape \(3,\); it must be \(n, 3\)"):
        made.log_probability([0, 0, 0])
    with pytest.raises(ArgumentTypeError, match="rows has dtype float64"):
        made.log_probability([[0.0, 0.0, 0.0]])


def test_records_come_back_as_a_table_of_the_same_labels():
    table = network().simulate(10, np.random.default_rng(0))
    assert isinstance(table, Table)
    assert (table.names, table.states) == (network().names, network().states)


def test_records_are_drawn_from_a_seed():
    coin = CategoricalNetwork(Dag([[0]], ["coin"]), {"coin": [0.5, 0.5]}, {"coin": ["heads", "tails"]})
    first = coin.simulate(50, seed=3)
    assert np.array_equal(first.codes, coin.simulate(50, seed=3).codes)
    assert np.array_equal(first.row_index, coin.simulate(50, np.random.default_rng(3)).row_index)
    with pytest.raises(ArgumentError, match="seed is 1, and rng is given too; give one of them"):
        coin.simulate(50, np.random.default_rng(3), seed=1)
    with pytest.raises(ArgumentTypeError, match=r"rng is 3; it must be a numpy\.random\.Generator.* seed=1"):
        coin.simulate(50, 3)
    with pytest.raises(ArgumentError, match="seed is -1; it must be at least 0"):
        coin.simulate(50, seed=-1)

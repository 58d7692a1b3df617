"""Ising and Potts networks: arrays, factors and log potentials say the same, in both codings, on all configurations."""

from __future__ import annotations

import pickle
import time
from itertools import product

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.ising import IsingNetwork, PottsNetwork, ising, ising_grid, potts, potts_grid
from doxa.models.markov import MarkovNetwork, sum_factors
from support.checks import SEED

EDGES = [(0, 1), (2, 1), (0, 3), (3, 2), (1, 3)]


def all_rows(n, q=2):
    return np.array(list(product(range(q), repeat=n)))


def random_numbers(seed=0):
    rng = np.random.default_rng([SEED, seed])
    return rng.normal(size=len(EDGES)), rng.normal(size=4)


def test_spins_follow_the_formula():
    couplings, fields = random_numbers()
    network = ising(EDGES, couplings, fields)
    rows = all_rows(4)
    expected = []
    for row in rows:
        s = 2 * row - 1
        pairs = sum(j * s[a] * s[b] for (a, b), j in zip(EDGES, couplings, strict=True))
        expected.append(fields @ s + pairs)
    np.testing.assert_allclose(network.log_potential(rows), expected, atol=1e-12)
    np.testing.assert_allclose(sum_factors(network.factors, rows), expected, atol=1e-12)
    assert network.states == (("-1", "1"),) * 4
    assert network.names == ("X0", "X1", "X2", "X3")


def test_zero_one_variables_follow_the_formula_of_the_notes():
    couplings, fields = random_numbers(1)
    network = ising(EDGES, couplings, fields, coding="01")
    rows = all_rows(4)
    pairs = [sum(m * x[a] * x[b] for (a, b), m in zip(EDGES, couplings, strict=True)) for x in rows]
    expected = rows @ fields + pairs
    np.testing.assert_allclose(network.log_potential(rows), expected, atol=1e-12)  # not up to a constant
    np.testing.assert_allclose(sum_factors(network.factors, rows), expected, atol=1e-12)
    assert network.states == (("0", "1"),) * 4


@pytest.mark.parametrize("coding", ["pm1", "01"])
def test_the_conditional_has_the_own_field_in_its_denominator(coding):
    """In print the denominator is 1 + exp(sum of the couplings), without the field: no probability (erratum)."""
    couplings, fields = random_numbers(2)
    network = ising(EDGES, couplings, fields, coding=coding)
    for row in all_rows(4):
        for i in range(4):
            other = row.copy()
            other[i] = 1 - row[i]
            rows = [other, row] if row[i] else [row, other]
            log_odds = float(np.diff(network.log_potential(rows))[0])
            s = 2 * row - 1
            near = [(b if a == i else a, k) for k, (a, b) in enumerate(EDGES) if i in (a, b)]
            mine = 2 * (network.fields[i] + sum(network.couplings[k] * s[j] for j, k in near))
            assert log_odds == pytest.approx(mine, abs=1e-12)
            if coding == "01":
                notes = fields[i] + sum(couplings[k] * row[j] for j, k in near)
                assert log_odds == pytest.approx(notes, abs=1e-12)
                printed = np.exp(notes) / (1 + np.exp(notes - fields[i]))
                assert abs(printed - 1 / (1 + np.exp(-log_odds))) > 1e-6


@pytest.mark.parametrize("periodic", [False, True])
def test_the_layout_of_a_grid(periodic):
    rows, columns = 3, 4
    shape = (rows, columns - 1 + periodic), (rows - 1 + periodic, columns)
    rng = np.random.default_rng(SEED)
    right, down, field = rng.normal(size=shape[0]), rng.normal(size=shape[1]), rng.normal(size=(rows, columns))
    network = ising_grid(rows, columns, coupling=(right, down), field=field, periodic=periodic)
    by_pair = {tuple(edge): j for edge, j in zip(network.edges.tolist(), network.couplings, strict=True)}
    place = np.arange(12).reshape(rows, columns)
    for r, c in np.ndindex(*shape[0]):
        assert by_pair.pop((place[r, c], place[r, (c + 1) % columns])) == right[r, c]
    for r, c in np.ndindex(*shape[1]):
        assert by_pair.pop((place[r, c], place[(r + 1) % rows, c])) == down[r, c]
    assert not by_pair
    assert network.names[4 * 1 + 2] == "X1_2"
    np.testing.assert_array_equal(network.fields, field.ravel())
    assert (network.shape, network.periodic) == ((3, 4), periodic)
    flat = np.concatenate([right.ravel(), down.ravel()])
    assert ising_grid(rows, columns, coupling=flat, field=field.ravel(), periodic=periodic) == network
    uniform = ising_grid(rows, columns, coupling=(0.5, 0.25), periodic=periodic)
    assert uniform.couplings.tolist() == [0.5] * right.size + [0.25] * down.size


def test_a_grid_is_the_same_model_as_its_edges():
    grid = ising_grid(3, 3, coupling=0.3, field=0.1, coding="01")
    graph = ising(grid.edges, 0.3, np.full(9, 0.1), coding="01")
    rows = np.random.default_rng(SEED).integers(2, size=(50, 9))
    np.testing.assert_array_equal(grid.log_potential(rows), graph.log_potential(rows))
    assert grid != graph  # other names


def test_names_come_from_edges_then_fields():
    network = ising([("b", "a"), ("a", "c")], 1.0, {"a": 0.5, "alone": -1.0})
    assert network.names == ("b", "a", "c", "alone")
    assert network.fields.tolist() == [0.0, 0.5, 0.0, -1.0]
    assert network.edges.tolist() == [[0, 1], [1, 2]]
    assert ising(np.array([["b", "a"], ["a", "c"]]), 1.0).names == ("b", "a", "c")


def test_variables_without_edges():
    assert ising([], [], [0.5, 1.0]).factors[1].log_values.tolist() == [-1.0, 1.0]
    assert ising_grid(1, 1, coupling=0.4, field=2.0).n_states == (2,)
    assert len(ising([(0, 1)], 0.0, np.zeros(5)).names) == 5


def test_fields_of_zero_make_no_factor():
    network = ising([(0, 1)], 1.0, [0.0, 2.0])
    assert [f.variables for f in network.factors] == [(1,), (0, 1)]


def test_potts_follows_the_formula():
    rng = np.random.default_rng(SEED)
    couplings, fields = rng.normal(size=len(EDGES)), rng.normal(size=(4, 3))
    network = potts(EDGES, 3, couplings, fields)
    rows = all_rows(4, 3)
    expected = [
        sum(fields[i, x] for i, x in enumerate(row))
        + sum(j * (row[a] == row[b]) for (a, b), j in zip(EDGES, couplings, strict=True))
        for row in rows
    ]
    np.testing.assert_allclose(network.log_potential(rows), expected, atol=1e-12)
    np.testing.assert_allclose(sum_factors(network.factors, rows), expected, atol=1e-12)
    assert network.states[0] == ("0", "1", "2")


def test_potts_with_two_states_is_ising_with_half_the_couplings():
    couplings, fields = random_numbers(4)
    two = potts(EDGES, 2, couplings, np.stack([-fields, fields], axis=1))
    half = ising(EDGES, couplings / 2, fields)
    rows = all_rows(4)
    np.testing.assert_allclose(two.log_potential(rows) - half.log_potential(rows), couplings.sum() / 2, atol=1e-12)


def test_a_potts_grid_has_the_grid_of_ising():
    field = np.random.default_rng(SEED).normal(size=(2, 3, 4))
    network = potts_grid(2, 3, 4, coupling=(0.1, 0.2), field=field)
    np.testing.assert_array_equal(network.edges, ising_grid(2, 3, coupling=0.0).edges)
    np.testing.assert_array_equal(network.fields, field.reshape(6, 4))
    assert network.couplings.tolist() == [0.1] * 4 + [0.2] * 3
    assert potts_grid(2, 3, 4, coupling=1.0, field=[0, 0, 1, 2]).fields[5].tolist() == [0, 0, 1, 2]
    with pytest.raises(ArgumentError, match=r"field has shape \(3, 2, 4\)"):
        potts_grid(2, 3, 4, coupling=0.1, field=field.transpose(1, 0, 2))


@pytest.mark.parametrize("make", [
    lambda: ising(EDGES, 0.5, 0.1, coding="01"),
    lambda: ising([("a", "b")], 0.5),
    lambda: ising_grid(3, 3, coupling=0.5, periodic=True),
    lambda: potts_grid(2, 2, 3, coupling=0.5, field=[0, 0, 1]),
])  # fmt: skip
def test_it_is_immutable_and_equal_to_its_copy(make):
    network = make()
    assert isinstance(network, MarkovNetwork)
    copied = pickle.loads(pickle.dumps(network))
    assert copied == network == make()
    assert hash(copied) == hash(network)
    assert copied.names == network.names
    for array in (network.edges, network.couplings, network.fields, copied.fields, network.factors[0].log_values):
        assert not array.flags.writeable
    with pytest.raises(AttributeError, match=f"a {type(network).__name__} is immutable; cannot set 'fields'"):
        network.fields = np.zeros(2)
    assert network != ising_grid(3, 3, coupling=0.25)
    assert network != MarkovNetwork({"a": ["x"]}, [])
    assert MarkovNetwork({"a": ["x"]}, []) != network


def test_arguments_are_copied():
    couplings = np.ones(len(EDGES))
    network = ising(EDGES, couplings)
    couplings[0] = 7.0
    assert network.couplings[0] == 1.0


def test_a_large_grid_is_made_without_its_factors():
    start = time.process_time()
    network = ising_grid(512, 512, coupling=0.44, field=0.01, periodic=True)
    took = time.process_time() - start
    assert took < 1.0  # 0.02 s here; with names or factors it is seconds
    assert not {"names", "states", "factors"} & vars(network).keys()
    assert isinstance(network, IsingNetwork)
    assert "512 x 512 grid, periodic" in repr(network)


def refusal(call, kind=ArgumentError):
    with pytest.raises(kind) as raised:
        call()
    return str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ising([(0, 0)], 1.0), "edges[0] joins 0 to itself"),
        (lambda: ising([("a", "b"), ("b", "a")], 1.0), "edges[1] joins 'a' and 'b' again; name every pair once"),
        (lambda: ising([(0, -1)], 1.0), "edges has positions from -1 to 0; they are 0 to 2**31 - 1"),
        (lambda: ising([("a", "b"), ("c", 1)], 1.0), "edges contains ('c', 1); an edge is a pair of names"),
        (lambda: ising([("a", "b"), "cd"], 1.0), "edges contains 'cd'"),
        (lambda: ising([(0, 1)], [1.0, 2.0]), "coupling has shape (2,); it must be a number or of shape (1,)"),
        (lambda: ising([(0, 1)], np.inf), "coupling contains NaN or infinity; what is forbidden takes a MarkovNetwork"),
        (lambda: ising([(0, 3)], 1.0, [1.0, 2.0]), "field is for 2 variables, and edges has position 3"),
        (lambda: ising([("a", "b")], 1.0, [1.0] * 3), "field has shape (3,); it must be a number or of shape (2,)"),
        (lambda: ising([], 1.0), "edges is empty and field is no array; a network has at least one variable"),
        (lambda: ising([(0, 1)], 1.0, coding="spin"), "coding is 'spin'; it must be 'pm1' (spins -1 and +1) or '01'"),
        (lambda: ising_grid(0, 3, coupling=1.0), "rows is 0; it must be at least 1"),
        (lambda: ising_grid(3, 2, coupling=1.0, periodic=True), "columns is 2; it must be at least 3 where"),
        (lambda: ising_grid(2, 2, coupling=(1, 2, 3)), "coupling is a tuple of 3; give (horizontal, vertical)"),
        (lambda: ising_grid(2, 3, coupling=(np.ones((3, 2)), 1)), "coupling, horizontal, has shape (3, 2); it must"),
        (lambda: ising_grid(2, 3, coupling=1.0, field=np.ones((3, 2))), "field has shape (3, 2); it must be a number"),
        (lambda: potts([(0, 1)], 1, 1.0), "n_states is 1; it must be at least 2"),
        (lambda: potts([(0, 1)], 3, 1.0, 0.5), "one number for all states would change nothing"),
        (lambda: potts([(0, 1)], 3, 1.0, [0.5, 1, np.nan]), "field contains NaN or infinity"),
    ],
)  # fmt: skip
def test_bad_values_are_refused(call, message):
    assert message in refusal(call)


def test_bad_types_are_refused():
    kind = ArgumentTypeError
    assert "edges is no array of shape (n_edges, 2)" in refusal(lambda: ising([(0, 1, 2)], 1.0), kind)
    assert "edges is no array of shape (n_edges, 2)" in refusal(lambda: ising([(0, 1), (2,)], 1.0), kind)
    assert "edges is no array of shape (n_edges, 2)" in refusal(lambda: ising([(0.0, 1.0)], 1.0), kind)
    assert "field is a mapping, but edges has positions" in refusal(lambda: ising([(0, 1)], 1.0, {"a": 1.0}), kind)
    assert "coupling is not an array of numbers" in refusal(lambda: ising([(0, 1)], "strong"), kind)


def test_potts_is_shown_with_its_states():
    network = potts([(0, 1)], 3, 0.5)
    assert isinstance(network, PottsNetwork)
    assert repr(network) == "PottsNetwork(2 variables, 1 edge; states '0', '1', '2')"

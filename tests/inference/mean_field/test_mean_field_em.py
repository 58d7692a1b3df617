"""Variational EM: against EM written out over all completions, direction of the bound, priors, zeros, starts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import chdtri

from doxa.data import Table
from doxa.inference.mean_field import em as em_module
from doxa.inference.mean_field.em import variational_em
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from support.checks import FALSE_ALARM, SEED

ROUNDING = 1e-9
EDGES = [("h", "a"), ("h", "b"), ("g", "b"), ("g", "c"), ("h", "c"), ("a", "d"), ("g", "d")]


def random_network(rng, zeros=0.0, edges=EDGES, most_states=3):
    dag = Dag.from_edges(edges)
    states = {name: [f"{name}{k}" for k in range(rng.integers(2, most_states + 1))] for name in dag.names}
    tables = {}
    for name in dag.names:
        table = rng.gamma(1.0, size=[len(states[v]) for v in (*dag.parents(name), name)]) + 0.05
        table *= rng.random(table.shape) >= zeros
        table[..., 0] += table.sum(axis=-1) == 0
        tables[name] = table / table.sum(axis=-1, keepdims=True)
    return CategoricalNetwork(dag, tables, states)


def redrawn(network, rng):
    """Other tables, 0 where the network's are."""
    states = dict(zip(network.names, network.states, strict=True))
    tables = {}
    for name, table in network.tables.items():
        new = (rng.gamma(1.0, size=table.shape) + 0.05) * (table > 0)
        tables[name] = new / new.sum(axis=-1, keepdims=True)
    return CategoricalNetwork(network.dag, tables, states)


def random_case(k, zeros=0.0, n=60, hidden=("h", "g")):
    rng = np.random.default_rng([SEED, 63, k])
    truth = random_network(rng, zeros)
    table = truth.simulate(n, rng, missing=0.15)
    return redrawn(truth, rng), table.select([name for name in truth.names if name not in hidden])


def completions(network, table):
    """For every row of the source: log probability of each completion, and the completions."""
    position = {name: j for j, name in enumerate(table.names)}
    for row in table.codes[table.row_index]:
        choices = []
        for v, name in enumerate(network.names):
            code = int(row[position[name]]) if name in position else -1
            choices.append([code] if code >= 0 else range(network.n_states[v]))
        every = np.array(list(product(*choices)))
        with np.errstate(divide="ignore"):
            yield network.log_probability(every), every


def log_likelihood(network, table):
    return sum(float(np.logaddexp.reduce(logs)) for logs, _ in completions(network, table))


def em_step_written_out(network, table, prior=0.0):
    """One iteration of EM by listing the completions of every row; families of barren nodes do not matter to it."""
    counts = {name: np.full(t.shape, prior) * (t > 0) for name, t in network.tables.items()}
    for logs, every in completions(network, table):
        weights = np.exp(logs - np.logaddexp.reduce(logs))
        for v, name in enumerate(network.names):
            family = (*network.parents[v], v)
            np.add.at(counts[name], tuple(every[:, u] for u in family), weights)
    tables = {name: c / c.sum(axis=-1, keepdims=True) for name, c in counts.items()}
    return CategoricalNetwork(network.dag, tables, dict(zip(network.names, network.states, strict=True)))


def worst_table(one, other):
    return max(np.abs(one.tables[name] - other.tables[name]).max() for name in one.names)


def test_whole_blocks_are_em_written_out():
    for k in range(4):
        network, table = random_case(k, n=40)
        leaves = [table.names.index(name) for name in "bcd"]  # seen, so that no node is barren
        table = Table.from_codes(table.names, table.states, table.codes[(table.codes[:, leaves] >= 0).all(axis=1)])
        found = variational_em(network, table, e_step="exact", max_iterations=6)
        assert found.exact
        for bound in found.bounds:
            assert bound == pytest.approx(log_likelihood(network, table), abs=ROUNDING)
            last, network = network, em_step_written_out(network, table)
        assert worst_table(found.network, last) < 1e-10


def test_blocks_of_all_that_is_hidden_are_the_exact_step():
    network, table = random_case(5)
    exact = variational_em(network, table, e_step="exact", max_iterations=20)
    joined = variational_em(network, table, blocks=[network.names], max_iterations=20)
    np.testing.assert_allclose(exact.bounds, joined.bounds, atol=ROUNDING)
    assert worst_table(exact.network, joined.network) < 1e-9
    assert joined.exact


@pytest.mark.parametrize("blocks", [(), (("h", "g"),), (("a", "d"), ("g", "c"))])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_the_bound_never_falls_and_is_below_the_log_likelihood(blocks, zeros):
    n_loose = 0
    for k in range(8):
        network, table = random_case(k, zeros)
        found = variational_em(network, table, blocks=blocks, max_iterations=60)
        assert (np.diff(found.bounds) >= 0).all()
        exact = log_likelihood(found.network, table)
        assert found.log_likelihood_bound == found.bounds[-1]
        assert found.log_likelihood_bound <= exact + ROUNDING
        n_loose += found.log_likelihood_bound < exact - 0.01
        for name, t in found.network.tables.items():
            assert not (t[network.tables[name] == 0] > 0).any()
    assert n_loose or blocks  # else nothing was approximated, and the comparison is empty


def test_the_exact_step_ends_at_a_better_likelihood_than_it_began():
    network, table = random_case(2)
    found = variational_em(network, table, e_step="exact", max_iterations=10_000)  # EM can take over a thousand
    assert found.converged
    assert log_likelihood(found.network, table) == pytest.approx(found.log_likelihood_bound, abs=ROUNDING)
    assert found.log_likelihood_bound > log_likelihood(network, table) + 5


@pytest.mark.parametrize("broken", ["transposed", "negative"])
def test_a_broken_step_lowers_the_bound_and_is_caught(broken, monkeypatch):
    """Tables normalised over the wrong axis, and the M-step away from its maximum."""
    right = em_module._Learning._improved

    def wrong(self, theta):
        new = right(self, theta)
        if broken == "transposed":
            return self._divided(np.roll(new, 1) * (self.given > 0), theta)
        return self._divided(np.maximum(2 * theta - new, 0.01), theta)

    network, table = random_case(2)
    monkeypatch.setattr(em_module._Learning, "_improved", wrong)
    with pytest.raises(AssertionError, match="the bound fell"):
        variational_em(network, table)


def test_complete_records_are_counted_in_one_step():
    rng = np.random.default_rng(SEED)
    truth = random_network(rng)
    table = truth.simulate(300, rng)
    found = variational_em(redrawn(truth, rng), table)
    assert found.exact
    assert found.bounds[1] == pytest.approx(found.bounds[-1])
    codes = table.codes[table.row_index]
    expected = np.bincount(codes[:, truth.names.index("h")], minlength=len(found.network.tables["h"])) / 300
    np.testing.assert_allclose(found.network.tables["h"], expected, atol=1e-12)
    assert found.log_likelihood_bound == pytest.approx(found.network.log_probability(codes).sum(), abs=1e-8)


def test_prior_counts_are_cases_added():
    rng = np.random.default_rng(SEED)
    truth = random_network(rng)
    table = truth.simulate(50, rng)
    found = variational_em(truth, table, prior_counts=2.0)
    codes = table.codes[table.row_index][:, truth.names.index("h")]
    expected = np.bincount(codes, minlength=len(found.network.tables["h"])) + 2.0
    np.testing.assert_allclose(found.network.tables["h"], expected / expected.sum(), atol=1e-12)
    by_node = variational_em(
        truth, table, prior_counts={name: np.full(t.shape, 2.0) for name, t in truth.tables.items()}
    )
    assert worst_table(found.network, by_node.network) < 1e-12
    one = em_step_written_out(truth, table, prior=2.0)
    assert worst_table(found.network, one) < 1e-12
    log_prior = 2.0 * sum(np.log(t).sum() for t in found.network.tables.values())
    assert found.bounds[-1] == pytest.approx(found.log_likelihood_bound + log_prior)


def test_the_bound_with_a_prior_never_falls():
    for k in range(4):
        network, table = random_case(k, zeros=0.2)
        found = variational_em(network, table, prior_counts=0.7)
        assert (np.diff(found.bounds) >= 0).all()
        assert found.converged


def test_identical_rows_are_one_row_with_a_count():
    network, table = random_case(3)
    twice = Table.from_codes(table.names, table.states, np.repeat(table.codes[table.row_index], 2, axis=0))
    one = variational_em(network, table, max_iterations=10)
    two = variational_em(network, twice, max_iterations=10)
    np.testing.assert_allclose(2 * one.bounds, two.bounds, rtol=1e-12)
    assert worst_table(one.network, two.network) < 1e-10


def test_hidden_nodes_that_nothing_depends_on_keep_their_tables_and_cost_nothing():
    network, table = random_case(4, hidden=("h", "g", "d"))
    assert "d" not in table.names
    found = variational_em(network, table, e_step="exact", max_iterations=5)
    np.testing.assert_array_equal(found.network.tables["d"], network.tables["d"])
    assert found.log_likelihood_bound == pytest.approx(log_likelihood(found.network, table), abs=ROUNDING)
    empty = Table.from_codes(["a"], [network.states[network.names.index("a")]], [[-1], [-1]])
    nothing = variational_em(network, empty)
    assert nothing.log_likelihood_bound == 0.0
    assert worst_table(nothing.network, network) == 0.0


def test_hidden_values_that_are_functions_of_each_other_have_a_place():
    """b copies h, both hidden: naive q holds one value, a block both."""
    dag = Dag.from_edges([("h", "b"), ("b", "c"), ("h", "c")])
    tables = {"h": [0.4, 0.6], "b": [[1, 0], [0, 1]], "c": [[[0.7, 0.3], [0.5, 0.5]], [[0.5, 0.5], [0.2, 0.8]]]}
    network = CategoricalNetwork(dag, tables, dict.fromkeys(dag.names, ("0", "1")))
    seen = Table.from_codes(["c"], [["0", "1"]], [[0], [1]], [30, 70])
    naive = variational_em(network, seen, max_iterations=5, seed=1)
    exact = variational_em(network, seen, blocks=[["h", "b"]], max_iterations=5)
    assert naive.bounds[0] == pytest.approx(30 * np.log(0.4 * 0.7) + 70 * np.log(0.6 * 0.8))
    assert exact.bounds[0] == pytest.approx(log_likelihood(network, seen))
    np.testing.assert_array_equal(exact.network.tables["b"], [[1, 0], [0, 1]])


def test_several_starts_keep_the_best_and_depend_on_the_seed_alone():
    network, table = random_case(6)
    one = variational_em(network, table, starts=4, seed=5, max_iterations=50)
    again = variational_em(network, table, starts=4, seed=5, max_iterations=50)
    assert len(one.starts) == 4
    assert one.bounds[-1] == max(one.starts)
    assert one.starts == again.starts
    assert one.network == again.network
    alone = variational_em(network, table, max_iterations=50)
    assert one.starts[0] == alone.starts[0]


def test_the_truth_is_found_where_it_can_be():
    """Three noisy copies of a hidden coin: 4000 records say what its tables are."""
    dag = Dag.from_edges([("h", "a"), ("h", "b"), ("h", "c")])
    labels = dict.fromkeys(dag.names, ("0", "1"))
    copies = {name: [[0.9, 0.1], [0.25, 0.75]] for name in "abc"}
    truth = CategoricalNetwork(dag, {"h": [0.35, 0.65], **copies}, labels)
    table = truth.simulate(4000, np.random.default_rng(SEED), missing=0.1).select(["a", "b", "c"])
    begin = CategoricalNetwork(dag, {"h": [0.5, 0.5], **{x: [[0.6, 0.4], [0.4, 0.6]] for x in "abc"}}, labels)
    found = variational_em(begin, table)
    twice = 2 * (found.log_likelihood_bound - log_likelihood(truth, table))
    assert 0 <= twice < chdtri(7, FALSE_ALARM)  # seven free probabilities (Wilks)
    assert 2 * (log_likelihood(found.network, table) - log_likelihood(begin, table)) > 10 * chdtri(7, FALSE_ALARM)


BAD = [
    ({"e_step": "full"}, "e_step is 'full'; it must be 'mean_field' or 'exact'"),
    ({"tolerance": 0.0}, "tolerance is 0.0; it must be above 0"),
    ({"starts": 0}, "starts is 0; it must be at least 1"),
    ({"max_sweeps": 0}, "max_sweeps is 0; it must be at least 1"),
    ({"blocks": ["hg"]}, "blocks[0] is 'hg'; give a sequence of names of nodes"),
    ({"blocks": [["h", "x"]]}, "blocks[0] names 'x', which is no node of network"),
    ({"blocks": [["h"], ["g", "h"]]}, "blocks[1] names 'h', which is in blocks[0] already; blocks are disjoint"),
    ({"prior_counts": -1.0}, "prior_counts holds -1; counts are finite numbers of at least 0"),
    ({"prior_counts": {"x": 1.0}}, "prior_counts names 'x', which is no node of network"),
    ({"prior_counts": {"h": [1.0] * 9}}, "prior_counts['h'] has shape (9,); it must be a number or of shape"),
    ({"e_step": "exact", "max_block_states": 3}, "joint states, and max_block_states is 3; use e_step='mean_field'"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_options(options, message):
    network, table = random_case(0)
    with pytest.raises((ValueError, TypeError)) as raised:
        variational_em(network, table, **options)
    assert message in str(raised.value)


def test_bad_tables():
    network, table = random_case(0)
    other = Table.from_codes(["x"], [["0", "1"]], [[0]])
    with pytest.raises(ValueError, match=r"table has the column 'x', which is no node of network; choose columns with"):
        variational_em(network, other)
    labels = Table.from_codes(["a"], [["a0", "no"]], [[0]])
    with pytest.raises(
        ValueError, match=r"table column 'a' has the state 'no', which the node has not; its states are"
    ):
        variational_em(network, labels)
    with pytest.raises(TypeError, match=r"table is of type list; give a Table, as doxa.read_table makes"):
        variational_em(network, [[0]])
    with pytest.raises(TypeError, match=r"network is of type Table; give a CategoricalNetwork"):
        variational_em(table, table)


def test_a_record_of_probability_zero_is_named():
    dag = Dag.from_edges([("a", "b")])
    labels = dict.fromkeys("ab", ("0", "1"))
    network = CategoricalNetwork(dag, {"a": [1.0, 0.0], "b": [[0.5, 0.5], [0.0, 1.0]]}, labels)
    table = Table.from_codes(["a", "b"], [["0", "1"]] * 2, [[0, 0], [0, 1], [1, -1]])
    with pytest.raises(ValueError, match=r"table has row 2, counted from 0, which has probability 0 in network; give"):
        variational_em(network, table)

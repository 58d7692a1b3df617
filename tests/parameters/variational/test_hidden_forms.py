"""The forms of q against each other, the cells, and tables that are too large for a form."""

from __future__ import annotations

import numpy as np
import pytest
from hidden_cases import (
    FORMS,
    XIS,
    assert_same,
    common_cause,
    many_parents,
    random_case,
    random_table,
    random_thetas,
    table_of,
)

from doxa.errors import ArgumentError
from doxa.models import LogisticNetwork
from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.hidden import hidden_posterior
from doxa.parameters.variational.hidden.blocks import cut
from support.checks import SEED


def test_groups_of_one_are_mean_field_and_large_ones_are_unconstrained():
    for k in range(2):
        rng = np.random.default_rng([SEED, k])
        network, table = random_case(rng)
        start = random_thetas(network, rng)
        for xi in XIS:
            one = hidden_posterior(network, table, form="structured", group_size=1, xi=xi, start=start)
            assert_same(one, hidden_posterior(network, table, form="mean_field", xi=xi, start=start))
            large = hidden_posterior(network, table, form="structured", group_size=9, xi=xi, start=start)
            assert_same(large, hidden_posterior(network, table, xi=xi, start=start))


def test_a_freer_form_begun_at_the_optimum_of_a_narrower_one_is_not_worse():
    for k in range(5):
        rng = np.random.default_rng([SEED, k])
        network, table = random_case(rng)
        least = hidden_posterior(network, table, form="mean_field", xi="row", rng=rng)
        for form in FORMS:  # from mean field with a xi for each row, every step up is provable
            by_row = hidden_posterior(network, table, form=form, xi="row", start=least)
            assert by_row.log_evidence >= least.log_evidence - 1e-9
            by_configuration = hidden_posterior(network, table, form=form, start=least)
            assert by_configuration.log_evidence >= least.log_evidence - 1e-9
            best = hidden_posterior(network, table, start=by_row)
            assert best.log_evidence >= by_row.log_evidence - 1e-9
            assert hidden_posterior(network, table, start=by_configuration).log_evidence >= (
                by_configuration.log_evidence - 1e-9
            )


def test_the_forms_differ_where_cells_explain_each_other_away():
    network = LogisticNetwork({"y": ["g", "h", "k"]}, prior_mean=1.5, prior_scale=0.5, roots=dict.fromkeys("ghk", 0.3))
    table = table_of(["y"], [[1]] * 30 + [[0]] * 20)
    bounds = [
        hidden_posterior(network, table, form=form, group_size=2 if form == "structured" else None).log_evidence
        for form in ("mean_field", "structured", "unconstrained")
    ]
    assert (np.diff(bounds) > 0.01).all()


def test_cells_of_one_joint_table_are_never_parted():
    joint = np.array([[0.0, 0.5], [0.5, 0.0]])  # a and b differ for certain
    network = LogisticNetwork({"c": ["a"], "d": ["b"]}, roots={("a", "b"): joint}, prior_mean=1.0)
    table = table_of(["c", "d"], [[0, 1], [1, 1], [1, 0], [0, 1]])
    one, other = hidden_posterior(network, table, form="mean_field"), hidden_posterior(network, table)
    assert_same(one, other)
    cells = one.cell_probabilities()
    a, b = network.names.index("a"), network.names.index("b")
    assert np.allclose(cells[:, a] + cells[:, b], 1.0)
    rows = table_of(["a", "c", "d"], [[0, 0, 1], [1, -1, 1], [-1, 1, -1]])
    cells = hidden_posterior(network, rows).cell_probabilities()
    assert np.allclose(cells[:, b] + cells[:, a], 1.0)


def test_groups_follow_the_factors_that_cells_share():
    assert cut([0, 1, 2, 3], [(0, 2), (1, 3), (2, 3)], [], 2) == [(0, 2), (1, 3)]
    assert cut([0, 1, 2], [(0, 1, 2)], [], 1) == [(0,), (1,), (2,)]
    assert cut([0, 1, 2], [(0, 1, 2)], [(0, 2)], 1) == [(0, 2), (1,)]
    assert cut([3, 5, 9], [(3, 5), (5, 9)], [], 3) == [(3, 5, 9)]


# --- cells ----------------------------------------------------------------------------------------------------------


def test_cells_are_the_posterior_of_the_missing_given_the_observed():
    """With all but known coefficients, by Bayes' rule; cells without observed descendants by the forward law."""
    network = LogisticNetwork(
        {"c": ["a", "b"], "d": ["c"], "e": ["d", "a"]}, prior_mean=0.9, prior_scale=1e-4, roots={"a": 0.3, "b": 0.6}
    )
    thetas = {"c": [0.9] * 3, "d": [0.9] * 2, "e": [0.9] * 3}
    rng = np.random.default_rng(SEED)
    table = random_table(network, rng, 60, 0.5, n_hidden=0)
    cells = hidden_posterior(network, table).cell_probabilities()
    for row, codes in enumerate(table.codes):
        for v, name in enumerate(table.names):
            column = network.names.index(name)
            if codes[v] >= 0:
                assert cells[row, column] == codes[v]
                continue
            filled = np.repeat(codes[None], 2, axis=0)
            filled[:, v] = (0, 1)
            logs = [network.log_likelihood(thetas, table_of(table.names, one)) for one in filled]
            truth = 1 / (1 + np.exp(logs[0] - logs[1]))
            independent = not any(codes[table.names.index(n)] < 0 for n in ("a", "d") if name == "e")
            assert cells[row, column] == pytest.approx(truth, abs=1e-5 if independent else 0.03)


def test_a_leaf_is_predicted_with_the_uncertainty_of_its_coefficients():
    network = LogisticNetwork({"y": ["x"]}, bias=-1.0, prior_mean=2.0, prior_scale=3.0, roots={"x": 0.25})
    table = table_of(["x", "y"], [[1, -1], [-1, -1]])
    fit = hidden_posterior(network, table)
    z = np.linspace(-10, 10, 4001)
    density = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    up, down = (density @ np.exp(log_logistic(-1 + s * (2 + 3 * z))) for s in (1, -1))
    y, x = network.names.index("y"), network.names.index("x")
    assert fit.cell_probabilities()[:, y] == pytest.approx([up, 0.25 * up + 0.75 * down], abs=1e-8)
    assert fit.cell_probabilities()[:, x].tolist() == [1.0, 0.25]
    assert fit.log_evidence == pytest.approx(np.log(0.25))  # of x alone
    assert np.allclose(fit.gaussians["y"].mean, 2.0)


def test_many_missing_parents_of_a_leaf_are_near_enough_to_a_gaussian(monkeypatch):
    parents = [f"x{k}" for k in range(10)]
    network = LogisticNetwork({"y": parents}, roots=dict.fromkeys(parents, 0.3), prior_mean=0.4, prior_scale=0.5)
    fit = hidden_posterior(network, table_of([*parents, "y"], [[-1] * 11]))
    summed = fit.cell_probabilities()[0, network.names.index("y")]
    monkeypatch.setattr("doxa.parameters.variational.hidden.starts._MOST_PARENTS", 3)
    assert fit.cell_probabilities()[0, network.names.index("y")] == pytest.approx(summed, abs=0.02)


# --- size -----------------------------------------------------------------------------------------------------------


def test_more_missing_parents_than_can_be_summed_over():
    network, full = many_parents()
    table = full.select(["y", "x0", "x1"])
    with pytest.raises(
        ArgumentError, match=r"23 missing cells \('x2', .*\): form='mean_field' or form='structured' cuts"
    ):
        hidden_posterior(network, table)
    with pytest.raises(ArgumentError, match=r"a smaller group_size or form='mean_field' cuts them further"):
        hidden_posterior(network, table, form="structured", group_size=22)
    with pytest.raises(ArgumentError, match=r"configurations of the family of 'y'.*; xi='row' needs no more than"):
        hidden_posterior(network, table, form="mean_field")
    fit = hidden_posterior(network, table, form="mean_field", xi="row")
    assert fit.converged
    better = hidden_posterior(network, table, form="structured", xi="row", start=fit)
    assert better.log_evidence >= fit.log_evidence - 1e-9


def test_too_many_rows_for_any_form(monkeypatch):
    monkeypatch.setattr("doxa.parameters.variational.hidden.blocks.MAX_CONFIGURATIONS", 10)
    network, table = common_cause(30)
    with pytest.raises(
        ArgumentError, match=r"the limit is 10; .* 1 missing cells .*: leave out the rows that miss most"
    ):
        hidden_posterior(network, table, form="mean_field")

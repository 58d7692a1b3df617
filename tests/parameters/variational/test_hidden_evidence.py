"""The bound against exact evidences: never above, and near where there is little to know."""

from __future__ import annotations

import numpy as np
import pytest
from hidden_cases import FORMS, XIS, exact_log_evidence, small_cases, table_of

from doxa.models import LogisticNetwork
from doxa.parameters.variational import bound
from doxa.parameters.variational.bound import lambda_of
from doxa.parameters.variational.hidden import ascent, hidden_posterior
from doxa.parameters.variational.hidden import problem as rows
from support.checks import SEED


def excesses(n_cases):
    """Bound less exact log evidence, for each case, form and kind of xi."""
    out = []
    for network, table in small_cases(n_cases):
        exact = exact_log_evidence(network, table)
        out.append([hidden_posterior(network, table, form=f, xi=x).log_evidence - exact for f in FORMS for x in XIS])
    return np.array(out)


def test_bounds_are_below_the_evidence():
    found = excesses(28)
    assert len(found) > 20
    assert found.max() < 1e-8
    assert np.median(found[:, 0]) > -1.0  # unconstrained, a xi for each configuration: no wild bound


@pytest.mark.slow
def test_bounds_are_below_the_evidence_in_many_cases():
    assert excesses(1700).max() < 1e-8


def test_twice_the_entropy_is_no_bound(monkeypatch):
    right = ascent.entr
    monkeypatch.setattr(ascent, "entr", lambda q: 2 * right(q))
    assert excesses(14).max() > 0.1


def test_half_of_lambda_is_no_bound(monkeypatch):
    monkeypatch.setattr(rows, "lambda_of", lambda xi: lambda_of(xi) / 2)
    monkeypatch.setattr(bound, "lambda_of", lambda xi: lambda_of(xi) / 2)
    monkeypatch.setattr("doxa.parameters.variational.batch.lambda_of", lambda xi: lambda_of(xi) / 2)
    assert excesses(14).max() > 0.1


def test_a_coefficient_with_a_tight_prior_leaves_only_the_loss_of_q():
    """With the coefficients all but known, q and the evidence are sums over cells, and the unconstrained q is exact."""
    network = LogisticNetwork(
        {"c": ["h", "k"], "d": ["h", "k"]}, prior_mean=0.8, prior_scale=1e-6, roots={"h": 0.3, "k": 0.6}
    )
    table = table_of(["c", "d"], [[0, 1], [1, 1], [0, 0], [1, 1]], [3, 5, 2, 4])
    exact = network.log_likelihood({"c": [0.8] * 3, "d": [0.8] * 3}, table)
    assert hidden_posterior(network, table).log_evidence == pytest.approx(exact, abs=1e-8)
    loose = hidden_posterior(network, table, form="mean_field").log_evidence
    assert loose < exact - 0.01
    assert hidden_posterior(network, table, form="mean_field", xi="row").log_evidence < loose


def test_the_bimodal_network_of_de_freitas_et_al_has_two_optima():
    """Section 5.2: one hidden and one observed parent, 50 records; modes on both sides of 0 for the hidden one."""
    from doxa.parameters.variational.hidden import hidden_posteriors, joint_gaussian, mixture_weights

    network = LogisticNetwork(
        {"y": ["h", "o"]}, prior_mean=3.0, prior_scale=10**0.5, bias=2.0, roots={"h": 0.6, "o": 0.5}
    )
    table = network.simulate(50, {"y": [2.0, -1.0]}, np.random.default_rng(2)).select(["o", "y"])
    one, other = hidden_posteriors(network, table, seed=SEED)
    assert one.gaussians["y"].mean[0] > 1 > -1 > other.gaussians["y"].mean[0]
    weights = mixture_weights([one, other])
    assert 0.5 < weights[0] < 0.9
    assert np.logaddexp(one.log_evidence, other.log_evidence) < exact_log_evidence(network, table, n=301)
    assert joint_gaussian(one).n_dimensions == 2

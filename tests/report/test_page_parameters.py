"""What pages of fits show are the numbers of the posterior, and of the approximation."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from page_cases import WRITTEN, unpacked
from scipy.special import expit

import doxa
from doxa.parameters.kernels.gaussians import Student
from doxa.report import page_text
from doxa.report.fit_method import fit_method, log_weights
from doxa.report.numbers import packed
from doxa.report.of_parameters import (
    BINS,
    MOST_POINTS,
    coefficients,
    fit_evidence,
    histogram_range,
    kept_draws,
    marginal_density,
)
from doxa.report.writing import page_data
from doxa.sampling.gaussian import Gaussian
from doxa.sampling.importance_proposals import Mixture
from support.checks import z_limit


@pytest.fixture(scope="module")
def shown(fitted):
    return page_data(fitted, written=WRITTEN)


def test_the_table_is_the_summary(fitted, shown):
    columns, frame = shown["coefficients"], fitted.summary()
    assert [columns["nodes"][k] for k in columns["node"]] == list(frame["node"])
    assert columns["label"] == list(frame["coefficient"])
    for short, name in (("mean", "mean"), ("sd", "sd"), ("low", "lower"), ("high", "upper")):
        error = np.abs(np.array(columns[short]) - frame[name])
        assert (error <= 0.5 * 10.0 ** -np.array(columns["places"])).all()
    assert (10.0 ** -np.array(columns["places"]) < frame["sd"] / 9).all()
    assert np.allclose(columns["mcse"], frame["mcse"], rtol=0.06)
    assert np.allclose(columns["ess"], frame["ess"], atol=0.51)
    assert np.allclose(columns["r_hat"], frame["r_hat"], atol=5.1e-5)


def test_densities_and_traces_are_those_of_the_draws(fitted, shown):
    drawn = shown["coefficients"]["drawn"]
    assert len(drawn) == len(fitted.summary())
    draws = fitted.draws("systol")[..., 1]
    own = drawn["1"]
    low, high = own["range"]
    heights = unpacked(own["density"], 0.0, own["top"])
    assert heights.sum() * (high - low) / BINS == pytest.approx(1 - own["outside"], abs=0.01)
    share, _ = np.histogram(draws, bins=BINS, range=(low, high), density=True)
    assert np.allclose(heights, share * (1 - own["outside"]), atol=own["top"] * 2e-3)
    steps = shown["coefficients"]["steps"]
    trace = unpacked(own["trace"], *own["ends"]).reshape(4, len(steps))
    assert np.allclose(trace, draws[:, steps], atol=(own["ends"][1] - own["ends"][0]) / 4000)


def test_the_approximation_beside_the_draws(fitted, shown):
    own, gaussian = shown["coefficients"]["drawn"]["1"], fitted.approximation("systol")
    at = np.linspace(*own["range"], 2 * BINS + 1)
    curve = unpacked(own["curve"], 0.0, own["top"])
    expected = np.exp(-0.5 * ((at - gaussian.mean[1]) / gaussian.sd[1]) ** 2) / gaussian.sd[1] / np.sqrt(2 * np.pi)
    assert np.allclose(curve, expected, atol=own["top"] * 1e-3)
    root = shown["coefficients"]["drawn"][str(shown["coefficients"]["label"].index("probability"))]
    beta = unpacked(root["curve"], 0.0, root["top"])
    width = (root["range"][1] - root["range"][0]) / (2 * BINS)
    assert beta.sum() * width == pytest.approx(1, abs=0.01)  # a density of probabilities, not of logits


def spread(proposal, column, probability=False, density=marginal_density):
    """Largest z of the shares of draws in 20 bins against the density integrated over them."""
    n = 40_000
    drawn = proposal.sample(n, np.random.default_rng(3))[:, column]
    drawn = expit(drawn) if probability else drawn
    edges = np.quantile(drawn[: n // 2], np.linspace(0.01, 0.99, 21))  # bins from one half, shares from the other
    counts = np.histogram(drawn[n // 2 :], bins=edges)[0]
    fine = np.linspace(edges[:-1], edges[1:], 41)
    heights = density(proposal, column, fine.ravel(), probability=probability).reshape(fine.shape)
    p = (heights[:-1] + heights[1:]).sum(axis=0) / 2 * (fine[1] - fine[0])
    return np.abs((counts - n / 2 * p) / np.sqrt(n / 2 * p * (1 - p))).max()


LOWER = np.array([[0.5, 0.0], [0.9, 0.4]])
PROPOSALS = {
    "gaussian": Gaussian(np.array([0.3, -1.0]), LOWER),
    "student": Student(np.array([0.3, -1.0]), LOWER, 4.0),
    "mixture": Mixture([Student(np.array([0.0, 2.0]), LOWER, 5.0), Student(np.zeros(2), 2 * np.eye(2))], [0.7, 0.3]),
}


@pytest.mark.parametrize("probability", [False, True])
@pytest.mark.parametrize("name", PROPOSALS)
def test_marginal_densities_are_those_of_draws(name, probability):
    assert spread(PROPOSALS[name], 1, probability) < z_limit(20 * 6)


def test_the_wrong_width_is_seen():
    def by_the_diagonal(proposal, column, at, probability):
        alone = Gaussian(proposal.mean, np.diag(np.diag(proposal.cholesky)))
        return marginal_density(alone, column, at, probability=probability)

    assert spread(PROPOSALS["gaussian"], 1, density=by_the_diagonal) > 2 * z_limit(20 * 6)


def test_an_approximation_without_a_formula_is_drawn_from():
    class Other:
        n_dimensions = 2

        def sample(self, n, rng):
            return PROPOSALS["gaussian"].sample(n, rng)

    at = np.linspace(-2.0, 0.0, 9)
    exact = marginal_density(PROPOSALS["gaussian"], 1, at)
    assert np.allclose(marginal_density(Other(), 1, at), exact, atol=0.06 * exact.max())


def test_roots_in_a_joint_part_are_probabilities(missing_cells):
    names = missing_cells.table.names
    fit = doxa.fit(doxa.LogisticNetwork({names[1]: [names[0]]}), missing_cells.table, draws=200, seed=1)
    assert any(len(part.nodes) == 2 for part in fit.report.parts)
    columns = coefficients(fit)
    own = columns["drawn"][str(columns["label"].index("probability"))]
    curve = unpacked(own["curve"], 0.0, own["top"])
    at = np.linspace(*own["range"], 2 * BINS + 1)
    assert 0 <= own["range"][0] < own["range"][1] <= 1
    p = fit.draws(names[0])
    # the approximation is near the posterior, whose draws have at least some 100 independent ones
    assert np.trapezoid(curve * at, at) / np.trapezoid(curve, at) == pytest.approx(p.mean(), abs=p.std() / 2)
    assert np.trapezoid(curve, at) == pytest.approx(1, abs=0.05)


def test_weights_tell_the_efficiency_that_pilots_told(with_hidden):
    (part,) = with_hidden.report.parts
    weights = log_weights(with_hidden, 0)
    assert weights.size >= 3000
    (shown,) = fit_method(with_hidden)["weights"]
    assert shown["efficiency"] == pytest.approx(1 / np.exp(weights).mean(), abs=1e-3)
    assert shown["efficiency"] == pytest.approx(part.efficiency, abs=0.1)  # of 4096 pilot draws; both have some error
    assert sum(shown["share"]) == pytest.approx(1, abs=0.01)


def test_good_approximations_have_weights_near_one(fitted):
    found = fit_method(fitted)
    assert [entry["part"] for entry in found["weights"]] == sorted(
        (entry["part"] for entry in found["weights"]), key=lambda k: -np.exp(log_weights(fitted, k)).mean()
    )
    assert all(entry["efficiency"] > 0.97 for entry in found["weights"])
    exact = [part for part in found["parts"] if part["method"] == "exact"]
    assert len(exact) == 3
    assert all(part["efficiency"] is None for part in exact)
    assert found["evidence"] == str(fitted.log_marginal_likelihood)
    assert found["bound"] == pytest.approx(fitted.log_marginal_likelihood_bound, abs=1e-4)


def test_tours(touring):
    (tours,) = fit_method(touring)["tours"]
    marks = touring.trace["0.regenerated"][..., 0]
    assert tours["n"] == marks.sum() - 4  # the last of each chain is not complete
    assert sum(tours["counts"]) == tours["n"]
    assert tours["mean"] * tours["n"] == pytest.approx(1600, rel=0.02)
    for node, label, mean, by_tours, by_chains in tours["rows"]:
        plain = touring.coefficient(node, label)
        assert abs(mean - plain.value) < 5 * plain.mcse
        assert by_tours == pytest.approx(by_chains, rel=0.5)


def test_evidence_by_parts(fitted):
    found = fit_evidence(fitted)
    assert [tuple(part["nodes"]) for part in found["parts"]] == [part.nodes for part in fitted.report.parts]
    assert len(found["traces"]) == 4
    worst = found["ranks"][0]
    assert fitted.summary()["r_hat"].argmax() == worst["parameter"]
    assert np.allclose(np.mean(worst["chains"], axis=1), 1, atol=0.02)


def test_verdict_and_facts(fitted, shown):
    facts = dict(shown["facts"])
    assert shown["verdict"]["word"] == fitted.verdict.split(":")[0]
    assert facts["Digest of the data"] == fitted.report.data_digest
    assert facts["Seed"] == "1"
    assert facts["Draws"].startswith("4 chains of 1500 draws")
    assert facts["Prior"] == "coefficients normal, mean 0, standard deviation 10; probabilities of roots uniform"
    assert facts["Page written"] == "2025-03-01 12:30:00+00:00"
    assert ["systol", fitted.states["systol"][1]] in shown["ones"]


def test_an_approximation_is_labelled_as_one():
    network = doxa.LogisticNetwork({"systol": ["smoke"]}, roots={"smoke": 0.5})
    fit = doxa.fit(network, doxa.datasets.load("reinis"), method="variational", draws=50, seed=1)
    data = page_data(fit)
    assert (data["verdict"]["state"], data["verdict"]["word"]) == ("unknown", "Approximation")
    assert "method='auto'" in data["verdict"]["next"]
    assert data["method"]["weights"] == []
    assert data["method"]["evidence"] == ""


def test_a_fit_read_from_its_file_says_that_it_has_no_approximation(fitted, tmp_path):
    fitted.save(tmp_path / "fit.doxa")
    loaded = doxa.load(tmp_path / "fit.doxa")
    data = page_data(loaded)
    assert data["coefficients"]["drawn"]["0"]["curve"] == ""
    assert "keeps no approximations" in data["coefficients"]["drawn"]["0"]["why"]
    assert data["method"]["weights"] == []
    assert data["method"]["evidence"] == str(fitted.log_marginal_likelihood)


def test_many_parameters_are_thinned_and_say_so(fitted, monkeypatch):
    monkeypatch.setattr(import_module("doxa.report.of_parameters"), "MOST_DRAWN", 3)
    columns = coefficients(fitted)
    assert len(columns["mean"]) == len(fitted.summary())
    assert len(columns["drawn"]) == 3
    assert str(int(fitted.summary()["r_hat"].argmax())) in columns["drawn"]
    assert str(int(fitted.summary()["ess"].argmin())) in columns["drawn"]


@pytest.mark.parametrize(("chains", "draws", "parameters"), [(4, 100_000, 50), (32, 5000, 200), (1, 30, 5)])
def test_traces_have_room(chains, draws, parameters):
    kept = kept_draws(chains, draws, parameters)
    assert kept.size >= min(draws, 9)
    assert len(set(np.diff(kept))) <= 1
    assert chains * kept.size * parameters <= max(MOST_POINTS, 16 * chains * parameters)


def test_a_parameter_that_never_moves():
    low, high = histogram_range(np.zeros((2, 10)))
    assert low < 0 < high
    assert packed(np.zeros(3), 0.0, 0.0) == "AAAAAA"


def test_a_page_of_a_fit_is_small(fitted, with_hidden, bundled):
    for fit in (fitted, with_hidden):
        assert len(page_text(fit).encode()) < 300_000


def test_the_same_fit_makes_the_same_bytes(fitted, bundled):
    assert page_text(fitted, written=WRITTEN) == page_text(fitted, written=WRITTEN)

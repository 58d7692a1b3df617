"""The experiments on inference run, in their quick form, and what they compute beside doxa is right."""

# ruff: noqa: E402 (the experiments' packages are found beside the scripts)

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from claim_tables import check_claims

from doxa.inference.exact import plan_contraction

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "experiments"))

from lecture.modes import CHAINS, RARE, WIDTHS, Sizes, caught, compute_coupling, hidden_cause
from logistic_papers.claims import BASE_SAMPLERS
from riggelsen.importance import (
    EXACT,
    GRID,
    MODES,
    PROPOSALS,
    SHARES,
    SLOPE,
    SPREAD,
    Tabulated,
    h,
    largest_weight,
    log_target,
    ratio_variance,
    replicate,
    variance,
    variance_by_component,
)

DOCS = ROOT / "docs"
SCRIPTS = {  # the page that shows each, and how its figures' names begin
    "riggelsen_figure_4_1": ("experiments.md", "importance_"),
    "riggelsen_figure_4_2": ("experiments.md", "reachable_"),
    "antal_example_1": ("experiments-inference.md", "antal_"),
    "lecture_ising": ("experiments-inference.md", "lecture_ising"),
    "lecture_tempering": ("experiments-inference.md", "lecture_tempering"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_prints_claims_with_verdicts_and_draws(name, tmp_path, monkeypatch, capsys):
    script = ROOT / "experiments" / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--quick", "--markdown", "--figures", str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    check_claims(capsys.readouterr().out, BASE_SAMPLERS)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in DOCS.glob(f"figures/{SCRIPTS[name][1]}*.png")}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_page_shows_every_figure_and_names_the_script(name):
    page, prefix = SCRIPTS[name]
    text = (DOCS / page).read_text(encoding="utf-8")
    assert f"experiments/{name}.py" in text
    figures = sorted(DOCS.glob(f"figures/{prefix}*.png"))
    assert figures
    for path in figures:
        assert path.stat().st_size < 120_000, f"{path.name} has {path.stat().st_size} bytes"
        assert f"(figures/{path.name})" in text, f"{page} does not show {path.name}"


def expected_square(mean, sd):
    """E[h^2 Pr / Pr'] for a normal Pr': integrals of exp(-a x^2 / 2 + b x - c / 2), by completing squares."""
    total = 0.0
    for share, mode in zip(SHARES, MODES, strict=True):
        for other, at in zip(SHARES, MODES, strict=True):
            a = 2 / SPREAD**2 - 1 / sd**2
            b = (mode + at) / SPREAD**2 - mean / sd**2 + 2 * SLOPE
            c = (mode**2 + at**2) / SPREAD**2 - mean**2 / sd**2
            height = sd * np.sqrt(2 * np.pi) / (2 * np.pi * SPREAD**2)
            total += share * other * height * np.sqrt(2 * np.pi / a) * np.exp(b**2 / (2 * a) - c / 2)
    return total


@pytest.mark.parametrize("name", ["narrow", "one mode, wider", "wide"])
def test_the_variance_by_quadrature_is_that_of_the_closed_form(name):
    proposal = PROPOSALS[name]
    assert variance(proposal) == pytest.approx(expected_square(proposal.mean, proposal.sd) - EXACT**2, rel=1e-9)
    assert ratio_variance(proposal) != pytest.approx(variance(proposal), rel=0.1)


def test_variances_that_are_known():
    assert variance(PROPOSALS["|h| Pr"]) == 0.0
    assert variance(PROPOSALS["thin tails"]) == np.inf
    second = sum(v * np.exp(2 * SLOPE * m + 2 * (SLOPE * SPREAD) ** 2) for v, m in zip(SHARES, MODES, strict=True))
    assert variance(PROPOSALS["Pr itself"]) == pytest.approx(second - EXACT**2, rel=1e-9)
    assert ratio_variance(PROPOSALS["Pr itself"]) == pytest.approx(second - EXACT**2, rel=1e-9)
    step = GRID[1] - GRID[0]
    assert h(GRID) @ np.exp(log_target(GRID)) * step == pytest.approx(EXACT, rel=1e-9)
    least = (np.abs(h(GRID) - EXACT) @ np.exp(log_target(GRID)) * step) ** 2  # of eq. 4.4, by Cauchy & Schwarz
    assert ratio_variance(PROPOSALS["|h - mean| Pr"]) == pytest.approx(least, rel=1e-3)
    assert all(ratio_variance(p) > 0.999 * least for p in PROPOSALS.values())


def test_a_wide_component_bounds_the_weights_of_the_whole_and_not_those_of_the_components():
    ten, wide = PROPOSALS["narrow + 10% wide"], PROPOSALS["wide"]
    assert largest_weight(ten) <= 10 * largest_weight(wide) < 1e-40 * largest_weight(PROPOSALS["narrow"])
    assert variance_by_component(ten) > 1e15 * variance(ten)


def test_runs_have_the_variance_of_equation_4_6_and_their_errors_that_of_equation_4_4():
    n, runs = 400, 300
    found = replicate("both modes", n, runs)
    tolerance = 4 * np.sqrt(2 / runs)  # of a variance from nearly normal numbers
    own, of_ratio = variance(PROPOSALS["both modes"]), ratio_variance(PROPOSALS["both modes"])

    def agrees(expected):
        return abs(n * found.runs.plain.var() / expected - 1) < tolerance

    assert agrees(own)
    assert not agrees(of_ratio)
    assert abs(n * np.median(found.runs.naive_error) ** 2 / of_ratio - 1) < 0.1
    assert 0.9 < found.covered(naive=True).mean() <= 1
    assert found.offered == 1


def test_a_narrow_proposal_is_trusted_and_wrong_and_one_that_meets_the_other_mode_is_refused():
    narrow, meets = replicate("narrow", 1000, 20), replicate("one mode, wider", 1000, 20)
    assert narrow.offered == 1
    assert narrow.covered(naive=False).max() == 0
    assert meets.offered == 0


def test_a_tabulated_proposal_draws_as_it_says():
    cells = Tabulated([0.0, 1.0, 3.0, 3.5], [1.0, 0.0, 2.0])
    draws = cells.sample(4000, np.random.default_rng(1))
    np.testing.assert_allclose(np.exp(cells.log_density(np.array([0.5, 2.0, 3.2, -1.0, 4.0]))), [0.5, 0, 1, 0, 0])
    assert abs((draws < 1).mean() - 0.5) < 4 * 0.5 / np.sqrt(4000)
    assert np.isfinite(cells.log_density(draws)).all()


@pytest.mark.parametrize("widths", WIDTHS)
def test_the_hidden_cause_has_the_distribution_of_its_table(widths):
    n_states, factors = hidden_cause(*widths)
    exact = plan_contraction(n_states, [f.variables for f in factors]).run(factors)
    assert exact.marginals[0][0] == pytest.approx(RARE, abs=1e-12)
    assert exact.log_z == pytest.approx(0.0, abs=1e-12)


def test_tempering_and_clusters_find_both_modes_where_gibbs_chains_stay_in_theirs():
    sizes = Sizes(
        {"Gibbs": 100, "tempering": 200, "Swendsen-Wang": 200},
        {"Gibbs": 8, "tempering": 1, "Swendsen-Wang": 1},
        512,
        50,
    )
    found = compute_coupling(0.8, sizes)

    def agrees(method, exact):
        sets = found.sets[method]
        error = np.sqrt(
            (1 - exact**2) / sets.ess[0]
        )  # spins of a mode are nearly all alike: the mean spin is about +-1
        return abs(sets.pooled[0] - exact) < 4 * error

    assert 0.4 < found.exact < 0.5
    for method in ("tempering", "Swendsen-Wang"):
        assert agrees(method, found.exact)
        assert not agrees(method, -found.exact)
    stuck = np.abs(found.sets["Gibbs"].chains.mean(axis=2)) > 0.9
    assert stuck.all()
    modes = np.sign(found.sets["Gibbs"].chains.mean(axis=2))
    alike = np.abs(modes.sum(axis=1)) == CHAINS
    np.testing.assert_array_equal(found.sets["Gibbs"].r_hat > 1.3, ~alike)


def test_the_alarm_is_raised_by_chains_apart_and_by_no_others():
    rng = np.random.default_rng(1)
    alike = rng.normal(size=(32, 1000))
    apart = alike + 4 * (np.arange(32) % 2)[:, None]
    assert caught(alike, 4, 20) < 0.2
    assert caught(apart, 16, 20) == 1
    assert 0.2 < caught(apart, 2, 100) < 0.8  # two chains differ in 16 of 31 cases

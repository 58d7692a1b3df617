"""The experiments on logistic networks run, in their quick form, and what they compute beside doxa is right."""

# ruff: noqa: E402 (the experiments' packages are found beside the scripts)

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from claim_tables import check_claims

from doxa.data import Table
from doxa.models import LogisticNetwork
from doxa.parameters.variational.hidden import hidden_posterior

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "experiments"))

from jaakkola_jordan.mean_field import configurations, mean_field_bound
from logistic_papers.claims import BASE_SAMPLERS, by_wins

SCRIPTS = sorted([*(ROOT / "experiments").glob("de_freitas_*.py"), *(ROOT / "experiments").glob("jaakkola_*.py")])
PAGE = ROOT / "docs" / "experiments-logistic.md"
FIGURES = sorted([*PAGE.parent.glob("figures/de_freitas_*.png"), *PAGE.parent.glob("figures/jaakkola_jordan_*.png")])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("figures")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_prints_claims_with_verdicts_and_draws(script, folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(script), "--quick", "--markdown", "--figures", str(folder / script.stem)])
    runpy.run_path(str(script), run_name="__main__")
    check_claims(capsys.readouterr().out, BASE_SAMPLERS)
    drawn = {path.name for path in (folder / script.stem).iterdir()}
    assert drawn
    assert drawn <= {path.name for path in FIGURES}


def test_the_page_shows_every_figure_and_names_every_script():
    page = PAGE.read_text(encoding="utf-8")
    assert len(FIGURES) >= len(SCRIPTS)
    for path in FIGURES:
        assert path.stat().st_size < 120_000, f"{path.name} has {path.stat().st_size} bytes"
        assert f"(figures/{path.name})" in page, f"{PAGE.name} does not show {path.name}"
    for script in SCRIPTS:
        assert f"experiments/{script.name}" in page, f"{PAGE.name} does not name {script.name}"


@pytest.mark.parametrize("xi", ["row", "configuration"])
@pytest.mark.parametrize("p", [0.1, 0.6])
def test_the_factorised_bound_is_that_of_doxa_where_parents_are_independent(p, xi):
    names = [f"x{j}" for j in range(4)]
    root = np.tril(np.random.default_rng(1).normal(0.0, 0.6, (4, 4)))
    covariance = root @ root.T + 0.1 * np.eye(4)
    network = LogisticNetwork(
        {"s": names}, bias=0.0, prior_covariance={"s": covariance}, roots=dict.fromkeys(names, p), coding="01"
    )
    seen = Table.from_codes(["s"], [("0", "1")], [[1]])
    s = configurations(4)
    probabilities = np.where(s == 1, p, 1 - p).prod(axis=1)
    found = mean_field_bound(probabilities, covariance, xi, np.random.default_rng(2))
    assert found == pytest.approx(hidden_posterior(network, seen, form="mean_field", xi=xi).log_evidence, abs=1e-9)
    assert found < np.log(0.5)


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([[1.0] * 10, [1.0] * 9 + [-1.0]], "holds"),
        ([[1.0] * 10, [1.0, -1.0] * 5], "in part"),
        ([[1.0] * 10, [-1.0] * 9 + [1.0]], "does not hold"),
        ([[1.0, -1.0] * 5], "cannot be told"),
    ],
)
def test_verdicts_ask_for_nine_sets_of_ten(differences, verdict):
    assert by_wins(differences) == verdict

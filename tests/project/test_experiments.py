"""The experiments run: their quick form prints its tables and draws its figures, with numbers that mean nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "experiments").glob("*.py"))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """What the script prints, and the folder of its figures."""
    folder = tmp_path_factory.mktemp("figures")
    script = ROOT / "experiments" / "riggelsen_figures_4_5_to_4_8.py"
    command = [sys.executable, str(script), "--quick", "--figures", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder


def test_the_riggelsen_script_prints_every_claim(quick):
    text, _ = quick
    for heading in (
        "the chapter says",
        "we find (printed kernel)",
        "we find (corrected kernel)",
        "most frequent graph",
    ):
        assert heading in text
    for figure in ("4.5 top", "4.5 bottom", "4.6", "4.7", "4.8"):
        assert any(line.startswith(f"{figure} ") for line in text.splitlines()), f"figure {figure} is not in the table"
    assert "nan" not in text


def test_the_riggelsen_script_draws_every_figure(quick):
    _, folder = quick
    drawn = {path.name for path in folder.iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "figures").glob("riggelsen_*.png")}
    assert {f"riggelsen_figure_4_{n}.png" for n in (5, 6, 7, 8)} < drawn


def test_every_figure_of_the_documentation_is_small_and_shown():
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "figures").glob("riggelsen_*.png"):
        assert path.stat().st_size < 120_000, f"{path.name} has {path.stat().st_size} bytes"
        assert f"(figures/{path.name})" in page, f"docs/experiments.md does not show {path.name}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_is_named_on_the_page(script):
    assert f"experiments/{script.name}" in (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")

"""The Ising experiment runs in its quick form, and its page shows what it draws."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "experiments" / "lecture_ising.py"
PAGE = ROOT / "docs" / "experiments-inference.md"
FIGURES = sorted(PAGE.parent.glob("figures/lecture_ising_*.png"))


def test_the_script_prints_claims_with_verdicts_and_draws(tmp_path):
    command = [sys.executable, str(SCRIPT), "--quick", "--markdown", "--figures", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout
    _, _, *rows = done.stdout.split("\n\n")[0].splitlines()
    assert len(rows) == 9
    for row in rows:
        assert any(f"| {verdict} |" in row for verdict in ("holds", "in part", "does not hold")), row
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in FIGURES}


def test_the_page_shows_every_figure_and_names_the_script():
    page = PAGE.read_text(encoding="utf-8")
    assert len(FIGURES) == 3
    for path in FIGURES:
        assert path.stat().st_size < 120_000
        assert f"(figures/{path.name})" in page
    assert f"experiments/{SCRIPT.name}" in page

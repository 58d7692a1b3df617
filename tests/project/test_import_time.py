"""`import doxa` stays light: the heavy libraries are imported where they are first used.

Not a timing test, which would depend on the machine; benchmarks/import_time.py measures.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "pandas", "duckdb", "scipy", "arviz_stats", "joblib", "rich", "typer", "narwhals")

LOADED = "import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"


def modules_after(statement: str) -> set[str]:
    command = [sys.executable, "-c", LOADED.format(statement=statement)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_importing_doxa_imports_no_heavy_library():
    loaded = modules_after("import doxa")
    assert "doxa" in loaded
    assert loaded.isdisjoint(HEAVY), f"import doxa imports {sorted(loaded.intersection(HEAVY))}"


@pytest.mark.parametrize("library", HEAVY)
def test_a_heavy_library_would_be_seen(library):
    assert library in modules_after(f"import {library}")

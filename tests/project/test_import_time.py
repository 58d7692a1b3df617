"""`import doxa` stays light, and a question loads what it needs: imports are where they are first used.

Not a timing test, which would depend on the machine; benchmarks/import_time.py measures.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from functools import cache
from types import ModuleType

import pytest

HEAVY = ("numba", "pandas", "duckdb", "scipy", "arviz_stats", "joblib", "rich", "typer", "narwhals")

LEARN = "import doxa; doxa.learn(doxa.datasets.load('reinis'), seed=1)"
INFER = "import doxa; doxa.infer(doxa.ising_grid(3, 3, coupling=0.4), 'X0_0')"
HELP = "from doxa.cli import main; sys.argv = ['doxa', '--help']; main()"

# modules of ours that a question may load, and rooms that it has no use for
BUDGETS = {
    LEARN: (
        120,
        ["inference", "parameters", "data.large.source", "structure.cases.incomplete"],
    ),
    INFER: (80, ["inference.spins", "inference.annealing", "inference.gibbs", "parameters", "structure"]),
    HELP: (35, ["data", "models", "structure", "inference", "parameters"]),
}

NAMES = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {statement}"


@cache
def names_after(statement: str) -> set[str]:
    """Every module that is loaded when the statement has run."""
    command = [sys.executable, "-c", NAMES.format(statement=statement)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(done.stderr.splitlines()[-1].split())


def modules_after(statement: str) -> set[str]:
    return {name.partition(".")[0] for name in names_after(statement)}


def beyond(budget: tuple[int, list[str]], loaded: set[str]) -> list[str]:
    """What is wrong with the modules that were loaded, in words."""
    most, unwanted = budget
    ours = {name for name in loaded if name.startswith("doxa.")}
    assert ours, "nothing of ours was loaded"
    found = [name for name in unwanted if f"doxa.{name}" in ours]
    return found + ([f"{len(ours)} modules"] if len(ours) > most else [])


def test_importing_doxa_imports_no_heavy_library():
    loaded = modules_after("import doxa")
    assert "doxa" in loaded
    assert loaded.isdisjoint(HEAVY), f"import doxa imports {sorted(loaded.intersection(HEAVY))}"


def test_a_heavy_library_would_be_seen():
    assert modules_after(f"import {', '.join(HEAVY)}").issuperset(HEAVY)


@pytest.mark.parametrize("statement", BUDGETS, ids=["learn", "infer", "help"])
def test_a_question_loads_only_what_it_needs(statement):
    assert beyond(BUDGETS[statement], names_after(statement)) == []


@pytest.mark.parametrize("statement", [LEARN, INFER], ids=["learn", "infer"])
def test_exact_answers_need_no_special_functions(statement):
    """SciPy's take a seventh of a second to load."""
    loaded = names_after(statement)
    assert "numba" in loaded
    assert "scipy.special" not in loaded


def test_the_budget_would_see_more():
    loaded = names_after(f"{INFER}; import doxa.inference.spins.chain, doxa.structure.cases.incomplete.sampler")
    found = beyond(BUDGETS[INFER], loaded)
    assert {"inference.spins", "structure"} < set(found)
    assert any(word.endswith("modules") for word in found)


def test_the_command_line_help_needs_no_arrays():
    assert names_after(HELP).isdisjoint(("numpy", "numba", "pandas"))


ROOMS = ["structure", "structure.averaging", "data.large", "estimates", "estimates.store", "inference", "models"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_lazy_face_has_its_public_names(room):
    face = importlib.import_module(f"doxa.{room}")
    for name in face.__all__:
        found = getattr(face, name)
        assert not isinstance(found, ModuleType), f"{room}.{name} is a module"
    assert dir(face) == sorted(face.__all__)
    with pytest.raises(AttributeError, match=f"module 'doxa.{room}' has no attribute 'nothing'"):
        _ = face.nothing


def test_a_function_keeps_its_place_when_the_module_of_its_name_is_imported_first():
    done = names_after("import doxa.inference.infer, doxa.inference as room; assert room.infer.__qualname__ == 'infer'")
    assert "doxa.inference.infer" in done

"""Compiled functions that one can read: few arguments, and arrays handed over by name."""

from __future__ import annotations

import ast
import functools
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.logistic import Logistic, box
from doxa.structure.families.logistic.work import LogisticWork, logistic_work
from support.tables import skewed_table

SOURCES = Path(__file__).parents[2] / "src" / "doxa"
COMPILERS = {"branching", "cold", "compact", "compiled", "hot", "inlined"}
MOST = 8


@functools.cache
def compiled_functions():
    return [
        (f"{path.relative_to(SOURCES)}: {node.name}", node)
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and COMPILERS & {ast.unparse(one) for one in node.decorator_list}
    ]


def test_compiled_functions_take_few_arguments():
    found = {name: len(node.args.args) + len(node.args.kwonlyargs) for name, node in compiled_functions()}
    assert len(found) > 200
    assert {name: count for name, count in found.items() if count > MOST} == {}


def untyped(node):
    """What of a function's arguments and result is not said, or said to be anything."""
    said = {one.arg: one.annotation for one in (*node.args.args, *node.args.kwonlyargs)} | {"return": node.returns}
    return [name for name, kind in said.items() if kind is None or ast.unparse(kind) == "Any"]


def test_compiled_functions_say_what_they_take_and_return():
    found = {name: untyped(node) for name, node in compiled_functions()}
    assert {name: left for name, left in found.items() if left} == {}


def test_an_argument_without_a_type_is_noticed():
    broken = ast.parse("def f(a: Any, b, c: int, *, d: list[Any]) -> Any: ...").body[0]
    assert untyped(broken) == ["a", "b", "return"]


def from_the_end(node):
    """Indices that say so, as -1 does."""
    at = [one.slice for one in ast.walk(node) if isinstance(one, ast.Subscript)]
    at = [one for index in at for one in (index.elts if isinstance(index, ast.Tuple) else [index])]
    return [ast.unparse(one) for one in at if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub)]


def test_compiled_functions_count_indices_from_the_start():
    """What machine code does not do (`doxa._compilers`); those that are computed are looked at by ``make checked``."""
    found = {name: from_the_end(node) for name, node in compiled_functions()}
    assert {name: indices for name, indices in found.items() if indices} == {}


def test_an_index_from_the_end_is_noticed():
    assert from_the_end(ast.parse("def f(a): return a[-1] + a[0, -k] + a[i - 1] + a[1:-1]")) == ["-1", "-k"]


def test_a_box_holds_what_its_scorer_was_compiled_for(monkeypatch):
    """The order of fields is said once; a work space of another form is refused before its memory is read."""
    data, sets = FamilyScores(skewed_table(3, 40, seed=1)).data, np.array([[2], [6]], dtype=np.uint64)
    values = np.zeros(2)
    box.Box(Logistic(), data).score(0, sets, values)
    assert (values < 0.0).all()
    for wrong in (
        namedtuple("backwards", LogisticWork._fields[::-1])(**logistic_work(40, 3)._asdict()),
        logistic_work(40, 3)._replace(mean=np.zeros(3, dtype=np.int64)),
        logistic_work(40, 3)._replace(frame=np.zeros(3)),
        logistic_work(40, 3)._replace(frame=np.zeros((3, 3)).T[::2]),
    ):
        monkeypatch.setattr(box, "logistic_work", lambda *_, wrong=wrong: wrong)
        with pytest.raises(AssertionError):
            box.Box(Logistic(), data)

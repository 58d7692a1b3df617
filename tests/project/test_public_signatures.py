"""The public signatures against a snapshot: users' scripts depend on them, so a change is seen, meant and recorded.

`public_signatures.txt` lists every name in the `__all__` of the public modules: functions with their parameters,
classes with their bases, constructor, methods and properties. After a change that is meant:

    DOXA_UPDATE_SNAPSHOT=1 python -m pytest tests/project/test_public_signatures.py
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PUBLIC_MODULES = ("doxa", "doxa.datasets", "doxa.plots", "doxa.structure")

SNAPSHOT = Path(__file__).with_name("public_signatures.txt")
UPDATE = "DOXA_UPDATE_SNAPSHOT=1 python -m pytest tests/project/test_public_signatures.py"


def test_public_signatures_are_those_of_the_snapshot():
    lines = [line for name in PUBLIC_MODULES for line in module_lines(importlib.import_module(name), name)]
    if os.environ.get("DOXA_UPDATE_SNAPSHOT"):
        SNAPSHOT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    expected = SNAPSHOT.read_text(encoding="utf-8").splitlines() if SNAPSHOT.exists() else []
    difference = "\n".join(difflib.unified_diff(expected, lines, "snapshot", "now", lineterm="", n=0))
    assert not difference, (
        f"the public signatures have changed:\n{difference}\n\n"
        f"Names that stay need a deprecation before they change. If the change is meant, say so in CHANGELOG.md, run\n"
        f"    {UPDATE}\nand commit tests/project/{SNAPSHOT.name} with it."
    )


def test_every_public_name_exists_once_and_is_documented():
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        assert len(set(module.__all__)) == len(module.__all__), f"{module_name}.__all__ names something twice"
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) or inspect.ismodule(value):
                assert inspect.getdoc(value), f"{module_name}.{name} has no docstring"


def module_lines(module: Any, module_name: str) -> Iterator[str]:
    """The lines of one module: a heading, then its names in order."""
    yield f"[{module_name}]"
    for name in sorted(module.__all__):
        yield from name_lines(name, getattr(module, name))
    yield ""


def name_lines(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from class_lines(name, value)
    elif inspect.ismodule(value):
        yield f"module {name}"
    elif inspect.isroutine(value):
        yield f"def {name}{signature_text(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def class_lines(name: str, cls: type) -> Iterator[str]:
    """The class with its bases, its constructor and its public members, those inherited within doxa too."""
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    if not issubclass(cls, BaseException) and not getattr(cls, "_is_protocol", False):
        yield f"    def __init__{signature_text(cls)}"
    fields = annotated_attributes(cls)
    for member in sorted(public_members(cls) | set(fields)):
        if member in fields:
            yield f"    attribute {member}: {fields[member]}"
        else:
            yield f"    {member_line(member, inspect.getattr_static(cls, member))}"


def public_members(cls: type) -> set[str]:
    """Public names in the bodies of the class and of its bases in doxa."""
    return {name for base in bases_in_doxa(cls) for name in vars(base) if not name.startswith("_")}


def annotated_attributes(cls: type) -> dict[str, str]:
    """Fields of dataclasses and named tuples, and other annotated attributes: they may have no value in the class."""
    annotations: dict[str, Any] = {}
    for base in reversed(bases_in_doxa(cls)):
        annotations |= inspect.get_annotations(base)
    return {name: str(Written.of(value)) for name, value in annotations.items() if not name.startswith("_")}


def bases_in_doxa(cls: type) -> list[type]:
    """The class and those that it inherits from within doxa, nearest first."""
    return [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "doxa"]


def member_line(name: str, value: Any) -> str:
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} def {name}{signature_text(value.__func__)}"
    if inspect.isfunction(value):
        return f"def {name}{signature_text(value)}"
    if isinstance(value, property):
        return f"property {name}{returned(value.fget)}"
    if hasattr(value, "func") and hasattr(value, "attrname"):  # functools.cached_property
        return f"property {name}{returned(value.func)}"
    return f"attribute {name}"  # a constant of the class


def returned(function: Any) -> str:
    """The return annotation of a property."""
    _, arrow, annotation = signature_text(function).rpartition(" -> ")
    return arrow and f": {annotation}"


def signature_text(function: Any) -> str:
    """The signature with annotations as they are written, and without memory addresses."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in constructors do not tell
        return "(...)"
    parameters = [
        parameter.replace(annotation=Written.of(parameter.annotation)) for parameter in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=parameters, return_annotation=Written.of(signature.return_annotation)))
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


class Written(str):
    """An annotation that prints as the source has it: Python versions differ in quotes and module names."""

    __slots__ = ()

    @classmethod
    def of(cls, annotation: Any) -> Any:
        if annotation is inspect.Signature.empty:
            return annotation
        if isinstance(annotation, typing.ForwardRef):
            return cls(annotation.__forward_arg__)
        if isinstance(annotation, str):
            return cls(annotation)
        return cls(annotation.__qualname__ if isinstance(annotation, type) else repr(annotation).replace("typing.", ""))

    def __repr__(self) -> str:
        return str(self)

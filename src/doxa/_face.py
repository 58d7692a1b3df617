"""Doors of packages: the names that others may use, each said once and imported when it is first used.

A package's public names stand in the stub beside it, ``__init__.pyi``, where type checkers read them::

    from doxa.inference.infer import infer as infer

and ``__init__.py`` gives them to the interpreter from there::

    __all__ = open_door(__name__)

So a question loads what it needs and no more.  Some modules have the name of the function that they hold
(``doxa.inference.infer``).  Importing one makes Python set the package's attribute of that name to the module; here the
function takes the place, as with plain imports.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["open_door"]

_IMPORT = re.compile(r"^from (?P<module>[\w.]+) import (?P<name>\w+) as (?P=name)$", re.MULTILINE)


class _Door(ModuleType):
    """A package that knows in which module each public name lives."""

    _homes: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        home = self._homes.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if home == self.__name__:  # a public name that is a module of the package
            return import_module(f"{home}.{name}")
        value = getattr(import_module(home), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == self._homes.get(name):
            value = getattr(value, name, value)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def open_door(package: str) -> list[str]:
    """Let a package import its public names when they are first used.

    Parameters
    ----------
    package : str
        The package's ``__name__``.  Its stub says ``from module import name as name``, a line for each public name.

    Returns
    -------
    list of str
        All public names, sorted: the package's ``__all__``.
    """
    door = sys.modules[package]
    stub = Path(str(door.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {found["name"]: found["module"] for found in _IMPORT.finditer(stub)}
    door.__class__ = _Door
    door.__dict__["_homes"] = homes
    return sorted(homes)

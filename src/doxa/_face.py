"""Packages whose names are imported when they are first used, so that a question loads what it needs and no more.

A package's ``__init__`` says where its public names live, once for readers and type checkers (``if TYPE_CHECKING``) and
once for the interpreter::

    __all__ = lazy_face(__name__, {"infer": ["infer"], "answers": ["Inference"]})

Some modules have the name of the function that they hold (``doxa.inference.infer``).  Importing one makes Python set
the package's attribute of that name to the module; here the function takes the place, as with plain imports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["lazy_face"]


class _Face(ModuleType):
    """A package that knows in which of its modules each public name lives."""

    _homes: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        home = self._homes.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module = import_module(home)
        value = getattr(module, name, module)  # the module itself where the public name is that of a module
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == self._homes.get(name):
            value = getattr(value, name, value)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})


def lazy_face(package: str, names_of: Mapping[str, Iterable[str]]) -> list[str]:
    """Let a package import its public names when they are first used.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    names_of : mapping of str to iterable of str
        From a module, named from the package on, to the public names that it holds.

    Returns
    -------
    list of str
        All public names, sorted: the package's ``__all__``.
    """
    face = sys.modules[package]
    homes = {name: f"{package}.{module}" for module, names in names_of.items() for name in names}
    face.__class__ = _Face
    face.__dict__["_homes"] = homes
    return sorted(homes)

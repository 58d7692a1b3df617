"""What may come out of a file: the fields of dataclasses and named tuples are the schema, and this is its checker.

A run file is written by anyone.  What is made of it is declared where it is defined, in the annotations of the class:
``k: int``, ``names: tuple[str, ...]``, ``n_rows: Annotated[int, Within(1)]``; where callers may give more than a file
holds, a class says in ``_in_file`` of which types its fields are there.  `made` makes such an object of plain
data (what JSON holds), and `check_fields` holds the arrays and numbers of a chain's state, or of its draws, to those of
a state made afresh.  Whatever differs is an `ArgumentError` that names the field, before any of it is used.

How an object of several fields must agree with itself is said in its own ``__post_init__``, as for any caller.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, DoxaError
from doxa.text import shown

__all__ = [
    "HEX",
    "By",
    "Many",
    "OtherFormError",
    "Within",
    "check_array",
    "check_fields",
    "made",
    "made_of_fields",
    "rules_of",
]

_LARGEST = 2**62  # of a whole number of which nothing else is said
_DEEPEST = 20  # lists in lists, where anything plain will do


class OtherFormError(ArgumentError):
    """A state has other fields than the program that reads it."""


class Within(NamedTuple):
    """Bounds of a number, or of every number of an array; for `typing.Annotated`.

    ``free`` names the first axis of an array whose length is not known beforehand: fields that name the same one agree.
    """

    least: float = -math.inf
    most: float = math.inf
    free: str = ""
    finite: bool = True


class Hexadecimal(NamedTuple):
    """A float is stored as hexadecimal text (C99), so that every bit is kept, infinity and NaN included.

    With a `Within` beside it the number is held to that; NaN, which says that nothing is known, is let through.
    """


class By(NamedTuple):
    """What makes a value of what is stored, raising `ArgumentError` where it cannot be."""

    make: Callable[[Any], Any]


class Many(NamedTuple):
    """How many entries a list has, at least and at most."""

    least: int = 0
    most: int = 2**24


HEX = Hexadecimal()
ANY = Within()


def made(kind: Any, stored: Any, where: str) -> Any:
    """The object of a type that plain data stand for.

    Parameters
    ----------
    kind : type
        A dataclass or named tuple, a type of numbers or text, or one made of these.  A class with a class method
        ``from_stored(stored, where)`` makes its objects by that.
    stored : object
        What JSON gave.
    where : str
        What it is called in messages.

    Raises
    ------
    ArgumentError
        If it stands for no such object; the message names the field.

    Examples
    --------
    >>> made(tuple[str, ...], ["a", "b"], "names")
    ('a', 'b')
    >>> made(Annotated[int, Within(1)], 0, "chains")
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: chains is 0; it must be at least 1
    """
    rules: Sequence[Any] = ()
    if get_origin(kind) is Annotated:
        kind, *rules = get_args(kind)
    origin = get_origin(kind)
    for rule in rules:
        if isinstance(rule, By):
            return rule.make(stored)
        if isinstance(rule, Hexadecimal):
            return _hexadecimal(stored, next((other for other in rules if isinstance(other, Within)), None), where)
    if hasattr(kind, "from_stored"):
        return kind.from_stored(stored, where)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), rules, stored, where)
    if origin in (tuple, list, Sequence) or kind in (tuple, list):
        return _listed(kind, rules, stored, where)
    if origin in (dict, Mapping):
        _expect(isinstance(stored, dict), stored, where, "a mapping")
        return {key: made(get_args(kind)[1], value, f"{where}[{shown(key)}]") for key, value in stored.items()}
    if origin is Literal:
        _expect(_is_among(stored, get_args(kind)), stored, where, f"one of {', '.join(map(repr, get_args(kind)))}")
        return stored
    if kind in _SINGLE:
        return _single(kind, rules, stored, where)
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        return made_of_fields(kind, stored, where)
    return _plain(stored, where)


def made_of_fields(kind: Any, stored: Any, where: str, called: Mapping[str, str] | None = None) -> Any:
    """`made`, of a class with fields, each of its own type; without regard to its ``from_stored``.

    ``called`` says which fields have other names in a file.  A ``where`` that ends with a space comes before the names
    of fields as it is.
    """
    types_of, needed = _fields(kind)
    if isinstance(stored, list) and hasattr(kind, "_fields") and len(needed) <= len(stored) <= len(types_of):
        stored = dict(zip(types_of, stored, strict=False))
    _expect(isinstance(stored, dict), stored, where.strip(), "a mapping of names to values")
    called = called or {}
    in_file = {field: name for name, field in called.items()}
    before = where if where.endswith(" ") else f"{where}."
    for name in stored:
        if called.get(name, name) not in types_of or name in in_file:
            raise ArgumentError(f"{before}{shown(name)[1:-1]} is nothing that this version of doxa knows")
    for field in needed:
        if in_file.get(field, field) not in stored:
            raise ArgumentError(f"{before}{in_file.get(field, field)} is missing")
    fields = {}
    for name, value in stored.items():
        field = called.get(name, name)
        fields[field] = made(types_of[field], value, f"{before}{name}")
    try:
        return kind(**fields)
    except DoxaError as error:
        raise ArgumentError(f"{where.strip()} cannot be: {error}") from error


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Types of the arguments of a class, and those without a default."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:  # a class of somebody else's, of types that cannot be looked up
        hints = {}
    hints |= getattr(kind, "_in_file", {})
    if hasattr(kind, "_fields"):
        return {name: hints.get(name, Any) for name in kind._fields}, tuple(
            name for name in kind._fields if name not in kind._field_defaults
        )
    own = [field for field in dataclasses.fields(kind) if field.init]
    none = dataclasses.MISSING
    needed = tuple(field.name for field in own if field.default is none and field.default_factory is none)
    return {
        field.name: hints.get(field.name, Any) for field in own if get_origin(hints.get(field.name)) is not ClassVar
    }, needed


_SINGLE: dict[Any, str] = {
    int: "a whole number", float: "a finite number", str: "a text", bool: "true or false", type(None): "nothing",
    None: "nothing",
}  # fmt: skip


def _single(kind: Any, rules: Sequence[Any], stored: Any, where: str) -> Any:
    if kind is None or kind is type(None):
        fits = stored is None
    elif kind is float:
        fits = type(stored) in (int, float) and abs(stored) < 1e308
    else:
        fits = type(stored) is kind
    _expect(fits, stored, where, _SINGLE[kind])
    if kind not in (int, float):
        return stored
    bounds = next((rule for rule in rules if isinstance(rule, Within)), Within(-_LARGEST, _LARGEST))
    if kind is int and not math.isfinite(bounds.most):
        bounds = bounds._replace(most=_LARGEST)
    if stored < bounds.least:
        raise ArgumentError(f"{where} is {shown(stored)}; it must be at least {bounds.least:g}")
    if stored > (bounds.most if kind is int or bounds.most != _LARGEST else math.inf):
        raise ArgumentError(f"{where} is {shown(stored)}; it must be at most {bounds.most:g}")
    return stored if kind is int else float(stored)


def _listed(kind: Any, rules: Sequence[Any], stored: Any, where: str) -> tuple[Any, ...]:
    _expect(isinstance(stored, list), stored, where, "a list")
    within = get_args(kind) or (Any, ...)
    if get_origin(kind) is not tuple or (len(within) == 2 and within[1] is ...):
        number = next((rule for rule in rules if isinstance(rule, Many)), Many())
        if not number.least <= len(stored) <= number.most:
            raise ArgumentError(
                f"{where} has {len(stored)} entries; it must have {number.least} at least and {number.most} at most"
            )
        return tuple(made(within[0], value, f"{where}[{k}]") for k, value in enumerate(stored))
    if len(stored) != len(within):
        raise ArgumentError(f"{where} has {len(stored)} entries; it must have {len(within)}")
    return tuple(made(one, value, f"{where}[{k}]") for k, (one, value) in enumerate(zip(within, stored, strict=True)))


def _one_of(kinds: Sequence[Any], rules: Sequence[Any], stored: Any, where: str) -> Any:
    """The first type that it fits; if none does, what the last says that could have been meant."""
    meant: ArgumentError | None = None
    for kind in kinds:
        try:
            return made(Annotated[kind, *rules] if rules else kind, stored, where)
        except ArgumentError as error:
            if stored is not None and kind is not type(None):
                meant = error
    if meant is None or len(kinds) > 1 + (type(None) in kinds):
        _expect(False, stored, where, " or ".join(_SINGLE.get(kind, "a list or mapping") for kind in kinds))
    assert meant is not None
    raise meant


def _plain(stored: Any, where: str, depth: int = 0) -> Any:
    """Text, numbers, and lists of these; a list becomes a tuple."""
    if isinstance(stored, list) and depth < _DEEPEST:
        return tuple(_plain(value, where, depth + 1) for value in stored)
    if isinstance(stored, dict) and depth < _DEEPEST:
        return {key: _plain(value, where, depth + 1) for key, value in stored.items()}
    number = isinstance(stored, (int, float)) and not isinstance(stored, bool)
    fits = stored is None or isinstance(stored, (str, bool)) or (number and abs(stored) < 1e308)
    _expect(fits, stored, where, "plain text, numbers or lists")
    return stored


def _hexadecimal(stored: Any, bounds: Within | None, where: str) -> float:
    _expect(isinstance(stored, str), stored, where, "a number as hexadecimal text")
    try:
        value = float.fromhex(stored)
    except (ValueError, OverflowError):
        raise ArgumentError(f"{where} is {shown(stored)}; it must be a number as hexadecimal text") from None
    if bounds is not None and not math.isnan(value):
        _check_bounds(value, value, bounds, where)
    return value


def _is_among(stored: Any, known: Sequence[Any]) -> bool:
    return isinstance(stored, (str, int)) and any(type(stored) is type(one) and stored == one for one in known)


def _expect(fits: bool, stored: Any, where: str, what: str) -> None:
    if not fits:
        raise ArgumentError(f"{where} is {shown(stored)}; it must be {what}")


def rules_of(kind: Any) -> dict[str, Within]:
    """The bounds that the annotations of a class give its fields."""
    found = {}
    for name, hint in _fields(kind)[0].items():
        rules = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        found[name] = next((rule for rule in rules if isinstance(rule, Within)), ANY)
    return found


def check_fields(stored: Mapping[str, Any], like: Mapping[str, Any], rules: Callable[[str], Within]) -> None:
    """Raise `ArgumentError` unless arrays and numbers of a state are of the form of others.

    Parameters
    ----------
    stored : mapping of str to array, int or float
        What came out of a file.
    like : mapping of str to array, int or float
        What such a thing is when it is made afresh: names, types and shapes are held to it.
    rules : callable
        From a field to its bounds.

    Raises
    ------
    OtherFormError
        If the names are others.
    ArgumentError
        If a field is.

    Examples
    --------
    >>> from doxa.structure.moves.sampler import StructureState
    >>> state = StructureState(np.zeros((2, 1), np.uint64), 0, np.zeros(1, np.uint64), np.zeros(1, np.int64))
    >>> other = state._replace(memory=np.array([-5]))
    >>> check_fields(other._asdict(), state._asdict(), rules_of(StructureState).__getitem__)
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: state.memory holds -5; it must hold nothing below 0
    """
    if set(stored) != set(like):
        raise OtherFormError(f"state has the fields {shown(sorted(stored))}, and this version {shown(sorted(like))}")
    free: dict[str, int] = {}
    for name, value in stored.items():
        model, rule, called = like[name], rules(name), f"state.{name}"
        if isinstance(model, np.ndarray):
            if not isinstance(value, np.ndarray):
                raise ArgumentError(f"{called} is {shown(value)}; it must be an array")
            shape: tuple[int | None, ...] = model.shape
            if rule.free:
                length = len(value) if value.ndim else 0
                shape = (free.setdefault(rule.free, length), *shape[1:])
            check_array(value, model.dtype, shape, rule, called)
        else:
            kind: Any = float if isinstance(model, (float, np.floating)) else int
            if type(value) is not kind:
                raise ArgumentError(f"{called} is {shown(value)}; it must be {_SINGLE[kind]}")
            _check_bounds(value, value, rule if kind is float else rule._replace(most=min(rule.most, _LARGEST)), called)


def check_array(
    value: NDArray[Any], dtype: Any, shape: Sequence[int | None], rule: Within = ANY, where: str = "an array"
) -> None:
    """Raise `ArgumentError` unless an array has this type and shape (None: any length) and values within bounds."""
    if dtype is not None and value.dtype != np.dtype(dtype):
        raise ArgumentError(f"{where} is of type {value.dtype}; it must be of type {np.dtype(dtype)}")
    same = value.ndim == len(shape) and all(b in (None, a) for a, b in zip(value.shape, shape, strict=True))
    if not same:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ArgumentError(f"{where} has the shape {list(value.shape)}; it must be [{wanted}]")
    if value.size and value.dtype != np.bool_:
        _check_bounds(value.min().item(), value.max().item(), rule, where)


def _check_bounds(least: float, most: float, rule: Within, where: str) -> None:
    if rule.finite and not (math.isfinite(least) and math.isfinite(most)):
        raise ArgumentError(f"{where} holds {least if not math.isfinite(least) else most}; it must be finite")
    if least < rule.least:
        raise ArgumentError(f"{where} holds {shown(least)}; it must hold nothing below {rule.least:g}")
    if most > rule.most:
        raise ArgumentError(f"{where} holds {shown(most)}; it must hold nothing above {rule.most:g}")

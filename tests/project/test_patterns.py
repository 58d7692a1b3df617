"""Regular expressions that find the same in every Python that is supported."""

from __future__ import annotations

import importlib
import pkgutil
import re
from re import _parser

import pytest

import doxa

OF_ONE_CHARACTER = {_parser.ANY, _parser.IN, _parser.LITERAL, _parser.NOT_LITERAL}


def patterns():
    """Those of all modules, by name."""
    for module in pkgutil.walk_packages(doxa.__path__, "doxa."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                several = value if isinstance(value, tuple | list) else [value]
                yield from ((f"{module.name}.{name}", one) for one in several if isinstance(one, re.Pattern))


def half_turns(pattern):
    """Groups that are repeated possessively and are not atomic.

    Before Python 3.11.5, a turn of such a group that fails halfway is taken for matched up to there.
    """
    left = [_parser.parse(pattern.pattern, pattern.flags & re.VERBOSE)]
    found = []
    while left:
        for what, of_it in left.pop():
            inner = [part for part in parts(of_it) if isinstance(part, _parser.SubPattern)]
            left += inner
            if what is _parser.POSSESSIVE_REPEAT:
                body = list(of_it[2])
                if len(body) != 1 or body[0][0] not in OF_ONE_CHARACTER | {_parser.ATOMIC_GROUP}:
                    found.append(body)
    return found


def parts(value):
    if isinstance(value, tuple | list):
        for one in value:
            yield from parts(one)
    else:
        yield value


def test_a_turn_that_fails_halfway_leaves_nothing_behind():
    found = dict(patterns())
    assert len(found) > 50
    assert {name: one.pattern for name, one in found.items() if half_turns(one)} == {}


@pytest.mark.parametrize("broken", [r"(?:a|/(?!/))*+", r"1(?:e[0-9]++)?+", r"x(?=(?:y(a)?+)?+)", r"(ab){2,}+"])
def test_a_group_that_is_not_atomic_is_noticed(broken):
    assert half_turns(re.compile(broken))
    assert not half_turns(re.compile(r"(?>a|/(?!/))*+x++[^a]?+.*+(?>(ab))?+(?:ab)*"))

"""How a table is refused: the words that several messages share, and the message of one refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from doxa.data import read_table
from doxa.data.coding import EmptyColumnsError
from doxa.errors import ArgumentError, DoxaError

LEAVE_OUT = "leave it out by naming the others with columns=[...] or --columns"
NO_STATES = (
    "every cell is missing, so there are no states; "
    "leave out by naming the others with columns=[...] or --columns, "
    "or say with missing=[...] or --missing which texts mean missing"
)
IDENTIFIER = (
    f"a category at most 1000: it looks like an identifier or free text; {LEAVE_OUT}, or group its values first"
)
NO_CATEGORIES = f"makes no categories; turn it into text or numbers, or {LEAVE_OUT}"


def refusal(kind: type[DoxaError], source: Any, **options: Any) -> str:
    """The message with which `read_table` refuses ``source``: an error of this kind."""
    with pytest.raises(DoxaError) as raised:
        read_table(source, **options)
    assert type(raised.value) in (kind, EmptyColumnsError)
    return str(raised.value)


def message_of(call: Callable[[], object]) -> str:
    """What is said where a call is refused for its arguments."""
    with pytest.raises(ArgumentError) as refused:
        call()
    return str(refused.value)

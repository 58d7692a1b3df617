"""`Exact`: what stands in the place of a move where graphs were summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from doxa.errors import ArgumentError

__all__ = ["Exact"]


@dataclass(frozen=True)
class Exact:
    """Takes the place of a sampler in a posterior that was summed and not sampled."""

    name: ClassVar[str] = "exact"
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = False

    def cycle_length(self, n_nodes: int) -> int:  # noqa: ARG002
        """Nothing is repeated."""
        return 1

    def advance(self, *_: Any) -> int:
        """Refuse: independent draws have no next step."""
        raise ArgumentError("sampler is Exact(), whose draws are independent; choose another to go on, or exact=True")

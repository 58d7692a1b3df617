"""Redraws of missing cells that are wrong on purpose: checks of samplers with missing cells must reject them."""

from __future__ import annotations

from typing import Any

from doxa._jit import hot
from doxa.structure.cases.incomplete.blocks import gather, move_case, tie_cells
from doxa.structure.cases.incomplete.sweep import redraw_independently

__all__ = ["childless_sweep"]


@hot
def childless_sweep(completion: Any, families: Any, work: Any, info: Any, rng: Any) -> None:
    """In the place of `sweep_cells`: cells drawn along the graph, whatever their children say."""
    for i in range(completion.rows.shape[0]):
        m = tie_cells(i, completion, families, work)
        for a in range(m):
            if work.root[a] == a:
                size, n_affected = gather(a, m, families, work)
                move_case(i, n_affected, -1, completion, families, work)
                redraw_independently(i, size, size, completion, families, work, rng)
                move_case(i, n_affected, 1, completion, families, work)

"""What a page about the values of variables shows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from doxa.report.grid import grid
from doxa.report.marginals import how_found, marginals
from doxa.report.verdicts import closing_facts, verdict_box

if TYPE_CHECKING:
    from doxa.inference.answers import Inference

__all__ = ["of_values"]


def of_values(answer: Inference, written: datetime) -> dict[str, Any]:
    """As plain data."""
    n = len(answer)
    facts = [
        ("Asked for", f"{n} {'variable' if n == 1 else 'variables'}"),
        ("Observed", f"{len(answer.given) or 'no'} {'variable' if len(answer.given) == 1 else 'variables'}"),
        ("Method", f"{answer.method}: {answer.why}"),
        *([] if answer.method == "exact" or answer.seed is None else [("Seed", str(answer.seed))]),
        *closing_facts(("doxa", "numpy", "scipy"), written),
    ]
    return {
        "kind": "values",
        "title": f"Distribution of {n} {'variable' if n == 1 else 'variables'}, inferred by doxa",
        "verdict": verdict_box(answer.judgement),
        "facts": [list(fact) for fact in facts],
        "marginals": marginals(answer),
        "grid": grid(answer),
        "method": how_found(answer),
    }

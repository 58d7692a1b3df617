"""What a page about the values of variables shows."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from doxa.estimates.verdict import Verdict
from doxa.page.grid import grid
from doxa.page.marginals import how_found, marginals
from doxa.page.verdicts import closing_facts, verdict_box

if TYPE_CHECKING:
    from doxa.inference.answers import Inference

__all__ = ["of_values"]

_ADVICE = re.compile(r"(?:Run|Use|Try) [^.]+\.$")  # what the verdict of an inference may end with


def of_values(answer: Inference, written: datetime) -> dict[str, Any]:
    """As plain data."""
    n = len(answer)
    advice = _ADVICE.search(answer.verdict)
    found = Verdict(answer.converged, answer.verdict, "" if advice is None else advice[0])
    facts = [
        ("Asked for", f"{n} {'variable' if n == 1 else 'variables'}"),
        ("Observed", f"{len(answer.given) or 'no'} {'variable' if len(answer.given) == 1 else 'variables'}"),
        ("Method", f"{answer.method}: {answer.why}"),
        *closing_facts(("doxa", "numpy", "scipy"), written),
    ]
    return {
        "kind": "values",
        "title": f"Distribution of {n} {'variable' if n == 1 else 'variables'}, inferred by doxa",
        "verdict": verdict_box(found),
        "facts": [list(fact) for fact in facts],
        "marginals": marginals(answer),
        "grid": grid(answer),
        "method": how_found(answer),
    }

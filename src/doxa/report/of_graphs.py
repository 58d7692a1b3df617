"""What a page about a posterior over graphs shows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from doxa.report.evidence import evidence
from doxa.report.graphs import graphs
from doxa.report.inspection import inspection
from doxa.report.run_facts import run_facts, verdict

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["of_graphs"]


def of_graphs(posterior: StructurePosterior, written: datetime) -> dict[str, Any]:
    """As plain data."""
    return {
        "kind": "graphs",
        "title": f"Belief network of {len(posterior.names)} columns, learned by doxa",
        "verdict": verdict(posterior),
        "facts": run_facts(posterior, written),
        "graphs": graphs(posterior),
        "evidence": evidence(posterior),
        "nodes": inspection(posterior),
    }

"""What a page about a posterior of parameters shows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from doxa.report.coefficients import coefficients
from doxa.report.fit_evidence import fit_evidence
from doxa.report.fit_facts import fit_facts, what_counts_as_one
from doxa.report.fit_method import fit_method
from doxa.report.verdicts import verdict_box

if TYPE_CHECKING:
    from doxa.parameters.posterior import ParameterPosterior

__all__ = ["of_parameters"]


def of_parameters(posterior: ParameterPosterior, written: datetime) -> dict[str, Any]:
    """As plain data."""
    n = len(posterior.network.parameters)
    return {
        "kind": "parameters",
        "title": f"Parameters of {n} {'node' if n == 1 else 'nodes'}, fitted by doxa",
        "verdict": verdict_box(posterior.judgement),
        "facts": fit_facts(posterior, written),
        "roots": list(posterior.network.roots),
        "ones": what_counts_as_one(posterior),
        "coefficients": coefficients(posterior),
        "method": fit_method(posterior),
        "evidence": fit_evidence(posterior),
    }

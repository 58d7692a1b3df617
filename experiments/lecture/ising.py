"""The notes' comparison of Gibbs sampling and mean field on the Ising model."""

from __future__ import annotations

from lecture.ising_claims import claims, table
from lecture.ising_figures import draw_chains, draw_errors, draw_projections
from lecture.results import compute
from logistic_papers.script import Outcome

__all__ = ["run"]


def run(quick: bool) -> Outcome:
    """Compute, tell and draw."""
    results = compute(quick)
    figures = {
        "lecture_ising_errors": draw_errors(results),
        "lecture_ising_chains": draw_chains(results),
        "lecture_ising_projections": draw_projections(results),
    }
    tables = [("Mean error of P(up) / CPU milliseconds, by coupling J", table(results))]
    return Outcome(claims(results), figures, tables)

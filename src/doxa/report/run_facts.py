"""Verdict and facts of a run, in words: what heads the page."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING

from doxa.report.verdicts import closing_facts, verdict_box
from doxa.structure.posterior.summary import cap_text, prior_text
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["run_facts", "verdict"]


def verdict(posterior: StructurePosterior) -> dict[str, str]:
    """Whether to trust the run; see `verdict_box`."""
    return verdict_box(posterior.judgement)


def run_facts(posterior: StructurePosterior, written: datetime) -> list[list[str]]:
    """Names and values: data, model, run, versions and times."""
    options, trace = posterior.options, posterior.trace
    n_chains, n_draws = posterior.n_edges.shape
    exact = posterior.sampler.name == "exact"
    facts = [
        ("Data", f"{options.n_rows} rows, {len(posterior.names)} columns, {options.n_missing or 'no'} missing cells"),
        ("Digest of the data", options.data_digest or "not known"),
        ("Score", options.score.text),
        ("Prior", f"{prior_text(posterior)}; {cap_text(posterior)}"),
        ("Sampler", "sum over all graphs" if exact else repr(posterior.sampler)),
        ("Draws", f"{n_chains} {'chain' if n_chains == 1 else 'chains'} of {n_draws} {_drawn(posterior)}"),
    ]
    if not exact and "proposed" in trace.info:
        accepted = trace.info["accepted"].sum() / max(1, trace.info["proposed"].sum())
        facts.append(("Accepted", f"{accepted:.1%} of the proposals"))
    facts.append(("Seed", "not known" if trace.entropy is None else str(trace.entropy)))
    if posterior.stop is not None:
        facts.append(("Time", f"{posterior.stop.seconds:.3g} s, warm-up not included"))
    if posterior.source is not None and posterior.source.get("source"):
        facts.append(("File", printable(PurePath(str(posterior.source["source"])).name)))
    facts += closing_facts(("doxa", "numpy", "numba"), written)
    return [list(fact) for fact in facts]


def _drawn(posterior: StructurePosterior) -> str:
    if posterior.sampler.name == "exact":
        return "independent draws, for what has no exact sum"
    trace = posterior.trace
    return f"draws, one every {trace.thin} steps, after {trace.n_warmup} steps of warm-up"

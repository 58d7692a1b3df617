"""The page of text that `StructurePosterior.summary` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from doxa.structure.posterior import StructurePosterior

__all__ = ["cap_text", "run_text", "summary_text"]


def summary_text(posterior: StructurePosterior, most: int) -> str:
    """The run, the ``most`` probable edges with their errors, and the verdict."""
    rows = [("edge", "probability")]
    for row in posterior.edges().head(most).itertuples():
        rows.append((f"{row.source} -> {row.target}", str(posterior.edge(str(row.source), str(row.target)))))
    width = max(len(name) for name, _ in rows)
    lines = [run_text(posterior), "", *(f"{name:<{width}}  {value}" for name, value in rows)]
    n = len(posterior.names)
    if n * (n - 1) > most:
        lines.append(f"... {n * (n - 1) - most} more: see edges()")
    mean = posterior.n_edges_diagnosis.estimate
    return "\n".join([*lines, "", f"edges in a graph: {mean}", posterior.verdict])


def run_text(posterior: StructurePosterior) -> str:
    """What was run, in three lines: data, sampler, limits."""
    options, trace = posterior.options, posterior.trace
    n_chains, n_draws = posterior.n_edges.shape
    accepted = trace.info["accepted"].sum() / max(1, trace.info["proposed"].sum())
    return "\n".join(
        [
            f"{options.n_rows} rows x {len(posterior.names)} columns; BDeu score, equivalent sample size "
            f"{options.equivalent_sample_size:g}; uniform prior over graphs; {cap_text(posterior)}",
            f"{posterior.sampler!r}: {n_chains} chains x {n_draws} draws, one every {trace.thin} steps, after "
            f"{trace.n_warmup} steps of warm-up; {accepted:.1%} accepted; seed {trace.entropy}",
            f"score cache: {posterior.cache.n_scores} families in {posterior.cache.n_bytes / 2**20:.1f} MiB, "
            f"{posterior.cache.n_misses} counted in the data",
        ]
    )


def cap_text(posterior: StructurePosterior) -> str:
    """The in-degree cap in force, in words."""
    caps = np.array(posterior.options.max_parents)
    if (caps >= len(posterior.names) - 1).all():
        return "any number of parents"
    return f"at most {caps[0]} parents" if (caps == caps[0]).all() else f"at most {caps.min()} to {caps.max()} parents"

"""Posteriors with draws that are made up: independent ones of an enumerated posterior, or graphs given one by one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import doxa
from doxa.estimates.trace import Trace
from doxa.models import Dag
from doxa.structure import SingleEdge
from doxa.structure.exact.enumeration import GraphPosterior
from doxa.structure.posterior.structure_posterior import StructurePosterior
from support.tables import skewed_table


@cache
def some_options(names: tuple[str, ...]) -> Any:
    options, n = doxa.learn(skewed_table(2, 10, seed=0), draws=4, seed=1).options, len(names)
    return replace(options, names=names, max_parents=(n - 1,) * n, n_states=(2,) * n, max_configurations=None)


def posterior_of(
    names: tuple[str, ...], rows: NDArray[np.uint64], log_score: NDArray[np.float64]
) -> StructurePosterior:
    """A posterior with these draws: rows (chain, draw, node, word), log scores (chain, draw)."""
    info = {name: np.full(len(rows), 9) for name in ("proposed", "accepted")}
    n_edges = np.bitwise_count(rows).sum(axis=(2, 3)).astype(np.int32)
    trace = Trace({"rows": rows, "log_score": log_score, "n_edges": n_edges}, info=info)
    return StructurePosterior(names, trace, SingleEdge(), some_options(names))


def posterior_of_dags(dags: list[Dag], scores: list[float] | None = None, repeat: int = 1) -> StructurePosterior:
    """One chain that visits these graphs in turn, ``repeat`` times over, at least four draws in all."""
    rows = np.stack([dag.rows for dag in dags] * repeat)[None]
    log_score = np.array((scores or [0.0] * len(dags)) * repeat)[None]
    return posterior_of(dags[0].names, rows, log_score)


def independent_draws(
    exact: GraphPosterior, seed: int, n_chains: int = 4, n_draws: int = 1000, stay: int = 1
) -> StructurePosterior:
    """Chains of draws from an enumerated posterior that are independent, or held for ``stay`` draws on average."""
    rng = np.random.default_rng(seed)
    which = rng.choice(len(exact.probability), size=(n_chains, n_draws), p=exact.probability)
    if stay > 1:  # the chance of holding on is always the same: a reversible chain
        drawn = np.where(rng.random(which.shape) < 1 / stay, np.arange(n_draws), 0)
        which = np.take_along_axis(which, np.maximum.accumulate(drawn, axis=1), axis=1)
    names = tuple(f"x{i}" for i in range(exact.rows.shape[1]))
    return posterior_of(names, exact.rows[which], exact.log_score[which])

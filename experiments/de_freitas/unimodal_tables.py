"""The tables behind figures 12 and 13, and table 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from de_freitas.unimodal import LENGTHS, OURS, SECOND_HALF, STARTS, Results
from de_freitas.unimodal_claims import MIX, NEAR, RW, TABLE_1, VAR, VAR_MCMC

__all__ = ["tables"]


def tables(results: Results) -> list[tuple[str, str]]:
    return [
        ("Log likelihood at the mean: median nats below the largest", nats_table(results)),
        ("Error of the mean, in posterior standard deviations: median", score_table(results, "mean")),
        ("Relative error of the variances: median", score_table(results, "variance")),
        ("Acceptance, and effective draws of an iteration (least of ten coordinates)", rates_table(results)),
        ("Table 1: Giga-flops there, CPU seconds here (5000 iterations, three chains at once)", table_1(results)),
    ]


def rows_of() -> list[tuple[str, str, int]]:
    """Algorithms, starts and lengths in the order of the tables."""
    rows = [(name, "", 0) for name in (VAR, "variational, to the letter", "batch", "optimal", "exact")]
    for length in LENGTHS:
        rows += [(name, s, length) for name in (VAR_MCMC, MIX, RW, "RW, whole vector") for s in STARTS]
        rows += [(name, NEAR, length) for name in ("VarMCMC, batch", "VarMixMCMC, batch", OURS)]
    names = (VAR_MCMC, MIX, RW, "VarMCMC, batch", "VarMixMCMC, batch", OURS)
    return rows + [(name, SECOND_HALF, LENGTHS[1]) for name in names]


def _table(results: Results, value: Callable[[int, tuple[str, str, int]], float], digits: str) -> str:
    lines = [f"{'':28s} {'begun at':14s} {'iterations':>10s} " + " ".join(f"{f'd = {d}':>9s}" for d in results.sets)]
    for row in rows_of():
        cells = " ".join(f"{value(d, row):>9{digits}}" for d in results.sets)
        lines.append(f"{row[0]:28s} {row[1]:14s} {row[2] or '':>10} {cells}")
    return "\n".join(lines)


def nats_table(results: Results) -> str:
    return _table(results, lambda d, row: float(np.median(results.below_best(d, *row))), ".3g")


def score_table(results: Results, which: str) -> str:
    return _table(results, lambda d, row: float(np.median(results.of(d, row[0], which, *row[1:]))), ".3g")


def rates_table(results: Results) -> str:
    first = next(iter(results.sets.values()))[0]
    lines = [f"{'':30s} " + " ".join(f"{f'd = {d}':>15s}" for d in results.sets)]
    for name in first.acceptance:
        cells = [
            f"{results.average(d, 'acceptance', name):7.3f} {results.average(d, 'ess', name):7.4f}"
            for d in results.sets
        ]
        lines.append(f"{name:30s} " + " ".join(cells))
    return "\n".join(lines)


def table_1(results: Results) -> str:
    heads = (
        "EM 500",
        "MCMC 500",
        "EM 5000",
        "MCMC 5000",
        "one pass",
        VAR_MCMC,
        "VarMix",
        RW,
        "optimal",
        "independence",
    )
    lines = ["  d " + " ".join(f"{head:>12s}" for head in heads)]
    for d in results.sets:
        seconds = [results.average(d, "seconds", name) for name in (VAR, VAR_MCMC, MIX, RW, "optimal", OURS)]
        lines.append(f"{d:3d} " + " ".join(f"{x:12.4f}" for x in (*TABLE_1[d], *seconds)))
    return "\n".join(lines)

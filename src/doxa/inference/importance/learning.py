r"""Proposals that learn from their own draws: adaptive importance sampling (AIS-BN, Cheng & Druzdzel 2000).

In each stage rows are drawn from the proposal as it stands, and its tables are moved to the weighted frequencies of
these draws.  Where few draws carry the weight, powers of the weights below 1 are used, so that a stage learns from many
draws and the next comes closer.  Draws of the learning phase are not kept: estimates are made from draws of one fixed
proposal, which are independent, so that their errors are right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.inference.importance.layout import Table
from doxa.inference.importance.proposal import DEFENCE, NetworkProposal, mixed
from doxa.inference.importance.sampler import NetworkSampler

__all__ = ["learned", "tempered_weights"]

STAGE_DRAWS = 8192
LEAST_SHARE = 0.05  # of the draws of a stage that carry its weights after tempering
FIRST_STRENGTH = 30.0  # effective draws that a row of the first tables is worth
MEMORY = 0.5  # of that strength from one stage to the next
BETTER = 1.05  # in ess that a proposal must be to take the place of the one before
ENOUGH = 0.5  # share of the draws, as ess, at which there is little left to learn
PATIENCE = 3  # stages without a better proposal

Floats = NDArray[np.float64]


def learned(proposal: NetworkProposal, *, seed: int, stages: int = 8, draws: int = STAGE_DRAWS) -> NetworkProposal:
    """Let a proposal learn.

    Parameters
    ----------
    proposal : NetworkProposal
        Where to begin, such as `propagated`: the first tables decide where the first draws fall.
    seed : int
        The result is a function of it.
    stages : int, default=8
        At most; fewer where the ess is above half the draws, three stages brought nothing, or all weights are 0.
    draws : int, default=8192
        In each stage, rounded up to a multiple of 8192.

    Returns
    -------
    NetworkProposal
        The proposal with the largest ess on the draws of a stage of its own, ``proposal`` itself among them where
        others are not better by a twentieth.  No possible state has probability 0.

    Notes
    -----
    Cheng & Druzdzel (2000) move all rows of the tables by the same step, which shrinks from stage to stage.  Here each
    row moves by r / (r + s): r is the effective number of this stage's draws in the row, s what it has learned before,
    halved from stage to stage as earlier draws were worse.  A row that was not met stays as it is.
    """
    check_whole("stages", stages, 1)
    now = proposal
    strengths = [np.full(table.values.shape[:-1], FIRST_STRENGTH) for table in proposal.tables]
    best, best_ess, best_stage = proposal, 0.0, 0
    for stage in range(stages + 1):
        drawn = NetworkSampler(now).draw(draws, seed, part=stage)
        ess = _ess(tempered_weights(drawn.log_weights, 1.0))
        if ess > best_ess * BETTER:
            best, best_ess, best_stage = now, ess, stage
        weights = tempered_weights(drawn.log_weights, LEAST_SHARE)
        if stage == stages or ess > ENOUGH * weights.size or stage - best_stage >= PATIENCE or not weights.any():
            break
        now = _moved(now, drawn.rows, weights, strengths)
    return best


def tempered_weights(log_weights: Floats, least_share: float) -> Floats:
    """Weights to the largest power, at most 1, at which their ess is a share of the draws of positive weight.

    Parameters
    ----------
    log_weights : ndarray, shape (n,)
        Nats.
    least_share : float
        1 for the weights as they are.

    Returns
    -------
    ndarray, shape (n,)
        The largest is 1; all 0 where no draw has positive weight.

    Examples
    --------
    >>> tempered_weights(np.log([1.0, 4.0, 4.0]), 0.5)
    array([0.25, 1.  , 1.  ])
    >>> tempered_weights(np.array([0.0, -800.0, -800.0]), 0.9).round(1)
    array([1. , 0.5, 0.5])
    """
    met = log_weights > -np.inf
    if not met.any():
        return np.zeros(log_weights.size)
    logs = log_weights - log_weights.max()
    wanted = least_share * np.count_nonzero(met)
    power = 1.0
    if least_share < 1 and _ess(np.exp(logs)) < wanted:
        low, high = 0.0, 1.0
        for _ in range(40):
            power = (low + high) / 2
            low, high = (power, high) if _ess(np.exp(logs[met] * power)) >= wanted else (low, power)
    with np.errstate(invalid="ignore"):
        return np.where(met, np.exp(np.where(met, logs, 0.0) * power), 0.0)


def _ess(weights: Floats) -> float:
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _moved(
    proposal: NetworkProposal, rows: NDArray[np.int32], weights: Floats, strengths: list[Floats]
) -> NetworkProposal:
    """Tables moved to the weighted frequencies; ``strengths`` of their rows are updated."""
    tables = []
    for i, (v, table) in enumerate(zip(proposal.layout.informed, proposal.tables, strict=True)):
        shape = table.values.shape
        codes = np.ravel_multi_index(tuple(rows[:, u] for u in table.variables), shape)
        size = table.values.size
        sums = np.bincount(codes, weights, size).reshape(shape)
        squares = np.bincount(codes, weights**2, size).reshape(shape).sum(axis=-1)
        totals = sums.sum(axis=-1)
        effective = np.where(squares > 0, totals**2 / np.where(squares > 0, squares, 1.0), 0.0)
        strengths[i] *= MEMORY
        step = (effective / (effective + strengths[i]))[..., None]
        frequencies = sums / np.where(totals > 0, totals, 1.0)[..., None]
        strengths[i] += effective
        values = (1 - step) * table.values + step * frequencies
        tables.append(mixed(proposal.layout, v, Table(table.variables, values)))
    return NetworkProposal(proposal.layout, tuple(tables), "learned", DEFENCE if tables else 0.0)

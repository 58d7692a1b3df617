"""Whether chains agree: what the verdicts on runs over real numbers rest on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["LEAST_ESS", "R_HAT_LIMIT", "judge_chains"]

R_HAT_LIMIT = 1.01  # Vehtari et al. (2021)
LEAST_ESS = 100.0  # effective draws of the slowest quantity below which agreement could be chance


def judge_chains(
    names: Sequence[str], r_hat: ArrayLike, ess: ArrayLike, n_chains: int, n_draws: int, what: str, kept: str = "draws"
) -> tuple[bool, str, str]:
    """Judge chains by the largest R-hat and the fewest effective draws of named quantities.

    Returns
    -------
    tuple of bool, str and str
        Whether they have converged, the reason and the advice; ``what`` and ``kept`` are the words in it for the
        quantities and for what is kept of the chains.

    Examples
    --------
    >>> judge_chains(["x", "y"], [1.0, 1.001], [500.0, 150.0], 4, 1000, "parameter")
    (True, '4 chains agree (largest R-hat 1.0010); the slowest parameter has 150 effective draws', '')
    """
    r_hat, ess, longer = np.asarray(r_hat), np.asarray(ess), f"Run longer: draws={4 * n_draws}."
    worst, slowest = int(np.nan_to_num(r_hat, nan=np.inf).argmax()), int(ess.argmin())
    if not r_hat[worst] <= R_HAT_LIMIT:
        reason = f"the chains disagree about {names[worst]}: R-hat {r_hat[worst]:.4f} (limit {R_HAT_LIMIT})"
        return False, reason, f"{longer} If it stays so, there are modes between which they do not move."
    if not ess[slowest] >= LEAST_ESS:
        few = f"{names[slowest]} has only {ess[slowest]:.0f} effective {kept} (at least {LEAST_ESS:.0f} are wanted)"
        return False, few, longer
    agree = f"{n_chains} chains agree (largest R-hat {r_hat[worst]:.4f})"
    return True, f"{agree}; the slowest {what} has {ess[slowest]:.0f} effective {kept}", ""

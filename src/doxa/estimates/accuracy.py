"""From diagnostics to what is still missing: the questions that every sampler asks of its draws.

Have the chains settled after warm-up?  Is a real quantity accurate enough for `Until`, by R-hat and effective draws?
Are 0/1 quantities, by their Monte Carlo errors?  Was that so at the look before as well?  Which quantities a run has,
and what they are called, the sampler knows; how errors are found is in `doxa.estimates.real` and
`doxa.estimates.indicators`.

An error estimated from the run and used to stop it is small in the runs that stop early *because* it is too small, so
the rule is more careful than the error is: three precautions, each of which some simulated chain needs
(``benchmarks/coverage_stopped.py``).

- A 0/1 quantity with fewer than five visits is judged as one that was never seen, by the effective draws of the
  slowest quantity of the run (`cautious_error`).
- A run ends at the second look running at which nothing is missing (`confirmed`).  A 0/1 quantity whose error is well
  known, so that luck has little part in it, need not have been accurate enough at the first of them.
- It keeps at least 1500 draws of each chain, and half as many as its warm-up discarded: chains that needed that long to
  agree have slow modes, and too short a run has visited them too rarely to show (`fewest_draws`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.estimates.indicators import IndicatorDiagnostics
from doxa.estimates.real import RealDiagnosis
from doxa.estimates.stopping import GROWTH, Shortfall, Until, look_before

SETTLED_R_HAT = 1.05  # of the run-wide quantities over one warm-up epoch
# Visits below which the two switching rates are not known well enough to stop by: of runs that watch p = 0.01 until the
# error is 0.003, up to 10% stopped on one or two brief visits and missed the truth; from 5 visits on 95% were covered.
FEWEST_VISITS = 5
# Draws of each chain below which luck ends too many runs: with two looks alone, at 500 draws or half as many more, runs
# that visit a mode of probability 0.1 about once in 500 draws were covered in 92.0-93.1%.
FEWEST_DRAWS = 1500


def is_settled(r_hat: ArrayLike) -> NDArray[np.bool_]:
    """Whether the R-hat of each quantity says that the chains agree; nan, where nothing ever changed, is no
    disagreement.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(~(np.asarray(r_hat, dtype=np.float64) > SETTLED_R_HAT))


def is_monitored(name: str, until: Until) -> bool:
    """Whether ``until`` asks for this quantity; it asks for all when it names none.

    >>> is_monitored("n_edges", Until()), is_monitored("n_edges", Until(quantities=["log_score"]))
    (True, False)
    """
    return until.quantities is None or name in until.quantities


def real_shortfalls(name: str, diagnosis: RealDiagnosis, until: Until) -> Iterator[Shortfall]:
    """What a real quantity lacks in R-hat and in bulk effective draws; one that never changed has neither, and lacks
    nothing.
    """
    if not is_monitored(name, until):
        return
    if diagnosis.r_hat > until.r_hat:
        factor = (diagnosis.r_hat - 1.0) / (until.r_hat - 1.0)
        yield Shortfall(name, "R-hat", diagnosis.r_hat, until.r_hat, factor)
    if diagnosis.bulk_ess < until.ess:
        factor = until.ess / max(diagnosis.bulk_ess, 1.0)
        yield Shortfall(name, "number of effective draws", diagnosis.bulk_ess, until.ess, factor)


def cautious_error(diagnostics: IndicatorDiagnostics) -> NDArray[np.float64]:
    r"""Monte Carlo errors of 0/1 quantities to stop by: no smaller than few visits allow.

    Where a quantity switched but made fewer than five visits, at least :math:`\sqrt{(k + 1)(k + 2) / ((e + k + 2)(e + k
    + 3))}` for k visits and e effective draws of the slowest quantity of the run: the root mean square of p under
    Beta(k + 1, e + 1), which for k = 0 is `doxa.estimates.intervals.unseen_error`.
    """
    visits = diagnostics.switches / 2
    ess = diagnostics.reference_ess
    few = np.sqrt((visits + 1) * (visits + 2) / ((ess + visits + 2) * (ess + visits + 3)))
    return np.where((visits > 0) & (visits < FEWEST_VISITS), np.maximum(few, diagnostics.mcse), diagnostics.mcse)


def indicator_shortfalls(
    name_of: Callable[..., str],
    diagnostics: IndicatorDiagnostics,
    until: Until,
    among: NDArray[np.bool_] | None = None,
    now: IndicatorDiagnostics | None = None,
) -> Iterator[Shortfall]:
    """Which 0/1 quantities have too large a Monte Carlo error, by `cautious_error`, in the order of the array.

    ``name_of`` makes a name of an index, one argument for each axis; ``among`` marks the quantities to look at.  Of a
    look before, ``now`` is what is known of the same quantities since: those whose errors are well known by now are not
    asked.
    """
    errors = cautious_error(diagnostics)
    short = errors > until.mcse
    if among is not None:
        short &= among
    if now is not None and now is not diagnostics:
        short &= ~now.well_known
    for index in np.argwhere(short):
        name = name_of(*index.tolist())
        if is_monitored(name, until):
            error = float(errors[tuple(index)])
            yield Shortfall(name, "Monte Carlo error", error, until.mcse, (error / until.mcse) ** 2)


def fewest_draws(n_warmup: int) -> int:
    """Draws of each chain to keep at least, after a warm-up of so many: 1500, and half as many as that.

    >>> fewest_draws(7500)
    3750
    """
    return max(FEWEST_DRAWS, n_warmup // 2)


def confirmed(
    assess: Callable[[int], Shortfall | None], n_draws: int, until: Until, n_warmup: int = 0
) -> Shortfall | None:
    """What is missing at this look, at the look before, or in length: a run ends when nothing is.

    ``assess`` says what is missing when the run is judged by so many first draws of each chain; when these are fewer
    than all, it leaves out what is well known by now (`indicator_shortfalls`).
    """
    found = assess(n_draws)
    if found is not None:
        return found
    before = look_before(n_draws, until.max_draws)
    fewest = fewest_draws(n_warmup)
    if n_draws < fewest:
        return Shortfall("each chain", "number of draws", n_draws, fewest, fewest / n_draws)
    found = None if before is None else assess(before)
    return None if found is None else found._replace(name=f"{found.name} at the look before", factor=GROWTH)

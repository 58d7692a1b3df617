"""Draw until every probability is as accurate as asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from doxa.errors import ArgumentError
from doxa.estimates.stopping import Shortfall, StopReport, Until, worst_shortfall
from doxa.inference.importance.proposal import NetworkProposal
from doxa.inference.importance.sample import NetworkSample, sample_network
from doxa.inference.importance.sampler import BLOCK, NetworkSampler
from doxa.progress import tell

__all__ = ["sample_until", "shortfall"]

MOST_DRAWS = 2**24  # unless max_draws says otherwise: seconds to a minute
CHUNK = 32  # blocks between looks at the clock


def looks(max_draws: int | None) -> Iterator[int]:
    """Numbers of draws at which to look: doubled from one to the next, in whole blocks."""
    limit = -(-(MOST_DRAWS if max_draws is None else max_draws) // BLOCK)
    n = 1
    while n < limit:
        yield n * BLOCK
        n *= 2
    yield limit * BLOCK


def shortfall(sample: NetworkSample, until: Until) -> Shortfall | None:
    """What a sample lacks most; None where nothing is missing.

    Parameters
    ----------
    sample : NetworkSample
    until : Until
        ``mcse`` of every probability of the variables asked for, or of those named in ``quantities``; ``ess`` of the
        weights.  ``r_hat`` is for chains.

    Returns
    -------
    Shortfall or None
        Weights that are not reliable lack draws by an unknown factor.
    """
    network = sample.layout.network
    if not sample.verdict.reliable or sample.ess < until.ess:
        factor = until.ess / max(sample.ess, 1e-9)
        return Shortfall("the weights", "effective draws", sample.ess, until.ess, factor if factor > 1 else np.inf)
    found = []
    for v in _monitored(sample, until.quantities):
        for label, estimate in zip(network.states[v], sample.marginal(v), strict=True):
            if estimate.mcse > until.mcse:
                name = f"P({network.names[v]} = {label})"
                factor = (estimate.mcse / until.mcse) ** 2
                found.append(Shortfall(name, "Monte Carlo error", estimate.mcse, until.mcse, factor))
    return worst_shortfall(found)


def sample_until(
    proposal: NetworkProposal | NetworkSampler,
    until: Until,
    *,
    seed: int | None = None,
    workers: int | None = 1,
) -> tuple[NetworkSample, StopReport]:
    """Draw until nothing is missing at two looks running, or a limit is reached.

    Parameters
    ----------
    proposal : NetworkProposal or NetworkSampler
    until : Until
        As in `shortfall`; ``max_draws`` (2^24 when left out) and ``max_seconds`` end the run all the same.
    seed, workers
        As in `sample_network`.

    Returns
    -------
    sample : NetworkSample
        The one that `sample_network` gives for its number of draws.
    report : StopReport

    Raises
    ------
    ArgumentError
        If ``until.quantities`` names what was not asked for, or the evidence is impossible.

    Notes
    -----
    Looks are at 16,384 draws and after every doubling: few, so that the run hardly stops by luck, and fixed, so that
    time decides nothing but where ``max_seconds`` cuts the run off.
    """
    begin = time.monotonic()
    sample = None
    passed = 0
    reason = "max_draws"
    missing = None
    for n in looks(until.max_draws):
        while sample is None or sample.n < n:
            if sample is None:
                sample = sample_network(proposal, 1, seed=seed, workers=workers)
                _monitored(sample, until.quantities)
            else:
                sample = sample.extended(min(n, sample.n + CHUNK * BLOCK), workers=workers)
            tell(f"weighted sampling: {sample.n} draws" + (f"; {missing}" if missing else ""))
            if until.max_seconds is not None and time.monotonic() - begin > until.max_seconds:
                reason = "max_seconds"
                break
        missing = shortfall(sample, until)
        passed = 0 if missing else passed + 1
        if reason == "max_seconds":
            break
        if passed == 2:
            reason = "reached"
            break
    assert sample is not None, "there is at least one look"
    return sample, StopReport(reason, missing, time.monotonic() - begin)


def _monitored(sample: NetworkSample, quantities: Sequence[str] | None) -> Sequence[int]:
    layout = sample.layout
    if quantities is None:
        return layout.query
    names = [layout.network.names[v] for v in layout.query]
    for name in quantities:
        if name not in names:
            raise ArgumentError(f"quantities names {name!r}, which was not asked for; there are {', '.join(names[:8])}")
    return [v for v in layout.query if layout.network.names[v] in quantities]

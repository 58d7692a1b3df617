"""Mean weights and intervals of network importance sampling, against enumeration and contraction.

Every check has a broken twin that it must reject.  ``DOXA_TEST_SEED`` moves the seeds; the long forms are marked slow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from test_network_importance import exact_answers, forward_evidence, reference
from test_network_importance_proposals import METHODS, _Flat, _Unnormalised, cases

from doxa.inference.importance import NetworkSampler, lay_out, likelihood_weighting, sample_network
from doxa.inference.importance.sample import EvidenceInterval, MeanInterval
from doxa.inference.importance.sampler import BLOCK
from doxa.sampling.importance_weights import WeightedEstimate
from support.checks import FALSE_ALARM, SEED, z_limit
from support.small_networks import joint, marginal


def worst_evidence_z(sampler, exact, blocks=4):
    """z-value of the mean weight, with the plain standard error."""
    tally = sampler.tally(SEED, 0, blocks)
    mean, square = tally.totals[:2] / tally.n
    error = np.sqrt(max(square - mean**2, 1e-20 * square) / tally.n)
    return abs(mean - exact / np.exp(tally.reference)) / error if tally.totals[0] else 0.0


@pytest.mark.parametrize("method", ["likelihood weighting", "propagated", "learned"])
def test_the_mean_weight_is_the_probability_of_the_evidence(method):
    zs = []
    for network, evidence, layout in cases(22, 10 if method == "learned" else 30):
        exact = joint(network, evidence).sum()
        sampler = NetworkSampler(METHODS[method](layout))
        if exact > 0 and not layout.is_weightless:
            zs.append(worst_evidence_z(sampler, exact))
    assert max(zs) < z_limit(len(zs))


def test_broken_weights_do_not_average_to_it():
    worst = np.zeros(3)
    for network, evidence, layout in cases(23, 40):
        exact = joint(network, evidence).sum()
        plain = likelihood_weighting(layout)
        if exact == 0 or layout.is_weightless:
            continue
        broken: list = [None] * 3
        if layout.findings:
            broken[0] = replace(plain, layout=replace(layout, findings=dict(list(layout.findings.items())[1:])))
        if any(v in evidence.soft for v in layout.informed):
            flat = _Flat(**{name: getattr(layout, name) for name in layout.__dataclass_fields__})
            broken[1] = replace(plain, layout=flat)
            broken[2] = _WithoutSums(layout, plain.tables, "")
        for i, proposal in enumerate(broken):
            if proposal is not None:
                worst[i] = max(worst[i], worst_evidence_z(NetworkSampler(proposal), exact))
    assert (worst > z_limit(40)).all(), worst


class _WithoutSums(_Unnormalised):
    """Broken: the sums of the tables that draws are made from are not in the weights."""

    def log_ratios(self, i, *, plain=False):
        return np.where(self.tables[i].values > 0, 0.0, -np.inf)


def coverage(method, n_networks, seeds, n_draws=BLOCK):
    """Of all reliable intervals of states, and of the log evidence: how many, and how many hold."""
    counts = np.zeros((2, 2), dtype=int)
    for network, evidence, layout in cases(24, n_networks):
        product = joint(network, evidence)
        if not product.sum():
            continue
        sampler = NetworkSampler(METHODS[method](layout))
        for seed in range(seeds):
            sample = sample_network(sampler, n_draws, seed=seed + 1000 * SEED)
            if not sample.verdict.reliable:
                continue
            estimates = [(sample.log_evidence(), np.log(product.sum()), 1)]
            for v in layout.query:
                exact = marginal(product, v)
                state = (seed + v) % len(exact)  # states of one variable are not independent
                estimates.append((sample.probability(v, state), exact[state], 0))
            for estimate, exact, kind in estimates:
                if not estimate.exact and np.isfinite(estimate.mcse):
                    low, high = estimate.interval()
                    counts[kind] += 1, low <= exact <= high
    return counts


def assert_covered(counts, least=0.93):
    for n, held in counts:
        assert n >= 50, "too few to tell"
        assert binom.cdf(held, n, least) > FALSE_ALARM, f"covered {held} of {n}"


@pytest.mark.parametrize("method", ["likelihood weighting", "propagated"])
@pytest.mark.parametrize(
    ("n_networks", "seeds"),
    [pytest.param(60, 12, id="short"), pytest.param(400, 100, id="long", marks=pytest.mark.slow)],
)
def test_intervals_cover(method, n_networks, seeds):
    assert_covered(coverage(method, n_networks, seeds))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["likelihood weighting", "propagated", "learned"])
@pytest.mark.parametrize(("name", "n_observed"), [("alarm", 7), ("insurance", 5), ("hailfinder", 11), ("win95pts", 15)])
def test_intervals_cover_on_reference_networks(name, n_observed, method):
    """Over sets of evidence and seeds; 16,384 draws, which are few."""
    assert_covered(reference_coverage(name, n_observed, method, range(40), 5))


def reference_coverage(name, n_observed, method, sets, seeds):
    """As `coverage`, with every state of every variable."""
    network = reference(name)
    counts = np.zeros((2, 2), dtype=int)
    for evidence_seed in sets:
        evidence = forward_evidence(network, n_observed, evidence_seed)
        log_z, marginals = exact_answers(network, evidence)
        sampler = NetworkSampler(METHODS[method](lay_out(network, evidence)))
        for seed in range(seeds):
            sample = sample_network(sampler, BLOCK, seed=seed + 1000 * SEED)
            if not sample.verdict.reliable:
                continue
            low, high = sample.log_evidence().interval()
            counts[1] += 1, low <= log_z <= high
            for v, exact in enumerate(marginals):
                for state, estimate in enumerate(sample.marginal(v)):
                    if not estimate.exact:
                        low, high = estimate.interval()
                        counts[0] += 1, low <= exact[state] <= high
    return counts


def test_intervals_of_half_the_width_do_not(monkeypatch):
    monkeypatch.setattr("doxa.inference.importance.sample.judged", _narrow)
    with pytest.raises(AssertionError, match="covered"):
        assert_covered(coverage("likelihood weighting", 60, 12))


def _narrow(value, error, ess, law, verdict, delta=None):
    law = replace(law, delta=law.delta / 2, least=np.inf) if isinstance(law, (EvidenceInterval, MeanInterval)) else law
    return WeightedEstimate(value, error / 2, ess, law=law, delta_error=error, verdict=verdict)

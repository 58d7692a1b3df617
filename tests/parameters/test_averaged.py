"""Averages in the place of draws: those of the very draws, and errors that are those of their mean."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.diagnostics import diagnose_real
from doxa.parameters.keeping import Averaged
from doxa.parameters.kernels import RandomWalk
from doxa.parameters.kernels.gaussians import Normal
from doxa.parameters.kernels.kernel import Function
from doxa.parameters.samplers import ChainSampler
from doxa.sampling.driver import Schedule, sample
from support.checks import SEED

OF = {"both": lambda draws: draws["theta"][:, 0], "below": lambda draws: draws["theta"][:, 0, 1] < 0.5}


@pytest.fixture(scope="module")
def chain():
    start = Normal(np.zeros(2), np.eye(2))
    return ChainSampler(Function(lambda x: -0.5 * (x**2).sum(axis=1), 2), RandomWalk(1.0), start)


@pytest.mark.parametrize("every", [1, 7, 300])
def test_averages_are_those_of_the_draws(chain, every):
    schedule = Schedule(2, 20 * every, 3 * every)
    draws = sample(chain, schedule, seed=SEED, progress=False)
    kept = sample(Averaged(chain, OF, every), Schedule(2, 20, 3), seed=SEED, progress=False)
    by = draws["theta"].reshape(2, 20, every, 2).mean(axis=2)
    assert kept["both"] == pytest.approx(by)
    assert kept["below"] == pytest.approx((draws["theta"][..., 0, 1] < 0.5).reshape(2, 20, every).mean(axis=2))
    assert set(kept.names) == set(OF)


def test_their_errors_are_those_of_the_mean(chain):
    exact = 0.6914624612740131
    z, naive = [], []
    for seed in range(40):
        trace = sample(Averaged(chain, OF, 10), Schedule(4, 60, 10), seed=1000 * SEED + seed, progress=False)
        estimate = diagnose_real(trace["below"]).estimate
        z.append((estimate.value - exact) / estimate.mcse)
        naive.append((estimate.value - exact) / np.sqrt(exact * (1 - exact) / 2_400))
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.35
    assert np.sqrt(np.mean(np.square(naive))) > 1.8  # the broken twin: as if all draws were independent


@pytest.mark.parametrize(
    ("of", "every", "error", "message"),
    [
        ({}, 10, ArgumentError, "of is empty; name what is to be averaged"),
        ({"x": 3}, 10, ArgumentTypeError, r"of\['x'\] is 3; it must be a function of the draws"),
        (OF, 0, ArgumentError, "every is 0; it must be at least 1"),
    ],
)
def test_bad_input(chain, of, every, error, message):
    with pytest.raises(error, match=message):
        Averaged(chain, of, every)


def test_a_function_returns_a_value_for_each_draw(chain):
    kept = Averaged(chain, {"mean": lambda draws: draws["theta"].mean()}, 10)
    with pytest.raises(ArgumentError, match=r"of\['mean'\] returned an array of shape \(\) for 250 draws"):
        sample(kept, Schedule(1, 30, 0), seed=1, progress=False)

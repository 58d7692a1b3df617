"""Proposals and targets with known constants, for the tests of importance sampling; and that they are known rightly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln

from support.checks import SEED, z_limit


def log_normal(x, mean, scale):
    return -(((x - mean) / scale) ** 2) / 2 - np.log(scale) - np.log(2 * np.pi) / 2


def log_t(x, df):
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - np.log(df * np.pi) / 2
    return constant - (df + 1) / 2 * np.log1p(x**2 / df)


class Finite:
    """States 0, 1, ... with these probabilities."""

    def __init__(self, p):
        self.p = np.asarray(p)

    def sample(self, n, rng):
        return rng.choice(len(self.p), size=n, p=self.p)

    def log_density(self, draws):
        with np.errstate(divide="ignore"):
            return np.log(self.p)[draws]


class Normal:
    def __init__(self, mean, scale):
        self.mean, self.scale = mean, scale

    def sample(self, n, rng):
        return rng.normal(self.mean, self.scale, n)

    def log_density(self, draws):
        return log_normal(draws, self.mean, self.scale)


class StudentT:
    def __init__(self, df):
        self.df = df

    def sample(self, n, rng):
        return rng.standard_t(self.df, n)

    def log_density(self, draws):
        return log_t(draws, self.df)


class ParetoWeight:
    """Uniform draws u; with log target -k log u the weights have a Pareto tail of shape k, and mean 1 / (1 - k)."""

    def sample(self, n, rng):
        return 1 - rng.random(n)

    def log_density(self, draws):
        return np.zeros(len(draws))


@pytest.mark.parametrize("proposal", [Normal(1.0, 0.5), StudentT(3.0), ParetoWeight()], ids=lambda p: type(p).__name__)
def test_densities_integrate_to_one_and_fit_their_draws(proposal):
    """The other tests rely on these constants."""
    low, high = (0.0, 1.0) if isinstance(proposal, ParetoWeight) else (-1000.0, 1000.0)
    total, _ = quad(lambda x: np.exp(proposal.log_density(np.array([x]))[0]), low, high, points=[0.0, 1.0], limit=500)
    assert total == pytest.approx(1.0, abs=1e-4)
    draws = proposal.sample(50_000, np.random.default_rng([SEED, 20]))
    below, _ = quad(lambda x: np.exp(proposal.log_density(np.array([x]))[0]), low, 0.8, points=[0.0], limit=500)
    assert abs((draws < 0.8).mean() - below) / np.sqrt(below * (1 - below) / draws.size) < z_limit(3)


def test_finite_draws_fit_their_probabilities():
    p = np.array([0.1, 0.0, 0.6, 0.3])
    seen = np.bincount(Finite(p).sample(50_000, np.random.default_rng([SEED, 21])), minlength=4) / 50_000
    assert seen[1] == 0
    used = p > 0
    assert (np.abs(seen - p)[used] / np.sqrt(p * (1 - p) / 50_000)[used]).max() < z_limit(3)
    assert Finite(p).log_density(np.array([1]))[0] == -np.inf

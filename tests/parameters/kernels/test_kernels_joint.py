"""The joint-distribution test (Geweke 2004): parameters and data drawn together stay together drawn.

theta ~ prior and y | theta give the joint distribution exactly. Steps of a kernel for p(theta | y) keep it, whatever y
is, so functions of (theta, y) have the same mean before and after. Outcomes of four rows are sixteen data sets; each
gets its own posterior, approximation and kernel, and the walkers that drew it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from kernel_checks import logistic_target

from doxa.models.logistic_regression import make_problem
from doxa.parameters.kernels import blocks as module
from doxa.parameters.kernels.blocks import BlockIndependence, block
from doxa.parameters.kernels.combined import mixture
from doxa.parameters.kernels.flip import Flip
from doxa.parameters.kernels.kernel import Function, start_at
from doxa.parameters.kernels.random_walk import RandomWalk
from doxa.parameters.kernels.tempered_transitions import tempered
from doxa.parameters.variational.batch import batch_posterior
from support.checks import SEED, z_limit

DESIGN = np.array([[1.0, 0.5], [1.0, -1.5], [-0.5, 2.0], [1.0, 1.0]])
BIAS = 0.5
PRIOR_MEAN, PRIOR_COVARIANCE = np.array([0.5, -1.0]), np.array([[2.0, 0.8], [0.8, 1.0]])


def joint_z(make_kernel, seed, n=24_000, steps=3, with_prior=True):
    rng = np.random.default_rng([SEED, 160, seed])
    before = PRIOR_MEAN + rng.standard_normal((n, 2)) @ np.linalg.cholesky(PRIOR_COVARIANCE).T
    signs = np.where(rng.random((n, 4)) < 1 / (1 + np.exp(-(BIAS + before @ DESIGN.T))), 1.0, -1.0)
    after = before.copy()
    for outcome in product([-1.0, 1.0], repeat=4):
        mine = (signs == outcome).all(axis=1)
        problem = make_problem(DESIGN, outcome, None, BIAS, PRIOR_MEAN, PRIOR_COVARIANCE)
        target = logistic_target(problem)
        if not with_prior:
            wide = logistic_target(problem._replace(prior_covariance=4 * PRIOR_COVARIANCE))
            target = Function(wide.log_density, 2)
        walkers, _ = make_kernel(batch_posterior(problem)).run(target, start_at(target, before[mine]), steps, rng)
        after[mine] = walkers.thetas

    def functions(theta):
        s = np.tanh((theta - PRIOR_MEAN) / np.sqrt(PRIOR_COVARIANCE.diagonal()))
        odds = np.tanh(BIAS + theta @ DESIGN.T)
        return np.column_stack([s, s**2, s[:, 0] * s[:, 1], s[:, :1] * signs, s[:, 1:] * signs, odds * signs])

    change = functions(after) - functions(before)
    z = change.mean(axis=0) / (change.std(axis=0) / np.sqrt(n))
    return float(np.abs(z).max()), z.size


KERNELS = {
    "random walk": lambda q: RandomWalk(1.5, q.cholesky),
    "random walk on blocks": lambda q: block(RandomWalk(1.0), [[0], [1]]),
    "conditional blocks": lambda q: BlockIndependence(q, 1),
    "marginal blocks": lambda q: BlockIndependence(q, 1, "marginal", "random"),
    "flip": Flip,
    "mixture": lambda q: mixture(BlockIndependence(q, 1), RandomWalk(0.5)),
    "tempered": lambda q: tempered(RandomWalk(1.0, q.cholesky), [1, 0.6, 0.3], q),
}


@pytest.mark.parametrize("name", KERNELS)
def test_parameters_and_data_stay_jointly_distributed(name):
    z, n = joint_z(KERNELS[name], 1)
    assert z < z_limit(n)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_parameters_and_data_stay_jointly_distributed_in_long_runs(name):
    z, n = joint_z(KERNELS[name], 2, n=400_000, steps=5)
    assert z < z_limit(n)


@pytest.mark.parametrize("form", ["conditional", "marginal"])
def test_blocks_without_the_hastings_term_are_noticed(monkeypatch, form):
    propose = module.propose_block
    monkeypatch.setattr(module, "propose_block", lambda *arguments: (propose(*arguments)[0], 0.0))
    z, n = joint_z(lambda q: BlockIndependence(q, 1, form), 3)
    assert z > z_limit(n)


def test_another_prior_is_noticed():
    z, n = joint_z(KERNELS["random walk"], 4, with_prior=False)
    assert z > z_limit(n)


@dataclass(frozen=True)
class Fixed:
    """Broken twin: everybody gets the posterior of one data set."""

    kernel: object
    target: object

    def run(self, target, walkers, n_steps, rng):
        return self.kernel.run(self.target, start_at(self.target, walkers.thetas), n_steps, rng)


def test_the_data_of_others_are_noticed():
    target = logistic_target(make_problem(DESIGN, [1, -1, 1, 1], None, BIAS, PRIOR_MEAN, PRIOR_COVARIANCE))
    z, n = joint_z(lambda q: Fixed(RandomWalk(1.0), target), 5)
    assert z > z_limit(n)

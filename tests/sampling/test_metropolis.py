"""Metropolis-Hastings for any target and proposal: its matrix on spaces of every type, runs, store and refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.store import RunFileError
from doxa.parameters.kernels.kernel import TargetError
from doxa.sampling.driver import Schedule, sample
from doxa.sampling.metropolis import MetropolisHastings, MetropolisState
from doxa.sampling.metropolis_run import metropolis_hastings
from support.checks import SEED, z_limit


class Space:
    """A finite space whose proposals can be listed: from each state to each, with probabilities q."""

    def __init__(self, states, seed):
        rng = np.random.default_rng([SEED, seed])
        self.states = [np.array(state, dtype=states.dtype) for state in states]
        n = len(self.states)
        self.log_p = 1.5 * rng.standard_normal(n)
        self.log_p[rng.integers(n)] = -np.inf  # outside the support
        self.q = rng.dirichlet(np.full(n, 0.5), size=n)
        self.q[0, 1] = 0.0  # there is a way from 1 to 0, and none back
        self.q /= self.q.sum(axis=1, keepdims=True)
        self.number = {state.tobytes(): k for k, state in enumerate(self.states)}

    def index(self, state):
        return self.number[np.asarray(state).tobytes()]

    def log_density(self, state):
        return self.log_p[self.index(state)]

    def propose(self, state, rng):
        return self.states[rng.choice(len(self.states), p=self.q[self.index(state)])]

    def log_proposal(self, new, old):
        with np.errstate(divide="ignore"):
            return np.log(self.q[self.index(old), self.index(new)])

    def sampler(self, log_proposal):
        return MetropolisHastings(self.log_density, self.propose, lambda rng: self.states[0], log_proposal)

    @property
    def probabilities(self):
        return np.exp(self.log_p) / np.exp(self.log_p).sum()


class Told:
    """A generator that proposes and accepts as it is told."""

    def __init__(self, choice, u):
        self._choice, self._u = choice, u

    def choice(self, n, p):
        return self._choice

    def random(self):
        return self._u


def matrix_of(space, sampler):
    """The transition matrix of the sampler's own run, every proposal and both answers made to happen."""
    n = len(space.states)
    matrix = np.zeros((n, n))
    for x, y in itertools.product(range(n), range(n)):
        if space.q[x, y] == 0 or not np.isfinite(space.log_p[x]):
            continue
        state = MetropolisState(space.states[x], float(space.log_p[x]))
        _, draws, _ = sampler.run(state, 1, Told(y, 0.0))
        chance = float(draws["acceptance"][0])
        for u, moves in ((1 - chance + 1e-9, True), (1 - chance - 1e-9, False)):  # it moves where 1 - u is below it
            if 0 <= u < 1:
                after, _, _ = sampler.run(state, 1, Told(y, u))
                assert space.index(after.position) == (y if moves else x)
        matrix[x, y] += space.q[x, y] * chance
        matrix[x, x] += space.q[x, y] * (1 - chance)
    for x in np.flatnonzero(~np.isfinite(space.log_p)):
        matrix[x, x] = 1.0
    return matrix


SPACES = {
    "whole numbers": np.arange(5),
    "orders": np.array(list(itertools.permutations(range(3))), dtype=np.int8),
    "graphs": np.array(list(itertools.product([False, True], repeat=4))).reshape(-1, 2, 2),
    "real vectors": np.array([[0.5, -1.0], [2.0, 3.5], [1e-3, 0.0], [7.0, 7.0]]),
    "texts": np.array(["rain", "sun", "snow", "fog"]),
    "complex numbers": np.array([1j, 1.0, -1.0, 2 - 1j]),
}


@pytest.mark.parametrize("name", SPACES)
def test_the_posterior_is_kept(name):
    space = Space(SPACES[name], list(SPACES).index(name))
    matrix = matrix_of(space, space.sampler(space.log_proposal))
    assert np.allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(space.probabilities @ matrix - space.probabilities).max() < 1e-12
    balance = space.probabilities[:, None] * matrix
    assert np.abs(balance - balance.T).max() < 1e-12


@pytest.mark.parametrize("name", SPACES)
def test_without_the_hastings_term_it_is_not(name):
    space = Space(SPACES[name], list(SPACES).index(name))
    for broken in (None, lambda new, old: space.log_proposal(old, new)):  # left out; the wrong way round
        space.q = np.maximum(space.q, 1e-3)
        space.q /= space.q.sum(axis=1, keepdims=True)
        matrix = matrix_of(space, space.sampler(broken))
        assert np.abs(space.probabilities @ matrix - space.probabilities).max() > 1e-3


def test_a_symmetric_proposal_needs_no_term():
    space = Space(SPACES["graphs"], 2)
    weights = space.q + space.q.T
    np.fill_diagonal(weights, 0.0)
    weights /= weights.sum(axis=1).max()
    space.q = weights + np.diag(1 - weights.sum(axis=1))
    matrix = matrix_of(space, space.sampler(None))
    assert np.abs(space.probabilities @ matrix - space.probabilities).max() < 1e-12


def poisson(mean=3.0):
    """0, 1, 2, ... by steps that are likelier upwards: an asymmetric proposal on a countable space."""
    from math import lgamma, log

    def log_density(x):
        return float(x) * log(mean) - lgamma(x + 1) if x >= 0 else -np.inf

    def propose(x, rng):
        return x + (1 if rng.random() < 0.7 else -1)

    def log_proposal(new, old):
        return log(0.7) if new > old else log(0.3)

    return log_density, propose, lambda rng: rng.integers(12), log_proposal


def test_means_and_probabilities_of_a_countable_space():
    log_density, propose, start, log_proposal = poisson()
    options = {"draws": 5000, "seed": 3, "workers": 1, "quantities": {"x": lambda x: x, "none": lambda x: x == 0}}
    run = metropolis_hastings(log_density, propose, start, log_proposal=log_proposal, **options)
    mean, none = run.estimate("x"), run.estimate("none")
    assert run.converged
    assert run.verdict.text.startswith("Converged: 4 chains agree")
    assert abs(mean.value - 3) < z_limit(2) * mean.mcse < 0.5
    assert abs(none.value - np.exp(-3)) < z_limit(2) * none.mcse < 0.1
    assert run.draws.shape == (4, 5000)
    assert run.draws.dtype.kind == "i"
    table = run.summary().set_index("quantity")
    assert table.loc["x", "sd"] == pytest.approx(3**0.5, rel=0.1)
    assert table.index.tolist() == ["x", "none", "log_density"]
    broken = metropolis_hastings(log_density, propose, start, **options).estimate("x")
    assert abs(broken.value - 3) > z_limit(2) * broken.mcse


def test_a_run_stops_when_it_is_accurate_and_by_its_seed():
    log_density, propose, start, log_proposal = poisson()
    until = doxa.Until(ess=200, r_hat=1.05)
    runs = [
        metropolis_hastings(
            log_density, propose, start, log_proposal=log_proposal, until=until, seed=5, workers=workers
        )
        for workers in (1, 2)
    ]
    assert np.array_equal(runs[0].draws, runs[1].draws)
    assert runs[0].stop.reason == "reached"
    assert runs[0].estimate("state").ess > 150


def test_chains_that_do_not_mix_are_told():
    def apart(x):
        return float(np.logaddexp(-0.5 * (x - 10) ** 2, -0.5 * (x + 10) ** 2))

    def start(rng):
        return 10.0 * rng.choice([-1, 1]) + rng.normal()

    options = {"draws": 500, "seed": 2, "workers": 1}
    run = metropolis_hastings(apart, lambda x, rng: x + rng.normal(), start, **options)
    assert run.converged is False
    assert "the chains disagree about state" in run.verdict.text
    stuck = metropolis_hastings(apart, lambda x, rng: x + 1e9, lambda rng: 10.0, **options)
    assert stuck.verdict.text.startswith("Cannot tell: nothing ever changed")
    alone = metropolis_hastings(apart, lambda x, rng: x + rng.normal(), start, chains=1, **options)
    assert alone.verdict.text.startswith("Cannot tell: one chain")
    constant = {"x": lambda x: x, "sign": lambda x: 0 * x}
    same = metropolis_hastings(
        lambda x: -0.5 * float(x) ** 2, lambda x, rng: x + rng.normal(), start, quantities=constant, **options
    )
    assert same.verdict.text.startswith("Cannot tell: sign never changed")


@pytest.mark.parametrize("name", ["graphs", "whole numbers", "real vectors"])
def test_a_run_is_kept_and_gone_on_with(name, tmp_path):
    space = Space(SPACES[name], 1)
    functions = space.log_density, space.propose, lambda rng: space.states[int(np.argmax(space.log_p))]
    options = {"log_proposal": space.log_proposal, "workers": 1, "thin": 2}
    path = tmp_path / "run.doxa"
    metropolis_hastings(*functions, draws=30, warmup=10, seed=4, store=path, **options)
    more = metropolis_hastings(*functions, draws=80, store=path, resume=True, **options)
    whole = metropolis_hastings(*functions, draws=80, warmup=10, seed=4, **options)
    assert np.array_equal(more.draws, whole.draws)
    assert more.draws.dtype == space.states[0].dtype
    with pytest.raises(RunFileError, match="exists already"):
        metropolis_hastings(*functions, draws=30, seed=4, store=path, **options)
    with pytest.raises(RunFileError, match="thin"):
        metropolis_hastings(*functions, draws=90, store=path, resume=True, **{**options, "thin": 3})
    with pytest.raises(ArgumentError, match="there is no store"):
        metropolis_hastings(*functions, draws=90, resume=True, **options)


def test_a_sampler_for_the_driver_has_the_same_draws_in_any_blocks():
    log_density, propose, start, log_proposal = poisson()
    sampler = MetropolisHastings(log_density, propose, start, log_proposal, thin=3)
    runs = [sample(sampler, Schedule(2, 40, 10), seed=1, workers=1, block=block) for block in (1, 7, 100)]
    for run in runs[1:]:
        for name in ("state", "log_density", "acceptance"):
            assert np.array_equal(run[name], runs[0][name])
    assert runs[0].info["steps"].tolist() == [120, 120]


def in_place(x, rng):
    x += rng.normal(size=2)
    return x


FLAT = (lambda x: 0.0, lambda x, rng: x + rng.normal(size=2), lambda rng: np.zeros(2))


@pytest.mark.parametrize(
    ("functions", "options", "error", "words"),
    [
        (
            (0.0, *FLAT[1:]),
            {},
            ArgumentTypeError,
            r"log_density is of type float; give a function log_density\(state\)",
        ),
        ((FLAT[0], FLAT[1], np.zeros(2)), {}, ArgumentTypeError, r"start is of type ndarray; give a function start"),
        ((lambda x: np.nan, *FLAT[1:]), {}, TargetError, "the log density is nan"),
        ((lambda x: -np.inf, *FLAT[1:]), {}, TargetError, "no start in the target's support"),
        (
            (FLAT[0], lambda x, rng: x[:1], FLAT[2]),
            {},
            ArgumentError,
            r"shape \(1,\) and type float64; states have shape",
        ),
        ((FLAT[0], lambda x, rng: "a", FLAT[2]), {}, ArgumentError, "type <U1"),
        ((FLAT[0], in_place, FLAT[2]), {}, ValueError, "read-only"),
        (FLAT, {"log_proposal": 0.0}, ArgumentTypeError, "leave it out if the proposal is symmetric"),
        (FLAT, {"log_proposal": lambda new, old: -np.inf}, ArgumentError, "for a state that propose made"),
        (FLAT, {"quantities": {"x": lambda x: x}}, ArgumentError, r"quantities\['x'\] returned an array of shape"),
        (FLAT, {"quantities": {"log_density": lambda x: x[:, 0]}}, ArgumentError, "monitored anyway"),
        (FLAT, {"quantities": [1]}, ArgumentTypeError, "mapping of names to functions"),
        (FLAT, {"draws": None, "until": doxa.Until(quantities=["y"])}, ArgumentError, r"this run has 'state\[0\]'"),
        ((FLAT[0], FLAT[1], lambda rng: np.zeros(60)), {}, ArgumentError, "say what to monitor"),
        ((FLAT[0], FLAT[1], lambda rng: [None]), {}, ArgumentTypeError, "states are arrays of numbers"),
    ],
)
def test_refusals(functions, options, error, words):
    with pytest.raises(error, match=words):
        metropolis_hastings(*functions, **{"draws": 10, "seed": 1, "workers": 1, **options})

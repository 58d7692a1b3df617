"""Tours of Gibbs samplers: lengths and means are those of listing; what follows a mark forgets what was before."""

from __future__ import annotations

import numpy as np
import pytest
from gibbs_cases import dense_problem, joint_of
from scipy.stats import chi2_contingency

from doxa.errors import ArgumentError
from doxa.estimates.regenerative import cut_tours, regenerative_estimate
from doxa.inference.gibbs import TableGibbs, in_turn, regenerations
from doxa.sampling.driver import Schedule, sample
from support.checks import SEED, z_limit

BLOCKS = [[0], [1, 2], [3]]


@pytest.fixture(scope="module")
def chains():
    n_states, factors = dense_problem()
    sampler = TableGibbs(n_states, factors, scan=in_turn([BLOCKS]), keep_states=True)
    trace = sample(sampler, Schedule(40, 5000, 0), seed=SEED, progress=False)
    joint = joint_of(n_states, factors)
    return trace["states"], joint / joint.sum()


def test_tours_have_their_length_and_means(chains):
    states, joint = chains
    at = np.unravel_index(joint.sum(axis=0).argmax(), joint.shape[1:])
    exact = joint.sum(axis=(1, 2, 3))[1]
    z = []
    for draws in states:
        marks = regenerations(draws, [0], at)
        tours = cut_tours(draws[:, 0], marks)
        found = regenerative_estimate(*tours).estimate
        z.append((found.value - exact) / found.mcse)
        lengths = tours.lengths
        z.append((lengths.mean() - 1 / joint.sum(axis=0)[at]) / (lengths.std(ddof=1) / np.sqrt(lengths.size)))
    assert np.abs(z).max() < z_limit(len(z))
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.2


def follow(states, first):
    """P-value that what follows a mark does not depend on the state before it."""
    marks = regenerations(states, first)
    before = states[:, :-1].reshape(-1, 4)[marks[:, 1:].ravel()]
    after = states[:, 1:].reshape(-1, 4)[marks[:, 1:].ravel()]
    _, one = np.unique(before, axis=0, return_inverse=True)
    _, other = np.unique(after, axis=0, return_inverse=True)
    counts = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(counts, (one, other), 1)
    return chi2_contingency(counts[:, counts.sum(axis=0) > 20]).pvalue


def test_the_step_after_a_mark_forgets_the_past(chains):
    states, _ = chains
    assert follow(states, [0]) > 1e-6
    assert follow(states, [1, 2]) < 1e-12  # the broken twin: a block that is not the first


def test_the_atom_is_chosen_by_draws_that_begin_no_tour(chains):
    states, _ = chains
    marks = regenerations(states[0], [0])
    assert not marks[:501].any()
    assert marks.sum() > 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0]), "states has shape .* it must be"),
        (([[0, 1]], [0, 1]), r"first is \[0, 1\]; it must name some of the 2 variables by number, and not all"),
        (([[0, 1]], []), r"first is \[\]; it must name some"),
        (([[0, 1]], [0]), "there are 1 draws; at least 10 are needed to choose an atom"),
        (([[0, 1]] * 20, [0], [1, 1]), r"at has shape \(2,\); it must be \(1,\)"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        regenerations(*arguments)

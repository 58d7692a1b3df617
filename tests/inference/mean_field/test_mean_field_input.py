"""Mean field refuses what it cannot use, by name, value, rule and way out."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import DoxaError
from doxa.inference.mean_field import mean_field, mean_field_problem
from doxa.inference.mean_field.ising import ising_mean_field
from doxa.models.factors import Factor
from doxa.models.ising import ising, potts

PAIR = Factor((0, 1), np.zeros((2, 2)))
OFF = -np.inf


def fit(*factors, **options):
    return mean_field([2, 2], factors or [PAIR], **options)


BAD = [
    (lambda: mean_field([], []), "n_states is empty; a network has at least one variable"),
    (lambda: mean_field([2, 0], []), "n_states[1] is 0; it must be at least 1"),
    (lambda: mean_field([2, 2.5], []), "n_states[1] is 2.5; it must be a whole number of at least 1"),
    (lambda: fit(Factor((0, 2), np.zeros((2, 2)))), "factors[0] has the position 2; those of the network are 0 to 1"),
    (
        lambda: fit(Factor((0, 0), np.zeros((2, 2)))),
        "factors[0] has the positions (0, 0); the variables of a factor differ",
    ),
    (lambda: fit(PAIR, Factor((0,), np.zeros(3))), "factors[1] has shape (3,); it must be (2,), the numbers of states"),
    (
        lambda: fit(Factor((0,), np.array([0, np.nan]))),
        "factors[0] contains NaN or +inf; log potentials are finite, or",
    ),
    (
        lambda: fit(Factor((0,), np.array([0, np.inf]))),
        "factors[0] contains NaN or +inf; log potentials are finite, or",
    ),
    (lambda: fit(Factor((0,), np.array([OFF, OFF]))), "factors[0] is -inf everywhere, so that every configuration has"),
    (lambda: fit("ab"), "factors[0] is 'ab'; give a Factor of variables and an array"),
    (
        lambda: fit(blocks=[[0], [1, 0]]),
        "blocks[1] has the position 0, which is in blocks[0] already; blocks are disjoint",
    ),
    (lambda: fit(blocks=[[]]), "blocks[0] is empty; a block has at least one variable"),
    (lambda: fit(blocks=[[0, 2]]), "blocks[0] has the position 2; those of the network are 0 to 1"),
    (lambda: fit(blocks=["ab"]), "blocks[0] is 'ab'; give a sequence of positions of variables"),
    (lambda: fit(blocks=[[0.5]]), "blocks[0] has 0.5; variables are named by position, whole numbers"),
    (
        lambda: mean_field([2] * 40, [], blocks=[range(40)]),
        "blocks[0] has 1099511627776 joint states, and max_block_states",
    ),
    (
        lambda: fit(blocks=[[0, 1]], max_block_states=3),
        "blocks[0] has 4 joint states, and max_block_states is 3; cut the",
    ),
    (lambda: fit(starts=0), "starts is 0; it must be at least 1"),
    (lambda: fit(tolerance=0), "tolerance is 0; it must be above 0"),
    (lambda: fit(tolerance=np.nan), "tolerance is nan; it must be above 0"),
    (lambda: fit(max_sweeps=0), "max_sweeps is 0; it must be at least 1"),
    (lambda: fit(start=[0]), "start has shape (1,); it must be (2,), a state for every variable"),
    (lambda: fit(start=[0.0, 1.0]), "start has dtype float64; it holds positions of states, whole numbers"),
    (lambda: fit(start=[0, 2]), "start[1] is 2, and the variable has 2 states; positions are 0 to 1"),
    (lambda: fit(Factor((0,), np.array([0, OFF])), start=[1, 0]), "start is a configuration of probability 0; give a"),
    (lambda: ising_mean_field(potts([(0, 1)], 3, 1.0)), "network is of type PottsNetwork; give an IsingNetwork, as"),
    (
        lambda: ising_mean_field(ising([(0, 1)], 1.0), start=[0.0]),
        "start has shape (1,); it must be (2,), a mean for every",
    ),
    (
        lambda: ising_mean_field(ising([(0, 1)], 1.0), start=[0.0, 2.0]),
        "start holds 2; means of spins are from -1 to 1",
    ),
    (
        lambda: ising_mean_field(ising([(0, 1)], 1.0), start=[0.0, np.nan]),
        "start holds nan; means of spins are from -1",
    ),
    (lambda: ising_mean_field(ising([(0, 1)], 1.0), starts=0), "starts is 0; it must be at least 1"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_input(call, message):
    with pytest.raises(DoxaError) as raised:
        call()
    assert isinstance(raised.value, (ValueError, TypeError))
    assert message in str(raised.value)


def test_an_update_at_an_impossible_q_says_where_to_begin():
    same = np.array([[0.0, OFF], [OFF, 0.0]])
    problem = mean_field_problem([2, 2], [Factor((0, 1), same)])
    assert problem.elbo(problem.uniform()) == OFF
    with pytest.raises(DoxaError, match="q leaves block 0 no possible state; begin at a q whose bound is finite"):
        problem.updated(problem.uniform(), 0)
    with pytest.raises(DoxaError, match="q leaves a block no possible state; begin at a q whose bound is finite"):
        problem.step(problem.uniform())


def test_what_did_not_converge_says_so():
    factors = [Factor((v, v + 1), 0.5 * np.eye(2)) for v in range(20)]
    found = mean_field([2] * 21, [*factors, Factor((0,), np.array([0.0, 1.0]))], starts=1, max_sweeps=2)
    assert not found.converged
    assert repr(found).endswith("; not converged in 2 sweeps>")
    assert found.starts[0].n_sweeps == 2

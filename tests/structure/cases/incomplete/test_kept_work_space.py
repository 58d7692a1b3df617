"""A chain that goes on from another state in the same work space draws what a new one does, and counts what it counts.

Rungs of a tempered run do so after each swap.
"""

from __future__ import annotations

import numpy as np
import pytest
from incomplete_cases import blanked
from test_summed_out import blank_numbers

from doxa.structure import Auto, SingleEdge
from doxa.structure.cases.incomplete import IncompleteData
from doxa.structure.cases.incomplete.by_kind import sampler_with_cells
from doxa.structure.cases.incomplete.graph_moves import GraphMoves
from doxa.structure.cases.incomplete.sampler import CollapsedChain
from doxa.structure.cases.incomplete.sweeping_chain import SweepingChain
from doxa.structure.families.gaussian.kinds import BGe, ConditionalGaussian
from doxa.structure.families.logistic.score import Logistic
from doxa.structure.families.scores import BDeu
from doxa.structure.limits import make_limits
from support.tables import skewed_table

WITH_TABLES = blanked(skewed_table(4, 40, seed=3), 0.1, 5)
CASES = {
    "tables, auto": (WITH_TABLES, BDeu(), Auto(), {}),
    "tables, edges": (WITH_TABLES, BDeu(), SingleEdge(), {}),
    "logistic": (WITH_TABLES, Logistic(), Auto(), {}),
    "numbers, summed out": (blank_numbers(n_rows=30, n_columns=4), BGe(), Auto(), {}),
    "numbers, warm": (blank_numbers(n_rows=30, n_columns=4), BGe(), SingleEdge(), {"beta": 0.6}),
    "beside categories": (blank_numbers(n_rows=30, n_columns=4, categories=2), ConditionalGaussian(), Auto(), {}),
}


def visits(name):
    """What three states in turn come to, twice each: by one work space, and by one each time."""
    table, kind, move, options = CASES[name]
    sampler = sampler_with_cells(IncompleteData(table, kind), make_limits(table.names), move, **options)
    found = []
    for run in (sampler.running(), sampler.run):
        rng = np.random.default_rng(7)
        states = [sampler.start(chain, rng) for chain in range(3)]
        found.append([])
        for k in (0, 1, 2, 0, 2, 1):
            states[k], draws, counts = run(states[k], 3 * sampler.steps, rng)
            found[-1].append((states[k], draws, counts))
    return found


def are_alike(kept, anew):
    """Whether states, draws and counts are the same."""
    (state, draws, counts), (other, its_draws, its_counts) = kept, anew
    of_states = all(np.array_equal(one, two) for one, two in zip(state, other, strict=True))
    return of_states and counts == its_counts and all(np.array_equal(draws[what], its_draws[what]) for what in draws)


@pytest.mark.parametrize("name", CASES)
def test_the_draws_are_those_of_a_new_one(name):
    kept, anew = visits(name)
    assert all(map(are_alike, kept, anew))
    assert len({state.rows.tobytes() + state.cells.tobytes() for state, _, _ in kept}) > 3  # and chains move


@pytest.mark.parametrize("forgotten", [SweepingChain, GraphMoves, CollapsedChain], ids=lambda kind: kind.__name__)
def test_one_that_forgets_a_part_would_be_seen(forgotten, monkeypatch):
    first = []

    def stand_at(self, state):
        if self not in first and forgotten is GraphMoves:  # which stands somewhere first
            first.append(self)
            right(self, state)
        if forgotten is CollapsedChain:  # all but the counts
            SweepingChain.stand_at(self, state)
            self.moves.stand_at(state)

    right = forgotten.stand_at
    monkeypatch.setattr(forgotten, "stand_at", stand_at)
    kept, anew = visits("tables, auto")
    assert not all(map(are_alike, kept, anew))

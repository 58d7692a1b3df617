"""States in rows of which all else was seen, against scores of the table with one row more."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import doxa
from doxa.data import Table
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.averaging.whole_rows import log_states_of_rows
from support.checks import SEED


def mixed(n=50):
    rng = np.random.default_rng(SEED)
    g = rng.integers(0, 2, n)
    x = rng.normal(size=n) + g
    own = (np.stack([0 * x, x - 0.5, 0.5 * x + g - 1.0], axis=1) + rng.gumbel(size=(n, 3))).argmax(axis=1)
    y = 0.7 * x + 0.6 * own + rng.normal(size=n)
    codes = np.column_stack([g, 0 * g, 0 * g, own])
    numbers = np.column_stack([g * np.nan, 3.0 + 2.0 * x, y, g * np.nan])
    return Table.from_codes(list("gxyc"), [("n", "y"), (), (), ("0", "1", "2")], codes, numbers=numbers)


def by_scores(draws, codes, z, n_states):
    """Log probabilities of the last column's states in one row: scores with the row less scores without."""
    table, logs = draws.completed.table, np.zeros((len(draws), n_states))
    columns = np.where(draws.is_number, draws.scaling.values.T, table.codes)
    sizes = np.where(draws.is_number, 0, table.n_states)
    for family, users in draws.users.items():
        members, kind = [family[0], *family[1]], draws.prior.of_node(family[0])
        for state in range(n_states):
            row = np.where(draws.is_number, z, [*codes[:-1], state])
            both = np.vstack([columns, row])[:, members]
            without, having = (
                kind.log_marginal_likelihood(both[:k], np.append(table.counts, 1)[:k], sizes[members])
                for k in (len(columns), len(both))
            )
            logs[users, state] += having - without
    found = logsumexp(logs, axis=0)
    return found - logsumexp(found)


@pytest.mark.parametrize(("family", "tolerance"), [("conditional_gaussian", 1e-9), ("additive", 0.05), ("auto", 0.05)])
def test_states_are_those_of_the_table_with_one_row_more(family, tolerance):
    """Closed forms to 1e-9; log odds by draws.  Another row's are not these."""
    table = mixed()
    posterior = doxa.learn(table, family=family, prior="uniform", exact=False, draws=20, chains=2, seed=1)
    draws = draw_networks(posterior, table, 20)
    codes, numbers = np.array([[1, 0, 0, -1], [0, 0, 0, -1]]), np.array([[np.nan, 5.0, 0.3, np.nan]] * 2)
    numbers[1, 1:3] = 1.0, 2.0
    found = log_states_of_rows(draws, codes, numbers, 3)
    assert np.exp(found).sum(axis=1) == pytest.approx(1.0)
    z = (numbers - draws.scaling.centre) / draws.scaling.scale
    right = by_scores(draws, codes[0], z[0], 3)
    assert found[0] == pytest.approx(right, abs=tolerance)
    assert np.abs(found[1] - right).max() > 5 * tolerance

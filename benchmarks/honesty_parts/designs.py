"""How rows came about: experiments and moments in time, the sampler against the sum over all graphs."""

from __future__ import annotations

import numpy as np
import pandas as pd

import doxa
from honesty_parts.learning import learned, prior_options
from honesty_parts.numbers import linear_rows, number_table
from honesty_parts.problems import Question, kind, pick, run_seed
from honesty_parts.tables import as_table, random_network_rows


@kind("learn", share=2)
def experiments(rng: np.random.Generator, small: bool) -> Question:
    """Rows in which columns were set: equivalent graphs are told apart, some by a few rows only."""
    return _with_columns_set(rng, int(rng.integers(4, 6 if small else 10)))


@kind("learn")
def wide_experiments(rng: np.random.Generator, small: bool) -> Question:
    """The same among more columns: modes below the best are looked for by a search, no more by all sets of columns."""
    return _with_columns_set(rng, int(rng.integers(4, 6) if small else rng.integers(16, 18)))


def _with_columns_set(rng: np.random.Generator, n: int) -> Question:
    n_rows = int(rng.integers(30, 400))
    if rng.random() < 0.5:
        n_states = rng.integers(2, 4, n)
        table = as_table(random_network_rows(rng, n_rows, n_states, concentration=0.5), n_states)
    else:
        table = number_table(linear_rows(rng, n_rows, n))
    done = rng.random((n_rows, n)) < np.where(rng.random(n) < 0.4, pick(rng, 0.03, 0.2), 0.0)
    done[0, rng.integers(n)] = True
    names = np.array(table.names)
    interventions = {int(row): [str(name) for name in names[done[row]]] for row in np.flatnonzero(done.any(axis=1))}
    options = {**prior_options(rng), "imperfect": bool(rng.random() < 0.3)}
    title = f"columns set in {len(interventions)} rows"
    return learned(title, table, {**options, "interventions": interventions}, run_seed(rng))


@kind("learn", share=2)
def moments_in_time(rng: np.random.Generator, small: bool) -> Question:
    """Each column depends on the moment before, of one unit or of several."""
    n, n_moments = int(rng.integers(2, 4 if small else 6)), int(rng.integers(40, 300))
    n_units = int(rng.integers(1, 4))
    before = rng.normal(0, 0.5, (n, n)) * (rng.random((n, n)) < 0.5)
    values, one = np.zeros((n_units, n_moments, n)), rng.standard_normal((n_units, n))
    for moment in range(n_moments):
        one = np.tanh(one @ before) + pick(rng, 0.5, 0.5) * rng.standard_normal((n_units, n))
        values[:, moment] = one
    flat = values.reshape(-1, n)
    if rng.random() < 0.5:
        columns = {f"x{j}": np.where(flat[:, j] > 0, "b", "a") for j in range(n)}
    else:
        columns = {f"x{j}": flat[:, j] for j in range(n)}
    moment, unit = np.tile(np.arange(n_moments), n_units), np.repeat(np.arange(n_units), n_moments)
    frame = pd.DataFrame(columns).assign(t=moment, u=np.array(list("ABC"))[unit])
    options = {**prior_options(rng), "time": "t", "unit": "u"}
    return learned("moments in time", doxa.read_table(frame, numbers=["t"]), options, run_seed(rng))

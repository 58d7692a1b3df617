"""Graphs from complete tables: the sampler against the sum over all graphs, which enumeration checks elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

import doxa
from doxa.data import Table
from honesty_parts.problems import Answer, Exact, Quantity, Question, kind, pick, run_seed
from honesty_parts.tables import as_table, copies, hamming, network_cut, parity, random_network_rows

__all__ = ["edges_of", "learned", "prior_options"]

_REFERENCE = ("hailfinder", "alarm", "insurance", "child", "water", "win95pts")
_UNTOLD = ("seed", "workers", "interventions")


def prior_options(rng: np.random.Generator) -> dict[str, Any]:
    """Half of the tables get the default prior, whatever it is, half the uniform one."""
    return {} if rng.random() < 0.5 else {"prior": "uniform"}


def learned(title: str, table: Table, options: dict[str, Any], seed: int) -> Question:
    """`doxa.learn` made to sample, against the exact sums of the same call; one worker, which changes no draw."""
    options = {"seed": seed, "workers": 1, **options}

    def ask() -> Answer:
        return edges_of(doxa.learn(table, exact=False, **options))

    def exact() -> Exact:
        found = doxa.learn(table, exact=True, **options)
        return {quantity.name: quantity.value for quantity in edges_of(found).quantities}

    words = [f"{len(table.names)} columns, {table.n_rows} rows"]
    words += [f"{name} {value}" for name, value in options.items() if name not in _UNTOLD]
    return Question(f"{title}, {', '.join(words)}", ask, exact)


def edges_of(posterior: doxa.StructurePosterior) -> Answer:
    """All directed edges of a posterior over graphs."""
    found, names = posterior.edge_diagnostics, posterior.names
    value, mcse = found.probability, found.mcse
    lower, upper = found.interval(0.95)
    pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    quantities = [
        Quantity(
            f"{names[i]} -> {names[j]}", "probability", *(float(part[i, j]) for part in (value, mcse, lower, upper))
        )
        for i, j in pairs
    ]
    return Answer(posterior.judgement, quantities)


@kind("learn", share=3)
def random_tables(rng: np.random.Generator, small: bool) -> Question:
    n = int(rng.integers(4, 6 if small else 11))
    n_states = rng.integers(2, 4 if small else 5, n)
    n_rows = int(rng.integers(20, 2001))
    codes = random_network_rows(rng, n_rows, n_states, concentration=pick(rng, 0.3, 1.0, 3.0))
    return learned("a random network", as_table(codes, n_states), prior_options(rng), run_seed(rng))


@kind("learn", share=3)
def parities(rng: np.random.Generator, small: bool) -> Question:
    modulus = 3 if rng.random() < 0.3 else 2
    n = int(rng.integers(4, 6 if small else 10 if modulus == 3 else 13))
    k = int(rng.integers(3, min(n, 5 if modulus == 3 else 7) + 1))
    noise = pick(rng, 0.0, 0.0, 0.05, 0.15)
    n_rows = int(rng.integers(50, 200 if small else 1001))
    table = as_table(parity(rng, n_rows, n, k, modulus, noise), modulus)
    title = f"the sum modulo {modulus} of {k - 1} columns, noise {noise}"
    return learned(title, table, prior_options(rng), run_seed(rng))


@kind("learn", share=2)
def codes(rng: np.random.Generator, small: bool) -> Question:
    n_noise, noise = int(rng.integers(0, 1 if small else 5)), pick(rng, 0.0, 0.01, 0.03, 0.1)
    table = as_table(hamming(rng, int(rng.integers(50, 600)), n_noise, noise), 2)
    title = f"Hamming(7,4), noise {noise}, {n_noise} columns of noise"
    return learned(title, table, prior_options(rng), run_seed(rng))


@kind("learn", share=2)
def near_copies(rng: np.random.Generator, small: bool) -> Question:
    n, n_states = int(rng.integers(4, 6 if small else 11)), int(rng.integers(2, 4))
    noise = pick(rng, 0.0, 0.01, 0.05, 0.2)
    table = as_table(copies(rng, int(rng.integers(30, 1000)), n, n_states, noise), n_states)
    return learned(f"copies, noise {noise}", table, prior_options(rng), run_seed(rng))


@kind("learn", share=2)
def near_deterministic(rng: np.random.Generator, small: bool) -> Question:
    n = int(rng.integers(4, 6 if small else 11))
    n_states = rng.integers(2, 4, n)
    codes = random_network_rows(
        rng, int(rng.integers(50, 1000)), n_states, concentration=pick(rng, 0.02, 0.1), most_parents=4
    )
    return learned("a near deterministic network", as_table(codes, n_states), prior_options(rng), run_seed(rng))


@kind("learn", share=2)
def few_rows(rng: np.random.Generator, small: bool) -> Question:
    n = int(rng.integers(4, 6 if small else 10))
    n_states = np.full(n, rng.integers(3, 7))
    codes = random_network_rows(rng, int(rng.integers(15, 120)), n_states, concentration=pick(rng, 0.5, 1.0, 5.0))
    title = f"few rows, {n_states[0]} states"
    return learned(title, as_table(codes, n_states), prior_options(rng), run_seed(rng))


@kind("learn", share=3)
def reference_cuts(rng: np.random.Generator, small: bool) -> Question:
    name = _REFERENCE[int(rng.integers(len(_REFERENCE)))]
    n = int(rng.integers(5, 6)) if small else int(rng.integers(8, 14))
    table = network_cut(name, int(rng.integers(100, 1001)), n, run_seed(rng))
    return learned(f"columns of {name}", table, prior_options(rng), run_seed(rng))


@kind("learn", share=2)
def wide_cuts(rng: np.random.Generator, small: bool) -> Question:
    """As many columns as can be summed over in seconds: rare modes lie several families apart."""
    name = _REFERENCE[int(rng.integers(len(_REFERENCE)))]
    n = 6 if small else int(rng.integers(16, 19))
    table = network_cut(name, int(rng.integers(100, 301 if small else 3001)), n, run_seed(rng))
    return learned(f"many columns of {name}", table, {"max_parents": 4}, run_seed(rng))


@kind("learn", share=2)
def sample_sizes(rng: np.random.Generator, small: bool) -> Question:
    """Equivalent sample sizes from .01 to 100."""
    n = int(rng.integers(4, 6 if small else 10))
    n_states = rng.integers(2, 4, n)
    codes = random_network_rows(rng, int(rng.integers(20, 1000)), n_states, concentration=1.0)
    options = {**prior_options(rng), "equivalent_sample_size": float(f"{10 ** rng.uniform(-2, 2):.2g}")}
    return learned("a random network", as_table(codes, n_states), options, run_seed(rng))


@kind("learn", share=2)
def logistic_families(rng: np.random.Generator, small: bool) -> Question:
    n = int(rng.integers(4, 6 if small else 10))
    n_states = np.full(n, 2)
    codes = random_network_rows(rng, int(rng.integers(20, 500)), n_states, concentration=pick(rng, 0.1, 0.5, 2.0))
    options = {**prior_options(rng), "family": str(rng.choice(["logistic", "auto"]))}
    return learned("a random network", as_table(codes, n_states), options, run_seed(rng))


@kind("learn", share=2)
def noise(rng: np.random.Generator, small: bool) -> Question:
    """Independent columns of numbers, cut at their quantiles."""
    n, n_states = int(rng.integers(4, 6 if small else 13)), int(rng.integers(2, 5 if small else 11))
    n_rows = int(10 ** rng.uniform(1.5, 3 if small else 4))
    ranks = rng.random((n_rows, n)).argsort(axis=0).argsort(axis=0)
    table = as_table(ranks * n_states // n_rows, n_states)
    return learned(f"noise in {n_states} bins", table, prior_options(rng), run_seed(rng))

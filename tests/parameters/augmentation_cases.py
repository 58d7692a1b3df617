"""Networks with hidden cells, a state of their sampler, and z-values of its draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from parameter_cases import blanked

from doxa import LogisticNetwork, Table
from doxa.models.logistic_parts import independent_parts
from doxa.parameters.augmentation import AugmentationSampler, AugmentationState
from support.checks import SEED, z_limit


class Case(NamedTuple):
    network: LogisticNetwork
    hidden: tuple[str, ...] = ()


CASES = {
    "parents": Case(LogisticNetwork({"c": ["a", "b"]}, prior_mean=0.3, prior_scale=2.0)),
    "coded 0 and 1, biases and roots given": Case(
        LogisticNetwork({"c": ["a", "b"], "d": ["c", "a"]}, bias={"c": 0.5}, coding="01", roots={"a": 0.3})
    ),
    "hidden chain": Case(
        LogisticNetwork({"h": ["g"], "x": ["g", "h"], "y": ["h"], "z": ["h", "x"]}, prior_scale=1.5), ("g", "h")
    ),
    "joint table with a zero": Case(
        LogisticNetwork(
            {"c": ["a", "b", "e"], "d": ["b"]}, roots={("b", "a"): np.array([[0.4, 0.0], [0.1, 0.5]])}, coding="01"
        )
    ),
}


def random_thetas(network, rng):
    return {
        node: rng.uniform(0.2, 0.8, 1) if node in network.roots else rng.normal(size=network.n_coefficients(node))
        for node in network.parameters
    }


def small_samplers(name, most_cells=9, n_tables=8, rows=(2, 6)):
    """Samplers of parts with hidden cells, few enough to list all their values."""
    network, hidden = CASES[name]
    rng = np.random.default_rng([len(name), n_tables])
    for _ in range(n_tables):
        table = blanked(network.simulate(int(rng.integers(*rows)), random_thetas(network, rng), rng), 0.35, rng, hidden)
        for part in independent_parts(network, table):
            sampler = AugmentationSampler(network, part, table)
            if 0 < sampler.cell_rows.size <= most_cells:
                yield sampler


def possible_state(sampler, rng) -> AugmentationState:
    """One step from the start: no cell has a value of probability 0."""
    state, _, _ = sampler.run(sampler.init(rng), 1, rng)
    return state


def logits_of(table, theta, values):
    """Of all rows with hidden cells, from scratch."""
    logits = np.empty(table.blocks.n_logits)
    for f, family in table.families.items():
        first = table.blocks.starts[f]
        completed = family.complete(values)
        logits[first : first + len(family.share)] = family.logits(completed, theta[family.place])
    return logits


def chains(sampler, n_chains, n_steps, seed, warmup=200):
    """Draws of each name, shape (chain, draw, ...)."""
    runs = []
    for chain in range(n_chains):
        rng = np.random.default_rng([seed, chain])
        state, _, _ = sampler.run(sampler.init(rng), warmup, rng)
        runs.append(sampler.run(state, n_steps, rng)[1])
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}


def batch_z(draws, exact, n_batches=20):
    """Largest z of the means of draws (chain, draw, quantity) against exact values, by batch means; and its limit."""
    n_chains, n_draws, k = draws.shape
    size = n_draws // n_batches
    means = draws[:, : size * n_batches].reshape(n_chains * n_batches, size, k).mean(axis=1)
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    return float(np.abs((means.mean(axis=0) - exact) / np.maximum(errors, 1e-12)).max()), z_limit(k)


def paired_z(before, after):
    """Largest z of the mean changes of statistics (replicate, statistic), which are zero; and its limit.

    Statistics that change in fewer than 20 replicates are left out: the normal limit is not for them.
    """
    change = after - before
    change = change[:, (change != 0).sum(axis=0) >= 20]
    errors = change.std(axis=0, ddof=1) / np.sqrt(len(change))
    return float(np.abs(change.mean(axis=0) / errors).max()), z_limit(change.shape[1])


def truth_of(sampler, codes) -> np.ndarray:
    """Values that the hidden cells have in the codes (row, node) they were blanked from."""
    nodes = [sampler.network.names.index(node) for node in sampler.cell_nodes]
    return codes[sampler.cell_rows, nodes].astype(np.int8)


def table_of(network, codes) -> Table:
    return Table.from_codes(network.names, [("0", "1")] * len(network.names), codes)


def part_of(node, network, table):
    return next(part for part in independent_parts(network, table) if node in part.nodes)


def mirrored(coding="pm1", rows=150, **options):
    """Two observed children of a hidden node, in a table that leaves no doubt but about the signs."""
    network = LogisticNetwork({"x": ["h"], "y": ["h"], "z": ["h"]}, prior_scale=2.0, coding=coding, **options)
    thetas = {name: [0.3, 1.5] if coding == "pm1" else [-1.2, 3.0] for name in "xyz"} | {"h": [0.4]}
    table = network.simulate(rows, thetas, np.random.default_rng([SEED, 4])).select(["x", "y", "z"])
    (part,) = independent_parts(network, table)
    return AugmentationSampler(network, part, table)

"""`doxa.infer`: a state of everything is drawn from a network, some of it is shown, and the rest is asked for.

The place of the true state in the distribution that is answered is uniform, a random share of its own probability
included.  An answer that knew nothing of the evidence would have uniform places too; so states are put in the order in
which the evidence favours them, by listing all states, and numbers are turned in the direction in which it moves them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import doxa
from calibration_parts.numbers import NUMBER_SETTINGS, draw_network
from honesty_parts.inferring import joint_of, random_network
from support.checks import SEED
from support.ranks import place_in_table

__all__ = ["INFERENCES", "categories", "directed", "values"]

_N_NODES, _N_SEEN = 6, 3


def directed(rng: np.random.Generator) -> tuple[Any, Any]:
    """A network of categories and a record of it."""
    return random_network(rng, _N_NODES, 0.5, 0.0)


def _spins(rng: np.random.Generator) -> tuple[Any, Any]:
    network = doxa.ising_grid(2, 3, coupling=float(rng.normal(0, 0.6)), field=float(rng.normal(0, 0.3)))
    joint = joint_of(network, {})
    return network, np.array(np.unravel_index(rng.choice(joint.size, p=joint.ravel()), joint.shape))


def categories(
    world: Any, options: dict[str, Any], index: int, number: int, *, forgets: bool = False
) -> dict[str, float]:
    """Places of two variables that were not seen; ``forgets`` asks without the evidence, which is wrong."""
    rng = np.random.default_rng([SEED, 900 + index, number])
    network, record = world(rng)
    order = rng.permutation(len(record))
    labels = {int(v): network.states[v][record[v]] for v in order}
    given = {network.names[v]: labels[v] for v in order[:_N_SEEN].tolist()}
    found = doxa.infer(network, given={} if forgets else given, seed=number, **options)
    with_evidence, without = joint_of(network, given), joint_of(network, {})
    places = {}
    for what, v in zip(("one", "another"), order[_N_SEEN:].tolist(), strict=False):
        others = tuple(axis for axis in range(len(record)) if axis != v)
        favoured = np.argsort(-with_evidence.sum(axis=others) / without.sum(axis=others), kind="stable")
        probabilities = np.array([found[network.names[v]][label].value for label in network.states[v]])[favoured]
        state = int(np.flatnonzero(favoured == record[v])[0])
        places[f"{what} variable"] = place_in_table(probabilities, state, rng)
    return places


def values(setting: str, options: dict[str, Any], index: int, number: int) -> dict[str, float]:
    """The place of a number in its distribution given another one."""
    rng = np.random.default_rng([SEED, 950 + index, number])
    network = draw_network(rng, NUMBER_SETTINGS[setting])
    first, _, last = network.names
    drawn = network.simulate(2001, rng)
    assert drawn.numbers is not None
    numbers = np.where(drawn.is_number, drawn.numbers, drawn.codes)[drawn.row_index]
    true, others = numbers[0], numbers[1:]
    centred = others - np.median(others, axis=0)
    together = np.clip(centred[:, 0], -1e3, 1e3) @ np.sign(centred[:, 2])
    sign = np.sign(together * (true[0] - np.median(others[:, 0]))) or 1.0
    seen = drawn.states[0][int(true[0])] if drawn.states[0] else float(true[0])
    found = doxa.infer(network, [last], given={first: seen}, seed=number, **options)[last]
    below = found.probability(below=float(true[2])).value
    return {f"{last} given {first}": below if sign > 0 else 1.0 - below}


INFERENCES = {
    name: partial(categories, world, options, k)
    for k, (name, world, options) in enumerate(
        (
            ("exact", directed, {"method": "exact"}),
            ("gibbs", directed, {"method": "gibbs"}),
            ("importance", directed, {"method": "importance"}),
            ("auto, kept from exact answers", directed, {"exact_budget": 1}),
            ("spins, exact", _spins, {"method": "exact"}),
            ("spins, gibbs", _spins, {"method": "gibbs"}),
            ("spins, tempering", _spins, {"method": "tempering"}),
        )
    )
} | {
    f"{name}, {how}": partial(values, name, options, 2 * k + j)
    for k, name in enumerate(("gaussian", "conditional gaussian", "additive"))
    for j, (how, options) in enumerate((("exact", {}), ("importance", {"method": "importance"})))
    if (name, how) != ("additive", "exact")
}

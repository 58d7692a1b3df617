"""Small networks whose posteriors are known on grids, and tables with missing cells."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa import LogisticNetwork, Table
from doxa.models.logistic_parts import independent_parts
from doxa.parameters.joint_target import JointTarget

Floats = NDArray[np.float64]


class Grid(NamedTuple):
    """A density on a grid."""

    points: Floats  # (n, d)
    probability: Floats  # (n,)
    log_mass: float

    @property
    def mean(self):
        return self.probability @ self.points

    @property
    def sd(self):
        return np.sqrt(self.probability @ (self.points - self.mean) ** 2)


def grid_of(target, low, high, n=301) -> Grid:
    """The trapezoidal rule from ``low`` to ``high`` in every coordinate."""
    axes = [np.linspace(a, b, n) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    values = np.concatenate(
        [target.log_density(part) for part in np.array_split(points, max(1, len(points) // 20_000))]
    )
    weight = np.exp(values - values.max())
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    return Grid(points, weight / weight.sum(), float(np.log(weight.sum() * cell) + values.max()))


def blanked(table: Table, share, rng, hide=()) -> Table:
    """The table with this share of its cells missing, and whole columns hidden."""
    codes = table.codes[table.row_index].copy()
    codes[rng.random(codes.shape) < share] = -1
    for name in hide:
        codes[:, table.names.index(name)] = -1
    return Table.from_codes(table.names, table.states, codes)


def two_parents(rng, n=200, **options) -> tuple[LogisticNetwork, Table]:
    """y with parents a and b of given probabilities, fixed bias: two coefficients."""
    network = LogisticNetwork({"y": ["a", "b"]}, prior_scale=2.0, bias=0.3, roots={"a": 0.4, "b": 0.7}, **options)
    return network, network.simulate(n, {"y": [0.8, -0.5]}, rng)


def bimodal(seed=2) -> tuple[LogisticNetwork, Table]:
    """De Freitas et al. 2001, section 5.2: a hidden and an observed parent, fifty records."""
    rng = np.random.default_rng(seed)
    network = LogisticNetwork(
        {"y": ["h", "x"]}, prior_mean=3.0, prior_scale=np.sqrt(10.0), bias=2.0, roots={"h": 0.6, "x": 0.5}
    )
    return network, network.simulate(50, {"y": [3.0, -1.0]}, rng).select(["x", "y"])


@cache
def bimodal_on_grid(seed) -> tuple[LogisticNetwork, Table, JointTarget, Grid]:
    """The same with its target, and the posterior on a grid without a point at 0, where a coefficient changes sign."""
    network, table = bimodal(seed)
    (part,) = independent_parts(network, table)
    target = JointTarget(network, part, table)
    grid = grid_of(target, (-25.05, -25.05), (35.05, 35.05), 602)
    for array in grid[:2]:
        array.flags.writeable = False
    return network, table, target, grid

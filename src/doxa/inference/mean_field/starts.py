"""Where coordinate ascent begins: the uniform q, one led up from a high temperature, random ones, a configuration.

The bound has many maxima where variables depend on each other strongly, and coordinate ascent ends at one near its
start.  The tempered start follows the maximum of a flat bound as the log potentials grow from 0 to what they are, and
is pushed a little at every level: symmetric networks have a saddle at the uniform q.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.inference.mean_field.kernels import scratch, sweep_rows
from doxa.inference.mean_field.layout import Layout
from doxa.inference.mean_field.problem import MeanFieldProblem
from doxa.inference.mean_field.support import Ground

__all__ = ["Kind", "begin_around", "begin_at", "kinds"]

Kind: TypeAlias = Literal["given", "uniform", "tempered", "random"]

_Floats = NDArray[np.float64]
_LEVELS, _SWEEPS = 20, 3  # of the tempered start
_OFF = 0.02  # standard deviation of the push that its logits get at every level
_FORBIDDEN = -10.0  # nats below the smallest finite value: what -inf is while q looks for a place
_SPREAD = 1e-3  # of a uniform q mixed in, so that no state begins at 0


def kinds(n: int) -> list[Kind]:
    """The first ``n`` kinds of starts: uniform, tempered, then random ones."""
    first: list[Kind] = ["uniform", "tempered"]
    others: list[Kind] = ["random"] * max(0, n - 2)
    return [*first, *others][:n]


def begin_at(
    layout: Layout, values: _Floats, base: NDArray[np.int64], ground: Ground, kind: Kind, rng: np.random.Generator
) -> _Floats:
    """A q with a finite bound, for factors with flat log ``values``, those of factor f beginning at ``base[f]``.

    Raises
    ------
    SearchStoppedError, ImpossibleError
        If no possible configuration was found, or there is none.
    """
    if kind == "tempered":
        guess = _tempered(layout, values, base, ground, rng)
    elif kind == "random":
        guess = _normalised(layout, rng.standard_exponential(layout.n_q) * ground.possible)
    else:
        guess = _normalised(layout, ground.possible.astype(np.float64))
    preference = guess if kind != "uniform" else guess * (1 + 0.1 * rng.random(guess.size))
    kept = ground.product(np.maximum(preference, 1e-300))
    return _normalised(layout, (guess + _SPREAD * _uniform(layout)) * kept)


def begin_around(problem: MeanFieldProblem, ground: Ground, codes: NDArray[np.int64]) -> _Floats:
    """A q that holds nine tenths at one possible configuration, given as a state by variable."""
    at = np.array(
        [
            np.ravel_multi_index([int(codes[v]) for v in block], [problem.n_states[v] for v in block])
            for block in problem.blocks
        ],
        dtype=np.int64,
    )
    guess = 0.1 * _uniform(problem.layout)
    guess[problem.layout.block_start[:-1] + at] += 0.9
    kept = ground.possible if ground.is_free else ground.around(at, guess)
    return _normalised(problem.layout, guess * kept)


def _tempered(
    layout: Layout, values: _Floats, base: NDArray[np.int64], ground: Ground, rng: np.random.Generator
) -> _Floats:
    work, changes = scratch(layout), np.zeros(1)
    finite = values[np.isfinite(values)]
    soft = np.maximum(values, float(finite.min(initial=0.0)) + _FORBIDDEN)
    q = ground.possible[None].astype(np.float64)
    for level in np.linspace(0.0, 1.0, _LEVELS + 1)[1:]:
        q = _normalised(layout, q[0] * np.exp(_OFF * rng.standard_normal(layout.n_q)))[None]
        sweep_rows(layout, level * soft, base[None], q, changes, _SWEEPS, 1e-6, work)
    found = q[0] * ground.possible
    sums = np.add.reduceat(found, layout.block_start[:-1])
    empty = np.repeat(sums == 0, np.diff(layout.block_start))
    return _normalised(layout, np.where(empty, ground.possible, found))


def _uniform(layout: Layout) -> _Floats:
    sizes = np.diff(layout.block_start)
    return np.repeat(1.0 / sizes, sizes)


def _normalised(layout: Layout, q: _Floats) -> _Floats:
    start = layout.block_start
    return np.asarray(q / np.repeat(np.add.reduceat(q, start[:-1]), np.diff(start)))

"""Coefficients of logistic nodes: default fits against quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit

import doxa
from doxa.data import Table
from honesty_parts.problems import Answer, Codes, Exact, Quantity, Question, kind, pick, run_seed
from honesty_parts.quadrature import integrate, log_logistic

__all__ = ["fitted", "quasi_separated_rows"]

Floats = NDArray[np.float64]


def fitted(title: str, rows: Codes, scale: float | None, seed: int, p_hidden: float | None = None) -> Question:
    """`doxa.fit` of the last column on the others; ``p_hidden``: on a hidden node besides, 1 with this probability."""
    parents = [f"x{j}" for j in range(rows.shape[1] - 1)]
    table = Table.from_codes([*parents, "y"], [("0", "1")] * rows.shape[1], rows)
    hidden = ["h"] if p_hidden is not None else []
    roots = None if p_hidden is None else {"h": p_hidden}
    options = {} if scale is None else {"prior_scale": scale}
    network = doxa.LogisticNetwork({"y": [*parents, *hidden]}, roots=roots, **options)

    def ask() -> Answer:
        found = doxa.fit(network, table, seed=seed, workers=1)
        asked = [(node, label) for node in network.parameters for label in network.coefficients(node)]
        quantities = [
            Quantity.of(f"{node}: {label}", "coefficient", found.coefficient(node, label)) for node, label in asked
        ]
        quantities.append(Quantity.of("log evidence", "evidence", found.log_marginal_likelihood))
        return Answer(found.judgement, quantities)

    def exact() -> Exact:
        width = 10.0 if scale is None else scale
        d = 1 + len(parents) + len(hidden)
        found = integrate(log_joint(rows, width, p_hidden), 9 * width, d)
        answer = {f"y: {label}": float(m) for label, m in zip(network.coefficients("y"), found.mean, strict=True)}
        log_evidence = found.log_total
        for j, parent in enumerate(parents):  # uniform priors: Beta posteriors
            ones = int(rows[:, j].sum())
            answer[f"{parent}: probability"] = (1 + ones) / (2 + len(rows))
            log_evidence += float(betaln(1 + ones, 1 + len(rows) - ones))
        return {**answer, "log evidence": log_evidence}

    words = f"{len(rows)} rows, {len(parents)} parents, prior scale {'default' if scale is None else scale}"
    return Question(f"{title}: {words}", ask, exact)


def log_joint(rows: Codes, scale: float, p_hidden: float | None) -> Callable[[Floats], Floats]:
    """Log of prior density times likelihood of the child, at coefficients of shape (n, d)."""
    patterns, place = np.unique(rows[:, :-1], axis=0, return_inverse=True)
    seen = np.hstack([np.ones((len(patterns), 1)), 2.0 * patterns - 1])
    counts = np.zeros((len(patterns), 2))
    np.add.at(counts, (place.ravel(), rows[:, -1]), 1)

    def log_density(theta: Floats) -> Floats:
        d = theta.shape[1]
        logs = -0.5 * (theta**2).sum(axis=1) / scale**2 - d * np.log(scale * np.sqrt(2 * np.pi))
        for x, (zeros, ones) in zip(seen, counts, strict=True):
            z = theta[:, : len(x)] @ x
            if p_hidden is None:
                logs += (zeros + ones) * log_logistic(z) - zeros * z  # log p(0) is log p(1) - z
                continue
            low, high = np.exp(theta[:, -1] - z), np.exp(-theta[:, -1] - z)  # odds of 0; z is within a few hundred of 0
            off, on = (1 - p_hidden) / (1 + low), p_hidden / (1 + high)
            if ones:
                logs += ones * np.log(off + on)
            if zeros:
                logs += zeros * np.log(off * low + on * high)
        return logs

    return log_density


def quasi_separated_rows(both: int, ones: int, zeros: int) -> Codes:
    """Rows (parent, child): (0, 0), (1, 1) and (1, 0), as many times as asked."""
    return np.repeat([[0, 0], [1, 1], [1, 0]], [both, ones, zeros], axis=0)


def _drawn(rng: np.random.Generator, x: Codes, theta: Floats) -> Codes:
    z = np.hstack([np.ones((len(x), 1)), 2.0 * x - 1]) @ theta
    return np.hstack([x, (rng.random(len(x)) < expit(z))[:, None].astype(np.int64)])


@kind("fit", share=3)
def quasi_separated(rng: np.random.Generator, small: bool) -> Question:  # noqa: ARG001
    counts = [int(n) for n in rng.integers(2, 60, 3)]
    rows = quasi_separated_rows(*counts)
    if rng.random() < 0.3:  # a second parent that has nothing to do with it
        rows = np.hstack([rng.integers(0, 2, (len(rows), 1)), rows])
    return fitted(f"an empty cell, counts {counts}", rows, None, run_seed(rng))


@kind("fit", share=2)
def separated(rng: np.random.Generator, small: bool) -> Question:  # noqa: ARG001
    x = rng.integers(0, 2, (int(rng.integers(6, 60)), int(rng.integers(1, 3))))
    return fitted("separated", np.hstack([x, x[:, :1]]), None if rng.random() < 0.7 else 3.0, run_seed(rng))


@kind("fit", share=2)
def collinear(rng: np.random.Generator, small: bool) -> Question:  # noqa: ARG001
    n = int(rng.integers(15, 80))
    first = rng.integers(0, 2, (n, 1))
    second = np.where(rng.random((n, 1)) < pick(rng, 0.0, 0.05, 0.1), 1 - first, first)
    rows = _drawn(rng, np.hstack([first, second]), rng.normal(0, 1.5, 3))
    return fitted("parents that are nearly equal", rows, None if rng.random() < 0.5 else 3.0, run_seed(rng))


@kind("fit", share=3)
def drawn_from_the_prior(rng: np.random.Generator, small: bool) -> Question:  # noqa: ARG001
    scale = pick(rng, 1.0, 3.0, 10.0)
    x = rng.integers(0, 2, (int(rng.integers(8, 100)), int(rng.integers(1, 3))))
    theta = rng.normal(0, scale, x.shape[1] + 1)
    return fitted("drawn from the prior", _drawn(rng, x, theta), scale, run_seed(rng))


@kind("fit", share=2)
def label_switching(rng: np.random.Generator, small: bool) -> Question:  # noqa: ARG001
    """A hidden parent: exchanging its values is a mode of the same height where they are as probable."""
    p_hidden, scale = pick(rng, 0.5, 0.4, 0.25), pick(rng, 1.0, 2.0, 4.0)
    x = rng.integers(0, 2, (int(rng.integers(10, 60)), int(rng.integers(1, 2))))
    h = (rng.random((len(x), 1)) < p_hidden).astype(np.int64)
    rows = np.delete(_drawn(rng, np.hstack([x, h]), rng.normal(0, scale, x.shape[1] + 2)), x.shape[1], axis=1)
    return fitted(f"a hidden parent, P = {p_hidden}", rows, scale, run_seed(rng), p_hidden)

"""Figure 11: likelihoods of one coefficient, which was 1, given 1000 records; four data sets.

With a parent of -1 or +1 the data are four counts, so that thousands of data sets take no time, and what the paper
says of four can be asked of all.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit

from de_freitas.records import BIAS, N_RECORDS, draw_records, log_likelihood
from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.laplace import maximum_likelihood
from doxa.plots import LOOKS, panels, plot_curves
from doxa.plots.style import BLACK
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome

TRUE = 1.0
SETS = 4
MANY = 20_000
SEED = 11
GRID = np.linspace(0.6, 1.4, 801)


def run(quick: bool) -> Outcome:
    sets = [draw_records(1, seed, thetas=np.array([TRUE])) for seed in range(SETS)]
    curves = [log_likelihood(records.collapsed, GRID[:, None]) for records in sets]
    best = np.array([maximum_likelihood(records.collapsed).coefficients[0] for records in sets])
    widths = [width_of(curve) for curve in curves]
    rng = np.random.default_rng(SEED)
    n_sets = 500 if quick else MANY
    (train, estimates), (test, _) = simulate(n_sets, rng), simulate(n_sets, rng)
    slope = information()
    inside = np.abs(estimates - TRUE) < 1.96 / np.sqrt(N_RECORDS * slope)
    gain = total(train, estimates) - total(train, np.full(n_sets, TRUE))  # in the records that made the estimate
    loss = total(test, np.full(n_sets, TRUE)) - total(test, estimates)  # in as many others
    shown = ", ".join(f"{value:.2f}" for value in best)
    found = [
        Claim(
            "11",
            "the generating value is not necessarily the one of largest likelihood",
            f"best values of four sets: {shown}; likelihoods have an sd of {np.mean(widths):.3f}",
            holds_if(np.abs(best - TRUE).max() > 0.01),
        ),
        Claim(
            "",
            "1000 observations are clearly not enough to recover the true value",
            f"{n_sets} sets: sd of the best value {estimates.std():.3f}, as the information of 1000 records says "
            f"({1 / np.sqrt(N_RECORDS * slope):.3f}): 1 is told from 0.8 or 1.2, not from 0.95",
            "in part" if 0.02 < estimates.std() < 0.2 else holds_if(estimates.std() >= 0.2),
            f"the 95% interval contains 1 in {100 * inside.mean():.1f}% of the sets: nothing is amiss",
        ),
        Claim(
            "",
            "cross-validation is not expected to perform well: the noise is uninformative",
            f"on 1000 further records the true value beats the best one by {loss.mean():.2f} nats with an sd of "
            f"{loss.std():.2f} between sets (it lost by {gain.mean():.2f} on its own): the better of the two is told "
            f"in {100 * (loss > 0).mean():.0f}% of sets",
            holds_if(loss.mean() < loss.std()),
        ),
    ]
    return Outcome(found, {"de_freitas_figure_11": draw(curves, best)})


def simulate(n_sets: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Counts (set, parent 0/1, child 0/1) and the best value of each set: Newton's method on four counts."""
    ups = rng.binomial(N_RECORDS, 0.5, n_sets)
    parents = np.stack([N_RECORDS - ups, ups], axis=1)
    ones = rng.binomial(parents, expit(BIAS + TRUE * np.array([-1, 1])))
    counts = np.stack([parents - ones, ones], axis=2).astype(np.float64)
    theta = np.full(n_sets, TRUE)
    for _ in range(20):
        p = expit(BIAS + theta[:, None] * np.array([-1, 1]))
        gradient = ((counts[:, :, 1] - parents * p) * np.array([-1, 1])).sum(axis=1)
        theta += gradient / (parents * p * (1 - p)).sum(axis=1)
    return counts, theta


def total(counts: NDArray[np.float64], thetas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log likelihood (nats) of each set at its theta."""
    logits = BIAS + thetas[:, None] * np.array([-1, 1])
    return np.asarray((counts[:, :, 1] * log_logistic(logits) + counts[:, :, 0] * log_logistic(-logits)).sum(axis=1))


def information() -> float:
    """Fisher information of one record."""
    p = expit(BIAS + TRUE * np.array([-1.0, 1.0]))
    return float((p * (1 - p)).mean())


def width_of(curve: NDArray[np.float64]) -> float:
    """Standard deviation of a likelihood, normalised over the grid."""
    p = np.exp(curve - curve.max())
    p /= p.sum()
    mean = p @ GRID
    return float(np.sqrt(p @ (GRID - mean) ** 2))


def draw(curves: list[NDArray[np.float64]], best: NDArray[np.float64]) -> Figure:
    figure, ((ax,),) = panels(1, 1, width=6.5, height=3.6)
    named = {f"set {k + 1}: {value:.2f}": curve for k, (value, curve) in enumerate(zip(best, curves, strict=True))}
    plot_curves(
        GRID, {name: np.exp(curve - curve.max()) for name, curve in named.items()},
        looks={name: look._replace(mark="") for name, look in zip(named, LOOKS, strict=False)},
        x_label="coefficient (the black line is the one that made the data)", y_label="likelihood, largest = 1",
        title="Figure 11 again: 1000 records each", legend=False, ax=ax,
    )  # fmt: skip
    ax.axvline(TRUE, color=BLACK, linewidth=1)
    ax.legend(frameon=False, title="best value")
    return figure

"""Section 5.2.3, figures 7 and 8: bounds on the probability of S = 1 when its five parents are not seen.

Parents are 0 or 1, theta is Gaussian with mean 0, and P(S = 1) is 0.5 exactly.  The free and the factorised q are those
of `doxa.parameters.variational.hidden`, with one xi as in the paper's appendix B and with one for each configuration;
for the factorised q under a joint distribution of the parents see `jaakkola_jordan.mean_field`.

What figure 7 (b) calls a sample covariance of five vectors is taken without subtracting their mean, since with it the
matrix would be singular.  Figure 8 does not name its covariance (here I / 5) nor its three configurations (here several
draws of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from doxa.data import Table
from doxa.models import LogisticNetwork
from doxa.parameters.variational.hidden import hidden_posterior
from doxa.plots import Band, Look, panels, plot_curves
from doxa.plots.style import BLUE, ORANGE
from jaakkola_jordan.mean_field import configurations, mean_field_bound
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome, progress

Floats: TypeAlias = NDArray[np.float64]
Xi: TypeAlias = Literal["row", "configuration"]

N_PARENTS = 5
EXACT = 0.5
COVARIANCES = 5  # of figure 7 (b)
TRIPLES = 10  # draws of the three configurations of figure 8
STOCHASTICITY = (0.1, 0.3)  # p of figure 8 (a) and (b)
XIS: tuple[Xi, Xi] = ("row", "configuration")
NAMES = [f"x{j}" for j in range(N_PARENTS)]
SEEN = Table.from_codes(["s"], [("0", "1")], [[1]])
SEED = 7
LOOKS = {"bound 1: free q": Look(BLUE, "--"), "bound 2: factorised q": Look(ORANGE, ":", "o")}


class Curves(NamedTuple):
    """Bounds (runs, points) for each xi."""

    x: Floats
    free: dict[Xi, Floats]
    factorised: dict[Xi, Floats]


def run(quick: bool) -> Outcome:
    rng = np.random.default_rng(SEED)
    points = np.linspace(0.01, 0.99, 3 if quick else 21)  # a given probability of 0 or 1 is refused
    weights = np.linspace(0, 1, 3 if quick else 11)
    n_runs = 2 if quick else COVARIANCES
    same = np.eye(N_PARENTS) / N_PARENTS
    sampled = [sample_covariance(rng) for _ in range(n_runs)]
    factorised = {"a": figure_7(points, [same]), "b": figure_7(points, sampled)}
    triples = [rng.choice(2**N_PARENTS, 3, replace=False) for _ in range(2 if quick else TRIPLES)]
    mixed = {p: figure_8(weights, p, triples, same, rng) for p in STOCHASTICITY}
    figures = {"jaakkola_jordan_figure_7": draw_7(factorised), "jaakkola_jordan_figure_8": draw_8(mixed)}
    return Outcome(claims(factorised, mixed), figures, [("Bounds; the exact value is 0.5", table(factorised, mixed))])


def sample_covariance(rng: np.random.Generator) -> Floats:
    vectors = rng.standard_normal((N_PARENTS, N_PARENTS)) / np.sqrt(N_PARENTS)
    return vectors.T @ vectors / N_PARENTS


def figure_7(points: Floats, covariances: Sequence[Floats]) -> Curves:
    """Independent parents, each 1 with probability p."""
    free: dict[Xi, list[list[float]]] = {xi: [] for xi in XIS}
    factorised: dict[Xi, list[list[float]]] = {xi: [] for xi in XIS}
    for k, covariance in enumerate(covariances):
        for xi in XIS:
            progress(f"figure 7, covariance {k}, a xi for each {xi}")
            networks = [make_network(covariance, dict.fromkeys(NAMES, p)) for p in points]
            free[xi].append([bound(network, "unconstrained", xi) for network in networks])
            factorised[xi].append([bound(network, "mean_field", xi) for network in networks])
    return Curves(points, as_arrays(free), as_arrays(factorised))


def figure_8(
    points: Floats, p: float, triples: Sequence[NDArray[np.intp]], covariance: Floats, rng: np.random.Generator
) -> Curves:
    """A mixture of independent parents and of three configurations of weight 1/3 each, by its weight p_m."""
    s = configurations(N_PARENTS)
    independent = np.where(s == 1, p, 1 - p).prod(axis=1)
    free: dict[Xi, list[list[float]]] = {xi: [] for xi in XIS}
    factorised: dict[Xi, list[list[float]]] = {xi: [] for xi in XIS}
    for k, triple in enumerate(triples):
        progress(f"figure 8, p {p}, triple {k}")
        three = np.zeros(len(s))
        three[triple] = 1 / 3
        laws = [(1 - weight) * independent + weight * three for weight in points]
        for xi in XIS:
            networks = [make_network(covariance, law.reshape((2,) * N_PARENTS)) for law in laws]
            free[xi].append([bound(network, "unconstrained", xi) for network in networks])
            factorised[xi].append([float(np.exp(mean_field_bound(law, covariance, xi, rng))) for law in laws])
    return Curves(points, as_arrays(free), as_arrays(factorised))


def make_network(covariance: Floats, roots: dict[str, float] | Floats) -> LogisticNetwork:
    return LogisticNetwork({"s": NAMES}, bias=0.0, prior_covariance={"s": covariance}, roots=roots, coding="01")


def bound(network: LogisticNetwork, form: Literal["unconstrained", "mean_field"], xi: Xi) -> float:
    return float(np.exp(hidden_posterior(network, SEEN, form=form, xi=xi).log_evidence))


def as_arrays(found: dict[Xi, list[list[float]]]) -> dict[Xi, Floats]:
    return {xi: np.array(rows) for xi, rows in found.items()}


def claims(factorised: dict[str, Curves], mixed: dict[float, Curves]) -> list[Claim]:
    found = []
    for part, curves in factorised.items():
        free, mean_field = curves.free["row"].mean(axis=0), curves.factorised["row"].mean(axis=0)
        best = curves.free["configuration"].mean(axis=0)
        apart = np.abs(curves.free["row"] - curves.factorised["row"]).max()
        found += [
            Claim(
                f"7 ({part})",
                "both bounds are reasonably accurate",
                f"free q: {free.min():.3f} to {free.max():.3f}; factorised q: {mean_field.min():.3f} to "
                f"{mean_field.max():.3f}; exact 0.5",
                holds_if(min(free.min(), mean_field.min()) > 0.95 * EXACT),
                f"a xi for each configuration: {best.min():.3f} to {best.max():.3f}",
            ),
            Claim(
                "",
                "there is little difference between them",
                f"they differ by at most {apart:.1e}",
                holds_if(apart < 0.01 * EXACT),
            ),
        ]
    for (p, curves), part in zip(mixed.items(), "ab", strict=True):
        free, mean_field = curves.free["row"], curves.factorised["row"]
        best, best_field = curves.free["configuration"], curves.factorised["configuration"]
        lost = mean_field[:, 0] - mean_field[:, -1]
        lowest = int(mean_field.mean(axis=0).argmin())
        found += [
            Claim(
                f"8 ({part})",
                f"p = {p}: the factorised bound deteriorates as p_m grows",
                f"from {mean_field[:, 0].mean():.3f} at p_m = 0 to {mean_field[:, -1].mean():.3f} at 1 "
                f"({mean_field[:, -1].min():.3f} to {mean_field[:, -1].max():.3f} over {len(lost)} draws of the three "
                f"configurations); lowest at {curves.x[lowest]:g}: {mean_field[:, lowest].mean():.3f}",
                holds_if((lost > 0.01).all()),
                f"a xi for each configuration: {best_field[:, -1].mean():.3f} at 1",
            ),
            Claim(
                "",
                "the first bound remains accurate",
                f"never below {free.min():.3f}; {free[:, -1].mean():.3f} at p_m = 1",
                holds_if(free.min() > 0.95 * EXACT),
                f"a xi for each configuration: never below {best.min():.3f}",
            ),
        ]
    return found


def table(factorised: dict[str, Curves], mixed: dict[float, Curves]) -> str:
    lines = [f"{'':34s} {'free q':>18s} {'factorised q':>18s}   a xi for each"]
    named = [(f"7 ({part}), over p", curves) for part, curves in factorised.items()]
    named += [(f"8, p = {p}, over p_m and triples", curves) for p, curves in mixed.items()]
    for name, curves in named:
        for xi in XIS:
            free, field = curves.free[xi], curves.factorised[xi]
            lines.append(
                f"{name:34s} {free.min():8.4f} to {free.max():.4f} {field.min():8.4f} to {field.max():.4f}   {xi}"
            )
    return "\n".join(lines)


def draw_7(factorised: dict[str, Curves]) -> Figure:
    figure, (row,) = panels(1, 2, sharey=True)
    titles = {"a": "covariance I / 5", "b": "sample covariances, mean of 5"}
    for ax, (part, curves) in zip(row, factorised.items(), strict=True):
        means = [found["row"].mean(axis=0) for found in (curves.free, curves.factorised)]
        plot_curves(
            curves.x, dict(zip(LOOKS, means, strict=True)), looks=LOOKS, exact=EXACT,
            x_label="p, the probability of 1 of each parent", title=f"Figure 7 ({part}) again: {titles[part]}",
            legend=False, ax=ax,
        )  # fmt: skip
        ax.set_ylim(0.45, 0.505)
    row[0].set_ylabel("P(S = 1)")
    row[0].legend(frameon=False, loc="lower right")
    return figure


def draw_8(mixed: dict[float, Curves]) -> Figure:
    figure, (row,) = panels(1, 2, sharey=True)
    for ax, part, (p, curves) in zip(row, "ab", mixed.items(), strict=True):
        bands = [Band.over(found["row"]) for found in (curves.free, curves.factorised)]
        plot_curves(
            curves.x, dict(zip(LOOKS, bands, strict=True)), looks=LOOKS, exact=EXACT,
            x_label="p_m, the weight of three configurations", title=f"Figure 8 ({part}) again: p = {p}",
            legend=False, ax=ax,
        )  # fmt: skip
        ax.set_ylim(0, 0.53)
    row[0].set_ylabel("P(S = 1)")
    row[0].legend(frameon=False, loc="lower left", title="mean and range of 10 draws")
    return figure

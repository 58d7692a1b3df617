"""What section 5.2 and figures 14 to 16 claim, the table that shows it, and the figure."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from de_freitas.bimodal import APPROXIMATIONS, AXIS, FIT, LONG_SD, Result, Results, Scores
from de_freitas.published import WALK_SD
from doxa.plots import DensityGrid, panels, plot_bivariate
from doxa.sampling.gaussian import Gaussian
from logistic_papers.claims import Claim, by_wins, holds_if, wins

__all__ = ["claims", "draw", "table"]

Floats: TypeAlias = NDArray[np.float64]

WALK, LONG = f"RW {WALK_SD:g}", f"RW {LONG_SD:g}"
NAIVE = {name: f"VarMCMC, {name}" for name in APPROXIMATIONS}
MIX = {name: f"VarMixMCMC {WALK_SD:g}, {name}" for name in APPROXIMATIONS}
MIX_LONG = {name: f"VarMixMCMC {LONG_SD:g}, {name}" for name in APPROXIMATIONS}


def claims(results: Results) -> list[Claim]:
    two = np.mean(np.array(results.modes) > 1)
    minor = np.array(results.minor)
    away = {name: np.array([from_mode(found, name) for found in results.sets]) for name in APPROXIMATIONS}
    arrival = np.concatenate([found.arrival for found in results.sets])
    noise = float(np.mean([found.noise for found in results.sets]))

    def distance(name: str) -> str:
        return f"{results.average(name, 'distance'):.2f}"

    def both(name: str) -> float:
        return float(np.mean([found.chains[name].both for found in results.sets]))

    def acceptance(name: str) -> float:
        return float(np.mean([found.chains[name].acceptance for found in results.sets]))

    best = np.concatenate(
        [_gain(results, MIX["printed"], other, "distance") for other in ("printed", NAIVE["printed"], WALK)]
    )
    won = [f"{share * len(results.sets):.0f}" for share in wins(best)]
    moments = {which: _gain(results, MIX["printed"], "printed", which) for which in ("mean", "covariance", "kurtosis")}
    methods = sorted({found.method for found in results.sets})
    return [
        Claim(
            "14",
            "the posterior can have two modes, which need not be symmetrical",
            f"{100 * two:.0f}% of {len(minor)} data sets have two; theta_h < 0 has a mass of {minor.min():.2f} to "
            f"{minor.max():.2f}, {np.median(minor):.2f} in the middle",
            holds_if(two > 0),
        ),
        Claim(
            "14",
            "the variational approximation fits closely to one of the modes",
            f"eq. 8 as printed: its mean is {_range(away['printed'])} of its standard deviations from the nearest "
            f"mode; corrected, with one xi a row: {_range(away['corrected'])}",
            holds_if(np.median(away["printed"]) < 1),
            f"a xi for each value of the hidden cell: {_range(away['doxa'])}",
        ),
        Claim(
            "14",
            "a random walk can spend considerable time in regions of low probability, and take long to find a mode",
            f"begun at draws from the prior, sd {WALK_SD:g}: {100 * results.average(WALK, 'outside'):.0f}% of 5000 "
            f"iterations outside the region with 99% of the mass; half the chains are inside after "
            f"{np.median(arrival):.0f} iterations, a tenth not after {np.quantile(arrival, 0.9):.0f}",
            holds_if(results.average(WALK, "outside") > 0.02),
            f"sd {LONG_SD:g}: {100 * results.average(LONG, 'outside'):.1f}%",
        ),
        Claim(
            "15",
            "naive variational MCMC locates one mode but fails to explore the support",
            f"{100 * both(NAIVE['printed']):.0f}% of the chains see both signs of theta_h; distance from the posterior "
            f"{distance(NAIVE['printed'])} (as many independent draws: {noise:.2f}); acceptance "
            f"{acceptance(NAIVE['printed']):.2f}",
            holds_if(both(NAIVE["printed"]) < 0.1),
            f"on doxa's approximation: {100 * both(NAIVE['doxa']):.0f}%, {distance(NAIVE['doxa'])}, "
            f"{acceptance(NAIVE['doxa']):.2f}",
        ),
        Claim(
            "16",
            "the mixture provides the best solution out of all the methods",
            f"distance from the posterior: variational {distance('printed')}, naive {distance(NAIVE['printed'])}, "
            f"random walk {distance(WALK)}, mixture {distance(MIX['printed'])}. With steps of sd {LONG_SD:g}: "
            f"random walk {distance(LONG)}, mixture {distance(MIX_LONG['printed'])}. With sd {WALK_SD:g} the "
            f"mixture is better than the three in {', '.join(won)} of {len(results.sets)} sets",
            by_wins(best),
            f"{FIT} ({', '.join(methods)}), 5000 draws: {distance(FIT)}, in "
            f"{np.median([found.seconds for found in results.sets]):.1f} s",
        ),
        Claim(
            "16",
            "it solves the problem: the random walk explores the neighbourhood of the region",
            f"steps of sd {WALK_SD:g}: {100 * both(MIX['printed']):.0f}% of the chains see both signs; the mass of "
            f"theta_h < 0, {_true_minor(results):.2f}, is off by {_minor_error(results, MIX['printed']):.2f}. Steps of "
            f"sd {LONG_SD:g}: {100 * both(MIX_LONG['printed']):.0f}%, off by "
            f"{_minor_error(results, MIX_LONG['printed']):.2f}",
            holds_if(both(MIX["printed"]) > 0.9),
            f"on doxa's approximation {100 * both(MIX['doxa']):.0f}% and {100 * both(MIX_LONG['doxa']):.0f}%; {FIT}: "
            f"off by {_minor_error(results, FIT):.2f}",
        ),
        *(
            Claim(
                "abstract",
                f"VarMixMCMC estimates {says} better than the variational approximation",
                f"{label}: {results.average(MIX['printed'], which):.2f} against "
                f"{results.average('printed', which):.2f}, better in {wins(moments[which])[0] * len(results.sets):.0f} "
                f"of {len(results.sets)} sets; with steps of sd {LONG_SD:g} "
                f"{results.average(MIX_LONG['printed'], which):.2f}",
                by_wins(moments[which]),
                f"doxa's approximation {results.average('doxa', which):.2f}, mixture on it "
                f"{results.average(MIX['doxa'], which):.2f}; {FIT} {results.average(FIT, which):.2f}",
            )
            for which, says, label in (
                ("mean", "the mean slightly", "error in posterior sd"),
                ("covariance", "covariances considerably", "error in products of sd"),
                ("kurtosis", "the kurtosis considerably", "error"),
            )
        ),
    ]


def _gain(results: Results, one: str, other: str, which: str) -> Floats:
    """By how much smaller the mean error of ``one`` is, shape (1, sets)."""
    errors = [
        (results.of_gaussian(name, which) if name in APPROXIMATIONS else results.of(name, which).mean(axis=1))
        for name in (one, other)
    ]
    return np.asarray(errors[1] - errors[0])[None]


def from_mode(found: Result, name: str) -> float:
    """Distance of an approximation's mean from the nearest mode, in its standard deviations (whitened)."""
    q: Gaussian = found.gaussians[name]
    away = np.linalg.solve(q.cholesky, (found.grid.modes - q.mean).T)
    return float(np.sqrt((away**2).sum(axis=0)).min())


def _range(values: Floats) -> str:
    return f"{values.min():.1f} to {values.max():.1f}"


def _true_minor(results: Results) -> float:
    return float(np.mean([found.grid.minor for found in results.sets]))


def _minor_error(results: Results, name: str) -> float:
    """Root mean square error of the mass of theta_h < 0 over chains and sets."""
    truth = np.array([found.grid.minor for found in results.sets])[:, None]
    return float(np.sqrt(((results.of(name, "minor") - truth) ** 2).mean()))


def table(results: Results) -> str:
    heads = ("distance", "minor", "mean", "covariance", "kurtosis", "outside")
    assert heads == Scores._fields
    lines = [f"{'':28s} " + " ".join(f"{head:>10s}" for head in heads) + f" {'acceptance':>10s} {'both signs':>10s}"]
    for name in APPROXIMATIONS:
        cells = " ".join(f"{results.average(name, which):10.3f}" for which in heads)
        lines.append(f"{'approximation, ' + name:28s} {cells}")
    for name in results.sets[0].chains:
        cells = " ".join(f"{results.average(name, which):10.3f}" for which in heads)
        rate, both = (
            np.mean([getattr(found.chains[name], which) for found in results.sets]) for which in ("acceptance", "both")
        )
        lines.append(f"{name:28s} {cells} {rate:10.3f} {both:10.2f}")
    noise = np.mean([found.noise for found in results.sets])
    lines.append(f"{'posterior':28s} {noise:10.3f} {_true_minor(results):10.3f}")
    return "\n".join(lines)


def draw(results: Results) -> Figure:
    """The first data set: 50, 90 and 99% regions of the posterior over one chain of each kind."""
    found = results.sets[0]
    figure, axes = panels(2, 3, height=3.3, width=10.5, sharex=True, sharey=True)
    places = (
        ("Figure 14: random walk, sd 0.1", WALK),
        ("Figure 15: naive, eq. 8 as printed", NAIVE["printed"]),
        ("Figure 16: mixture, sd 0.1", MIX["printed"]),
        ("random walk, sd 1", LONG),
        ("mixture, sd 1, doxa's approximation", MIX_LONG["doxa"]),
        ("doxa.fit", FIT),
    )
    exact = DensityGrid(AXIS, AXIS, found.grid.log_density)
    ellipses = {name: found.gaussians[name] for name in ("printed", "corrected", "doxa")}
    for ax, (title, name) in zip(axes.ravel(), places, strict=True):
        chain, first = found.chains[name].draws[:1], ax is axes[0, 0]
        plot_bivariate(chain, 0, 1, approximation=None, exact=exact, probs=(0.5, 0.9, 0.99), legend=False, ax=ax)
        if first:
            plot_bivariate(chain, 0, 1, approximation=ellipses, draws="none", probs=(0.9,), ax=ax)
        ax.set(xlim=(-5, 12), ylim=(-5, 6), xlabel="", ylabel="")
        ax.set_title(title, fontsize=10)
    for ax in axes[1]:
        ax.set_xlabel("hidden parent")
    for ax in axes[:, 0]:
        ax.set_ylabel("observed parent")
    figure.suptitle("Figures 14 to 16 again: one chain of 5000; ellipses (90%) are the approximations", fontsize=11)
    return figure

"""Sections 3 and 4, figures 2 to 5: one observation, S = 1, under a Gaussian law of its logit.

Whatever the number of coefficients, one observation concerns its logit alone (eq. 16), whose law before it has the mean
mu' and the standard deviation sigma.  Exact moments and divergences are sums over a fine grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit, logit

from doxa.models.logistic_regression import LogisticRegressionProblem, make_problem
from doxa.parameters.variational.bound import log_logistic, log_logistic_bound, row_bound
from doxa.parameters.variational.laplace import laplace_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.parameters.variational.sequential import sequential_posterior, spiegelhalter_lauritzen_posterior
from doxa.plots import Look, legend_below, panels, plot_curves
from doxa.plots.style import BLACK, BLUE, GREEN, ORANGE, PINK, RED
from doxa.sampling.gaussian import GaussianPosterior
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome, progress

Floats: TypeAlias = NDArray[np.float64]

SIGMAS = (1.0, 2.0, 3.0)
XI = 2.0  # of figure 2 (a)
METHODS: dict[str, Callable[[LogisticRegressionProblem], GaussianPosterior]] = {
    "variational": sequential_posterior,
    "S-L": spiegelhalter_lauritzen_posterior,
    "Laplace": laplace_posterior,
    "optimal": optimal_posterior,
}
LOOKS = {
    "variational": Look(BLUE),
    "S-L": Look(ORANGE, "--"),
    "Laplace": Look(PINK, ":"),
    "optimal": Look(GREEN, "-."),
}
_REACH, _POINTS = 12.0, 20_001  # of the grid: standard deviations, points


class Errors(NamedTuple):
    """One method at one sigma, for each mean before the observation."""

    mean: Floats  # signed
    sd: Floats  # relative, signed
    forward: Floats  # KL(approximation, posterior), nats
    backward: Floats  # KL(posterior, approximation), nats


class Results(NamedTuple):
    """What is drawn."""

    before: Floats  # g(mu')
    gaps: dict[float, Floats]  # predictive probability minus its bound, by sigma
    best_gaps: dict[float, Floats]  # the same for the bound of the optimal Gaussian
    errors: dict[tuple[str, float], Errors]


def run(quick: bool) -> Outcome:
    results = compute(np.linspace(0.05, 0.95, 7) if quick else np.linspace(0.01, 0.99, 99))
    figures = {
        "jaakkola_jordan_figure_2": draw_bound(results),
        "jaakkola_jordan_figures_3_4": draw_moments(results),
        "jaakkola_jordan_figure_5": draw_divergences(results),
    }
    return Outcome(
        claims(results), figures, [("Errors over all prior means with g(mu') from 0.01 to 0.99", table(results))]
    )


def compute(before: Floats) -> Results:
    gaps, best_gaps, errors = {}, {}, {}
    for sigma in SIGMAS:
        means = logit(before)
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in METHODS}
        gap, best_gap = [], []
        for mean in means:
            progress(f"sigma {sigma:g}, mean {mean:.2f}")
            h, log_p, log_z = posterior_on_grid(mean, sigma)
            gap.append(np.exp(log_z) - np.exp(float(row_bound(mean, sigma**2).log_bound)))
            problem = make_problem([[1.0]], [1], prior_mean=mean, prior_covariance=sigma**2)
            for name, method in METHODS.items():
                fit = method(problem)
                found[name].append(compare(fit, h, log_p))
                if name == "optimal":
                    best_gap.append(np.exp(log_z) - np.exp(fit.log_evidence))
        gaps[sigma], best_gaps[sigma] = np.array(gap), np.array(best_gap)
        errors.update({(name, sigma): Errors(*np.array(rows).T) for name, rows in found.items()})
    return Results(before, gaps, best_gaps, errors)


def posterior_on_grid(mean: float, sigma: float) -> tuple[Floats, Floats, float]:
    """Points, the log posterior density there, and the log predictive probability."""
    h = mean + sigma * np.linspace(-_REACH, _REACH, _POINTS)
    log_joint = log_logistic(h) - 0.5 * ((h - mean) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
    log_z = float(np.log(np.exp(log_joint).sum() * (h[1] - h[0])))
    return h, log_joint - log_z, log_z


def compare(fit: GaussianPosterior, h: Floats, log_p: Floats) -> tuple[float, ...]:
    step = h[1] - h[0]
    p = np.exp(log_p)
    mean = step * p @ h
    sd = np.sqrt(step * p @ (h - mean) ** 2)
    log_q = fit.log_density(h[:, None])
    forward = step * np.exp(log_q) @ (log_q - log_p)
    backward = step * p @ (log_p - log_q)
    return float(fit.mean[0] - mean), float(fit.sd[0] / sd - 1), float(forward), float(backward)


def claims(results: Results) -> list[Claim]:
    errors, gaps = results.errors, results.gaps
    x = np.linspace(-6, 6, 241)
    slack = np.exp(log_logistic(x)) - np.exp(log_logistic_bound(x, XI))
    largest = {name: [np.abs(errors[name, s].mean).max() for s in SIGMAS] for name in METHODS}
    mean = {name: [np.abs(errors[name, s].mean).mean() for s in SIGMAS] for name in METHODS}
    rms = {name: [rms_of(errors[name, s].sd) for s in SIGMAS] for name in METHODS}
    sl, jj, best = "S-L", "variational", "optimal"
    wins = [np.mean(np.abs(errors[jj, s].mean) < np.abs(errors[sl, s].mean)) for s in SIGMAS]
    shown = ", ".join(f"{gaps[s].min():.4f} to {gaps[s].max():.3f} (sigma {s:g})" for s in SIGMAS)

    def means(k: int) -> str:
        return (
            f"largest error {largest[jj][k]:.3f}, S-L {largest[sl][k]:.3f}; mean {mean[jj][k]:.3f}, {mean[sl][k]:.3f}; "
            f"better at {100 * wins[k]:.0f}% of the prior means"
        )

    def sds(name: str, k: int) -> str:
        found = 100 * errors[name, SIGMAS[k]].sd
        return f"{found.min():+.1f} to {found.max():+.1f}%"

    def divergence(direction: str, name: str, sigma: float) -> float:
        return float(getattr(errors[name, sigma], direction).mean())

    forward = [divergence("forward", sl, s) / divergence("forward", jj, s) for s in SIGMAS]
    backward = [divergence("backward", sl, s) / divergence("backward", jj, s) for s in SIGMAS]
    apart = [np.abs(errors[jj, 1.0].forward - errors[sl, 1.0].forward).max(), errors[sl, 2.0].forward.max()]
    return [
        Claim(
            "2 (a)",
            "for each xi the bound is exact at a point and a lower bound elsewhere",
            f"xi = 2: at x = -2 and 2 it differs by {np.abs(slack[np.isclose(np.abs(x), XI)]).max():.0e}; elsewhere "
            f"it is lower by up to {slack.max():.3f}",
            holds_if(slack.min() > -1e-15),
        ),
        Claim(
            "2 (b)",
            "the difference of predictive probability and bound is always positive",
            shown,
            holds_if(min(gap.min() for gap in gaps.values()) > 0),
            "the optimal Gaussian's bound lies "
            + ", ".join(f"{results.best_gaps[s].min():.0e} to {results.best_gaps[s].max():.4f}" for s in SIGMAS)
            + " below",
        ),
        Claim(
            "3 (a)",
            "sigma = 1: the variational posterior mean is significantly more accurate than S-L's",
            means(0),
            holds_if(largest[jj][0] < largest[sl][0] and mean[jj][0] < mean[sl][0]),
            f"optimal Gaussian: largest {largest[best][0]:.4f}; Laplace at the mode {largest['Laplace'][0]:.3f}",
        ),
        Claim(
            "4 (a)",
            "the same for sigma = 2",
            means(1),
            holds_if(largest[jj][1] < largest[sl][1] and mean[jj][1] < mean[sl][1]),
            f"optimal Gaussian: largest {largest[best][1]:.4f}; Laplace {largest['Laplace'][1]:.3f}",
        ),
        Claim(
            "3 (b)",
            "sigma = 1: the standard deviations are of roughly comparable accuracy",
            f"{sds(jj, 0)}, S-L {sds(sl, 0)}; root mean square {100 * rms[jj][0]:.1f} and {100 * rms[sl][0]:.1f}%",
            holds_if(0.5 < rms[jj][0] / rms[sl][0] < 2),
            f"optimal Gaussian: {sds(best, 0)}",
        ),
        Claim(
            "4 (b)",
            "sigma = 2: the variational standard deviation is superior",
            f"{sds(jj, 1)}, S-L {sds(sl, 1)}; root mean square {100 * rms[jj][1]:.1f} and {100 * rms[sl][1]:.1f}%",
            holds_if(rms[jj][1] < rms[sl][1]),
            f"optimal Gaussian: {sds(best, 1)}",
        ),
        Claim(
            "text",
            "the variational method consistently underestimates the posterior variance",
            f"at all {results.before.size} prior means and sigma 1, 2, 3: "
            f"{'yes' if all((errors[jj, s].sd < 0).all() for s in SIGMAS) else 'no'}",
            holds_if(all((errors[jj, s].sd < 0).all() for s in SIGMAS)),
            "so does the optimal Gaussian: by at most "
            f"{100 * max(-errors[best, s].sd.min() for s in SIGMAS):.1f}% of the standard deviation",
        ),
        Claim(
            "5",
            "divergences from the posterior: the curves are visually identical for sigma = 1",
            f"they differ by at most {apart[0]:.4f} nats, which cannot be seen on the axis of figure 5 (a), where S-L "
            f"reaches {apart[1]:.2f}, but on one of their own: S-L reaches {errors[sl, 1.0].forward.max():.4f}, the "
            f"variational method {errors[jj, 1.0].forward.max():.4f}",
            "in part" if apart[0] < 0.02 * apart[1] else "does not hold",
        ),
        Claim(
            "5",
            "the variational method is superior for the larger prior variance",
            "mean divergence of S-L over that of the variational method: "
            + ", ".join(f"{f:.1f} (sigma {s:g})" for f, s in zip(forward[1:], SIGMAS[1:], strict=True))
            + "; in the other direction "
            + ", ".join(f"{b:.1f}" for b in backward[1:]),
            holds_if(min(forward[1:]) > 1 and min(backward[1:]) > 1),
            "the variational one over the optimal Gaussian's: "
            + ", ".join(f"{divergence('forward', jj, s) / divergence('forward', best, s):.0f}" for s in SIGMAS),
        ),
    ]


def table(results: Results) -> str:
    lines = [
        f"{'sigma':5s} {'method':12s} {'mean: largest':>13s} {'average':>8s} {'sd, %':>16s} {'rms':>6s} "
        f"{'KL(q, p)':>9s} {'KL(p, q)':>9s}"
    ]
    for (name, sigma), e in sorted(results.errors.items(), key=lambda item: item[0][1]):
        lines.append(
            f"{sigma:<5g} {name:12s} {np.abs(e.mean).max():13.4f} {np.abs(e.mean).mean():8.4f} "
            f"{100 * e.sd.min():+7.2f} {100 * e.sd.max():+8.2f} {100 * rms_of(e.sd):6.2f} "
            f"{e.forward.mean():9.5f} {e.backward.mean():9.5f}"
        )
    return "\n".join(lines)


def rms_of(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))


def draw_bound(results: Results) -> Figure:
    figure, ((left, right),) = panels(1, 2)
    x = np.linspace(-6, 6, 400)
    bound = np.exp(log_logistic_bound(x, XI))
    plot_curves(
        x, {"logistic function": expit(x), "bound, xi = 2": bound},
        looks={"logistic function": Look(BLACK), "bound, xi = 2": Look(BLUE, "--")},
        x_label="x", title="Figure 2 (a) again", ax=left,
    )  # fmt: skip
    gaps = {f"sigma = {sigma:g}": results.gaps[sigma] for sigma in SIGMAS}
    plot_curves(
        results.before, gaps, looks=dict(zip(gaps, (Look(BLUE), Look(ORANGE, "--"), Look(RED, "-.")), strict=True)),
        x_label="g(mu')", y_label="predictive probability - bound", title="Figure 2 (b) again", ax=right,
    )  # fmt: skip
    right.set_ylim(0, None)
    return figure


def draw_moments(results: Results) -> Figure:
    figure, axes = panels(2, 2, height=3.2)
    labels = {"mean": "error of the mean", "sd": "relative error of the sd"}
    for row, sigma, number in zip(axes, SIGMAS[:2], (3, 4), strict=True):
        for ax, (which, label), part in zip(row, labels.items(), "ab", strict=True):
            plot_curves(
                results.before, {name: getattr(results.errors[name, sigma], which) for name in LOOKS}, looks=LOOKS,
                x_label="g(mu')", y_label=label, title=f"Figure {number} ({part}) again: sigma = {sigma:g}",
                legend=False, ax=ax,
            )  # fmt: skip
            ax.axhline(0, color=BLACK, linewidth=0.8)
    legend_below(figure, axes[0, 0])
    return figure


def draw_divergences(results: Results) -> Figure:
    figure, (row,) = panels(1, 3, width=11, sharey=True)
    titles = ("not shown there", "Figure 5 (a) again", "Figure 5 (b) again")
    for ax, sigma, title in zip(row, SIGMAS, titles, strict=True):
        plot_curves(
            results.before, {name: results.errors[name, sigma].forward for name in LOOKS}, looks=LOOKS,
            x_label="g(mu')", title=f"{title}: sigma = {sigma:g}", legend=ax is row[0], ax=ax,
        )  # fmt: skip
        ax.set_yscale("log")
    row[0].set_ylabel("KL(approximation, posterior), nats")
    return figure

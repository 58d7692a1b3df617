"""Figure 4.1 and section 1.1 of Riggelsen, chapter 4: what proposals do to an importance sampler.

The target has two modes with 30% and 70% of its mass; what is wanted is the mean of exp(x / 2).  The chapter's figure
has no scale, so the target is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from doxa.plots import Band, Look, panels, plot_curves, plot_repeats
from doxa.plots.style import BLACK, BLUE, GREY, ORANGE, RED
from doxa.sampling.importance import importance_sample
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome, progress
from riggelsen.importance import (
    EXACT,
    PROPOSALS,
    Replications,
    h,
    largest_weight,
    log_target,
    ratio_variance,
    replicate,
    sample_from,
    variance,
    variance_by_component,
)  # fmt: skip

DRAWS, RUNS = 2000, 400
GROWTH, GROWTH_RUNS = (100, 1000, 10_000, 50_000), 25
SHOWN = ("narrow", "one mode, wider", "wide", "narrow + 10% wide")
COVERING = ("Pr itself", "wide", "both modes", "narrow + 50% wide")
TEN, HALF, OPTIMAL = "narrow + 10% wide", "narrow + 50% wide", "|h| Pr"


class Results(NamedTuple):
    """What is drawn and told."""

    runs: dict[str, Replications]
    growth: dict[str, dict[int, Replications]]
    change: float  # of an estimate when Pr is multiplied by 1e100


def run(quick: bool) -> Outcome:
    results = compute(quick)
    figures = {"importance_figure_4_1": draw_proposals(quick), "importance_replications": draw_runs(results)}
    return Outcome(claims(results), figures, [(f"Runs of {DRAWS:,} draws", table(results))])


def compute(quick: bool) -> Results:
    runs = {}
    for name in PROPOSALS:
        progress(name)
        runs[name] = replicate(name, DRAWS, 20 if quick else RUNS)
    growth = {}
    for name in [p for p in PROPOSALS if "Pr" not in p]:
        progress(f"{name}, more draws")
        growth[name] = {n: replicate(name, n, 3 if quick else GROWTH_RUNS) for n in (GROWTH[:2] if quick else GROWTH)}
    one, scaled = (
        importance_sample(lambda x, c=c: log_target(x) + c, PROPOSALS["wide"], DRAWS, np.random.default_rng(1))
        for c in (0.0, 100 * np.log(10))
    )
    return Results(runs, growth, abs(scaled.expectation(h).value - one.expectation(h).value))


def claims(results: Results) -> list[Claim]:
    runs = results.runs
    narrow, meets, thin, ten, half = (
        runs[name] for name in ("narrow", "one mode, wider", "thin tails", TEN, HALF)
    )  # fmt: skip
    first, last = min(results.growth["wide"]), max(results.growth["wide"])
    gain = {name: by_n[first].rmse / by_n[last].rmse for name, by_n in results.growth.items()}
    naive = {name: r.covered(True).mean() for name, r in runs.items()}
    weights = {name: r.runs.mean_weight.mean() for name, r in runs.items()}
    jumped = {name: (r.runs.jumps > 0).mean() for name, r in runs.items()}
    met = ndtr((-1.0 - PROPOSALS["narrow"].mean) / PROPOSALS["narrow"].sd)
    tolerance = 4 * np.sqrt(2 / len(narrow.runs.plain))
    agree = {name: DRAWS * runs[name].runs.plain.var() / variance(PROPOSALS[name]) for name in (*COVERING, TEN)}
    by_part = variance_by_component(PROPOSALS[TEN])
    bias, bias_without = thin.runs.estimate.mean() - EXACT, thin.runs.estimate_without.mean() - EXACT
    error = thin.runs.estimate_without.std() / np.sqrt(len(thin.runs.estimate))
    rmse_without = np.sqrt(((thin.runs.estimate_without - EXACT) ** 2).mean())
    by_quadrature = {name: (variance(p), ratio_variance(p)) for name, p in PROPOSALS.items()}
    largest = {name: largest_weight(p) for name, p in PROPOSALS.items()}
    return [
        Claim(
            "4.1", "too frequently sampled: a weight less than 1; too infrequently: larger than 1",
            "mean weights, both densities normalised: " + ", ".join(f"{n} {weights[n]:.3f}" for n in (*COVERING, TEN)),
            holds_if(all(abs(weights[n] - 1) < 0.02 for n in (*COVERING, TEN))),
            f"narrow: {weights['narrow']:.3f}, which gives it away. But this needs Pr normalised",
        ),
        Claim(
            "eq. 4.4", "when Pr' > 0 whenever Pr > 0, the approximation becomes more accurate as n increases",
            f"from {first:,} to {last:,} draws the error falls by a factor of "
            + ", ".join(f"{gain[n]:.1f} ({n})" for n in ("wide", TEN, "narrow"))
            + f"; 1 / sqrt(n) would be {np.sqrt(last / first):.1f}",
            "in part" if gain["narrow"] < 2 else "holds",
            f"the narrow normal is positive everywhere, and meets the other mode once in {1 / met:.0e} draws",
        ),
        Claim(
            "eq. 4.4", "the normalising term of Pr cancels",
            f"Pr times 1e100: the estimate changes by {results.change:.1g}",
            holds_if(results.change < 1e-9), "log Z is estimated beside it, from the mean weight",
        ),
        Claim(
            "eq. 4.6", "the variance that results",
            "n times the variance of the runs, by eq. 4.6: " + ", ".join(f"{agree[n]:.2f} ({n})" for n in agree)
            + f". But of the plain average of h w: eq. 4.4, which divides by the sum of weights, has another, "
            f"E[(h - E h)^2 Pr / Pr']: wide {by_quadrature['wide'][0]:.0f} and {by_quadrature['wide'][1]:.0f}",
            "in part" if all(abs(a - 1) < tolerance for a in agree.values()) else "does not hold",
            "errors are those of eq. 4.4, by the delta method",
        ),
        Claim(
            "1.1.1", "an inappropriate sampling distribution can have disastrous effects",
            f"narrow: {percent(naive['narrow'])} of the 95% intervals hold the mean, {EXACT:.2f}; all runs say "
            f"{narrow.runs.estimate.mean():.2f} +- {narrow.runs.naive_error.mean():.2f}. Eq. 4.6: "
            f"{by_quadrature['narrow'][0]:.0e}; the draws show {DRAWS * narrow.runs.plain.var():.1f}",
            holds_if(naive["narrow"] < 0.05),
            f"verdict Reliable in {percent(np.mean(narrow.runs.reliable == 1))} of the runs: no monitor of weights "
            "sees a mode that no draw has met",
        ),
        Claim(
            "1.1.1", "where Pr^2 / Pr' is unbounded, the variance is infinite for many functions: slow convergence",
            f"thin tails (both modes, sd 0.3 for 0.5): error {thin.rmse:.3f}; Pr itself {runs['Pr itself'].rmse:.3f}, "
            f"wide, whose weights are at most {largest['wide']:.1f}, {runs['wide'].rmse:.3f}",
            holds_if(np.isinf(by_quadrature["thin tails"][0]) and thin.rmse > runs["wide"].rmse),
            f"no error offered in {percent(1 - thin.offered)} of the runs (median Pareto k "
            f"{np.nanmedian(thin.runs.pareto_k):.2f})",
        ),
        Claim(
            "1.1.1", "watch the running variance of the weights: it jumps where the proposal is inappropriate",
            f"doubles after the first tenth in {percent(jumped['one mode, wider'])} of the runs of one mode, wider "
            f"(which meets the other), {percent(jumped['thin tails'])} of thin tails, "
            f"{percent(jumped['narrow'])} of narrow, {percent(max(jumped[n] for n in COVERING))} of those that cover",
            "in part" if jumped["one mode, wider"] > 0.5 > jumped["narrow"] else "does not hold",
            f"error refused: {percent(1 - meets.offered)}, {percent(1 - thin.offered)}, "
            f"{percent(1 - narrow.offered)}, {percent(max(1 - runs[n].offered for n in COVERING))}",
        ),
        Claim(
            "1.1.1", "deleting draws with large weights does not introduce bias if a small denominator made them",
            f"thin tails: {thin.runs.deleted.mean():.1f} draws with over 1% of the weight in a run, "
            f"{thin.runs.high_numerator.sum():.0f} of all by the numerator. Bias without them {bias_without:+.3f} (+- "
            f"{error:.3f}), with them {bias:+.3f}; error {rmse_without:.3f} and {thin.rmse:.3f}",
            holds_if(abs(bias_without) < 3 * error),
            f"log Z without them is {thin.runs.log_mean_weight_without.mean():+.3f}, with them "
            f"{np.log(thin.runs.mean_weight).mean():+.3f} (exact 0); doxa deletes only if told to",
        ),
        Claim(
            "1.1.1", "if the numerator is large, one may want to keep the draw",
            f"one mode, wider: {meets.runs.deleted.mean():.1f} such draws in a run; bias without them "
            f"{meets.runs.estimate_without.mean() - EXACT:+.2f}, with them {meets.runs.estimate.mean() - EXACT:+.2f}",
            holds_if(abs(meets.runs.estimate_without.mean() - EXACT) > 0.5),
            f"numerator named as cause of {meets.runs.high_numerator.sum():,.0f} of {meets.runs.deleted.sum():,.0f}",
        ),
        Claim(
            "1.1.1", "a mixture keeps the importance weights bounded (Hesterberg 1995)",
            f"largest possible weight: narrow {largest['narrow']:.0e}, with 10% wide {largest[TEN]:.1f}, with 50% "
            f"{largest[HALF]:.1f}; intervals that hold the mean: {percent(naive['narrow'])}, {percent(naive[TEN])}, "
            f"{percent(naive[HALF])}",
            holds_if(naive[TEN] > 0.9 and naive[HALF] > 0.9),
            f"error offered in {percent(ten.offered)} (10% wide: {DRAWS:,} draws are too few to tell a bounded weight "
            f"from a tail; {percent(results.growth[TEN][last].offered)} at {last:,}) and {percent(half.offered)} (50%)",
        ),
        Claim(
            "1.1.1", "use Pr'(x) rather than Pr'_i(x) in the weights",
            f"narrow + 10% wide, eq. 4.6: {by_quadrature[TEN][0]:.2f} with the whole mixture, {by_part:.0e} with each "
            "draw's own component",
            holds_if(by_part > by_quadrature[TEN][0]), "`Mixture` does so",
        ),
        Claim(
            "slides 6", "the variance is smallest for q proportional to |f| pi",
            f"eq. 4.6: {by_quadrature[OPTIMAL][0]:.2g} ({by_quadrature['Pr itself'][0]:.2f} from Pr itself). But eq. "
            f"4.4 has {by_quadrature[OPTIMAL][1]:.1f} ({by_quadrature['Pr itself'][1]:.2f} from Pr itself)",
            "in part" if by_quadrature[OPTIMAL][1] > by_quadrature["Pr itself"][1] else "holds",
            f"for eq. 4.4 it is |f - mean| pi: {by_quadrature['|h - mean| Pr'][1]:.2f}; runs: "
            f"{DRAWS * runs['|h - mean| Pr'].rmse ** 2:.2f}",
        ),
    ]  # fmt: skip


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def table(results: Results) -> str:
    head = (
        f"{'proposal':>18}{'eq. 4.6':>10}{'of 4.4':>10}{'w <=':>10}{'mean':>8}{'error':>8}{'naive':>8}{'holds':>7}"
        f"{'ess':>7}{'k':>7}{'offered':>9}{'holds':>7}"
    )
    lines = [head]
    for name, r in results.runs.items():
        p, own = PROPOSALS[name], r.covered(False)
        k = r.runs.pareto_k[~np.isnan(r.runs.pareto_k)]
        k_text = f"{np.median(k):.2f}" if len(k) else "-"
        held = f"{100 * np.nanmean(own):.0f}%" if r.offered > 0 else "-"
        cells = f"{variance(p):>10.3g}{ratio_variance(p):>10.3g}{largest_weight(p):>10.3g}"
        cells += f"{r.runs.estimate.mean():>8.3f}{r.rmse:>8.3f}{np.median(r.runs.naive_error):>8.3f}"
        cells += f"{100 * r.covered(True).mean():>6.0f}%{np.median(r.runs.ess):>7.0f}{k_text:>7}"
        cells += f"{100 * r.offered:>8.0f}%{held:>7}"
        lines.append(f"{name:>18}{cells}")
    return "\n".join([*lines, f"{'exact':>18}{'':>30}{EXACT:>8.3f}"])


def draw_proposals(quick: bool):
    """Figure 4.1 for four proposals; their weights; estimates and the variance of the weights as draws come in."""
    figure, axes = panels(4, len(SHOWN), width=11.0, height=2.1, sharey="row")
    x, n = np.linspace(-6, 7, 700), 2000 if quick else 20_000
    looks = {"Pr": Look(BLACK), "Pr'": Look(BLUE, ":")}
    for (densities, weights, means, variances), name in zip(axes.T, SHOWN, strict=True):
        log_p, log_q, sample = log_target(x), PROPOSALS[name].log_density(x), sample_from(name, n, 7)
        curves = {"Pr": np.exp(log_p), "Pr'": np.exp(log_q)}
        plot_curves(x, curves, looks=looks, title=name, legend=name == SHOWN[0], ax=densities)
        weights.plot(sample.draws[:400], np.exp(sample.log_weights[:400]), ".", color=BLUE, markersize=3)
        weights.plot(x, np.exp(log_p - log_q), "-", color=GREY, linewidth=0.7)
        weights.axhline(1.0, color=BLACK, linewidth=0.7)
        steps, mean, error = running(sample)
        estimate = Band(mean, mean - 1.96 * error, mean + 1.96 * error)
        plot_curves(steps, {"estimate": estimate}, looks={"estimate": Look(BLUE)}, legend=False, ax=means)
        means.axhline(EXACT, color=RED, linewidth=1.0, linestyle="--")
        of_weights = {"": sample.running_variance[steps - 1]}
        plot_curves(steps, of_weights, looks={"": Look(ORANGE)}, x_label="draws", legend=False, ax=variances)
        for ax in (densities, weights):
            ax.set_xlim(x[0], x[-1])
        for ax in (means, variances):
            ax.set_xscale("log")
    axes[1, 0].set(yscale="log", ylim=(1e-3, 300), ylabel="weight")
    axes[2, 0].set(ylim=(2, 6), ylabel="estimate")
    axes[3, 0].set(yscale="log", ylim=(0.02, 100), ylabel="variance of weights")
    figure.suptitle("Figure 4.1 for four proposals; estimates +- 1.96 errors, dashed: the exact mean of exp(x / 2)")
    return figure


def running(sample):
    """Number of draws, eq. 4.4 from these, its delta-method error."""
    w, values = np.exp(sample.log_weights), h(sample.draws)
    steps = np.unique(np.geomspace(20, sample.n, 150).astype(int))
    sums = [np.cumsum(part)[steps - 1] for part in (w, w * values, w**2, w**2 * values, w**2 * values**2)]
    mean = sums[1] / sums[0]
    return steps, mean, np.sqrt(np.maximum(sums[4] - 2 * mean * sums[3] + mean**2 * sums[2], 0)) / sums[0]


def draw_runs(results: Results):
    """Estimates of all runs, and errors as the number of draws grows."""
    figure, ((left, right),) = panels(1, 2, width=11.0, height=4.4)
    runs = {name: found.runs for name, found in results.runs.items()}
    plot_repeats(
        {name: r.estimate for name, r in runs.items()}, exact=EXACT,
        hollow={name: ~np.isfinite(r.low) for name, r in runs.items()}, hollow_label="error refused",
        label="estimate of a run (dashed: exact)", legend=False, ax=left,
    )  # fmt: skip
    left.set_xlim(2.2, 5.0)
    left.legend(frameon=False, fontsize=8, loc="lower right")
    x = list(next(iter(results.growth.values())))
    errors = {name: [r.rmse for r in by_n.values()] for name, by_n in results.growth.items()}
    plot_curves(x, errors, x_label="draws", y_label="root mean square error", ax=right)
    for line, by_n in zip(tuple(right.lines), results.growth.values(), strict=True):
        refused = [(n, r.rmse) for n, r in by_n.items() if r.offered < 0.5]
        right.plot(
            *np.array(refused).reshape(-1, 2).T, line.get_marker(), color=line.get_color(), markersize=5, mfc="white"
        )
    right.set(xscale="log", yscale="log")
    right.set_title("hollow: error refused in most runs", fontsize=10)
    return figure

"""Example 1: what it costs when a step is as long as the narrowest coordinate, and what a learned shape mends.

The target is a Gaussian of two coordinates with standard deviations 1 and sigma.  A walk with steps of one width for
both, short enough that most are accepted, needs some (sigma / step)^2 steps to cross the wide coordinate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from doxa.estimates.diagnostics import diagnose_real
from doxa.parameters.kernels import RandomWalk, calibrated, start_at
from doxa.parameters.kernels.kernel import Function
from doxa.plots import Look, panels, plot_curves
from doxa.plots.style import BLUE, GREY, ORANGE
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome, progress

WIDTHS = (1.0, 2.0, 4.0, 8.0)
STEP = 0.4  # standard deviations of the narrow coordinate
WALKERS, STEPS = 32, 30_000
REACH = (100, 300, 1000, 3000)  # steps after which the walk's reach is looked at, on the widest target
_SEED = 1


class Result(NamedTuple):
    """One target."""

    acceptance: float
    steps_each: float  # steps for one effective draw of the wide coordinate, one width for both
    whitened: float  # the same where the shape was learned


class Results(NamedTuple):
    """What is drawn and told."""

    by_width: dict[float, Result]
    reach: NDArray[np.float64]  # (len(REACH), walkers), largest distance so far along the wide coordinate


def run(quick: bool) -> Outcome:
    results = compute(quick)
    return Outcome(
        claims(results), {"antal_example_1": draw(results)}, [("Steps for one effective draw", table(results))]
    )


def compute(quick: bool) -> Results:
    widths, steps = (WIDTHS[:3], 500) if quick else (WIDTHS, STEPS)
    by_width = {}
    for width in widths:
        progress(f"width {width:g}")
        by_width[width] = walked(width, steps)
    rng = np.random.default_rng(_SEED)
    target = gaussian(1000.0)
    _, path = RandomWalk(STEP).run(target, start_at(target, np.zeros((WALKERS, 2))), REACH[-1], rng)
    far = np.maximum.accumulate(np.abs(path.thetas[:, :, 1]), axis=0)
    return Results(by_width, far[np.array(REACH) - 1])


def gaussian(width: float) -> Function:
    """Two independent coordinates, of standard deviations 1 and ``width``."""
    return Function(lambda x: -0.5 * (x[:, 0] ** 2 + (x[:, 1] / width) ** 2), 2)


def walked(width: float, steps: int) -> Result:
    rng = np.random.default_rng([_SEED, int(width)])
    target = gaussian(width)
    walkers = start_at(target, rng.standard_normal((WALKERS, 2)) * [1.0, width])
    kernel = RandomWalk(STEP)
    _, path = kernel.run(target, walkers, steps, rng)
    shaped, report = calibrated(RandomWalk(STEP), target, walkers, rng)
    _, other = shaped.run(target, report.walkers, steps, rng)
    return Result(float(path.acceptance.mean()), _steps_each(path.thetas), _steps_each(other.thetas))


def _steps_each(theta: NDArray[np.float64]) -> float:
    """Steps for one effective draw of the wide coordinate; paths (steps, walkers, 2)."""
    wide = np.swapaxes(theta[:, :, 1], 0, 1)
    return float(wide.size / diagnose_real(wide).estimate.ess)


def slope(results: Results) -> float:
    """Of the logarithm of the steps over that of the width, from the second width on."""
    widths = [width for width in results.by_width if width >= WIDTHS[1]]
    return float(np.polyfit(np.log(widths), np.log([results.by_width[w].steps_each for w in widths]), 1)[0])


def claims(results: Results) -> list[Claim]:
    first, last = min(results.by_width), max(results.by_width)
    one, wide = results.by_width[first], results.by_width[last]
    power = slope(results)
    steps = np.array(REACH)
    bound = STEP * np.sqrt(2 * steps * np.log(np.log(steps)))
    beyond = (results.reach > bound[:, None]).mean(axis=1)
    typical = np.median(results.reach, axis=1) / (STEP * np.sqrt(steps))
    return [
        Claim(
            "example 1", "an acceptance close to 1 is not enough",
            f"accepted: {one.acceptance:.2f} and {wide.acceptance:.2f} of the steps; for one effective draw of the "
            f"wide coordinate {one.steps_each:.0f} steps are needed at width {first:g} and {wide.steps_each:.0f} at "
            f"{last:g}",
            holds_if(abs(one.acceptance - wide.acceptance) < 0.1 and wide.steps_each > 3 * one.steps_each),
            f"with a learned shape {one.whitened:.0f} and {wide.whitened:.0f}",
        ),
        Claim(
            "example 1", "after T steps the walk is some step times the root of T away, and has not left "
            "step (2 T log log T)^(1/2)",
            "share of the walks that have, after "
            + ", ".join(f"{t:,} steps: {share:.2f}" for t, share in zip(steps, beyond, strict=True))
            + "; median reach over step times root of T: " + ", ".join(f"{x:.2f}" for x in typical),
            "in part" if (beyond > 0).any() else "holds",
            "the bound is a law of the limit, and of one walk's last places",
        ),
        Claim(
            "example 1", "the number of steps that the wide direction needs is sigma_max / sigma_min^2",
            f"the steps grow with power {power:.2f} of the ratio of the widths",
            holds_if(power < 1.5),
            "it is the square of the ratio: as printed, the number has a unit",
        ),
    ]  # fmt: skip


def table(results: Results) -> str:
    lines = [f"{'width':>6} {'accepted':>9} {'one width':>10} {'learned shape':>14}"]
    for width, result in results.by_width.items():
        lines.append(f"{width:6g} {result.acceptance:9.2f} {result.steps_each:10.0f} {result.whitened:14.1f}")
    return "\n".join(lines)


def draw(results: Results) -> Figure:
    figure, axes = panels(1, 1, width=5.5)
    widths = list(results.by_width)
    found = list(results.by_width.values())
    curves = {
        "one width": [result.steps_each for result in found],
        "learned shape": [result.whitened for result in found],
        "square of the ratio": [found[0].steps_each * (width / widths[0]) ** 2 for width in widths],
    }
    looks = {
        "one width": Look(BLUE, "-", "o"),
        "learned shape": Look(ORANGE, "--", "s"),
        "square of the ratio": Look(GREY, ":"),
    }
    ax = plot_curves(
        widths,
        curves,
        looks=looks,
        x_label="width of the wide coordinate",
        y_label="steps for one effective draw",
        ax=axes[0, 0],
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.set_xticks(widths, [f"{width:g}" for width in widths])
    return figure

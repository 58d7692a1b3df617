"""The notes on mixing, independent chains and annealing: claims and drawings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from doxa.plots import Look, panels, plot_curves, plot_repeats, plot_traces
from doxa.plots.style import BLACK, BLUE, GREEN, ORANGE, RED
from lecture.modes import (
    CHAINS,
    FIELD,
    METHODS,
    RARE,
    SIDE,
    THIN,
    WIDTHS,
    Cause,
    Coupling,
    Sets,
    Sizes,
    caught,
    compute_cause,
    compute_coupling,
)  # fmt: skip
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome, progress

COUPLINGS = (0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 1.0)
FULL = Sizes(
    {"Gibbs": 1000, "tempering": 500, "Swendsen-Wang": 500},
    {"Gibbs": 24, "tempering": 2, "Swendsen-Wang": 12},
    4096,
    2000,
)
QUICK = Sizes(
    {"Gibbs": 100, "tempering": 40, "Swendsen-Wang": 40}, {"Gibbs": 8, "tempering": 1, "Swendsen-Wang": 2}, 512, 100
)
LOOKS = {
    "Gibbs": Look(ORANGE, "-", "o"),
    "tempering": Look(BLUE, "-", "s"),
    "Swendsen-Wang": Look(GREEN, "-", "^"),
}
RUNNERS = (2, 4, 8, 16)
DEEP = 0.7  # couplings from here on: a Gibbs chain stays where it fell
OFF = 0.1  # an error of the mean spin that nobody would accept


class Results(NamedTuple):
    """What is drawn and told."""

    grids: dict[float, Coupling]
    alarms: dict[int, float]  # by number of chains, at the largest coupling
    causes: list[Cause]


def run(quick: bool) -> Outcome:
    results = compute(quick)
    figures = {"lecture_tempering": draw_grids(results), "lecture_tempering_widths": draw_causes(results)}
    tables = [("Ferromagnet", grid_table(results)), ("Hidden cause", cause_table(results))]
    return Outcome(claims(results), figures, tables)


def compute(quick: bool) -> Results:
    sizes = QUICK if quick else FULL
    compute_coupling(0.1, QUICK)  # compiles
    grids = {}
    for coupling in (0.2, 0.8) if quick else COUPLINGS:
        progress(f"coupling {coupling}")
        grids[coupling] = compute_coupling(coupling, sizes)
    progress("hidden cause")
    causes = [compute_cause(widths, 100 if quick else 2000) for widths in WIDTHS]
    chains = grids[max(grids)].sets["Gibbs"].chains
    flat = chains.reshape(-1, chains.shape[-1])
    return Results(grids, {n: caught(flat, n, 10 if quick else 200) for n in RUNNERS}, causes)


def worst(results: Results, method: str) -> tuple[float, float]:
    """Largest mean error of P(up) over couplings, and where."""
    at = max(results.grids.values(), key=lambda g: g.sets[method].error)
    return at.sets[method].error, at.coupling


def size_ess(sets: Sets) -> float:
    """Effective draws of |mean spin|, which does not tell the modes apart, by one over lag-1 autocorrelation."""
    size = np.abs(sets.chains.reshape(-1, sets.chains.shape[-1]))
    apart = size - size.mean(axis=1, keepdims=True)
    lag = float(np.mean((apart[:, 1:] * apart[:, :-1]).mean(axis=1) / (apart**2).mean(axis=1)))
    return CHAINS * size.shape[1] * (1 - lag) / (1 + lag)


def claims(results: Results) -> list[Claim]:
    deep = [g for j, g in results.grids.items() if j >= DEEP]
    weak, strong = results.grids[min(results.grids)], deep[-1]
    easy = results.grids[min(results.grids, key=lambda j: abs(j - 0.2))]
    gibbs = [g.sets["Gibbs"] for g in deep]
    crossed = (_crossings(strong.sets["Gibbs"]) > 0).mean()
    sweeps = THIN["Gibbs"] * strong.sets["Gibbs"].chains.shape[-1]
    off = [np.abs(g.sets["Gibbs"].pooled - g.exact) > OFF for g in deep]
    silent = [o & (g.r_hat <= 1.01) for o, g in zip(off, gibbs, strict=True)]
    n_sets, n_off, n_silent = sum(map(len, off)), int(np.sum(off)), int(np.sum(silent))
    tempered, clusters = worst(results, "tempering"), worst(results, "Swendsen-Wang")
    held = {m: np.mean([g.sets[m].covers(g.exact) for g in results.grids.values()]) for m in METHODS}
    rates = {m: (easy.sets[m].rate, strong.sets[m].rate) for m in METHODS}
    runs = [g.annealing for g in results.grids.values()]
    furthest = max(runs, key=lambda a: abs(a.log_z_error))
    in_errors = max(abs(a.log_z_error) / a.stated for a in runs)
    lost = results.causes[-1]
    tempered_causes = ", ".join(
        f"{c.by_chain['tempering'].mean():.2f} (sure to {c.widths[0]:g} / {c.widths[1]:g}, R-hat "
        f"{c.r_hat['tempering']:.2f})"
        for c in results.causes
    )
    annealed_causes = ", ".join(f"{c.annealed:.2f}" for c in results.causes)
    misses = [abs(c.by_chain["tempering"].mean() - RARE) > OFF for c in results.causes]
    return [
        Claim(
            "Gibbs", "p(x) > 0 everywhere: A^t converges to p",
            f"J = {strong.coupling:g}: {100 * crossed:.0f}% of the chains cross to the other sign within {sweeps:,} "
            f"sweeps; mean error of P(up) {strong.sets['Gibbs'].error:.2f}, at J = {weak.coupling:g} "
            f"{weak.sets['Gibbs'].error:.4f}",
            "in part" if strong.sets["Gibbs"].error > OFF else "holds",
            "true of the limit; it says nothing of how far off it is",
        ),
        Claim(
            "mixing", "slow mixing usually comes from the difficulty to move between modes",
            f"J = {strong.coupling:g}, effective draws of a set of four chains: of the mean spin "
            f"{np.median(strong.sets['Gibbs'].ess):.0f}, of its size, which is the same in both modes, "
            f"{size_ess(strong.sets['Gibbs']):.0f}",
            holds_if(size_ess(strong.sets["Gibbs"]) > 20 * np.median(strong.sets["Gibbs"].ess)),
        ),
        Claim(
            "", "monitor mixing by running independent chains",
            f"J from {DEEP}: {n_off} of {n_sets} sets of four chains are off by more than {OFF}; R-hat says so of "
            f"{n_off - n_silent}, and is below 1.01 in {n_silent}: all four fell into one mode",
            "in part" if n_silent else "holds",
            "R-hat above 1.01 with "
            + ", ".join(f"{n} chains: {100 * share:.0f}%" for n, share in results.alarms.items())
            + "; with c chains 1 - 2^(1 - c) were to be expected",
        ),
        Claim(
            "annealing", "annealing methods help: high temperature, more exploring",
            f"parallel tempering, largest mean error of P(up): {tempered[0]:.3f} (J = {tempered[1]:g}); Gibbs "
            f"{worst(results, 'Gibbs')[0]:.3f}. At J = {strong.coupling:g} {strong.rungs} rungs, "
            f"{strong.round_trips:.0f} round trips of a chain in 1000 steps, R-hat "
            f"{np.max(strong.sets['tempering'].r_hat):.2f}",
            holds_if(tempered[0] < worst(results, "Gibbs")[0] / 3),
            f"Swendsen-Wang, which knows the model: {clusters[0]:.4f}",
        ),
        Claim(
            "", "(not said: what it costs)",
            f"effective draws a second at J = {easy.coupling:g} / {strong.coupling:g}: "
            + ", ".join(f"{m} {a:,.0f} / {b:,.0f}" for m, (a, b) in rates.items()),
            "in part" if rates["tempering"][0] < rates["Gibbs"][0] else "holds",
            "no help where chains mix. Those of stuck chains mean nothing. Intervals that hold the mean spin, all J: "
            + ", ".join(f"{m} {100 * held[m]:.0f}%" for m in METHODS),
        ),
        Claim(
            "", "example: annealed importance sampling",
            f"log Z of {SIDE * SIDE} spins: error at most {abs(furthest.log_z_error):.3f} nats, and {in_errors:.1f} of "
            f"its own errors; mean error of P(up) at most {max(a.error for a in runs):.3f}; "
            f"{1000 * furthest.seconds:.0f} ms",
            holds_if(in_errors < 4),
            "its particles fall into both modes, independently, and the weights set their shares right",
        ),
        Claim(
            "", "annealing methods help, where modes differ in width",
            f"a hidden cause with P = {RARE:g}; by tempering {tempered_causes}. The last has {lost.round_trips:,} "
            "round trips",
            "does not hold" if misses[-1] and not misses[0] else "holds",
            f"annealing: {annealed_causes}, log Z of the last {lost.log_z[0]:.2f} +- {lost.log_z[1]:.2f} (exact 0). "
            f"Contraction: {lost.exact:.6f} in {1000 * lost.seconds:.0f} ms",
        ),
    ]  # fmt: skip


def _crossings(sets: Sets) -> np.ndarray:
    """By chain, how often the mean spin changed its sign for good: from beyond a half to beyond minus a half."""
    chains = sets.chains.reshape(-1, sets.chains.shape[-1])
    side = np.where(chains > 0.5, 1, np.where(chains < -0.5, -1, 0))
    return np.array([np.count_nonzero(np.diff(own[own != 0])) for own in side])


def grid_table(results: Results) -> str:
    head = f"{'J':>5}{'mean spin':>10}" + "".join(f"{m + ' error':>21}{'R-hat':>7}{'ess/s':>9}" for m in METHODS)
    lines = [head + f"{'rungs':>7}{'tuning':>8}{'trips':>7}{'AIS log Z':>11}{'+-':>7}{'P(up)':>7}"]
    for j, g in results.grids.items():
        cells = "".join(
            f"{s.error:>21.4f}{np.median(s.r_hat):>7.2f}{s.rate:>9,.0f}" for s in (g.sets[m] for m in METHODS)
        )
        a = g.annealing
        lines.append(
            f"{j:>5g}{g.exact:>10.3f}{cells}{g.rungs:>7}{g.tuning:>7.1f}s{g.round_trips:>7.1f}{a.log_z_error:>+11.4f}"
            f"{a.stated:>7.4f}{a.error:>7.3f}"
        )
    return "\n".join(lines)


def cause_table(results: Results) -> str:
    lines = [
        f"{'sure':>12}{'method':>12}{'P(cause) by chain (exact ' + f'{RARE:g})':>38}{'R-hat':>7}{'round trips':>13}"
    ]
    for c in results.causes:
        for method, shares in c.by_chain.items():
            sure, by_chain = f"{c.widths[0]:g} / {c.widths[1]:g}", ", ".join(f"{p:.2f}" for p in shares)
            trips = f"{c.round_trips:,}" if method == "tempering" else ""
            lines.append(f"{sure:>12}{method:>12}{by_chain:>38}{c.r_hat[method]:>7.2f}{trips:>13}")
    return "\n".join(lines)


def draw_grids(results: Results):
    """Chains at one coupling; pooled estimates, R-hat and effective draws over couplings."""
    figure, axes = panels(2, 3, width=11.0, height=3.2)
    at = min(results.grids, key=lambda j: abs(j - 0.7))
    for ax, method in zip(axes[0], METHODS, strict=True):
        sets = results.grids[at].sets[method]
        chains = sets.chains[0]
        stride = max(1, chains.shape[1] // 300) if method == "Gibbs" else 1
        shown = chains[:, ::stride] if method == "Gibbs" else chains[:, :80]
        place = stride * THIN[method] * np.arange(shown.shape[1])
        plot_traces({"": shown}, exact=results.grids[at].exact, x=place, legend=False, ax=ax)
        ax.set_title(f"{method}, J = {at:g}: R-hat {sets.r_hat[0]:.2f}", fontsize=10)
        ax.set(ylim=(-1.05, 1.05), xlabel={"Gibbs": "sweep", "tempering": "step of all rungs"}.get(method, "step"))
    axes[0, 0].set_ylabel("mean spin (dashed: exact)")
    couplings, grids = list(results.grids), results.grids.values()
    pooled, alarm, rate = axes[1]
    pooled.plot(couplings, [g.exact for g in grids], "--", color=RED, linewidth=1.0)
    for shift, (method, look) in zip((-0.012, 0.0, 0.012), LOOKS.items(), strict=True):
        for j, g in results.grids.items():
            sets = g.sets[method].pooled
            pooled.plot(np.full(len(sets), j + shift), sets, look.mark, color=look.colour, markersize=3, alpha=0.7)
    r_hat = {m: [np.median(g.sets[m].r_hat) for g in grids] for m in METHODS}
    plot_curves(couplings, r_hat, looks=LOOKS, y_label="R-hat (median of the sets)", ax=alarm)
    rates = {m: [g.sets[m].rate for g in grids] for m in METHODS}
    plot_curves(couplings, rates, looks=LOOKS, y_label="effective draws a CPU second", legend=False, ax=rate)
    alarm.axhline(1.01, color=BLACK, linewidth=0.8, linestyle=(0, (1, 2)))
    pooled.set_ylabel("mean spin, by sets of four chains")
    rate.set_yscale("log")
    for ax in axes[1]:
        ax.set_xlabel("coupling J")
    figure.suptitle(
        f"{SIDE} x {SIDE} ferromagnet in a field of {FIELD}: two modes, of 27% and 73% where all spins agree"
    )
    return figure


def draw_causes(results: Results):
    """P(sharp cause) by chain, for modes of different widths."""
    figure, axes = panels(1, len(results.causes), width=11.0, height=2.6, sharex=True)
    for ax, cause in zip(axes[0], results.causes, strict=True):
        chains = {f"{name}\nR-hat {cause.r_hat[name]:.2f}": shares for name, shares in cause.by_chain.items()}
        plot_repeats(
            chains | {"annealing": [cause.annealed]}, exact=RARE, label="P(cause), a mark a chain", legend=False, ax=ax
        )
        ax.set_xlim(-0.05, 1.05)
        ax.set_title(f"children sure to {cause.widths[0]:g} / {cause.widths[1]:g}", fontsize=10)
    figure.suptitle("A hidden cause and twenty children; dashed: exact. Heat favours the wider mode")
    return figure

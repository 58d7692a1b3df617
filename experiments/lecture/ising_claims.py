"""What the notes say, and what was found."""

from __future__ import annotations

import numpy as np

from lecture.grids import CHAINS, GIBBS, KINDS, METHODS
from lecture.projections import SIDE
from lecture.results import Results, gap, mean_of
from logistic_papers.claims import Claim, holds_if

__all__ = ["claims", "table"]


def claims(results: Results) -> list[Claim]:
    """One row for each sentence of the notes."""
    return [*_about_gibbs(results), *_about_mean_field(results), _about_projections(results), _about_em(results)]


def _about_gibbs(results: Results) -> list[Claim]:
    ferro = {j: results.grids["ferromagnet", j][0] for j in results.couplings}
    weak, strong = min(ferro, key=lambda j: abs(j - 0.2)), max(ferro)
    glass = mean_of(results, "glass", "errors", "Gibbs, long").max()
    below, slow = [j for j in ferro if j <= 0.4], [j for j in ferro if j >= 0.6]
    most, short = (max(ferro[j].errors[f"Gibbs, {name}"] for j in below) for name in ("long", "short"))
    split = [j for j in slow if ferro[j].r_hat["long"] > 1.01]
    unseen = max((ferro[j].errors["Gibbs, long"] for j in slow if j not in split), default=0.0)
    stuck, free = ferro[strong].errors["Gibbs, long"], ferro[weak].errors["Gibbs, long"]
    high, share = results.printed
    return [
        Claim(
            "Gibbs",
            "p(x) > 0 everywhere: one sweep after another converges to p",
            f"{CHAINS} chains of {GIBBS['long']:,} sweeps, mean error of P(up): at most {most:.4f} for J up to 0.4 "
            f"(ferromagnet), {glass:.4f} at any J (glass)",
            holds_if(most < 0.01),
            f"short chains ({GIBBS['short']:,}): {short:.4f}",
        ),
        Claim(
            "",
            "slow mixing usually comes from the difficulty to move between modes",
            f"ferromagnet, J = {strong:g}: error {stuck:.3f}; at J = {weak:g} it is {free:.4f}",
            holds_if(stuck > 10 * free),
        ),
        Claim(
            "",
            "mixing is monitored by running independent chains",
            f"R-hat of the mean spin is above 1.01 at {len(split)} of {len(slow)} couplings from 0.6 on: "
            + ", ".join(f"{ferro[j].r_hat['long']:.2f}" for j in slow)
            + f". Where it is not, all chains fell into one mode, and P(up) is off by up to {unseen:.2f}",
            "holds" if len(split) == len(slow) else "in part" if split else "does not hold",
            f"of two modes that chains fall into alike, all {CHAINS} fall into the same in one case of eight",
        ),
        Claim(
            "",
            "P(x_i = 1 given the rest) = exp(m_i + sum) / (1 + exp(sum)), as printed",
            f"no probability: up to {high:.1f}, above 1 in {100 * share:.0f}% of the cases; m_i is missing below",
            "does not hold",
            "1 / (1 + exp(-m_i - sum)), which is the notes' next line",
        ),
    ]


def _about_mean_field(results: Results) -> list[Claim]:
    every = [g for grids in results.grids.values() for g in grids]
    tight = all(g.bounds[m] <= g.log_z + 1e-9 for g in every for m in g.bounds)
    falls, spread = max(g.falls for g in every), max(g.spread for g in every)
    error = {m: ", ".join(f"{mean_of(results, k, 'errors', m).max():.3f}" for k in KINDS) for m in METHODS[:2]}
    nats = {m: ", ".join(f"{gap(results, k, m).max():.1f}" for k in KINDS) for m in METHODS[:2]}
    wins = {
        k: mean_of(results, k, "errors", "mean field") < mean_of(results, k, "errors", "Gibbs, long") for k in KINDS
    }
    return [
        Claim(
            "mean field",
            "coordinate descent on KL(q || p)",
            f"the bound on log Z falls in no sweep on {len(every)} grids (largest fall {falls:g}), and is below log Z "
            f"on {'all' if tight else 'not all'}",
            holds_if(falls == 0 and tight),
            f"starts on one grid end up to {spread:.1f} nats apart",
        ),
        Claim(
            "",
            "an approximation by independent variables",
            f"mean error of P(up), the largest over J: {error['mean field']} (ferromagnet, glass); the bound is up to "
            f"{nats['mean field']} nats below log Z",
            "holds",
            f"rows as blocks: {error['rows as blocks']}; {nats['rows as blocks']} nats",
        ),
        Claim(
            "both",
            "compare its update with that of Gibbs sampling",
            "mean field has the smaller error at "
            + " and ".join(f"{int(wins[k].sum())} of {len(wins[k])} couplings ({k})" for k in KINDS),
            "holds",
            "against the long chains; CPU times are in the table",
        ),
    ]


def _about_projections(results: Results) -> Claim:
    last = results.projections[-1]
    covers = all(p.m_forward <= p.i_forward + 1e-9 and p.i_reverse <= p.m_reverse + 1e-9 for p in results.projections)
    return Claim(
        "KL",
        "I-projection: argmin KL(q || p); M-projection: argmin KL(p || q)",
        f"{SIDE} x {SIDE}, J = {results.couplings[-1]:g}: KL(q || p) is {last.i_reverse:.2f} (I) and "
        f"{last.m_reverse:.1f} (M), KL(p || q) {last.i_forward:.1f} (I) and {last.m_forward:.2f} (M)",
        holds_if(covers),
        "each is the better by its own measure at every coupling",
    )


def _about_em(results: Results) -> Claim:
    c = results.climbs
    return Claim(
        "EM",
        "with an approximate E-step the bound still rises, but the likelihood need not",
        f"{c.n_problems} problems, {c.n_iterations} iterations: the bound fell in {c.bound_fell}, the log likelihood "
        f"in {c.likelihood_fell}, by up to {c.worst:.3f} nats",
        holds_if(c.bound_fell == 0 and c.likelihood_fell > 0),
        "with the hidden nodes in one block it is EM, and neither falls",
    )


def table(results: Results) -> str:
    """Mean error of P(up) / CPU milliseconds of each method, log Z less its bounds, R-hat of the long chains."""
    head = f"{'':>12}{'J':>6}{'log Z':>9}" + "".join(f"{m:>16}" for m in METHODS)
    lines = [head + f"{'naive gap':>11}{'rows gap':>10}{'R-hat':>7}"]
    for (kind, j), grids in results.grids.items():
        error = {m: np.mean([g.errors[m] for g in grids]) for m in METHODS}
        cpu = {m: 1000 * np.mean([g.seconds[m] for g in grids]) for m in METHODS}
        cells = "".join(f"{f'{error[m]:.4f}/{cpu[m]:.0f}':>16}" for m in METHODS)
        naive, rows = (abs(np.mean([g.log_z - g.bounds[m] for g in grids])) for m in METHODS[:2])
        r_hat = max(g.r_hat["long"] for g in grids)
        log_z = np.mean([g.log_z for g in grids])
        lines.append(f"{kind:>12}{j:>6.2f}{log_z:>9.2f}{cells}{naive:>11.3f}{rows:>10.3f}{r_hat:>7.2f}")
    return "\n".join(lines)

"""What section 5.1, figures 12 and 13, table 1 and the abstract claim.

Lists of numbers are by number of parents: 1, 5, 10, 20, 50; they are medians over the data sets.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from de_freitas.records import N_RECORDS
from de_freitas.unimodal import LENGTHS, OURS, SECOND_HALF, STARTS, Results
from logistic_papers.claims import Claim, Verdict, by_wins, holds_if, wins

__all__ = ["TABLE_1", "claims"]

Floats: TypeAlias = NDArray[np.float64]

# Table 1, Giga-flops: EM and MCMC with 500 samples, EM and MCMC with 5000.
TABLE_1 = {
    1: (0.0001, 0.0100, 0.0001, 0.1003),
    5: (0.0043, 0.0973, 0.0040, 0.9749),
    10: (0.0318, 0.3125, 0.0336, 3.1317),
    20: (0.5216, 2.0454, 0.2349, 12.3787),
    50: (4.7734, 13.5190, 4.7859, 130.8137),
}
WHERE = {"approximation": "where VarMixMCMC begins", "zero": "at 0", "prior": "at a draw from the prior"}
VAR, VAR_MCMC, MIX, RW = "variational", "VarMCMC", "VarMixMCMC", "RW"
NEAR = STARTS[0]
_OTHERS = 8.0  # flops a record beside those of the logit, in an evaluation of the likelihood: a guess


def claims(results: Results) -> list[Claim]:
    short, long = LENGTHS
    return [
        outperform(results, short),
        order(results, short, "12"),
        order(results, long, "13"),
        walk_is_no_better(results, long),
        by_initialisation(results),
        measure(results),
        better_mean(results, long),
        moment(results, long, "covariances", "considerably better estimates of covariances than the variational ones"),
        moment(results, long, "kurtosis", "and of the kurtosis"),
        underestimates(results),
        naive_acceptance(results),
        block_acceptance(results),
        ten_times(),
        cost(results),
    ]


def short(value: float) -> str:
    """Two or three digits are enough."""
    if value < 0.005:
        return "0.00"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def listed(results: Results, value: Callable[[int], float], digits: str = "") -> str:
    """One number for each number of parents."""
    return ", ".join(f"{value(d):{digits}}" if digits else short(value(d)) for d in results.sets)


def below(results: Results, name: str, start: str = "", length: int = 0) -> str:
    """Median nats below the largest log likelihood, for each number of parents."""
    return listed(results, lambda d: float(np.median(results.below_best(d, name, start, length))))


def gains(results: Results, one: tuple[str, str, int], other: tuple[str, str, int], which: str) -> Floats:
    """By how much ``one`` is better than ``other``, shape (dimensions, sets on which both were run)."""
    rows = []
    for d in results.sets:
        if which == "log_likelihood":
            mine, its = (-results.below_best(d, *of) for of in (one, other))
        else:
            mine, its = (-results.of(d, name, which, start, n) for name, start, n in (one, other))
        n = min(mine.size, its.size)
        rows.append(mine[:n] - its[:n])
    return np.array(rows)


def outperform(results: Results, length: int) -> Claim:
    def positive(start: str, names: tuple[str, str, str]) -> tuple[int, int]:
        """Curves that are above the random walk's, in points of the figure: at least 9 of 10 sets."""
        methods = (names[0], "", 0), (names[1], NEAR, length), (names[2], NEAR, length)
        found = [wins(gains(results, one, (RW, start, length), "log_likelihood")) >= 0.9 for one in methods]
        return int(np.sum(found)), int(np.size(found))

    counts = {start: positive(start, (VAR, VAR_MCMC, MIX)) for start in STARTS}
    ours = {start: positive(start, ("batch", "VarMCMC, batch", "VarMixMCMC, batch")) for start in STARTS}
    all_hold = [k == n for k, n in counts.values()]
    verdict: Verdict = "holds" if all(all_hold) else "in part" if any(all_hold) else "does not hold"
    return Claim(
        "12",
        "500 samples: the three variational methods outperform the random walk; all curves are positive",
        "points of the curves above 0: "
        + "; ".join(f"{k} of {n} if the walk begins {WHERE[start]}" for start, (k, n) in counts.items())
        + f". The walk from the prior is still {below(results, RW, 'prior', length)} nats below the largest likelihood",
        verdict,
        "batch: " + ", ".join(f"{k} of {n}" for k, n in ours.values()),
    )


def order(results: Results, length: int, figure: str) -> Claim:
    mix, var_mcmc = (MIX, NEAR, length), (VAR_MCMC, NEAR, length)
    first = gains(results, mix, var_mcmc, "log_likelihood")
    second = gains(results, var_mcmc, (VAR, "", 0), "log_likelihood")
    batch = ("VarMixMCMC, batch", NEAR, length), ("VarMCMC, batch", NEAR, length), ("batch", "", 0)
    theirs = "; ".join(below(results, *one) for one in batch)
    again = [gains(results, one, other, "log_likelihood") for one, other in pairwise(batch)]
    return Claim(
        figure,
        f"{length} samples: VarMixMCMC outperforms VarMCMC, which outperforms the variational algorithm",
        f"nats below the largest likelihood: {below(results, *mix)}; {below(results, *var_mcmc)}; "
        f"{below(results, VAR)}. Won by VarMixMCMC: {listed_wins(first)}; by VarMCMC: {listed_wins(second)}",
        by_wins(np.concatenate([first, second])),
        f"batch: {theirs} (the order: {by_wins(np.concatenate(again))}). {OURS}: {below(results, OURS, NEAR, length)}",
    )


def walk_is_no_better(results: Results, length: int) -> Claim:
    found = {s: gains(results, (MIX, s, length), (RW, s, length), "log_likelihood") for s in STARTS}
    same = min(wins(rows).min() for rows in found.values())
    apart = wins(gains(results, (MIX, NEAR, length), (RW, "prior", length), "log_likelihood")).min()
    shown = "; ".join(
        f"{WHERE[s]}: {below(results, MIX, s, length)} against {below(results, RW, s, length)}" for s in STARTS
    )
    return Claim(
        "13",
        "5000 samples: the random walk does not perform better than VarMixMCMC, which has a random walk in it and is "
        "at worst as good",
        f"nats below the largest likelihood, both begun {shown}. It holds where VarMixMCMC begins at its approximation "
        "and the walk at the prior",
        "holds" if same > 0.1 else "in part" if apart >= 0.9 else "does not hold",
        "VarMixMCMC makes half as many random steps, so it is later by a factor of two where only these move",
    )


def by_initialisation(results: Results) -> Claim:
    shown = "; ".join(f"begun {WHERE[s]}: {below(results, RW, s, LENGTHS[0])}" for s in STARTS)
    apart = gains(results, (RW, "zero", LENGTHS[0]), (RW, "prior", LENGTHS[0]), "log_likelihood")
    return Claim(
        "text",
        "the random walk depends on the initialisation",
        f"500 samples, nats below the largest likelihood: {shown}",
        by_wins(apart),
    )


def measure(results: Results) -> Claim:
    nats = gains(results, ("batch", "", 0), ("exact", "", 0), "log_likelihood")
    errors = gains(results, ("exact", "", 0), ("batch", "", 0), "mean")
    return Claim(
        "text",
        "likelihoods are higher for estimates close to the posterior mean, so they serve to compare",
        f"the exact posterior mean is {below(results, 'exact')} nats below the largest likelihood. Estimates that err "
        "towards the mode beat it",
        holds_if(not ((wins(nats) >= 0.9) & (wins(errors) >= 0.9)).any()),
        f"the batch Gaussian is {below(results, 'batch')} below, with a mean that is "
        f"{listed(results, lambda d: float(np.median(results.of(d, 'batch', 'mean'))))} sd off",
    )


def better_mean(results: Results, length: int) -> Claim:
    def error(name: str, start: str = "", n: int = 0) -> str:
        return listed(results, lambda d: float(np.median(results.of(d, name, "mean", start, n))))

    published = gains(results, (MIX, NEAR, length), (VAR, "", 0), "mean")
    batch = gains(results, ("VarMixMCMC, batch", NEAR, length), ("batch", "", 0), "mean")
    return Claim(
        "abstract",
        "VarMixMCMC yields slightly better estimates of the mean than the variational approximation",
        f"root mean square error in posterior sd, 5000 samples: {error(MIX, NEAR, length)} against {error(VAR)}",
        by_wins(published),
        f"batch: {error('VarMixMCMC, batch', NEAR, length)} against {error('batch')} ({by_wins(batch)}); optimal "
        f"Gaussian {error('optimal')}",
    )


def moment(results: Results, length: int, which: str, says: str) -> Claim:
    names = ("variance", "covariance") if which == "covariances" else ("kurtosis",)
    few = results.sets if which == "kurtosis" else [d for d in results.sets if d > 1]

    def error(name: str, score: str, start: str = "", n: int = 0) -> str:
        return ", ".join(short(float(np.median(results.of(d, name, score, start, n)))) for d in few)

    def rows(mix: str, alone: str, score: str) -> Floats:
        found = gains(results, (mix, SECOND_HALF, length), (alone, "", 0), score)
        return found[-len(few) :]

    note = {
        "covariances": f" (d = {', '.join(map(str, few))})",
        "kurtosis": " (the excess is 0 in a Gaussian and nearly 0 in the posterior)",
    }
    label = {"variance": "relative error of the variances", "covariance": "covariances / (sd sd)", "kurtosis": "error"}
    published = np.concatenate([rows(MIX, VAR, name) for name in names])
    batch = np.concatenate([rows("VarMixMCMC, batch", "batch", name) for name in names])
    theirs = "; ".join(
        f"{error('VarMixMCMC, batch', n, SECOND_HALF, length)} against {error('batch', n)}" for n in names
    )
    return Claim(
        "abstract",
        says,
        "first half dropped; "
        + "; ".join(f"{label[n]}: {error(MIX, n, SECOND_HALF, length)} against {error(VAR, n)}" for n in names)
        + note[which],
        by_wins(published),
        f"batch: {theirs} ({by_wins(batch)}). {OURS}: " + "; ".join(error(OURS, n, SECOND_HALF, length) for n in names),
    )


def underestimates(results: Results) -> Claim:
    def ratio(name: str) -> str:
        return listed(results, lambda d: float(np.median(results.of(d, name, "sd_ratio"))))

    def low(name: str) -> Verdict:
        return by_wins(np.array([1 - results.of(d, name, "sd_ratio") for d in results.sets]))

    return Claim(
        "abstract",
        "the variational approximation tends to underestimate the variance",
        f"sd over the exact one: {ratio(VAR)}",
        low(VAR),
        f"batch: {ratio('batch')} ({low('batch')}); optimal: {ratio('optimal')}",
    )


def naive_acceptance(results: Results) -> Claim:
    def rate(name: str) -> str:
        return listed(results, lambda d: results.average(d, "acceptance", f"independence, {name}"), ".3f")

    high = [results.average(d, "acceptance", "independence, variational") for d in results.sets if d >= 20]
    return Claim(
        "text 4.1",
        "the acceptance of independence Metropolis-Hastings usually tends to zero above about 10 dimensions",
        rate("variational"),
        holds_if(max(high, default=0.0) < 0.05),
        f"batch: {rate('batch')}; optimal: {rate('optimal')}: it is the proposal, not the dimension",
    )


def block_acceptance(results: Results) -> Claim:
    def rate(name: str) -> str:
        return listed(results, lambda d: results.average(d, "acceptance", name), ".3f")

    high = [d for d in results.sets if d > 5]
    better = [
        results.average(d, "acceptance", VAR_MCMC) > results.average(d, "acceptance", "independence, variational")
        for d in high
    ]
    return Claim(
        "text 4.2",
        "blocks surmount this to a certain extent",
        f"blocks of five from their marginals: {rate(VAR_MCMC)}; of one: {rate('VarMCMC, blocks of 1')} (two sets)",
        holds_if(all(better)),
        f"batch: {rate('VarMCMC, batch')}, from conditionals {rate('conditional blocks, batch')}; optimal, from "
        f"conditionals: {rate('conditional blocks, optimal')}",
    )


def ten_times() -> Claim:
    ratios = {d: row[3] / row[1] for d, row in TABLE_1.items()}
    return Claim(
        "table 1",
        "EM does not depend on the number of samples; MCMC takes ten times as much for ten times as many (implied)",
        "its own numbers: MCMC " + ", ".join(f"{r:.2f}" for r in ratios.values()) + " times; EM at d = 20 is 0.52 in "
        "one column and 0.23 in the other: the row of 500 samples at d = 20 does not fit the others",
        holds_if(all(abs(r - 10) < 0.5 for r in ratios.values())),
    )


def cost(results: Results) -> Claim:
    evaluations = {
        d: 1e9 * row[3] / LENGTHS[1] / (N_RECORDS * (2 * d + _OTHERS)) / (2 * d) for d, row in TABLE_1.items()
    }
    return Claim(
        "table 1",
        "EM takes 1, 4, 10, 25, 35% of the flops of MCMC with 500 samples",
        "we count seconds: "
        + listed(
            results,
            lambda d: 1000 * results.average(d, "seconds", VAR) / results.average(d, "seconds", MIX),
            ".0f",
        )
        + "% (interpreted code has other costs than flops). Its flops of an iteration are those of "
        + ", ".join(f"{e:.1f}" for e in evaluations.values())
        + " times 2 d evaluations of the likelihood: so its blocks may have had one coordinate",
        "cannot be told",
        "batch fit: "
        + listed(results, lambda d: 1000 * results.average(d, "seconds", "batch"), ".0f")
        + " ms; 5000 draws of the independence chain on the optimal Gaussian with its fit: "
        + listed(
            results,
            lambda d: 1000 * (results.average(d, "seconds", "optimal") + results.average(d, "seconds", OURS)),
            ".0f",
        )
        + " ms",
    )


def listed_wins(rows: Floats) -> str:
    return "/".join(f"{100 * share:.0f}" for share in wins(rows)) + "% of the sets"

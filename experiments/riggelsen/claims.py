"""What section 3.3.5 claims, each claim beside what the runs show for the printed and for the corrected kernels.

The chapter's numbers are those of its text; nothing is read off its figures.  "50-53" of ours is the middle 90% of the
second half of a run.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.diagnostics import diagnose_real
from riggelsen.runs import (
    ALARM,
    AUTO,
    EMC,
    EMC3_SIX,
    INSURANCE,
    MB,
    SCANNED,
    SETTINGS,
    Results,
    Run,
    Sampler,
    Setting,
    edge_range,
    network,
    true_score,
)

Find = Callable[[Results, str], str]  # results, kernel ("printed" or "corrected")

TWO_RUNS, TWO_STARTS = (0, 1), (0, 2)  # places in STARTS: twice the empty graph; the empty and the true one

# Ranges of the number of edges in the text: figure 4.6 and 4.8 by start, the others for both runs together.
CHAPTER: dict[tuple[Setting, str], tuple[tuple[int, int], ...]] = {
    (ALARM[1000], "MB-MCMC"): ((50, 53),),
    (ALARM[1000], "eMC3"): ((68, 77),),
    (ALARM[5000], "MB-MCMC"): ((45, 51),),
    (ALARM[5000], "eMC3"): ((57, 70),),
    (ALARM[7000], "MB-MCMC"): ((44, 50), (44, 50)),
    (ALARM[7000], "eMC3"): ((63, 70), (50, 55)),
    (INSURANCE[500], "MB-MCMC"): ((36, 40),),
    (INSURANCE[500], "eMC3"): ((37, 46),),
    (INSURANCE[10_000], "MB-MCMC"): ((45, 47), (45, 47)),
    (INSURANCE[10_000], "eMC3"): ((54, 56), (45, 47)),
}


@dataclass(frozen=True)
class Claim:
    """A sentence of the chapter, and how to look for what it says."""

    figure: str
    says: str
    find: Find


def ranges(setting: Setting, samplers: dict[str, Sampler], which: tuple[int, int]) -> Find:
    """Numbers of edges in two runs, and how far they are below the posterior in log score."""

    def find(results: Results, kernel: str) -> str:
        runs = [results.runs[setting, samplers[kernel]][i] for i in which]
        words = [f"{low}-{high}" for low, high in map(edge_range, runs)]
        labels = ("empty: ", "true: ") if which == TWO_STARTS else ("", "")
        edges = "; ".join(label + word for label, word in zip(labels, words, strict=True))
        gaps = " and ".join(f"{round(score_gap(results, r)):+d}" for r in runs)
        return f"{edges} ({gaps} nats)"

    return find


def frequent(samplers: dict[str, Sampler]) -> Find:
    """The most frequent graph of each start at 7000 records."""

    def find(results: Results, kernel: str) -> str:
        runs = [results.runs[ALARM[7000], samplers[kernel]][i] for i in TWO_STARTS]
        return "; ".join(
            f"{r.start}: +{r.frequent.extra} -{r.frequent.missing} arcs, distance {r.frequent.hamming} "
            f"({100 * r.share:.2g}% of the draws)"
            for r in runs
        )

    return find


def difference(setting: Setting, samplers: dict[str, Sampler], which: tuple[int, int]) -> Find:
    """How far apart two runs are, in edges and nats."""

    def find(results: Results, kernel: str) -> str:
        one, two = (results.runs[setting, samplers[kernel]][i] for i in which)
        edges, nats = one.edges.mean() - two.edges.mean(), one.scores.mean() - two.scores.mean()
        return f"means differ by {abs(edges):.1f} edges, log scores by {abs(nats):.0f} nats"

    return find


def more_records(results: Results, kernel: str) -> str:
    small, large = (results.runs[ALARM[n], MB[kernel]][:2] for n in (1000, 5000))
    reference = [results.reference(ALARM[n]) for n in (1000, 5000)]
    return (
        f"{mean_edges(small):.1f} at 1000, {mean_edges(large):.1f} at 5000 "
        f"(posterior: {reference[0]:.1f}, {reference[1]:.1f})"
    )


def average(results: Results, kernel: str) -> str:
    empty, true = (results.runs[ALARM[7000], MB[kernel]][i].edges.mean() for i in TWO_STARTS)
    return f"empty: {empty:.1f}; true: {true:.1f} (posterior: {results.reference(ALARM[7000]):.1f})"


def meeting(results: Results, kernel: str) -> str:
    """From when on the two runs at 500 records stay within one edge of each other, in means of 1/20 of the run."""
    one, two = results.runs[INSURANCE[500], MB[kernel]][:2]
    blocks = [np.array([b.mean() for b in np.array_split(r.trace, 20)]) for r in (one, two)]
    apart = np.flatnonzero(np.abs(blocks[0] - blocks[1]) > 1.0)
    last = int(apart[-1]) + 1 if apart.size else 0
    return f"within one edge from {last * one.iterations // 20:,} on" if last < 20 else "still apart at the end"


def unsupported(results: Results, kernel: str) -> str:
    setting = INSURANCE[10_000]
    runs = [results.runs[setting, MB[kernel]][i] for i in TWO_STARTS]
    means = " and ".join(f"{r.edges.mean():.1f}" for r in runs)
    return f"{means} edges on average (posterior: {results.reference(setting):.1f})"


def variability(results: Results, kernel: str) -> str:
    few, many = (np.mean([r.edges.std() for r in results.runs[INSURANCE[n], MB[kernel]]]) for n in (500, 10_000))
    return f"standard deviation {few:.2f} at 500, {many:.2f} at 10,000"


def minutes(results: Results, kernel: str) -> str:
    seconds = [r.seconds_per_million for s in SETTINGS for r in results.runs[s, MB[kernel]]]
    return f"{min(seconds):.1f} to {max(seconds):.1f} s per million iterations"


def burden(results: Results, kernel: str) -> str:
    mine, other = (
        np.median([r.seconds_per_million for s in SETTINGS for r in results.runs[s, samplers[kernel]]])
        for samplers in (MB, EMC)
    )
    return f"{mine:.1f} s, eMC3 {other:.1f} s per million iterations"


def effect_of_k(results: Results, kernel: str) -> str:
    found = [r for r in scan_of(results, SCANNED[0], kernel) if r.sampler.move.w == 0.95]
    parts = ", ".join(f"k={r.sampler.move.k}: {ess_per_million_steps(r):.0f}" for r in by_setting(found))
    return f"Asia, effective draws of the log score in a million steps: {parts}"


def fewer_is_better(results: Results, kernel: str) -> str:
    """Whether, from the empty graph, the sampler with fewer edges is the one with the higher log score."""
    fewer = better = 0
    for setting in SETTINGS:
        mine, other = (results.runs[setting, samplers[kernel]][:2] for samplers in (MB, EMC))
        fewer += mean_edges(mine) < mean_edges(other)
        better += mean_score(mine) > mean_score(other)
    return (
        f"of {len(SETTINGS)} data sets, MB-MCMC has fewer edges than eMC3 on {fewer}, the higher log score on {better} "
        "(from the empty graph)"
    )


CLAIMS = (
    Claim("4.5 top", "MB-MCMC, two runs: 50-53 edges", ranges(ALARM[1000], MB, TWO_RUNS)),
    Claim("", "no significant difference between them", difference(ALARM[1000], MB, TWO_RUNS)),
    Claim("", "eMC3, two runs: 68-77 edges", ranges(ALARM[1000], EMC, TWO_RUNS)),
    Claim("", "they behave differently", difference(ALARM[1000], EMC, TWO_RUNS)),
    Claim("4.5 bottom", "MB-MCMC: 45-51 edges", ranges(ALARM[5000], MB, TWO_RUNS)),
    Claim("", "eMC3: 57-70 edges", ranges(ALARM[5000], EMC, TWO_RUNS)),
    Claim("4.5", "fewer edges with 5000 records than with 1000 (MB-MCMC)", more_records),
    Claim("4.6", "MB-MCMC, both starts: 44-50 edges", ranges(ALARM[7000], MB, TWO_STARTS)),
    Claim("", "on average the number should converge to 46", average),
    Claim("", "its most frequent graph is ALARM +-2 arcs", frequent(MB)),
    Claim("", "eMC3: 63-70 from the empty graph, 50-55 from the true one", ranges(ALARM[7000], EMC, TWO_STARTS)),
    Claim("", "its most frequent graph: excess of 25 and 10 arcs", frequent(EMC)),
    Claim("4.7", "MB-MCMC: 36-40 edges", ranges(INSURANCE[500], MB, TWO_RUNS)),
    Claim("", "the two runs meet at about 150,000 iterations", meeting),
    Claim("", "eMC3: 37-46 edges, not quite in agreement", ranges(INSURANCE[500], EMC, TWO_RUNS)),
    Claim("4.8", "MB-MCMC, both starts: 45-47 edges", ranges(INSURANCE[10_000], MB, TWO_STARTS)),
    Claim("", "eMC3: 54-56 from the empty graph, 45-47 from the true one", ranges(INSURANCE[10_000], EMC, TWO_STARTS)),
    Claim("", "10,000 records do not support the 52 arcs of the true graph", unsupported),
    Claim("4.7, 4.8", "the number varies more with 500 records than with 10,000 (MB-MCMC)", variability),
    Claim("text", "fewer edges: better convergence (implied)", fewer_is_better),
    Claim("text", "less than 10 minutes at 2 GHz", minutes),
    Claim("text", "no added burden compared to existing approaches", burden),
    Claim("text", "a small k is better; a large one may mix slowly", effect_of_k),
)


def claims_table(results: Results) -> str:
    """All claims in four columns."""
    widths = (10, 30, 46, 46)
    heads = ("figure", "the chapter says", "we find (printed kernel)", "we find (corrected kernel)")
    rows = [
        (claim.figure, claim.says, claim.find(results, "printed"), claim.find(results, "corrected")) for claim in CLAIMS
    ]
    return "\n".join(
        [*_wrapped(heads, widths), "-" * (sum(widths) + 6), *(t for r in rows for t in _wrapped(r, widths))]
    )


def runs_table(results: Results) -> str:
    """One line for each run."""
    lines = [
        f"{'sampler':26s} {'start':6s} {'edges':>7s} {'mean':>6s} {'log score':>10s}  "
        f"{'most frequent graph':40s} {'best graph':40s} {'s per million':>13s}"
    ]
    for setting in SETTINGS:
        true = true_score(setting) - results.reference_score(setting)
        lines.append(
            f"-- {setting}: true graph {network(setting.network).dag.n_edges} edges, log score {true:+.1f}; posterior "
            f"by Auto {results.reference(setting):.2f} edges, log score {results.reference_score(setting):.1f} = 0"
        )
        for (of, sampler), runs in results.runs.items():
            for r in runs if of == setting else ():
                low, high = edge_range(r)
                lines.append(
                    f"{sampler.label:26s} {r.start:6s} {f'{low}-{high}':>7s} {r.edges.mean():6.2f} "
                    f"{score_gap(results, r):+10.1f}  {r.frequent!s:40s} {r.best!s:40s} {r.seconds_per_million:13.1f}"
                )
    return "\n".join(lines)


def scan_table(results: Results) -> str:
    """The effect of k and w, at an equal number of steps."""
    lines = [
        f"{'':42s} {'edges':>7s} {'mean':>6s} {'log score':>10s} {'effective draws and seconds per million steps'}"
    ]
    for setting in SCANNED:
        exact = (
            f"exact mean {results.exact_asia:.2f}"
            if setting.network == "asia"
            else (f"posterior mean by Auto {results.reference(setting):.2f}")
        )
        lines.append(f"-- {setting}: {exact}")
        for kernel in MB:
            for r in by_setting(scan_of(results, setting, kernel)):
                low, high = edge_range(r)
                move = r.sampler.move
                lines.append(
                    f"MB-MCMC, {kernel:9s} k={move.k:<3d} w={move.w:<4}{'':14s} {f'{low}-{high}':>7s} "
                    f"{r.edges.mean():6.2f} {r.scores.mean():10.1f} {ess_per_million_steps(r):8.0f} "
                    f"{r.seconds_per_million / r.sampler.steps:6.2f}"
                )
    return "\n".join(lines)


def others_table(results: Results) -> str:
    """How much the numbers depend on the records that were sampled: mean edges, and nats less the run of `Auto`."""
    lines = []
    for setting in SETTINGS:
        found = {
            sampler: [results.runs[setting, sampler][0], *(r for r in results.others if _is_like(r, setting, sampler))]
            for sampler in (MB["printed"], AUTO)
        }
        for sampler, runs in found.items():
            gaps = [r.scores.mean() - auto.scores.mean() for r, auto in zip(runs, found[AUTO], strict=True)]
            cells = [
                f"{r.edges.mean():.1f}" + (f" ({gap:+.0f})" if gap else "") for r, gap in zip(runs, gaps, strict=True)
            ]
            lines.append(f"{setting!s:26s} {sampler.label:18s} {', '.join(cells)}")
    return "\n".join(lines)


def six_table(results: Results) -> str:
    """eMC3 with as many proposals as MB-MCMC."""
    lines = []
    for setting in (ALARM[7000], INSURANCE[10_000]):
        for r in results.runs[setting, EMC3_SIX]:
            low, high = edge_range(r)
            lines.append(f"{setting!s:26s} {r.start:6s} {low}-{high} edges, log score {score_gap(results, r):+.1f}")
    return "\n".join(lines)


def score_gap(results: Results, r: Run) -> float:
    """Mean log score of the second half, less the posterior mean, nats."""
    return float(r.scores.mean()) - results.reference_score(r.setting)


def mean_edges(runs: tuple[Run, ...]) -> float:
    return float(np.mean([r.edges.mean() for r in runs]))


def mean_score(runs: tuple[Run, ...]) -> float:
    return float(np.mean([r.scores.mean() for r in runs]))


def ess_per_million_steps(r: Run) -> float:
    scores: NDArray[np.float64] = r.scores[None]
    return float(diagnose_real(scores).bulk_ess) / (r.iterations * r.sampler.steps / 2) * 1e6


def scan_of(results: Results, setting: Setting, kernel: str) -> list[Run]:
    published = kernel == "printed"
    return [r for r in results.scan if r.setting == setting and r.sampler.move.published == published]


def by_setting(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda r: (r.sampler.move.w != 0.95, r.sampler.move.k, r.sampler.move.w))


def _is_like(r: Run, setting: Setting, sampler: Sampler) -> bool:
    return (r.setting.network, r.setting.n_records, r.sampler) == (setting.network, setting.n_records, sampler)


def _wrapped(cells: tuple[str, ...], widths: tuple[int, ...]) -> Iterator[str]:
    folded = [textwrap.wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, folded))):
        line = [lines[number] if number < len(lines) else "" for lines in folded]
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()

r"""Has a run over graphs converged?  A verdict in words, with its reasons and what to do.

The chains start far apart: one at the empty graph, one at the best that a search finds, one at a dense graph, the
others at random ones.  The verdict asks whether they have come to agree: in the log score (split, rank-normalised
R-hat; it shows chains that sit in different modes), and in every edge whose error is large enough to matter.  An edge
that is present in one draw of ten thousand has an R-hat that means little, and no influence.  Last, the slowest of all
quantities must have enough effective draws, and an audit with other moves must have found nothing that the chains have
missed (`doxa.structure.runs.audit`).

Two posteriors over the same nodes, edge by edge: do two runs, samplers, priors or tables say the same?

With probabilities :math:`p_1, p_2` and independent Monte Carlo errors :math:`s_1, s_2`, the difference
:math:`p_2 - p_1` has the error :math:`\sqrt{s_1^2 + s_2^2}`, and z is the one over the other.  Two runs of one
posterior give z about normal, if the chains have converged: a large z then says that the posteriors differ.  It says
nothing of how much; look at the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data.options import shown
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Verdict
from doxa.estimates.indicators import IndicatorDiagnostics, Status
from doxa.sampling.agreement import LEAST_ESS, R_HAT_LIMIT
from doxa.structure.exact.dag_budget import affordable_sum
from doxa.structure.posterior.relations import wide_shares
from doxa.text import duration, listed, memory

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior


__all__ = [
    "MCSE_THAT_MATTERS",
    "R_HAT_LIMIT",
    "PosteriorComparison",
    "Verdict",
    "compare_posteriors",
    "judge",
    "notes",
    "wide_families",
]


MCSE_THAT_MATTERS = 0.01  # an edge known to better than that is settled, whatever its R-hat
_PROBABLE, _LOOKED_AT = 0.05, 2000  # of a family; sampled graphs that are looked at
_LINKED, _LEAST_ARRIVALS = 0.02, 20  # of swaps that are accepted where rungs hang together; of graphs from the last
_LONGER = 4  # times as many draws are advised
_WORTH_SAYING, _ROOM_TO_SAY = 60.0, 500_000_000  # seconds and bytes: less is not worth a word
STUCK_R_HAT, STUCK_NATS = 1.5, 10.0  # of the log score: chains this far apart do not visit each other's modes


def judge(posterior: StructurePosterior) -> Verdict:
    """Judge a run; see the module docstring for the rules."""
    converged, reason, advice = _judge(posterior)
    stopped = "" if posterior.stop is None else posterior.stop.text
    found = Verdict.of_chains(converged, f"{reason}.", stopped, notes(posterior), advice=advice)
    bias = posterior.sampler.bias
    if bias is None:
        return found
    # The chains may agree, on the wrong answer: nothing that only asks `converged` may take it for right.
    rest = "The chains agree with each other." if converged else f"{found.status}: {found.reason}"
    return Verdict(False, "Biased", f"{bias}. {rest}")


def _judge(posterior: StructurePosterior) -> tuple[bool | None, str, str]:
    diagnostics = posterior.edge_diagnostics
    adjacency = posterior.adjacency_diagnostics
    score = posterior.log_score_diagnosis
    n_chains, n_draws = posterior.n_edges.shape
    only = _only_graph(posterior)
    if only and not posterior.options.n_missing:
        return True, only, ""
    if n_chains == 1:
        return None, "one chain alone cannot show that others would agree", "Run several: chains=4."
    if posterior.stop is not None and posterior.stop.is_provisional:
        advice = "Allow more time: max_seconds. A run that is kept in a file goes on: doxa.resume, or --resume."
        return False, f"these {n_draws} draws of each chain are of a warm-up that was not over", advice
    off_diagonal = ~np.eye(len(posterior.names), dtype=np.bool_)
    if not only and (diagnostics.status[off_diagonal] == Status.CANNOT_TELL).any():
        advice = (
            _longer(posterior) if n_chains > 2 else "Three chains or more from starts far apart can tell: chains=4."
        )
        return None, f"no edge changed in {n_draws} draws of {n_chains} chains", advice
    unsettled = off_diagonal & _unsettled(diagnostics)
    unsettled_pairs = np.triu(off_diagonal & _unsettled(adjacency))
    if score.r_hat > R_HAT_LIMIT or unsettled.any() or unsettled_pairs.any():
        return False, _disagreement(posterior, unsettled, unsettled_pairs), _longer(posterior)
    # The slowest of all that changed; the log score says nothing when it is the same for every graph that was seen.
    ess = posterior.reference_ess
    if not ess >= LEAST_ESS:
        reason = f"the slowest quantity has only {ess:.0f} effective draws (at least {LEAST_ESS:.0f} are wanted)"
        return False, reason, _more(posterior)
    few = _few_arrivals(posterior)
    if few:
        return False, few, _more(posterior)
    audit = None if posterior.stop is None else posterior.stop.audit
    if audit is not None and audit.found:
        return False, audit.found, _longer(posterior)
    from doxa.estimates.accuracy import cautious_error

    worst = float(np.where(off_diagonal, cautious_error(diagnostics), 0.0).max())  # as the stopping rule has it
    log_score = (
        "the log score never changed" if np.isnan(score.r_hat) else f"R-hat of the log score {_shown(score.r_hat)}"
    )
    if only:
        return True, f"{only}; {n_chains} chains agree about the missing cells ({log_score})", ""
    reason = (
        f"{n_chains} chains{_starts(posterior)} agree ({log_score}); "
        f"no edge probability has a Monte Carlo error above {worst:.2g}"
    )
    if audit is None:
        return True, reason, ""
    again = "" if audit.n_starts == 1 else f", after chains had started {audit.n_starts} times, from what it found"
    return True, f"{reason}; a search with other moves found no better mode{again}", ""


def _few_arrivals(posterior: StructurePosterior) -> str:
    """In words, that temperatures were of no use to chains that needed them; empty where they were, or there are none.

    Of rungs that trade places at all, those are meant that hang together with the first.  Where hardly any graph came
    from the hottest of them to the first, the chains are as good as alone in the modes where they began.
    """
    info, last = posterior.trace.info, 0
    if posterior.sampler.name != "auto":  # which takes them where chains disagree; others are asked for
        return ""
    while f"swaps_{last}" in info and info[f"swapped_{last}"].sum() >= _LINKED * max(1, info[f"swaps_{last}"].sum()):
        last += 1
    arrivals = int(info[f"from_{last}"].sum()) if last and f"from_{last}" in info else _LEAST_ARRIVALS
    if arrivals >= _LEAST_ARRIVALS:
        return ""
    return (
        f"the chains needed temperatures, and only {arrivals} graphs came from the hottest of {last + 1} that trade "
        f"places to the first (at least {_LEAST_ARRIVALS} are wanted): modes that are hard to reach may be missing"
    )


def notes(posterior: StructurePosterior) -> str:
    """In words, what a reader of any verdict should know; empty if there is nothing."""
    return " ".join(filter(None, (_never_watched(posterior), wide_families(posterior))))


def _never_watched(posterior: StructurePosterior) -> str:
    """In words, that somebody intervened on columns in every row; empty if there is none."""
    sets = posterior.options.target_sets
    always = [name for name in posterior.names if sets and all(name in one for one in sets)]
    if not always:
        return ""
    return (
        f"Somebody intervened on {shown(always)} in every row: the table says nothing of the parents, which are as the "
        "prior has them, nor of the parameters."
    )


def wide_families(posterior: StructurePosterior) -> str:
    """In words, that nodes have probable parents with more configurations than there are rows; empty if none has."""
    options = posterior.options
    if not options.score.is_counted or options.max_configurations is not None or not options.n_states:
        return ""
    rows = posterior.trace["rows"]
    every = max(1, rows.shape[1] * rows.shape[0] // _LOOKED_AT)
    graphs = rows[:, ::every].reshape(-1, *rows.shape[2:])
    probability = wide_shares(graphs, np.log(np.array(options.n_states, dtype=np.float64)), np.log(options.n_rows))
    found = probability > _PROBABLE
    if not found.any():
        return ""
    worst = int(probability.argmax())
    many = f"{int(found.sum())} columns have" if found.sum() > 1 else f"{posterior.names[worst]!r} has"
    return (
        f"{many} probable parents with more configurations than the {options.n_rows} rows (most so "
        f"{posterior.names[worst]!r}: probability {probability[worst]:.2g}), tables of which say almost nothing: take "
        "prior='sparse', max_parents=3 or fewer bins."
    )


def _only_graph(posterior: StructurePosterior) -> str:
    """In words, that the limits leave one graph; empty when they leave more."""
    options = posterior.options
    if not any(options.max_parents):
        return "with max_parents=0 the empty graph is the only one"
    if len(posterior.names) < 2 or not options.limits.one_graph:
        return ""
    return "the required and forbidden edges and max_parents leave one graph"


def _starts(posterior: StructurePosterior) -> str:
    """Where the chains began: `doxa.structure.moves.sampler`, `doxa.structure.cases.incomplete.cells_sampler`."""
    n_chains = len(posterior.n_edges)
    if "begun_at_kept" in posterior.trace.info:  # `doxa.Posterior.update`
        others = ["the empty graph", *["a dense graph"] * (n_chains > 2), *["random graphs"] * (n_chains > 4)]
        return f" from {', '.join(others)} and graphs of an older posterior"
    more = ["a dense graph", "a random graph" if n_chains == 4 else "random graphs"][: max(0, n_chains - 2)]
    starts = ["the empty graph", "the best graph of a search", *more]
    return f" from {', '.join(starts[:-1])} and {starts[-1]}"


def _unsettled(diagnostics: IndicatorDiagnostics) -> NDArray[np.bool_]:
    """Quantities on which chains disagree, and whose error is large enough to matter."""
    with np.errstate(invalid="ignore"):  # R-hat is nan where nothing ever changed
        return np.asarray((diagnostics.r_hat > R_HAT_LIMIT) & (diagnostics.mcse > MCSE_THAT_MATTERS))


def _disagreement(posterior: StructurePosterior, edges: NDArray[np.bool_], pairs: NDArray[np.bool_]) -> str:
    score = posterior.log_score_diagnosis
    parts = []
    if score.r_hat > R_HAT_LIMIT:
        means = ", ".join(f"{mean:.1f}" for mean in posterior.log_score.mean(axis=1))
        parts.append(f"the log score has R-hat {_shown(score.r_hat)} (limit {R_HAT_LIMIT}; mean by chain {means})")
    for found, diagnostics, arrow, what in (
        (edges, posterior.edge_diagnostics, "->", "edge"),
        (pairs, posterior.adjacency_diagnostics, "--", "adjacency"),
    ):
        if found.any():
            r_hat = np.where(found, diagnostics.r_hat, 0.0)
            i, j = np.unravel_index(r_hat.argmax(), r_hat.shape)
            name = f"{posterior.names[i]} {arrow} {posterior.names[j]}"
            many = f"{int(found.sum())} {what} probabilities, most" if found.sum() > 1 else f"one {what} probability,"
            limit = f"R-hat {_shown(float(r_hat.max()))} (limit {R_HAT_LIMIT})"
            parts.append(f"chains disagree about {many} that of {name}: {limit}")
    return "; ".join(parts)


def _shown(r_hat: float) -> str:
    """Two decimals are too few near the limit of 1.01, and too many far above it."""
    return "infinite" if np.isinf(r_hat) else f"{r_hat:.4f}" if r_hat < 1.1 else f"{r_hat:.1f}"


def _more(posterior: StructurePosterior) -> str:
    """Advice where nothing is wrong but the length: what will do on this table, and what it costs."""
    n_draws, stop = posterior.n_edges.shape[1], posterior.stop
    seconds = 0.0 if stop is None else stop.seconds * _LONGER * 1.5  # the warm-up of half the draws included
    long = f", about {duration(seconds)}" if seconds >= _WORTH_SAYING else ""
    run = f"draws={_LONGER * n_draws}, warmup={_LONGER * n_draws // 2}{long}."
    instead = _sum_instead(posterior)
    return f"{instead} Or run longer: {run}" if instead else f"Run longer: {run}"


def _longer(posterior: StructurePosterior) -> str:
    """Advice where chains disagree: run longer, unless they sit in different modes."""
    score = posterior.log_score_diagnosis
    means = posterior.log_score.mean(axis=1)
    if score.r_hat > STUCK_R_HAT and np.ptp(means) > STUCK_NATS:
        return (
            f"The chains sit in different modes, {np.ptp(means):.0f} nats apart, which longer runs seldom mend: trust "
            f"none of the numbers. {_sum_instead(posterior) or _other_way(posterior)}"
        )
    return f"{_more(posterior)} If it stays so, the chains are caught in different modes: trust none of the numbers."


def _sum_instead(posterior: StructurePosterior) -> str:
    """Advice to sum over all graphs, where that is affordable; empty where it is not."""
    cost = affordable_sum(posterior.options)
    if cost is None:
        return ""
    room = f" and {memory(cost.n_bytes)}" if cost.n_bytes > _ROOM_TO_SAY else ""
    return f"Sum over all graphs instead, exact=True (--exact): about {duration(cost.seconds)}{room}."


def _other_way(posterior: StructurePosterior) -> str:
    """Advice where chains are stuck and no sum is affordable."""
    if posterior.sampler.name not in ("auto", "tempered"):
        return "Leave sampler out (--sampler auto): it runs chains at several temperatures, which trade places."
    return "Select fewer columns, or limit the parents: max_parents=3 (--max-parents 3)."


class PosteriorComparison(NamedTuple):
    """How two posteriors differ."""

    edges: pd.DataFrame  # source, target, probability, other, difference, mcse, z; largest difference first
    max_difference: float  # largest absolute difference of an edge probability
    mean_difference: float  # mean absolute difference over all ordered pairs of nodes

    def __str__(self) -> str:
        """The largest difference, the largest z and the mean, in one line."""
        first, surest = self.edges.iloc[0], self.edges.iloc[int(self.edges["z"].abs().to_numpy().argmax())]
        return (
            f"largest difference {first['difference']:+.4f} +/- {first['mcse']:.4f} ({first['source']} -> "
            f"{first['target']}), largest |z| {abs(surest['z']):.1f} ({surest['source']} -> {surest['target']}), mean "
            f"absolute difference {self.mean_difference:.4f}, of {len(self.edges)} edges"
        )


def compare_posteriors(posterior: StructurePosterior, other: StructurePosterior) -> PosteriorComparison:
    """Compare the edge probabilities of two posteriors.

    Parameters
    ----------
    posterior, other : StructurePosterior
        Over the same nodes, in any order; from independent runs (different seeds).

    Returns
    -------
    PosteriorComparison
        ``edges`` has a row for each ordered pair of nodes: ``source, target, probability, other, difference, mcse, z``,
        the largest absolute difference first.  ``difference`` is ``other - probability``, and ``mcse`` its Monte Carlo
        error.

    Raises
    ------
    ArgumentError
        If the two are not over the same nodes.
    ArgumentTypeError
        If ``other`` is not a posterior over graphs.

    Notes
    -----
    Of many z some are large by chance: of 30 the largest exceeds 3.1 in one comparison of equal posteriors in
    twenty, of 1332 (37 nodes) 4.1.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("reinis")
    >>> one, two = (doxa.learn(table, draws=500, seed=seed) for seed in (1, 2))
    >>> one.compare(two).max_difference < 0.1
    True
    """
    from doxa.frames import ReadFrame

    if not hasattr(type(other), "edge_diagnostics"):
        raise ArgumentTypeError(f"other is {other!r}; it must be a posterior over graphs, as doxa.learn returns")
    names = posterior.names
    lacks, has = (listed([x for x in a if x not in b]) for a, b in ((names, other.names), (other.names, names)))
    if lacks or has:
        parts = [f"lacks the nodes {lacks}"] * bool(lacks) + [f"has the nodes {has} besides"] * bool(has)
        raise ArgumentError(f"other {' and '.join(parts)}; posteriors can be compared over the same nodes only")
    mine, theirs = posterior.edge_diagnostics, other.edge_diagnostics
    i, j = np.nonzero(~np.eye(len(names), dtype=np.bool_))
    there = np.array([other.names.index(name) for name in names])
    first, second = mine.probability[i, j], theirs.probability[there[i], there[j]]
    difference = second - first
    mcse = np.hypot(mine.mcse[i, j], theirs.mcse[there[i], there[j]])
    certain = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))  # both exact
    z = np.divide(difference, mcse, out=certain, where=mcse > 0)
    frame = ReadFrame(
        {
            "source": [names[k] for k in i],
            "target": [names[k] for k in j],
            "probability": first,
            "other": second,
            "difference": difference,
            "mcse": mcse,
            "z": z,
        }
    ).iloc[np.argsort(-np.abs(difference), kind="stable")]
    size = np.abs(difference)
    return PosteriorComparison(frame.reset_index(drop=True), float(size.max()), float(size.mean()))

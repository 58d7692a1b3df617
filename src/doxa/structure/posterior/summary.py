"""The page of text that `StructurePosterior.summary` returns, and what shells and notebooks show of a posterior.

Draws of graphs in the shapes that other tools read: an ArviZ DataTree, and a plain frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data.slices import name_and_lag
from doxa.errors import MissingExtraError
from doxa.models.bits import unpack_rows
from doxa.text import duration, printable

if TYPE_CHECKING:
    import pandas as pd

    from doxa.estimates.estimate import Estimate
    from doxa.structure.posterior.structure_posterior import StructurePosterior
    from doxa.structure.runs.options import RunOptions

__all__ = [
    "RankedEdge",
    "cache_text",
    "cap_text",
    "draws_frame",
    "draws_to_arviz",
    "n_temperatures",
    "posterior_card",
    "posterior_text",
    "prior_text",
    "ranked_edges",
    "run_text",
    "summary_text",
    "tempering_cost",
]

_IN_A_SHELL, _IN_A_NOTEBOOK, _IN_THE_PICTURE, _PICTURED = 5, 8, 40, 0.1  # edges; of pictured ones the least probability


def draws_to_arviz(posterior: StructurePosterior) -> Any:
    """See `StructurePosterior.to_arviz`."""
    try:
        from arviz_base import from_dict
    except ModuleNotFoundError as error:
        raise MissingExtraError("to_arviz needs the package arviz-base: pip install 'doxa[arviz]'") from error
    trace = posterior.trace
    edges = _edges(posterior)
    varied = (edges != edges[:1, :1]).any(axis=(0, 1))
    named = {changed: _pairs(posterior, varied == changed) for changed in (True, False)}
    (source, target, labels), (always_source, always_target, always_labels) = named[True], named[False]
    draws = {
        "edge": edges[:, :, source, target].astype(np.int8),  # not bool: arviz-stats' summary cannot subtract booleans
        "log_score": trace["log_score"],
        "n_edges": trace["n_edges"],
    }
    tree = from_dict(
        {
            "posterior": draws,
            "constant_data": {"constant_edge": edges[0, 0, always_source, always_target].astype(np.int8)},
        },
        coords={"edge_name": labels, "constant_edge_name": always_labels},
        dims={"edge": ["edge_name"], "constant_edge": ["constant_edge_name"]},
    )
    tree["posterior"].attrs.update(
        sampler=repr(posterior.sampler), thin=trace.thin, n_warmup=trace.n_warmup, seed=str(trace.entropy)
    )
    return tree


def _pairs(
    posterior: StructurePosterior, wanted: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp], list[str]]:
    """Ends and names of the ordered pairs of nodes that are wanted."""
    i, j = np.nonzero(wanted & ~np.eye(len(posterior.names), dtype=np.bool_))
    names = posterior.names
    return i, j, [f"{names[a]} -> {names[b]}" for a, b in zip(i.tolist(), j.tolist(), strict=True)]


def draws_frame(posterior: StructurePosterior) -> pd.DataFrame:
    """See `StructurePosterior.to_frame`."""
    import pandas as pd

    n_chains, n_draws = posterior.n_edges.shape
    edges = _edges(posterior).reshape(n_chains * n_draws, len(posterior.names), len(posterior.names))
    columns: dict[str, Any] = {
        "chain": np.repeat(np.arange(n_chains), n_draws),
        "draw": np.tile(np.arange(n_draws), n_chains),
        "log_score": posterior.log_score.ravel(),
        "n_edges": posterior.n_edges.ravel(),
    }
    for i, source in enumerate(posterior.names):
        for j, target in enumerate(posterior.names):
            if i != j:
                columns[f"{source} -> {target}"] = edges[:, i, j].astype(np.int8)
    return pd.DataFrame(columns)


def _edges(posterior: StructurePosterior) -> NDArray[np.bool_]:
    """Indicators of all edges, shape (chain, draw, source, target)."""
    return unpack_rows(posterior.trace["rows"], len(posterior.names))


class RankedEdge(NamedTuple):
    """One line of an edge table."""

    source: str
    target: str
    estimate: Estimate
    r_hat: float  # nan where the edge never changed
    joined: Estimate  # of an edge in either direction


def ranked_edges(posterior: StructurePosterior, most: int) -> list[RankedEdge]:
    """The ``most`` probable directed edges, most probable first; ties in the order of the columns."""
    diagnostics, pairs = posterior.edge_diagnostics, posterior.adjacency_diagnostics
    pairs_of = ~np.eye(len(posterior.names), dtype=np.bool_)
    pairs_of[:, posterior.options.n_present :] = False  # nothing leads into the past
    off_diagonal = np.argwhere(pairs_of)
    order = np.argsort(-diagnostics.probability[tuple(off_diagonal.T)], kind="stable")[:most]
    return [
        RankedEdge(
            posterior.names[i],
            posterior.names[j],
            diagnostics.estimate((i, j)),
            float(diagnostics.r_hat[i, j]),
            pairs.estimate((i, j)),
        )
        for i, j in off_diagonal[order].tolist()
    ]


def summary_text(posterior: StructurePosterior, most: int) -> str:
    """The run, the ``most`` probable edges with their errors, and the verdict."""
    edges_of_a_graph = f"edges in a graph: {posterior.expected_edges}"
    return "\n".join(
        [run_text(posterior), "", *_edge_lines(posterior, most), "", edges_of_a_graph, printable(posterior.verdict)]
    )


def posterior_text(posterior: StructurePosterior) -> str:
    """What a shell shows: the answer and the verdict, in a few lines."""
    return "\n".join([_title(posterior), *_edge_lines(posterior, _IN_A_SHELL), printable(posterior.verdict)])


def posterior_card(posterior: StructurePosterior) -> str:
    """What a notebook shows: HTML with the verdict, the probable edges as a picture and as a table."""
    from doxa.notebook import Arrow, arrows, bar, card, report_link

    ranked = ranked_edges(posterior, _IN_THE_PICTURE)
    pictured = [edge for edge in ranked if edge.estimate.value >= _PICTURED]
    ends = {name for edge in pictured for name in (edge.source, edge.target)}
    drawn = [Arrow(edge.source, edge.target, edge.estimate.value) for edge in pictured]
    rows = [
        (f"{edge.source} → {edge.target}", bar(edge.estimate), str(edge.estimate), f"{edge.joined.value:.3f}")
        for edge in ranked[:_IN_A_NOTEBOOK]
    ]
    return card(
        _title(posterior),
        posterior.judgement,
        ("edge", "", "probability", "either direction"),
        rows,
        picture=arrows([name for name in posterior.names if name in ends], drawn) if pictured else None,
        more=(_rest(posterior, len(rows)), report_link(posterior)),
    )


def _title(posterior: StructurePosterior) -> str:
    n_chains, n_draws = posterior.n_edges.shape
    how = f"{n_chains} chains of {n_draws} draws, {posterior.sampler.name}"
    if n_temperatures(posterior) > 1:
        how += f" at {n_temperatures(posterior)} temperatures"
    if posterior.sampler.name == "exact":
        how = f"{posterior.n_edges.size} independent draws"
    n = posterior.options.n_present
    past = f" and {len(posterior.names) - n} of their past" if n < len(posterior.names) else ""
    return f"{type(posterior).__name__}: {n} nodes{past}, {how}"


def _edge_lines(posterior: StructurePosterior, most: int) -> list[str]:
    """The ``most`` probable edges, a line each, and how many there are besides."""
    rows = [("edge", "probability")]
    rows += [(printable(f"{e.source} -> {e.target}"), str(e.estimate)) for e in ranked_edges(posterior, most)]
    width = max(len(name) for name, _ in rows)
    return [*(f"{name:<{width}}  {value}" for name, value in rows), *filter(None, [_rest(posterior, len(rows) - 1)])]


def _rest(posterior: StructurePosterior, n_shown: int) -> str:
    n_left = posterior.options.n_present * (len(posterior.names) - 1) - n_shown
    return f"... {n_left} more: see edges()" if n_left else ""


def run_text(posterior: StructurePosterior) -> str:
    """What was run, in two lines: data and sampler."""
    options, trace = posterior.options, posterior.trace
    n_chains, n_draws = posterior.n_edges.shape
    if posterior.sampler.name == "exact":
        how = f"summed over all graphs; {n_chains} x {n_draws} independent draws of graphs; seed {trace.entropy}"
    else:
        accepted = trace.info["accepted"].sum() / max(1, trace.info["proposed"].sum())
        tempered = tempering_cost(posterior)
        how = (
            f"{posterior.sampler!r}: {n_chains} {'chain' if n_chains == 1 else 'chains'} x {n_draws} draws, one every "
            f"{trace.thin} steps, after {trace.n_warmup} steps of warm-up; {accepted:.1%} accepted; "
            f"{f'{tempered}; ' if tempered else ''}seed {trace.entropy}"
        )
    return "\n".join(
        [
            f"{options.n_rows} rows x {options.n_present} columns{_time_text(options)}{_numbers_text(options)}; "
            f"{options.score.text}; {prior_text(posterior)}; "
            f"{cap_text(posterior)}",
            how,
        ]
    )


def n_temperatures(posterior: StructurePosterior) -> int:
    """At how many temperatures each chain was drawn; 1 where none was tempered."""
    return 1 + sum(name.startswith("swaps_") for name in posterior.trace.info)


def tempering_cost(posterior: StructurePosterior) -> str:
    """In words, why chains were tempered and what it cost; empty where none was."""
    n, spent = n_temperatures(posterior), None if posterior.stop is None else posterior.stop.spent
    cost = ""
    if spent is not None and spent.hot:
        cost = f"took {spent.hot_share:.0%} of {duration(spent.chains)} of CPU time"
    why = ", since the chains disagreed" if posterior.sampler.name == "auto" else ""
    if n == 1:
        return f"temperatures in the warm-up alone{why}, {cost}" if cost else ""
    return f"{n} temperatures{why}" + (f"; all but the first {cost}" if cost else "")


def _time_text(options: RunOptions) -> str:
    """That rows are moments in time, and what was made of them."""
    return "" if options.order is None else f" and their past ({options.order.text}: {options.of_time})"


def _numbers_text(options: RunOptions) -> str:
    """Which columns hold numbers, in a few words; nothing where none does."""
    numbers = [name for name in options.numbers if not name_and_lag(name)[1]]
    scales = dict(options.transforms)
    if not numbers:
        return ""
    named = ", ".join(f"{scales[name]} of {name}" if name in scales else name for name in numbers[:6])
    named += f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
    return f" ({named}: numbers)"


def cache_text(posterior: StructurePosterior) -> str:
    """Memory and work of the score caches of this process; unlike the draws, it depends on the workers."""
    use = posterior.cache
    if use is None:
        return ""
    text = f"score cache: {use.n_scores} families in {use.n_bytes / 2**20:.1f} MiB, {use.n_misses} counted in the data"
    return text + (f", {use.n_evictions} replaced" if use.n_evictions else "")


PRIOR_TEXTS = {
    "sparse": "sparse prior over graphs",
    "uniform": "uniform prior over graphs",
    "in_degree": "uniform prior over numbers of parents",
}


def prior_text(posterior: StructurePosterior) -> str:
    """The prior over graphs, and hard knowledge, in words."""
    options = posterior.options
    parts = [PRIOR_TEXTS[options.prior]]
    if options.edge_log_odds:
        n_edges = len(options.edge_log_odds)
        values = {value for _, _, value in options.edge_log_odds}
        said = f"of {min(values):+g}" if len(values) == 1 else f"from {min(values):+g} to {max(values):+g}"
        parts.append(f"log odds {said} on {n_edges} {'edge' if n_edges == 1 else 'edges'}")
    for count, what in ((len(options.required), "required"), (len(options.forbidden), "forbidden")):
        if count:
            parts.append(f"{count} {what} {'edge' if count == 1 else 'edges'}")
    return ", ".join(parts)


def cap_text(posterior: StructurePosterior) -> str:
    """The in-degree cap in force, in words."""
    options = posterior.options
    caps = np.array(options.max_parents[: options.n_present])
    if (caps >= len(posterior.names) - 1).all():
        text = "any number of parents"
    elif (caps == caps[0]).all():
        text = f"at most {caps[0]} {'parent' if caps[0] == 1 else 'parents'}"
    else:
        text = f"at most {caps.min()} to {caps.max()} parents"
    most = options.max_configurations
    return text if most is None else f"{text} with at most {most} configurations"

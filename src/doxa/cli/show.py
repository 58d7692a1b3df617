"""`doxa show`: what is in a run file, posteriors over graphs or of parameters, on the terminal and in files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import doxa
from doxa.cli.words import aligned
from doxa.text import counted, printable, span

if TYPE_CHECKING:
    from doxa.parameters.fitted import FittedParameters
    from doxa.parameters.report import PartReport
    from doxa.structure import StructurePosterior
    from doxa.structure.averaging import RegressionPosterior
    from doxa.structure.averaging.given_graph import GraphFit
    from doxa.structure.averaging.posterior import Posterior
    from doxa.structure.posterior.summary import RankedEdge

__all__ = [
    "show",
    "show_effects",
    "show_fit",
    "show_forecast",
    "show_graphs",
    "show_parameters",
    "show_slopes",
    "show_tables",
    "write_edges",
    "write_summary",
]

_ROWS_SHOWN = 100
_PARTS_SHOWN = 8
_NAMES_SHOWN = 6


def show_parameters(posterior: FittedParameters) -> None:
    """Print what was fitted, how, the table of parameters and the verdict."""
    for line in filter(None, (posterior.coding_text, _data_text(posterior), _model_text(posterior))):
        print(printable(line))
    trace = posterior.trace
    kept = f"{counted(posterior.n_chains, 'chain')} x {posterior.n_draws} {posterior.kept}"
    print(f"{kept} after {trace.n_warmup // trace.thin} of warm-up; seed {trace.entropy}")
    for line in _method_lines(posterior):
        print(printable(line))
    print()
    head = ("node", "coefficient", "mean", "sd", "95% interval", "odds ratio (95%)", "mcse", "ess", "r_hat")
    rows: list[tuple[str, ...]] = [head]
    summary = posterior.summary()
    rows += [_row(posterior, *values) for values in summary.head(_ROWS_SHOWN).itertuples(index=False)]
    print(aligned(rows, n_left=2))
    if len(summary) > _ROWS_SHOWN:
        print(f"... and {len(summary) - _ROWS_SHOWN} more; --output FILE writes all")
    print()
    print(f"log marginal likelihood: {_evidence_text(posterior)}")
    print(printable(posterior.verdict))


def show_fit(posterior: FittedParameters | GraphFit) -> None:
    """Print a fit, of coefficients, of tables or of regressions."""
    from doxa.structure.averaging.given_graph import GraphFit

    if isinstance(posterior, GraphFit):
        show_tables(posterior)
    else:
        show_parameters(posterior)


def show_tables(posterior: GraphFit) -> None:
    """Print the entries of the tables of a graph, or its regressions, the evidence and the verdict."""
    from doxa.structure.averaging import TablePosterior

    options = posterior.options
    cells = f"{options.n_missing} missing cells" if options.n_missing else "no missing cells"
    print(f"{options.n_rows} rows x {len(posterior.names)} nodes; {cells}")
    of_tables = isinstance(posterior, TablePosterior)
    what = "tables of probabilities, by columns of any number of states" if of_tables else "regressions of numbers"
    print(f"{what}; {printable(options.score.text)}")
    if not posterior.is_closed_form:
        trace = posterior.trace
        kept = f"{counted(trace.n_chains, 'chain')} x {trace.n_draws} draws of the missing cells"
        print(f"{kept} after {trace.n_warmup // trace.thin} of warm-up; seed {trace.entropy}")
    print()
    entries = _flat_entries(posterior)
    third, digits = ("state", ".3f") if of_tables else ("term", ".4g")
    rows: list[tuple[str, ...]] = [("node", "given", third, "mean", "sd", "95% interval", "mcse", "r_hat", "cases")]
    for row in entries.head(_ROWS_SHOWN).itertuples(index=False):
        r_hat = "-" if math.isnan(row.r_hat) else f"{row.r_hat:.3f}"
        mcse = "exact" if row.mcse == 0 else "-" if math.isnan(row.mcse) else f"{row.mcse:.1g}"
        spread = f"{row.lower:{digits}} {'-' if of_tables else 'to'} {row.upper:{digits}}"
        words = (printable(row.node), printable(row.given), printable(getattr(row, third)))
        rows.append(
            (
                *words,
                f"{row.mean:{digits}}",
                f"{row.sd:{digits}}",
                spread,
                mcse,
                r_hat,
                f"{row.cases:.1f}".removesuffix(".0"),
            )
        )
    print(aligned(rows, n_left=3))
    if len(entries) > _ROWS_SHOWN:
        print(f"... and {len(entries) - _ROWS_SHOWN} more; --output FILE writes all")
    print()
    if of_tables or posterior.is_closed_form:
        print(f"log marginal likelihood: {posterior.log_marginal_likelihood}")
    print(printable(posterior.verdict))


def _flat_entries(posterior: GraphFit) -> Any:
    """The entries, or all terms, with the states of the parents in a line, as files hold them."""
    from doxa.structure.averaging import RegressionPosterior

    frame = _all_terms(posterior) if isinstance(posterior, RegressionPosterior) else posterior.entries()
    pairs = zip(frame["parents"], frame["given"], strict=True)
    frame["given"] = [", ".join(map(" = ".join, zip(names, given, strict=True))) or "-" for names, given in pairs]
    return frame.drop(columns="parents")


def _all_terms(posterior: RegressionPosterior) -> Any:
    """Regressions, log odds and entries of tables, one below the other."""
    import pandas as pd

    parts = [posterior.regressions()]
    odds, entries = posterior.log_odds(), posterior.entries()
    if len(odds):
        terms = [f"log odds of {state}: {term}" for state, term in zip(odds["state"], odds["term"], strict=True)]
        parts.append(odds.assign(term=terms).drop(columns="state"))
    if len(entries):
        parts.append(entries.assign(term=[f"P({s})" for s in entries["state"]]).drop(columns="state"))
    return pd.concat(parts, ignore_index=True)


def write_summary(posterior: FittedParameters | GraphFit, path: Path) -> None:
    """Write the table of all parameters."""
    from doxa.output import write_frame
    from doxa.structure.averaging.given_graph import GraphFit

    summary = _flat_entries(posterior) if isinstance(posterior, GraphFit) else posterior.summary()
    write_frame(summary, path)
    print(f"\nAll {len(summary)} parameters are in {printable(str(path))}.")


def _row(
    posterior: FittedParameters,
    node: str,
    label: str,
    mean: float,
    sd: float,
    lower: float,
    upper: float,
    mcse: float,
    ess: float,
    r_hat: float,
) -> tuple[str, ...]:
    """One line of the table: means to the digits that their errors leave, intervals to a hundredth of their width."""
    wide = _decimals(sd / 10)
    ratio, least, most = (_ratio(posterior.odds_ratio(x)) for x in (mean, lower, upper))
    return (
        printable(node),
        printable(label),
        f"{mean:.{_decimals(mcse)}f}",
        f"{sd:.{wide}f}",
        f"{lower:.{wide}f} to {upper:.{wide}f}",
        f"{ratio} ({least} to {most})" if label in posterior.network.parents(node) else "-",
        "-" if math.isnan(mcse) else f"{mcse:.1g}",
        f"{ess:.0f}" if math.isfinite(ess) else "-",
        "-" if math.isnan(r_hat) else f"{r_hat:.3f}",
    )


def _ratio(ratio: float) -> str:
    """Two decimals or two figures, and no powers of ten: beyond a million to one a ratio is a bound."""
    if not 1e-6 < ratio < 1e6:
        return ">1000000" if ratio > 1 else "<0.000001"
    if ratio >= 100:
        return f"{ratio:.0f}"
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.{1 - math.floor(math.log10(ratio))}f}"


def _decimals(unit: float) -> int:
    """Decimals at which the first digit of ``unit`` stands."""
    return min(8, max(0, -math.floor(math.log10(unit)))) if math.isfinite(unit) and unit > 0 else 3


def _data_text(posterior: FittedParameters) -> str:
    """Rows and nodes, what is missing and hidden, and which state counts as 1."""
    report, names = posterior.report, posterior.network.names
    hidden = [name for name in names if name not in posterior.states]
    parts = [f"{report.n_rows} rows x {counted(len(names), 'node')}"]
    if hidden:
        parts.append(f"hidden: {_listed(hidden)}")
    n_cells = report.n_missing - report.n_rows * len(hidden)
    parts.append(f"{counted(n_cells, 'missing cell')}, summed out" if n_cells else "no missing cells")
    ones: dict[str, list[str]] = {}
    for name in names:
        if len(states := posterior.states.get(name, ())) == 2:
            ones.setdefault(states[1], []).append(name)
    if len(ones) == 1:
        parts.append(f"1 means {next(iter(ones))!r}")
    elif ones:
        parts.append("1 means " + ", ".join(f"{state!r} ({_listed(nodes, 3)})" for state, nodes in ones.items()))
    return "; ".join(parts)


def _model_text(posterior: FittedParameters) -> str:
    """Prior, fixed biases and given roots."""
    import numpy as np

    network = posterior.network
    parts = []
    families = [node for node in network.names if network.parents(node)]
    if network.learned_scale is not None:
        scales = _listed(list(network.scales))
        words = network.learned_scale.words
        parts.append(f"normal prior of learned scale ({scales}: {words}) on coefficients of parents")
    if priors := [network.prior(node) for node in families if not network.scale_of(node)]:
        means = np.concatenate([prior.mean for prior in priors])
        scales = np.sqrt(np.concatenate([np.diag(prior.covariance) for prior in priors]))
        correlated = any((prior.covariance != np.diag(np.diag(prior.covariance))).any() for prior in priors)
        parts.append(
            f"normal prior of mean {span(means)} and standard deviation {span(scales)} on the coefficients"
            + (", correlated" if correlated else "")
        )
    fixed = {node: bias for node in families if (bias := network.bias(node)) is not None}
    if fixed:
        parts.append(f"bias fixed at {span(list(fixed.values()))} for {_listed(list(fixed))}")
    given = [node for block in network.root_blocks if block.probabilities is not None for node in block.nodes]
    if given:
        parts.append(f"probability given for {_listed(given)}")
    return "; ".join(parts)


def _method_lines(posterior: FittedParameters) -> list[str]:
    """One line a part; where there are many, one line a method."""
    groups: dict[Any, list[int]] = {}
    parts = posterior.report.parts
    many = len(parts) > _PARTS_SHOWN
    for k, part in enumerate(parts):
        groups.setdefault(part.method if many or part.method == "exact" else k, []).append(k)
    return [_method_text(posterior, members) for members in groups.values()]


def _method_text(posterior: FittedParameters, members: list[int]) -> str:
    parts: list[PartReport] = [posterior.report.parts[k] for k in members]
    names = _listed([node for part in parts for node in part.nodes])
    method, why = parts[0].method, parts[0].why
    if method in ("exact", "variational"):
        return f"{names}: {method}, {why}"
    rates = [float(posterior.acceptance_rates(k).mean()) for k in members]
    low, high = f"{min(rates):.1%}", f"{max(rates):.1%}"
    worst = min(parts, key=lambda part: part.efficiency)
    accepted = low if low == high else f"{low} to {high}"
    if len(members) > 1:
        why = f"least good for {_listed(list(worst.nodes))}: {worst.why}"
    return f"{names}: {method}, {accepted} accepted; {why}"


def _evidence_text(posterior: FittedParameters) -> str:
    estimate, bound = posterior.log_marginal_likelihood, posterior.log_marginal_likelihood_bound
    text = "not known" if math.isnan(estimate.value) else str(estimate)
    return text if math.isnan(bound) or estimate.exact else f"{text}; lower bound {bound:.{_decimals(estimate.mcse)}f}"


def _listed(names: list[str], most: int = _NAMES_SHOWN) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


_EDGES_SHOWN = 20


def show_graphs(posterior: StructurePosterior, most: int = _EDGES_SHOWN) -> None:
    """Print the run, the edge table and the verdict."""
    from doxa.structure.posterior.summary import cache_text, ranked_edges, run_text

    print(run_text(posterior))
    if posterior.cache is not None:
        print(cache_text(posterior))
    print()
    ranked = ranked_edges(posterior, most)
    sampled = not all(edge.estimate.exact for edge in ranked)
    of_draws = ("95% interval", "ess", "r_hat") if sampled else ()
    rows: list[tuple[str, ...]] = [("source", "target", "probability", *of_draws, "joined")]
    for edge in ranked:
        names = (printable(edge.source), printable(edge.target))
        found = _of_draws(edge) if sampled else ()
        rows.append((*names, str(edge.estimate), *found, f"{edge.joined.value:.3f}"))
    print(aligned(rows, n_left=2))
    left = posterior.options.n_present * (len(posterior.names) - 1) - most
    if left > 0:
        print(f"... and {left} less probable edges")
    print("joined: the probability of an edge between the two in either direction")
    print()
    print(f"edges in a graph: {posterior.expected_edges}")
    print(printable(posterior.verdict))


def _of_draws(edge: RankedEdge) -> tuple[str, str, str]:
    """What only a sampled probability has: its interval, effective draws and R-hat."""
    low, high = edge.estimate.interval()
    return f"{low:.3f} - {high:.3f}", f"{edge.estimate.ess:.0f}", "-" if math.isnan(edge.r_hat) else f"{edge.r_hat:.3f}"


def show_slopes(posterior: Posterior) -> None:
    """Print the slopes of the probable edges between numbers."""
    from doxa.estimates.estimate import Estimate

    print()
    if not posterior.table.is_number.any():
        print("No column holds numbers, so there are no slopes.")
        return
    slopes = posterior.slopes()
    slopes = slopes[~slopes["mean"].isna()]
    rows = [("source", "target", "probability", "slope", "sd", "credible interval (95%)")]
    shown: list[list[Any]] = slopes.head(_EDGES_SHOWN).to_numpy().tolist()
    for source, target, probability, _, mean, sd, lower, upper, mcse in shown:
        wide = _decimals(sd / 10)
        found = (str(Estimate(mean, mcse, math.nan)), f"{sd:.2g}", f"{lower:.{wide}f} to {upper:.{wide}f}")
        rows.append((printable(source), printable(target), f"{probability:.4g}", *found))
    print("Slopes between numbers, given that there is the edge, averaged over networks:")
    print(aligned(rows, n_left=2))
    if len(slopes) > _EDGES_SHOWN:
        print(f"... and {len(slopes) - _EDGES_SHOWN} of less probable edges")
    print("In units of the target a unit of the source; edges that fewer than 20 networks have are left out.")


def show_effects(posterior: Posterior, pairs: list[tuple[str, str]]) -> None:
    """Print these causal effects or, without any, the surest ones of all."""
    from doxa.data.slices import name_and_lag, past_name
    from doxa.estimates.estimate import Estimate
    from doxa.structure.averaging.effects import ASSUMPTIONS

    print()
    if pairs:
        for cause, target in pairs:
            of, lag = name_and_lag(cause) if posterior.options.order is not None else (cause, None)
            print("\n".join(printable(line) for line in repr(posterior.effect(of, target, lag=lag)).splitlines()))
        return
    effects = posterior.effects()
    rows: list[tuple[str, ...]] = [
        ("of", "from", "to", "on", "effect", "credible interval (95%)", "no effect, with probability")
    ]
    if "lag" in effects:
        earlier = zip(effects["of"], effects["lag"], strict=True)
        effects = effects.assign(of=[past_name(of, int(lag)) for of, lag in earlier]).drop(columns="lag")
    shown: list[list[Any]] = effects.drop(columns=["sd", "no_effect_mcse"]).head(_EDGES_SHOWN).to_numpy().tolist()
    for cause, before, after, target, state, mean, mcse, lower, upper, none in shown:
        wide = _decimals((upper - lower) / 40)
        ends = [f"{level:.3g}" if isinstance(level, float) else printable(level) for level in (before, after)]
        outcome = f"P({target} = {state})" if isinstance(state, str) else f"mean of {target}"
        found = (str(Estimate(mean, mcse, math.nan)), f"{lower:.{wide}f} to {upper:.{wide}f}", f"{none:.3g}")
        rows.append((printable(cause), *ends, printable(outcome), *found))
    print("Effects of setting a column, averaged over networks:")
    print(aligned(rows, n_left=4))
    if len(effects) > _EDGES_SHOWN:
        print(f"... and {len(effects) - _EDGES_SHOWN} less sure ones")
    print(ASSUMPTIONS)


def show_forecast(posterior: Posterior, ahead: int) -> None:
    """Print what comes next of every unit."""
    frame = posterior.forecast(ahead)
    print("\nWhat comes next, averaged over networks:")
    print("\n".join(printable(line) for line in frame.to_string(index=False, na_rep="").splitlines()))


def write_edges(posterior: StructurePosterior, path: Path) -> None:
    """Write the table of all edges."""
    from doxa.output import write_frame

    write_frame(posterior.edges(), path)
    print(f"\nAll {posterior.options.n_present * (len(posterior.names) - 1)} edges are in {printable(str(path))}.")


def show(
    run: Annotated[Path, typer.Argument(help="A run file, finished or under way.", metavar="RUN")],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write all edges, or the summary of a fit, to this file, too: .csv, .json or .parquet.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[
        Path | None,
        typer.Option(
            help="Write every sampled graph, or draw of the parameters, to this file, too: .csv, .json or .parquet.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what is in a run file that `doxa learn --store` or `doxa fit --store` made."""
    from doxa.output import check_output, write_frame
    from doxa.structure import StructurePosterior
    from doxa.structure.averaging.given_graph import GraphFit

    for path in (output, draws):
        check_output(path, run)
    posterior = doxa.load(run)
    if isinstance(posterior, StructurePosterior) and not isinstance(posterior, GraphFit):
        show_graphs(posterior)
        if output is not None:
            write_edges(posterior, output)
    else:
        show_fit(posterior)
        if output is not None:
            write_summary(posterior, output)
    if draws is not None:
        write_frame(posterior.to_frame(), draws)
        if isinstance(posterior, StructurePosterior):
            n_draws = posterior.n_edges.size
        else:
            n_draws = posterior.n_chains * posterior.n_draws
        print(f"\nAll {n_draws} draws are in {printable(str(draws))}.")

"""What a page about a posterior of parameters shows: facts, parameters, and evidence that the fit has converged.

Parameters have a table, densities with those of the approximation that they are proposed from, and traces; the evidence
are log densities of the fit's parts, and ranks of what agrees least.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.gelman_rubin import rank_shares
from doxa.parameters.kernels.gaussians import Student
from doxa.report.fit_method import fit_method
from doxa.report.numbers import closing_facts, decimal, decimals, diagnosis, packed, rounded, significant, verdict_box
from doxa.sampling.importance_proposals import Mixture
from doxa.text import counted, printable, span

if TYPE_CHECKING:
    import pandas as pd

    from doxa.parameters.posterior import ParameterPosterior

_DRAWS, _BINS = 40_000, 120  # of an approximation whose marginals have no formula


def marginal_density(proposal: Any, column: int, at: Floats, *, probability: bool = False) -> Floats:
    """Density of one ``column`` under an approximation of vectors, at each of some values.

    Where it is a ``probability``, its logit stands in the vector.
    """
    if not probability:
        return _density(proposal, column, at)
    inside = (at > 0) & (at < 1)
    p = np.where(inside, at, 0.5)
    return np.asarray(np.where(inside, _density(proposal, column, np.log(p) - np.log1p(-p)) / (p * (1 - p)), 0.0))


def _density(proposal: Any, column: int, at: Floats) -> Floats:
    if isinstance(proposal, Mixture):
        parts = zip(proposal.weights, proposal.components, strict=True)
        return np.asarray(sum(weight * _density(component, column, at) for weight, component in parts))
    if hasattr(proposal, "cholesky") and hasattr(proposal, "mean"):  # a normal distribution, or a t of that shape
        spread = np.linalg.norm(proposal.cholesky[column])
        one = Student(proposal.mean[column : column + 1], np.array([[spread]]), getattr(proposal, "df", np.inf))
        return np.asarray(np.exp(one.log_density(at[:, None])))
    if getattr(proposal, "n_dimensions", 0) == 1:
        return np.asarray(np.exp(proposal.log_density(at[:, None])))
    drawn = np.asarray(proposal.sample(_DRAWS, np.random.default_rng(0)))[:, column]
    share, edges = np.histogram(drawn, bins=_BINS, density=True)
    return np.asarray(np.interp(at, (edges[1:] + edges[:-1]) / 2, share, left=0.0, right=0.0))


MOST_DRAWN = 200  # parameters whose densities and traces are drawn
MOST_POINTS = 30_000  # of all traces together: 60 kB
_MOST_OF_ONE = 1200  # points of one trace, over all chains
_LEAST_OF_CHAIN = 16
BINS = 48
_TAIL = 5e-4  # of the draws, on either side, may lie outside of what is drawn


def coefficients(posterior: ParameterPosterior) -> dict[str, Any]:
    """Columns over all parameters, and ``drawn``: what is drawn of those that are slowest to agree.

    ``nodes``, and of every parameter ``node``, ``label``, ``places`` (decimals worth showing), ``mean``, ``sd``,
    ``low``, ``high``, ``mcse``, ``ess``, ``r_hat``.  ``drawn`` maps the place of a parameter among these to its
    densities and traces; ``steps`` are the draws that the traces show.
    """
    frame = posterior.summary()
    nodes = list(posterior.network.parameters)
    chosen = _slowest(frame)
    shown = kept_draws(posterior.n_chains, posterior.n_draws, len(chosen))
    labels = {node: posterior.network.coefficients(node) for node in nodes}
    place = [(node, j) for node in nodes for j in range(len(labels[node]))]
    drawn = {str(k): _drawn(posterior, *place[k], shown) for k in chosen}
    return {
        "nodes": nodes,
        "node": [nodes.index(node) for node, _ in place],
        "label": list(frame["coefficient"]),
        **_columns(frame),
        "n_chains": posterior.n_chains,
        "n_draws": posterior.n_draws,
        "steps": shown.tolist(),
        "drawn": drawn,
    }


def kept_draws(n_chains: int, n_draws: int, n_parameters: int) -> NDArray[np.intp]:
    """Draws at even distances that traces show, so that all of them have room."""
    room = min(_MOST_OF_ONE, MOST_POINTS // max(1, n_parameters))
    most = max(_LEAST_OF_CHAIN, room // n_chains)
    return np.arange(0, n_draws, -(-n_draws // most))


def histogram_range(draws: Floats, inside: tuple[float, float] = (-np.inf, np.inf)) -> tuple[float, float]:
    """Ends of what is drawn of a parameter: nearly all of its draws, and a margin, within its own limits."""
    low, high = np.quantile(draws, [_TAIL, 1 - _TAIL])
    margin = 0.06 * (high - low) if high > low else max(1e-6, 0.01 * abs(high))
    return max(inside[0], float(low - margin)), min(inside[1], float(high + margin))


def _slowest(frame: pd.DataFrame) -> list[int]:
    """All parameters, or those that fared worst in R-hat and in effective draws, half of each; in order."""
    if len(frame) <= MOST_DRAWN:
        return list(range(len(frame)))
    by_r_hat = np.argsort(-frame["r_hat"].fillna(np.inf).to_numpy(), kind="stable")
    by_ess = np.argsort(frame["ess"].to_numpy(), kind="stable")
    ranked = dict.fromkeys(np.stack([by_r_hat, by_ess], axis=1).ravel().tolist())
    return sorted(list(ranked)[:MOST_DRAWN])


def _columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    spread = frame["sd"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.where(spread > 0, 2 - np.floor(np.log10(spread)), 3)
    places = np.clip(np.nan_to_num(places, nan=3), 0, 9).astype(int)
    found: dict[str, list[Any]] = {"places": places.tolist()}
    for short, name in (("mean", "mean"), ("sd", "sd"), ("low", "lower"), ("high", "upper")):
        found[short] = [decimal(value, k) for value, k in zip(frame[name], places.tolist(), strict=True)]
    return found | {
        "mcse": significant(frame["mcse"], 2),
        "ess": decimals(frame["ess"], 0),
        "r_hat": decimals(frame["r_hat"], 4),
    }


def _drawn(posterior: ParameterPosterior, node: str, j: int, shown: NDArray[np.intp]) -> dict[str, Any]:
    draws = posterior.draws(node)[..., j]
    probability = node in posterior.network.roots
    low, high = histogram_range(draws, (0.0, 1.0) if probability else (-np.inf, np.inf))
    counts, _ = np.histogram(draws, bins=BINS, range=(low, high))
    density = counts / (draws.size * (high - low) / BINS)
    at = np.linspace(low, high, 2 * BINS + 1)
    curve, why = _curve(posterior, node, j, at, probability)
    top = float(max(density.max(), 0.0 if curve is None else curve.max()))
    kept = draws[:, shown]
    ends = float(kept.min()), float(kept.max())
    return {
        "range": significant([low, high], 6),
        "top": rounded(top, 6),
        "outside": rounded(1 - counts.sum() / draws.size, 2),
        "density": packed(density, 0.0, top),
        "curve": "" if curve is None else packed(curve, 0.0, top),
        "why": why,
        "ends": significant(ends, 6),
        "trace": packed(kept, *ends),
    }


def _curve(
    posterior: ParameterPosterior, node: str, j: int, at: Floats, probability: bool
) -> tuple[Floats | None, str]:
    """Density of the approximation; or None, and why there is none."""
    try:
        proposal = posterior.approximation(node)
    except ArgumentError as error:
        return None, printable(str(error))
    before = posterior.part(node).nodes
    column = sum(posterior.network.n_coefficients(other) for other in before[: before.index(node)])
    return marginal_density(proposal, column + j, at, probability=probability), ""


_NAMES = 12


def fit_facts(posterior: ParameterPosterior, written: datetime) -> list[list[str]]:
    """Names and values."""
    report, trace, network = posterior.report, posterior.trace, posterior.network
    hidden = [name for name in network.names if name not in posterior.states]
    n_cells = report.n_missing - report.n_rows * len(hidden)
    facts = [
        ("Data", f"{report.n_rows} rows, {n_cells or 'no'} missing cells{', summed out' if n_cells else ''}"),
        ("Digest of the data", report.data_digest or "not known"),
        ("Network", f"{len(network.names)} nodes, {sum(len(network.parents(node)) for node in network.names)} edges"),
        ("Coding", f"parents count as {'-1 and +1' if network.coding == 'pm1' else '0 and 1'}"),
        ("Prior", _prior(posterior)),
    ]
    if hidden:
        facts.insert(3, ("Hidden", _listed(hidden)))
    warmup = trace.n_warmup // trace.thin
    facts += [
        ("Method", f"{report.method}, as it was asked for; what was used is told below"),
        ("Draws", f"{counted(posterior.n_chains, 'chain')} of {posterior.n_draws} draws, after {warmup} of warm-up"),
        ("Seed", "not known" if trace.entropy is None else str(trace.entropy)),
    ]
    if posterior.stop is not None:
        facts.append(("Time", f"{posterior.stop.seconds:.3g} s, warm-up not included"))
    facts += closing_facts(("doxa", "numpy", "scipy"), written)
    return [list(fact) for fact in facts]


def what_counts_as_one(posterior: ParameterPosterior) -> list[list[str]]:
    """Observed nodes with the state that is 1."""
    found = [(node, posterior.states[node]) for node in posterior.network.names if node in posterior.states]
    return [[node, states[1]] for node, states in found if len(states) == 2]


def _prior(posterior: ParameterPosterior) -> str:
    network = posterior.network
    families = [node for node in network.names if network.parents(node)]
    given = [node for node in families if network.n_coefficients(node) and not network.scale_of(node)]
    priors = [network.prior(node) for node in given]
    parts = []
    if network.learned_scale is not None:
        scales = _listed(list(network.scales))
        parts.append(f"coefficients of parents normal, learned scale ({scales}: {network.learned_scale.words})")
    if priors:
        means = span(np.concatenate([prior.mean for prior in priors]))
        scales = span(np.sqrt(np.concatenate([np.diag(prior.covariance) for prior in priors])))
        parts.append(f"coefficients normal, mean {means}, standard deviation {scales}")
    if fixed := [bias for node in families if (bias := network.bias(node)) is not None]:
        parts.append(f"biases of {len(fixed)} nodes fixed at {span(fixed)}")
    if network.roots and any(node in network.parameters for node in network.roots):
        parts.append("probabilities of roots uniform")
    if given := [node for block in network.root_blocks if block.probabilities is not None for node in block.nodes]:
        parts.append(f"probability given for {_listed(given)}")
    return "; ".join(parts)


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(printable, names[:_NAMES]))
    return shown + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")


MOST_TRACES = 4  # of log densities
_MOST_PARTS = 200
_MOST_RANKS = 4  # parameters


def fit_evidence(posterior: ParameterPosterior) -> dict[str, Any]:
    """Log densities of the parts, diagnosed; traces of the slowest; ranks of the parameters with the largest R-hat.

    ``parts``, each with ``nodes`` and its numbers; ``traces``: of the slowest parts, ``part`` and ``chains``, at the
    draws ``steps``; ``ranks``: ``parameter`` (its place in the summary) and ``chains``.
    """
    parts, traces = [], []
    shown = kept_draws(posterior.n_chains, posterior.n_draws, 1)
    for k, part in enumerate(posterior.report.parts[:_MOST_PARTS]):
        found = diagnose_real(posterior.log_density(part.nodes[0]))
        parts.append({"nodes": list(part.nodes), **diagnosis(found)})
        traces.append((float(np.nan_to_num(found.bulk_ess)), k))
    slowest = [k for _, k in sorted(traces)[:MOST_TRACES]]
    return {
        "parts": parts,
        "steps": shown.tolist(),
        "traces": [
            {
                "part": k,
                "chains": [
                    decimals(chain[shown], 2) for chain in posterior.log_density(posterior.report.parts[k].nodes[0])
                ],
            }
            for k in slowest
        ],
        "ranks": _ranks(posterior),
    }


def _ranks(posterior: ParameterPosterior) -> list[dict[str, Any]]:
    """Of the parameters whose chains agree least."""
    if posterior.n_chains == 1:
        return []
    frame = posterior.summary()
    order = np.argsort(-frame["r_hat"].fillna(np.inf).to_numpy(), kind="stable")[:_MOST_RANKS]
    place = [(node, j) for node in posterior.network.parameters for j in range(posterior.network.n_coefficients(node))]
    found = []
    for k in order.tolist():
        node, j = place[k]
        shares = rank_shares(posterior.draws(node)[..., j])
        found.append({"parameter": k, "chains": [decimals(chain, 2) for chain in shares]})
    return found


def of_parameters(posterior: ParameterPosterior, written: datetime) -> dict[str, Any]:
    """As plain data."""
    return {
        "kind": "parameters",
        "title": f"Parameters of {counted(len(posterior.network.parameters), 'node')}, fitted by doxa",
        "verdict": verdict_box(posterior.judgement),
        "facts": fit_facts(posterior, written),
        "roots": list(posterior.network.roots),
        "ones": what_counts_as_one(posterior),
        "coefficients": coefficients(posterior),
        "method": fit_method(posterior),
        "evidence": fit_evidence(posterior),
    }

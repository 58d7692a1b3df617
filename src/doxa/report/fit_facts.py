"""Facts of a fit, in words: data, network, prior, draws, seed, versions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from doxa.report.verdicts import closing_facts
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.parameters.posterior import ParameterPosterior

__all__ = ["fit_facts", "what_counts_as_one"]

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
    chains = "1 chain" if posterior.n_chains == 1 else f"{posterior.n_chains} chains"
    facts += [
        ("Method", f"{report.method}, as it was asked for; what was used is told below"),
        ("Draws", f"{chains} of {posterior.n_draws} draws, after {warmup} of warm-up"),
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
        means = _span(np.concatenate([prior.mean for prior in priors]))
        scales = _span(np.sqrt(np.concatenate([np.diag(prior.covariance) for prior in priors])))
        parts.append(f"coefficients normal, mean {means}, standard deviation {scales}")
    if fixed := [bias for node in families if (bias := network.bias(node)) is not None]:
        parts.append(f"biases of {len(fixed)} nodes fixed at {_span(fixed)}")
    if network.roots and any(node in network.parameters for node in network.roots):
        parts.append("probabilities of roots uniform")
    if given := [node for block in network.root_blocks if block.probabilities is not None for node in block.nodes]:
        parts.append(f"probability given for {_listed(given)}")
    return "; ".join(parts)


def _span(numbers: Iterable[float]) -> str:
    values = list(numbers)
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(printable, names[:_NAMES]))
    return shown + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")

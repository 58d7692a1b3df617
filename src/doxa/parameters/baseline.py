"""Importance sampling from the approximations of a fit: what its chains are held against (slides, steps 0 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.approximate import Approximated
from doxa.parameters.joint_target import Packing
from doxa.parameters.kernels.defensive import Defensive
from doxa.parameters.kernels.targets import values_at
from doxa.parameters.root_posterior import RootPosterior
from doxa.sampling.importance import ImportanceSample
from doxa.sampling.importance_baseline import all_agree
from doxa.sampling.importance_proposals import Mixture, Proposal

if TYPE_CHECKING:
    import pandas as pd

    from doxa.parameters.fitted import FittedParameters

__all__ = ["FitBaseline", "fit_baseline"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FitBaseline:
    """A fit beside importance sampling from its approximations."""

    samples: dict[tuple[str, ...], ImportanceSample]  # of each part, by its nodes: draws (n, coefficients)
    coefficients: pd.DataFrame  # node, coefficient, mean, mcse, chain, chain_mcse, z; largest |z| first
    agrees: bool | None  # None where the weights of a part cannot be trusted
    text: str

    def __str__(self) -> str:
        return self.text


def fit_baseline(posterior: FittedParameters, found: Sequence[Approximated], n: int, seed: int) -> FitBaseline:
    """Draw, weigh and compare; see `doxa.ParameterPosterior.baseline`."""
    import pandas as pd

    n, rng = check_whole("n", n, 100), np.random.default_rng(check_whole("seed", seed, 0))
    samples, rows = {}, []
    for part in found:
        if part.proposal is None or isinstance(part.target, RootPosterior):  # augmented; or exact, and no chain
            continue
        inside = part.inside or part
        proposal = _with_tails(inside.mixture or inside.proposal)
        if part.inside is not None:
            proposal = replace(part.proposal, proposal=proposal)
        thetas = np.asarray(proposal.sample(n, rng))
        sample = ImportanceSample(thetas, values_at(part.target, thetas), proposal.log_density(thetas))
        samples[part.part.nodes] = sample
        packing = Packing(posterior.network, part.part.nodes)
        for node in packing.nodes:
            values = packing.unpack(thetas)[node]
            for j, label in enumerate(posterior.network.coefficients(node)):
                rows.append((node, label, *_compared(posterior, sample.weights, values[:, j], node, label)))
    if not rows:
        raise ArgumentError(
            "no part of this fit has an approximation that could be weighed: its parameters are known exactly, or were "
            "drawn by data augmentation"
        )
    names = ["node", "coefficient", "mean", "mcse", "chain", "chain_mcse", "z"]
    frame = pd.DataFrame(rows, columns=names).sort_values("z", key=np.abs, ascending=False, ignore_index=True)
    worst, ess = frame.iloc[0], min(sample.ess for sample in samples.values())
    reliable = all(sample.verdict.reliable for sample in samples.values())
    agrees, word, limit = all_agree(worst["z"], len(frame), reliable)
    text = (
        f"{word}: of {len(frame)} coefficients {worst['coefficient']} of {worst['node']} differs most, "
        f"{worst['chain']:.3f} by the chains and {worst['mean']:.3f} by weighted draws, {abs(worst['z']):.1f} standard "
        f"errors (limit {limit:.1f}); {ess:.0f} of {n} draws are effective."
    )
    return FitBaseline(samples, frame, agrees, text)


def _with_tails(proposal: Any) -> Proposal:
    """A Gaussian, also within a mixture, with the tails that its weights need."""
    if isinstance(proposal, Mixture):
        return Mixture([_with_tails(component) for component in proposal.components], proposal.weights)
    return Defensive(proposal) if np.isinf(getattr(proposal, "df", np.inf)) else proposal


def _compared(posterior: FittedParameters, weights: Floats, values: Floats, node: str, label: str) -> tuple[float, ...]:
    """Means and errors of one coefficient, of a root its probability, by weights and by chains; their distance."""
    mean = float(weights @ values)
    mcse = float(np.sqrt(weights**2 @ (values - mean) ** 2))
    chain = posterior.coefficient(node, label)
    return mean, mcse, chain.value, chain.mcse, (chain.value - mean) / np.hypot(mcse, chain.mcse)

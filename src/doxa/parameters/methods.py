"""How each part of a posterior is drawn from: the methods of `doxa.fit`, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.mcmc.adaptation import AdaptiveSampler
from doxa.mcmc.kernels.blocks import BlockIndependence, block
from doxa.mcmc.kernels.calibrate import calibrated
from doxa.mcmc.kernels.combined import cycle, mixture
from doxa.mcmc.kernels.flip import Flip
from doxa.mcmc.kernels.hamiltonian import warmed_up
from doxa.mcmc.kernels.independence import Independence
from doxa.mcmc.kernels.kernel import Walkers, start_at
from doxa.mcmc.kernels.random_walk import RandomWalk
from doxa.mcmc.kernels.split import tuned_split
from doxa.mcmc.kernels.tempered_transitions import tempered
from doxa.parameters.approximate import Approximated
from doxa.parameters.augmentation import AugmentationSampler
from doxa.parameters.ladder import WALKERS, Rung, climb, tuning_walkers
from doxa.parameters.pilot import Pilot, run_pilot
from doxa.parameters.root_posterior import RootPosterior
from doxa.variational.gaussian import Gaussian

__all__ = ["METHODS", "choose"]

Floats: TypeAlias = NDArray[np.float64]

_MOMENTS = 4000  # draws that tell how wide all modes are together
_RUNGS, _MORE_RUNGS, _LEAST_POWER = 12, 8, 0.02  # of the ladder of powers, which ends with 0; more for a coordinate
_BLOCK = 5  # coefficients, as in de Freitas et al. 2001, section 5.1


def choose(found: Approximated, method: str, rng: np.random.Generator) -> Rung:
    """The kernel of one part.

    Parameters
    ----------
    found : Approximated
    method : str
        A key of `METHODS`.
    rng : numpy.random.Generator
        Advanced by pilot draws and tuning.

    Raises
    ------
    ArgumentError
        If the method needs a posterior with one mode and more were found.
    """
    if isinstance(found.target, RootPosterior):
        everything = Pilot(0, 1.0, -np.inf)
        return Rung("exact", Independence(found.target), found.target, 1, everything, "a Beta distribution")
    if isinstance(found.target, AugmentationSampler):
        why = "asked for" if method == "augmentation" else "hidden values are too many to sum out"
        return Rung("augmentation", None, None, 1, Pilot(0, np.nan, np.nan), why, found.target)
    if method in _NEED_A_GAUSSIAN and not isinstance(found.proposal, Gaussian):
        raise ArgumentError(
            f"method is {method!r}, which needs a posterior with one mode, but that of {', '.join(found.part.nodes)} "
            f"has {len(found.modes)} that were found; use 'auto', 'independence', 'hmc' or 'augmentation'"
        )
    return METHODS[method](found, rng)


def _auto(found: Approximated, rng: np.random.Generator) -> Rung:
    if isinstance(found.proposal, Gaussian):
        return _by_mixture(found, rng) or climb(found.target, found.proposal, rng)
    rung = _independence(found, rng)
    modes = f"{len(found.modes)} modes were found"
    if rung.pilot.good_with_long_tails:
        return rung._replace(why=f"{modes}, and the mixture of their approximations is good: {rung.pilot}")
    local = _hmc(found, rng)
    why = f"{modes}, and the mixture of their approximations alone is not good enough ({rung.pilot})"
    assert rung.kernel is not None
    assert local.kernel is not None
    both = mixture(rung.kernel, local.kernel)
    return Rung("independence and hmc", both, found.proposal, WALKERS, rung.pilot, why)


def _by_mixture(found: Approximated, rng: np.random.Generator) -> Rung | None:
    """Independent proposals from a mixture, where there is a good one and the Gaussian is not."""
    if found.mixture is None:
        return None
    gaussian = run_pilot(found.target, found.proposal, rng)
    pilot = run_pilot(found.target, found.mixture, rng)
    if gaussian.good or not (pilot.good_with_long_tails and pilot.efficiency > gaussian.efficiency):
        return None
    why = f"the Gaussian alone is not good enough ({gaussian}), but a mixture is ({pilot})"
    return Rung("independence", Independence(found.mixture), found.mixture, 1, pilot, why)


def _variational(found: Approximated, rng: np.random.Generator) -> Rung:
    pilot = run_pilot(found.target, found.proposal, rng)
    return Rung("variational", Independence(found.proposal), found.proposal, 1, pilot, "asked for: an approximation")


def _independence(found: Approximated, rng: np.random.Generator) -> Rung:
    pilot = run_pilot(found.target, found.proposal, rng)
    return Rung("independence", Independence(found.proposal), found.proposal, 1, pilot, "asked for")


def _flip(found: Approximated, rng: np.random.Generator) -> Rung:
    return _independence(found, rng)._replace(method="flip", kernel=Flip(_gaussian(found)))


def _block(found: Approximated, rng: np.random.Generator) -> Rung:
    kernel = BlockIndependence(_gaussian(found), _BLOCK)
    return _independence(found, rng)._replace(method="block", kernel=kernel)


def _mixture(found: Approximated, rng: np.random.Generator) -> Rung:
    """VarMixMCMC: a sweep over blocks of the approximation, or one of random-walk blocks (section 4.2, figure 7)."""
    d = found.target.n_dimensions
    blocks = [list(range(k, min(k + _BLOCK, d))) for k in range(0, d, _BLOCK)]
    walk, _ = calibrated(block(RandomWalk(), blocks), found.target, _walkers(found, rng), rng)
    kernel = mixture(BlockIndependence(_gaussian(found), blocks), walk)
    return _independence(found, rng)._replace(method="mixture", kernel=kernel)


def _random_walk(found: Approximated, rng: np.random.Generator) -> Rung:
    walk, report = _walk(found, rng)
    why = f"asked for; steps accepted with probability {report.acceptance:.2f}"
    return _independence(found, rng)._replace(method="random_walk", kernel=walk, walkers=WALKERS, why=why)


def _tempered(found: Approximated, rng: np.random.Generator) -> Rung:
    """Random-walk steps, and transitions by way of a Gaussian as wide as all modes together (Neal 1996)."""
    walk, _ = _walk(found, rng)
    thetas = np.asarray(found.proposal.sample(_MOMENTS, rng), dtype=np.float64)
    covariance = np.atleast_2d(np.cov(thetas.T))
    reference = Gaussian(thetas.mean(axis=0), _root(covariance))
    local = found.modes[0].cholesky if found.modes else found.proposal.cholesky
    peak, plain = np.linalg.inv(local @ local.T), np.linalg.inv(covariance)
    d = found.target.n_dimensions

    def rung_walk(beta: float) -> RandomWalk:
        return RandomWalk(2.38 / np.sqrt(d), _root(np.linalg.inv(beta * peak + (1 - beta) * plain)))

    ladder = np.append(np.geomspace(1.0, _LEAST_POWER, _RUNGS + _MORE_RUNGS * d), 0.0)
    kernel = cycle(walk, tempered(rung_walk, ladder, reference))
    why = f"asked for; {ladder.size} rungs"
    return _independence(found, rng)._replace(method="tempered", kernel=kernel, walkers=WALKERS, why=why)


def _split_hmc(found: Approximated, rng: np.random.Generator) -> Rung:
    kernel, _, report = tuned_split(found.target, _gaussian(found), _walkers(found, rng), rng)
    why = f"asked for; accepted with probability {report.acceptance:.2f}"
    return _independence(found, rng)._replace(method="split_hmc", kernel=kernel, walkers=WALKERS, why=why)


def _hmc(found: Approximated, rng: np.random.Generator) -> Rung:
    gaussian = found.proposal if isinstance(found.proposal, Gaussian) else None
    kernel, _, report = warmed_up(found.target, _walkers(found, rng), rng, gaussian=gaussian)
    why = f"asked for; accepted with probability {report.acceptance:.2f}"
    return _independence(found, rng)._replace(method="hmc", kernel=kernel, walkers=WALKERS, why=why)


def _regeneration(found: Approximated, rng: np.random.Generator) -> Rung:
    """Independence with a proposal that is refitted where the chain forgets its past (figure 10, corrected)."""
    sampler = AdaptiveSampler(found.target, _gaussian(found))
    return _independence(found, rng)._replace(method="regeneration", kernel=None, sampler=sampler)


def _root(covariance: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)


def _walk(found: Approximated, rng: np.random.Generator) -> tuple[Any, Any]:
    return calibrated(RandomWalk(), found.target, _walkers(found, rng), rng)


def _walkers(found: Approximated, rng: np.random.Generator) -> Walkers:
    return start_at(
        found.target, np.asarray(found.proposal.sample(tuning_walkers(found.target), rng), dtype=np.float64)
    )


def _gaussian(found: Approximated) -> Gaussian:
    assert isinstance(found.proposal, Gaussian)
    return found.proposal


METHODS: dict[str, Callable[[Approximated, np.random.Generator], Rung]] = {
    "auto": _auto,
    "variational": _variational,
    "independence": _independence,
    "flip": _flip,
    "tempered": _tempered,
    "split_hmc": _split_hmc,
    "hmc": _hmc,
    "random_walk": _random_walk,
    "block": _block,
    "mixture": _mixture,
    "regeneration": _regeneration,
    "augmentation": _auto,  # for what is complete
}
_NEED_A_GAUSSIAN = ("flip", "split_hmc", "block", "mixture", "regeneration")

"""How each part of a posterior is drawn from: the methods of `doxa.fit`, by name.

The Gaussians of an approximation, with a weight each: what kernels need that propose from one Gaussian at a time.

An approximation of several modes is a mixture (de Freitas et al. 2001, section 6), and block updates, flips and
Hamiltonian steps that rotate need a Gaussian.  So each component makes a kernel, and one of these is drawn at each step
whatever the state: as each keeps the target, so does the choice among them.  Steps of a component move walkers about
its own mode; those of the others are hardly ever accepted there, and proposals from the whole mixture, in turn with
them, jump.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.parameters import method_options as options
from doxa.parameters.approximate import FEW, Approximated
from doxa.parameters.augmentation import AugmentationSampler
from doxa.parameters.cascade import (
    LONG,
    WALKERS,
    Reach,
    Rung,
    first_good_rung,
    grown,
    grown_from,
    independently,
    prior_of,
    reach_of,
    tuning_walkers,
)
from doxa.parameters.kernels.adaptation import AdaptiveSampler
from doxa.parameters.kernels.blocks import BlockIndependence, block
from doxa.parameters.kernels.combined import cycle, mixture
from doxa.parameters.kernels.defensive import Defensive
from doxa.parameters.kernels.flip import Flip, draw_pairs
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.kernels.hamiltonian import warmed_up
from doxa.parameters.kernels.independence import Exchanging, Independence, Jump
from doxa.parameters.kernels.kernel import Kernel, Tunable, Walkers, start_at, values_at
from doxa.parameters.kernels.random_walk import Calibration, RandomWalk, calibrated
from doxa.parameters.kernels.resampling_adaptation import ResamplingSampler
from doxa.parameters.kernels.split import tuned_split
from doxa.parameters.kernels.tempered_transitions import tempered
from doxa.parameters.pilot import PILOT_DRAWS, Pilot, judge_pilot, run_pilot
from doxa.parameters.population import WIDE_SHARE
from doxa.parameters.scaled_target import ScaledKernel, ScaledProposal
from doxa.parameters.targets import RootPosterior
from doxa.sampling.gaussian import Gaussian
from doxa.sampling.importance_proposals import Mixture
from doxa.sampling.importance_weights import normalised_weights

__all__ = ["METHODS", "Component", "choose", "components_of", "moments_of", "one_at_a_time"]

_MOST = 8  # components: more of them are pieces of a bent mode, and each has a kernel to be tuned
_EQUALLY = 0.5  # of the choices are made without regard to weights, so that a light mode too is moved about in
_MOMENTS = 4000  # draws that tell how wide all components are together


class Component(NamedTuple):
    """One Gaussian of an approximation."""

    share: float  # of the steps that are to be made under it; those of all sum to 1
    gaussian: Gaussian


def components_of(found: Approximated) -> list[Component]:
    """The Gaussians of what was found, the heaviest first: one, or at most eight of a mixture.

    A t distribution counts as the Gaussian with its covariance; the component that is as wide as the prior is left out.
    """
    if not isinstance(found.proposal, Mixture):
        return [Component(1.0, found.proposal)]
    prior = getattr(found.target, "prior_spread", None)
    parts = list(zip(found.proposal.weights, found.proposal.components, strict=True))
    pieces = [(float(weight), part) for weight, part in parts if isinstance(part, Student) and not _is(part, prior)]
    heaviest = sorted(pieces, key=lambda piece: -piece[0])[:_MOST]
    total = sum(weight for weight, _ in heaviest)
    equal = _EQUALLY / len(heaviest)
    return [Component(equal + (1 - _EQUALLY) * weight / total, _as_gaussian(part)) for weight, part in heaviest]


def one_at_a_time(components: list[Component], make: Callable[[Gaussian], Kernel]) -> Kernel:
    """The kernel of the only Gaussian, or at each step that of one drawn by its share, whatever the state."""
    kernels = [make(component.gaussian) for component in components]
    return kernels[0] if len(kernels) == 1 else mixture(*kernels, weights=[component.share for component in components])


def moments_of(found: Approximated, reach: Reach, rng: np.random.Generator) -> Gaussian:
    """A Gaussian as wide as all modes together: the approximation itself where it is one and does by itself.

    Else it has the mean and the covariance of draws, half of which are those of what is proposed, weighted to be the
    target's where the weights tell enough.  The other half are those of the components by their shares: by the target's
    moments alone a light mode lies many standard deviations out, 1 / sqrt(mass).
    """
    components = components_of(found)
    tell = reach.pilot.good_with_long_tails
    if len(components) == 1 and (reach.gaussian_alone or not tell):
        return components[0].gaussian
    shares = np.array([component.share for component in components])
    means = np.array([component.gaussian.mean for component in components])
    covariances = np.array([component.gaussian.covariance for component in components])
    if tell:
        thetas = np.asarray(reach.proposal.sample(_MOMENTS, rng), dtype=np.float64)
        weights = normalised_weights(values_at(found.target, thetas) - reach.proposal.log_density(thetas))
        shares = np.append(0.5 * shares, 0.5)
        means = np.vstack([means, np.average(thetas, axis=0, weights=weights)])
        covariances = np.concatenate([covariances, np.atleast_2d(np.cov(thetas.T, aweights=weights))[None]])
    mean = shares @ means
    between = np.einsum("k,ki,kj->ij", shares, means - mean, means - mean)
    return Gaussian.from_covariance(mean, np.einsum("k,kij->ij", shares, covariances) + between)


def _is(part: Student, spread: tuple[Floats, Floats] | None) -> bool:
    return spread is not None and np.array_equal(part.mean, spread[0]) and np.array_equal(part.cholesky, spread[1])


def _as_gaussian(part: Student) -> Gaussian:
    wider = 1.0 if np.isinf(part.df) else np.sqrt(part.df / (part.df - 2))
    return Gaussian(part.mean, wider * part.cholesky)


_FEWEST_RUNGS, _RUNGS, _MORE_RUNGS = 8, 12, 8  # of the ladder of powers: at first, and at most; more a coordinate
_LEAST_POWER = 0.02  # before 0, with which the ladder ends
_LADDER_PILOT, _LADDER_ACCEPTANCE = 8, 0.4  # transitions of each tuning walker, and the share that is to be accepted
_SELDOM = 16  # steps between exchanges of hidden nodes, where steps are made in bulk
_TAILS = 0.1  # of the updates of blocks have the noise of a t distribution
_FLIP_TAILS = 0.3  # of flips where the posterior goes on beyond the Gaussian
_WIDE = 0.2  # of an adaptive sampler's proposals go on being drawn from the start, with its tails and its prior

_BLOCK, _MIXTURE, _WALK, _RESAMPLING = options.Block(), options.Mixture(), options.RandomWalk(), options.Resampling()


def choose(found: Approximated, method: options.Method, rng: np.random.Generator, labels: Sequence[str] = ()) -> Rung:
    """The kernel of one part."""
    if isinstance(found.target, RootPosterior):
        everything = Pilot(0, 1.0, -np.inf)
        return Rung("exact", Independence(found.target), found.target, 1, everything, "a Beta distribution")
    if isinstance(found.target, AugmentationSampler):
        why = "asked for" if method == "augmentation" else "hidden values are too many to sum out"
        return Rung("augmentation", None, None, 1, Pilot(0, np.nan, np.nan), why, found.target)
    if found.inside is not None:
        return _in_coordinates(found, choose(found.inside, method, rng, labels))
    more = () if isinstance(method, str) else (method, labels)
    rung = METHODS[options.method_name(method)](found, rng, *more)
    return rung if method == "variational" else _with_exchanges(found, rung)


def _with_exchanges(found: Approximated, rung: Rung) -> Rung:
    """The kernel in turn with the exchanges that leave the posterior as it is; seldom where steps are made in bulk."""
    if rung.kernel is None or not found.symmetries:
        return rung
    matrices = [symmetry.matrix for symmetry in found.symmetries]
    return rung._replace(kernel=Exchanging(rung.kernel, matrices, _SELDOM if rung.walkers == 1 else 1))


def _in_coordinates(found: Approximated, rung: Rung) -> Rung:
    """What moves in the coordinates of learned scales, as what moves coefficients and log scales."""
    if rung.kernel is None:
        raise ArgumentError("method='regeneration' does not draw learned scales; use 'auto', 'independence' or 'hmc'")
    coordinates = found.proposal.coordinates
    start = None if rung.start is None else ScaledProposal(rung.start, coordinates)
    reach = rung.reach
    if reach is not None:
        reach = reach._replace(proposal=ScaledProposal(reach.proposal, coordinates))
    return rung._replace(kernel=ScaledKernel(rung.kernel, coordinates), start=start, reach=reach)


def _auto(found: Approximated, rng: np.random.Generator) -> Rung:
    if isinstance(found.proposal, Gaussian):
        return _by_mixture(found, rng) or first_good_rung(found.target, found.proposal, rng)
    rung = _independence(found, rng)
    with_images = found.symmetries and found.target.n_dimensions > FEW
    images = ", with their images where hidden nodes are exchanged" if with_images else ""
    modes = f"{len(found.modes) or len(components_of(found))} modes were found{images}"
    if rung.pilot.good_with_long_tails:
        return rung._replace(why=f"{modes}, and the mixture of their approximations is good: {rung.pilot}")
    local = _hmc(found, rng)
    why = f"{modes}, and the mixture of their approximations alone is not good enough ({rung.pilot})"
    assert rung.kernel is not None
    assert local.kernel is not None
    both = mixture(rung.kernel, local.kernel)
    return rung._replace(method="independence and hmc", kernel=both, walkers=WALKERS, why=why, doubt="")


def _by_mixture(found: Approximated, rng: np.random.Generator) -> Rung | None:
    """Independent proposals from a mixture, where there is a good one and the Gaussian is not."""
    if found.mixture is None:
        return None
    gaussian = reach_of(found.target, found.proposal, rng)
    pilot = run_pilot(found.target, found.mixture, rng)
    if gaussian.good or not (pilot.good_with_long_tails and pilot.efficiency > gaussian.pilot.efficiency):
        return None
    why = f"the Gaussian alone is not good enough ({gaussian.pilot}), but a mixture is ({pilot})"
    return independently(Reach(found.mixture, pilot, gaussian.beyond, WIDE_SHARE, gaussian_alone=False), why)


def _variational(found: Approximated, rng: np.random.Generator) -> Rung:
    pilot = run_pilot(found.target, found.proposal, rng)
    return Rung("variational", Independence(found.proposal), found.proposal, 1, pilot, "asked for: an approximation")


def _independence(found: Approximated, rng: np.random.Generator) -> Rung:
    """Proposals with bounded weights: half of them from a fitted mixture where the approximation does not reach."""
    reach, why = _reach(found, rng)
    return independently(reach, why, reach.doubt)


def _reach(found: Approximated, rng: np.random.Generator) -> tuple[Reach, str]:
    """What can be proposed from with the approximation that was asked for, and how it came about."""
    target, gaussians = found.target, found.proposal
    if isinstance(gaussians, Gaussian):
        reach = reach_of(target, gaussians, rng)
        other = reach if reach.good else grown(target, gaussians, reach, rng)
    else:
        reach = _several(found, rng)
        refit = _are_gaussians(gaussians) and not reach.good
        other = grown_from(target, gaussians, reach, rng) if refit else reach
    if other is reach:
        return reach, "asked for"
    both = Mixture([reach.proposal, other.proposal], [0.5, 0.5])
    share = 0.5 * (reach.share + other.share)
    half = Reach(both, run_pilot(target, both, rng), reach.beyond, share, gaussian_alone=False)
    return half, f"asked for; alone it does not reach the tails ({reach.pilot}), so half is proposed from a mixture"


def _several(found: Approximated, rng: np.random.Generator) -> Reach:
    """A mixture that was found around several modes; Gaussians get tails, and a wide t distribution beside them."""
    proposal, share, prior = found.proposal, 0.0, prior_of(found.target)
    if prior is not None and _are_gaussians(proposal):
        share = WIDE_SHARE
        tailed = Mixture([Defensive(part) for part in proposal.components], proposal.weights)
        proposal = Mixture([tailed, prior], [1 - share, share])
    return Reach(proposal, run_pilot(found.target, proposal, rng), np.nan, share, gaussian_alone=False)


def _are_gaussians(proposal: Any) -> bool:
    components = proposal.components if isinstance(proposal, Mixture) else ()
    return bool(components) and all(isinstance(part, Student) and np.isinf(part.df) for part in components)


def _with_jumps(found: Approximated, method: str, kernel: Any, rng: np.random.Generator) -> Rung:
    """A kernel of its own for the part; in turn with independent proposals where the approximation does not reach."""
    rung = _independence(found, rng)
    assert rung.kernel is not None
    assert rung.reach is not None
    if rung.reach.gaussian_alone:
        return rung._replace(method=method, kernel=kernel)
    if isinstance(found.proposal, Mixture):
        each = f"by each of {len(components_of(found))} Gaussians at random, in turn with proposals from their mixture"
        why = f"asked for; {each} ({rung.pilot})"
        return rung._replace(method=method, kernel=cycle(kernel, rung.kernel), walkers=WALKERS, why=why)
    why = rung.why.replace("half is proposed from a mixture", "every second step is proposed from a mixture as well")
    return rung._replace(method=method, kernel=cycle(kernel, rung.kernel), why=why)


def _flip(found: Approximated, rng: np.random.Generator) -> Rung:
    """Flips of the Gaussian with tails; with more of them where the posterior goes on beyond it."""
    if not isinstance(found.proposal, Gaussian):
        flips = one_at_a_time(components_of(found), lambda gaussian: Flip(Defensive(gaussian)))
        return _with_jumps(found, "flip", flips, rng)
    rung, gaussian = _independence(found, rng), found.proposal
    assert rung.reach is not None
    long = rung.reach.beyond > LONG
    symmetric = Defensive(gaussian, tails=_FLIP_TAILS, width=2.0) if long else Defensive(gaussian)
    pairs = judge_pilot(draw_pairs(found.target, symmetric, PILOT_DRAWS, rng).log_weights)
    doubt = "" if pairs.fair else f"the weights of flips vary too much ({pairs})"
    why = f"asked for: {pairs}"
    return rung._replace(method="flip", kernel=Flip(symmetric), start=symmetric, why=why, doubt=doubt)


def _block(
    found: Approximated,
    rng: np.random.Generator,
    asked: options.Block = _BLOCK,
    labels: Sequence[str] = (),
) -> Rung:
    return _with_jumps(found, "block", _sweep(found, _blocks_of(found, asked.blocks, labels), asked.scan), rng)


def _mixture(
    found: Approximated,
    rng: np.random.Generator,
    asked: options.Mixture = _MIXTURE,
    labels: Sequence[str] = (),
) -> Rung:
    """VarMixMCMC: a sweep over blocks of the approximation, or one of random-walk blocks (section 4.2, figure 7)."""
    blocks = _blocks_of(found, asked.blocks, labels)
    walk, _ = _tuned_walk(found, block(RandomWalk(), blocks, asked.scan), rng)
    sweep = _sweep(found, blocks, asked.scan)
    both = cycle(sweep, walk) if asked.share is None else mixture(sweep, walk, weights=[asked.share, 1 - asked.share])
    return _with_jumps(found, "mixture", both, rng)


def _sweep(found: Approximated, blocks: list[list[int]], scan: options.Scan) -> Kernel:
    """Updates of blocks, proposed from one Gaussian of the approximation at a time."""
    return one_at_a_time(
        components_of(found), lambda gaussian: BlockIndependence(gaussian, blocks, scan=scan, tails=_TAILS)
    )


def _blocks_of(found: Approximated, blocks: options.Blocks, labels: Sequence[str]) -> list[list[int]]:
    return options.indices_of(blocks, labels or [str(k) for k in range(found.target.n_dimensions)])


def _random_walk(
    found: Approximated,
    rng: np.random.Generator,
    asked: options.RandomWalk = _WALK,
    labels: Sequence[str] = (),
) -> Rung:
    steps: Any = RandomWalk()
    if asked.blocks is not None:
        steps = block(steps, _blocks_of(found, asked.blocks, labels), asked.scan)
    walk, report = _tuned_walk(found, steps, rng)
    why = f"asked for; steps accepted with probability {report.acceptance:.2f}"
    return _independence(found, rng)._replace(
        method="random_walk", doubt="", start=found.proposal, kernel=_jumping(found, walk), walkers=WALKERS, why=why
    )


def _tuned_walk(found: Approximated, steps: Any, rng: np.random.Generator) -> tuple[Tunable, Calibration]:
    """Steps of a good length, shaped as the components are on average: the covariance of walkers in all modes would say
    how far these are apart, not how wide they are.
    """
    components, walkers = components_of(found), _walkers(found, rng)
    if len(components) == 1:
        return calibrated(steps, found.target, walkers, rng)
    within = np.sum([component.share * component.gaussian.covariance for component in components], axis=0)
    return calibrated(steps.whitened(_root(within)), found.target, walkers, rng, whiten=False)


def _tempered(found: Approximated, rng: np.random.Generator) -> Rung:
    """Random-walk steps, and transitions by way of a Gaussian as wide as all modes together (Neal 1996).

    At that Gaussian the walkers are drawn anew, so that whether a transition is accepted says whether it forgets where
    it came from; and the ladder has no more rungs than that takes.
    """
    rung = _independence(found, rng)
    assert rung.reach is not None
    walk, report = _tuned_walk(found, RandomWalk(), rng)
    reference, walkers = moments_of(found, rung.reach, rng), report.walkers
    local = components_of(found)[0].gaussian.cholesky
    peak, plain = np.linalg.inv(local @ local.T), np.linalg.inv(reference.covariance)
    d = found.target.n_dimensions

    def rung_kernel(beta: float) -> Kernel:
        if beta == 0:
            return Independence(reference)
        return RandomWalk(2.38 / np.sqrt(d), _root(np.linalg.inv(beta * peak + (1 - beta) * plain)))

    most, rungs = _RUNGS + _MORE_RUNGS * d, _FEWEST_RUNGS
    while True:
        ladder = np.append(np.geomspace(1.0, _LEAST_POWER, rungs), 0.0)
        transitions = tempered(rung_kernel, ladder, reference)
        walkers, path = transitions.run(found.target, walkers, _LADDER_PILOT, rng)
        acceptance = float(path.acceptance.mean())
        if acceptance >= _LADDER_ACCEPTANCE or rungs == most:
            break
        rungs = min(2 * rungs, most)
    why = f"asked for; {ladder.size} rungs, and transitions are accepted with probability {acceptance:.2f}"
    return rung._replace(
        method="tempered",
        doubt="",
        start=found.proposal,
        kernel=cycle(walk, transitions),
        walkers=WALKERS,
        why=why,
        n_evaluations=transitions.n_evaluations,
    )


def _split_hmc(found: Approximated, rng: np.random.Generator) -> Rung:
    components, acceptance, kernels = components_of(found), [], []
    for component in components:
        walkers = start_at(found.target, component.gaussian.sample(tuning_walkers(found.target), rng))
        tuned, _, report = tuned_split(found.target, component.gaussian, walkers, rng)
        kernels.append(tuned)
        acceptance.append(report.acceptance)
    kernel = kernels[0] if len(kernels) == 1 else mixture(*kernels, weights=[part.share for part in components])
    rung = _with_jumps(found, "split_hmc", kernel, rng)
    why = f"asked for; accepted with probability {np.mean(acceptance):.2f}"
    if isinstance(found.proposal, Mixture):
        return rung._replace(start=found.proposal, why=rung.why + why.removeprefix("asked for"))
    jumps = (
        "" if rung.kernel is kernel else "; in turn with proposals from a mixture, as the posterior goes on beyond it"
    )
    return rung._replace(doubt="", start=found.proposal, walkers=WALKERS, why=why + jumps)


def _hmc(found: Approximated, rng: np.random.Generator) -> Rung:
    gaussian = found.proposal if isinstance(found.proposal, Gaussian) else None
    kernel, _, report = warmed_up(found.target, _walkers(found, rng), rng, gaussian=gaussian)
    why = f"asked for; accepted with probability {report.acceptance:.2f}"
    return _independence(found, rng)._replace(
        method="hmc", doubt="", start=found.proposal, kernel=_jumping(found, kernel), walkers=WALKERS, why=why
    )


def _jumping(found: Approximated, kernel: Any) -> Any:
    """A kernel that stays near a mode, in turn with jumps to the others that were found."""
    modes = [component.gaussian for component in components_of(found)]
    return kernel if len(modes) < 2 else cycle(Jump(modes), kernel)


def _regeneration(found: Approximated, rng: np.random.Generator) -> Rung:
    """Independence with a proposal that is refitted where the chain forgets its past (figure 10, corrected)."""
    rung = _independence(found, rng)
    begun, components = _to_be_adapted(found, rung, rng), components_of(found)
    if len(components) > 1:
        begun["proposal"] = Mixture([one.gaussian for one in components], [one.share for one in components])
    sampler = AdaptiveSampler(found.target, **begun)
    return rung._replace(method="regeneration", kernel=None, sampler=sampler)


def _resampling(
    found: Approximated,
    rng: np.random.Generator,
    asked: options.Resampling = _RESAMPLING,
    labels: Sequence[str] = (),  # noqa: ARG001
) -> Rung:
    """Independence with a proposal that resampled chains have found (section 4.4, first method)."""
    rung = _independence(found, rng)
    begun = _to_be_adapted(found, rung, rng)
    sampler = ResamplingSampler(found.target, **begun, chains=asked.chains, rounds=asked.rounds, steps=asked.steps)
    return rung._replace(method="resampling", kernel=None, sampler=sampler)


def _to_be_adapted(found: Approximated, rung: Rung, rng: np.random.Generator) -> dict[str, Any]:
    """The Gaussian that adaptation begins with, and what is mixed into every proposal, with its share."""
    assert rung.reach is not None
    share = _WIDE if rung.reach.gaussian_alone else 0.5
    gaussian = found.proposal if isinstance(found.proposal, Gaussian) else moments_of(found, rung.reach, rng)
    return {"proposal": gaussian, "wide": rung.reach.proposal, "wide_share": share}


def _root(covariance: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)


def _walkers(found: Approximated, rng: np.random.Generator) -> Walkers:
    return start_at(found.target, found.proposal.sample(tuning_walkers(found.target), rng))


METHODS: dict[str, Callable[..., Rung]] = {  # of an Approximated and a generator; options and labels may follow
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
    "resampling": _resampling,
    "augmentation": _auto,  # for what is complete
}

"""What a fit keeps of its chains: draws, or averages of so many draws that moments, quantiles and errors follow from.

For each part k of the posterior: means of its parameters (``k.theta``), of their squares (``k.square``), of the log
density and the acceptance, and shares of the draws below fixed levels (``k.below``), which stand where the proposal
says that the posterior is: de Freitas et al. 2001, section 6.  Parameters are as users know them, a learned root's a
probability, unlike those of draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from doxa.checks import check_whole
from doxa.errors import ArgumentTypeError
from doxa.parameters.averaged import Averaged, Draws
from doxa.parameters.joint_target import Packing

if TYPE_CHECKING:
    from doxa.parameters.parts_sampler import PartSampler, PartsSampler
    from doxa.sampling.importance_proposals import Proposal

__all__ = ["Averages", "Keep", "Levels", "averaging", "check_keep", "levels_of"]

Floats: TypeAlias = NDArray[np.float64]
Levels: TypeAlias = tuple[tuple[float, ...], ...]  # for each parameter of a part

_SCORES = np.linspace(-3, 3, 25)  # normal scores of the quantiles: a cubic between them is off by about 0.0001 at most
_BEYOND = np.array([1.4, 2.0, 3.0, 5.0])  # times the distance of the outermost from the median
_PROPOSED = 8000  # draws: eleven are beyond the outermost quantiles
_PILOT = 500  # steps, twice, of a sampler without a proposal


@dataclass(frozen=True)
class Averages:
    """Keep averages in the place of draws: of the parameters, their squares, and indicators of levels.

    Parameters
    ----------
    every : int, default=100
        Draws that each kept average is of.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``every`` is not a whole number of at least 1.

    Notes
    -----
    An average takes as much memory as some 20 draws, so ``every`` should be larger.  Take some hundreds of averages of
    each chain: their scatter is what errors are found from.

    Examples
    --------
    >>> Averages(1000)
    Averages(every=1000)
    """

    every: int = 100

    def __post_init__(self) -> None:
        """Refuse what is no number of draws."""
        object.__setattr__(self, "every", check_whole("every", self.every, 1))


Keep: TypeAlias = Literal["draws"] | Averages


def check_keep(keep: object) -> None:
    """ArgumentTypeError unless draws are to be kept, or averages."""
    if not isinstance(keep, Averages) and keep != "draws":
        raise ArgumentTypeError(f"keep is {keep!r}; it must be 'draws' or doxa.parameters.Averages(every=100)")
    return


def levels_of(packing: Packing, proposal: Proposal | None, sampler: PartSampler, rng: np.random.Generator) -> Levels:
    """Levels for each parameter: 25 quantiles of the proposal, four numbers beyond them on either side, and 0.

    Where there is no proposal, quantiles of some draws of the sampler.  They are found among the free numbers of
    `Packing`, so that 0 is 0.5 of a probability and 1 of a scale.
    """
    if proposal is None:
        state, _, _ = sampler.run(sampler.init(rng), _PILOT, rng)
        thetas = sampler.run(state, _PILOT, rng)[1]["theta"].reshape(-1, packing.n_dimensions)
    else:
        thetas = np.asarray(proposal.sample(_PROPOSED, rng))
    quantiles = np.quantile(thetas, ndtr(_SCORES), axis=0)
    median = quantiles[_SCORES.size // 2]
    beyond = [median + factor * (edge - median) for edge in (quantiles[0], quantiles[-1]) for factor in _BEYOND]
    levels = np.sort(np.concatenate([quantiles, beyond, np.zeros((1, median.size))]), axis=0)
    return tuple(map(tuple, _parameters(packing, levels).T.tolist()))


def averaging(sampler: PartsSampler, parts: Sequence[tuple[Packing, Levels]], keep: Averages) -> Averaged:
    """The sampler of all parts, of which averages are kept."""
    of: dict[str, Callable[[Draws], Any]] = {}
    for k, (packing, levels) in enumerate(parts):
        of |= {f"{k}.{name}": itemgetter(f"{k}.{name}") for name in ("log_density", "acceptance")}
        of[f"{k}.theta"] = partial(_values, k, packing)
        of[f"{k}.square"] = partial(_squares, k, packing)
        of[f"{k}.below"] = partial(_below, k, packing, np.array(levels))
    return Averaged(sampler, of, keep.every)


def _parameters(packing: Packing, vectors: Floats) -> Floats:
    """Parameters in the order of the vectors (..., d), as users know them."""
    unpacked = packing.unpack(vectors)
    return np.concatenate([unpacked[node] for node in packing.nodes], axis=-1)


def _values(k: int, packing: Packing, draws: Draws) -> Floats:
    return _parameters(packing, draws[f"{k}.theta"])


def _squares(k: int, packing: Packing, draws: Draws) -> Floats:
    return _values(k, packing, draws) ** 2


def _below(k: int, packing: Packing, levels: Floats, draws: Draws) -> NDArray[np.bool_]:
    return _values(k, packing, draws)[..., None] <= levels

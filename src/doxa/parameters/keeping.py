"""What a fit keeps of its chains: draws, or averages of so many draws that moments, quantiles and errors follow from.

For each part k of the posterior: means of its parameters (``k.theta``), of their squares (``k.square``), of the log
density and the acceptance, and shares of the draws below fixed levels (``k.below``), which stand where the proposal
says that the posterior is: de Freitas et al. 2001, section 6.  Parameters are as users know them, a learned root's a
probability, unlike those of draws.

`Averaged`: a chain of which averages of a few quantities are kept in the place of its draws.

Where a draw is large, or a run long, what is asked of it is often a few means: moments, indicators, a distribution
function at some points (de Freitas et al. 2001, section 6).  Each kept value is the mean of so many successive draws,
so the values are batch means: their mean is that of all draws, and whatever gives the mean of draws an honest error,
and compares chains, does so for them.  The draws themselves are let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.joint_target import Packing
from doxa.sampling.runner import Sampler
from doxa.schema import Within

if TYPE_CHECKING:
    from doxa.parameters.samplers import PartSampler, PartsSampler
    from doxa.sampling.importance_proposals import Proposal

__all__ = ["Averaged", "Averages", "Keep", "Levels", "averaging", "check_keep", "levels_of"]


Draws: TypeAlias = dict[str, NDArray[Any]]

_HELD = 256  # draws of the sampler that are held at a time


@dataclass(frozen=True, eq=False)
class Averaged:
    """A sampler of `doxa.sampling.driver` that keeps averages of functions of another one's draws.

    Parameters
    ----------
    sampler : Sampler
        What draws.
    of : mapping of str to callable
        From the sampler's draws, arrays of shape (n, ...) by name, to one array of shape (n, ...): numbers, or True
        and False, whose averages are probabilities, kept in single precision.
    every : int
        Draws that each kept average is of.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``of`` is empty or holds no functions, ``every`` is below 1; in a run, if a function does not return a value
        for each draw.

    Notes
    -----
    Memory and files hold ``1 / every`` of the values, and only those asked for; however many draws an average is of,
    256 of the sampler's are held at a time.  Take so many averages that a chain has some hundreds: its autocorrelations
    are looked for among them.

    Examples
    --------
    >>> from doxa.estimates.diagnostics import diagnose_real
    >>> from doxa.parameters.samplers import ChainSampler
    >>> from doxa.sampling.driver import Schedule, sample
    >>> from doxa.parameters.kernels import RandomWalk
    >>> from doxa.parameters.kernels.gaussians import Normal
    >>> from doxa.parameters.kernels.kernel import Function
    >>> normal = Normal(np.zeros(3), np.eye(3))
    >>> chain = ChainSampler(Function(normal.log_density, 3), RandomWalk(1.4), normal)
    >>> kept = Averaged(chain, {"square": lambda draws: draws["theta"][:, 0] ** 2}, every=100)
    >>> trace = sample(kept, Schedule(4, 200, 20), seed=1, progress=False)
    >>> trace["square"].shape
    (4, 200, 3)
    >>> print(diagnose_real(trace["square"][..., 0]).estimate)  # exact: 1
    0.994 +/- 0.015
    """

    sampler: Sampler[Any]
    of: Mapping[str, Callable[[Draws], ArrayLike]]
    every: int

    def __post_init__(self) -> None:
        """Refuse what cannot be averaged."""
        check_whole("every", self.every, 1)
        if not self.of:
            raise ArgumentError("of is empty; name what is to be averaged: of={'mean': lambda draws: draws['theta']}")
        for name, function in self.of.items():
            if not callable(function):
                raise ArgumentTypeError(f"of[{name!r}] is {function!r}; it must be a function of the draws")

    @property
    def thin(self) -> int:
        """Steps of the sampler behind each average."""
        return self.sampler.thin * self.every

    @property
    def is_compiled(self) -> bool:
        """Whether the sampler is a compiled loop."""
        return bool(getattr(self.sampler, "is_compiled", True))

    def rule_of(self, key: str) -> Within:
        """The bounds of a field of the state, for `doxa.schema.check_fields`."""
        of: Callable[[str], Within] | None = getattr(self.sampler, "rule_of", None)
        return Within() if of is None else of(key)

    def check_state(self, state: Any) -> None:
        """Raise `ArgumentError` unless the sampler can go on from a state from a file."""
        check = getattr(self.sampler, "check_state", None)
        if check is not None:
            check(state)

    def init(self, rng: np.random.Generator) -> Any:
        """A state of the sampler."""
        return self.sampler.init(rng)

    def run(self, state: Any, n_steps: int, rng: np.random.Generator) -> tuple[Any, Draws, dict[str, int]]:
        """Run ``n_steps``, a multiple of ``thin``, and keep the averages."""
        n_kept, some = n_steps // self.thin, max(1, _HELD // self.every)
        pieces: list[Draws] = []
        info: Counter[str] = Counter()
        for begin in range(0, max(1, n_kept), some):
            n = min(some, n_kept - begin)
            sums: Draws = {}
            for done in range(0, self.every, _HELD):
                size = min(_HELD, self.every - done)
                state, draws, more = self.sampler.run(state, n * size * self.sampler.thin, rng)
                for name in self.of:
                    sums[name] = sums.get(name, 0) + self._sums(name, draws, n, size)
                info.update(more)
            pieces.append({name: self._average(total) for name, total in sums.items()})
        return state, {name: np.concatenate([piece[name] for piece in pieces]) for name in self.of}, info

    def _sums(self, name: str, draws: Draws, n: int, size: int) -> NDArray[Any]:
        values = np.asarray(self.of[name](draws))
        if values.shape[:1] != (n * size,):
            raise ArgumentError(
                f"of[{name!r}] returned an array of shape {values.shape} for {n * size} draws; it must return a value "
                "for each, along the first axis"
            )
        kind = np.int64 if values.dtype == np.bool_ else np.float64
        return np.asarray(values.reshape(n, size, *values.shape[1:]).sum(axis=1, dtype=kind))

    def _average(self, sums: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """Of counts, which no function of numbers makes, in single precision."""
        return (sums / self.every).astype(np.float32 if sums.dtype == np.int64 else np.float64)


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

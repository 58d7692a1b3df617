"""`ChainSampler`: a target and a kernel as a sampler of the driver's.

The driver's blocks may end anywhere, and a matrix product of half as many rows may round differently; so kernels always
run in whole chunks of a fixed number of steps, and what a block has not asked for yet waits in the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.parameters.kernels.kernel import Kernel, Path, Walkers, join, start_at, take
from doxa.parameters.kernels.targets import Target, TargetError
from doxa.sampling.importance_proposals import Proposal

__all__ = ["ChainSampler", "ChainState"]

Floats: TypeAlias = NDArray[np.float64]

_CHUNK = 256  # steps
_TRIES = 100
_NUMBERS = 2**17  # in a chunk's path; where steps are large, a chunk is seconds of work


class ChainState(NamedTuple):
    """Walkers, and steps that they have made beyond what was asked of them."""

    thetas: Floats  # (walkers, d), at the end of the chunk
    log_density: Floats  # (walkers,)
    ahead_thetas: Floats  # (steps, walkers, d)
    ahead_log_density: Floats  # (steps, walkers)
    ahead_acceptance: Floats  # (steps, walkers)


@dataclass(frozen=True)
class ChainSampler:
    """Walkers that a kernel moves, as a sampler for `doxa.sampling.driver`.

    Parameters
    ----------
    target : Target
        What is drawn from.
    kernel : Kernel
        What moves the walkers.
    starts : Proposal
        Where walkers begin: ``starts.sample(walkers, rng)``.  Independence samplers begin at draws of their own
        proposal, as an over-dispersed start would stick; others do well with a wide one.
    walkers : int, default=1
        Chains in lockstep; the driver's chain is a group of so many.
    thin : int, default=1
        Steps between kept draws.
    most : int, default=256
        Steps that the kernel makes at a time: fewer where each evaluates the target very often, as a run of some draws
        makes so many at least.

    Notes
    -----
    Draws are ``theta`` of shape (n_kept, walkers, d), ``log_density`` and ``acceptance`` of shape (n_kept, walkers).
    """

    target: Target
    kernel: Kernel
    starts: Proposal
    walkers: int = 1
    thin: int = 1
    most: int = _CHUNK
    is_compiled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse numbers below one."""
        check_whole("walkers", self.walkers, 1)
        check_whole("thin", self.thin, 1)
        check_whole("most", self.most, 1)

    @property
    def state_type(self) -> type[ChainState]:
        """The type of its states."""
        return ChainState

    @property
    def chunk(self) -> int:
        """Steps that the kernel makes at a time; a matter of sizes alone, so that draws do not depend on blocks."""
        most = max(1, min(self.most, _NUMBERS // (self.walkers * self.target.n_dimensions)))
        return 1 << (most.bit_length() - 1)  # a power of two, as `doxa.parameters.parts_sampler` wants

    def init(self, rng: np.random.Generator) -> ChainState:
        """Walkers at draws from ``start`` that lie in the support."""
        walkers = start_at(self.target, np.asarray(self.starts.sample(self.walkers, rng), dtype=np.float64))
        for _ in range(_TRIES):
            outside = np.isneginf(walkers.log_density)
            if not outside.any():
                n, d = walkers.thetas.shape
                return ChainState(*walkers, np.empty((0, n, d)), np.empty((0, n)), np.empty((0, n)))
            again = start_at(self.target, np.asarray(self.starts.sample(self.walkers, rng), dtype=np.float64))
            walkers = take(outside, again, walkers)
        raise TargetError(
            f"no start in the target's support in {_TRIES} draws from {self.starts!r}; give starts that lie where the "
            "log density is finite"
        )

    def run(
        self, state: ChainState, n_steps: int, rng: np.random.Generator
    ) -> tuple[ChainState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``) and keep every ``thin``-th."""
        walkers = Walkers(state.thetas, state.log_density)
        path = Path(state.ahead_thetas, state.ahead_log_density, state.ahead_acceptance)
        paths, n_ready = [path], len(path.thetas)
        while n_ready < n_steps:
            walkers, path = self.kernel.run(self.target, walkers, self.chunk, rng)
            paths.append(path)
            n_ready += len(path.thetas)
        path = join(paths)
        kept = slice(self.thin - 1, n_steps, self.thin)
        draws = {
            "theta": path.thetas[kept],
            "log_density": path.log_density[kept],
            "acceptance": path.acceptance[kept],
        }
        after = ChainState(*walkers, *(part[n_steps:] for part in path))
        return after, draws, {"steps": n_steps * self.walkers}

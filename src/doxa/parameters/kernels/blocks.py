r"""Block updates: a part of the coordinates at a time, so that small proposals are accepted where large ones are not.

`BlockIndependence` proposes blocks from a Gaussian approximation (de Freitas et al. 2001, section 4.2 and figure 6);
`block` makes any kernel that can move a part of the coordinates sweep over blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.combined import CycleKernel, MixtureKernel, cycle, mixture
from doxa.parameters.kernels.gaussians import (
    Block,
    BlockLaw,
    GaussianProposal,
    check_gaussian,
    check_indices,
    conditional_laws,
    marginal_laws,
    radial_log_density,
    radial_noise,
)
from doxa.parameters.kernels.independence import Independence
from doxa.parameters.kernels.kernel import Path, Target, Walkers, check_dimensions, decide, run_lockstep
from doxa.parameters.kernels.random_walk import RandomWalk

__all__ = ["BlockIndependence", "block", "propose_block"]

Form: TypeAlias = Literal["conditional", "marginal"]
Scan: TypeAlias = Literal["cyclic", "random"]

_FORMS = {"conditional": conditional_laws, "marginal": marginal_laws}


@dataclass(frozen=True, eq=False)
class BlockIndependence:
    """Metropolis-Hastings on blocks of coordinates, proposed from a Gaussian.

    Parameters
    ----------
    gaussian : GaussianProposal
        The approximation N(m, S): ``mean``, ``cholesky``.
    blocks : int or sequence of sequences of int
        Indices of each block, together all coordinates; they may overlap. A number makes consecutive blocks of that
        size, the last perhaps smaller.
    form : {"conditional", "marginal"}, default="conditional"
        Propose a block from the Gaussian's law of it given the rest where it stands, or from its marginal whatever the
        rest is. The paper prints the marginal; the conditional is accepted more often where coordinates are correlated.
    scan : {"cyclic", "random"}, default="cyclic"
        One step is a sweep over all blocks in their order, or the update of one block chosen at random, the same for
        all walkers.
    tails : float, default=0.0
        Share of the updates whose noise has a t distribution's long tails, so that weights are bounded.
    width : float, default=1.3
        How wide that distribution is, in standard deviations of the Gaussian.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``gaussian`` is none, ``tails`` is no share below 1, a block names no coordinate, one twice or one that there
        is not, the blocks leave one out, or an option is none of its values; when run, if the target has another number
        of coordinates.

    Notes
    -----
    The Hastings term is the Gaussian density of the block's old value over that of its new one, both given the same
    rest (conditional) or neither (marginal).  Acceptance is the mean over the blocks of a sweep.  Blocks chosen for all
    walkers at once leave those in the target uncorrelated, as whatever the choices each update keeps it.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.kernel import Function
    >>> class Normal:
    ...     mean, cholesky = np.zeros(2), np.array([[1.0, 0.0], [0.8, 0.6]])
    ...
    ...     def sample(self, n, rng):
    ...         return rng.standard_normal((n, 2)) @ self.cholesky.T
    ...
    ...     def log_density(self, thetas):
    ...         return -0.5 * (np.linalg.solve(self.cholesky, thetas.T) ** 2).sum(axis=0)
    >>> q, rng = Normal(), np.random.default_rng(1)
    >>> target = Function(q.log_density, 2)
    >>> for form in ("conditional", "marginal"):  # the conditional of the target itself is a Gibbs sampler
    ...     _, path = BlockIndependence(q, 1, form).run(target, start_at(target, np.zeros((4, 2))), 2000, rng)
    ...     print(round(float(path.acceptance.mean()), 2))
    1.0
    0.53
    """

    gaussian: GaussianProposal
    blocks: int | Sequence[Block]
    form: Form = "conditional"
    scan: Scan = "cyclic"
    tails: float = 0.0
    width: float = 1.3

    def __post_init__(self) -> None:
        """Refuse what cannot be proposed, and what would leave a coordinate where it is."""
        check_gaussian("gaussian", self.gaussian)
        _check_option("form", self.form, tuple(_FORMS))
        _check_option("scan", self.scan, ("cyclic", "random"))
        if not 0 <= self.tails < 1:
            raise ArgumentError(f"tails is {self.tails!r}; it must be at least 0 and below 1")
        object.__setattr__(self, "blocks", _check_blocks(self.blocks, len(self.gaussian.mean)))

    @cached_property
    def laws(self) -> tuple[BlockLaw, ...]:
        """Law of each block, computed once."""
        assert not isinstance(self.blocks, int)
        cholesky = np.asarray(self.gaussian.cholesky, dtype=np.float64)
        return _FORMS[self.form](cholesky, [np.array(indices) for indices in self.blocks])

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times; each block updated evaluates the target once, on all walkers."""
        mean, laws = np.asarray(self.gaussian.mean, dtype=np.float64), self.laws
        check_dimensions(self, mean.size, target)

        def update(walkers: Walkers, law: BlockLaw) -> tuple[Walkers, Floats]:
            proposed, log_hastings = propose_block(mean, law, walkers.thetas, rng, self.tails, self.width)
            return decide(target, walkers, proposed, log_hastings, rng)

        def sweep(walkers: Walkers) -> tuple[Walkers, Floats]:
            total = np.zeros(len(walkers.thetas))
            for law in laws:
                walkers, acceptance = update(walkers, law)
                total += acceptance
            return walkers, total / len(laws)

        def one(walkers: Walkers) -> tuple[Walkers, Floats]:
            return update(walkers, laws[int(rng.integers(len(laws)))])

        return run_lockstep(sweep if self.scan == "cyclic" else one, walkers, n_steps)

    def reversed(self) -> BlockIndependence:
        """The same updates, in the reverse order."""
        assert not isinstance(self.blocks, int)
        return replace(self, blocks=self.blocks[::-1]) if self.scan == "cyclic" else self


def propose_block(
    mean: Floats, law: BlockLaw, thetas: Floats, rng: np.random.Generator, tails: float = 0.0, width: float = 1.0
) -> tuple[Floats, NDArray[np.float64]]:
    """New values for a block of each row of ``thetas`` (walkers, d); the rows, and the log Hastings term (walkers,)."""
    centre = mean[law.block] + (thetas[:, law.rest] - mean[law.rest]) @ law.gain.T
    old = (thetas[:, law.block] - centre) @ law.inverse.T
    new = radial_noise(len(old), law.block.size, tails, width, rng)
    proposed = thetas.copy()
    proposed[:, law.block] = centre + new @ law.factor.T
    back, there = (radial_log_density((noise**2).sum(axis=1), law.block.size, tails, width) for noise in (old, new))
    return proposed, back - there


def block(
    kernel: Any, blocks: int | Sequence[Block], scan: Scan = "cyclic"
) -> BlockIndependence | CycleKernel | MixtureKernel:
    """Make a kernel move blocks of coordinates instead of all at once.

    Parameters
    ----------
    kernel : RandomWalk, Independence, or any kernel with ``within(coordinates)``
        An Independence needs a Gaussian as its proposal, and becomes a `BlockIndependence` of conditionals.
    blocks : int or sequence of sequences of int
        As in `BlockIndependence`.  Where the kernel does not know how many coordinates there are (no ``cholesky``), the
        blocks must be listed: the highest index says.
    scan : {"cyclic", "random"}, default="cyclic"
        One step is a sweep over all blocks, or one block chosen at random.

    Returns
    -------
    BlockIndependence, CycleKernel or MixtureKernel

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the blocks leave a coordinate out, or ``kernel`` cannot move a part of the coordinates.

    Examples
    --------
    >>> from doxa.parameters.kernels.random_walk import RandomWalk
    >>> [part.coordinates for part in block(RandomWalk(0.1), [[0, 1], [2]]).kernels]
    [(0, 1), (2,)]
    """
    _check_option("scan", scan, ("cyclic", "random"))
    if isinstance(kernel, Independence):
        return BlockIndependence(kernel.proposal, blocks, scan=scan)  # type: ignore[arg-type]
    if not hasattr(kernel, "within"):
        raise ArgumentTypeError(
            f"kernel is of type {type(kernel).__name__}, which cannot move a part of the coordinates; a RandomWalk "
            "can, an Independence with a Gaussian proposal can, and so can any kernel with a method within(coordinates)"
        )
    factor = getattr(kernel, "cholesky", None)
    parts = _check_blocks(blocks, None if factor is None else len(factor))
    if isinstance(kernel, RandomWalk) and factor is None:  # so that a target with more coordinates is refused
        kernel = replace(kernel, cholesky=np.eye(1 + max(map(max, parts))))
    kernels = [kernel.within(part) for part in parts]
    return cycle(*kernels) if scan == "cyclic" else mixture(*kernels)


def _check_blocks(blocks: int | Sequence[Block], n_dimensions: int | None) -> tuple[tuple[int, ...], ...]:
    if isinstance(blocks, Sequence | np.ndarray) and not isinstance(blocks, str):
        listed = [check_indices(f"blocks[{i}]", part, n_dimensions) for i, part in enumerate(blocks)]
        d = n_dimensions or 1 + max((int(part.max()) for part in listed), default=0)
        left_out = np.setdiff1d(np.arange(d), np.concatenate([np.empty(0, dtype=np.intp), *listed]))
        if left_out.size:
            raise ArgumentError(f"blocks leave out coordinate {left_out[0]} of {d}, which would never move; add it")
        return tuple(tuple(part.tolist()) for part in listed)
    size = check_whole("blocks", blocks, 1, ", or a sequence of sequences of indices")
    if n_dimensions is None:
        raise ArgumentError(
            f"blocks is {size}, but the kernel does not know the number of coordinates; list the blocks"
        )
    return tuple(tuple(range(k, min(k + size, n_dimensions))) for k in range(0, n_dimensions, size))


def _check_option(name: str, value: object, values: Sequence[str]) -> None:
    if value not in values:
        raise ArgumentError(f"{name} is {value!r}; it must be {' or '.join(map(repr, values))}")

"""The methods of `doxa.fit` that take options, as objects; a word means the object with its defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError
from doxa.schema import made_of_fields

__all__ = [
    "OPTIONS",
    "Block",
    "Method",
    "Mixture",
    "RandomWalk",
    "Resampling",
    "check_blocks",
    "check_method",
    "indices_of",
    "method_from_settings",
    "method_name",
    "method_settings",
]

Blocks: TypeAlias = int | Sequence[Sequence[str]]
Scan: TypeAlias = Literal["cyclic", "random"]

_BLOCK = 5  # coefficients, as in de Freitas et al. 2001, section 5.1


@dataclass(frozen=True)
class Block:
    """Block updates proposed from the approximation (de Freitas et al. 2001, section 4.2 and figure 6).

    Parameters
    ----------
    blocks : int or sequence of sequences of str, default=5
        Coefficients in each block, in their order; or the blocks themselves, by the names that `Until` knows as well,
        such as ``[["systol: bias", "systol: smoke"], ["systol: phys"]]``.  They may overlap.  Parts of the posterior
        are drawn apart, so a block is updated in each part by itself.
    scan : {"cyclic", "random"}, default="cyclic"
        A step updates all blocks in their order, or one that is drawn.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an option is none of its values; when fitted, if the blocks name what is no coefficient or leave one out.

    Examples
    --------
    >>> Block(2, scan="random")
    Block(blocks=2, scan='random')
    """

    blocks: Blocks = _BLOCK
    scan: Scan = "cyclic"

    name: ClassVar[str] = "block"

    def __post_init__(self) -> None:
        """Refuse what are no blocks."""
        object.__setattr__(self, "blocks", _checked(self.blocks))
        _check_scan(self.scan)


@dataclass(frozen=True)
class RandomWalk:
    """A random walk whose steps are calibrated before the first draw, of all coefficients at once or in blocks.

    Parameters
    ----------
    blocks : int or sequence of sequences of str, optional
        As in `Block`; all coefficients of a part at once when left out.
    scan : {"cyclic", "random"}, default="cyclic"
        As in `Block`.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        As of `Block`.

    Examples
    --------
    >>> RandomWalk(blocks=1)
    RandomWalk(blocks=1, scan='cyclic')
    """

    blocks: Blocks | None = None
    scan: Scan = "cyclic"

    name: ClassVar[str] = "random_walk"

    def __post_init__(self) -> None:
        """Refuse what are no blocks."""
        object.__setattr__(self, "blocks", None if self.blocks is None else _checked(self.blocks))
        _check_scan(self.scan)


@dataclass(frozen=True)
class Mixture:
    """Block updates of the approximation, and of a random walk (de Freitas et al. 2001, section 4.3 and figure 7).

    Parameters
    ----------
    share : float, optional, default=0.5
        Probability that a step is one of the approximation, strictly between 0 and 1; the others are of the walk.
        None makes both in every step, one after the other: a cycle instead of a mixture.
    blocks : int or sequence of sequences of str, default=5
        As in `Block`; those of the walk are the same.
    scan : {"cyclic", "random"}, default="cyclic"
        As in `Block`.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        As of `Block`, or if ``share`` is no such probability.

    Examples
    --------
    >>> Mixture(share=0.9)
    Mixture(share=0.9, blocks=5, scan='cyclic')
    """

    share: float | None = 0.5
    blocks: Blocks = _BLOCK
    scan: Scan = "cyclic"

    name: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        """Refuse what are no blocks, and what is no share."""
        object.__setattr__(self, "blocks", _checked(self.blocks))
        _check_scan(self.scan)
        if self.share is None:
            return
        if isinstance(self.share, bool) or not isinstance(self.share, (int, float)):
            raise ArgumentTypeError(
                f"share is {self.share!r}; it must be a number strictly between 0 and 1, or None for a cycle"
            )
        if not 0 < self.share < 1:
            raise ArgumentError(
                f"share is {self.share!r}; it must lie strictly between 0 and 1 (for one kernel alone, take "
                "method='block' or 'random_walk'; None makes a cycle of both)"
            )


@dataclass(frozen=True)
class Resampling:
    """Chains that are resampled to find a proposal, which is then frozen (de Freitas et al. 2001, section 4.4).

    Parameters
    ----------
    chains : int, default=64
        Of the initial phase, at least 4; each chain of the fit has an initial phase of its own.
    rounds : int, default=8
        After each of which they are resampled and the proposal is refitted.
    steps : int, default=16
        Of each chain in each round.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is too small, or is none.

    Examples
    --------
    >>> Resampling(rounds=4)
    Resampling(chains=64, rounds=4, steps=16)
    """

    chains: int = 64
    rounds: int = 8
    steps: int = 16

    name: ClassVar[str] = "resampling"

    def __post_init__(self) -> None:
        """Refuse numbers that are too small."""
        for field, least in (("chains", 4), ("rounds", 1), ("steps", 1)):
            object.__setattr__(self, field, check_whole(field, getattr(self, field), least))


Method: TypeAlias = str | Block | RandomWalk | Mixture | Resampling

OPTIONS: dict[str, type[Any]] = {kind.name: kind for kind in (Block, RandomWalk, Mixture, Resampling)}


def check_method(method: object, words: Collection[str]) -> Method:
    """The method that ``method=`` means: a word where an object says no more than its word does."""
    if isinstance(method, str):
        if method not in words:
            raise ArgumentError(f"method is {method!r}; it must be one of {', '.join(map(repr, words))}")
        return method
    if not isinstance(method, tuple(OPTIONS.values())):
        objects = ", ".join(f"doxa.parameters.{kind.__name__}" for kind in OPTIONS.values())
        raise ArgumentTypeError(
            f"method is {method!r}; it must be a word ({', '.join(map(repr, words))}) or an object of {objects}"
        )
    asked: Method = method  # type: ignore[assignment]
    return method_name(asked) if asked == type(method)() else asked


def method_name(method: Method) -> str:
    """The word for a method."""
    return method if isinstance(method, str) else method.name


def method_settings(method: Method) -> str | dict[str, Any]:
    """A method as plain data for a run file: its word, or its options with their names."""
    if isinstance(method, str):
        return method
    settings = {"name": method.name, **dataclasses.asdict(method)}
    if isinstance(settings.get("blocks"), tuple):
        settings["blocks"] = [list(block) for block in settings["blocks"]]
    return settings


def method_from_settings(settings: Any, words: Collection[str]) -> Method:
    """Undo `method_settings`; ArgumentError if it is not what that returns."""
    if isinstance(settings, str):
        return check_method(settings, words)
    name = settings.get("name") if isinstance(settings, dict) else None
    if not isinstance(name, str) or name not in OPTIONS:
        raise ArgumentError(f"the run uses the method {name!r}, which this version does not know")
    try:
        given = {key: value for key, value in settings.items() if key != "name"}
        return check_method(made_of_fields(OPTIONS[name], given, "the run's method"), words)
    except DoxaError as error:
        raise ArgumentError(f"the run's method cannot be made again: {error}") from error


def check_blocks(method: Method, drawn: Iterable[Sequence[str]], others: Collection[str] = ()) -> None:
    """Raise unless the named blocks of a method have every coefficient that is drawn, and none that there is not."""
    blocks = getattr(method, "blocks", None)
    if blocks is None or isinstance(blocks, int):
        return
    labels = [label for part in drawn for label in part]
    known = {*labels, *others}
    named = {name for block in blocks for name in block}
    for name in (name for block in blocks for name in block if name not in known):
        raise ArgumentError(f"blocks name {name!r}, which is no coefficient; there are {', '.join(map(repr, labels))}")
    for label in labels:
        if label not in named:
            raise ArgumentError(f"blocks leave out {label!r}, which would never move; add it to a block")


def indices_of(blocks: Blocks, labels: Sequence[str]) -> list[list[int]]:
    """Blocks of one part as indices of its coefficients, which are called ``labels``.

    Examples
    --------
    >>> indices_of(2, ["y: bias", "y: a", "y: b"])
    [[0, 1], [2]]
    >>> indices_of([["y: b", "z: a"], ["z: bias"], ["y: a"]], ["y: a", "y: b"])
    [[1], [0]]
    """
    if isinstance(blocks, int):
        return [list(range(k, min(k + blocks, len(labels)))) for k in range(0, len(labels), blocks)]
    place = {label: k for k, label in enumerate(labels)}
    found = [[place[name] for name in block if name in place] for block in blocks]
    return [block for block in found if block]


def _checked(blocks: object) -> int | tuple[tuple[str, ...], ...]:
    if isinstance(blocks, str) or not isinstance(blocks, Sequence):
        return check_whole("blocks", blocks, 1, ", or a sequence of blocks, each a sequence of coefficients' names")
    if not blocks:
        raise ArgumentError("blocks is empty; list every coefficient, or give their number in a block")
    for i, block in enumerate(blocks):
        if (
            isinstance(block, str)
            or not isinstance(block, Sequence)
            or not all(isinstance(name, str) for name in block)
        ):
            raise ArgumentTypeError(
                f"blocks[{i}] is {block!r}; a block is a sequence of coefficients' names, such as ['systol: smoke']"
            )
        if not block or len(set(block)) < len(block):
            raise ArgumentError(
                f"blocks[{i}] is {list(block)!r}; a block names at least one coefficient, and none twice"
            )
    return tuple(tuple(block) for block in blocks)


def _check_scan(scan: object) -> None:
    if scan not in ("cyclic", "random"):
        raise ArgumentError(f"scan is {scan!r}; it must be 'cyclic' or 'random'")

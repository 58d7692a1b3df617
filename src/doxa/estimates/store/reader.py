"""Reading a run file, checked: the run as it stood at one moment, while a writer may go on.

Rounds follow one another, warm-up first; in every sampling round each chain has each quantity, in pieces that join up;
the chain states belong to the last round.  A file in which any of this fails is damaged, however it came about.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, DoxaError
from doxa.estimates.store.file import in_words
from doxa.estimates.store.format import (
    Packed,
    RunFileError,
    RunHeader,
    State,
    check_packed,
    decode_chain,
    read_header,
    unpack,
)
from doxa.estimates.trace import Trace

_TOO_MANY = 2**62


class TooLargeError(ArgumentError):
    """The draws would take more memory than the caller allows."""


class Block(NamedTuple):
    """Where a piece of the draws of one chain is."""

    id: int
    round: int
    chain: int
    name: str
    first: int  # draw at which it begins
    n_draws: int
    described: tuple[str, str, str]  # dtype, shape and codec, see Packed

    @property
    def key(self) -> str:
        """The text that its checksum covers beside its bytes."""
        return block_key(self.round, self.chain, self.name, self.first, self.described)


class ChainState(NamedTuple):
    """Where a chain stood at the last commit."""

    state: State
    rng_state: dict[str, Any]
    info: dict[str, int]


@dataclass
class Index:
    """Contents of a run file; see `read_index`."""

    round_steps: list[int] = field(default_factory=list)  # of each chain, in each round
    n_warmup_steps: int = 0
    n_steps: int = 0
    n_draws: int = 0
    n_bytes: int = 0
    is_sampling: bool = False
    layout: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)  # dtype and shape of one draw
    blocks: list[Block] = field(default_factory=list)
    chains: list[ChainState] = field(default_factory=list)

    @property
    def n_rounds(self) -> int:
        """Rounds of the warm-up and of sampling."""
        return len(self.round_steps)


def checksum(key: str, data: bytes = b"") -> int:
    """CRC-32 of a row: its key as UTF-8, followed by its bytes."""
    return zlib.crc32(data, zlib.crc32(key.encode("utf-8", "surrogatepass")))


def round_key(number: int, phase: str, n_steps: int, n_draws: int) -> str:
    """The text that the checksum of a round covers."""
    return f"round|{number}|{phase}|{n_steps}|{n_draws}|"


def block_key(number: int, chain: int, name: str, first: int, packed: tuple[Any, ...]) -> str:
    """The text that the checksum of a block of draws covers beside its bytes."""
    dtype, shape, codec = packed[:3]
    return f"block|{number}|{chain}|{name}|{first}|{dtype}|{shape}|{codec}|"


def state_key(number: int, chain: int, name: str, packed: tuple[Any, ...]) -> str:
    """The text that the checksum of an array of a chain state, or of the state itself (no name), covers."""
    dtype, shape, codec = packed[:3]
    return f"state|{number}|{chain}|{name}|{dtype}|{shape}|{codec}|"


def read_index(connection: sqlite3.Connection, n_chains: int, max_bytes: int) -> Index:
    """Read all but the draws, inside a transaction of the caller; draws may take up to ``max_bytes``."""
    index = Index()
    ends = _read_rounds(connection, index)
    _read_blocks(connection, index, ends, n_chains, max_bytes)
    _read_chains(connection, index, n_chains)
    return index


def _read_rounds(connection: sqlite3.Connection, index: Index) -> list[int]:
    """Draws of a chain after each round; element 0 is before the first."""
    ends = [0]
    warm = True
    for row in connection.execute("SELECT round, phase, n_steps, n_draws, crc32 FROM rounds ORDER BY round"):
        number, phase, n_steps, n_draws, crc = row
        _whole(number, n_steps, n_draws)
        _same(number, len(ends), "its rounds are not consecutive")
        _same(crc, checksum(round_key(number, phase, n_steps, n_draws)), f"round {number} fails its checksum")
        if phase not in ("warmup", "sampling") or (phase == "warmup" and (n_draws or not warm)):
            raise ArgumentError(f"round {number} is of an unknown kind")
        warm = phase == "warmup"
        if warm:
            index.n_warmup_steps += n_steps
        else:
            index.n_steps += n_steps
        ends.append(ends[-1] + n_draws)
        index.round_steps.append(n_steps)
    index.is_sampling = not warm
    index.n_draws = ends[-1]
    if index.n_draws + index.n_steps + index.n_warmup_steps > _TOO_MANY:
        raise ArgumentError("its rounds are too long")
    return ends


def _read_blocks(connection: sqlite3.Connection, index: Index, ends: list[int], n_chains: int, max_bytes: int) -> None:
    reached: dict[tuple[int, str], int] = {}
    columns = "id, round, chain, name, first, dtype, shape, codec, length(data)"
    for row in connection.execute(f"SELECT {columns} FROM blocks ORDER BY id"):  # noqa: S608
        identity, number, chain, name, first, dtype, shape, codec, n_stored = row
        _whole(number, chain, first)
        if not isinstance(name, str):
            raise ArgumentError("a quantity has no name")
        axes, n_bytes = check_packed(dtype, shape, codec, n_stored)
        if not axes:
            raise ArgumentError("a block of draws has no axis of draws")
        n_draws, *tail = axes
        _same(index.layout.setdefault(name, (dtype, tuple(tail))), (dtype, tuple(tail)), "a quantity changes its shape")
        index.n_bytes += n_bytes
        if index.n_bytes > max_bytes:
            raise TooLargeError(f"its draws take more than {max_bytes} bytes")
        if (
            not 1 <= number < len(ends)
            or chain >= n_chains
            or first + n_draws > ends[number]
            or first < ends[number - 1]
        ):
            raise ArgumentError("a block of draws lies outside its round")
        _same(first, reached.get((chain, name), 0), "its blocks of draws do not join up")
        reached[chain, name] = first + n_draws
        index.blocks.append(Block(identity, number, chain, name, first, n_draws, (dtype, shape, codec)))
    expected = {(chain, name): index.n_draws for chain in range(n_chains) for name in index.layout}
    _same(reached, expected, "draws are missing")
    if index.is_sampling and not index.layout:
        raise ArgumentError("draws are missing")


def _read_chains(connection: sqlite3.Connection, index: Index, n_chains: int) -> None:
    arrays: dict[int, dict[str, NDArray[Any]]] = {}
    total = 0
    for row in connection.execute("SELECT chain, name, dtype, shape, codec, crc32, data FROM states ORDER BY id"):
        chain, name, dtype, shape, codec, crc, data = row
        _whole(chain)
        if not isinstance(data, bytes):
            raise ArgumentError("a chain state holds no bytes")
        packed = Packed(dtype, shape, codec, data)
        _same(crc, checksum(state_key(index.n_rounds, chain, name, packed), data), "a chain state fails its checksum")
        total += check_packed(dtype, shape, codec, len(data))[1]
        if total > 2**32:
            raise ArgumentError("its chain states are too large")
        arrays.setdefault(chain, {})[name] = unpack(packed)
    rows = connection.execute("SELECT chain, round, body, crc32 FROM chains ORDER BY chain").fetchmany(n_chains + 1)
    _same([row[0] for row in rows], list(range(n_chains)) if index.n_rounds else [], "chain states are missing")
    for chain, number, body, crc in rows:
        _same(number, index.n_rounds, "a chain state belongs to another round")
        if not isinstance(body, str):
            raise ArgumentError("a chain state is not text")
        key = state_key(number, chain, "", ("", "", ""))
        _same(crc, checksum(key, body.encode()), "a chain state fails its checksum")
        index.chains.append(ChainState(*decode_chain(body, arrays.pop(chain, {}))))
    if arrays:
        raise ArgumentError("chain states of no chain are left over")


def _whole(*values: object) -> None:
    if not all(isinstance(value, int) and 0 <= value <= _TOO_MANY for value in values):
        raise ArgumentError("a row holds something else than a whole number")


def _same(seen: object, wanted: object, otherwise: str) -> None:
    if seen != wanted:
        raise ArgumentError(otherwise)


class RunReader:
    """A run file open for reading; made by `open_reader`, and a context manager.

    It shows the file as it was when opened, or at the last `refresh`: draws of a live run do not change under way.
    What is damaged is a `RunFileError`.
    """

    header: RunHeader

    def __init__(self, path: Path, connection: sqlite3.Connection, max_bytes: int) -> None:
        self.path = path
        self._connection = connection
        self._max_bytes = max_bytes
        self.check_trace: Callable[[Trace], None] | None = None  # what the draws must be, where it is known
        self._index = Index()
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was read from it stays valid."""
        self._connection.close()

    @property
    def n_draws(self) -> int:
        """Draws kept in each chain."""
        return self._index.n_draws

    @property
    def n_warmup_steps(self) -> int:
        """Steps of each chain in the warm-up."""
        return self._index.n_warmup_steps

    @property
    def n_steps(self) -> int:
        """Steps of each chain after the warm-up."""
        return self._index.n_steps

    @property
    def n_bytes(self) -> int:
        """Bytes that the draws of all chains take in memory."""
        return self._index.n_bytes

    def refresh(self) -> None:
        """See what a live writer has committed since; the draws are not read."""
        with self._reading():
            self._connection.execute("BEGIN")
            try:
                self.header = read_header(self._connection)
                self._index = read_index(self._connection, self.header.n_chains, self._max_bytes)
            finally:
                self._connection.execute("COMMIT")

    def states(self) -> list[tuple[State, dict[str, Any]]]:
        """State and state of the bit generator of every chain after the last round; empty before the first."""
        return [(dict(chain.state), dict(chain.rng_state)) for chain in self._index.chains]

    def trace(self) -> Trace:
        """Read the draws, arrays of shape (chain, draw, ...); counters are summed over the sampling rounds."""
        index = self._index
        if not index.layout:
            raise RunFileError(
                f"'{self.path}' holds no draws yet, only {index.n_warmup_steps} steps of warm-up; continue the run"
            )
        self._check(self._trace_of(self._arrays(0)))  # names, types and shapes, before room is taken for the draws
        arrays = self._arrays(index.n_draws)
        for block, values in self._blocks():
            arrays[block.name][block.chain, block.first : block.first + block.n_draws] = values
        trace = self._trace_of(arrays)
        self._check(trace)
        return trace

    def _arrays(self, n_draws: int) -> dict[str, NDArray[Any]]:
        """Room for so many draws of each chain."""
        return {
            name: np.empty((self.header.n_chains, n_draws, *tail), dtype=np.dtype(dtype).newbyteorder("="))
            for name, (dtype, tail) in self._index.layout.items()
        }

    def _trace_of(self, arrays: dict[str, NDArray[Any]]) -> Trace:
        chains = self._index.chains
        counters = dict.fromkeys(name for chain in chains for name in chain.info)
        info = {name: np.array([chain.info.get(name, 0) for chain in chains]) for name in counters}
        return Trace(arrays, self.header.thin, self._index.n_warmup_steps, self.header.entropy, info)

    def _check(self, trace: Trace) -> None:
        if self.check_trace is not None:
            with self._reading():
                self.check_trace(trace)

    def verify(self) -> None:
        """Read every block and check lengths and checksums."""
        self.refresh()
        for _ in self._blocks():
            pass

    def _blocks(self) -> Iterator[tuple[Block, NDArray[Any]]]:
        """One block at a time, each in a transaction of its own: blocks never change, and a writer can go on."""
        query = "SELECT crc32, data FROM blocks WHERE id = ?"
        with self._reading():
            for block in self._index.blocks:
                crc, data = self._connection.execute(query, (block.id,)).fetchone() or (None, None)
                if not isinstance(data, bytes) or crc != checksum(block.key, data):
                    raise ArgumentError(f"draws from {block.first} of chain {block.chain} fail their checksum")
                yield block, unpack(Packed(*block.described, data))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            with in_words(self.path):
                yield
        except RunFileError:
            raise
        except TooLargeError as error:
            raise RunFileError(f"'{self.path}' is too large: {error}; raise max_bytes if you trust it") from error
        except (DoxaError, UnicodeError) as error:
            raise RunFileError(f"'{self.path}' is damaged: {error}; use a copy, or run it again") from error

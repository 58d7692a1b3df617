"""Reading a run file: the run as it stood at one moment, while a writer may go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, DoxaError
from doxa.estimates.store.file import in_words
from doxa.estimates.store.format import Packed, State, unpack
from doxa.estimates.store.header import RunFileError, RunHeader, read_header
from doxa.estimates.store.index import Block, Index, TooLargeError, checksum, read_index
from doxa.estimates.trace import Trace

__all__ = ["RunReader"]


class RunReader:
    """A run file open for reading; made by `open_reader`, and a context manager.

    It shows the file as it was when opened, or at the last `refresh`: draws of a live run do not change under way.

    Attributes
    ----------
    path : Path
    header : RunHeader
    """

    header: RunHeader

    def __init__(self, path: Path, connection: sqlite3.Connection, max_bytes: int) -> None:
        self.path = path
        self._connection = connection
        self._max_bytes = max_bytes
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
        """See what a live writer has committed since; the draws are not read.

        Raises
        ------
        RunFileError
            If the file is damaged.
        """
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
        """Read the draws.

        Returns
        -------
        Trace
            Arrays of shape (chain, draw, ...), counters summed over the sampling rounds.

        Raises
        ------
        RunFileError
            If there are no draws yet, or a block fails its checksum.
        """
        index = self._index
        if not index.layout:
            raise RunFileError(
                f"'{self.path}' holds no draws yet, only {index.n_warmup_steps} steps of warm-up; continue the run"
            )
        chains = self.header.n_chains
        arrays = {
            name: np.empty((chains, index.n_draws, *tail), dtype=np.dtype(dtype).newbyteorder("="))
            for name, (dtype, tail) in index.layout.items()
        }
        for block, values in self._blocks():
            arrays[block.name][block.chain, block.first : block.first + block.n_draws] = values
        counters = dict.fromkeys(name for chain in index.chains for name in chain.info)
        info = {name: np.array([chain.info.get(name, 0) for chain in index.chains]) for name in counters}
        return Trace(arrays, self.header.thin, index.n_warmup_steps, self.header.entropy, info)

    def verify(self) -> None:
        """Read every block and check lengths and checksums.

        Raises
        ------
        RunFileError
            If anything is damaged.
        """
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

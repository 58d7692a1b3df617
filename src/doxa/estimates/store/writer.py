"""Writing a run file: one round, checked before the transaction begins, and the chain states after it, whole or not at
all.

Also why the run stopped.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import StopReport
from doxa.estimates.store.file import in_words
from doxa.estimates.store.format import (
    RunFileError,
    RunHeader,
    decode_chain,
    encode_chain,
    pack,
    rows_per_piece,
    unpack,
    update_header,
)
from doxa.estimates.store.lease import Lease
from doxa.estimates.store.reader import Block, ChainState, Index, RunReader, checksum, round_key, state_key
from doxa.schema import made
from doxa.text import shown

__all__ = ["ChainRound", "Round", "Row", "RunWriter", "dropped", "keep_stop", "prepare", "stop_as_json", "stored_stop"]

Row: TypeAlias = tuple[str, tuple[Any, ...]]  # a statement and its values
Layout: TypeAlias = dict[str, tuple[str, tuple[int, ...]]]

_ROUND = "INSERT INTO rounds VALUES (?, ?, ?, ?, ?)"
_BLOCK = "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CHAIN = "INSERT INTO chains VALUES (?, ?, ?, ?)"
_STATE = "INSERT INTO states VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)"


class ChainRound(NamedTuple):
    """What one chain did in a round, and where it stands after it."""

    draws: Mapping[str, NDArray[Any]]  # each (n_kept, ...); not kept in the warm-up, and may be empty there
    info: Mapping[str, int]  # counters of this round; kept for sampling rounds
    state: Mapping[str, Any]  # arrays, ints and floats, in the order of the state's fields
    rng_state: Mapping[str, Any]  # rng.bit_generator.state


class Round(NamedTuple):
    """What all chains did between two commits."""

    phase: Literal["warmup", "sampling"]
    n_steps: int  # of each chain
    chains: Sequence[ChainRound]


def prepare(done: Round, before: Index, n_chains: int) -> tuple[list[Row], Index]:
    """Check a round against the run so far; the statements and values that write it, and the run once they stand."""
    number, sampling = before.n_rounds + 1, done.phase == "sampling"
    _check_round(done, before, n_chains)
    layout = _layout(done.chains, before.layout) if sampling else before.layout
    n_draws = _n_draws(done.chains) if sampling else 0
    crc = checksum(round_key(number, done.phase, done.n_steps, n_draws))
    rows: list[Row] = [(_ROUND, (number, done.phase, done.n_steps, n_draws, crc))]
    blocks, chains, n_bytes = list(before.blocks), [], before.n_bytes
    for chain, part in enumerate(done.chains):
        for name, values in part.draws.items() if sampling else ():
            n_bytes += values.nbytes
            for block, row in _block_rows(number, chain, name, before.n_draws, values):
                blocks.append(block._replace(id=len(blocks) + 1))
                rows.append((_BLOCK, (len(blocks), *row)))
        info = dict(before.chains[chain].info) if before.chains else {}
        for name, count in part.info.items() if sampling else ():
            info[name] = info.get(name, 0) + count
        state, state_rows = _state_rows(number, chain, part, info)
        chains.append(state)
        rows += state_rows
    after = replace(
        before,
        round_steps=[*before.round_steps, done.n_steps],
        n_warmup_steps=before.n_warmup_steps + (0 if sampling else done.n_steps),
        n_steps=before.n_steps + (done.n_steps if sampling else 0),
        n_draws=before.n_draws + n_draws,
        n_bytes=n_bytes,
        is_sampling=sampling,
        layout=layout,
        blocks=blocks,
        chains=chains,
    )
    return rows, after


def dropped(before: Index) -> tuple[list[Row], Index]:
    """Statements that turn all that was drawn into warm-up, and the run once they stand; it has no chains then."""
    rows: list[Row] = [("DELETE FROM blocks", ())]
    for number, n_steps in enumerate(before.round_steps, start=1):
        crc = checksum(round_key(number, "warmup", n_steps, 0))
        rows.append(("UPDATE rounds SET phase = 'warmup', n_draws = 0, crc32 = ? WHERE round = ?", (crc, number)))
    n_steps = before.n_warmup_steps + before.n_steps
    return rows, Index(before.round_steps, n_warmup_steps=n_steps)


def _check_round(done: Round, before: Index, n_chains: int) -> None:
    if done.phase not in ("warmup", "sampling"):
        raise ArgumentError(f"phase is {done.phase!r}; it must be 'warmup' or 'sampling'")
    if done.phase == "warmup" and before.is_sampling:
        raise ArgumentError("phase is 'warmup', but the run is sampling already; warm-up comes first")
    if len(done.chains) != n_chains:
        raise ArgumentError(f"the round has {len(done.chains)} chains; the run has {n_chains}")
    if not isinstance(done.n_steps, int) or isinstance(done.n_steps, bool) or not 0 <= done.n_steps < 2**62:
        raise ArgumentTypeError(f"n_steps is {done.n_steps!r}; it must be a whole number of at least 0")


def _layout(chains: Sequence[ChainRound], known: Layout) -> Layout:
    """Dtype and shape of one draw of each quantity, which must be the same in all chains and rounds."""
    for number, chain in enumerate(chains):
        found: Layout = {}
        for name, values in chain.draws.items():
            if not isinstance(values, np.ndarray) or values.ndim < 1:
                raise ArgumentTypeError(f"draws[{name!r}] of chain {number} is no array with an axis of draws")
            found[name] = (values.dtype.newbyteorder("<").str, values.shape[1:])
        if not found:
            raise ArgumentError(f"chain {number} has no draws in a sampling round; give empty arrays if none were kept")
        if known and found != known:
            raise ArgumentError(
                f"draws of chain {number} are {_described(found)}; those of the run so far are {_described(known)}"
            )
        known = known or found
    return known


def _n_draws(chains: Sequence[ChainRound]) -> int:
    counts = {len(values) for chain in chains for values in chain.draws.values()}
    if len(counts) != 1:
        raise ArgumentError(f"the arrays of a round have {sorted(counts)} draws; all must have equally many")
    return counts.pop()


def _described(layout: Layout) -> str:
    return ", ".join(f"{name} {dtype} {list(shape)}" for name, (dtype, shape) in layout.items())


def _block_rows(
    number: int, chain: int, name: str, n_before: int, values: NDArray[Any]
) -> Iterator[tuple[Block, tuple[Any, ...]]]:
    size = rows_per_piece(values)
    for begin in range(0, max(1, len(values)), size):
        piece = values[begin : begin + size]
        packed = pack(name, piece)
        first = n_before + begin
        block = Block(0, number, chain, name, first, len(piece), packed[:3])
        row = (number, chain, name, first, *packed[:3], checksum(block.key, packed.data), packed.data)
        yield block, row


def _state_rows(number: int, chain: int, part: ChainRound, info: Mapping[str, int]) -> tuple[ChainState, list[Row]]:
    body, arrays = encode_chain(part.state, part.rng_state, info)
    key = state_key(number, chain, "", ("", "", ""))
    rows: list[Row] = [(_CHAIN, (chain, number, body, checksum(key, body.encode())))]
    for name, packed in arrays.items():
        crc = checksum(state_key(number, chain, name, packed), packed.data)
        rows.append((_STATE, (chain, name, *packed[:3], crc, packed.data)))
    # read back, so that what is handed out is a copy, and the one that a resumed run would see
    state = ChainState(*decode_chain(body, {name: unpack(packed) for name, packed in arrays.items()}))
    return state, rows


def stored_stop(options: Mapping[str, Any]) -> StopReport | None:
    """Why a run stopped; None if that is not known, or it has not come to its end.

    Raises
    ------
    ArgumentError
        If the option is not as `stop_as_json` writes it.
    """
    saved = options.get("saved", {"stop": options.get("stop")})
    if not isinstance(saved, dict) or "stop" not in saved:
        raise ArgumentError(f"its option saved is {shown(saved)}; it must say why the run stopped")
    stop: StopReport | None = made(StopReport | None, saved["stop"], "its option stop")
    return stop


def keep_stop(store: RunWriter, stop: StopReport) -> None:
    """Write why a run stopped into the file in which it was kept as it went."""
    options = {**store.header.options, "stop": stop_as_json(stop)}
    store.change_header(replace(store.header, options=options))


def stop_as_json(stop: StopReport | None) -> dict[str, Any] | None:
    """Floats as hexadecimal text, so that every bit is kept, infinity included."""
    if stop is None:
        return None
    held = stop.held_back
    described = None if held is None else [held.name, held.what, *(float(x).hex() for x in held[2:])]
    audited = stop.audit
    audit = None if audited is None else [audited.found, float(audited.seconds).hex(), audited.n_starts]
    spent = None if stop.spent is None else [float(seconds).hex() for seconds in stop.spent]
    return {
        "reason": stop.reason,
        "seconds": float(stop.seconds).hex(),
        "held_back": described,
        "audit": audit,
        "spent": spent,
    }


class RunWriter(RunReader):
    """A run file open for writing; made by `create_run` or `open_writer`, and a context manager.

    It holds the lease until `close`.  Everything that a `RunReader` offers is there too.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, max_bytes: int, lease: Lease) -> None:
        self._lease = lease
        super().__init__(path, connection, max_bytes)

    def close(self) -> None:
        """Close the file and give the lease back."""
        super().close()
        self._lease.release()

    def commit(self, done: Round) -> None:
        """Write a round and the states after it, whole or not at all.

        Every chain has the same quantities and equally many draws.  If it cannot be written (a full disk, say), the
        file still holds the run up to the round before, and the same round may be committed again.
        """
        self._write(*prepare(done, self._index, self.header.n_chains))

    def start_over(self, chains: Sequence[ChainRound]) -> None:
        """Count all that was drawn as warm-up, drop the draws and write new states, whole or not at all.

        Parameters
        ----------
        chains : sequence of ChainRound
            Where each chain goes on from; its draws and counters are empty.

        Raises
        ------
        ArgumentError, ArgumentTypeError, RunFileError
            As `commit`.
        """
        rows, before = dropped(self._index)
        more, after = prepare(Round("warmup", 0, chains), before, self.header.n_chains)
        self._write([*rows, *more], after)

    def _write(self, rows: Sequence[Row], after: Index) -> None:
        """Write rows and the states among them, in the place of the states before."""
        consequence = (
            f". Nothing of this round was stored; the file holds {self.n_draws} draws of each chain. "
            "Make space or remove the cause, then continue the run (resume): it goes on from there"
        )
        with in_words(self.path, consequence), _transaction(self._connection):
            (last,) = self._connection.execute("SELECT ifnull(max(round), 0) FROM rounds").fetchone()
            if last != self._index.n_rounds:
                raise RunFileError(f"'{self.path}' was changed by another program; open it again to continue the run")
            self._connection.execute("DELETE FROM states")
            self._connection.execute("DELETE FROM chains")
            for statement, values in rows:
                self._connection.execute(statement, values)
        self._index = after

    def change_header(self, header: RunHeader) -> None:
        """Replace the header, for options that may change from one part of a run to the next."""
        body = header.to_json()
        if body != self.header.to_json():
            with in_words(self.path, ". Nothing was changed"), _transaction(self._connection):
                update_header(self._connection, body)
        self.header = header


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, also when interrupted from the keyboard."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has often undone it itself
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise

"""Run files: forged headers, options, states and draws with right checksums, and damaged bytes."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import doxa
from doxa.data import Table
from doxa.estimates.store.reader import block_key, checksum, round_key, state_key
from doxa.parameters import Averages
from doxa.report import report
from doxa.structure import MarkovBlanket, Tempered
from doxa.structure.moves.by_name import MOVES, Cycle

from .mutations import changed_bytes, changed_json, nasty
from .texts import Format

__all__ = ["run_formats"]

_DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")


class _Run(NamedTuple):
    path: Path
    table: Table


def run_formats(folder: Path) -> dict[str, Format]:
    """The format of run files, of every kind of run that can be kept."""
    made = dict(_runs(folder))
    return {"run": Format(".doxa", list(made), _change, _use_with(made), False, ("-journal", ".lock"))}


def _runs(folder: Path) -> list[_Run]:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (40, 3))
    codes[:, 1] = np.where(rng.random(40) < 0.8, codes[:, 0], codes[:, 1])
    names, states = ["x0", "x1", "x2"], [["no", "yes"]] * 3
    whole = Table.from_codes(names, states, codes)
    holed = codes.copy()
    holed[rng.random(codes.shape) < 0.1] = -1
    holes = Table.from_codes(names, states, holed)
    csv = folder / "numbers.csv"
    values = rng.normal(size=(40, 2)).round(3)
    lines = [f"{a},{b},{'yes' if c else 'no'}" for (a, b), c in zip(values.tolist(), codes[:, 0].tolist(), strict=True)]
    csv.write_text("\n".join(["u,v,c", *lines]) + "\n")
    csv_holes = folder / "holes.csv"
    csv_holes.write_text("\n".join(["u,v,c", *lines[:-3], ",0.5,yes", "0.1,,no", "0.2,0.3,"]) + "\n")
    numbers, number_holes = doxa.read_table(csv), doxa.read_table(csv_holes)
    few: dict[str, Any] = {"draws": 12, "warmup": 4, "seed": 1, "chains": 2, "progress": False}
    made = []

    def learned(name: str, table: Table, **options: Any) -> None:
        doxa.learn(table, store=folder / name, **few | options)
        made.append(_Run(folder / name, table))

    learned("auto.doxa", whole)
    learned("single.doxa", whole, sampler="single_edge", max_parents=1, required=[("x0", "x1")])
    learned("blanket.doxa", whole, sampler=MarkovBlanket(k=2, pair_weights=np.ones((3, 3))))
    learned("tempered.doxa", whole, sampler=Tempered(betas=(1.0, 0.5), swap_every=1))
    learned("cycle.doxa", whole, sampler=Cycle([(MOVES["edge_gibbs"](scan=[(0, 1), (0, 2), (1, 2)]), 3),
                                                (MOVES["edge_reversal"](), 2)]))  # fmt: skip
    learned("holes.doxa", holes, edge_log_odds={("x0", "x1"): 1.0})
    learned("hidden.doxa", holes, hidden={"h": 2}, score="k2")
    learned("numbers.doxa", numbers)
    learned("number_holes.doxa", number_holes, family="conditional_gaussian")
    learned("logistic.doxa", whole, family="logistic")
    learned("done.doxa", whole, interventions={0: "x0", 1: ["x1", "x2"]})
    doxa.learn(csv, store=folder / "source.doxa", **few)
    made.append(_Run(folder / "source.doxa", numbers))
    for name, table, options in (("exact.doxa", whole, {}), ("saved.doxa", holes, {"exact": False})):
        doxa.learn(table, seed=1, chains=2, progress=False, **options, **({"draws": 12} if options else {})).save(
            folder / name
        )
        made.append(_Run(folder / name, table))
    graph = doxa.Dag.from_edges([("x0", "x1"), ("x0", "x2")])
    doxa.fit(graph, holes, store=folder / "tables.doxa", **few)
    made.append(_Run(folder / "tables.doxa", holes))
    network = doxa.LogisticNetwork({"x1": ["x0"], "x2": ["x0", "x1"]})
    doxa.fit(network, whole, store=folder / "fit.doxa", **few)
    doxa.fit(network, holes, store=folder / "fit_holes.doxa", method="augmentation", **few)
    doxa.fit(network, whole, store=folder / "averages.doxa", keep=Averages(10), **few)
    doxa.fit(network, whole, **few).save(folder / "saved_fit.doxa")
    made += [_Run(folder / name, whole) for name in ("fit.doxa", "averages.doxa", "saved_fit.doxa")]
    return [*made, _Run(folder / "fit_holes.doxa", holes)]


def _use_with(tables: dict[Path, Table]) -> Callable[[Path, np.random.Generator], None]:
    by_name = {path.stem: table for path, table in tables.items()}

    def use(path: Path, rng: np.random.Generator) -> None:
        table, refused = by_name[path.stem.split("-")[0]], None
        try:
            found: Any = doxa.load(path, table if rng.random() < 0.3 or path.stem.startswith("tables") else None)
            _ask(found, rng)
        except doxa.DoxaError as error:
            refused = error
        if rng.random() < 0.6 and not path.stem.startswith(("exact", "saved")):
            doxa.resume(path, table, draws=15, workers=1, progress=False)
        if refused is not None:
            raise refused

    return use


def _ask(found: Any, rng: np.random.Generator) -> None:
    str(found.verdict)
    repr(found)
    str(found.summary())
    if hasattr(found, "edges"):
        found.edges()
        found.graphs()
    else:
        _ = found.acceptance, found.log_marginal_likelihood
    if getattr(found, "_table", None) is not None and rng.random() < 0.5:
        states = found.table.states[-1]
        found.query({found.names[-1]: states[0]} if states else found.names[-1])
        if "cells" in found.trace.names:
            found.impute()
    if rng.random() < 0.02:
        with TemporaryDirectory() as folder:
            report(found, Path(folder) / "page.html")


def _change(rng: np.random.Generator, whole: Path, to: Path) -> None:
    """A changed copy; its name begins with that of the whole file."""
    if rng.random() < 0.1:
        to.write_bytes(changed_bytes(rng, whole.read_bytes()))
        return
    shutil.copyfile(whole, to)
    connection = sqlite3.connect(to, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    for _ in range(int(rng.integers(1, 3))):
        kinds = [_header, _header, _header, _chain, _state, _state, _state, _block, _block, _round]
        kinds[int(rng.integers(len(kinds)))](rng, connection)
    connection.close()


def _header(rng: np.random.Generator, connection: sqlite3.Connection) -> None:
    (body,) = connection.execute("SELECT body FROM header").fetchone()
    body = json.dumps(changed_json(rng, json.loads(body)), sort_keys=True)
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    connection.execute("UPDATE header SET body = ?, sha256 = ?", (body, digest))


def _chain(rng: np.random.Generator, connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT chain, round, body FROM chains").fetchall()
    if not rows:
        return
    chain, number, body = rows[int(rng.integers(len(rows)))]
    body = json.dumps(changed_json(rng, json.loads(body)), sort_keys=True)
    crc = checksum(state_key(number, chain, "", ("", "", "")), body.encode("utf-8", "surrogatepass"))
    connection.execute("UPDATE chains SET body = ?, crc32 = ? WHERE chain = ?", (body, crc, chain))


def _array(rng: np.random.Generator, dtype: str, shape: str, codec: str, data: bytes) -> tuple[str, str, str, bytes]:
    """Another array in the place of one."""
    raw = zlib.decompress(data) if codec == "deflate" else data
    values = np.frombuffer(raw, dtype=dtype).copy()
    axes = json.loads(shape)
    match int(rng.integers(7)):
        case 0 | 1 | 2 if values.size:
            at = int(rng.integers(values.size))
            extremes = (
                [np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -1.0, 2.0]
                if values.dtype.kind == "f"
                else [0, 1, 2, 3, 127]
                if values.dtype.kind == "b"
                else [np.iinfo(values.dtype).min, np.iinfo(values.dtype).max, 0, 1, 2, 3, 5, 7, 63, 64, 100]
            )
            with np.errstate(all="ignore"):
                values[at] = np.array(extremes[int(rng.integers(len(extremes)))]).astype(values.dtype)
        case 3 if values.size:
            values = np.frombuffer(rng.bytes(values.nbytes), dtype=dtype).copy()
            if dtype == "|b1":
                values = values.view(np.uint8) % 2 == 1
        case 4 if axes:
            axis = int(rng.integers(len(axes)))
            axes[axis] = max(0, axes[axis] + int(rng.integers(-1, 2)))
            values = np.resize(values, axes)
        case 5:
            dtype = _DTYPES[int(rng.integers(len(_DTYPES)))]
            with np.errstate(all="ignore"):
                values = values.astype(dtype)
        case _:
            axes = [[int(np.prod(axes))], [1, *axes], axes[1:], [2**40, 0], [0, *axes[1:]]][int(rng.integers(5))]
            if np.prod(axes, dtype=float) < 10**6:
                values = np.resize(values, axes)
    raw = np.asarray(values).astype(dtype).tobytes()
    return dtype, json.dumps(axes, separators=(",", ":")), "raw", raw


def _state(rng: np.random.Generator, connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT id, chain, name, dtype, shape, codec, data FROM states").fetchall()
    if not rows:
        return
    (number,) = connection.execute("SELECT max(round) FROM rounds").fetchone()
    identity, chain, name, *packed = rows[int(rng.integers(len(rows)))]
    changed = _array(rng, *packed)
    crc = checksum(state_key(number, chain, name, changed), changed[3])
    statement = "UPDATE states SET dtype = ?, shape = ?, codec = ?, crc32 = ?, data = ? WHERE id = ?"
    connection.execute(statement, (*changed[:3], crc, changed[3], identity))


def _block(rng: np.random.Generator, connection: sqlite3.Connection) -> None:
    query = "SELECT id, round, chain, name, first, dtype, shape, codec, data FROM blocks"
    rows = connection.execute(query).fetchall()
    if not rows:
        return
    which = [rows[int(rng.integers(len(rows)))]]
    if rng.random() < 0.3:  # every chain alike, so that shapes agree
        which = [row for row in rows if row[3] == which[0][3]]
    drawn = rng.integers(2**32)
    for identity, number, chain, name, first, *packed in which:
        changed = _array(np.random.default_rng(drawn), *packed)
        crc = checksum(block_key(number, chain, name, first, changed[:3]), changed[3])
        statement = "UPDATE blocks SET dtype = ?, shape = ?, codec = ?, crc32 = ?, data = ? WHERE id = ?"
        connection.execute(statement, (*changed[:3], crc, changed[3], identity))


def _round(rng: np.random.Generator, connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT round, phase, n_steps, n_draws FROM rounds").fetchall()
    number, phase, n_steps, n_draws = rows[int(rng.integers(len(rows)))]
    change: Any = nasty(rng)
    change = change if isinstance(change, int) and abs(change) < 2**63 else 3
    match int(rng.integers(3)):
        case 0:
            phase = ("warmup", "sampling", "sleep")[int(rng.integers(3))]
        case 1:
            n_steps = int(change)
        case _:
            n_draws = int(change)
    try:
        crc = checksum(round_key(number, phase, n_steps, n_draws))
        statement = "UPDATE rounds SET phase = ?, n_steps = ?, n_draws = ?, crc32 = ? WHERE round = ?"
        connection.execute(statement, (phase, n_steps, n_draws, crc, number))
    except OverflowError:
        return

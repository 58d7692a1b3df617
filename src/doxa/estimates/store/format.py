"""Arrays, chain states and the header of a run as bytes and text, and back, trusting nothing.

An array is its little-endian bytes, perhaps deflated, with its dtype, its shape and a CRC-32 beside them.  Reading
checks the dtype against a list, the shape against the length and both against limits before anything is allocated.
No pickle, and nothing that is executed.  Where the bytes are kept is not here.

A `RunHeader` is what a run was started with: JSON beside a SHA-256 digest of it.  Whoever resumes the run states what
it expects; what differs is named, because draws of one run must come from one table, one set of options and one set of
versions.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError, FileError
from doxa.text import a_kind, printable, shown

_WIDEST = 80  # characters of a value shown in a message
_FIELDS = {"kind": str, "options": dict, "data_digest": str, "versions": dict, "n_chains": int, "thin": int}
_MAX_CHAINS = 100_000


class RunFileError(FileError):
    """A run file cannot be made, read, continued or written to; the message says why, and the way out."""


@dataclass(frozen=True)
class RunHeader:
    """What a run was started with; it must be JSON.

    ``options`` are those that draws depend on, and those that say when to stop; ``data_digest`` is any text that
    changes when the data do; ``versions`` are of the programs that draws depend on.  The ``entropy`` of the seed
    sequence may be unknown, and is then not compared; ``created`` never is.
    """

    kind: str
    options: Mapping[str, Any]
    data_digest: str
    versions: Mapping[str, str]
    n_chains: int
    thin: int = 1
    entropy: int | tuple[int, ...] | None = None
    created: str = ""

    def __post_init__(self) -> None:
        """Check, and copy the mappings by way of JSON, so that what is compared is what is stored."""
        for name, kind in (*_FIELDS.items(), ("created", str)):
            value = getattr(self, name)
            if not isinstance(value, Mapping if kind is dict else kind) or isinstance(value, bool):
                raise ArgumentTypeError(f"{name} is {value!r}; it must be a {kind.__name__}")
        if not 1 <= self.n_chains <= _MAX_CHAINS or self.thin < 1:
            raise ArgumentError(
                f"n_chains is {self.n_chains} and thin {self.thin}; "
                f"they must be at least 1, and n_chains at most {_MAX_CHAINS}"
            )
        parts = self.entropy if isinstance(self.entropy, tuple) else (self.entropy or 0,)
        if not all(isinstance(part, int) and not isinstance(part, bool) and part >= 0 for part in parts):
            raise ArgumentTypeError(f"entropy is {self.entropy!r}; it must be a whole number, a tuple of them, or None")
        for name in ("options", "versions"):
            mapping = dict(getattr(self, name))
            if not all(isinstance(key, str) for key in mapping):
                raise ArgumentTypeError(f"{name} has keys that are not text: {_short(list(mapping))}")
            text = {key: encode_json(f"{name}[{key!r}]", value) for key, value in mapping.items()}
            object.__setattr__(self, name, {key: json.loads(value) for key, value in text.items()})
        if not all(isinstance(version, str) for version in self.versions.values()):
            raise ArgumentTypeError(f"versions is {_short(dict(self.versions))}; versions are text")

    def to_json(self) -> str:
        """The text kept in the file."""
        entropy = list(self.entropy) if isinstance(self.entropy, tuple) else self.entropy
        body = {name: getattr(self, name) for name in _FIELDS} | {"entropy": entropy, "created": self.created}
        return encode_json("header", body)

    @classmethod
    def from_json(cls, text: str) -> RunHeader:
        """Read what `to_json` wrote, and nothing else."""
        body = decode_json("header", text)
        if not isinstance(body, dict) or set(body) != {*_FIELDS, "entropy", "created"}:
            raise ArgumentError("header has other fields than a header has")
        if isinstance(body["entropy"], list):
            body["entropy"] = tuple(body["entropy"])
        return cls(**body)

    def differences(
        self, now: RunHeader, free: Collection[str] = (), free_versions: Collection[str] = ()
    ) -> Iterator[str]:
        """Say in a line each how another start differs from this one, which is the one in the file.

        The ``free`` options may differ, such as how many draws to make, and so may programs of ``free_versions``.
        """
        for name, what in (("kind", "the kind of run"), ("n_chains", "the number of chains"), ("thin", "thin")):
            yield from _difference(what, getattr(self, name), getattr(now, name))
        if self.data_digest != now.data_digest:
            yield (
                f"the data are others: their digest is {_short(self.data_digest)} in the file"
                f" and {_short(now.data_digest)} now"
            )
        if self.entropy is not None and now.entropy is not None:
            yield from _difference("the seed", self.entropy, now.entropy)
        for what, mine, theirs, leave in (
            ("option", self.options, now.options, free),
            ("the version of", self.versions, now.versions, free_versions),
        ):
            for key in dict.fromkeys((*mine, *theirs)):
                if key not in leave:
                    yield from _difference(f"{what} {_quoted(key)}", mine.get(key, _ABSENT), theirs.get(key, _ABSENT))


def with_free_options(stored: RunHeader, now: RunHeader, free: Collection[str]) -> RunHeader:
    """The stored header with the options named in ``free`` as they are now.

    >>> begun = RunHeader("structure", {"score": "bdeu", "draws": 500}, "ab12", {}, 4)
    >>> later = RunHeader("structure", {"score": "bdeu", "draws": 900}, "ab12", {}, 4)
    >>> with_free_options(begun, later, ("draws",)).options["draws"]
    900
    """
    changed = {key: value for key, value in now.options.items() if key in free}
    return replace(stored, options={**stored.options, **changed})


def encode_json(name: str, value: object) -> str:
    """JSON text of a value, the same text for equal values; messages begin with ``name``."""
    try:
        return json.dumps(value, allow_nan=False, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"{name} cannot be written as JSON: {error}; use text, numbers, lists, None") from error


def decode_json(name: str, text: str) -> Any:
    """Read JSON, refusing what `encode_json` never writes."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{name} is not JSON") from error


def _refuse_constant(text: str) -> None:
    raise ValueError(text)


_ABSENT = object()


def _difference(what: str, mine: object, theirs: object) -> Iterator[str]:
    numbers = isinstance(mine, (int, float)) and isinstance(theirs, (int, float))
    if numbers and not isinstance(mine, bool) and not isinstance(theirs, bool):
        same = mine == theirs
    elif mine is _ABSENT or theirs is _ABSENT:
        same = False
    else:
        same = encode_json(what, mine) == encode_json(what, theirs)
    if not same:
        yield f"{what} is {_short(mine)} in the file and {_short(theirs)} now"


def _short(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, default=repr)
    return printable(text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "...")


def _quoted(key: str) -> str:
    return f"'{printable(key[:_WIDEST])}'"


MAX_HEADER = 2**24  # characters


def insert_header(connection: sqlite3.Connection, body: str) -> None:
    """Write the header of a new run, inside a transaction of the caller."""
    connection.execute("INSERT INTO header VALUES (1, ?, ?)", (body, _digest(body)))


def update_header(connection: sqlite3.Connection, body: str) -> None:
    """Write another header over the one that is there, inside a transaction of the caller."""
    connection.execute("UPDATE header SET body = ?, sha256 = ? WHERE id = 1", (body, _digest(body)))


def read_header(connection: sqlite3.Connection) -> RunHeader:
    """Read the header and check it, its length and its checksum included."""
    rows = connection.execute("SELECT id, length(body), body, sha256 FROM header LIMIT 2").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][2], str) or rows[0][0] != 1 or len(rows[0][2]) > MAX_HEADER:
        raise ArgumentError("it has no header")
    if _digest(rows[0][2]) != rows[0][3]:
        raise ArgumentError("its header fails its checksum")
    return RunHeader.from_json(rows[0][2])


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


MAX_BYTES = 2**26  # of one array as stored: a single draw of a graph of 20 000 nodes takes 50 MB
_PIECE = 2**22  # bytes of draws in one row of the file; small enough to read and to check one by one
_WORTH_DEFLATING = 256  # bytes
_DEFLATE_LIMIT = 1032  # deflate cannot shrink more than this; RFC 1951 codes at most 258 bytes in 2 bits
_MAX_NDIM = 8
_MAX_NAME = 200
_DTYPES = frozenset(["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"])
_BIT_GENERATORS = ("PCG64", "PCG64DXSM")

Scalar: TypeAlias = "NDArray[Any] | int | float"
State: TypeAlias = "dict[str, NDArray[Any] | int | float]"


class Packed(NamedTuple):
    """An array as it stands in the file."""

    dtype: str  # NumPy's letter and bytes, "<u8"
    shape: str  # JSON list of whole numbers
    codec: str  # "raw" or "deflate"
    data: bytes


def rows_per_piece(array: NDArray[Any]) -> int:
    """Draws of ``array`` that go into one row of the file."""
    return max(1, _PIECE // max(1, array[:1].nbytes))


def pack(name: str, value: object) -> Packed:
    """Turn an array of plain numbers into bytes, or raise if its dtype is none of those kept or it is too large."""
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
        raise ArgumentError(f"{name!r:.80} names an array; a name is a text of 1 to {_MAX_NAME} characters")
    if not isinstance(value, np.ndarray):
        raise ArgumentTypeError(f"{name} is {a_kind(value)}; a run keeps NumPy arrays")
    dtype = value.dtype.newbyteorder("<")
    if dtype.str not in _DTYPES:
        raise ArgumentTypeError(f"{name} has dtype {value.dtype}; a run keeps booleans, integers, float32 and float64")
    if value.nbytes > MAX_BYTES:
        raise ArgumentError(f"{name} takes {value.nbytes} bytes; one array of a run takes at most {MAX_BYTES}")
    if value.ndim > _MAX_NDIM:
        raise ArgumentError(f"{name} has {value.ndim} axes; a run keeps at most {_MAX_NDIM}")
    raw = np.ascontiguousarray(value, dtype=dtype).tobytes()
    shape = encode_json(name, list(value.shape))
    if len(raw) >= _WORTH_DEFLATING:
        deflated = zlib.compress(raw, 1)
        if len(deflated) < 0.9 * len(raw):
            return Packed(dtype.str, shape, "deflate", deflated)
    return Packed(dtype.str, shape, "raw", raw)


def check_packed(dtype: object, shape: object, codec: object, n_stored: object) -> tuple[tuple[int, ...], int]:
    """Shape and bytes in memory by the description of a stored array, or raise `ArgumentError` if it contradicts
    itself.
    """
    if dtype not in _DTYPES or not isinstance(dtype, str):
        raise ArgumentError("an array has a dtype that is not kept in runs")
    if not isinstance(shape, str) or len(shape) > 30 * _MAX_NDIM:
        raise ArgumentError("an array has no readable shape")
    axes = decode_json("a shape", shape)
    if not isinstance(axes, list) or len(axes) > _MAX_NDIM or not all(type(axis) is int and axis >= 0 for axis in axes):
        raise ArgumentError("an array has no readable shape")
    if max(axes, default=0) > 2**40:
        raise ArgumentError("an array is too large")
    n_bytes = math.prod(axes) * int(dtype[2:])
    if n_bytes > MAX_BYTES or not isinstance(n_stored, int):
        raise ArgumentError(f"an array claims to take more than {MAX_BYTES} bytes")
    if codec == "raw":
        fits = n_stored == n_bytes
    elif codec == "deflate":
        fits = n_stored <= n_bytes <= _DEFLATE_LIMIT * n_stored
    else:
        raise ArgumentError("an array is compressed in an unknown way")
    if not fits:
        raise ArgumentError("the shape of an array does not agree with the number of its bytes")
    return tuple(axes), n_bytes


def unpack(packed: Packed) -> NDArray[Any]:
    """Turn stored bytes into a new, writable array, or raise if they do not hold what their description says."""
    shape, n_bytes = check_packed(packed.dtype, packed.shape, packed.codec, len(packed.data))
    raw = packed.data if packed.codec == "raw" else _inflate(packed.data, n_bytes)
    flat = np.frombuffer(raw, dtype=np.dtype(packed.dtype))
    if packed.dtype == "|b1" and raw.strip(b"\0\1"):
        values = np.frombuffer(raw, dtype=np.uint8)
        if values.max(initial=0) > 1:
            raise ArgumentError("an array of booleans holds other values")
    return flat.reshape(shape).astype(flat.dtype.newbyteorder("="))


def _inflate(data: bytes, n_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(data, n_bytes) if n_bytes else b""
        rest = inflater.decompress(inflater.unconsumed_tail, 1)  # reads the checksum at the end
    except zlib.error as error:
        raise ArgumentError("an array cannot be decompressed") from error
    if len(raw) != n_bytes or rest or not inflater.eof or inflater.unused_data:
        raise ArgumentError("an array decompresses to another length than it claims")
    return raw


def encode_chain(
    state: Mapping[str, Any], rng_state: Mapping[str, Any], info: Mapping[str, int]
) -> tuple[str, dict[str, Packed]]:
    """The state of a chain, arrays and numbers alone: a JSON text, and the arrays that belong to it.

    Floats are kept as hexadecimal text, so that they come back to the last bit, NaN and infinity included.
    """
    arrays: dict[str, Packed] = {}
    fields: list[list[object]] = []
    for name, value in state.items():
        if isinstance(value, (bool, np.bool_)):
            raise ArgumentTypeError(f"state[{name!r}] is {value!r}; a state holds arrays, ints and floats")
        if isinstance(value, (int, np.integer)):
            fields.append([name, "int", int(value)])
        elif isinstance(value, (float, np.floating)):
            fields.append([name, "float", float(value).hex()])
        else:
            arrays[name] = pack(name, value)
            fields.append([name, "array", None])
    body = {"state": fields, "rng": check_rng_state(rng_state), "info": _check_info(info)}
    return encode_json("state", body), arrays


def decode_chain(text: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[State, dict[str, Any], dict[str, int]]:
    """Read what `encode_chain` wrote, and nothing else: state, state of the bit generator, counters."""
    body = decode_json("a chain state", text)
    if not isinstance(body, dict) or set(body) != {"state", "rng", "info"} or not isinstance(body["state"], list):
        raise ArgumentError("a chain state has other fields than it should")
    state: State = {}
    unused = dict(arrays)
    for entry in body["state"]:
        match entry:
            case [str(name), "int", int(value)] if name not in state and not isinstance(value, bool):
                state[name] = value
            case [str(name), "float", str(digits)] if name not in state:
                state[name] = _float(digits)
            case [str(name), "array", None] if name in unused:
                state[name] = unused.pop(name)
            case _:
                raise ArgumentError("a chain state has a field that cannot be read")
    if unused:
        raise ArgumentError("a chain state has arrays that it does not name")
    return state, check_rng_state(body["rng"]), _check_info(body["info"])


def check_rng_state(rng_state: object) -> dict[str, Any]:
    """A copy of a PCG64 state, as plain numbers, or raise `ArgumentError`.

    >>> rng = np.random.default_rng(1)
    >>> check_rng_state(rng.bit_generator.state) == rng.bit_generator.state
    True
    """
    match rng_state:
        case {"bit_generator": str(name)} if name not in _BIT_GENERATORS:
            raise ArgumentError(f"rng_state is of {name!r:.40}; a run keeps {' and '.join(_BIT_GENERATORS)}")
        case {
            "bit_generator": str(name),
            "state": {"state": int(position), "inc": int(increment)},
            "has_uint32": int(has),
            "uinteger": int(spare),
        } if 0 <= position < 2**128 and 0 <= increment < 2**128 and has in (0, 1) and 0 <= spare < 2**32:
            words = {"state": int(position), "inc": int(increment)}
            return {"bit_generator": name, "state": words, "has_uint32": int(has), "uinteger": int(spare)}
        case _:
            raise ArgumentError("rng_state is not the state of a PCG64 generator")


def _check_info(info: object) -> dict[str, int]:
    if not isinstance(info, Mapping):
        raise ArgumentTypeError("info is not a mapping")
    checked = {}
    for name, value in info.items():
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ArgumentTypeError(f"info[{name!r}] is {value!r:.80}; counters are whole numbers with a name")
        if abs(int(value)) >= 2**63:
            raise ArgumentError(f"info[{shown(name)}] is too large for a counter")
        checked[name] = int(value)
    return checked


def _float(digits: str) -> float:
    try:
        return float.fromhex(digits)
    except (ValueError, OverflowError) as error:
        raise ArgumentError("a chain state has a number that cannot be read") from error

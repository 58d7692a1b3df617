"""Arrays and chain states as bytes and text, and back, trusting nothing.

An array is its little-endian bytes, perhaps deflated, with its dtype, its shape and a CRC-32 beside them.  Reading
checks the dtype against a list, the shape against the length and both against limits before anything is allocated.
No pickle, and nothing that is executed.  Where the bytes are kept is not here.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.store.header import decode_json, encode_json

__all__ = [
    "MAX_BYTES",
    "Packed",
    "State",
    "check_packed",
    "check_rng_state",
    "decode_chain",
    "encode_chain",
    "pack",
    "rows_per_piece",
    "unpack",
]

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
        raise ArgumentTypeError(f"{name} is a {type(value).__name__}; a run keeps NumPy arrays")
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
            raise ArgumentError(f"info[{name!r}] is too large for a counter")
        checked[name] = int(value)
    return checked


def _float(digits: str) -> float:
    try:
        return float.fromhex(digits)
    except (ValueError, OverflowError) as error:
        raise ArgumentError("a chain state has a number that cannot be read") from error

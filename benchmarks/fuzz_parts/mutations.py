"""Changes of bytes, of words and of trees of JSON, drawn from a generator: the same seed, the same input."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np

__all__ = ["NUMBERS", "changed_bytes", "changed_json", "changed_text", "nasty"]

NUMBERS = (
    b"0", b"-0", b"1", b"-1", b"2", b"1e308", b"-1e308", b"1e309", b"1e-320", b"nan", b"inf", b"-inf", b"1e", b"0x10",
    b"00012", b"1_0", b"9223372036854775808", b"99999999999999999999999", b"4294967296", b".5", b"5.", b"1" * 400,
    b"0." + b"3" * 300, b"\xd9\xa3",
)  # fmt: skip
_PLACES = (
    b"\0", b"\x1b[31m", b"\r", b"\n", b"\r\n", b"\t", b"\"", b"'", b"\\", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xae",
    b"\xc0\x80", b"{", b"}", b"(", b")", b"[", b"]", b"<", b">", b"</", b"/>", b"&", b"&lt;", b"&#0;", b"&#x110000;",
    b"<!--", b"-->", b"<![CDATA[", b"]]>", b"//", b"/*", b"*/", b"#", b"%", b"|", b",", b";", b":", b"=", b"->", b"--",
    b" ", b"",
)  # fmt: skip
_HEXADECIMAL = (  # numbers as text that a run file has
    "0x0p+0", "-0x0p+0", "0x1p+0", "-0x1p+0", "0x1p-1074", "0x1p+60", "-0x1p+60", "0x1p+600", "-0x1p+600", "0x1p+1023",
    "-0x1p+1023", "0x1p+5000", "nan", "inf", "-inf",
)  # fmt: skip
_WORD = re.compile(rb"[A-Za-z_]+|[0-9.eE+-]+|\s+|.", re.DOTALL)


def changed_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Some bytes flipped, dropped, doubled or moved, whatever they mean."""
    out = bytearray(data)
    for _ in range(1 if rng.random() < 0.6 else int(rng.integers(2, 6))):
        if not out:
            return bytes(rng.integers(0, 256, 20, dtype=np.uint8))
        at, size = int(rng.integers(len(out))), int(2 ** rng.integers(0, 8))
        match int(rng.integers(6)):
            case 0:
                out[at] ^= 1 << int(rng.integers(8))
            case 1:
                out[at] = int(rng.integers(256))
            case 2:
                del out[at : at + size]
            case 3:
                out[at:at] = out[at : at + size]
            case 4:
                there = int(rng.integers(len(out)))
                out[at : at + size], out[there : there + size] = out[there : there + size], out[at : at + size]
            case _:
                del out[at:]
    return bytes(out)


def changed_text(rng: np.random.Generator, data: bytes, words: tuple[bytes, ...] = ()) -> bytes:
    """Some words taken out, doubled, moved or put in the place of others; ``words`` are those of the format."""
    parts = _WORD.findall(data)
    for _ in range(1 if rng.random() < 0.6 else int(rng.integers(2, 6))):
        if not parts:
            break
        at = int(rng.integers(len(parts)))
        size = int(2 ** rng.integers(0, 4))
        match int(rng.integers(10)):
            case 0:
                del parts[at : at + size]
            case 1:
                parts[at:at] = parts[at : at + size] * int(2 ** rng.integers(0, 6))
            case 2:
                there = int(rng.integers(len(parts)))
                parts[at], parts[there] = parts[there], parts[at]
            case 3 | 4:
                number = [k for k, part in enumerate(parts) if part[:1].isdigit()] or [at]
                parts[number[int(rng.integers(len(number)))]] = NUMBERS[int(rng.integers(len(NUMBERS)))]
            case 5 | 6:
                known = words or _PLACES
                parts[at] = known[int(rng.integers(len(known)))]
            case 7:
                parts.insert(at, _PLACES[int(rng.integers(len(_PLACES)))])
            case 8:
                times = int(2 ** rng.integers(1, 13))
                parts[at] = parts[at][: 2**20 // times] * times
            case _:
                del parts[at:]
    return b"".join(parts)[: 2**20]


def nasty(rng: np.random.Generator) -> Any:
    """A value that has no business where it is put."""
    values: list[Any] = [
        None, True, False, -1, 0, 1, 2, 3, 63, 64, 127, 10**6, 2**31, 2**40, 2**53, 2**62, 2**63, 10**30, 10**400,
        -(2**63),
        0.5, -0.5, 1e308, -1e308, 1e-320, 1.0, "", "a", "nodes", "x0", "\x1b[31m", "\0", "é" * 20, "x" * 5000, "0x1p+0",
        "nan", "inf", "0x1p+1023", "-0x1p-1074", "0xzz", [], {}, [None], [[]], [1, 2, 3], ["x0", "x1"],
        [["x0", "x1"]], [["x0", "x0"]], [["x1", "x0"]], {"a": 1}, {"": []}, [0] * 1000, [[0.5, 0.5], [0.5, 0.5]],
        "auto",
        {"name": "cycle", "moves": []}, {"name": "tempered", "move": {"name": "auto"}, "betas": [1.0, 2.0]},
        {"name": "markov_blanket", "k": 10**12}, {"name": "k2", "prior_count": 1e300}, {"name": "bge"},
    ]  # fmt: skip
    value = values[int(rng.integers(len(values)))]
    if rng.random() < 0.02:
        for _ in range(int(2 ** rng.integers(3, 8))):
            value = [value]
    return value


def changed_json(rng: np.random.Generator, value: Any) -> Any:
    """A tree with some of its branches changed."""
    tree = copy.deepcopy(value)
    for _ in range(1 if rng.random() < 0.6 else int(rng.integers(2, 6))):
        branches = list(_branches(tree))
        if not branches:
            return nasty(rng)
        holder, key = branches[int(rng.integers(len(branches)))]
        match int(rng.integers(8)):
            case 0:
                del holder[key]
            case 1:
                if isinstance(holder, list):
                    holder.insert(key, copy.deepcopy(holder[key]))
                else:
                    holder[str(nasty(rng))[:50]] = copy.deepcopy(holder[key])
            case 2:
                other, there = branches[int(rng.integers(len(branches)))]
                if not isinstance(holder[key], (dict, list)) and not isinstance(other[there], (dict, list)):
                    holder[key], other[there] = other[there], holder[key]
            case 3 if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
                holder[key] = holder[key] + int(rng.integers(-2, 3)) if rng.random() < 0.7 else -holder[key]
            case 3 | 4 if isinstance(holder[key], str) and "0x" in holder[key]:
                holder[key] = _HEXADECIMAL[int(rng.integers(len(_HEXADECIMAL)))]
            case _:
                holder[key] = nasty(rng)
    return tree


def _branches(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _branches(value)

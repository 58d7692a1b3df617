"""Sums of products of columns, in vector instructions: what most of the time of a multinomial regression goes to.

A compiler may not reorder a sum, so it adds one product after another.  Here the order is written down: eight lanes are
added up side by side, and then in pairs.  Machines with wider or narrower vectors get the same number.  Sums stay in
registers, four at a time.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from doxa._jit import hot
from doxa.arrays import Floats

__all__ = ["LANES", "add_dots", "add_products", "combine_rows"]

LANES = 8  # cells that are added up side by side
_VECTOR, _WORD = ir.VectorType(ir.DoubleType(), LANES), ir.IntType(64)
_NOTHING = ir.Constant(_VECTOR, [0.0] * LANES)
_SPAN = types.UniTuple(types.int64, 2)


def _whole(value: int) -> Any:
    return ir.Constant(_WORD, value)


def _array(context: Any, builder: Any, kind: Any, argument: Any) -> tuple[Any, Any]:
    """Address of an array's first number, and how many there are between one row and the next."""
    array = context.make_array(kind)(context, builder, argument)
    width = _whole(1)
    for side in cgutils.unpack_tuple(builder, array.shape, kind.ndim)[1:]:
        width = builder.mul(width, side)
    return array.data, width


def _load(builder: Any, data: Any, at: Any) -> Any:
    return builder.load(builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer()), align=8)


def _sum_of_lanes(builder: Any, value: Any) -> Any:
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        halves = [list(range(first, first + lanes)) for first in (0, lanes)]
        kind, nothing = ir.VectorType(ir.IntType(32), lanes), ir.Constant(value.type, ir.Undefined)
        value = builder.fadd(*(builder.shuffle_vector(value, nothing, ir.Constant(kind, half)) for half in halves))
    return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))


def _make_sums(n_rows: int, *, of_three: bool) -> Any:
    """`add_products` or `add_dots` for so many rows at once, which share what they are multiplied with."""

    @intrinsic  # type: ignore[untyped-decorator]
    def _add(_typing: Any, w: Any, x: Any, row: Any, other: Any, span: Any, out: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (w_data, _), (x_data, width), (out_data, _) = (
                _array(context, builder, signature.args[k], arguments[k]) for k in (0, 1, 5)
            )
            begin, size = cgutils.unpack_tuple(builder, arguments[4], 2)
            lines = [builder.add(arguments[3], _whole(r)) for r in range(n_rows)]
            starts = [builder.add(builder.mul(line, width), begin) for line in lines]
            own = builder.add(builder.mul(arguments[2], width), begin)
            sums = [cgutils.alloca_once(builder, _VECTOR) for _ in lines]
            for total in sums:
                builder.store(_NOTHING, total)
            with cgutils.for_range_slice(builder, _whole(0), size, _whole(LANES), _WORD) as (at, _):
                shared = _load(builder, w_data, at)
                if of_three:
                    shared = builder.fmul(shared, _load(builder, x_data, builder.add(own, at)))
                for total, start in zip(sums, starts, strict=True):
                    product = builder.fmul(shared, _load(builder, x_data, builder.add(start, at)))
                    builder.store(builder.fadd(builder.load(total), product), total)
            for line, total in zip(lines, sums, strict=True):
                place = builder.gep(out_data, [line])
                found = _sum_of_lanes(builder, builder.load(total))
                builder.store(builder.fadd(builder.load(place), found), place)
            return context.get_dummy_value()

        return types.void(w, x, types.int64, types.int64, _SPAN, out), generate

    return _add


def _make_rows(n_vectors: int) -> Any:
    """`combine_rows` of so many times eight cells."""

    @intrinsic  # type: ignore[untyped-decorator]
    def _combine(_typing: Any, w: Any, x: Any, n: Any, begin: Any, first: Any, out: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (w_data, _), (x_data, width), (out_data, _) = (
                _array(context, builder, signature.args[k], arguments[k]) for k in (0, 1, 5)
            )
            begin, first = arguments[3:5]
            sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(n_vectors)]
            for total in sums:
                builder.store(_NOTHING, total)
            with cgutils.for_range(builder, arguments[2]) as loop:
                one = builder.insert_element(
                    ir.Constant(_VECTOR, ir.Undefined),
                    builder.load(builder.gep(w_data, [loop.index])),
                    ir.Constant(ir.IntType(32), 0),
                )
                same = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
                weight = builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), same)
                start = builder.add(builder.add(builder.mul(loop.index, width), begin), first)
                for k, total in enumerate(sums):
                    product = builder.fmul(weight, _load(builder, x_data, builder.add(start, _whole(LANES * k))))
                    builder.store(builder.fadd(builder.load(total), product), total)
            for k, total in enumerate(sums):
                place = builder.gep(out_data, [builder.add(first, _whole(LANES * k))])
                builder.store(builder.load(total), builder.bitcast(place, _VECTOR.as_pointer()), align=8)
            return context.get_dummy_value()

        return types.void(w, x, types.int64, types.int64, types.int64, out), generate

    return _combine


_one_product, _two_products, _three_products, _four_products = (_make_sums(n, of_three=True) for n in (1, 2, 3, 4))
_one_dot, _two_dots, _three_dots, _four_dots = (_make_sums(n, of_three=False) for n in (1, 2, 3, 4))
_one_vector, _two_vectors, _three_vectors, _four_vectors = (_make_rows(n) for n in (1, 2, 3, 4))


@hot
def add_products(w: Floats, x: Floats, row: int, n: int, span: tuple[int, int], out: Floats) -> None:
    """``out[j]`` grows by the sum over cells of w x[row] x[j], for j below ``n``.

    ``span`` holds the first cell and the number of cells, a multiple of 8; ``w`` begins with the first cell.
    """
    j = 0
    while j + 4 <= n:
        _four_products(w, x, row, j, span, out)
        j += 4
    if n - j == 3:
        _three_products(w, x, row, j, span, out)
    elif n - j == 2:
        _two_products(w, x, row, j, span, out)
    elif n - j == 1:
        _one_product(w, x, row, j, span, out)


@hot
def add_dots(w: Floats, x: Floats, n: int, span: tuple[int, int], out: Floats) -> None:
    """``out[j]`` grows by the sum over cells of w x[j], for j below ``n``; see `add_products`."""
    j = 0
    while j + 4 <= n:
        _four_dots(w, x, 0, j, span, out)
        j += 4
    if n - j == 3:
        _three_dots(w, x, 0, j, span, out)
    elif n - j == 2:
        _two_dots(w, x, 0, j, span, out)
    elif n - j == 1:
        _one_dot(w, x, 0, j, span, out)


@hot
def combine_rows(w: Floats, x: Floats, n: int, span: tuple[int, int], out: Floats) -> None:
    """Fill ``out`` with the sum of w[j] x[j] over j below ``n``, in the cells of the span; it begins with the first."""
    begin, size = span
    cell = 0
    while cell + 4 * LANES <= size:
        _four_vectors(w, x, n, begin, cell, out)
        cell += 4 * LANES
    if size - cell == 3 * LANES:
        _three_vectors(w, x, n, begin, cell, out)
    elif size - cell == 2 * LANES:
        _two_vectors(w, x, n, begin, cell, out)
    elif size - cell == LANES:
        _one_vector(w, x, n, begin, cell, out)

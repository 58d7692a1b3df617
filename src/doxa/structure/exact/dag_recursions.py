r"""The recursions over all sets of nodes, for A(S), F(R) and D_i(R) as `doxa.structure.exact.dag_sums` defines them.

Three things make them fast and right.

- *Range.*  Weights differ by thousands of nats, so a number is a mantissa and a power of two.  A(S) is kept relative to
  2^e(S), the best order of S: e(S) = max_i e(S - i) + exponent of alpha_i(S - i).  Then
  2^-|S| <= A(S) / 2^e(S) <= |S|!, and no term exceeds A(S): nothing over- or underflows and nothing needs
  renormalising.  F(R) likewise, relative to f(R).
- *Signs.*  The terms of A(S) without their signs add up to A(S) E[2^sinks - 1]: harmless for graphs with few sinks, yet
  over twenty nearly independent variables the recursion may lose a score of digits.  So mantissas are pairs of doubles
  (`doxa.structure.exact.dag_weights`), and beside each sum runs a bound of its error that takes every rounding at its
  worst.
- *Pruning.*  e(R) + f(R) - e(V) bounds the probability that no edge enters R.  Sets for which it is below 2^-160 are
  left out: together they change A(V) by less than a part in 2^120.

The work is cut into blocks of sets by `doxa.structure.exact.dag_weights`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot
from doxa.arrays import Floats, Ints
from doxa.errors import ArgumentError
from doxa.sampling.workers import Threads
from doxa.structure.exact.dag_weights import DROP, POWERS, UNIT, blocks, multiply_into, plus, times
from doxa.structure.exact.family_sums import Derivative, SubsetSums

__all__ = ["FAR", "Products", "SetSums", "backward", "forward", "grow_products", "product_scratch", "references"]

_PRUNE = 160
FAR = 1 << 40  # exponent of what is impossible or pruned

Products = tuple[Floats, Floats, Ints, Ints, Floats, Floats, Ints]  # see `product_scratch`
_PullScratch = tuple[Products, tuple[Floats, Floats, Floats], tuple[Floats, Floats]]


@by_address
class SetSums(NamedTuple):
    """A(S) or F(S) for all sets: columns high, low, error bound, and the exponent all three are relative to."""

    cells: NDArray[np.float64]  # (2^n, 4)
    exponents: NDArray[np.int64]  # the same memory; the last column counts

    @classmethod
    def of(cls, exponents: NDArray[np.int64]) -> SetSums:
        """Zeros relative to these powers of two."""
        cells = np.zeros((len(exponents), 4))
        sums = cls(cells, cells.view(np.int64))
        sums.exponents[:, 3] = exponents
        return sums


def references(alpha: SubsetSums) -> tuple[SetSums, SetSums]:
    """Empty tables for A and F with their exponents e and f; pruned sets are marked by far-off exponents."""
    n_sets, n = alpha.high.shape
    before, after = np.full(n_sets, -FAR), np.full(n_sets, -FAR)
    _best_orders(alpha, before, after)
    best = before[-1]
    if best < -FAR // 2:
        raise ArgumentError("log_weights allow no graph at all: every choice of possible parent sets has a cycle")
    slack = _PRUNE + n + math.lgamma(n + 1) / math.log(2)
    pruned = before + after < best - slack
    inside, outside = SetSums.of(np.where(pruned, FAR, before)), SetSums.of(np.where(pruned, -FAR, after))
    inside.cells[0, 0] = outside.cells[-1, 0] = 1.0
    return inside, outside


def forward(alpha: SubsetSums, inside: SetSums, threads: Threads) -> None:
    """Fill in A(S) for all S, in ``inside``."""
    low, waves = blocks(alpha.high.shape[1])

    def push(high: int) -> None:
        _push_block(high, low, alpha, inside, POWERS, product_scratch(low))

    for wave in waves:
        threads.run(push, wave)


def backward(alpha: SubsetSums, inside: SetSums, outside: SetSums, threads: Threads) -> Derivative:
    """Fill in F(R) for all R, in ``outside``; return D_i(R) / A(V) as mantissas and exponents, shape (2^n, n) each."""
    n_sets, n = alpha.high.shape
    low, waves = blocks(n)
    derivative = np.zeros((n_sets, n)), np.zeros((n_sets, n), dtype=np.int32)
    top = float(inside.cells[-1, 0]), int(inside.exponents[-1, 3])

    def pull(high: int) -> None:
        scratch = _pull_scratch(low), _pull_scratch(n - low)
        _pull_block(high, low, alpha, (inside, outside, top), derivative, POWERS, scratch)

    for wave in reversed(waves):
        threads.run(pull, wave)
    return derivative


def _pull_scratch(n_bits: int) -> _PullScratch:
    """Room for products, for the sums they multiply, for those sums folded, and for the factors."""
    size = 2**n_bits
    return product_scratch(n_bits), (np.zeros(size), np.zeros(size), np.zeros(size)), (np.zeros(size), np.zeros(size))


def product_scratch(n_bits: int) -> Products:
    """Products over all subsets of some nodes (high, low, exponent, the subset), and the factors (high, low, node)."""
    size, whole = 2**n_bits, np.int64
    return (
        np.zeros(size), np.zeros(size), np.zeros(size, dtype=whole), np.zeros(size, dtype=whole),
        np.zeros(n_bits + 1), np.zeros(n_bits + 1), np.zeros(n_bits + 1, dtype=whole),
    )  # fmt: skip


@hot
def _best_orders(alpha: SubsetSums, before: Ints, after: Ints) -> None:
    """Exponents of the best order of each set, and of the best order of the rest after it."""
    a_h, a_e = alpha[0], alpha[2]
    n_sets, n = a_h.shape
    before[0] = after[n_sets - 1] = 0
    for members in range(n_sets):
        for node in range(n):
            if not members >> node & 1 and a_h[members, node] > 0.0:
                larger = members | 1 << node
                before[larger] = max(before[larger], before[members] + a_e[members, node])
    for members in range(n_sets - 1, -1, -1):
        for node in range(n):
            if not members >> node & 1 and a_h[members, node] > 0.0:
                after[members] = max(after[members], after[members | 1 << node] + a_e[members, node])


@hot
def _double(size: int, p_h: Floats, p_l: Floats, m_h: float, m_l: float) -> None:
    old_h, old_l, new_h, new_l = p_h[:size], p_l[:size], p_h[size : 2 * size], p_l[size : 2 * size]
    for t in range(size):
        new_h[t], new_l[t] = times(old_h[t], old_l[t], m_h, m_l)


@hot
def _double_sets(size: int, p_e: Ints, p_s: Ints, exponent: int, bit: int) -> None:
    old_e, old_s, new_e, new_s = p_e[:size], p_s[:size], p_e[size : 2 * size], p_s[size : 2 * size]
    for t in range(size):
        new_e[t] = old_e[t] + exponent
        new_s[t] = old_s[t] | bit


@hot
def grow_products(rest: int, first: int, n_bits: int, alpha: SubsetSums, products: Products) -> int:
    """Products of ``-alpha_i(rest)`` over all sets of the nodes from ``first`` to ``first + n_bits - 1``.

    They multiply what stands in the first places.  Nodes in ``rest``, or with alpha 0, are left out; returns how many
    are not.
    """
    p_h, p_l, p_e, p_s, m_h, m_l, nodes = products
    a_h, a_l, a_e = alpha
    n_factors = 0
    for node in range(first, first + n_bits):
        if not rest >> node & 1 and a_h[rest, node] > 0.0:
            m_h[n_factors], m_l[n_factors], nodes[n_factors] = -a_h[rest, node], -a_l[rest, node], node
            _double(1 << n_factors, p_h, p_l, m_h[n_factors], m_l[n_factors])
            _double_sets(1 << n_factors, p_e, p_s, a_e[rest, node], 1 << node)
            n_factors += 1
    return n_factors


@hot
def _term_error(rest: int, n: int) -> float:
    """Bound of the relative rounding error of a product of alphas after ``rest``, carried up a tree of sums."""
    n_rest = 0
    for node in range(n):
        n_rest += rest >> node & 1
    return (n - n_rest + 1) * (n_rest + 6) * UNIT  # a factor: |rest| additions, two multiplications, a level of sums


@hot
def _push_block(high: int, n_low: int, alpha: SubsetSums, inside: SetSums, powers: Floats, products: Products) -> None:
    """Send A(R) on from all R to the sets whose high bits are ``high``; those in this block are final when met."""
    cells, exponents = inside
    p_h, p_l, p_e, p_s = products[:4]
    a_h, a_l, a_e = alpha
    n = a_h.shape[1]
    source = 0
    while True:
        added = high ^ source
        for low in range(1 << n_low):
            rest = source << n_low | low
            if exponents[rest, 3] == FAR:
                continue
            if not cells[rest, 0] > 0.0:
                cells[rest, 2] = np.inf  # lost all digits: the bound says so
                cells[rest, 0] = 1.0
            p_h[0], p_l[0], p_e[0] = -cells[rest, 0], -cells[rest, 1], exponents[rest, 3]
            p_s[0] = high << n_low | low
            for bit in range(n - n_low):
                if added >> bit & 1:
                    node = n_low + bit
                    p_h[0], p_l[0] = times(p_h[0], p_l[0], -a_h[rest, node], -a_l[rest, node])
                    p_e[0] += a_e[rest, node]
            if p_h[0] == 0.0:
                continue
            size = 1 << grow_products(rest, 0, n_low, alpha, products)
            relative = cells[rest, 2] / cells[rest, 0] + _term_error(rest, n)
            for t in range(1 if added == 0 else 0, size):
                to = p_s[t]
                k = p_e[t] - exponents[to, 3]
                if k > -DROP:
                    scale = powers[k + DROP]
                    term = p_h[t] * scale
                    h, l = plus(cells[to, 0], cells[to, 1], term, p_l[t] * scale)  # noqa: E741
                    cells[to, 0], cells[to, 1] = h, l
                    cells[to, 2] += abs(term) * relative + abs(h) * UNIT
        if source == high:
            break
        source = (source - high) & high


@hot
def _gather(
    size: int,
    base: int,
    shift: int,
    products: Products,
    outside: SetSums,
    sums: tuple[Floats, Floats, Floats],
    powers: Floats,
) -> bool:
    """The F(R + T) for one high part of T and all low parts, to a common scale; whether any is left."""
    cells, exponents = outside
    x_h, x_l, x_error = sums
    p_e, p_s = products[2], products[3]
    some = False
    for t in range(size):
        at = base | p_s[t]
        k = exponents[at, 3] + p_e[t] + shift
        if k > -DROP:
            scale = powers[k + DROP]
            x_h[t], x_l[t], x_error[t] = cells[at, 0] * scale, cells[at, 1] * scale, cells[at, 2] * scale
            some = True
        else:
            x_h[t], x_l[t], x_error[t] = 0.0, 0.0, 0.0
    return some


@hot
def _multiply_errors(size: int, factor: float, x: Floats, y: Floats) -> None:
    for t in range(size):
        x[t] += factor * y[t]


@hot
def _fold(n_factors: int, products: Products, sums: tuple[Floats, Floats, Floats]) -> None:
    """Sum ``x[t]`` times its product of factors over all t, into ``x[0]``; the error bound with absolute factors."""
    m_h, m_l = products[4], products[5]
    x_h, x_l, x_error = sums
    for factor in range(n_factors - 1, -1, -1):
        half = 1 << factor
        upper = slice(half, 2 * half)
        multiply_into(half, m_h[factor], m_l[factor], x_h[upper], x_l[upper], x_h[:half], x_l[:half])
        _multiply_errors(half, abs(m_h[factor]), x_error[:half], x_error[upper])


@hot
def _differentiate(
    n_factors: int,
    products: Products,
    c: tuple[Floats, Floats],
    rest: int,
    scale: float,
    exponent: int,
    alpha: SubsetSums,
    derivative: Derivative,
) -> None:
    """Derivatives of ``-sum of c[t] * product`` by each alpha, times ``scale * 2^exponent``; folds ``c``."""
    p_h, p_l, _, _, m_h, m_l, nodes = products
    c_h, c_l = c
    for factor in range(n_factors - 1, -1, -1):
        half = 1 << factor
        d_h, d_l = 0.0, 0.0
        for t in range(half):
            y_h, y_l = times(p_h[t], p_l[t], c_h[half + t], c_l[half + t])
            d_h, d_l = plus(d_h, d_l, y_h, y_l)
        upper = slice(half, 2 * half)
        multiply_into(half, m_h[factor], m_l[factor], c_h[upper], c_l[upper], c_h[:half], c_l[:half])
        if d_h > 0.0:
            mantissa, power = math.frexp(d_h * scale)
            derivative[0][rest, nodes[factor]] = mantissa
            derivative[1][rest, nodes[factor]] = power + exponent - alpha[2][rest, nodes[factor]]


@hot
def _pull_block(
    high: int,
    n_low: int,
    alpha: SubsetSums,
    sets: tuple[SetSums, SetSums, tuple[float, int]],
    derivative: Derivative,
    powers: Floats,
    scratch: tuple[_PullScratch, _PullScratch],
) -> None:
    """F(R) and all D_i(R) for the sets R whose high bits are ``high``, from those of larger sets."""
    inside, outside, top = sets
    (low_products, sums, folded), (high_products, high_sums, high_folded) = scratch
    c_h, c_l = folded
    v_h, v_l, v_error = high_sums
    p_h, p_l, p_e, p_s = low_products[:4]
    q_h, q_l, q_e, q_s = high_products[:4]
    cells, exponents = outside
    n = alpha[0].shape[1]
    for low in range((1 << n_low) - 1, -1, -1):
        rest = high << n_low | low
        if exponents[rest, 3] == -FAR or rest == (1 << n) - 1:
            continue
        p_h[0], p_l[0], p_e[0], p_s[0] = 1.0, 0.0, 0, 0
        n_low_factors = grow_products(rest, 0, n_low, alpha, low_products)
        q_h[0], q_l[0], q_e[0], q_s[0] = 1.0, 0.0, -exponents[rest, 3], rest
        n_high_factors = grow_products(rest, n_low, n - n_low, alpha, high_products)
        size = 1 << n_low_factors
        c_h[:size] = 0.0
        c_l[:size] = 0.0
        term_error = _term_error(rest, n) + (1 << n_high_factors) * UNIT
        for j in range(1 << n_high_factors):  # T = the empty set takes part as the zero still in F(R)
            v_h[j], v_l[j], v_error[j] = 0.0, 0.0, 0.0
            if _gather(size, q_s[j], q_e[j], low_products, outside, sums, powers):
                _multiply_errors(size, term_error, sums[2], sums[0])
                multiply_into(size, q_h[j], q_l[j], sums[0], sums[1], c_h, c_l)
                _fold(n_low_factors, low_products, sums)
                v_h[j], v_l[j], v_error[j] = sums[0][0], sums[1][0], sums[2][0]
        for j in range(1 << n_high_factors):
            high_folded[0][j], high_folded[1][j] = v_h[j], v_l[j]
        _fold(n_high_factors, high_products, high_sums)
        cells[rest, 0], cells[rest, 1], cells[rest, 2] = -v_h[0], -v_l[0], v_error[0]
        if not cells[rest, 0] > 0.0:
            cells[rest, 0], cells[rest, 2] = 1.0, np.inf
        scale = inside[0][rest, 0] / top[0]
        exponent = inside[1][rest, 3] + exponents[rest, 3] - top[1]
        _differentiate(n_low_factors, low_products, folded, rest, scale, exponent, alpha, derivative)
        _differentiate(n_high_factors, high_products, high_folded, rest, scale, exponent, alpha, derivative)

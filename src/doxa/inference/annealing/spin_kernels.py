r"""Compiled loops of `doxa.inference.annealing.spins`: 512 Ising chains anneal together, bit l of word w is chain 64 w
+ l.

A spin is up where 64 random binary digits, read as a number, lie below the threshold of its class
(`doxa.inference.spins.classes`).  Threshold and number are compared digit by digit for all chains at once: the
threshold's digit is the union of the classes whose digit is 1, and where the two differ a chain is decided.  Each digit
decides half of those left, so about eleven are looked at.  Thresholds are made anew at every temperature, once for the
512.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from doxa._jit import hot, inlined
from doxa.inference.spins.words import (
    MASKS,
    N_WORDS,
    add_neighbour,
    begin_masks,
    chosen,
    load,
    next_words,
    same,
    store,
    word,
)

__all__ = ["N_CHAINS", "anneal_spins", "any_bit", "draw_base", "set_thresholds", "sweep_spins", "write_masks"]

N_CHAINS = 64 * N_WORDS

_ALL = 2**64 - 1
_ZERO = np.uint64(0)
_LOOK_AFTER = 8  # digits: before that some of 512 chains are almost surely undecided
_TOP = 2.0**64
_SAFE = 300.0  # exponents whose products neither overflow nor vanish


@hot
def set_thresholds(spins: Any, beta: float, odds: Any, thresholds: Any) -> None:
    """Thresholds of all classes at one inverse temperature, 2^64 / (1 + odds of down); ``odds`` is work space."""
    for k in range(spins.owners.size):
        i = spins.owners[k]
        field = (1.0 - beta) * spins.base[i] + beta * spins.fields[i]
        first, strength = spins.table[i], 0.0
        for e in range(spins.starts[i], spins.starts[i + 1]):
            strength += spins.strengths[e]
        lowest = field - beta * strength
        if abs(field) + beta * strength < _SAFE / 2:
            odds[0] = math.exp(-2.0 * lowest)
            top = 0
            for e in range(spins.starts[i], spins.starts[i + 1]):
                factor, stride = math.exp(-4.0 * beta * spins.strengths[e]), spins.strides[e]
                for m in range(top + 1, top + stride + 1):
                    odds[m] = odds[m - stride] * factor
                top += stride
        else:
            odds[0] = lowest  # local fields first
            top = 0
            for e in range(spins.starts[i], spins.starts[i + 1]):
                stride = spins.strides[e]
                for m in range(top + 1, top + stride + 1):
                    odds[m] = odds[m - stride] + 2.0 * beta * spins.strengths[e]
                top += stride
            for m in range(top + 1):
                odds[m] = math.exp(min(-2.0 * odds[m], 700.0))
        for m in range(spins.n_classes[i]):
            scaled = _TOP / (1.0 + odds[m])
            thresholds[first + m] = np.uint64(_ALL) if scaled >= _TOP else np.uint64(scaled)


@hot
def sweep_spins(spins: Any, thresholds: Any, is_reversed: bool, state: Any, streams: Any, work: Any) -> None:
    """Draw every site given the others: in order, or in the opposite order, which is the reversal of that."""
    n = spins.n_classes.size
    for t in range(n):
        i = n - 1 - t if is_reversed else t
        write_masks(spins, i, state, work)
        store(state, N_WORDS * i, _below(thresholds, spins.table[i], spins.n_classes[i], streams, work))


@inlined
def write_masks(spins: Any, i: int, state: Any, work: Any) -> None:
    """Which chains are in which class of site ``i``."""
    begin_masks(work)
    top = 0
    for e in range(spins.starts[i], spins.starts[i + 1]):
        signed = spins.signed[e]
        turned = signed >> 63
        up = load(state, N_WORDS * (signed ^ turned)) ^ same(np.uint64(turned))
        top = add_neighbour(work, up, top, spins.strides[e])


@inlined
def _below(thresholds: Any, first: int, n_classes: int, streams: Any, work: Any) -> Any:
    """Where random numbers lie below the thresholds of the classes in ``work``."""
    undecided = same(np.uint64(_ALL))
    up = undecided ^ undecided
    for digit in range(64):
        threshold = undecided ^ undecided
        for m in range(n_classes):
            table = same(thresholds[first + m])
            threshold = threshold | chosen(load(work, MASKS + N_WORDS * m), table, np.uint64(63 - digit))
        u = next_words(streams)
        up = up | (undecided & threshold & ~u)
        undecided = undecided & ~(threshold ^ u)
        if digit >= _LOOK_AFTER and not any_bit(undecided):
            break
    return up


@inlined
def any_bit(value: Any) -> bool:
    """Whether any bit of eight words is set."""
    left = word(value, 0) | word(value, 1) | word(value, 2) | word(value, 3)
    left |= word(value, 4) | word(value, 5) | word(value, 6) | word(value, 7)
    return bool(left != _ZERO)


@hot
def draw_base(thresholds: Any, state: Any, streams: Any, work: Any) -> None:
    """Draw every site by itself; ``thresholds`` holds one a site."""
    for i in range(thresholds.size):
        begin_masks(work)
        store(state, N_WORDS * i, _below(thresholds, i, 1, streams, work))


@hot
def anneal_spins(
    spins: Any,
    betas: Any,
    is_reversed: bool,
    sweeps: int,
    thresholds: Any,
    state: Any,
    streams: Any,
    work: Any,
    odds: Any,
    log_weights: Any,
    variances: Any,
) -> None:
    """Take 512 chains along ``betas``, in place; ``variances`` gets that of the log weights after every step.

    Log weights grow by the log of the ratio of two neighbouring distributions, the one of larger beta above.
    """
    for k in range(1, betas.size):
        _add_energy(spins, abs(betas[k] - betas[k - 1]), state, work, log_weights)
        variances[k - 1] = _variance(log_weights)
        if k < betas.size - 1:
            set_thresholds(spins, betas[k], odds, thresholds)
            for _ in range(sweeps):
                sweep_spins(spins, thresholds, is_reversed, state, streams, work)


@hot
def _variance(values: Any) -> float:
    mean, total = 0.0, 0.0
    for c in range(values.size):
        mean += values[c]
    mean /= values.size
    for c in range(values.size):
        total += (values[c] - mean) ** 2
    return float(total / (values.size - 1))


@hot
def _add_energy(spins: Any, step: float, state: Any, counts: Any, log_weights: Any) -> None:
    """Add ``step`` times the derivative of the log density by beta to every chain's log weight."""
    highest = 0.0
    for g in range(spins.sizes.size):
        size, begin, end = spins.sizes[g], spins.group_starts[g], spins.group_starts[g + 1]
        highest += size * (end - begin)
        n_digits = 1
        for d in range(1, 64):
            n_digits += (end - begin) >> d != 0
        _count(spins, begin, end, state, n_digits, counts)
        value = -2.0 * step * size
        for d in range(n_digits):
            for w in range(N_WORDS):
                _add_where(counts[N_WORDS * d + w], value, log_weights, 64 * w)
            value *= 2.0
    begin = spins.group_starts[spins.sizes.size]  # from here on all sizes differ
    for e in range(begin, spins.lone.size + begin):
        highest += spins.lone[e - begin]
    _add_lone(spins, begin, step, state, log_weights)
    for i in range(spins.shift.size):
        highest += spins.shift[i]
        for w in range(N_WORDS):
            _add_where(~state[N_WORDS * i + w], -2.0 * step * spins.shift[i], log_weights, 64 * w)
    for c in range(N_CHAINS):
        log_weights[c] += step * highest


@hot
def _count(spins: Any, begin: int, end: int, state: Any, n_digits: int, counts: Any) -> None:
    """How many of the edges are against their couplings: binary digit d of all chains is ``counts[8 d : 8 d + 8]``."""
    for c in range(N_WORDS * n_digits):
        counts[c] = 0
    for e in range(begin, end):
        i, signed = spins.ends[e, 0], spins.ends[e, 1]
        turned = signed >> 63
        carry = load(state, N_WORDS * i) ^ load(state, N_WORDS * (signed ^ turned)) ^ same(np.uint64(turned))
        for d in range(n_digits):
            if (e - begin + 1) >> d == 0:
                break  # no count is that large yet
            old = load(counts, N_WORDS * d)
            store(counts, N_WORDS * d, old ^ carry)
            carry = old & carry


@hot
def _add_lone(spins: Any, begin: int, step: float, state: Any, log_weights: Any) -> None:
    """Edges of different sizes, four at a time: a sum is read and written once for the four."""
    n = spins.lone.size
    one, scale = np.uint64(1), -2.0 * step
    for e in range(0, n - 3, 4):
        a, b, c, d = (scale * spins.lone[e], scale * spins.lone[e + 1], scale * spins.lone[e + 2],
                      scale * spins.lone[e + 3])  # fmt: skip
        for w in range(N_WORDS):
            p, q = _against(spins, begin + e, w, state), _against(spins, begin + e + 1, w, state)
            r, s = _against(spins, begin + e + 2, w, state), _against(spins, begin + e + 3, w, state)
            for lane in range(64):
                t = np.uint64(lane)
                first = a * float((p >> t) & one) + b * float((q >> t) & one)
                log_weights[64 * w + lane] += first + (c * float((r >> t) & one) + d * float((s >> t) & one))
    for e in range(n - n % 4, n):
        for w in range(N_WORDS):
            _add_where(_against(spins, begin + e, w, state), scale * spins.lone[e], log_weights, 64 * w)


@inlined
def _against(spins: Any, e: int, w: int, state: Any) -> Any:
    """Chains of word ``w`` in which edge ``e`` is against its coupling."""
    i, signed = spins.ends[e, 0], spins.ends[e, 1]
    turned = signed >> 63
    return state[N_WORDS * i + w] ^ state[N_WORDS * (signed ^ turned) + w] ^ np.uint64(turned)


@inlined
def _add_where(bits: Any, value: float, sums: Any, first: int) -> None:
    """Add ``value`` to the sums of the chains whose bit is set."""
    for lane in range(64):
        sums[first + lane] += value * float((bits >> np.uint64(lane)) & np.uint64(1))

"""Run a program: on plain numbers, and on logarithms where their range is too small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.inference.exact.kernels import LIFT, load, prepare, run_logs, run_products, settle
from doxa.inference.exact.program import Program
from doxa.inference.exact.tree import ContractionTree
from doxa.models.factors import Factor
from doxa.sampling.workers import single_threaded_products

__all__ = ["Run", "execute", "execute_logs"]


class Run(NamedTuple):
    """The array after a run."""

    log_z: float  # nats
    numbers: NDArray[np.float64]
    are_logs: bool

    def root(self, tree: ContractionTree, program: Program) -> NDArray[np.float64]:
        """Entries of the last table, proportional to the joint distribution of the variables kept."""
        first = program.places[tree.root]
        return self._plain(self.numbers[first : first + tree.n_entries(tree.scopes[tree.root])])

    def marginals(self, tree: ContractionTree, program: Program) -> list[NDArray[np.float64]]:
        """Distribution of every variable of the tree, in the order of positions."""
        if not tree.sizes:
            return []
        sizes = np.array(tree.sizes)
        ends = np.cumsum(sizes)
        numbers = self.numbers[program.marginals : program.marginals + ends[-1]]
        starts = ends - sizes
        if self.are_logs:
            numbers = np.exp(numbers - np.repeat(np.maximum.reduceat(numbers, starts), sizes))
        probabilities = numbers / np.repeat(np.add.reduceat(numbers, starts), sizes)
        return [probabilities[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _plain(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(numbers - numbers.max()) if self.are_logs else numbers


def execute(tree: ContractionTree, program: Program, factors: Sequence[Factor]) -> Run:
    """Sum products of plain numbers, and of logarithms if any entry on the way is out of their range."""
    numbers = _stage(tree, program, factors)
    bits = numbers.view(np.int64)
    exponent, lowest = np.zeros((2, program.n_tables), dtype=np.int64)
    peaks = np.empty(tree.n_leaves)
    entries = np.array([tree.n_entries(scope) for scope in tree.scopes[: tree.n_leaves]], dtype=np.int64)
    numbers[program.one] = 1.0
    in_range, scaling = load(numbers, bits, entries, peaks, exponent, lowest), 0
    if in_range:
        with single_threaded_products() if program.products else nullcontext():
            in_range, scaling = _products(program, numbers, bits, exponent, lowest)
    if not in_range:
        del numbers, bits
        return execute_logs(tree, program, factors, is_sum=True)
    first = program.places[tree.root]
    total = float(numbers[first : first + tree.n_entries(tree.scopes[tree.root])].sum())
    if total == 0.0:
        return Run(-math.inf, numbers, are_logs=False)
    mantissa, exponent_of_total = math.frexp(total)
    power = exponent_of_total - scaling - LIFT * tree.n_leaves
    return Run(math.fsum([*peaks.tolist(), math.log(mantissa), power * math.log(2)]), numbers, are_logs=False)


def _products(
    program: Program,
    numbers: NDArray[np.float64],
    bits: NDArray[np.int64],
    exponent: NDArray[np.int64],
    lowest: NDArray[np.int64],
) -> tuple[bool, int]:
    """Whether all stayed in range, and the scaling in all; loops run compiled, between the large matrix products."""
    instructions, loops = program.arrays
    counter = np.zeros(program.deepest + 1, dtype=np.int64)
    in_range, scaling, done = True, 0, 0
    for at, product in [*program.products.items(), (len(instructions), None)]:
        fits, scale = run_products(done, at, numbers, bits, instructions, loops, exponent, lowest, counter)
        in_range, scaling, done = in_range and fits, scaling + scale, at + 1
        if product is not None and in_range:
            row = instructions[at]
            scale, fits, swap = prepare(row, exponent, lowest)
            target, size, x, y = row[:4].tolist()
            x_size, y_size = (math.prod(shape) for shape in product.shapes[1:])
            tables = numbers[target : target + size], numbers[x : x + x_size], numbers[y : y + y_size]
            product.run(*tables, math.ldexp(1.0, scale), swap=swap)
            in_range = settle(numbers, bits, row, exponent, lowest, counter) and fits
            scaling += (scale + int(counter[0])) * int(row[-1])
        if not in_range:
            break
    return in_range, scaling


def execute_logs(tree: ContractionTree, program: Program, factors: Sequence[Factor], *, is_sum: bool) -> Run:
    """Run on logarithms: sums of products, or the largest product, whose logarithm is then ``log_z``."""
    numbers = _stage(tree, program, factors)
    instructions, loops = program.arrays
    numbers[program.one] = 0.0
    work = np.empty(int(instructions[:, 1].max(initial=0)) if is_sum else 0)
    run_logs(numbers, work, is_sum, instructions, loops, np.zeros(program.deepest + 1, dtype=np.int64))
    first = program.places[tree.root]
    root = numbers[first : first + tree.n_entries(tree.scopes[tree.root])]
    log_z = float(np.logaddexp.reduce(root)) if is_sum else float(root.max())
    return Run(log_z, numbers, are_logs=True)


def _stage(tree: ContractionTree, program: Program, factors: Sequence[Factor]) -> NDArray[np.float64]:
    """The program's array, with the factors at its start and their axes in order."""
    numbers = np.empty(program.n_numbers)
    tables = [np.zeros(1)]
    if factors:
        both = zip(factors, tree.leaf_axes, strict=True)
        tables = [factor.log_values.transpose(axes).ravel() for factor, axes in both]
    leaves = numbers[: program.leaf_numbers]
    np.concatenate(tables, out=leaves)
    if np.isnan(leaves).any() or leaves.max() == np.inf:
        for at, factor in enumerate(factors):
            if np.isnan(factor.log_values).any() or factor.log_values.max() == np.inf:
                raise ArgumentError(f"factors[{at}] contains nan or +inf; a log value is finite, or -inf where 0")
    return numbers

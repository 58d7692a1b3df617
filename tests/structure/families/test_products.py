"""Sums of products in vector instructions, held against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from doxa._jit import hot
from doxa.structure.families.additive.products import LANES, add_dots, add_products, combine_rows
from doxa.structure.families.logistic.softplus import logarithm
from support.checks import SEED


def drawn(n_rows, n_cells):
    rng = np.random.default_rng(SEED + 17 * n_rows + n_cells)
    return rng.normal(size=n_cells), rng.normal(size=(n_rows, n_cells + 24)), rng.normal(size=n_rows)


@pytest.mark.parametrize("n_rows", range(1, 10))
@pytest.mark.parametrize("n_cells", [0, LANES, 5 * LANES, 31 * LANES])
def test_sums_of_products_are_those_of_numpy(n_rows, n_cells):
    """Some cells in the middle of rows, added to what is there; a sum over other cells is not the same."""
    w, x, before = drawn(n_rows, n_cells)
    begin, last = 16, n_rows - 1
    part = x[:, begin : begin + n_cells]
    size = (np.abs(x).max() ** 2) * 1e-15 * (1 + n_cells)
    found = before.copy()
    add_products(w, x, last, n_rows, (begin, n_cells), found)
    np.testing.assert_allclose(found, before + (w * part[last]) @ part.T, rtol=0, atol=10 * size)
    found = before.copy()
    add_dots(w, x, n_rows, (begin, n_cells), found)
    np.testing.assert_allclose(found, before + w @ part.T, rtol=0, atol=10 * size)
    if n_cells:
        assert np.abs(found - before - w @ x[:, :n_cells].T).max() > 1e3 * size


@pytest.mark.parametrize("n_rows", [0, 1, 5])
@pytest.mark.parametrize("n_cells", [0, *(LANES * k for k in range(1, 10))])
def test_combined_rows_are_those_of_numpy(n_rows, n_cells):
    _, x, weights = drawn(max(1, n_rows), n_cells)
    found = np.full(n_cells + 8, 7.0)
    combine_rows(weights, x, n_rows, (8, n_cells), found)
    right = weights[:n_rows] @ x[:n_rows, 8 : 8 + n_cells]
    np.testing.assert_allclose(found[:n_cells], right, rtol=0, atol=1e-13)
    assert (found[n_cells:] == 7.0).all()


def test_arrays_of_three_sides_are_rows_one_after_another():
    _, x, _ = drawn(6, 8)
    x = np.ascontiguousarray(x)
    deep, found = x.reshape(6, 4, 8), np.zeros(6)
    add_dots(deep[2], deep, 6, (0, 32), found)
    np.testing.assert_allclose(found, x[2] @ x.T, rtol=1e-13, atol=1e-13)


@hot
def _logarithms(values, found):
    for k in range(values.size):
        found[k] = logarithm(values[k])


def test_the_logarithm_by_arithmetic_alone():
    values = np.concatenate([np.exp(np.linspace(-700, 700, 20001)), np.linspace(0.5, 2.0, 20001), [1.0, 2.0**0.5]])
    found = np.empty_like(values)
    _logarithms(values, found)
    np.testing.assert_allclose(found, np.log(values), rtol=4e-16, atol=1e-15)
    assert found[-2] == 0.0

"""The latent trait model on what data can be: missing cells, equal rows, columns without information, bad input."""

from typing import Any

import numpy as np
import pytest
from latent_cases import integrate, random_parameters, rows_of, simulate
from scipy.optimize import brentq

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.parameters.variational.latent_em import LOADINGS, TraitParameters, run_em, settle
from doxa.parameters.variational.latent_quadrature import LatentTrait
from doxa.parameters.variational.latent_trait import fit_latent_prior, fit_latent_trait
from support.checks import SEED

# --- missing cells and equal rows -----------------------------------------------------------------------------------


def test_a_missing_cell_is_integrated_out():
    """The row then has the bound and posterior of a model without that column."""
    rng = np.random.default_rng(SEED)
    fit = fit_latent_trait(simulate(rng, random_parameters(rng, 6, 2), 150)[0], 2, likelihood="bound")
    row = np.array([[1.0, 0, np.nan, 1, np.nan, 0]])
    kept = [0, 1, 3, 5]
    small = TraitParameters(fit.loadings[kept], fit.biases[kept], fit.prior_mean, fit.prior_root)
    known = settle(rows_of(row[:, kept]), small).rows
    found = fit.posterior(row)
    assert np.allclose(found.mean, known.mean, atol=1e-9)
    assert np.allclose(found.covariance, known.covariance, atol=1e-9)
    assert np.allclose(found.log_bound, known.log_bound, atol=1e-9)
    for value in (0.0, 1.0):  # filled, it would be told
        assert abs(fit.posterior(np.nan_to_num(row, nan=value)).log_bound[0] - known.log_bound[0]) > 0.1
    nothing = fit.posterior(np.full((1, 6), np.nan))
    assert np.allclose(nothing.mean, 0)
    assert np.allclose(nothing.covariance, np.eye(2))
    assert nothing.log_bound == pytest.approx([0.0])


def test_predictions_of_missing_cells_are_near_the_exact_ones():
    rng = np.random.default_rng(SEED)
    truth = random_parameters(rng, 20, 2, scale=0.8, standard=True)
    fit = fit_latent_trait(simulate(rng, truth, 500)[0], 2)
    parameters = TraitParameters(fit.loadings, fit.biases, fit.prior_mean, fit.prior_root)
    full = simulate(rng, truth, 12)[0]
    errors, told = [], []
    for j in range(20):
        column = np.arange(20) == j
        codes, with_one = np.where(column, -1, full), np.where(column, 1, full)
        exact = np.exp(integrate(parameters, with_one)[0] - integrate(parameters, codes)[0])
        errors.append(np.abs(fit.probabilities(codes)[:, j] - exact).max())
        told.append(np.abs(fit.marginals()[j] - exact).max())
    assert max(errors) < 0.03  # the largest of 960 in four data sets was 0.013
    assert max(told) > 0.3  # what the other cells tell


def test_probabilities_average_the_logistic_over_the_posterior():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 4, 2), 60, missing=0.2)[0]
    fit = fit_latent_trait(codes, 2)
    found = fit.posterior(codes)
    z = np.linspace(-9, 9, 1801)
    mass = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    mean = fit.biases + found.mean @ fit.loadings.T
    sd = np.sqrt(np.einsum("pi,tij,pj->tp", fit.loadings, found.covariance, fit.loadings))
    averaged = (1 / (1 + np.exp(-(mean[..., None] + sd[..., None] * z)))) @ mass
    assert np.allclose(fit.probabilities(codes), averaged, atol=1e-8)
    assert np.abs(1 / (1 + np.exp(-mean)) - averaged).max() > 0.01


def test_rows_without_cells_and_columns_without_cells_change_nothing_else():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 6, 1), 150)[0].astype(float)
    fit = fit_latent_trait(codes, 1, tolerance=1e-14, likelihood="bound")
    wider = fit_latent_trait(np.column_stack([codes, np.full(150, np.nan)]), 1, tolerance=1e-14, likelihood="bound")
    longer = fit_latent_trait(np.concatenate([codes, np.full((9, 6), np.nan)]), 1, tolerance=1e-14, likelihood="bound")
    for other in (wider, longer):
        assert np.allclose(other.loadings[:6], fit.loadings, atol=1e-4)
        assert other.log_bound == pytest.approx(fit.log_bound, abs=1e-7)
    assert wider.loadings[6] == 0
    assert wider.marginals()[6] == pytest.approx(0.5)


def test_equal_rows_are_one_row_with_a_count():
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 5, 2), 40, missing=0.1)[0]
    counts = rng.integers(0, 4, 40)
    repeated = np.repeat(codes, counts, axis=0)
    names = [f"c{j}" for j in range(5)]
    table = doxa.Table.from_codes(names, [["no", "yes"]] * 5, codes, counts)
    fits = [
        fit_latent_trait(codes, 2, counts=counts),
        fit_latent_trait(repeated, 2),
        fit_latent_trait(rng.permutation(repeated), 2),
        fit_latent_trait(table, 2),
    ]
    for fit in fits[1:]:
        assert np.array_equal(fit.loadings, fits[0].loadings)
        assert np.array_equal(fit.trace, fits[0].trace)
    expanded = fits[0].posterior(repeated)
    assert expanded.log_bound.sum() == pytest.approx(fits[0].log_bound, abs=1e-8)
    assert np.array_equal(fits[3].posterior(table).mean, expanded.mean)
    priors = [
        fit_latent_prior(data, np.ones((5, 1)), counts=c).prior_root for data, c in ((codes, counts), (repeated, None))
    ]
    assert np.array_equal(priors[0], priors[1])
    unweighted = fit_latent_trait(codes, 2)
    assert not np.allclose(unweighted.loadings, fits[0].loadings, atol=1e-3)


# --- hard data ------------------------------------------------------------------------------------------------------


def test_a_constant_column_is_held_by_the_prior():
    rng = np.random.default_rng(SEED)
    codes = np.column_stack([np.ones(100), rng.integers(0, 2, (100, 3))])
    fit = fit_latent_trait(codes, 1, prior_scale=5.0, tolerance=1e-14)
    assert fit.converged
    assert fit.loadings[0] == pytest.approx(0, abs=1e-3)
    # with no loading the bound is exact: the bias is the mode of logistic regression
    mode = brentq(lambda b: 100 / (1 + np.exp(b)) - b / 25, 0, 20)
    assert fit.biases[0] == pytest.approx(mode, abs=1e-3)
    with pytest.raises(ArgumentError, match=r"column 'x0' is 1 in every row, so that without a prior its bias"):
        fit_latent_trait(codes, 1, prior_scale=None)
    with pytest.raises(ArgumentError, match=r"column 'x1' has no observed cell"):
        fit_latent_trait([[1, np.nan], [0, np.nan]], 1, prior_scale=None)


def test_one_column_alone_has_no_loading():
    fit = fit_latent_trait([[1], [1], [0], [np.nan]], 1, prior_scale=None, tolerance=1e-14)
    assert fit.loadings[0, 0] == pytest.approx(0, abs=1e-3)
    assert fit.marginals() == pytest.approx([2 / 3], abs=1e-5)
    assert fit.log_bound == pytest.approx(2 * np.log(2 / 3) + np.log(1 / 3), abs=1e-7)


@pytest.mark.parametrize("kind", ["staircase", "copies", "one row", "all equal"])
def test_data_that_separate_stay_finite(kind):
    z = np.random.default_rng(SEED).standard_normal((300, 1))
    codes = {
        "staircase": (z > np.linspace(-1.5, 1.5, 8)).astype(int),
        "copies": np.repeat(z > 0, 5, axis=1).astype(int),
        "one row": np.array([[1, 0, 1]]),
        "all equal": np.tile([1, 0, 1, 1], (50, 1)),
    }[kind]
    fit = fit_latent_trait(codes, 2)
    assert fit.converged
    assert (np.diff(fit.trace) >= 0).all()
    for part in (fit.loadings, fit.biases, fit.posterior(codes).mean, fit.probabilities(codes)):
        assert np.isfinite(part).all()
    assert np.abs(fit.probabilities(codes) - codes).max() < 0.5


def test_huge_logits_do_not_overflow():
    rows = rows_of([[1, 0, np.nan], [0, 0, 1]])
    parameters = TraitParameters(np.full((3, 1), 1e4), np.array([1e4, -1e4, 0]), np.zeros(1), np.eye(1))
    found = settle(rows, parameters).rows
    assert np.isfinite(found.log_bound).all()
    fit = fit_latent_prior([[1, 0], [0, 1], [1, 1]], [[1e4], [1e4]], max_iterations=50)
    assert np.isfinite(fit.trace).all()
    assert (np.diff(fit.trace) >= 0).all()


def test_the_limit_of_iterations_is_said():
    rng = np.random.default_rng(SEED)
    fit = fit_latent_trait(simulate(rng, random_parameters(rng, 6, 1), 100)[0], 1, max_iterations=3)
    assert not fit.converged
    assert repr(fit).endswith(", not converged>")
    assert run_em(
        rows_of([[0], [1]]), TraitParameters(np.zeros((1, 1)), np.zeros(1), np.zeros(1), np.eye(1)), LOADINGS,
        ridge=1.0, tolerance=1e-9, max_iterations=100, memory=6,
    ).converged  # fmt: skip


# --- what goes in ---------------------------------------------------------------------------------------------------


def test_tables_keep_the_meaning_of_their_labels():
    names = ["a", "b"]
    table = doxa.Table.from_codes(names, [["no", "yes"]] * 2, [[0, 0], [1, 1], [1, -1], [0, 1]])
    fit = fit_latent_trait(table, 1)
    assert fit.names == ("a", "b")
    by_codes = fit.posterior([[0, 1], [1, np.nan]]).mean
    other = doxa.Table.from_codes(["b", "x", "a"], [["yes"], ["u", "v"], ["yes", "no"]], [[0, 1, 1], [-1, 0, 0]])
    assert np.array_equal(fit.posterior(other).mean, by_codes)
    frame = pytest.importorskip("pandas").DataFrame({"a": ["no", "yes"], "b": ["yes", None]})
    assert np.array_equal(fit.posterior(frame).mean, by_codes)
    with pytest.raises(TableError, match=r"data has no column 'b', which the model was fitted to"):
        fit.posterior(table.select(["a"]))
    strange = doxa.Table.from_codes(names, [["no", "maybe"], ["no", "yes"]], [[1, 0]])
    with pytest.raises(TableError, match=r"column 'a' has the state 'maybe'; the model was fitted to \['no', 'yes'\]"):
        fit.posterior(strange)


def test_a_column_of_one_state_is_read_by_its_label():
    ones = doxa.Table.from_codes(["a", "b"], [["yes"], ["no", "yes"]], [[0, 0], [0, 1]])
    zeros = doxa.Table.from_codes(["a", "b"], [["no"], ["no", "yes"]], [[0, 0], [0, 1]])
    assert fit_latent_trait(ones, 1).biases[0] > 1
    assert fit_latent_trait(zeros, 1).biases[0] < -1
    assert fit_latent_trait(ones, 1).posterior(ones).mean.shape == (2, 1)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "3 columns": ({"data": [[0, 1, 1]], "n_components": 4}, r"n_components is 4; it must be at most 3, the number"),
    "0": ({"n_components": 0}, r"n_components is 0; it must be at least 1"),
    "2": ({"data": [[0, 2], [1, 1]]}, r"data\[0, 1\] is 2; cells are 0, 1, and NaN or -1 for missing"),
    "inf": ({"data": [[0, np.inf], [1, 1]]}, r"data\[0, 1\] is inf; cells are 0, 1"),
    "half": ({"data": [[0, 1], [0.5, 1]]}, r"data\[1, 0\] is 0\.5"),
    "spins": ({"data": [[-1, 1], [1, 1]]}, r"-1 means missing; if these are spins, \(data \+ 1\) / 2 turns"),
    "1-d": ({"data": [0, 1]}, r"data has shape \(2,\); it must be \(rows, columns\)"),
    "no column": ({"data": np.empty((3, 0))}, r"data has shape \(3, 0\); .*, with at least one"),
    "no row": ({"data": np.empty((0, 3))}, r"data has no rows; at least one is needed"),
    "ragged": ({"data": [[0, 1], [0]]}, r"data is not a rectangular array of numbers"),
    "scale 0": ({"prior_scale": 0.0}, r"prior_scale is 0\.0; it must be above 0 and finite, or None for no prior"),
    "scale nan": ({"prior_scale": np.nan}, r"prior_scale is nan"),
    "tolerance": ({"tolerance": 0}, r"tolerance is 0; it must be above 0"),
    "iterations": ({"max_iterations": 0}, r"max_iterations is 0; it must be at least 1"),
    "memory": ({"memory": -1}, r"memory is -1; it must be at least 0; 0 is plain EM"),
    "short counts": ({"counts": [1]}, r"counts has shape \(1,\); it must be \(2,\), one for each row of data"),
    "negative": ({"counts": [1, -2]}, r"counts\[1\] is -2; counts must be finite and not negative"),
    "nan count": ({"counts": [1, np.nan]}, r"counts\[1\] is nan"),
    "no counts": ({"counts": [0, 0]}, r"counts are all 0; at least one row must have been seen"),
    "twice": ({"data": doxa.datasets.load("reinis"), "counts": [1]}, r"counts is given and data is a table"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_words(name):
    options, message = BAD[name]
    with pytest.raises(ArgumentError, match=message):
        fit_latent_trait(**{"data": [[0, 1], [1, 1]], "n_components": 1, **options})


def test_bad_types_and_tables_are_refused_in_words():
    with pytest.raises(ArgumentTypeError, match=r"data holds values of type .*; an array holds 0, 1, and NaN or -1"):
        fit_latent_trait([["a", "b"]], 1)
    with pytest.raises(ArgumentTypeError, match=r"counts does not hold numbers"):
        fit_latent_trait([[0, 1]], 1, counts=["many"])
    half: Any = 1.5
    with pytest.raises(ArgumentTypeError, match=r"n_components is 1\.5"):
        fit_latent_trait([[0, 1]], half)
    three = doxa.Table.from_codes(["x"], [["a", "b", "c"]], [[0], [2]])
    with pytest.raises(TableError, match=r"column 'x' has 3 states; the latent trait model takes columns of two"):
        fit_latent_trait(three, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loadings": [[1.0]]}, r"loadings has shape \(1, 1\); it must be \(2, k\), a row for each column of data"),
        ({"loadings": [[1.0], [np.nan]]}, r"loadings holds nan; every number must be finite"),
        ({"loadings": [["a"], ["b"]]}, r"loadings is not an array of numbers"),
        ({"biases": [1.0, 2.0, 3.0]}, r"biases has shape \(3,\); it must be one number, or \(2,\)"),
        ({"tolerance": -1.0}, r"tolerance is -1\.0; it must be above 0"),
    ],
)
def test_bad_loadings_are_refused_in_words(options, message):
    with pytest.raises(ArgumentError, match=message):
        fit_latent_prior(**{"data": [[0, 1], [1, 0]], "loadings": [[1.0], [1.0]], **options})


def test_a_model_can_be_written_down():
    model = LatentTrait(
        ("a", "b"), np.array([[1.0], [2.0]]), np.zeros(2), np.zeros(1), np.eye(1), np.nan, 0, True, np.empty(0)
    )
    known = settle(rows_of([[1, 0]]), TraitParameters(model.loadings, model.biases, np.zeros(1), np.eye(1))).rows
    assert np.array_equal(model.posterior([[1, 0]]).mean, known.mean)


def test_new_rows_must_have_the_columns_of_the_model():
    fit = fit_latent_trait([[0, 1], [1, 0], [1, 1]], 1)
    with pytest.raises(ArgumentError, match=r"data has 3 columns; the model was fitted to 2"):
        fit.posterior([[0, 1, 1]])
    assert fit.posterior([[-1, 1]]).mean.shape == (1, 1)  # a new row may have no 0
    with pytest.raises(ArgumentError, match=r"n is -1; it must be at least 0"):
        fit.sample(-1, np.random.default_rng(1))

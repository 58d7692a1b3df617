"""Draws of coefficients and the densities over them: what is drawn is what the fit and the approximations say."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.contour import QuadContourSet

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.gaussians import Student
from doxa.plots import DensityGrid, plot_bivariate, plot_marginals
from doxa.plots.laws import ellipse, laws_of, region_levels
from doxa.sampling.gaussian import Gaussian
from doxa.sampling.importance_proposals import Mixture

NETWORK = doxa.LogisticNetwork({"systol": ["smoke", "phys"]}, bias={"systol": -0.3}, roots={"phys": 0.5})
X, Y = ("systol", "smoke"), ("systol", "phys")


@pytest.fixture(scope="module")
def table():
    return doxa.datasets.load("reinis")


@pytest.fixture(scope="module")
def fit(table):
    return doxa.fit(NETWORK, table, draws=400, seed=1)


@pytest.fixture(scope="module")
def sample():
    return np.random.default_rng(3).normal(size=(2, 1000, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]


def line(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def contours(ax, label=None):
    found = [part for part in ax.collections if isinstance(part, QuadContourSet)]
    return found if label is None else [part for part in found if part.get_gid() == label]


def inside(outline, points):
    from matplotlib.path import Path

    return Path(outline).contains_points(points)


def test_the_points_are_the_draws_and_the_ellipse_is_the_fits_own_approximation(fit):
    ax = plot_bivariate(fit, X, Y)
    draws = fit.draws("systol").reshape(-1, 2)
    assert np.array_equal(np.array(ax.lines[0].get_data()).T, draws)
    proposal = fit.approximation("systol")
    first, second = (part for part in ax.lines if len(part.get_xdata()) == 200)
    assert np.array(first.get_data()) == pytest.approx(ellipse(proposal, 0.5))
    assert np.array(second.get_data()) == pytest.approx(ellipse(proposal, 0.9))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("systol: smoke", "systol: phys")
    swapped = plot_bivariate(fit, "systol: phys", "systol: smoke").lines[-1].get_data()
    assert np.array(swapped)[::-1].min(axis=1) == pytest.approx(ellipse(proposal, 0.9).min(axis=1), rel=1e-3)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_an_ellipse_holds_its_share(share):
    gaussian = Gaussian.from_covariance([1.0, -2.0], [[4.0, 1.5], [1.5, 1.0]])
    n = 20_000
    held = inside(ellipse(gaussian, share).T, gaussian.sample(n, np.random.default_rng(1))).mean()
    error = np.sqrt(share * (1 - share) / n)
    assert abs(held - share) < 4 * error + 1e-3  # the outline is a polygon of 200 sides
    wrong = inside(ellipse(gaussian, share**0.5).T, gaussian.sample(n, np.random.default_rng(1))).mean()
    assert abs(wrong - share) > 4 * error + 1e-3


def test_several_approximations_are_marginals_in_the_order_of_the_axes(sample):
    covariance = np.array([[1.0, 0.3, 0.2], [0.3, 4.0, -0.5], [0.2, -0.5, 2.0]])
    mean = np.array([1.0, 2.0, 3.0])
    approximations = {"whole": (mean, covariance), "pair": (mean[[2, 0]], covariance[np.ix_([2, 0], [2, 0])])}
    ax = plot_bivariate(sample, 2, 0, approximation=approximations, probs=[0.9])
    assert np.array(line(ax, "whole").get_data()) == pytest.approx(np.array(line(ax, "pair").get_data()))
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["2000 draws", "whole", "pair"]
    assert line(ax, "whole").get_linestyle() != line(ax, "pair").get_linestyle()


def test_contours_of_the_exact_posterior_are_those_of_the_table(fit, table):
    """The fit's two coefficients stand alone: nearly 90% of the draws are inside the 90% region."""
    ax = plot_bivariate(fit, X, Y, approximation=None, exact=table, probs=[0.9])
    (found,) = contours(ax, "posterior")
    (outline,) = (path.vertices for path in found.get_paths() if len(path.vertices))
    held = inside(outline, fit.draws("systol").reshape(-1, 2)).mean()
    assert held == pytest.approx(0.9, abs=0.04)  # 1600 draws of some dependence: an error of about 0.01
    assert outline.mean(axis=0) == pytest.approx(fit.draws("systol").mean(axis=(0, 1)), abs=0.01)


def test_a_table_is_refused_where_the_coefficients_do_not_stand_alone(table):
    fit = doxa.fit(doxa.LogisticNetwork({"systol": ["smoke", "phys"]}), table, draws=20, warmup=20, seed=1)
    message = (
        r"depends on others too \(systol: bias\); its density can be computed only for coefficients that stand alone"
    )
    with pytest.raises(ArgumentError, match=message):
        plot_bivariate(fit, X, Y, exact=table)
    with pytest.raises(ArgumentError, match=r"is that of independent parts"):
        plot_bivariate(fit, ("smoke", "probability"), ("phys", "probability"), exact=table)


@pytest.mark.parametrize("form", ["function", "grid"])
def test_a_density_is_drawn_alike_as_a_function_and_as_a_grid(sample, form):
    gaussian = Gaussian.from_covariance([0.0, 1.0], [[1.0, 0.0], [0.0, 4.0]])
    x, y = np.linspace(-6, 6, 121), np.linspace(-9, 11, 201)
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    grid = DensityGrid(x, y, gaussian.log_density(points).reshape(121, 201) + 7.0)
    exact = grid if form == "grid" else lambda points: gaussian.log_density(points) - 5.0
    ax = plot_bivariate(sample, 0, 1, exact=exact, probs=[0.5])
    (found,) = contours(ax, "posterior")
    (outline,) = (path.vertices for path in found.get_paths() if len(path.vertices))
    radius = np.sqrt(((outline - [0, 1]) ** 2 / [1, 4]).sum(axis=1))
    assert radius == pytest.approx(np.full(len(radius), np.sqrt(2 * np.log(2))), abs=0.03)


def test_levels_hold_the_share():
    p = np.array([0.4, 0.1, 0.3, 0.15, 0.05])
    for share in (0.3, 0.5, 0.8, 0.97):
        (level,) = region_levels(np.log(p), (share,))
        assert p[np.log(p) >= level].sum() >= share - 1e-9
        assert p[np.log(p) > level].sum() < share


def test_a_mixture_is_the_marginal_of_its_components():
    one = Gaussian.from_covariance([0.0, 3.0, 1.0], np.diag([1.0, 4.0, 9.0]))
    other = Student(np.array([5.0, -3.0, 0.0]), np.diag([1.0, 2.0, 1.0]), 5.0)
    law = laws_of(Mixture([one, other], [0.25, 0.75]), [1], 3)["approximation"]
    x = np.linspace(-60, 60, 20_001)[:, None]
    p = np.exp(law.log_density(x))
    assert np.trapezoid(p, x[:, 0]) == pytest.approx(1, abs=1e-4)
    assert np.trapezoid(p * x[:, 0], x[:, 0]) == pytest.approx(0.25 * 3 + 0.75 * -3, abs=1e-3)
    apart = Student(other.mean[1:2], other.cholesky[1:2, 1:2], 5.0).log_density(x)
    assert p == pytest.approx(0.25 * np.exp(one.marginal([1]).log_density(x)) + 0.75 * np.exp(apart))


def test_estimated_regions_of_two_modes_hold_their_share_of_the_draws():
    rng = np.random.default_rng(2)
    centres = np.array([[-10.0, -10.0], [10.0, 10.0]])
    draws = (centres[np.arange(4000) % 2] + rng.normal(size=(4000, 2)))[None]
    ax = plot_bivariate(draws, 0, 1, draws="density", probs=[0.9])
    filled, outlined = contours(ax)
    assert filled.get_gid() == "4000 draws: filled"
    loops = [loop for path in outlined.get_paths() for loop in path.to_polygons()]
    held = sum(inside(loop, draws[0]).mean() for loop in loops if len(loop) > 3)
    assert held == pytest.approx(0.93, abs=0.03)  # kernels widen a region by some percent
    assert len([loop for loop in loops if len(loop) > 3]) == 2
    assert not [part for part in ax.lines if part.get_marker() == "."]


def test_more_draws_than_can_be_told_apart_are_thinned_and_this_is_said():
    draws = np.random.default_rng(1).normal(size=(4, 2500, 2))
    ax = plot_bivariate(draws, 0, 1)
    flat = draws.reshape(-1, 2)
    assert np.array_equal(np.array(ax.lines[0].get_data()).T, flat[::3])
    assert ax.get_legend().get_texts()[0].get_text() == "3334 of the draws"


def test_histograms_have_unit_area_and_the_curves_are_the_approximations(fit):
    axes = plot_marginals(fit)
    assert [ax.get_xlabel() for ax in axes] == ["systol: smoke", "systol: phys", "smoke: probability"]
    for ax, (node, j) in zip(axes, (("systol", 0), ("systol", 1), ("smoke", 0)), strict=True):
        heights, edges, _ = ax.patches[0].get_data()
        assert (heights * np.diff(edges)).sum() == pytest.approx(1)
        draws = fit.draws(node)[..., j].ravel()
        assert heights == pytest.approx(np.histogram(draws, edges, density=True)[0])
        x, y = line(ax, "approximation").get_data()
        assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)
        assert np.trapezoid(x * y, x) == pytest.approx(draws.mean(), abs=0.15 * draws.std())
    x, y = line(axes[0], "approximation").get_data()
    assert y == pytest.approx(np.exp(fit.approximation("systol").marginal([0]).log_density(x[:, None])))
    assert axes[0].get_ylabel() == "density"
    assert len(axes[0].figure.legends) == 1


def test_the_interval_is_central_and_marks_the_mean(sample):
    axes = plot_marginals(sample, [1], prob=0.8)
    (bar,) = axes[0].containers
    draws = sample[..., 1].ravel()
    assert bar.lines[0].get_xdata()[0] == pytest.approx(draws.mean())
    (ends,) = bar.lines[2][0].get_segments()
    assert ends[:, 0] == pytest.approx(np.quantile(draws, (0.1, 0.9)))
    assert bar.get_label() == "80% interval, mean"
    assert ends[0, 1] < 0  # below the curves
    assert not plot_marginals(sample, [1], prob=None)[0].containers


def test_a_density_that_is_not_normalised_is_drawn_so_that_it_is(sample):
    (ax,) = plot_marginals(sample[..., 0], exact=lambda points: -0.5 * points[:, 0] ** 2 + 3.0, limits=(-5, 5))
    x, y = line(ax, "posterior").get_data()
    assert np.trapezoid(y, x) == pytest.approx(1)
    assert y.max() == pytest.approx(1 / np.sqrt(2 * np.pi), rel=1e-3)
    assert ax.get_xlim() == (-5, 5)


def test_the_exact_law_of_a_learned_root_is_its_beta_distribution(fit, table):
    (ax,) = plot_marginals(fit, ("smoke", "probability"), exact=table)
    x, exact = line(ax, "posterior").get_data()
    assert exact == pytest.approx(line(ax, "approximation").get_ydata(), rel=1e-3, abs=1e-3)
    counts = np.bincount(table.codes[table.row_index, table.names.index("smoke")])
    assert x[exact.argmax()] == pytest.approx(counts[1] / counts.sum(), abs=0.002)


def test_a_loaded_fit_is_drawn_without_the_approximation_that_it_does_not_keep(fit, tmp_path):
    fit.save(tmp_path / "fit.doxa")
    loaded = doxa.load(tmp_path / "fit.doxa")
    assert [line.get_label() for line in plot_bivariate(loaded, X, Y).lines][1:] == ["1600 draws"]
    names = [line.get_label() for line in plot_marginals(loaded, X)[0].lines]
    assert "approximation" in [line.get_label() for line in plot_marginals(fit, X)[0].lines]
    assert "approximation" not in names


def test_given_axes_are_drawn_in_and_pictures_are_written(fit, sample, tmp_path):
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_bivariate(fit, X, Y, ax=left) is left
    assert list(plot_marginals(sample, [2], axes=[right])) == [right]
    assert right.get_legend() is not None
    figure.savefig(tmp_path / "picture.png")
    named = {"$x_\\odd$": sample[..., 0], "<&>": sample[..., 1]}
    plot_bivariate(named, "$x_\\odd$", "<&>", approximation={"$y_": ([0, 0], np.eye(2))}).figure.savefig(
        tmp_path / "odd.png"
    )
    plot_marginals(named)[0].figure.savefig(tmp_path / "marginals.png")
    plot_marginals(np.ones((2, 30)))[0].figure.savefig(tmp_path / "constant.png")


def test_bad_input_is_refused_in_words(fit, sample, table):
    square = (np.zeros(2), np.eye(2))
    for call, message in (
        (lambda: plot_bivariate(fit, ("systol", "age"), Y), r"\('systol', 'age'\) is no coefficient of this fit; name"),
        (
            lambda: plot_bivariate(fit, X, Y, draws="lines"),
            r"draws is 'lines'; it must be 'points', 'density' or 'none'",
        ),
        (lambda: plot_bivariate(fit, X, Y, probs=[95]), r"prob is 95; it must lie strictly between 0 and 1"),
        (
            lambda: plot_bivariate(fit, X, Y, approximation="laplace"),
            r"is 'laplace'; the only one with a name is 'own'",
        ),
        (
            lambda: plot_bivariate(sample, 0, 1, approximation=([0.0], [[1.0]])),
            r"over 1 coefficients; give one over all 3",
        ),
        (
            lambda: plot_bivariate(sample, 0, 1, approximation=dict.fromkeys("abcde", square)),
            r"has 5 entries; at most 4",
        ),
        (lambda: plot_bivariate(sample, 0, 1, exact=lambda p: np.zeros(3)), r"gave shape \(3,\) for 25600 points"),
        (
            lambda: plot_bivariate(sample, 0, 1, exact=DensityGrid(np.arange(2), np.arange(3), np.zeros((3, 2)))),
            r"2 x 3",
        ),
        (lambda: plot_bivariate({"a": sample[..., 0], "b": sample[:1, :, 0]}, "a", "b"), r"they must be alike"),
        (
            lambda: plot_bivariate(np.ones((2, 9, 2)), 0, 1, draws="density"),
            r"draws that differ in both .* use 'points'",
        ),
        (lambda: plot_marginals(fit, exact=table), r"exact is given for 3 coefficients; draw them one at a time"),
        (lambda: plot_marginals(np.zeros((1, 5, 25))), r"25 coefficients are to be drawn; choose 1 to 24"),
        (lambda: plot_marginals(sample, [0], limits=(1, 0)), r"limits is \(1, 0\); it must be two finite numbers"),
        (lambda: plot_marginals(sample, [0], axes=[]), r"axes has 0 entries for 1 coefficients"),
        (lambda: plot_marginals(sample, [0], bins=0), r"bins is 0; it must be at least 1"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()
    with pytest.raises(ArgumentTypeError, match=r"'approximation' is float; an approximation is a Gaussian"):
        plot_marginals(sample, [0], approximation=1.0)
    with pytest.raises(ArgumentTypeError, match=r"exact is Table; for draws it must be a function"):
        plot_bivariate(sample, 0, 1, exact=table)

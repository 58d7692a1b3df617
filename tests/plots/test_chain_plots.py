"""Traces, running means, ranks and autocovariances show the draws' own numbers, and refuse what they cannot draw."""

from __future__ import annotations

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.long_run import WINDOWS, long_run_variance, pooled_autocovariance
from doxa.estimates.trace import Trace
from doxa.plots import Look, plot_autocovariances, plot_ranks, plot_running_means, plot_traces
from doxa.plots.columns import window_weights
from support.tables import skewed_table

PLOTS = (plot_traces, plot_running_means, plot_ranks, plot_autocovariances)


@pytest.fixture(scope="module")
def posterior():
    return doxa.learn(skewed_table(4, 60, seed=7), exact=False, draws=200, warmup=50, thin=5, seed=2)


@pytest.fixture(scope="module")
def draws():
    """An autoregression, (3, 400)."""
    rng = np.random.default_rng(5)
    chains = np.zeros((3, 400))
    for t in range(1, 400):
        chains[:, t] = 0.7 * chains[:, t - 1] + rng.normal(size=3)
    return chains


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("which", ["log_score", "n_edges"])
def test_traces_of_a_posterior_are_its_draws_over_steps_with_the_warm_up_shaded(posterior, which):
    ax = plot_traces(posterior, which)
    trace = posterior.trace
    steps = trace.n_warmup + trace.thin * np.arange(1, trace.n_draws + 1)
    for line, chain in zip(ax.lines, getattr(posterior, which), strict=True):
        assert np.array_equal(line.get_ydata(), chain)
        assert np.array_equal(line.get_xdata(), steps)
    (shade,) = [patch for patch in ax.patches if patch.get_label() == "warm-up"]
    assert (shade.get_x(), shade.get_width()) == (0, trace.n_warmup)
    left, right = ax.get_xlim()
    assert 0 <= left < trace.n_warmup < right
    assert trace.n_warmup - left <= 0.26 * (right - left)
    assert ax.get_xlabel() == "step"
    assert labels(ax) == ["chain 0", "chain 1", "chain 2", "chain 3", "warm-up"]


def test_warm_up_among_the_draws_is_shaded_when_it_is_named(draws):
    ax = plot_traces(draws, warmup=100, exact=0.5)
    assert ax.get_xlabel() == "draw"
    (shade,) = ax.patches
    assert (shade.get_x(), shade.get_width()) == (0, 100)
    *_, truth = ax.lines
    assert (truth.get_label(), set(truth.get_ydata())) == ("exact", {0.5})
    assert not plot_traces(draws).patches


def test_looks_places_and_names_of_chains_are_those_given(draws):
    looks = [Look("red"), Look("blue", "--"), Look("black", ":")]
    ax = plot_traces({"x": draws}, x=10.0 * np.arange(400), looks=looks, labels=["a", "$b$", "c"])
    assert [(line.get_color(), line.get_linestyle()) for line in ax.lines] == [
        ("red", "-"),
        ("blue", "--"),
        ("black", ":"),
    ]
    assert ax.lines[0].get_xdata()[-1] == 3990
    assert labels(ax) == ["a", "$b$", "c"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("", "x")
    assert plot_traces(draws, legend=False).get_legend() is None


def test_a_quantity_is_found_in_whatever_holds_it(draws):
    stacked = np.stack([draws, 2 * draws], axis=2)
    trace = Trace({"theta": stacked}, thin=3, n_warmup=30)
    expected = (2 * draws).tolist()
    for source, which in ((stacked, 1), (trace, ("theta", 1)), ({"a": draws, "b": 2 * draws}, "b"), (2 * draws, None)):
        assert [line.get_ydata().tolist() for line in plot_traces(source, which).lines[:3]] == expected
    assert plot_traces(trace, ("theta", 1)).lines[0].get_xdata()[0] == 33


def test_a_long_trace_is_thinned_and_not_averaged():
    (line,) = plot_traces(np.arange(9000.0)[None]).lines
    assert len(line.get_xdata()) <= 2000
    assert np.array_equal(line.get_xdata(), line.get_ydata())


def test_running_means_end_at_the_estimate_and_its_interval(draws):
    ax = plot_running_means(draws, exact=0.0)
    *chains, pooled, truth = ax.lines
    for line, chain in zip(chains, draws, strict=True):
        assert line.get_ydata()[-1] == pytest.approx(chain.mean())
        assert line.get_ydata()[0] == pytest.approx(chain[: int(line.get_xdata()[0])].mean())
    estimate = diagnose_real(draws).estimate
    assert (pooled.get_xdata()[-1], pooled.get_ydata()[-1]) == (400, estimate.value)
    assert truth.get_label() == "exact"
    (band,) = ax.collections
    outline = band.get_paths()[0].vertices
    at_end = outline[outline[:, 0] == 400, 1]
    assert (at_end.min(), at_end.max()) == pytest.approx(estimate.interval())
    assert ax.get_ylabel() == "mean of value"


def test_running_means_of_a_quantity_that_never_moved_have_no_band():
    ax = plot_running_means(np.ones((2, 50)))
    assert set(ax.lines[-1].get_ydata()) == {1.0}


def test_ranks_of_a_chain_apart_stand_at_one_end(draws):
    draws = draws.copy()
    draws[2] += 100
    ax = plot_ranks(draws, bins=6)
    found = np.array([patch.get_data().values for patch in ax.patches])
    assert found.mean(axis=1) == pytest.approx(1)
    assert found[2].tolist() == pytest.approx([0, 0, 0, 0, 3, 3])
    assert found[:2, 4:].max() == 0
    assert ax.get_ylim()[1] > 3
    r_hat = diagnose_real(draws).r_hat
    assert ax.get_title() == f"Ranks of value: R-hat {r_hat:.4f}"


def test_stems_are_the_autocovariances_and_the_curve_is_the_window(draws):
    ax = plot_autocovariances(draws, window="bartlett", bandwidth=20, max_lag=30)
    gamma = pooled_autocovariance(draws)
    stems = next(c for c in ax.collections if c.get_label() == "all chains").get_segments()
    assert [stem[:, 1].tolist() for stem in stems] == [[0.0, value] for value in gamma[:31]]
    curve = next(line for line in ax.lines if line.get_label() == "weights (bartlett)")
    weights = np.maximum(0, 1 - np.arange(31) / 20)
    assert curve.get_ydata() == pytest.approx(gamma[0] * weights)
    assert len([line for line in ax.lines if len(line.get_xdata()) == 31]) == 4  # three chains and the window


@pytest.mark.parametrize("window", [name for name in WINDOWS if name not in ("initial-monotone", "initial-convex")])
def test_the_window_shown_is_the_one_that_the_error_rests_on(draws, window):
    """Weights times autocovariances add up to the long-run variance, but for what centring takes away."""

    def agrees(weights):
        doubled = np.where(np.arange(400) > 0, 2.0, 1.0) * weights
        lost = (doubled * (1 - np.arange(400) / 400)).sum() / draws.size
        return float((doubled * gamma).sum() / (1 - lost)) == pytest.approx(long_run_variance(draws, window), rel=1e-9)

    gamma = pooled_autocovariance(draws)
    shown = window_weights(gamma, window, None, 3)
    assert agrees(shown.values)
    assert not agrees(np.where(np.arange(400) < 0.8 * shown.reach, shown.values, 0.0))
    assert shown.values[int(np.ceil(shown.reach)) :].max() == 0


@pytest.mark.parametrize("plot", PLOTS)
def test_pictures_are_written_and_a_given_axes_is_drawn_in(plot, posterior, tmp_path):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plot(posterior, "log_score", ax=ax) is ax
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    plot({"$x_\\nonsense$": posterior.log_score}).figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


@pytest.mark.parametrize("plot", PLOTS)
def test_what_is_no_quantity_is_refused_in_words(plot, posterior):
    with pytest.raises(ArgumentError, match=r"which is 'edges'; .* it must be 'log_score' or 'n_edges'"):
        plot(posterior, "edges")
    with pytest.raises(ArgumentError, match=r"'z' is not among the draws; there are 'x', 'y'"):
        plot({"x": [[1.0]], "y": [[1.0]]}, "z")
    with pytest.raises(ArgumentTypeError, match=r"which is None; .* it is a coefficient's number"):
        plot(np.zeros((2, 50, 3)))
    with pytest.raises(ArgumentError, match=r"which is 3; coefficients are 0\.\.2"):
        plot(np.zeros((2, 50, 3)), 3)
    with pytest.raises(ArgumentError, match=r"which is 1, but draws has shape \(2, 50\)"):
        plot(np.zeros((2, 50)), 1)
    with pytest.raises(ArgumentError, match=r"draws has shape \(50,\); it must be \(n_chains, n_draws\)"):
        plot(np.zeros(50))
    with pytest.raises(ArgumentError, match=r"draws\[1, 2\] is nan; every draw must be finite"):
        plot(np.where(np.arange(100).reshape(2, 50) == 52, np.nan, 1.0))
    with pytest.raises(ArgumentTypeError, match=r"draws is not an array of numbers"):
        plot([["a", "b"]])


def test_options_that_do_not_fit_the_draws_are_refused_in_words(draws):
    for call, message in (
        (lambda: plot_traces(draws, warmup=401), r"warmup is 401, but a chain has 400 draws"),
        (lambda: plot_traces(draws, labels=["a"]), r"labels has 1 entries for 3 chains of 400 draws; give 3"),
        (lambda: plot_traces(draws, x=[1.0]), r"x has 1 entries for 3 chains of 400 draws; give 400"),
        (lambda: plot_running_means(draws[:, :19]), r"have 19 draws; running means with errors need at least 20"),
        (lambda: plot_running_means(draws, prob=95), r"prob is 95; it must lie strictly between 0 and 1"),
        (lambda: plot_ranks(draws[:1]), r"there is one chain; ranks compare at least two"),
        (lambda: plot_ranks(draws, bins=1), r"bins is 1; it must be at least 2"),
        (lambda: plot_autocovariances(draws[:, :3]), r"have 3 draws; autocovariances need at least 4"),
        (lambda: plot_autocovariances(np.ones((2, 9))), r"value is 1 in every draw; it has no autocovariances"),
        (lambda: plot_autocovariances(draws, window="square"), r"window is 'square'; it must be one of 'bartlett'"),
        (lambda: plot_autocovariances(draws, max_lag=400), r"max_lag is 400; it must be below the 400 draws"),
        (lambda: plot_autocovariances(draws, bandwidth=9), r"bandwidth is 9 with window 'initial-monotone'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()

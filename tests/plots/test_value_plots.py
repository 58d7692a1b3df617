"""Bars of marginals, curves over a setting, repeated runs; and the style that all pictures share."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError, MissingExtraError
from doxa.estimates.estimate import Estimate
from doxa.plots import (
    LOOKS,
    Band,
    Look,
    legend_below,
    panels,
    plot_autocovariances,
    plot_bivariate,
    plot_curves,
    plot_marginal_bars,
    plot_marginals,
    plot_ranks,
    plot_repeats,
    plot_running_means,
    plot_traces,
    save_png,
)


@pytest.fixture(scope="module")
def results():
    """What `doxa.infer` returns; the same with errors; and with errors that nobody knows."""
    exact = doxa.infer(doxa.ising_grid(2, 2, coupling=0.4, field=0.2), method="exact")
    sampled = {
        name: {label: Estimate(e.value, 0.01 + 0.01 * k, 900.0) for k, (label, e) in enumerate(table.items())}
        for name, table in exact.items()
    }
    bound = {name: {label: Estimate(e.value, np.nan, np.nan) for label, e in t.items()} for name, t in exact.items()}
    return {"exact": exact, "gibbs": sampled, "mean_field": bound}


def labels(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_bars_are_the_probabilities_and_lines_their_intervals(results):
    found = results["gibbs"]
    ax = plot_marginal_bars(found, prob=0.8)
    estimates = [estimate for table in found.values() for estimate in table.values()]
    assert [bar.get_width() for bar in ax.patches] == [estimate.value for estimate in estimates]
    assert [tuple(line.get_xdata()) for line in ax.lines] == [estimate.interval(0.8) for estimate in estimates]
    for bar, line in zip(ax.patches, ax.lines, strict=True):
        assert line.get_ydata()[0] == pytest.approx(bar.get_y() + bar.get_height() / 2)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [f"{name} = {label}" for name, table in found.items() for label in table]
    assert ax.yaxis_inverted()
    assert ax.get_xlim() == (0, 1)
    assert ax.get_xlabel() == "probability, with the 80% interval of its Monte Carlo error"
    assert ax.get_legend() is None


def test_several_results_stand_side_by_side(results):
    one = next(iter(results["exact"]))
    ax = plot_marginal_bars(results, one)
    assert len(ax.patches) == 6
    assert len(ax.lines) == 2  # of Gibbs alone: exact has no error, that of mean field is unknown
    assert labels(ax.get_legend()) == ["exact", "gibbs", "mean_field (error unknown)"]
    assert [bar.get_alpha() for bar in ax.patches] == [0.75] * 4 + [0.35] * 2
    middles = np.array([bar.get_y() + bar.get_height() / 2 for bar in ax.patches]).reshape(3, 2)
    assert (np.diff(middles, axis=0) > 0).all()
    assert middles.mean(axis=0) == pytest.approx(ax.get_yticks())
    assert len({bar.get_hatch() for bar in ax.patches}) == 3  # told apart in black and white


def test_curves_are_the_numbers_given_with_their_ranges():
    band = Band.over([[1.0, 2.0, 3.0], [3.0, 6.0, 3.0]], middle=np.median)
    looks = {"b": Look("red", "--", "s")}
    ax = plot_curves([1, 10, 100], {"a": [5, 6, 7], "b": band}, looks=looks, exact=4.0, x_label="n", y_label="error, s")
    a, b, exact = ax.lines
    assert [part.get_ydata().tolist() for part in (a, b)] == [[5, 6, 7], [2, 4, 3]]
    assert (b.get_color(), b.get_linestyle(), b.get_marker()) == ("red", "--", "s")
    assert (a.get_color(), a.get_marker()) == (LOOKS[0].colour, LOOKS[0].mark)
    assert set(exact.get_ydata()) == {4.0}
    outline = ax.collections[0].get_paths()[0].vertices
    assert outline[outline[:, 0] == 10, 1].min() == 2
    assert outline[outline[:, 0] == 10, 1].max() == 6
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("n", "error, s")
    assert labels(ax.get_legend()) == ["a", "b", "exact"]


def test_words_stand_at_equal_distances_and_bars_beside_each_other():
    bands = {"a": Band([1.0, 2.0], [0.5, 1.0], [3.0, 2.0]), "b": Band([1.0, 2.0], [0.5, 1.0], [3.0, 2.0])}
    ax = plot_curves(["1", "50"], bands, bars=True, exact=[1.5, 1.6])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "50"]
    assert ax.get_xticks().tolist() == [0, 1]
    places = [bar.lines[0].get_xdata() for bar in ax.containers]
    assert 0.02 < places[1][0] - places[0][0] < 0.2
    assert (places[0] + places[1]) / 2 == pytest.approx([0, 1])
    (ends,) = ax.containers[0].lines[2]
    assert [segment[:, 1].tolist() for segment in ends.get_segments()] == [[0.5, 3.0], [1.0, 2.0]]
    assert ax.lines[-1].get_ydata().tolist() == [1.5, 1.6]


def test_a_mean_of_equal_numbers_is_inside_its_range():
    band = Band.over(np.full((3, 1), 0.1) + np.array([[0.0], [0.0], [0.0]]))
    assert band.low <= band.middle <= band.high
    plot_curves([1.0], {"a": Band.over(np.full((7, 1), 0.494487))})


def test_every_run_has_a_mark_in_the_row_of_its_method():
    groups = {"short": [0.1, 0.4, 0.3], "long": [0.2], "$odd_": [np.nan, 0.3]}
    ax = plot_repeats(
        groups, exact=0.25, hollow={"short": [False, True, False]}, hollow_label="refused", label="mean, m"
    )
    shown = [line for line in ax.lines if line.get_marker() == "o" and line.get_xdata().size]
    assert shown[0].get_xdata().tolist() == [0.1, 0.3]
    assert shown[1].get_xdata().tolist() == [0.4]
    assert shown[1].get_markerfacecolor() == "none"
    assert all(abs(y - row) < 0.31 for line, row in zip(shown, (0, 0, 1, 2), strict=True) for y in line.get_ydata())
    assert [label.get_text() for label in ax.get_yticklabels()] == list(groups)
    assert ax.yaxis_inverted()
    assert labels(ax.get_legend()) == ["refused", "exact"]
    assert ax.get_xlabel() == "mean, m"


def test_one_legend_for_all_panels():
    figure, axes = panels(1, 2)
    for ax in axes.ravel():
        plot_curves([1, 2], {"$a_": [1, 2], "b": [2, 1]}, legend=False, ax=ax)
    legend_below(figure, axes[0, 0])
    assert labels(figure.legends[0]) == ["$a_", "b"]
    assert all(ax.get_legend() is None for ax in axes.ravel())


def test_a_written_picture_has_a_palette_and_the_same_bytes_each_time(tmp_path):
    from PIL import Image

    figure, axes = panels(1, 1, width=4)
    plot_curves([1, 2, 3], {look.colour: [1, 2, k] for k, look in enumerate(LOOKS)}, ax=axes[0, 0])
    canvas = figure.canvas
    path = save_png(figure, tmp_path / "a.png")
    assert path == tmp_path / "a.png"
    assert (figure.canvas, figure.dpi) == (canvas, 100)
    assert path.read_bytes() == save_png(figure, str(tmp_path / "b.png")).read_bytes()
    image = Image.open(path)
    assert image.mode == "P"
    assert image.size == (360, 306)
    kept = np.array([colour for _, colour in image.convert("RGB").getcolors(1 << 20)])
    for look in LOOKS:  # rare colours too
        wanted = [int(look.colour[k : k + 2], 16) for k in (1, 3, 5)]
        assert np.abs(kept - wanted).max(axis=1).min() <= 8, look


def test_bad_input_is_refused_in_words(results):
    exact = results["exact"]
    one = next(iter(exact))
    other = {one: {"left": Estimate.exactly(1.0)}}
    for call, message in (
        (lambda: plot_marginal_bars(exact, "z"), r"there is no 'z'; there are "),
        (lambda: plot_marginal_bars({"a": exact, "b": other}, one), r"has the states \['left'\] in results\['b'\]"),
        (lambda: plot_marginal_bars({}), r"results is empty"),
        (lambda: plot_marginal_bars(exact, []), r"0 states are to be drawn; choose variables with 1 to 60"),
        (lambda: plot_marginal_bars(dict.fromkeys("abcde", exact)), r"results has 5 entries; at most 4"),
        (lambda: plot_curves([], {"a": []}), r"x has shape \(0,\)"),
        (lambda: plot_curves([1], {"a": [1, 2]}), r"curves\['a'\] has shape \(2,\) for 1 settings"),
        (lambda: plot_curves([1], {"a": Band([2], [0], [1])}), r"has 2 outside of its range 0 to 1 at setting 0"),
        (lambda: plot_curves([1], {"a": Band([1, 1], [0], [1])}), r"is a Band of shapes \(2,\), \(1,\), \(1,\)"),
        (lambda: plot_curves([1], {name: [1] for name in "abcdefgh"}), r"has 8 entries without a look of their own"),
        (lambda: Band.over([1.0]), r"repeats has shape \(1,\); it must be \(repeats, n\)"),
        (lambda: plot_repeats({}), r"groups is empty"),
        (lambda: plot_repeats({"a": []}), r"groups\['a'\] has 0 runs"),
        (lambda: plot_repeats({"a": [1]}, hollow={"a": [True, False]}), r"hollow\['a'\] 2; both need the same number"),
        (lambda: panels(0, 1), r"rows is 0; it must be at least 1"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()
    with pytest.raises(ArgumentTypeError, match=r"results is float; give what doxa.infer returned"):
        plot_marginal_bars(0.5)
    with pytest.raises(ArgumentTypeError, match=r"results\['a'\] is float; it must be what doxa.infer returned"):
        plot_marginal_bars({"a": 0.5})


CALLS = {
    "plot_autocovariances": lambda: plot_autocovariances(np.arange(40.0).reshape(2, 20)),
    "plot_bivariate": lambda: plot_bivariate({"a": [[1.0, 2.0]], "b": [[1.0, 2.0]]}, "a", "b"),
    "plot_curves": lambda: plot_curves([1], {"a": [1]}),
    "plot_marginal_bars": lambda: plot_marginal_bars({"a": {"x": Estimate.exactly(1.0)}}),
    "panels": lambda: plot_marginals([[1.0, 2.0]]),
    "plot_ranks": lambda: plot_ranks([[1.0], [2.0]]),
    "plot_repeats": lambda: plot_repeats({"a": [1]}),
    "plot_running_means": lambda: plot_running_means(np.arange(40.0).reshape(2, 20)),
    "plot_traces": lambda: plot_traces([[1.0, 2.0]]),
}


@pytest.mark.parametrize("name", CALLS)
def test_without_matplotlib_the_message_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError) as refused:
        CALLS[name]()
    assert str(refused.value) == f"{name} needs the package matplotlib: pip install 'doxa[plot]'"

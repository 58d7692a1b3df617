"""Curves of distributions of numbers: what is drawn is the density, its mean and its interval."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact import NormalMixture
from doxa.inference.exact import mixture as module
from doxa.notebook import curve
from doxa.plots import plot_densities
from doxa.plots.densities import observed_bars

SKEWED = NormalMixture([0.7, 0.3], [10.0, 16.0], [1.0, 3.0])


@pytest.fixture(scope="module")
def answer():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"<a>": rng.normal(40, 5, 60)})
    frame["b"] = 3 + 2 * frame["<a>"] + rng.normal(0, 4, 60)
    return doxa.learn(frame, seed=1).query("b", given={"<a>": 45.0})


def test_the_line_is_the_density_and_the_shade_the_interval(answer):
    ax = plot_densities(answer, prob=0.8)
    (line,) = ax.lines
    assert np.allclose(line.get_ydata(), answer.density(line.get_xdata()))
    assert 0.99 < np.trapezoid(line.get_ydata(), line.get_xdata()) < 1.0
    shade = ax.collections[0].get_paths()[0].vertices
    assert (shade[:, 0].min(), shade[:, 0].max()) == pytest.approx(answer.interval(0.8))
    assert ax.collections[1].get_paths()[0].vertices[:, 0] == pytest.approx([answer.mean.value] * 2)
    assert ax.get_xlabel() == "b"
    assert ax.get_legend() is None


def test_several_stand_beside_each_other_over_what_was_observed(answer):
    observed = np.append(np.random.default_rng(2).normal(100, 10, 200), np.nan)
    ax = plot_densities({"now": answer, "skewed": SKEWED}, observed=observed, label="mm")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["observed", "now", "skewed"]
    assert len({line.get_linestyle() for line in ax.lines}) == 2
    assert ax.get_xlabel() == "mm"


def test_bars_are_a_density_and_few_whatever_the_outliers():
    for values in ([3.0, 3.0], [1.0, 2.0, 2.5], np.append(np.random.default_rng(3).normal(size=500), 1e9), [0.0] * 9):
        heights, edges = observed_bars(values)
        assert (heights * np.diff(edges)).sum() == pytest.approx(1.0)
        assert len(heights) <= 60
    with pytest.raises(ArgumentError, match="no finite number"):
        observed_bars([np.nan])


@pytest.mark.parametrize(
    ("answers", "error", "words"),
    [
        ({}, ArgumentError, "0 entries"),
        ({str(k): SKEWED for k in range(8)}, ArgumentError, "8 entries"),
        ({"p": 0.3}, ArgumentTypeError, r"answers\['p'\] is of type float"),
        (NormalMixture([1, 1], [0, 1], [0, 1]), ArgumentError, "the number is 0 with a probability above 0"),
    ],
)
def test_what_is_no_density_is_refused(answers, error, words):
    with pytest.raises(error, match=words):
        plot_densities(answers)


def test_the_ranked_score_is_its_integral(monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 3)  # in blocks
    rng = np.random.default_rng(1)
    mixture = NormalMixture(rng.random(5), 3 * rng.normal(size=5), 0.2 + rng.random(5))

    def square(t, y):
        return (mixture.probability(below=t) - (t >= y)) ** 2

    for y in (-4.0, 0.3, 9.0):
        whole = sum(quad(square, a, b, args=(y,), limit=400)[0] for a, b in ((-30, y), (y, 30)))
        assert mixture.crps(y) == pytest.approx(whole, rel=1e-8)
        twin = float(np.abs(y - mixture.means) @ mixture.weights)  # without scatter
        assert abs(mixture.crps(y) - twin) > 0.05
    assert NormalMixture([1.0], [2.0], [0.0]).crps([[5.0, 2.0]]).tolist() == [[3.0, 0.0]]


def test_the_ranked_score_is_proper():
    """The truth scores better on the average than a distribution too narrow, too wide or moved."""
    y = np.random.default_rng(4).normal(size=4000)
    truth = NormalMixture([1.0], [0.0], [1.0]).crps(y)
    for other in (([0.0], [0.5]), ([0.0], [2.0]), ([0.7], [1.0])):
        apart = NormalMixture([1.0], *other).crps(y) - truth
        assert apart.mean() > 5 * apart.std() / np.sqrt(len(y))


def test_a_notebook_shows_the_curve(answer):
    for shown in (answer, answer.distribution, NormalMixture([1.0], [0.0], [0.0])):
        found = ET.fromstring(shown._repr_html_())
        pictures = [element for element in found.iter() if element.tag.endswith("svg")]
        assert len(pictures) == (shown is answer or shown is answer.distribution)
        assert not any(element.tag == "a" for element in found.iter())
    assert "&lt;a&gt; = 45.0 seen" in answer._repr_html_()


@pytest.mark.parametrize("moved", [0.0, 1e5, -3e8, 1e-9])
def test_numbers_below_a_curve_neither_touch_nor_leave_it(moved):
    for sd in (1e-3, 1.0, 1e4):
        x, density = NormalMixture([1.0], [moved], [sd]).curve(50)
        picture = ET.fromstring(curve(x.tolist(), density.tolist(), moved, (moved - 1.96 * sd, moved + 1.96 * sd)))
        texts = [element for element in picture.iter() if element.tag.endswith("text")]
        ends = [(float(t.get("x")) - 3.4 * len(t.text), float(t.get("x")) + 3.4 * len(t.text)) for t in texts]
        assert ends[0][0] >= 0
        assert ends[2][1] <= 240
        assert ends[0][1] <= ends[1][0]
        assert ends[1][1] <= ends[2][0]

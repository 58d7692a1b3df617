"""Pages of tables with numbers: their curves, slopes and answers are those of the posterior."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from browsing import axe_violations, choose, element, elements, script
from page_cases import HOSTILE, WRITTEN, mixed_frame, unpacked

import doxa
from doxa.report.numbers import DIGITS
from doxa.report.simulation import Cells
from doxa.report.writing import page_data


@pytest.fixture(scope="module")
def nodes(numbers):
    return page_data(numbers, written=WRITTEN)["nodes"]


def bars_of(nodes, names, y, x, level, how="seen"):
    """Probabilities and errors of the bars of y where x is in a level, unpacked as the page does."""
    sizes, levels = nodes["bars"], [len(states) for states in nodes["states"]]
    start = 0
    for pair in nodes["answers"]["pairs"]:
        own, other = divmod(pair, len(names))
        if (names[own], names[other]) == (y, x):
            break
        start += 3 * sizes[own] * levels[other]
    text = nodes["answers"][how]
    at = [start + 3 * (s * levels[other] + level) for s in range(sizes[own])]
    codes = [64 * DIGITS.index(text[k]) + DIGITS.index(text[k + 1]) for k in at]
    errors = [nodes["answers"]["steps"][DIGITS.index(text[k + 2])] for k in at]
    assert max(codes) < 4095
    return np.array(codes) / 4000, np.array(errors)


def mean_of(nodes, names, y, shares):
    low, high = nodes["numbers"][names.index(y)]["range"]
    edges = np.linspace(low, high, len(shares) + 1)
    return shares @ (edges[1:] + edges[:-1]) / 2 / shares.sum(), edges


def test_curves_are_densities_of_the_answers(numbers, nodes):
    for name in ("a", "b", "c", HOSTILE):
        own = nodes["numbers"][numbers.names.index(name)]
        curve = unpacked(own["curve"], 0.0, own["top"])
        x = np.linspace(*own["curve_range"], len(curve))
        answer = numbers.query(name)
        assert np.allclose(curve, answer.density(x), atol=own["top"] / 4000)
        assert own["at"] == pytest.approx([answer.mean.value, *answer.interval()], rel=1e-4)
        bars = unpacked(own["observed"], 0.0, own["top"])
        low, high = own["bar_range"]
        assert bars.sum() * (high - low) / len(bars) == pytest.approx(1.0, abs=2e-3)
        observed = mixed_frame()[name]
        assert (low, high) == pytest.approx((observed.min(), observed.max()))
        assert own["n"] == 150
    category = nodes["numbers"][numbers.names.index("k")]
    assert category["p"] == pytest.approx([e.value for e in numbers.query("k").values()], abs=1e-4)


def test_slopes_are_those_of_the_posterior(numbers, nodes):
    frame = numbers.slopes().dropna()
    assert len(frame) >= 2
    for row in frame.itertuples(index=False):
        shown = nodes["slopes"][numbers.names.index(row.target)]
        (own,) = (each for each in shown if each["source"] == numbers.names.index(row.source))
        assert own["p"] == pytest.approx(row.probability, abs=1e-4)
        assert [own[key] for key in ("mean", "low", "high")] == pytest.approx(
            [row.mean, row.lower, row.upper], rel=1e-3
        )
    assert nodes["slopes"][numbers.names.index("k")] == []


@pytest.mark.parametrize(("y", "level"), [("b", 0), ("b", 1), ("c", 1)])
def test_answers_given_a_state_are_those_of_predictive(numbers, nodes, y, level):
    state = nodes["states"][numbers.names.index("k")][level]
    shares, errors = bars_of(nodes, numbers.names, y, "k", level)
    found = numbers.predictive(y, given={"k": state}).distribution
    mean, edges = mean_of(nodes, numbers.names, y, shares)
    exact = np.diff([0.0, *(found.probability(below=float(edge)) for edge in edges[1:-1]), 1.0])
    assert np.abs((shares - exact) / errors).max() < 5.5
    assert mean == pytest.approx(found.mean, abs=0.05 * found.sd)
    other = numbers.predictive(y, given={"k": nodes["states"][0][1 - level]}).distribution
    twin = np.diff([0.0, *(other.probability(below=float(edge)) for edge in edges[1:-1]), 1.0])
    assert np.abs((shares - twin) / errors).max() > 20


def test_seeing_a_number_is_not_setting_it(numbers, nodes):
    """Of b -> c: setting c leaves b alone, seeing it does not; setting b moves c."""
    names = numbers.names
    low, high = (mean_of(nodes, names, "b", bars_of(nodes, names, "b", "c", level)[0])[0] for level in (0, 4))
    assert high - low > 8
    low, high = (mean_of(nodes, names, "b", bars_of(nodes, names, "b", "c", level, "done")[0])[0] for level in (0, 4))
    assert abs(high - low) < 0.5
    frame = mixed_frame()
    for level, own in ((0, frame["b"] < frame["b"].quantile(0.2)), (4, frame["b"] >= frame["b"].quantile(0.8))):
        shares, _ = bars_of(nodes, names, "c", "b", level, "done")
        at = frame["b"][own].mean()
        exact = numbers.query("c", do={"b": float(at)}).mean.value
        assert mean_of(nodes, names, "c", shares)[0] == pytest.approx(exact, abs=0.03)


def test_levels_are_fifths_of_what_was_observed(numbers, nodes):
    a = mixed_frame()["a"]
    ends = [f"{end:.4g}" for end in a.quantile([0.2, 0.4, 0.6, 0.8])]
    names = [f"below {ends[0]}", *(f"{p} to {q}" for p, q in pairwise(ends)), f"{ends[3]} or more"]
    assert nodes["states"][numbers.names.index("a")] == names


def test_cells_of_rows():
    cells = Cells((2, 3), (None, np.array([0.0, 1.0])))
    found = cells.of(np.array([[1, 0], [0, 0], [0, 0]]), np.array([[np.nan, -1.0], [np.nan, 0.0], [np.nan, 5.0]]))
    assert found.tolist() == [[1, 2], [0, 3], [0, 4]]


def test_missing_numbers_are_those_of_impute(few_networks, missing_numbers):
    nodes = page_data(missing_numbers, written=WRITTEN)["nodes"]
    frame = missing_numbers.impute()
    for j, name in enumerate(missing_numbers.names):
        own, shown = frame[frame["column"] == name], nodes["cells"]["columns"][j]
        assert shown["rows"] == own["row"].drop_duplicates().tolist()
        if name == "k":
            assert np.allclose(np.ravel(shown["p"]), own["probability"], atol=1e-3)
        else:
            assert shown["mean"] == pytest.approx(own["mean"].tolist(), rel=1e-3)
            assert shown["low"] == pytest.approx(own["lower"].tolist(), rel=1e-3)


def test_categories_that_depend_on_numbers_are_answered_and_transformed_numbers(few_networks):
    frame = mixed_frame()
    chance = np.random.default_rng(3).random(len(frame))
    frame = frame.assign(ill=np.where(chance < 1 / (1 + np.exp(-0.3 * (frame["b"] - 64))), "yes", "no"))
    additive = doxa.learn(frame[["a", "b", "ill"]], family="additive", seed=1)
    nodes = page_data(additive, written=WRITTEN)["nodes"]
    yes = [bars_of(nodes, additive.names, "ill", "b", level)[0][1] for level in range(5)]
    assert yes[0] < 0.1
    assert yes[4] > 0.9
    table = doxa.read_table(frame[["a", "b"]], transform={"a": "log"})
    of_logs = page_data(doxa.learn(table, seed=1), written=WRITTEN)["nodes"]
    assert not of_logs["missing"]
    assert of_logs["numbers"][0]["curve_range"][0] > 0  # in the unit of the column


def test_the_page_draws_them(few_networks, page, numbers):
    driver = page(numbers)
    choose(driver, "node", numbers.names.index("b"))
    assert len(elements(driver, "#inspected svg.density")) == 2
    said = element(driver, "#inspected svg.density").get_attribute("aria-label")
    assert said.startswith("Density of b: mean 6")
    assert "Edges to b from numbers" in element(driver, "#inspected").text
    before = elements(driver, "#inspected svg.density")[1].get_attribute("aria-label")
    column, _, level = elements(driver, "#inspected .ask select")
    pick = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"
    script(driver, pick, column, str(numbers.names.index("a")))
    script(driver, pick, level, "4")
    after = elements(driver, "#inspected svg.density")[1].get_attribute("aria-label")
    assert before != after
    assert "mean about 7" in after
    edges = element(driver, "#tables-box table")
    assert "slope, 95% high" in edges.text
    row = numbers.slopes().iloc[0]
    assert f"{row['mean']:.3g}" in edges.text
    choose(driver, "node", numbers.names.index("k"))
    assert not elements(driver, "#inspected svg.density")
    assert len(elements(driver, "#inspected .bars .track")) == 4
    choose(driver, "node", numbers.names.index(HOSTILE))
    assert not elements(driver, "#inspected img")


def test_the_page_shows_missing_numbers_and_is_in_order(few_networks, page, missing_numbers):
    driver = page(missing_numbers)
    choose(driver, "node", missing_numbers.names.index("a"))
    text = element(driver, "#inspected").text
    assert "Posterior mean, and the interval that holds the number" in text
    for theme in ("light", "dark"):
        assert axe_violations(driver, theme) == []


def test_numbers_far_from_zero_are_told_apart(few_networks, page):
    rng = np.random.default_rng(1)
    a = rng.normal(size=60)
    table = doxa.data.Table.from_codes(
        ["a", "b"], [()] * 2, np.zeros((60, 2), dtype=int), numbers=np.column_stack([1e9 + a, 2e-7 * a])
    )
    posterior = doxa.learn(table, seed=1)
    nodes = page_data(posterior, written=WRITTEN)["nodes"]
    assert len(set(nodes["states"][0])) == 5
    low, high = nodes["numbers"][0]["range"]
    assert 4 < high - low < 10
    driver = page(posterior)
    choose(driver, "node", 0)
    picture = element(driver, "#inspected svg.density")
    labels = [label.text for label in picture.find_elements("css selector", "text")]
    assert len(set(labels)) == len(labels) >= 3
    assert "95% of cases between 99999999" in picture.get_attribute("aria-label")

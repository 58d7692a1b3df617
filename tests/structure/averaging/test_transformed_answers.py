"""Answers in the unit of a column that was learned from on another scale."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import doxa
from doxa.data.transforms import Transform
from doxa.errors import ArgumentError
from doxa.inference.exact.mixture import NormalMixture, TransformedMixture

KNOTS = Transform("normal scores", np.array([0.0, 1.0, 1.5, 4.0, 9.0]), np.array([-1.2, -0.5, 0.1, 0.6, 1.3]))
TRANSFORMS = {"log": Transform("log"), "log1p": Transform("log1p"), "logit": Transform("logit"), "knots": KNOTS}
WEIGHTS, MEANS, SDS = np.array([0.3, 0.7]), np.array([-0.4, 0.5]), np.array([0.5, 0.9])


def on_grid(f, transform, points=400_001):
    """The mean of a function of the number, by a sum over the scale of the transform."""
    z = np.linspace(-9, 9, points)
    density = sum(w * norm.pdf(z, m, s) for w, m, s in zip(WEIGHTS, MEANS, SDS, strict=True))
    return (f(transform.inverse(z)) * density).sum() * (z[1] - z[0])


@pytest.mark.parametrize("name", TRANSFORMS)
def test_moments_probabilities_and_densities_are_those_of_a_grid(name):
    transform = TRANSFORMS[name]
    mixture = TransformedMixture(WEIGHTS, MEANS, SDS, transform)
    mean = on_grid(lambda x: x, transform)
    assert mixture.mean == pytest.approx(mean, abs=1e-7)
    assert mixture.sd == pytest.approx(np.sqrt(on_grid(lambda x: (x - mean) ** 2, transform)), abs=1e-6)
    assert mixture.mean != pytest.approx(transform.inverse(np.array([WEIGHTS @ MEANS]))[0], abs=1e-2)  # the twin
    for p in (0.05, 0.5, 0.9):
        x = mixture.quantile(p)
        assert mixture.probability(below=x) == pytest.approx(p, abs=1e-9)
        assert on_grid(lambda t, x=x: t <= x, transform) == pytest.approx(p, abs=1e-4)
        step = 1e-5
        slope = mixture.probability(between=(x - step, x + step)) / (2 * step)
        assert mixture.density(x) == pytest.approx(slope, rel=1e-4)
    low, high = mixture.interval(0.9999)
    x = np.linspace(low, high, 5)
    assert np.isfinite(mixture.curve(50)[1]).all()
    for at in x[1:-1]:
        score = quad(lambda t: mixture.probability(below=t) ** 2, low, at, limit=400)[0]
        score += quad(lambda t: mixture.probability(above=t) ** 2, at, high, limit=400)[0]
        assert mixture.crps(at) == pytest.approx(score, abs=2e-3 * mixture.sd)


def test_points_and_impossible_numbers():
    point = TransformedMixture([1.0], [0.3], [0.0], KNOTS)
    assert point.mean == pytest.approx(KNOTS.inverse(np.array([0.3]))[0])
    income = TransformedMixture(WEIGHTS, MEANS, SDS, TRANSFORMS["log"])
    assert income.probability(below=-1.0) == 0.0
    assert income.probability(above=0.0) == 1.0
    assert income.density([-1.0, 0.0]).tolist() == [0.0, 0.0]
    assert TransformedMixture(WEIGHTS, MEANS, SDS, TRANSFORMS["logit"]).probability(above=2.0) == 0.0


@pytest.fixture(scope="module")
def both():
    """One table learned from by a transform, and one whose column was transformed by hand."""
    rng = np.random.default_rng(4)
    age = rng.normal(50, 10, 80)
    income = np.exp(1.0 + 0.05 * age + rng.normal(0, 0.6, 80))
    group = np.where(rng.random(80) < 1 / (1 + np.exp(-(np.log(income) - 3.5))), "a", "b")
    frame = pd.DataFrame({"age": age, "income": income, "group": group})
    by_hand = frame.assign(income=np.log(income))
    options = {"family": "auto", "draws": 100, "seed": 1}
    return doxa.learn(doxa.read_table(frame, transform={"income": "log"}), **options), doxa.learn(by_hand, **options)


def test_answers_are_those_of_the_column_transformed_by_hand(both):
    own, by_hand = both
    one, other = own.query("income", given={"age": 60.0}), by_hand.query("income", given={"age": 60.0})
    for threshold in (20.0, 60.0, 200.0):
        found, right = one.probability(above=threshold), other.probability(above=np.log(threshold))
        assert found.value == pytest.approx(right.value, abs=1e-12)
        assert found.mcse == pytest.approx(right.mcse, abs=1e-12)
    assert one.quantile(0.25).value == pytest.approx(np.exp(other.quantile(0.25).value))
    right = np.exp(other.distribution.means + 0.5 * other.distribution.sds**2) @ other.distribution.weights
    assert one.mean.value == pytest.approx(right)
    assert one.mean.value > np.exp(other.mean.value) * 1.05  # the twin: the mean of logarithms
    for given, logs in (({"income": 40.0}, {"income": np.log(40.0)}),):
        assert own.query("age", given=given).mean.value == pytest.approx(by_hand.query("age", given=logs).mean.value)
        assert own.query("age", do=given).mean.value == pytest.approx(by_hand.query("age", do=logs).mean.value)
        found, right = own.query("group", given=given), by_hand.query("group", given=logs)
        assert found["a"].value == pytest.approx(right["a"].value)
    assert "median" in str(one)


def test_rows_are_predicted_and_scored_in_the_unit_of_the_column(both):
    own, by_hand = both
    rows = pd.DataFrame({"age": [40.0, 65.0], "income": [15.0, 90.0], "group": ["a", "b"]})
    logs = rows.assign(income=np.log(rows["income"]))
    found = own.log_predictive(rows).rows["log_probability"]
    right = by_hand.log_predictive(logs).rows["log_probability"] - np.log(rows["income"])
    assert found.to_numpy() == pytest.approx(right.to_numpy())
    predicted, other = own.predict(rows, "income"), by_hand.predict(logs, "income")
    assert predicted["lower"].to_numpy() == pytest.approx(np.exp(other["lower"].to_numpy()))
    assert own.predict(rows, "age")["mean"].to_numpy() == pytest.approx(by_hand.predict(logs, "age")["mean"].to_numpy())


def test_replicas_and_pages_are_in_the_unit_of_the_column(both, tmp_path):
    checks = both[0].predictive_checks()
    mean = checks[(checks["statistic"] == "mean") & (checks["column"] == "income")].iloc[0]
    assert mean["lower"] < mean["observed"] < mean["upper"]
    assert (checks[checks["statistic"] == "skewness"]["tail"] > 0.005).all()  # a lognormal column is skewed, and fits
    doxa.report(both[0], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 100_000


def test_numbers_that_the_transform_does_not_take_are_refused(both):
    for asked in ({"given": {"income": -3.0}}, {"do": {"income": 0.0}}):
        with pytest.raises(
            ArgumentError, match=r"'income' is -?[03], and .* transform='log', which takes numbers above"
        ):
            both[0].query("age", **asked)
    with pytest.raises(ArgumentError, match="'income' is -1, and the column was learned from with"):
        both[0].predict(pd.DataFrame({"age": [30.0], "income": [-1.0], "group": ["a"]}), "group")


def test_mixtures_of_normals_are_as_they_were():
    plain = NormalMixture(WEIGHTS, MEANS, SDS)
    assert plain.pooled([WEIGHTS, WEIGHTS], [plain, plain]).mean == pytest.approx(plain.mean)

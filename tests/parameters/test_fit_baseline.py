"""Chains beside weighted draws: right ones agree, wrong ones do not, and doubtful weights say so."""

from __future__ import annotations

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError
from doxa.sampling.importance_baseline import resample

NETWORK = doxa.LogisticNetwork({"systol": ["smoke", "phys"]})


@pytest.fixture(scope="module")
def reinis():
    return doxa.datasets.load("reinis")


def test_right_chains_agree_and_those_of_another_table_do_not(reinis):
    fit = doxa.fit(NETWORK, reinis, seed=1)
    baseline = fit.baseline()
    assert baseline.agrees
    assert str(baseline).startswith("Agree: of 3 coefficients ")
    assert list(baseline.samples) == [("systol",)]  # roots are exact
    exact = fit.summary().set_index(["node", "coefficient"])
    for row in baseline.coefficients.itertuples():
        assert abs(row.mean - exact.loc[(row.node, row.coefficient), "mean"]) < 4 * np.hypot(row.mcse, row.chain_mcse)
    drawn = resample(baseline.samples["systol",], 200, np.random.default_rng(1)).draws
    assert drawn.shape == (200, 3)
    half = reinis.codes[reinis.row_index][::2]
    twin = doxa.fit(NETWORK, doxa.Table.from_codes(reinis.names, reinis.states, half), seed=1)
    twin._made_approximations = fit._approximations  # of the whole table
    assert twin.baseline().agrees is False


def test_hidden_nodes_and_what_has_no_weights(tmp_path):
    rng = np.random.default_rng(1)
    hidden = rng.random(80) < 0.5
    codes = (rng.random((80, 3)) < np.where(hidden, 0.85, 0.2)[:, None]).astype(np.int64)
    names = ["a", "b", "c"]
    table = doxa.Table.from_codes(names, [["0", "1"]] * 3, codes)
    network = doxa.LogisticNetwork({name: ["h"] for name in names}, roots={"h": 0.5}, prior_scale=1.5)
    fit = doxa.fit(network, table, seed=1, draws=1000, store=tmp_path / "run.doxa")
    baseline = fit.baseline(n=2000)
    assert baseline.agrees
    assert len(baseline.coefficients) == 6
    assert doxa.load(tmp_path / "run.doxa", table=table).baseline(n=2000).text == baseline.text
    with pytest.raises(ArgumentError, match="loaded from a run file, which keeps no approximations"):
        doxa.load(tmp_path / "run.doxa").baseline()
    with pytest.raises(ArgumentError, match="n is 10; it must be at least 100"):
        fit.baseline(n=10)
    augmented = doxa.fit(network, table, method="augmentation", draws=50, seed=1)
    with pytest.raises(ArgumentError, match="no part of this fit has an approximation"):
        augmented.baseline()

"""Methods of `doxa.fit` with options: what they mean, what is refused, and what a run file keeps of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from parameter_cases import bimodal_on_grid, blanked, two_parents

import doxa
from doxa import LogisticNetwork
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.store import RunFileError, open_reader, open_writer
from doxa.parameters import Block, Mixture, RandomWalk, Resampling, methods
from doxa.parameters.method_options import check_method, method_from_settings, method_settings
from doxa.parameters.methods import METHODS
from support.checks import z_limit

NAMES = [["y: x"], ["y: h"]]
ASKED = [
    Block(1),
    Block(NAMES, scan="random"),
    RandomWalk([["y: h", "y: x"], ["y: x"]], scan="random"),
    Mixture(0.8, NAMES),
    Mixture(None, 1, "random"),
    Resampling(16, 3, 8),
]


def z_of(fit, exact, error=0.0):
    """The largest error of a coefficient's mean, in standard errors."""
    summary = fit.summary()
    return np.abs((summary["mean"] - exact) / np.hypot(summary["mcse"], error)).max()


@pytest.mark.parametrize("method", [method for method in ASKED if not isinstance(method, RandomWalk)], ids=repr)
def test_options_keep_both_modes(method):
    network, table, _, grid = bimodal_on_grid(0)
    draws = 2000 if isinstance(method, Resampling) else 400
    fit = doxa.fit(network, table, method=method, chains=2, draws=draws, warmup=100, seed=1)
    assert z_of(fit, grid.mean) < z_limit(2)
    assert fit.method["y"] == method.name


@cache
def sixty_cases():
    """Two coefficients, and what independent proposals say of them."""
    network, table = two_parents(np.random.default_rng(1), n=60)
    return network, table, doxa.fit(network, table, draws=4000, seed=3).summary()


def walk(method):
    """Two long chains take as long as four short ones, and R-hat is half as far from 1."""
    network, table, exact = sixty_cases()
    fit = doxa.fit(network, table, method=method, chains=2, draws=4800, warmup=100, seed=2)
    return fit.converged and z_of(fit, exact["mean"], exact["mcse"]) < z_limit(2)


WALKS = [RandomWalk(1), RandomWalk([["y: a", "y: b"], ["y: b"]], scan="random")]


@pytest.mark.parametrize("method", WALKS, ids=repr)
def test_walks_in_blocks_draw_from_the_posterior(method):
    assert walk(method)


def test_a_walk_that_forgets_a_block_would_be_seen(monkeypatch):
    """The broken twin: the second block never moves."""
    whole = methods.block
    monkeypatch.setattr(methods, "block", lambda kernel, blocks, scan: whole(kernel, blocks, scan).kernels[0])
    assert not walk(RandomWalk(1))


@pytest.mark.parametrize("word", ["block", "random_walk", "mixture", "resampling"])
def test_a_word_means_the_object_with_its_defaults(word):
    kind = {"block": Block, "random_walk": RandomWalk, "mixture": Mixture, "resampling": Resampling}[word]
    assert check_method(kind(), METHODS) == word
    network, table = two_parents(np.random.default_rng(1), n=30)
    one, other = (doxa.fit(network, table, method=method, draws=20, warmup=10, seed=4) for method in (word, kind()))
    assert np.array_equal(one.draws("y"), other.draws("y"))


def test_the_share_is_that_of_the_approximation(monkeypatch):
    seen = []
    whole = methods.mixture
    monkeypatch.setattr(
        methods, "mixture", lambda *kernels, weights=None: (seen.append(weights), whole(*kernels, weights=weights))[1]
    )
    network, table = two_parents(np.random.default_rng(1), n=30)
    doxa.fit(network, table, method=Mixture(0.75), draws=20, warmup=10, seed=4)
    assert seen == [[0.75, 0.25]]


@pytest.mark.parametrize("method", ASKED, ids=repr)
def test_settings_are_json_and_back(method):
    assert method_from_settings(method_settings(method), METHODS) == method


def test_a_run_file_keeps_the_options(tmp_path):
    rng = np.random.default_rng(9)
    network, table = two_parents(rng, n=80)
    table = blanked(table, 0.2, rng)
    method = Mixture(0.7, [["y: b"], ["y: a"]])
    options = {"method": method, "chains": 2, "warmup": 20, "seed": 5}
    whole = doxa.fit(network, table, draws=100, **options)
    doxa.fit(network, table, draws=30, store=tmp_path / "run.doxa", **options)
    more = doxa.resume(tmp_path / "run.doxa", table, draws=100)
    assert np.array_equal(whole.draws("y"), more.draws("y"))
    assert doxa.load(tmp_path / "run.doxa", table).method["y"] == "mixture"
    with open_reader(tmp_path / "run.doxa") as reader:
        header = reader.header
    assert header.options["method"] == method_settings(method)
    changed = {**header.options, "method": method_settings(Mixture(0.6, method.blocks))}
    with pytest.raises(RunFileError, match="method"):
        open_writer(tmp_path / "run.doxa", replace(header, options=changed))


@pytest.mark.parametrize("method", [Mixture(0.7, [["y: b"], ["y: a"]]), Mixture(), "block"], ids=repr)
def test_a_saved_posterior_keeps_the_options(method, tmp_path):
    network, table = two_parents(np.random.default_rng(1), n=30)
    fit = doxa.fit(network, table, method=method, draws=20, warmup=10, seed=4)
    fit.save(tmp_path / "saved.doxa")
    loaded = doxa.load(tmp_path / "saved.doxa")
    assert loaded.report == fit.completed_report
    assert loaded.report.method == check_method(method, METHODS)
    assert repr(loaded) == repr(fit)
    with open_reader(tmp_path / "saved.doxa") as reader:
        assert reader.header.options["method"] == method_settings(loaded.report.method)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Block(0), ArgumentError, "blocks is 0; it must be at least 1"),
        (lambda: Block("y: a"), ArgumentTypeError, "blocks is 'y: a'; it must be a whole number"),
        (lambda: Block([]), ArgumentError, "blocks is empty"),
        (lambda: Block(["y: a"]), ArgumentTypeError, r"blocks\[0\] is 'y: a'; a block is a sequence"),
        (lambda: Block([["y: a", "y: a"]]), ArgumentError, r"blocks\[0\] is .*none twice"),
        (lambda: RandomWalk(scan="up"), ArgumentError, "scan is 'up'; it must be 'cyclic' or 'random'"),
        (lambda: Mixture(1), ArgumentError, "share is 1; it must lie strictly between 0 and 1"),
        (lambda: Mixture("half"), ArgumentTypeError, "share is 'half'; it must be a number"),
        (lambda: Resampling(chains=3), ArgumentError, "chains is 3; it must be at least 4"),
        (lambda: check_method(Block, METHODS), ArgumentTypeError, "method is .*; it must be a word"),
        (
            lambda: method_from_settings({"name": "block", "k": 1}, METHODS),
            ArgumentError,
            "method.k is nothing",
        ),
        (lambda: method_from_settings({"name": []}, METHODS), ArgumentError, "this version does not know"),
    ],
)
def test_options_that_are_none_are_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([["y: a"], ["y: z"]], "blocks name 'y: z', which is no coefficient; there are 'y: bias', 'y: a'"),
        ([["y: a"]], "blocks leave out 'y: bias', which would never move; add it to a block"),
    ],
)
def test_blocks_of_other_coefficients_are_refused(blocks, message):
    network = LogisticNetwork({"y": ["a"]})
    table = network.simulate(20, {"y": [0.1, 0.4], "a": [0.5]}, np.random.default_rng(1))
    with pytest.raises(ArgumentError, match=message):
        doxa.fit(network, table, method=Block(blocks), draws=10, seed=1)
    assert doxa.fit(network, table, method=Block([["y: a", "a: probability"], ["y: bias"]]), draws=10, seed=1)

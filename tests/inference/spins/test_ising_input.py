"""Arguments of Ising models and samplers, colourings, and runs under the driver."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ising_cases import even_grid, grid_edges, random_graph, uneven_grid

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.spins import IsingBitParallel, IsingGibbs, IsingGrid, IsingModel
from doxa.inference.spins.graph import colour_sites, same_rows
from doxa.inference.spins.grid import grid_layout
from doxa.sampling.driver import Schedule, sample

BAD_MODELS = [
    (([[0, 0]], 1.0, [0.0]), "edges[0] joins site 0 with itself, which changes nothing; leave it out"),
    (
        ([[0, 1], [1, 2], [1, 0]], 1.0, [0.0] * 3),
        "edges[0] and edges[2] both join sites [0, 1]; give the pair once, with the sum of the couplings",
    ),
    (([[0, 3]], 1.0, [0.0] * 3), "edges[0] is [0, 3] but fields has sites 0..2"),
    (([[0, -1]], 1.0, [0.0] * 3), "edges[0] is [0, -1] but fields has sites 0..2"),
    (([[0, 1, 2]], 1.0, [0.0] * 3), "edges has shape (1, 3); it must be (n_edges, 2), a pair of sites in each row"),
    (
        ([[0, 1]], [1.0, 2.0], [0.0] * 2),
        "couplings has shape (2,) but edges has 1 pairs; give one number each, or one for all",
    ),
    (
        ([[0, 1], [1, 2]], [1.0, np.nan], [0.0] * 3),
        "couplings[1] is nan; it must be finite: a coupling of +-30 all but forbids the other pairs",
    ),
    (
        ([[0, 1]], np.inf, [0.0] * 2),
        "couplings is inf; it must be finite: a coupling of +-30 all but forbids the other pairs",
    ),
    (
        ([], 1.0, [0.0, np.inf]),
        "fields[1] is inf; it must be finite: leave out a site whose state is known, and add its couplings to "
        "the fields",
    ),
    (([], 1.0, []), "fields has shape (0,); it must be (n_sites,), with at least one site"),
    (([], 1.0, 0.5), "fields has shape (); it must be (n_sites,), with at least one site"),
    (([], 1.0, [[0.5]]), "fields has shape (1, 1); it must be (n_sites,), with at least one site"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_MODELS)
def test_bad_models(arguments, message):
    with pytest.raises(ArgumentError) as raised:
        IsingModel(*arguments)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0, 1.0]], 1.0, [0.0] * 2), "edges holds float64 numbers; it must hold pairs of site numbers, integers"),
        (([[0, 1]], "strong", [0.0] * 2), "couplings is 'strong'; it must be an array of numbers"),
        (([[0, 1]], 1.0, ["x", "y"]), "fields is ['x', 'y']; it must be an array of numbers"),
    ],
)
def test_bad_types(arguments, message):
    with pytest.raises(ArgumentTypeError) as raised:
        IsingModel(*arguments)
    assert str(raised.value) == message


def test_bad_samplers():
    model = even_grid(3, 3)
    with pytest.raises(ArgumentError) as raised:
        IsingGibbs(model, "diagonal")
    assert str(raised.value) == "scan is 'diagonal'; it must be one of 'coloured', 'cyclic', 'random'"
    for make in (IsingGibbs, IsingBitParallel):
        with pytest.raises(ArgumentError, match="thin is 0; it must be at least 1"):
            make(model, thin=0)
    with pytest.raises(ArgumentError, match="thin is 0; it must be at least 1"):
        IsingGrid(model, (3, 3), thin=0)
    with pytest.raises(ArgumentError) as raised:
        IsingGrid(model, (3, 4))
    assert str(raised.value) == "shape (3, 4) has 12 sites but the model has 9"
    with pytest.raises(ArgumentError) as raised:
        IsingGrid(IsingModel([[0, 1], [0, 3]], 1.0, [0.0] * 4), (2, 2))
    assert str(raised.value) == (
        "edges[1] joins sites [0, 3], which are not neighbours on a grid of shape (2, 2); "
        "use IsingGibbs or IsingBitParallel for other graphs"
    )
    with pytest.raises(ArgumentError) as raised:
        IsingGrid(even_grid(4, 5, periodic=True), (4, 5))
    assert str(raised.value) == (
        "shape is (4, 5) and its columns wrap around: a ring of 5 sites cannot be coloured with two colours; "
        "use IsingGibbs or IsingBitParallel, which take any graph"
    )
    for shape, message in (
        ((0, 4), "shape[0] is 0; it must be at least 1"),
        ((4,), "shape is (4,); it must be a pair, (rows, columns)"),
    ):
        with pytest.raises(ArgumentError) as raised:
            IsingGrid(even_grid(2, 2), shape)
        assert str(raised.value) == message
    with pytest.raises(ArgumentTypeError) as typed:
        IsingGrid(even_grid(2, 2), (2, 2.0))
    assert str(typed.value) == "shape[1] is 2.0; it must be a whole number of at least 1"


def test_colours():
    for graph, most in (
        (even_grid(6, 8, periodic=True).graph, 2),
        (even_grid(5, 7).graph, 2),
        (even_grid(5, 5, periodic=True).graph, 4),
        (random_graph(30, 100).graph, 14),
        (IsingModel([], [], [0.0] * 3).graph, 1),
        (IsingModel([[0, 5], [5, 2], [4, 2], [4, 0], [1, 3]], 1.0, [0.0] * 6).graph, 2),
    ):
        colours = colour_sites(graph)
        assert colours.min() == 0
        assert colours.max() < most
        assert (colours[graph.edges[:, 0]] != colours[graph.edges[:, 1]]).all()


def test_batches_hold_every_site_once_and_no_neighbours():
    for model in (even_grid(5, 7), random_graph(30, 80), random_graph(40, 60, values=[0.5, -0.5]), uneven_grid(6, 6)):
        n = model.n_sites
        assert sorted(model.batches.scan(n)) == list(range(n))
        ends = set(map(tuple, model.graph.edges.tolist()))
        for batch in model.batches.sites.reshape(-1, 8).tolist():
            assert not any((i, j) in ends for i in batch for j in batch)


def test_equal_tables_are_shared():
    assert len(even_grid(64, 64, periodic=True).batches.thresholds) == 5 * 8
    glass = even_grid(8, 8, periodic=True)
    signs = np.where(np.arange(len(glass.graph.edges)) % 3, 1.0, -1.0)
    assert len(IsingModel(glass.graph.edges, 0.4 * signs, glass.fields).batches.thresholds) == 5 * 8


def test_rows_of_one_hash_are_told_apart(monkeypatch):
    """The hash is a shortcut: rows are compared."""
    starts, values = np.array([0, 1, 3, 4, 6, 7]), np.array([5, 5, 6, 5, 5, 6, 7], dtype=np.uint64)
    assert same_rows(starts, values).tolist() == [0, 1, 0, 1, 4]
    monkeypatch.setattr("doxa.inference.spins.graph._hash_rows", lambda _starts, _values, hashes: hashes.fill(0))
    assert same_rows(starts, values).tolist() == [0, 1, 0, 3, 4]


@pytest.mark.parametrize(
    ("shape", "wraps", "blocks", "words"),
    [
        ((512, 512), (True, True), 64, 4096),
        ((64, 64), (False, False), 64, 64),
        ((100, 100), (True, True), 4, 2500),
        ((10, 10), (False, False), 32, 4),
        ((1, 1), (False, False), 1, 1),
        ((6, 256), (True, True), 64, 24),
    ],
)
def test_layouts(shape, wraps, blocks, words):
    layout = grid_layout(shape, wraps)
    assert layout.h * layout.w == words
    assert layout.n_down * layout.n_across >= blocks
    assert sorted(layout.site[layout.site >= 0]) == list(range(shape[0] * shape[1]))


SAMPLERS = {
    "chain": lambda thin: IsingGibbs(uneven_grid(4, 6), thin=thin, keep_spins=True),
    "grid": lambda thin: IsingGrid(uneven_grid(4, 6), (4, 6), thin=thin, keep_spins=True),
    "lanes": lambda thin: IsingBitParallel(uneven_grid(4, 6), thin=thin, keep_spins=True),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_runs_depend_on_the_seed_alone(name):
    """To the last bit, means included: 40 draws, each of which may be the first of a block."""
    whole = sample(SAMPLERS[name](3), Schedule(2, 40, 10), seed=7, workers=1)
    for options in ({"workers": 2}, {"workers": 1, "block": 1}):
        other = sample(SAMPLERS[name](3), Schedule(2, 40, 10), seed=7, **options)
        for key in whole.names:
            assert (whole[key] == other[key]).all()
    assert not (whole["energy"] == sample(SAMPLERS[name](3), Schedule(2, 40, 10), seed=8)["energy"]).any()


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_are_sent_to_workers_without_their_tables(name):
    sampler = SAMPLERS[name](2)
    state = sampler.init(np.random.default_rng(1))
    _, draws, _ = sampler.run(state, 20, np.random.default_rng(0))
    copy = pickle.loads(pickle.dumps(sampler))
    assert not {"_numbered", "_laid_out"} & set(copy.__dict__)
    assert not {"classes", "batches"} & set(copy.model.__dict__)
    assert (copy.run(state, 20, np.random.default_rng(0))[1]["energy"] == draws["energy"]).all()


def test_edges_of_the_tests():
    assert len(grid_edges(3, 4)) == 17
    assert len(grid_edges(3, 4, periodic=True)) == 24

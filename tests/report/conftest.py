"""Posteriors to report on, most of them made up, and a browser without a network to look at the pages with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import NO_NETWORK, chromium, go_without
from page_cases import HOSTILE, WRITTEN, mixed_frame

import doxa
from doxa.data import Table
from doxa.inference import Inference
from doxa.models import Dag
from doxa.parameters import ParameterPosterior
from doxa.report.document import AssetsMissingError, libraries
from doxa.structure.averaging.posterior import Posterior, with_table
from support.networks import load_network, network_file
from support.posteriors import posterior_of

collect_ignore = ["conftest.py"]  # a search for doctests would import two modules of this name


@pytest.fixture(scope="session")
def bundled() -> None:
    """The libraries of the page are there."""
    try:
        libraries()
    except AssetsMissingError as error:
        go_without(str(error))


@pytest.fixture(scope="session")
def reinis() -> Posterior:
    """Sampled, with knowledge given."""
    table = doxa.datasets.load("reinis")
    return doxa.learn(
        table, exact=False, draws=600, seed=3, required=[("smoke", "protein")], forbidden=[("mental", "smoke")]
    )


@pytest.fixture(scope="session")
def missing_cells() -> Posterior:
    """Of a table with missing cells."""
    table = doxa.datasets.load("reinis")
    rng = np.random.default_rng(5)
    rows = np.repeat(table.codes, table.counts, axis=0)[rng.permutation(table.n_rows)[:120]].copy()
    rows[rng.random(rows.shape) < 0.03] = -1
    return doxa.learn(Table.from_codes(table.names, table.states, rows), draws=200, seed=4)


@pytest.fixture(scope="session")
def hostile() -> Posterior:
    """Names and states that would do harm where they are taken for markup, formulas or numbers."""
    names = (HOSTILE, "=cmd|' /C calc'!A0", "עברית <b>", "🦉🏳️‍🌈", " ", "{{ data }}")
    states = (
        ('"quoted"', "it's"),
        ("tab\there", "line\nbreak"),
        ("\u202eevil", "نعم"),
        ("-1", "@x"),
        ("<!--", "]]>"),
        ("\u2028", "&amp;"),
    )
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, size=(60, 1))
    codes = np.where(rng.random((60, 6)) < 0.8, base, rng.integers(0, 2, size=(60, 6)))
    codes[0, 0] = -1
    return doxa.learn(Table.from_codes(names, states, codes), draws=100, seed=1, exact=False)


@pytest.fixture(scope="session")
def numbers() -> Posterior:
    """Of a table of numbers and categories, with a hostile name."""
    return doxa.learn(doxa.read_table(mixed_frame()), seed=1)


@pytest.fixture(scope="session")
def missing_numbers() -> Posterior:
    """The same with missing cells."""
    frame = mixed_frame()
    return doxa.learn(frame.mask(np.random.default_rng(2).random(frame.shape) < 0.03), draws=100, seed=1)


@pytest.fixture(scope="session")
def logistic() -> Posterior:
    """Graphs whose families are tables or logistic regressions."""
    return doxa.learn(doxa.datasets.load("reinis"), family="auto", prior="uniform", seed=1)


@pytest.fixture(scope="session")
def fitted() -> ParameterPosterior:
    """Logistic coefficients, and the probabilities of two roots."""
    parents = {"systol": ["smoke", "phys", "protein"], "phys": ["smoke", "mental"]}
    return doxa.fit(doxa.LogisticNetwork(parents), doxa.datasets.load("reinis"), seed=1, draws=1500)


@pytest.fixture(scope="session")
def touring() -> ParameterPosterior:
    """A fit whose chains regenerate."""
    network = doxa.LogisticNetwork({"systol": ["smoke"]}, roots={"smoke": 0.5})
    return doxa.fit(network, doxa.datasets.load("reinis"), method="regeneration", seed=1, draws=400)


@pytest.fixture(scope="session")
def with_hidden() -> ParameterPosterior:
    """A fit with a hidden node: two modes, and a mixture of t distributions to propose from."""
    parents = {"smoke": ["h"], "mental": ["h"], "phys": ["h"]}
    network = doxa.LogisticNetwork(parents, prior_scale=2.0, roots={"h": 0.5})
    return doxa.fit(network, doxa.datasets.load("reinis"), seed=2, draws=4000)


@pytest.fixture(scope="session")
def hostile_fit(hostile: Posterior) -> ParameterPosterior:
    """A fit of nodes with hostile names."""
    names = hostile.names
    return doxa.fit(doxa.LogisticNetwork({names[1]: [names[0]], names[0]: names[2:5]}), hostile.table, draws=60, seed=1)


@pytest.fixture(scope="session")
def sampled_answer() -> Inference:
    """By weighted draws, with errors."""
    given = {"BP": "LOW", "HRBP": "HIGH"}
    return doxa.infer(doxa.read_network(network_file("alarm")), given=given, method="importance", seed=1)


@pytest.fixture(scope="session")
def spins() -> Inference:
    """On a grid, by Gibbs sampling, with two spins observed."""
    network = doxa.ising_grid(6, 9, coupling=0.4, field=0.1)
    return doxa.infer(network, given={"X0_0": "-1", "X5_8": "1"}, method="gibbs", draws=200, seed=1)


@pytest.fixture(scope="session")
def hostile_answer(hostile: Posterior) -> Inference:
    """Variables and states with hostile names, one of them observed."""
    network = hostile.network_draws().network(0)
    return doxa.infer(network, given={network.names[0]: network.states[0][0]})


@pytest.fixture(scope="session")
def alarm() -> Posterior:
    """37 nodes, 4 chains: graphs near the true one of ALARM."""
    network = load_network("alarm")
    return made_up(network.sample(1000, seed=1), network.dag, n_draws=4000)


@pytest.fixture(scope="session")
def wide() -> Posterior:
    """200 nodes, 4 chains; few draws, since each has families of its own to draw tables of."""
    rng = np.random.default_rng(8)
    names = tuple(f"column_{j:03d}" for j in range(200))
    parents = [rng.choice(np.arange(max(0, j - 12), j), min(j, int(rng.integers(0, 3))), False) for j in range(200)]
    dag = Dag.from_edges([(names[i], names[j]) for j, own in enumerate(parents) for i in own], names)
    table = Table.from_codes(names, [["low", "high"]] * 200, rng.integers(0, 2, size=(300, 200)))
    return made_up(table, dag, n_draws=12)


def made_up(table: Table, dag: Dag, n_draws: int, n_chains: int = 4) -> Posterior:
    """Draws that walk about a graph: edges of its order come and go, and none stays away for good."""
    rng = np.random.default_rng(11)
    n = len(dag.names)
    order = [dag.names.index(name) for name in dag.topological_order()]
    place = np.argsort(order)
    truth = dag.adjacency
    legal = place[:, None] < place
    here = np.broadcast_to(truth, (n_chains, n, n)).copy()
    rows = np.empty((n_chains, n_draws, *dag.rows.shape), dtype=np.uint64)
    chance = np.where(truth, 0.97, rng.random((n, n)) ** 8 * 0.3)
    for draw in range(n_draws):
        fresh = rng.random((n_chains, n, n)) < chance
        here = np.where(rng.random((n_chains, n, n)) < 0.3, fresh, here) & legal
        for chain in range(n_chains):
            rows[chain, draw] = _packed(here[chain], dag.rows.shape[1])
    score = -1e4 + np.cumsum(rng.normal(size=(n_chains, n_draws)), axis=1) * 0.01 + rng.normal(size=(n_chains, n_draws))
    made: Any = posterior_of(dag.names, rows, score)
    made.options = dataclasses.replace(
        made.options,
        names=dag.names,
        n_rows=table.n_rows,
        data_digest=table.digest,
        max_parents=(n - 1,) * n,
        n_states=tuple(table.n_states.tolist()),
        max_configurations=None,
    )
    return with_table(made, table)


def _packed(adjacency: np.ndarray, n_words: int) -> np.ndarray:
    bits = np.zeros((len(adjacency), n_words * 64), dtype=np.uint8)
    bits[:, : len(adjacency)] = adjacency
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """Chromium, headless, with no way to a network."""
    with chromium(NO_NETWORK, {"browser": "ALL", "performance": "ALL"}) as started:
        started.set_script_timeout(60)
        yield started


@pytest.fixture(scope="session")
def page_of(bundled: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives the page of a posterior, which is written once."""
    from doxa.report import write_report

    made: dict[int, tuple[Any, Path]] = {}  # the posterior is kept: another could else have its number

    def path_of(posterior: Any) -> Path:
        if id(posterior) not in made:
            path = tmp_path_factory.mktemp("page") / "report <1>.html"
            made[id(posterior)] = posterior, write_report(posterior, path, written=WRITTEN)
        return made[id(posterior)][1]

    return path_of


@pytest.fixture
def few_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer networks and rows to simulate answers from, of which a page has no less to show."""
    simulation = import_module("doxa.report.simulation")
    monkeypatch.setattr(simulation, "_MOST_TABLES", 500)
    monkeypatch.setattr(simulation, "_ROWS", 20_000)


@pytest.fixture
def page(driver: Any, page_of: Any) -> Iterator[Any]:
    """A function that opens the page of a posterior; afterwards, the console has to be empty."""

    def open_page(posterior: Any) -> Any:
        path = page_of(posterior)
        driver.get_log("browser")
        driver.get_log("performance")
        driver.get(path.as_uri())
        assert driver.execute_script("return document.documentElement.dataset.ready") == "yes"
        return driver

    yield open_page
    said = driver.get_log("browser")
    driver.get("about:blank")  # a page that stays open draws itself again and again, a tenth of a processor
    assert said == []

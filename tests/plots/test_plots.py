"""The pictures show the posterior's own numbers, need no display, and say what is missing."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

import doxa
from doxa.errors import ArgumentError, MissingExtraError
from doxa.plots import plot_consensus, plot_edge_probabilities, plot_effects, plot_n_edges
from doxa.plots.layers import layered_layout
from support.posteriors import posterior_of
from support.tables import skewed_table

PLOTS = (plot_n_edges, plot_edge_probabilities, plot_consensus)


@pytest.fixture(scope="module")
def posterior():
    return doxa.learn(skewed_table(5, 60, seed=7), draws=300, seed=2)


def arrows(ax):
    return {patch.get_gid(): patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)}


def test_the_lines_are_the_chains(posterior):
    ax = plot_n_edges(posterior)
    assert [line.get_label() for line in ax.lines] == [f"chain {i}" for i in range(4)]
    for line, n_edges in zip(ax.lines, posterior.n_edges, strict=True):
        assert np.array_equal(line.get_ydata(), n_edges)
        assert np.array_equal(line.get_xdata(), np.arange(300))
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 4
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert ax.get_title()


def test_a_trace_and_plain_numbers_give_the_same_lines(posterior):
    drawn = [line.get_ydata().tolist() for line in plot_n_edges(posterior).lines]
    for same in (posterior.trace, posterior.n_edges, posterior.n_edges.tolist()):
        assert [line.get_ydata().tolist() for line in plot_n_edges(same).lines] == drawn


def test_a_long_chain_is_thinned_and_not_averaged():
    n_edges = np.arange(4500)[None]
    (line,) = plot_n_edges(n_edges).lines
    assert np.array_equal(line.get_xdata(), np.arange(0, 4500, 3))
    assert np.array_equal(line.get_ydata(), line.get_xdata())


def test_many_chains_can_still_be_told_apart():
    lines = plot_n_edges(np.ones((20, 5))).lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 20


@pytest.mark.parametrize("shape", [(4,), (0, 5), (2, 0), (2, 3, 4)])
def test_numbers_of_another_shape_are_refused(shape):
    with pytest.raises(ArgumentError, match=r"must be \(n_chains, n_draws\)"):
        plot_n_edges(np.zeros(shape))


def test_the_heat_map_is_the_table_of_edges(posterior):
    ax = plot_edge_probabilities(posterior)
    (image,) = ax.images
    shown = image.get_array()
    assert shown.mask.diagonal().all()
    assert shown.mask.sum() == 5
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [label.get_text() for label in ax.get_xticklabels()] == list(posterior.names)
    for edge in posterior.edges().itertuples():
        assert shown[names.index(edge.source), names.index(edge.target)] == edge.probability
    assert image.get_clim() == (0.0, 1.0)
    assert len(ax.texts) == 20


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.9])
def test_the_arrows_are_the_edges_of_the_consensus(posterior, threshold):
    ax = plot_consensus(posterior, threshold=threshold)
    drawn = arrows(ax)
    assert set(drawn) == {f"{a} -> {b}" for a, b in posterior.consensus(threshold).edges}
    for edge in posterior.edges().itertuples():
        name = f"{edge.source} -> {edge.target}"
        if name in drawn:
            assert drawn[name].get_linewidth() == pytest.approx(3 * edge.probability)
    assert {text.get_text() for text in ax.texts} == set(posterior.names)


def test_every_arrow_points_down(posterior):
    ax = plot_consensus(posterior, threshold=0.1)
    assert ax.yaxis_inverted()
    place = {text.get_text(): text.get_position() for text in ax.texts}
    assert arrows(ax)
    for name in arrows(ax):
        source, target = name.split(" -> ")
        assert place[source][1] < place[target][1]


def test_labels_wrap_at_words_and_all_stays_inside():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    dag = random_dag(40, 0.05, seed=5)
    words = ("systolic", "blood pressure", "physician_fee", "age", "a name of many words that has no end")
    names = tuple(f"{words[k % 5]} {k}" for k in range(40))
    rows = np.broadcast_to(dag.rows, (4, 20, *dag.rows.shape)).copy()
    posterior = posterior_of(names, rows, np.random.default_rng(0).normal(size=(4, 20)))
    ax = plot_consensus(posterior, threshold=0.4)
    assert len(arrows(ax)) == dag.n_edges
    for text in ax.texts:
        for line in text.get_text().removesuffix("...").split("\n")[:-1]:
            assert line.endswith((" ", "_"))
    drawn = FigureCanvasAgg(ax.figure).get_renderer()
    ax.figure.draw(drawn)
    frame = ax.get_window_extent(drawn)
    boxes = [text.get_bbox_patch().get_window_extent(drawn) for text in ax.texts]
    for box in [*boxes, *(patch.get_window_extent(drawn) for patch in ax.patches)]:
        assert frame.x0 <= box.x0 <= box.x1 <= frame.x1
        assert frame.y0 <= box.y0 <= box.y1 <= frame.y1
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def random_dag(n: int, density: float, seed: int) -> doxa.Dag:
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    upper = np.triu(rng.random((n, n)) < density, 1)
    return doxa.Dag(upper[np.ix_(order, order)])


@pytest.mark.parametrize(("n", "density"), [(1, 0.0), (2, 1.0), (12, 0.0), (12, 0.2), (12, 1.0), (40, 0.06)])
def test_a_layout_gives_every_node_its_room(n, density):
    dag = random_dag(n, density, seed=n)
    layout = layered_layout(dag)
    assert set(layout.nodes) == set(dag.names)
    for parent, child in dag.edges:
        path = [layout.nodes[parent], *layout.bends[parent, child], layout.nodes[child]]
        assert [b[1] - a[1] for a, b in itertools.pairwise(path)] == [1.0] * (len(path) - 1)
    rows: dict[float, list[float]] = {}
    for x, y in layout.nodes.values():
        rows.setdefault(y, []).append(x)
    for row in rows.values():
        assert (np.diff(sorted(row)) > 1 - 1e-9).all()
    assert min(x for x, _ in layout.nodes.values()) >= -1e-9


def test_a_tree_is_drawn_without_crossings():
    dag = doxa.Dag.from_edges([("r", "b"), ("r", "a"), ("a", "a2"), ("b", "b1"), ("a", "a1"), ("b", "b2")])
    x = {name: place[0] for name, place in layered_layout(dag).nodes.items()}
    below = {name: sorted(x[child] for child in dag.children(name)) for name in ("a", "b")}
    first, second = sorted(below, key=x.__getitem__)
    assert below[first][-1] < below[second][0]


@pytest.mark.parametrize("plot", PLOTS)
def test_a_given_axes_is_drawn_in(plot, posterior):
    figure = Figure()
    ax = figure.add_subplot()
    assert plot(posterior, ax=ax) is ax
    assert ax.get_title()
    assert ax.figure is figure


@pytest.mark.parametrize("plot", PLOTS)
def test_a_picture_can_be_written_without_pyplot(plot, posterior, tmp_path):
    plot(posterior).figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    pyplot = sys.modules.get("matplotlib.pyplot")  # another test may have loaded it
    assert pyplot is None or not pyplot.get_fignums()


@pytest.mark.parametrize("plot", PLOTS)
def test_names_are_shown_as_they_are(plot, tmp_path):
    names = ("a $x_", "$\\nonsense$", "a long name with blanks that must be folded", "<&>", "_")
    codes = np.random.default_rng(1).integers(0, 2, size=(40, 5))
    table = doxa.Table.from_codes(names, (("0", "1"),) * 5, codes)
    ax = plot(doxa.learn(table, draws=50, warmup=50, seed=1))
    ax.figure.savefig(tmp_path / "picture.png")
    if plot is plot_edge_probabilities:
        assert tuple(label.get_text() for label in ax.get_yticklabels()) == names
    if plot is plot_consensus:
        assert {text.get_text().replace("\n", "") for text in ax.texts} >= set(names) - {names[2]}


@pytest.mark.parametrize("plot", PLOTS)
def test_without_matplotlib_the_message_says_what_to_install(plot, posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError) as refused:
        plot(posterior)
    assert str(refused.value) == f"{plot.__name__} needs the package matplotlib: pip install 'doxa[plot]'"


def test_no_import_loads_matplotlib():
    code = "import sys, doxa; print('doxa.plots' in sys.modules); import doxa.plots; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_map_of_effects_is_their_table(posterior):
    frame = posterior.effects(networks=100)
    ax = plot_effects(frame)
    (image,) = ax.images
    shown = image.get_array()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(names) == sorted(posterior.names)
    for row in frame.drop_duplicates(["of", "on"], keep="last").itertuples():
        if row.state == posterior.table.states[posterior.names.index(row.on)][-1]:
            assert shown[names.index(row.of), names.index(row.on)] == row.effect
    assert shown.mask.diagonal().all()
    assert image.get_clim() == (-1.0, 1.0)
    assert len(ax.texts) == 20


def test_effects_on_numbers_are_shown_by_the_largest():
    frame = pd.DataFrame(
        {"of": ["a", "b", "c"], "on": ["b", "c", "b"], "state": [None, "yes", None], "effect": [40.0, 0.2, -10.0]}
    )
    (image,) = plot_effects(frame).images
    assert image.get_array()[0, 1] == 1.0
    assert image.get_array()[2, 1] == -0.25
    assert image.get_array()[1, 2] == 0.2


def test_a_map_of_something_else_is_refused(posterior):
    with pytest.raises(ArgumentError, match=r"give the frame that posterior\.effects\(\) returns"):
        plot_effects(posterior.edges())


def test_moments_in_time_stand_side_by_side():
    rng = np.random.default_rng(1)
    x = np.cumsum(rng.random(400) < 0.1) % 2
    frame = pd.DataFrame({"t": range(400), "x": x, "y": np.where(rng.random(400) < 0.8, x, 1 - x)})
    posterior = doxa.learn(frame, time="t", seed=1)
    ax = plot_consensus(posterior)
    arrows = {patch.get_gid() for patch in ax.patches}
    assert "x [t-1] -> x" in arrows
    assert len(arrows & {"x -> y", "y -> x"}) == 1
    places = {text.get_text(): text.get_position() for text in ax.texts}
    assert places["x"][0] > places["x [t-1]"][0]
    assert places["x"][1] == places["x [t-1]"][1]
    assert plot_edge_probabilities(posterior).images[0].get_array().shape == (4, 2)
    effects = posterior.effects(networks=100)
    ax = plot_effects(effects)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert len(names) == 4
    assert [label.get_text() for label in ax.get_xticklabels()] == names[:2]
    own = effects.query("of == 'x' and on == 'x' and lag == 1")["effect"].iloc[0]
    assert ax.images[0].get_array()[names.index("x [t-1]"), names.index("x")] == own

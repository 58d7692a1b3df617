"""The picture of a map shows the map's own numbers, needs no display, and says what is missing."""

import sys

import numpy as np
import pytest
from matplotlib.collections import EllipseCollection, PathCollection

import doxa
from doxa.errors import ArgumentError, MissingExtraError
from doxa.parameters.variational.latent_trait import latent_map
from doxa.plots.latent_map import plot_latent_map


@pytest.fixture(scope="module")
def votes():
    table = doxa.datasets.load("house_votes")
    party = [table.states[0][code] for code in table.codes[table.row_index, 0]]
    return party, latent_map(table.select(table.names[1:]))


def drawn(ax, kind):
    return [part for part in ax.collections if isinstance(part, kind)]


def test_every_row_stands_at_its_position_in_the_colour_of_its_group(votes):
    party, found = votes
    ax = plot_latent_map(found, party)
    scatters = drawn(ax, PathCollection)
    assert [scatter.get_label() for scatter in scatters] == ["democrat", "republican"]
    for scatter in scatters:
        members = np.array(party) == scatter.get_label()
        assert np.array_equal(scatter.get_offsets(), found.positions[members])
    assert len({tuple(scatter.get_facecolor()[0]) for scatter in scatters}) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["democrat", "republican"]


def test_ellipses_are_those_of_rows_of_the_map(votes):
    party, found = votes
    outlines = drawn(plot_latent_map(found, party, n_sd=2.0), EllipseCollection)
    assert 20 <= sum(len(part.get_offsets()) for part in outlines) <= 40
    major, minor, angle = found.ellipses(2.0)
    for part in outlines:
        for place, width, height, turn in zip(
            part.get_offsets(), part.get_widths(), part.get_heights(), part.get_angles(), strict=True
        ):
            row = int(np.abs(found.positions - place).sum(axis=1).argmin())
            assert np.allclose([width, height, turn % 180], [2 * major[row], 2 * minor[row], angle[row] % 180])
    assert not drawn(plot_latent_map(found, n_sd=None), EllipseCollection)


def test_arrows_carry_the_names_of_the_columns(votes):
    _, found = votes
    ax = plot_latent_map(found)
    assert {text.get_text() for text in ax.texts} >= set(found.fit.names)
    plain = plot_latent_map(found, arrows=False)
    assert not plain.texts
    assert plain.get_ylabel() == "dimension 2"
    assert plain.get_legend() is None


def test_pictures_are_written_with_odd_names_and_without_loadings(tmp_path):
    codes = np.random.default_rng(1).integers(0, 2, (30, 3))
    table = doxa.Table.from_codes(["$x_", "<&>", "a b"], [["0", "1"]] * 3, codes)
    plot_latent_map(latent_map(table), ["$y_"] * 30).figure.savefig(tmp_path / "odd.png")
    constant = latent_map(np.ones((4, 2)) * [0, 1])
    plot_latent_map(constant).figure.savefig(tmp_path / "constant.png")
    assert (tmp_path / "constant.png").stat().st_size > 1000


def test_a_given_axes_is_drawn_in(votes):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plot_latent_map(votes[1], ax=ax) is ax


def test_bad_input_is_refused_in_words(votes):
    _, found = votes
    with pytest.raises(ArgumentError, match=r"the map has n_components=1; a picture needs 2"):
        plot_latent_map(latent_map([[0, 1], [1, 0]], 1))
    with pytest.raises(ArgumentError, match=r"groups has 2 values and the map 435 rows; give one for each row"):
        plot_latent_map(found, ["a", "b"])
    with pytest.raises(ArgumentError, match=r"groups has 435 different values; at most 7 can be told apart"):
        plot_latent_map(found, range(435))
    with pytest.raises(ArgumentError, match=r"n_sd is 0; it must be above 0"):
        plot_latent_map(found, n_sd=0)


def test_without_matplotlib_the_message_says_what_to_install(votes, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError) as refused:
        plot_latent_map(votes[1])
    assert str(refused.value) == "plot_latent_map needs the package matplotlib: pip install 'doxa[plot]'"

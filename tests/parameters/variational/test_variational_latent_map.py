"""The map of binary data: positions in the order of the rows, ellipses, and a split that is known."""

import numpy as np
import pytest
from latent_cases import random_parameters, simulate

import doxa
from doxa.errors import ArgumentError
from doxa.parameters.variational.latent_trait import LatentMap, latent_map
from support.checks import SEED


@pytest.fixture(scope="module")
def votes():
    table = doxa.datasets.load("house_votes")
    return table.codes[table.row_index, 0], latent_map(table.select(table.names[1:]))


def separation(positions, groups):
    """Distance between two group means, in standard deviations within groups along the best direction."""
    parts = [positions[groups == k] for k in (0, 1)]
    pooled = sum(np.cov(part.T) * len(part) for part in parts) / len(positions)
    apart = parts[1].mean(axis=0) - parts[0].mean(axis=0)
    return float(np.sqrt(apart @ np.linalg.solve(pooled, apart)))


def test_the_parties_stand_apart_though_the_map_does_not_know_them(votes):
    party, found = votes
    assert found.positions.shape == (435, 2)
    assert separation(found.positions, party) > 2.5
    shuffled = np.random.default_rng(SEED).permutation(party)
    assert separation(found.positions, shuffled) < 0.5


def test_positions_and_covariances_are_those_of_the_fit(votes):
    _, found = votes
    table = doxa.datasets.load("house_votes")
    data = table.select(table.names[1:])
    known = found.fit.posterior(data)
    assert np.array_equal(found.positions, known.mean)
    assert np.array_equal(found.covariances, known.covariance)
    assert np.allclose(found.sd, known.sd)
    for row in (0, 17, 434):  # in the order of the rows, not of the distinct ones
        assert np.allclose(found.fit.posterior(data.codes[[data.row_index[row]]]).mean[0], found.positions[row])


def test_missing_cells_widen_the_ellipses(votes):
    table = doxa.datasets.load("house_votes")
    n_missing = (table.codes[table.row_index, 1:] < 0).sum(axis=1)
    area = np.prod(votes[1].ellipses()[:2], axis=0)
    assert area[n_missing >= 8].min() > area[n_missing == 0].mean()


def test_ellipses_are_the_contours_of_the_covariances():
    rng = np.random.default_rng(SEED)
    found = latent_map(simulate(rng, random_parameters(rng, 7, 2), 30)[0])
    for n_sd in (1.0, 2.5):
        major, minor, angle = found.ellipses(n_sd)
        assert (major >= minor).all()
        assert (minor > 0).all()
        assert ((angle > -90) & (angle <= 90)).all()
        for t in range(30):
            turn = np.radians(angle[t])
            axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
            rebuilt = axes @ np.diag([major[t] ** 2, minor[t] ** 2]) @ axes.T
            assert np.allclose(rebuilt, n_sd**2 * found.covariances[t], atol=1e-12)


def test_frames_files_and_options_are_passed_on(tmp_path):
    rng = np.random.default_rng(SEED)
    codes = simulate(rng, random_parameters(rng, 4, 1), 60)[0]
    frame = pytest.importorskip("pandas").DataFrame(codes, columns=list("abcd"))
    frame.to_csv(tmp_path / "cells.csv", index=False)
    by_array = latent_map(codes, 1, prior_scale=2.0)
    for source in (frame, tmp_path / "cells.csv", str(tmp_path / "cells.csv")):
        assert np.array_equal(latent_map(source, 1, prior_scale=2.0).positions, by_array.positions)
    assert by_array.positions.shape == (60, 1)
    assert not np.allclose(latent_map(codes, 1).positions, by_array.positions, atol=1e-3)
    counted = latent_map([[0, 1], [1, 0], [1, 1]], 1, counts=[5, 1, 3])
    assert counted.positions.shape == (3, 1)
    assert repr(counted) == "<LatentMap(n_rows=3, n_components=1, n_columns=2)>"


def test_bad_input_is_refused_in_words():
    line = latent_map([[0, 1], [1, 0], [1, 1]], 1)
    with pytest.raises(ArgumentError, match=r"the map has n_components=1; ellipses need 2"):
        line.ellipses()
    flat = LatentMap(np.zeros((1, 2)), np.eye(2)[None], line.fit)
    for n_sd in (0, -1.0, np.inf, np.nan):
        with pytest.raises(ArgumentError, match=r"n_sd is .*; it must be above 0 and finite"):
            flat.ellipses(n_sd)
    with pytest.raises(ArgumentError, match=r"n_components is 2; it must be at most 1, the number of columns"):
        latent_map([[0], [1]])

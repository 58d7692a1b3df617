"""Kinds of family by their contract: doxa's own, and one that a user wrote."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import betaln

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.store import RunFileError
from doxa.models.bits import unpack_rows
from doxa.structure import BIC, K2, BDeu, FamilyKind, FamilyMixture, FamilyParameters, Logistic
from doxa.structure.cases.incomplete import IncompleteData, enumerate_joint
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.kind import KINDS, CalledScorer
from doxa.structure.limits import capped
from support.checks import z_limit
from support.tables import skewed_table


@dataclass(frozen=True)
class Dose(FamilyKind):
    """How many of the parents are in their second state says all."""

    prior_count: float = 0.5

    name: ClassVar[str] = "test_dose"
    most_states: ClassVar[int | None] = 2

    def counts(self, codes, cases, k):
        found = np.full((k + 1, 2), self.prior_count)
        np.add.at(found, (codes[:, 1:].sum(axis=1), codes[:, 0]), cases)
        return found

    def log_marginal_likelihood(self, codes, cases, sizes):
        found = self.counts(codes, cases, len(sizes) - 1)
        return float((betaln(*found.T) - betaln(self.prior_count, self.prior_count)).sum())

    def parameters(self, codes, cases, sizes, stream):
        return DoseParameters(self.counts(codes, cases, len(sizes) - 1), stream)


class DoseParameters(FamilyParameters):
    def __init__(self, counts, stream):
        self.counts, self.stream = counts, stream
        self.dose = [configuration.bit_count() for configuration in range(2 ** (len(counts) - 1))]

    def log_tables(self, n):
        second = self.stream(1, 0).beta(*self.counts.T[::-1], size=(n, len(self.counts)))[:, self.dose]
        return np.log(np.stack([1 - second, second], axis=-1))

    def log_means(self):
        return np.log(self.counts / self.counts.sum(axis=1, keepdims=True))[self.dose]


@dataclass(frozen=True)
class Broken(FamilyKind):
    """Fails at the first family of two parents."""

    how: str = "raises"
    name: ClassVar[str] = "test_broken"

    def log_marginal_likelihood(self, codes, cases, sizes):
        if len(sizes) < 3:
            return -float(cases.sum())
        if self.how == "raises":
            raise ZeroDivisionError("a family of two parents")
        return {"nan": np.nan, "infinity": np.inf}[self.how]


KINDS_OF_FAMILY = [BDeu(2.0), K2(0.5), BIC(), Logistic(), FamilyMixture(), Dose()]
TABLE = skewed_table(4, 40, seed=3)


def cells_of(table, child, parents):
    """Distinct states of a family and how often each occurs, counted row by row."""
    counted: dict[tuple[int, ...], int] = {}
    for row, times in zip(table.codes.tolist(), table.counts.tolist(), strict=True):
        key = tuple(row[j] for j in (child, *parents))
        counted[key] = counted.get(key, 0) + times
    return np.array(list(counted)), np.array(list(counted.values())), table.n_states[[child, *parents]]


@pytest.mark.parametrize("kind", KINDS_OF_FAMILY, ids=lambda kind: kind.name)
def test_compiled_loops_and_the_kind_itself_say_the_same(kind):
    scores = FamilyScores(TABLE, kind)
    for child, parents in ((0, ()), (1, (3,)), (2, (0, 1, 3))):
        names = tuple(TABLE.names[j] for j in parents)
        own = kind.log_marginal_likelihood(*cells_of(TABLE, child, parents))
        assert scores.log_score(TABLE.names[child], names) == pytest.approx(own, abs=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS_OF_FAMILY if kind.is_probability], ids=lambda kind: kind.name)
def test_scores_are_probabilities(kind):
    """Over all that a node of two states may be in five cases, they sum to 1; BIC's do not."""
    parents = np.array([[0, 0], [0, 1], [1, 1], [1, 1], [1, 0]])

    def total(kind):
        logs = []
        for node in product((0, 1), repeat=5):
            codes, cases = np.unique(np.column_stack([node, parents]), axis=0, return_counts=True)
            logs.append(kind.log_marginal_likelihood(codes, cases, np.array([2, 2, 2])))
        return np.exp(logs).sum()

    assert total(kind) == pytest.approx(1.0, abs=0.02 if kind.has_coefficients else 1e-12)  # scores to .01 nats each
    assert abs(total(BIC()) - 1.0) > 0.1


@pytest.mark.parametrize("sampler", ["auto", "single_edge", "tempered"])
def test_samplers_take_a_kind_of_ones_own(sampler):
    exact = enumerate_posterior(FamilyScores(TABLE, Dose())).edge_probabilities
    sampled = doxa.learn(TABLE, score=Dose(), prior="uniform", sampler=sampler, exact=False, draws=500, seed=1)
    found = sampled.edge_diagnostics
    off = ~np.eye(4, dtype=bool)
    assert np.abs((found.probability - exact) / found.mcse)[off].max() < z_limit(12)
    other = enumerate_posterior(FamilyScores(TABLE, BDeu())).edge_probabilities
    assert np.abs((found.probability - other) / found.mcse)[off].max() > 2 * z_limit(12)  # tables say something else
    summed = doxa.learn(TABLE, score=Dose(), prior="uniform", exact=True)
    np.testing.assert_allclose(summed.edge_diagnostics.probability, exact, atol=1e-12)


def test_missing_cells_are_drawn_under_a_kind_of_ones_own():
    codes = [[1, 0, 0], [0, 1, 1], [1, 1, -1], [0, -1, 1], [0, 0, 0], [1, 1, 0]]  # tables say something else
    table = Table.from_codes(["a", "b", "c"], [["no", "yes"]] * 3, codes * 2)
    posterior = doxa.learn(table, score=Dose(), prior="uniform", draws=300, thin=24, seed=1, workers=1)
    data = IncompleteData(table, Dose(), posterior.options.structure_prior)
    exact = enumerate_joint(data, capped([2, 2, 2]))
    found, off = posterior.edge_diagnostics, ~np.eye(3, dtype=bool)
    z = np.abs((found.probability - exact.edge_probabilities) / found.mcse)[off]
    assert z.max() < z_limit(6)
    of_tables = enumerate_joint(IncompleteData(table, BDeu(), data.prior), capped([2, 2, 2]))
    assert np.abs((found.probability - of_tables.edge_probabilities) / found.mcse)[off].max() > z_limit(6)
    cells = posterior.impute()
    second = cells[cells["state"] == "yes"]["probability"].to_numpy()
    assert np.abs(np.sort(second) - np.sort(exact.cell_probabilities[:, 1])).max() < 0.05  # in another order


def test_averages_ask_the_kind_for_its_parameters():
    posterior = doxa.learn(TABLE, score=Dose(), prior="uniform", seed=1)
    listed = enumerate_posterior(FamilyScores(TABLE, Dose()))
    kind, mean = Dose(), 0.0
    for adjacency, weight in zip(unpack_rows(listed.rows, 4), listed.probability, strict=True):
        joint = np.ones((2,) * 4)
        for child in range(4):
            parents = tuple(np.flatnonzero(adjacency[:, child]).tolist())
            codes, cases, _ = cells_of(TABLE, child, parents)
            counts = kind.counts(codes, cases, len(parents))
            for states in product((0, 1), repeat=4):
                dose = sum(states[j] for j in parents)
                joint[states] *= counts[dose, states[child]] / counts[dose].sum()
        mean += weight * joint[:, 1].sum()
    answer = posterior.query({TABLE.names[1]: TABLE.states[1][1]}, networks=None)
    assert abs(answer.value - mean) < 4 * answer.mcse
    with pytest.raises(ArgumentError, match="which have no coefficients"):
        posterior.coefficients(TABLE.names[1])


def test_a_kind_without_parameters_says_so():
    posterior = doxa.learn(TABLE, score=Broken(), max_parents=1, seed=1)
    with pytest.raises(ArgumentError, match=r"Broken\(how='raises'\), which says nothing about parameters"):
        posterior.query({TABLE.names[1]: TABLE.states[1][1]})
    assert posterior.query({TABLE.names[1]: TABLE.states[1][1]}, prior=BDeu(1.0)).mcse >= 0


@pytest.mark.parametrize("way", [{"exact": True}, {"exact": False}, {"sampler": "single_edge", "draws": 50}])
@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("raises", ZeroDivisionError, "a family of two parents"),
        ("nan", ArgumentError, r"Broken\(how='nan'\) gives a family the log marginal likelihood nan"),
        ("infinity", ArgumentError, "gives a family the log marginal likelihood inf"),
    ],
)
def test_what_goes_wrong_in_a_kind_reaches_the_user(how, error, message, way):
    with pytest.raises(error, match=message):
        doxa.learn(TABLE, score=Broken(how), prior="uniform", seed=1, workers=1, **way)


def test_what_goes_wrong_on_a_completion_reaches_the_user():
    table = Table.from_codes(["a", "b", "c"], [["no", "yes"]] * 3, [[0, 0, 0], [1, 1, 1], [1, 0, -1]] * 3)
    with pytest.raises(ZeroDivisionError, match="a family of two parents"):
        doxa.learn(table, score=Broken(), prior="uniform", draws=50, seed=1, workers=1)


def test_run_files_know_a_kind_by_its_name(tmp_path, monkeypatch):
    path = tmp_path / "run.doxa"
    whole = doxa.learn(TABLE, score=Dose(0.25), draws=40, warmup=10, thin=10, seed=1)
    doxa.learn(TABLE, score=Dose(0.25), draws=20, warmup=10, thin=10, seed=1, store=path)
    assert doxa.load(path, TABLE).options.score == Dose(0.25)
    np.testing.assert_array_equal(doxa.resume(path, TABLE, draws=40).trace["rows"], whole.trace["rows"])
    monkeypatch.delitem(KINDS, "test_dose")
    with pytest.raises(RunFileError, match="test_dose"):
        doxa.load(path)


def test_names_of_doxas_own_kinds_are_taken():
    with pytest.raises(ArgumentError, match=r"has the name 'bdeu', which is BDeu's"):
        type("Mine", (FamilyKind,), {"name": "bdeu", "__module__": "mine"})
    assert KINDS["bdeu"] is BDeu


def test_refused():
    three = skewed_table(3, 20, seed=1, n_states=3)
    with pytest.raises(ArgumentError, match="the test_dose score needs columns of two states, and the table has"):
        doxa.learn(three, score=Dose())
    with pytest.raises(ArgumentError, match="score is 'dose'; it must be one of"):
        doxa.learn(TABLE, score="dose")
    assert np.isfinite(CalledScorer(Dose(), FamilyScores(TABLE).data).addresses).all()

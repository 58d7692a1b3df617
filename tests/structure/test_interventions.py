"""Interventions: sums over all graphs by arithmetic of their own, samplers, missing cells, parameters and classes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import doxa
from doxa.data import Table
from doxa.data.interventions import Interventions, with_interventions
from doxa.data.scaled import scaled
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models.bits import unpack_rows
from doxa.structure import BIC, K2, BDeu, BGe
from doxa.structure.averaging.cross_validation import cross_validate
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.families.additive.kinds import Additive, AdditiveMixture
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.gaussian.kinds import ConditionalGaussian, GaussianBIC
from doxa.structure.families.kind import FamilyKind
from doxa.structure.families.logistic.score import FamilyMixture, Logistic
from doxa.structure.posterior.relations import class_rows

NAMES = ("x0", "x1", "x2")
LIMIT = 4.9  # standard errors: a false alarm in a million


@dataclass(frozen=True)
class Smoothed(FamilyKind):
    """A kind of a user's own: tables with the count 2 in every cell, scored in Python."""

    name: ClassVar[str] = "smoothed_here"

    def log_marginal_likelihood(self, codes, cases, sizes):
        return K2(2.0).log_marginal_likelihood(codes, cases, sizes)


def frame_of(numbers=(), n=60, seed=4, weak=0.35):
    """Three columns in a chain, those in ``numbers`` normal, the others of two states; a third of the rows set."""
    rng = np.random.default_rng(seed)
    done = rng.integers(-3, 3, n)  # which column was set, if any
    values = np.zeros((n, 3))
    for j in range(3):
        above = values[:, j - 1] if j else np.zeros(n)
        if j in numbers:
            own, free = weak * 2 * above + rng.normal(size=n), rng.normal(2.0, 1.0, n)
        else:
            own, free = rng.random(n) < 0.5 + weak * np.sign(above - 0.3) * (j > 0), rng.random(n) < 0.7
        values[:, j] = np.where(done == j, free, own)
    columns = {
        name: values[:, j] if j in numbers else np.where(values[:, j] > 0, "yes", "no") for j, name in enumerate(NAMES)
    }
    named = np.array([*NAMES, "", "", ""], dtype=object)[done]
    return pd.DataFrame({**columns, "done": pd.Series(named).replace("", None)}), done


def dags_of_three():
    return [unpack_rows(rows, 3) for rows in all_dags(3)]


def family_scores(kind, cells, sizes, done, imperfect=False):
    """Of every node and parent set, from the rows in which the node was not set; ``cells`` are scaled."""
    found = {}
    for node in range(3):
        for parents in itertools.chain(*(itertools.combinations({0, 1, 2} - {node}, k) for k in range(3))):
            members = [node, *parents]
            parts = [done != node, *([done == node] if imperfect else [])]
            found[node, parents] = sum(
                kind.of_node(node).log_marginal_likelihood(
                    cells[part][:, members], np.ones(part.sum(), dtype=np.int64), np.array(sizes)[members]
                )
                for part in parts
            )
    return found


def edges_by_hand(kind, cells, sizes, done, imperfect=False):
    scores = family_scores(kind, cells, sizes, done, imperfect)
    graphs = dags_of_three()
    log_weight = np.array(
        [sum(scores[j, tuple(np.flatnonzero(g[:, j]).tolist())] for j in range(3)) for g in graphs], dtype=np.float64
    )
    weight = np.exp(log_weight - log_weight.max())
    return np.tensordot(weight / weight.sum(), np.array(graphs, dtype=np.float64), 1)


def edge_matrix(posterior):
    found = np.zeros((3, 3))
    for row in posterior.edges().itertuples():
        found[NAMES.index(row.source), NAMES.index(row.target)] = row.probability
    return found


KINDS = [
    (BDeu(), {"score": "bdeu"}, ()),
    (K2(), {"score": "k2"}, ()),
    (BIC(), {"score": "bic"}, ()),
    (Smoothed(), {"score": Smoothed()}, ()),
    (Logistic(), {"family": "logistic"}, ()),
    (FamilyMixture(), {"family": "auto"}, ()),
    (BGe(alpha_w=5.0), {"score": BGe(alpha_w=5.0)}, (0, 1, 2)),
    (GaussianBIC(), {"score": "gaussian_bic"}, (0, 1, 2)),
    (ConditionalGaussian(alpha_w=4.0), {"score": ConditionalGaussian(alpha_w=4.0)}, (1, 2)),
    (Additive(alpha_w=4.0), {"score": Additive(alpha_w=4.0)}, (0, 2)),
    (AdditiveMixture(alpha_w=4.0), {"score": AdditiveMixture(alpha_w=4.0)}, (0, 2)),
]


@pytest.mark.parametrize(("kind", "asked", "numbers"), KINDS, ids=lambda one: getattr(one, "name", None))
@pytest.mark.parametrize("imperfect", [False, True])
def test_sums_over_graphs_leave_out_rows_in_which_a_node_was_set(kind, asked, numbers, imperfect):
    frame, done = frame_of(numbers)
    table = doxa.read_table(frame.drop(columns="done"))
    if numbers:
        values = scaled(table).values.T[table.row_index]
        cells = np.where(np.isnan(values), table.codes[table.row_index], values)
        sizes = np.where(table.is_number, 0, table.n_states)
        of_kind = _with_numbers(kind, len(numbers))
    else:
        cells, sizes, of_kind = table.codes[table.row_index].astype(np.int64), table.n_states, kind
    expected = edges_by_hand(of_kind, cells, sizes, done, imperfect)
    found = doxa.learn(frame, interventions="done", imperfect=imperfect, prior="uniform", exact=True, **asked)
    tolerance = 0.02 if isinstance(kind, (Logistic, FamilyMixture, Additive, AdditiveMixture)) else 1e-8
    assert np.abs(edge_matrix(found) - expected).max() < tolerance
    nobody = edges_by_hand(of_kind, cells, sizes, np.full(len(done), -1))
    assert np.abs(edge_matrix(found) - nobody).max() > tolerance  # who takes no notice of what was set is found out


def _with_numbers(kind, n_numbers):
    """The kind, with alpha_w such that it says of a family alone what it says of it in the table."""

    class OfTable:
        def of_node(self, node):
            return _OfFamily(kind.of_node(node), n_numbers)

    return OfTable()


class _OfFamily:
    def __init__(self, kind, n_numbers):
        self.kind, self.n_numbers = kind, n_numbers

    def log_marginal_likelihood(self, cells, cases, sizes):
        from dataclasses import replace

        kind = self.kind
        if hasattr(kind, "alpha_w"):  # a family has fewer columns of numbers than the table: the same freedom
            kind = replace(kind, alpha_w=kind.alpha_w - self.n_numbers + int((np.asarray(sizes) == 0).sum()))
        if np.asarray(sizes)[0] and (np.asarray(sizes)[1:] == 0).any() and isinstance(kind, ConditionalGaussian):
            return -math.inf
        return kind.log_marginal_likelihood(cells, cases, sizes)


SAMPLERS = [
    "auto",
    "single_edge",
    "edge_gibbs",
    "markov_blanket",
    "parent_set_gibbs",
    "edge_reversal",
    "emc3",
    "tempered",
]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_draw_from_the_posterior_with_interventions(sampler):
    frame, _ = frame_of(n=40)
    exact = edge_matrix(doxa.learn(frame, interventions="done", prior="uniform", exact=True))
    other = edge_matrix(doxa.learn(frame.drop(columns="done"), prior="uniform", exact=True))
    found = doxa.learn(
        frame, interventions="done", prior="uniform", sampler=sampler, chains=2, draws=2000, thin=20, seed=1
    )
    frequency = edge_matrix(found)
    error = np.full((3, 3), np.inf)
    for row in found.edges().itertuples():
        error[NAMES.index(row.source), NAMES.index(row.target)] = max(row.mcse, 1e-3)
    assert (np.abs(frequency - exact) < LIMIT * error).all()
    assert not (np.abs(frequency - other) < LIMIT * error).all()


def with_holes(frame, done, holes):
    made = frame.copy()
    for row, name in holes:
        assert done[row] != NAMES.index(name)  # what was set is known
        made.loc[row, name] = None
    return made


def free_cells(done, n, seed=2):
    """Cells that nobody set, in different rows."""
    rng = np.random.default_rng(seed)
    return [(int(row), NAMES[int(rng.choice([j for j in range(3) if j != done[row]]))]) for row in range(n)]


def test_missing_cells_with_interventions_are_drawn_from_their_posterior():
    frame, done = frame_of(n=30)
    holes = free_cells(done, 5)
    holed = with_holes(frame, done, holes)
    cells = np.stack([(frame[name] == "yes").astype(np.int64) for name in NAMES], axis=1)
    expected, other = (_summed_over_holes(cells, holes, which) for which in (done, np.full(len(done), -1)))
    found = doxa.learn(
        holed, interventions="done", prior="uniform", exact=False, chains=2, draws=1000, warmup=300, seed=1
    )
    imputed = found.impute()
    probability = imputed[imputed.state == "yes"].set_index(["row", "column"])
    mine = np.concatenate([edge_matrix(found).ravel(), [probability.loc[hole].probability for hole in holes]])
    errors = [max(1e-3, value) for value in [*_errors(found).ravel(), *(probability.loc[hole].mcse for hole in holes)]]
    assert (np.abs(mine - expected) < LIMIT * np.array(errors)).all()
    assert not (np.abs(mine - other) < LIMIT * np.array(errors)).all()
    summed = doxa.learn(holed, interventions="done", prior="uniform", exact=True)
    assert np.abs(edge_matrix(summed).ravel() - expected[:9]).max() < 1e-8


def _errors(posterior):
    error = np.full((3, 3), 1.0)
    for row in posterior.edges().itertuples():
        error[NAMES.index(row.source), NAMES.index(row.target)] = row.mcse
    return error


def _summed_over_holes(cells, holes, done):
    """Edge probabilities, then P(yes) of every hole: sums over 25 graphs and all completions."""
    graphs = dags_of_three()
    total = []
    for values in itertools.product((0, 1), repeat=len(holes)):
        made = cells.copy()
        for (row, name), value in zip(holes, values, strict=True):
            made[row, NAMES.index(name)] = value
        scores = family_scores(BDeu(), made, [2, 2, 2], done)
        total += [
            (sum(scores[j, tuple(np.flatnonzero(g[:, j]).tolist())] for j in range(3)), g.ravel(), values)
            for g in graphs
        ]
    log_weight = np.array([one[0] for one in total])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return np.concatenate([weight @ np.array([one[k] for one in total], dtype=np.float64) for k in (1, 2)])


def test_a_missing_number_with_interventions_is_drawn_from_its_posterior():
    """One cell of three columns of numbers: its density is a sum over graphs on a grid."""
    frame, done = frame_of((0, 1, 2), n=25, weak=0.3)
    row = int(np.flatnonzero(done == 2)[0])  # where the child of the middle column was set
    holed = frame.copy()
    holed.loc[row, "x1"] = np.nan
    table = doxa.read_table(holed.drop(columns="done"))
    scaling = scaled(table)
    cells = scaling.values.T[table.row_index]
    grid = np.linspace(-8.0, 8.0, 81)
    graphs = dags_of_three()

    def moments(which):
        log_weight = np.empty((len(grid), len(graphs)))
        for k, value in enumerate(grid):
            made = cells.copy()
            made[row, 1] = value
            scores = family_scores(_with_numbers(BGe(alpha_w=5.0), 3), made, [0, 0, 0], which)
            log_weight[k] = [sum(scores[j, tuple(np.flatnonzero(g[:, j]).tolist())] for j in range(3)) for g in graphs]
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        value = scaling.centre[1] + scaling.scale[1] * (weight.sum(axis=1) @ grid)
        return np.append(np.tensordot(weight.sum(axis=0), np.array(graphs, dtype=np.float64), 1).ravel(), value)

    found = doxa.learn(
        holed, interventions="done", score=BGe(alpha_w=5.0), prior="uniform", chains=2, draws=1000, warmup=300, seed=1
    )
    imputed = found.impute().iloc[0]
    mine = np.append(edge_matrix(found).ravel(), imputed["mean"])
    errors = np.maximum(1e-3, np.append(_errors(found).ravel(), imputed["mcse"]))
    assert (np.abs(mine - moments(done)) < LIMIT * errors).all()
    assert not (np.abs(mine - moments(np.full(len(done), -1))) < LIMIT * errors).all()


def test_parameters_are_those_of_rows_in_which_nobody_intervened():
    frame, done = frame_of(n=200)
    graph = [("x0", "x1"), ("x1", "x2")]
    posterior = doxa.learn(
        frame, interventions="done", required=graph, forbidden=[("x0", "x2")], prior="uniform", exact=True
    )
    table = posterior.network("most_probable").tables["x1"]
    own = frame[done != 1]
    for k, above in enumerate(("no", "yes")):
        here = own[own.x0 == above]
        assert table[k, 1] == pytest.approx(((here.x1 == "yes").sum() + 0.25) / (len(here) + 0.5))
        everywhere = frame[frame.x0 == above]
        assert table[k, 1] != pytest.approx(((everywhere.x1 == "yes").sum() + 0.25) / (len(everywhere) + 0.5))


def test_regressions_are_those_of_rows_in_which_nobody_intervened():
    frame, done = frame_of((0, 1, 2), n=400)
    posterior = doxa.learn(frame, interventions="done", required=[("x0", "x1")], prior="uniform", exact=True)
    found = posterior.effect("x0", "x1", values=(0.0, 1.0))
    own = frame[done != 1]
    slope = np.polyfit(own.x0, own.x1, 1)[0]
    assert found.value == pytest.approx(slope, abs=0.05)
    assert np.polyfit(frame.x0, frame.x1, 1)[0] != pytest.approx(slope, abs=0.05)


def test_classes_are_those_of_hauser_and_buehlmann():
    """Same skeleton and v-structures, and the same skeletons of all mutilated graphs; lines where members differ."""
    targets = np.array([[True, False, False, False], [False, True, True, False]])
    rows = all_dags(4)
    graphs = np.array([unpack_rows(one, 4) for one in rows])
    members: dict[bytes, list[int]] = {}
    for k, graph in enumerate(graphs):
        skeleton = graph | graph.T
        colliders = [
            (i, j, c) for c in range(4) for i in range(4) for j in range(i)
            if graph[i, c] and graph[j, c] and not skeleton[i, j]
        ]  # fmt: skip
        cut = [graph & ~target[None, :] for target in targets]
        key = skeleton.tobytes() + repr(colliders).encode() + b"".join((one | one.T).tobytes() for one in cut)
        members.setdefault(key, []).append(k)
    directed, undirected = (np.array([unpack_rows(one, 4) for one in part]) for part in class_rows(rows, targets))
    for same in members.values():
        every, some = graphs[same].all(axis=0), graphs[same].any(axis=0)
        assert (directed[same] == every).all()
        assert (undirected[same] == ((some & ~every) | (some & ~every).T)).all()
    assert len(members) > len({(a.tobytes(), b.tobytes()) for a, b in zip(*class_rows(rows), strict=True)})


def test_the_most_probable_class_is_interventional():
    frame, _ = frame_of(n=1500)
    watched = doxa.learn(frame.drop(columns="done"), seed=1).most_probable_class().cpdag
    known = doxa.learn(frame, interventions="done", seed=1).most_probable_class().cpdag
    assert known.directed == {("x0", "x1"), ("x1", "x2")}
    assert not watched.directed
    table = doxa.learn(frame, interventions="done", seed=1).cpdag_edges()
    assert set(table[table.probability > 0.9].kind) == {"directed"}


def test_a_column_and_a_mapping_of_rows_say_the_same():
    frame, done = frame_of(n=50)
    rows = {row: NAMES[which] for row, which in enumerate(done) if which >= 0}
    one = doxa.learn(frame, interventions="done", exact=True)
    two = doxa.learn(frame.drop(columns="done"), interventions=rows, exact=True)
    assert (edge_matrix(one) == edge_matrix(two)).all()
    assert one.options.data_digest == two.options.data_digest
    both = frame.copy()
    both["done"] = [None if which < 0 else f"{NAMES[which]}; {NAMES[which - 1]}" for which in done]
    each = {row: [NAMES[which], NAMES[which - 1]] for row, which in enumerate(done) if which >= 0}
    table = with_interventions(doxa.read_table(both), Interventions.of("done"))
    again = with_interventions(doxa.read_table(frame.drop(columns="done")), Interventions.of(each))
    assert table.digest == again.digest
    assert table.target_sets == again.target_sets
    assert (table.own_counts(0) + np.where(table.interventions[:, 0] == -1, table.counts, 0) == table.counts).all()


def test_runs_with_interventions_are_kept_and_gone_on_with(tmp_path):
    frame, done = frame_of(n=60)
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False)
    options = {"interventions": "done", "imperfect": ["x2"], "chains": 2, "seed": 3, "thin": 20}
    whole = doxa.learn(path, draws=40, **options)
    doxa.learn(path, draws=20, store=tmp_path / "run.doxa", **options)
    resumed = doxa.resume(tmp_path / "run.doxa", path, draws=40)
    loaded = doxa.load(tmp_path / "run.doxa")
    assert (resumed.trace["rows"] == whole.trace["rows"]).all() or resumed.options == whole.options
    assert loaded.options == whole.options
    assert loaded.options.interventions.imperfect == ("x2",)
    assert (loaded.table.interventions == whole.table.interventions).all()
    rows = {row: NAMES[which] for row, which in enumerate(done) if which >= 0}
    kept = doxa.learn(frame.drop(columns="done"), interventions=rows, exact=True)
    kept.save(tmp_path / "exact.doxa")
    assert doxa.load(tmp_path / "exact.doxa", frame.drop(columns="done")).options == kept.options


def test_targets_of_interventions_are_learned():
    frame, done = frame_of(n=400)
    frame["done"] = np.where(done == 1, "drug", None)
    frame.loc[done == 1, "x1"] = "yes"
    posterior = doxa.learn(frame, interventions="done", uncertain_targets=True, exact=True)
    assert posterior.names == (*NAMES, "intervention: drug")
    edges = posterior.edges().set_index(["source", "target"]).probability
    assert edges["intervention: drug", "x1"] > 0.99
    assert edges["intervention: drug", "x2"] < 0.2
    assert not any(target == "intervention: drug" for _, target in edges[edges > 0].index)
    by_hand = frame.assign(drug=np.where(done == 1, "yes", "no")).drop(columns="done")
    other = doxa.learn(by_hand, forbidden=[(name, "drug") for name in NAMES], exact=True)
    assert other.edges().probability.sum() == pytest.approx(edges.sum(), abs=1e-9)
    assert (
        doxa.learn(posterior.table, interventions="done", uncertain_targets=True, exact=True).names == posterior.names
    )


def test_what_networks_say_is_compared_with_rows_that_were_only_watched():
    frame, done = frame_of(n=300)
    checks = doxa.learn(frame, interventions="done", exact=True).predictive_checks()
    count = checks[(checks.statistic == "count") & (checks.column == "x1") & (checks.other == "yes")].iloc[0]
    assert count.observed == (frame[done < 0].x1 == "yes").sum()
    assert checks["tail"].between(0.001, 0.999).all()


def test_bad_interventions_are_refused():
    frame, _ = frame_of(n=40)
    plain = frame.drop(columns="done")
    for options, error, words in [
        ({"interventions": "dose"}, ArgumentError, "'dose', which is not a column; there are"),
        ({"interventions": {0: "x9"}}, ArgumentError, "names 'x9', which is not a column.*uncertain_targets"),
        ({"interventions": {99: "x0"}}, ArgumentError, "has the row 99, and the table has 40 rows"),
        ({"interventions": {-1: "x0"}}, ArgumentError, "has the row -1; rows are whole numbers"),
        ({"interventions": {0: [3]}}, ArgumentTypeError, r"interventions\[0\] has 3"),
        ({"interventions": 7}, ArgumentTypeError, "interventions is 7; give a column or a mapping"),
        ({"imperfect": True}, ArgumentError, "imperfect is given without interventions"),
        ({"uncertain_targets": True}, ArgumentError, "uncertain_targets is given without interventions"),
        ({"interventions": "done", "imperfect": ["x7"]}, ArgumentError, "imperfect names 'x7', which is not a column"),
        ({"interventions": {0: "x0"}, "imperfect": ["x1"]}, ArgumentError, "names 'x1', on which no row"),
        ({"interventions": "done", "imperfect": True, "uncertain_targets": True}, ArgumentError, "both given"),
        ({"interventions": "done", "uncertain_targets": 1}, ArgumentTypeError, "must be True or False"),
    ]:
        of = frame if options.get("interventions") == "done" else plain
        with pytest.raises(error, match=words):
            doxa.learn(of, **options)
    holed = plain.copy()
    holed.loc[3, "x1"] = None
    with pytest.raises(ArgumentError, match="'x1' was set in row 3, where its cell is missing; fill in"):
        doxa.learn(holed, interventions={3: "x1"})
    with pytest.raises(ArgumentError, match="a column of numbers"):
        doxa.learn(plain.assign(dose=np.linspace(0.0, 1.0, 40)), interventions="dose")
    with pytest.raises(ArgumentError, match="learned with interventions, which new rows do not have"):
        doxa.learn(frame, interventions="done").update(plain)
    with pytest.raises(ArgumentError, match="cannot be held out"):
        cross_validate(doxa.read_table(frame), "x2", interventions="done")
    codes, states = [[0, 0], [1, -1]], [("a", "b")] * 2
    for done_there, words in [
        ([[0, 0]], "has shape"),
        ([[0, 5], [0, 0]], "is 5; it must be"),
        ([[0, 0], [0, -1]], "was set"),
    ]:
        with pytest.raises(TableError, match=words):
            Table.from_codes(["u", "v"], states, codes, interventions=done_there)


def test_a_column_that_was_always_set_says_nothing_of_its_parents():
    frame, _ = frame_of(n=80)
    rows = dict.fromkeys(range(80), "x1")
    posterior = doxa.learn(frame.drop(columns="done"), interventions=rows, prior="uniform", exact=True)
    assert "intervened on 'x1' in every row" in posterior.verdict
    scores = FamilyScores(posterior.table, BDeu())
    assert [scores.log_score("x1", above) for above in ((), ("x0",), ("x0", "x2"))] == [0.0, 0.0, 0.0]
    assert scores.log_score("x2", ("x1",)) == FamilyScores(doxa.read_table(frame).select(NAMES)).log_score(
        "x2", ("x1",)
    )
    half = doxa.learn(frame, interventions="done", exact=True)
    assert "every row" not in half.verdict

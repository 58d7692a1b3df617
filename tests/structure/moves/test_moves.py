"""Moves as objects: names, settings and back, what each refuses, whose turn it is in a cycle."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure import EMC3, Auto, Cycle, EdgeGibbs, EdgeReversal, MarkovBlanket, ParentSetGibbs, SingleEdge
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import capped
from doxa.structure.moves.by_name import MOVES, check_move, move_from_settings, move_settings
from doxa.structure.moves.sampler import StructureSampler
from support.tables import skewed_table

NAMED = [name for name in MOVES if name not in ("cycle", "exact")]
KNOWN = ", ".join(map(repr, NAMED))
EXAMPLES = [
    Auto(),
    Auto(single_edge=0.5, edge_reversal=0.1),
    SingleEdge(),
    EdgeGibbs(),
    EdgeGibbs(scan="random"),
    EdgeGibbs(scan=[(0, 1), (2, 1), (0, 2)]),
    EMC3(),
    EMC3(3, published=True),
    MarkovBlanket(),
    MarkovBlanket(k=2, w=0.5, covered_arc_reversals=0, published=True, scan="random"),
    MarkovBlanket(pair_weights=np.array([[0, 2, 3], [2, 0, 0.5], [3, 0.5, 0]])),
    ParentSetGibbs(),
    EdgeReversal(),
    Cycle([(SingleEdge(), 10), (EdgeGibbs(scan=[(0, 1)]), 3), (MarkovBlanket(k=1), 4)]),
    Cycle([(Cycle([(SingleEdge(), 2), (Auto(), 1)]), 5)]),
]


# --- names and settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMED)
def test_a_name_means_the_move_with_its_defaults(name):
    move = check_move(name)
    assert move == MOVES[name]()
    assert move.name == name
    assert move.bias is None
    assert check_move(move) is move


@pytest.mark.parametrize(
    ("sampler", "error", "message"),
    [
        ("gibbs", ArgumentError, f"sampler is 'gibbs'; it must be one of {KNOWN}"),
        ("cycle", ArgumentError, f"sampler is 'cycle'; it must be one of {KNOWN}"),
        ("", ArgumentError, f"sampler is ''; it must be one of {KNOWN}"),
        (
            None,
            ArgumentTypeError,
            f"sampler is None; it must be a name ({KNOWN}) or a move such as SingleEdge()",
        ),
        (
            EMC3,
            ArgumentTypeError,
            f"sampler is {EMC3!r}; it must be a name ({KNOWN}) or a move such as SingleEdge()",
        ),
        (7, ArgumentTypeError, f"sampler is 7; it must be a name ({KNOWN}) or a move such as SingleEdge()"),
    ],
)
def test_other_samplers_are_refused(sampler, error, message):
    with pytest.raises(error) as refused:
        check_move(sampler)
    assert str(refused.value) == message


def test_every_move_has_an_example_here():
    assert {move.name for move in EXAMPLES} >= set(MOVES) - {"tempered", "exact"}


@pytest.mark.parametrize("move", EXAMPLES, ids=repr)
def test_settings_survive_json(move):
    settings = move_settings(move)
    assert settings["name"] == move.name
    again = move_from_settings(json.loads(json.dumps(settings)))
    assert again == move
    assert type(again) is type(move)
    assert hash(again) == hash(move)
    assert move_settings(again) == settings


class Mine(SingleEdge):
    """A user's own move under the name of one of doxa's."""


@pytest.mark.parametrize("move", [Mine(), Cycle([(Mine(), 5)])], ids=["alone", "in a cycle"])
def test_moves_of_others_cannot_be_kept(move):
    with pytest.raises(ArgumentError) as refused:
        move_settings(move)
    assert str(refused.value) == f"sampler is {Mine()!r}; only doxa's own samplers can be kept in a run file"


def nested(depth):
    settings = {"name": "single_edge"}
    for _ in range(depth):
        settings = {"name": "cycle", "moves": [[settings, 1]]}
    return settings


@pytest.mark.parametrize(
    "settings",
    [
        None,
        [],
        "auto",
        {},
        {"name": "gibbs"},
        {"name": ["auto"]},
        {"name": None},
        {"name": {}},
        {"name": "auto", "speed": 2},
        {"name": "auto", "single_edge": "0.5"},
        {"name": "auto", "single_edge": math.nan},
        {"name": "auto", "single_edge": 10**400},
        {"name": "emc3", "covered_arc_reversals": -1},
        {"name": "emc3", "covered_arc_reversals": 1e300},
        {"name": "markov_blanket", "w": 10**400},
        {"name": "markov_blanket", "scan": ["random"]},
        {"name": "edge_gibbs", "scan": 5},
        {"name": "edge_gibbs", "scan": [[0, 1, 2]]},
        {"name": "edge_gibbs", "scan": [[0.5, 1]]},
        {"name": "edge_gibbs", "scan": [[0, math.inf]]},
        {"name": "edge_gibbs", "scan": [["0", "1"]]},
        {"name": "edge_gibbs", "scan": "backwards"},
        {"name": "cycle"},
        {"name": "cycle", "moves": []},
        {"name": "cycle", "moves": 3},
        {"name": "cycle", "moves": [[{"name": "single_edge"}]]},
        {"name": "cycle", "moves": [[{"name": "single_edge"}, 0]]},
        {"name": "cycle", "moves": [[{"name": "fly"}, 1]]},
        {"name": "cycle", "moves": ["ab"]},
        pytest.param(nested(600), id="a cycle in a cycle in a cycle"),
    ],
    ids=lambda settings: repr(settings)[:60],
)
def test_hostile_settings_are_refused(settings):
    with pytest.raises(ArgumentError, match=r"^the run( uses the|'s) sampler[ .]"):
        move_from_settings(settings)


# --- what each refuses -----------------------------------------------------------------------------------------------


PAIRS = "it must be 'cyclic', 'random', or a sequence of pairs"
FORM = "it holds pairs (move, steps): [(SingleEdge(), 1000)]"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: EdgeGibbs("both"), ArgumentError, f"scan is 'both'; {PAIRS}"),
        (lambda: EdgeGibbs(3), ArgumentTypeError, f"scan is 3; {PAIRS} of column positions"),
        (lambda: EdgeGibbs([0, 1]), ArgumentTypeError, f"scan is [0, 1]; {PAIRS} of column positions"),
        (lambda: EdgeGibbs([(0, 1.5)]), ArgumentTypeError, f"scan is [(0, 1.5)]; {PAIRS} of column positions"),
        (lambda: EdgeGibbs([("a", "b")]), ArgumentTypeError, f"scan is [('a', 'b')]; {PAIRS} of column positions"),
        (
            lambda: EdgeGibbs([(0, 1), (2, 2)]),
            ArgumentError,
            "scan holds the pair (2, 2); a pair is two different positions from 0 on",
        ),
        (
            lambda: EdgeGibbs([(-1, 1)]),
            ArgumentError,
            "scan holds the pair (-1, 1); a pair is two different positions from 0 on",
        ),
        (
            lambda: EMC3(-1),
            ArgumentError,
            "covered_arc_reversals is -1; it must be at least 0",
        ),
        (
            lambda: EMC3(1.5),
            ArgumentTypeError,
            "covered_arc_reversals is 1.5; it must be a whole number of at least 0",
        ),
        (lambda: EMC3(published=1), ArgumentTypeError, "published is 1; it must be True or False"),
        (lambda: Auto(single_edge=0), ArgumentError, "single_edge is 0; it is a share from 0 to 1, above 0"),
        (lambda: Auto(single_edge=1.1), ArgumentError, "single_edge is 1.1; it is a share from 0 to 1, above 0"),
        (lambda: Auto(edge_reversal=-0.1), ArgumentError, "edge_reversal is -0.1; it is a share from 0 to 1"),
        (lambda: Auto(edge_reversal=math.nan), ArgumentError, "edge_reversal is nan; it is a share from 0 to 1"),
        (lambda: Auto(edge_reversal=True), ArgumentTypeError, "edge_reversal is True; it must be a number from 0 to 1"),
        (lambda: Auto(single_edge="x"), ArgumentTypeError, "single_edge is 'x'; it must be a number from 0 to 1"),
        (
            lambda: Auto(single_edge=0.6, edge_reversal=0.5),
            ArgumentError,
            "single_edge, edge_reversal, order_shift and joint_parents are 0.6, 0.5, 0.0, 0.0; "
            "they are shares, of at most 1 together",
        ),
        (lambda: MarkovBlanket(scan="both"), ArgumentError, "scan is 'both'; it must be 'systematic' or 'random'"),
        (
            lambda: MarkovBlanket(pair_weights="all"),
            ArgumentTypeError,
            "pair_weights is no matrix of numbers; give one row of numbers for each column",
        ),
        (
            lambda: MarkovBlanket(pair_weights=[[0, 1]]),
            ArgumentError,
            "pair_weights has shape (1, 2); it must have a row and a column for each column",
        ),
        (
            lambda: MarkovBlanket(pair_weights=[[0, 1, 1], [1, 0, 0], [1, 0, 0]]),
            ArgumentError,
            "pair_weights[1][2] is 0; weights are finite and above 0 (to rule an edge out, use forbidden)",
        ),
        (
            lambda: MarkovBlanket(pair_weights=[[0, 2], [1, 0]]),
            ArgumentError,
            "pair_weights[0][1] is 2 and pair_weights[1][0] is 1; a pair has one weight",
        ),
        (
            lambda: MarkovBlanket(pair_weights=[[0, 1, 1], [1, 0, 1e7], [1, 1e7, 0]]),
            ArgumentError,
            "pair_weights go from 1 to 1e+07; the largest is at most 1e+06 times the smallest, so that every pair has "
            "its turn",
        ),
        (
            lambda: MarkovBlanket(pair_weights=[[0, 1], [1, 0]], published=True),
            ArgumentError,
            "pair_weights is given with published=True; Algorithm 1 proposes all pairs alike",
        ),
        (lambda: Cycle([]), ArgumentError, "moves is empty; give at least one pair (move, steps)"),
        (lambda: Cycle(5), ArgumentTypeError, f"moves is 5; {FORM}"),
        (lambda: Cycle([SingleEdge()]), ArgumentTypeError, f"moves holds SingleEdge(); {FORM}"),
        (
            lambda: Cycle([(SingleEdge, 5)]),
            ArgumentTypeError,
            f"moves holds ({SingleEdge!r}, 5); {FORM}",
        ),
        (lambda: Cycle([("auto", 5)]), ArgumentTypeError, f"moves holds ('auto', 5); {FORM}"),
        (lambda: Cycle([(SingleEdge(), 0)]), ArgumentError, "steps is 0; it must be at least 1"),
        (
            lambda: Cycle([(SingleEdge(), 2.5)]),
            ArgumentTypeError,
            "steps is 2.5; it must be a whole number of at least 1",
        ),
    ],
)
def test_bad_settings_are_refused(make, error, message):
    with pytest.raises(error) as refused:
        make()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("scan", "message"),
    [
        ([(0, 1), (1, 2)], "scan leaves out the pair (0, 2) (columns from 0 on): it could never change"),
        ([], "scan leaves out the pair (0, 1) (columns from 0 on): it could never change"),
        ([(0, 1), (2, 1), (0, 2), (0, 3)], "scan holds the pair (0, 3), but there are only 3 columns"),
        ([(0, 1), (2, 1), (0, 2), (7, 1)], "scan holds the pair (1, 7), but there are only 3 columns"),
    ],
)
def test_scans_that_do_not_fit_the_table_are_refused_when_the_chain_begins(scan, message):
    sampler = StructureSampler(EdgeGibbs(scan), FamilyScores(skewed_table(3, 20, seed=0)), capped([2] * 3), thin=1)
    rng = np.random.default_rng(0)
    with pytest.raises(ArgumentError) as refused:
        sampler.run(sampler.init(rng), 10, rng)
    assert str(refused.value) == message


def test_settings_become_plain_values():
    assert Auto(Fraction(1, 4), np.float32(0.5)) == Auto(0.25, 0.5)
    assert type(Auto(Fraction(1, 4)).single_edge) is float
    assert EdgeGibbs(np.array([[0, 1], [1, 2]])).scan == ((0, 1), (1, 2))
    assert type(EMC3(np.int64(2)).covered_arc_reversals) is int
    assert Cycle(iter([[SingleEdge(), np.int64(2)]])).moves == ((SingleEdge(), 2),)
    assert Auto(single_edge=1, edge_reversal=0).single_edge == 1.0


def test_bias_is_that_of_any_part():
    assert Cycle([(SingleEdge(), 1), (Auto(), 1)]).bias is None
    assert Cycle([(SingleEdge(), 1), (EMC3(published=True), 1)]).bias == EMC3(published=True).bias
    assert MarkovBlanket(published=True).bias.startswith("Algorithm 1 as printed does not keep the posterior")
    assert EMC3(published=True).bias.startswith("covered-arc reversal as printed does not keep the posterior")


def test_lists_are_made_where_a_part_draws_from_them():
    assert not Cycle([(SingleEdge(), 1), (EMC3(), 1)]).uses_table
    assert Cycle([(SingleEdge(), 1), (Cycle([(EdgeReversal(), 1)]), 1)]).uses_table


# --- cycles ----------------------------------------------------------------------------------------------------------


class Diary:
    """A move that only writes down when it is called, and asks for a larger cache now and then."""

    bias = None
    uses_table = False

    def __init__(self, name, length, book, grow_every=0):
        self.name, self.length, self.book, self.grow_every = name, length, book, grow_every
        self.asked = set()

    def cycle_length(self, n_nodes):
        return self.length * (n_nodes if self.name == "blanket" else 1)

    def advance(self, work, first, n_steps, rng):
        del rng
        for step in range(first, n_steps):
            if self.grow_every and len(self.book) % self.grow_every == 0 and len(self.book) not in self.asked:
                self.asked.add(len(self.book))
                return step
            own = (work.position + step) % self.cycle_length(len(work.local))
            self.book.append((self.name, own))
            if (step + 1) % work.thin == 0:
                work.draws[1][(step + 1) // work.thin - 1] = len(self.book)
        return n_steps


def by_hand(parts, n_steps, n_nodes=3):
    """The moves in turn, each going on where it stopped."""
    done = dict.fromkeys((move.name for move, _ in parts), 0)
    book = []
    while len(book) < n_steps:
        for move, steps in parts:
            for _ in range(steps):
                book.append((move.name, done[move.name] % move.cycle_length(n_nodes)))
                done[move.name] += 1
    return book[:n_steps]


def run(move, blocks, thin=1):
    scores = FamilyScores(skewed_table(3, 20, seed=0))
    sampler = StructureSampler(move, scores, capped([2] * 3), thin)
    rng = np.random.default_rng(0)
    state = sampler.init(rng)
    for steps in blocks:
        state, draws, _ = sampler.run(state, steps, rng)
        if thin == 1:
            assert draws["log_score"].tolist() == sorted(draws["log_score"].tolist())
    return state


@pytest.mark.parametrize("blocks", [[1000], [1] * 60, [7, 13, 1, 200], [36, 36], [500, 499, 3]])
@pytest.mark.parametrize("grow_every", [0, 9])
def test_moves_take_their_turns_and_go_on_where_they_stopped(blocks, grow_every):
    book: list[tuple[str, int]] = []
    parts = [(Diary("blanket", 4, book), 5), (Diary("pairs", 3, book, grow_every), 2), (Diary("single", 1, book), 11)]
    cycle = Cycle(parts)
    state = run(cycle, blocks)
    assert book == by_hand(parts, sum(blocks))
    assert state.position == sum(blocks) % cycle.cycle_length(3)


@pytest.mark.parametrize("steps", [1, 4, 5, 6, 12])
def test_a_cycle_is_over_when_every_move_is_at_its_beginning(steps):
    book: list[tuple[str, int]] = []
    parts = [(Diary("blanket", 4, book), steps), (Diary("pairs", 3, book), 2)]
    length = Cycle(parts).cycle_length(3)
    once, twice = by_hand(parts, length), by_hand(parts, 2 * length)
    assert twice[length:] == once
    shorter = [k for k in range(1, length) if length % k == 0 and once == once[:k] * (length // k)]
    assert not shorter


def test_cycles_may_hold_cycles():
    book: list[tuple[str, int]] = []
    inner = Cycle([(Diary("pairs", 3, book), 2), (Diary("single", 1, book), 1)])
    outer = Cycle([(inner, 4), (Diary("blanket", 2, book), 1)])
    state = run(outer, [17, 23, 5])
    names = [name for name, _ in book]
    plain = ["pairs", "pairs", "single"] * 20
    expected = [name for k in range(0, 60, 4) for name in (*plain[k : k + 4], "blanket")]
    assert names == expected[:45]
    pairs = [own for name, own in book if name == "pairs"]
    assert pairs == [k % 3 for k in range(len(pairs))]
    assert state.position == 45 % outer.cycle_length(3)


def test_the_length_of_a_cycle_with_markov_blankets_counts_their_visits():
    blanket = MarkovBlanket(k=5)
    assert blanket.cycle_length(7) == 42
    assert Cycle([(SingleEdge(), 8), (blanket, 42)]).cycle_length(7) == 50
    assert Cycle([(SingleEdge(), 8), (blanket, 6)]).cycle_length(7) == 7 * 14
    assert Cycle([(EdgeGibbs(), 5), (blanket, 4)]).cycle_length(7) == math.lcm(21, 21) * 9
    assert Cycle([(EdgeGibbs(scan="random"), 5)]).cycle_length(7) == 5
    assert Cycle([(EdgeGibbs(scan=[(0, 1), (1, 2), (0, 2), (0, 1)]), 2)]).cycle_length(3) == 4

"""Structure moves as transition matrices over all graphs of three or four nodes, and the transitions their loops make.

A move's matrices come from its own proposals, with the Hastings terms of its own kernel; the target is listed by
`enumerate_posterior`, which knows nothing of moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.structure import (
    BIC,
    EMC3,
    K2,
    Auto,
    Cycle,
    EdgeGibbs,
    EdgeReversal,
    MarkovBlanket,
    ParentSetGibbs,
    SingleEdge,
)
from doxa.structure.exact.enumeration import GraphPosterior, enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import BDeu
from doxa.structure.limits import Limits, make_limits
from doxa.structure.moves.covered_arcs import covered_arc_proposals
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import ParentSets, scaled
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.priors import make_prior
from doxa.testing import metropolis_hastings_matrix, mixture_matrix, proposal_matrices
from support.joint_moves import joint_parents_matrix, order_shift_matrix
from support.tables import skewed_table

Matrix = NDArray[np.float64]

_LIMITS = {
    "required": [("x1", "x3")],
    "forbidden": [("x2", "x1")],
    "tiers": [["x0", "x2"], ["x3"]],
    "max_parents": {"x1": 1, "x3": 2},
}
TARGETS: dict[str, dict[str, Any]] = {
    "3 nodes": {"n": 3, "rows": 40},
    "3 nodes, 12 rows, caps": {"n": 3, "rows": 12, "limits": {"max_parents": {"x0": 1}}},
    "4 nodes": {},
    "caps": {"limits": {"max_parents": {"x0": 1, "x1": 2, "x2": 2, "x3": 2}}},
    "cap 1": {"limits": {"max_parents": 1}},
    "limits": {"limits": _LIMITS},
    "edge log odds": {"prior": {"edge_log_odds": {("x0", "x1"): 1.5, ("x1", "x0"): -0.7, ("x3", "x2"): -2.0}}},
    "in-degree": {"prior": {"kind": "in_degree", "edge_log_odds": -0.4}},
    "K2": {"score": K2()},
    "BIC": {"score": BIC()},
    "sparse": {"prior": {"kind": "sparse"}},
    "configurations": {"limits": {"max_configurations": 4}},
    "K2, odds, configurations": {
        "score": K2(),
        "prior": {"edge_log_odds": {("x0", "x1"): 1.5, ("x3", "x2"): -2.0}},
        "limits": {"max_configurations": 5},
    },
    "K2, limits, odds": {"score": K2(0.5), "limits": _LIMITS, "prior": {"edge_log_odds": {("x0", "x1"): 1.5}}},
}


@dataclass(frozen=True, eq=False)
class Target:
    """A posterior over listed graphs."""

    scores: FamilyScores
    limits: Limits
    posterior: GraphPosterior
    beta: float = 1.0  # the target is the posterior to this power
    lists: ParentSets | None = None  # instead of the complete ones

    @property
    def n_nodes(self) -> int:
        return self.scores.n_nodes

    @property
    def log_target(self) -> NDArray[np.float64]:
        return self.beta * self.posterior.log_score

    @property
    def probability(self) -> NDArray[np.float64]:
        weight = np.exp(self.log_target - self.log_target.max())
        return weight / weight.sum()

    @property
    def table(self) -> ParentSets:
        return parent_sets(self.scores, self.limits, self.beta) if self.lists is None else self.lists


@cache
def target(name: str, beta: float = 1.0) -> Target:
    """The target of this name in `TARGETS`."""
    recipe = TARGETS[name]
    table = skewed_table(recipe.get("n", 4), recipe.get("rows", 60), seed=3, n_states=3)
    limits = make_limits(table.names, n_states=table.n_states, **recipe.get("limits", {}))
    prior = make_prior(table.names, **{"kind": "uniform", **recipe.get("prior", {})})
    scores = FamilyScores(table, recipe.get("score", BDeu()), prior)
    return Target(scores, limits, enumerate_posterior(scores, limits), beta)


def with_partial_lists(of: Target, share: float, seed: int) -> Target:
    """The same target, for moves that draw from lists: each set is listed with this probability."""
    table = of.table
    keep = np.random.default_rng(seed).random(len(table.sets)) < share
    first = np.concatenate([[0], np.cumsum(keep)])[table.first]
    return replace(of, lists=scaled(first, table.sets[keep], table.weight[keep], 1.0))


def key(rows: NDArray[np.uint64]) -> bytes:
    return rows.tobytes()


_outcomes: dict[Any, tuple[Matrix, Matrix]] = {}


def outcomes(move: Any, of: Target, centre: int | None = None) -> tuple[Matrix, Matrix]:
    """What a move proposes, and its log Hastings terms; ``move`` may be "covered arcs" or a pair of nodes too."""
    lists = isinstance(move, ParentSetGibbs | EdgeReversal)
    depends_on_scores = lists or isinstance(move, tuple)
    found = (move, centre, of if depends_on_scores else tuple(array.tobytes() for array in of.limits))
    if found not in _outcomes:
        if move == "covered arcs":
            proposals: Any = partial(covered_arc_proposals, limits=of.limits)
        elif isinstance(move, tuple):
            log_target = {key(rows): score for rows, score in zip(of.posterior.rows, of.log_target, strict=True)}
            proposals = partial(
                EdgeGibbs().proposals, limits=of.limits, pair=move, log_score=lambda rows: log_target[key(rows)]
            )
        elif lists:
            proposals = partial(move.proposals, table=of.table)
        elif centre is not None:
            proposals = partial(move.proposals, limits=of.limits, centre=centre)
        else:
            proposals = partial(move.proposals, limits=of.limits)
        _outcomes[found] = proposal_matrices(list(of.posterior.rows), proposals, key)
    return _outcomes[found]


def listed(move: Any, of: Target, hastings: bool = True, centre: int | None = None) -> Matrix:
    """Transition matrix of one step with these `outcomes`; without the Hastings term if asked for."""
    q, log_hastings = outcomes(move, of, centre)
    return metropolis_hastings_matrix(of.log_target, q, log_hastings if hastings else np.zeros_like(q))


def covered_arc_matrix(of: Target, hastings: bool = True, published: bool = False) -> Matrix:
    """One covered-arc reversal; ``published`` accepts all."""
    if not published:
        return listed("covered arcs", of, hastings)
    q, _ = outcomes("covered arcs", of)
    return q + np.diag(1.0 - q.sum(axis=1))


def step_matrices(move: Any, of: Target, hastings: bool = True) -> list[Matrix]:
    """Transition matrices of the steps of one cycle of a move, in turn."""
    n = of.n_nodes
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    match move:
        case SingleEdge() | ParentSetGibbs() | EdgeReversal():
            return [listed(move, of, hastings)]
        case EdgeGibbs(scan="random"):
            return [mixture_matrix([listed(pair, of, hastings) for pair in pairs])]
        case EdgeGibbs(scan="cyclic"):
            return [listed(pair, of, hastings) for pair in pairs]
        case EdgeGibbs():
            return [listed(pair, of, hastings) for pair in move.scan]
        case EMC3():
            turn = covered_arc_matrix(of, hastings, move.published)
            return [np.linalg.matrix_power(turn, move.covered_arc_reversals) @ listed(SingleEdge(), of, hastings)]
        case Auto():
            parts = [listed(part, of, hastings) for part in (SingleEdge(), EdgeReversal(), ParentSetGibbs())]
            parts[2:2] = together(of)
            return [mixture_matrix(parts, [*move.shares, 1.0 - sum(move.shares)])]
        case MarkovBlanket(scan="systematic", published=False):
            return [step for visit in blanket_visits(move, of, hastings) for step in visit]
        case Cycle():
            own = [step_matrices(part, of, hastings) for part, _ in move.moves]
            done = [0] * len(own)
            turns: list[Matrix] = []
            while len(turns) < move.cycle_length(n):
                for number, (_, steps) in enumerate(move.moves):
                    for _ in range(steps):
                        turns.append(own[number][done[number] % len(own[number])])
                        done[number] += 1
            return turns
    raise AssertionError(f"no matrices for {move!r}")


_together: dict[Target, list[Matrix]] = {}


def together(of: Target) -> list[Matrix]:
    """Transition matrices of a shift in an order and of a joint redrawing, by their plain twins."""
    if of not in _together:
        _together[of] = [order_shift_matrix(of), joint_parents_matrix(of)]
    return _together[of]


def blanket_visits(move: MarkovBlanket, of: Target, hastings: bool = True) -> list[list[Matrix]]:
    """For each centre the steps of a visit of `MarkovBlanket`; covered arcs are turned on arrival."""
    reversals = 1 if move.covered_arc_reversals is None else move.covered_arc_reversals
    arrival = np.linalg.matrix_power(covered_arc_matrix(of), reversals)
    visits = []
    for centre in range(of.n_nodes):
        step = listed(MarkovBlanket(w=move.w, pair_weights=move.pair_weights), of, hastings, centre)
        visits.append([arrival @ step, *[step] * move.k])
    return visits


def path(move: Any, of: Target, n_steps: int, seed: int) -> NDArray[np.int64]:
    """Where a chain goes, every step kept: numbers of the listed graphs, n_steps + 1 of them."""
    sampler = StructureSampler(move, of.scores, of.limits, 1, of.beta)
    rng = np.random.default_rng(seed)
    state = sampler.init(rng)
    _, draws, _ = sampler.run(state, n_steps, rng)
    codes, every = (
        (rows[:, :, 0] << np.arange(0, 4 * of.n_nodes, 4, dtype=np.uint64)).sum(axis=1)
        for rows in (np.concatenate([state.rows[None], draws["rows"]]), of.posterior.rows)
    )
    order = np.argsort(every)
    found = order[np.searchsorted(every, codes, sorter=order)]
    assert np.array_equal(every[found], codes), "the chain has left the listed graphs"
    return found


def transitions(walk: NDArray[np.int64], n_states: int, length: int, stride: int = 1) -> list[NDArray[np.int64]]:
    """Counts of the moves from every ``stride``-th state to the next such, apart for each of ``length`` phases."""
    stops = walk[::stride]
    before, after = stops[:-1], stops[1:]
    return [
        np.bincount(before[phase::length] * n_states + after[phase::length], minlength=n_states**2).reshape(
            n_states, n_states
        )
        for phase in range(length)
    ]

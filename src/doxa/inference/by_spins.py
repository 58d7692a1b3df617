"""Marginals of Ising and Potts models by heat bath, without tables: 64 sites of a grid, or 64 chains, at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, softmax

from doxa.estimates.estimate import Estimate
from doxa.estimates.real import AverageDiagnostics
from doxa.inference.annealing import TablePath, condition_spins, spins_or_tables, turn_over
from doxa.inference.annealing.network_paths import known_spins
from doxa.inference.answers import Answer, certain, certain_answer, in_state
from doxa.inference.chains import ChainRun, Running
from doxa.inference.flat import log_of
from doxa.inference.population import HOPELESS, Around, run_apart
from doxa.inference.spins import IsingGibbs, IsingGrid, IsingModel, PottsBitParallel, PottsGibbs, PottsModel
from doxa.models.evidence import Evidence
from doxa.models.factors import Factor
from doxa.models.ising import IsingNetwork, PairNetwork, PottsNetwork

_THIN = 50  # sweeps behind each kept draw: what a grid's marginals cost is paid once a draw
_SITES_PER_BLOCK = 10**9  # updates between two commits: a second or less
_LANES_THIN = 4  # of 64 chains at a time: draws that are averages of so many vary little, however correlated they are
_PARTICLES = 64  # of Potts models, by tables: an update takes as long as thirty of the chains'
_NOTHING_BEARS = "nothing that is unknown bears on what was asked"
_MOST_BYTES = 2**27  # of one draw of 64 chains, with probabilities for every site and state; beyond it, one chain


def answer_by_spins(network: PairNetwork, evidence: Evidence, query: Sequence[int], running: Running) -> Answer:
    """Marginals with Monte Carlo errors; observed variables become fields on their neighbours."""
    if isinstance(network, PottsNetwork):
        return _answer_potts(network, evidence, query, running)
    assert isinstance(network, IsingNetwork)
    left, free = condition_spins(network, evidence)
    place, states = {v: i for i, v in enumerate(free)}, known_spins(evidence)
    known = {v: in_state(states[v], 2) for v in query if v in states}
    if not free:
        return certain_answer("gibbs", known)
    model = IsingModel(left.edges, left.couplings, left.fields)
    alone = np.diff(model.graph.starts) == 0
    known |= {v: _alone(model.fields[place[v]]) for v in query if v in place and alone[place[v]]}
    if len(known) == len(query):
        return certain_answer("gibbs", known, _NOTHING_BEARS)
    sampler = _sampler(network, model, len(free) == len(network.names))
    names = [f"{network.names[v]} = {network.states[v][1]}" for v in free]
    run = run_apart(
        sampler,
        spins_or_tables(left),
        running,
        np.arange(len(free)),
        np.ones(len(free), dtype=np.intp),
        names.__getitem__,
        first=_aligned(model),
        scalar="energy",
        probability="up",
        steps_per_block=max(1, _SITES_PER_BLOCK // len(free)),
    )
    estimates = {v: known[v] if v in known else _both(run.marginals, place[v]) for v in query}
    return Answer("gibbs", estimates, None, run.judgement, run.numbers)


def _alone(field: float) -> list[Estimate]:
    """Of a spin that is coupled to none."""
    return certain(expit([-2 * field, 2 * field]))


def _aligned(model: IsingModel) -> list[NDArray[np.int64]]:
    """The ground state as far as couplings agree on one, and its opposite; none where they are frustrated.

    Without couplings of either sign these are all up and all down.  Clusters of coupled spins turn over one by one, and
    stay where their fields would make the opposite hopeless.
    """
    signs = turn_over(model.graph)
    if signs is None:
        return []
    coupled = model.graph.couplings != 0
    ends = model.graph.edges[coupled].T
    links = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(model.n_sites, model.n_sites))
    _, cluster = connected_components(links, directed=False)
    pull = np.bincount(cluster, signs * model.fields)
    best = signs * np.where(pull < 0, -1, 1)[cluster]
    opposite = np.where(2 * np.abs(pull) <= HOPELESS, -1, 1)[cluster] * best
    rows = [(row > 0).astype(np.int64) for row in (best, opposite)]
    return rows if (rows[0] != rows[1]).any() else rows[:1]


def _sampler(network: IsingNetwork, model: IsingModel, whole: bool) -> Any:
    shape = network.shape
    if whole and shape is not None and not (network.periodic and (shape[0] % 2 or shape[1] % 2)):
        return IsingGrid(model, shape, thin=_THIN)
    return IsingGibbs(model, thin=_THIN)


def _both(marginals: AverageDiagnostics, k: int) -> list[Estimate]:
    """Down and up: one error, and intervals that mirror each other."""
    down = marginals._replace(value=1 - marginals.value, skew=-marginals.skew)
    return [down.estimate(k), marginals.estimate(k)]


def condition_potts(network: PottsNetwork, evidence: Evidence) -> tuple[PottsModel | None, NDArray[np.intp]]:
    """The Potts model of what is not known, or None; and the state of each variable, -1 where it is not known.

    Soft likelihoods are added to the fields as logarithms, and forbid states where they are 0; where they leave one
    state, the variable is known.
    """
    fields, ends = network.fields.copy(), network.edges
    known = np.full(len(fields), -1, dtype=np.intp)
    for v, likelihood in evidence.soft.items():
        fields[v] += log_of(likelihood)
        possible = np.flatnonzero(likelihood)
        known[v] = possible[0] if len(possible) == 1 else -1
    for v, state in evidence.hard.items():
        known[v] = state
    is_free = known < 0
    if not is_free.any():
        return None, known
    for side in (0, 1):
        mixed = ~is_free[ends[:, side]] & is_free[ends[:, 1 - side]]
        np.add.at(fields, (ends[mixed, 1 - side], known[ends[mixed, side]]), network.couplings[mixed])
    left = is_free[ends].all(axis=1)
    number = np.cumsum(is_free) - 1
    return PottsModel(number[ends[left]], network.couplings[left], fields[is_free]), known


def _answer_potts(network: PottsNetwork, evidence: Evidence, query: Sequence[int], running: Running) -> Answer:
    model, known = condition_potts(network, evidence)
    estimates = {v: in_state(known[v], network.fields.shape[1]) for v in query if known[v] >= 0}
    if model is None or len(estimates) == len(query):
        return certain_answer("gibbs", estimates)
    place = np.cumsum(known < 0) - 1
    alone = np.diff(model.graph.starts) == 0
    estimates |= {v: certain(softmax(model.fields[place[v]])) for v in query if known[v] < 0 and alone[place[v]]}
    asked = [v for v in query if v not in estimates]
    if not asked:
        return certain_answer("gibbs", estimates, _NOTHING_BEARS)
    run = _run_potts(network, model, asked, place, running)
    found = iter(range(run.marginals.value.size))
    for v in asked:
        possible = np.isfinite(model.fields[place[v]])
        estimates[v] = [run.marginals.estimate(next(found)) if left else Estimate.exactly(0.0) for left in possible]
    return Answer("gibbs", estimates, None, run.judgement, run.numbers)


def _run_potts(
    network: PottsNetwork, model: PottsModel, asked: Sequence[int], place: NDArray[np.intp], running: Running
) -> ChainRun:
    """Chains that keep the probability of every possible state of the variables asked for, in their order."""
    row, states = np.nonzero(np.isfinite(model.fields[place[asked]]))
    n_bytes = 64 * model.fields.size
    chains = PottsBitParallel(model, _LANES_THIN) if n_bytes <= _MOST_BYTES else PottsGibbs(model, thin=_THIN)
    updates = (64 if isinstance(chains, PottsBitParallel) else 1) * model.n_sites
    sites = place[asked][row]

    def name_of(k: int) -> str:
        return f"{network.names[asked[row[k]]]} = {network.states[asked[row[k]]][states[k]]}"

    return run_apart(
        _Asked(chains, sites, states),
        _potts_path(model),
        running,
        sites,
        states,
        name_of,
        first=_constant(model),
        particles=_PARTICLES,
        scalar="energy",
        steps_per_block=max(1, min(_SITES_PER_BLOCK // updates, chains.thin * (_MOST_BYTES // n_bytes))),
    )


def _potts_path(model: PottsModel) -> TablePath:
    same = np.eye(model.n_states)
    pairs = zip(model.graph.edges.tolist(), model.graph.couplings, strict=True)
    factors = [Factor((i, j), coupling * same) for (i, j), coupling in pairs]
    factors += [Factor((i,), field) for i, field in enumerate(model.fields)]
    return TablePath((model.n_states,) * model.n_sites, factors)


def _constant(model: PottsModel) -> list[NDArray[np.int64]]:
    """All sites in one state, or in their best where that is forbidden; the best first, without hopeless ones."""
    own = model.fields.argmax(axis=1)
    rows = [np.where(np.isfinite(model.fields[:, a]), a, own) for a in range(model.n_states)]
    worth = -model.energy(np.array(rows))
    return [rows[a].astype(np.int64) for a in np.argsort(-worth, kind="stable") if worth[a] > worth.max() - HOPELESS]


@dataclass(frozen=True, eq=False)
class _Asked(Around):
    """Chains of which the probabilities of some states are kept, and averages over those that run together."""

    sampler: PottsBitParallel | PottsGibbs
    sites: NDArray[np.intp]
    states: NDArray[np.intp]

    def run(self, state: Any, n_steps: int, rng: np.random.Generator) -> tuple[Any, dict[str, NDArray[Any]], Any]:
        """Their run."""
        state, draws, info = self.sampler.run(state, n_steps, rng)
        energy, probability = draws["energy"], draws["probability"]
        groups = probability.reshape(len(probability), -1, *probability.shape[-2:])
        kept = {
            "energy": energy.reshape(len(energy), -1).mean(axis=1),
            "probability": groups.mean(axis=1)[:, self.sites, self.states],
        }
        return state, kept, info

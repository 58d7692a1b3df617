r"""`log_partition`: the logarithm of Z, or of the probability of evidence: exact where that is cheap, else with bounds.

The sum over all states is contracted where the budget allows it (`doxa.inference.exact`).  Else pilots choose a
schedule, which is frozen; one forward run of annealed importance sampling gives the estimate and a lower bound, one
reverse run an upper bound (`doxa.inference.annealing`).  Whatever the runs show, they are made once and reported.

The bounds are proven, each with probability 0.975, where the reverse run begins at exact draws of the network: by
elimination where it is narrow, by coupling from the past for attractive Ising models, or at the state that simulated
evidence came from.  Otherwise it begins at states of the forward run, and the upper bound is an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, DoxaError
from doxa.inference.annealing import (
    NetworkPath,
    Reversed,
    Schedule,
    TablePath,
    adapted,
    anneal,
    anneal_back,
    best_groups,
    condition_spins,
    directed_path,
    draw_exactly,
    inverse_mean,
    linear,
    lower_bound,
    spin_path,
    tune_schedule,
    upper_bound,
)
from doxa.inference.annealing.path import as_sample
from doxa.inference.exact import Budget, BudgetError, Cost, plan_contraction
from doxa.inference.problem import check_discrete, prepare
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence, read_evidence
from doxa.models.factors import DiscreteNetwork
from doxa.models.ising import IsingNetwork
from doxa.sampling.driver import fresh_entropy
from doxa.sampling.importance_weights import WeightedEstimate, WeightVerdict

__all__ = ["LogPartition", "log_partition"]

_METHODS = ("auto", "exact", "annealed")
_PARTICLES = 512
_VARIANCE = 0.4  # of the log weights, aimed at: errors of 0.03 nats with 512 particles, two in three of them effective
_WORK = 10**8  # draws of a variable from its table (40 spins for one) in the forward run
_PILOT = 64  # steps of the run that chooses between paths
_REFINED = 50  # sweeps at beta = 1 of states that are not exact draws
_DISAGREE = 5.0  # standard errors between forward and reverse estimates


class NoWeightError(DoxaError):
    """No particle ended at a possible state: annealing says nothing about log Z."""


@dataclass(frozen=True)
class LogPartition(WeightedEstimate):
    """Log Z in nats, with bounds.

    Parameters
    ----------
    value, mcse, ess, exact, law, delta_error, verdict
        As in `doxa.sampling.importance_weights.WeightedEstimate`: ``mcse`` is nan where the weights do not let it be
        trusted.
    lower, upper : float
        Bounds, nats.  Each fails with probability 0.025 at most if proven, by itself.
    method : {"exact", "annealed"}
    why : str
        Why this method, and what it did.
    bounds_are : {"exact", "proven", "estimate"}
        "estimate": the lower one is proven, the upper one is not.

    Examples
    --------
    >>> from doxa.models.ising import ising_grid
    >>> found = log_partition(ising_grid(10, 10, coupling=0.44), method="annealed", seed=1)
    >>> print(found)
    89.61 +/- 0.03, between 89.19 and 90.06 (proven)
    """

    lower: float = -math.inf
    upper: float = math.inf
    method: Literal["exact", "annealed"] = "annealed"
    why: str = ""
    bounds_are: Literal["exact", "proven", "estimate"] = "estimate"

    def __str__(self) -> str:
        """Value, error and bounds."""
        if self.exact:
            return super().__str__()
        return f"{super().__str__()}, between {self.lower:.2f} and {self.upper:.2f} ({self.bounds_are})"


def log_partition(
    network: DiscreteNetwork,
    *,
    method: Literal["auto", "exact", "annealed"] = "auto",
    given: Mapping[str, str | int] | None = None,
    soft: Mapping[str, ArrayLike | Mapping[str, float]] | None = None,
    origin: Mapping[str, str | int] | None = None,
    seed: int | None = None,
) -> LogPartition:
    """Logarithm of the sum over all states that agree with the evidence.

    Parameters
    ----------
    network : DiscreteNetwork
        Of a `MarkovNetwork` the sum is Z, where nothing is given; of a `CategoricalNetwork` it is the probability of
        the evidence.
    method : {"auto", "exact", "annealed"}, default="auto"
        "auto": exact within the default `doxa.inference.exact.Budget`, else annealed.
    given : mapping of str to str or int, optional
        States that variables were observed in, by label.
    soft : mapping, optional
        Likelihoods by variable; see `doxa.models.evidence.read_evidence`.
    origin : mapping of str to str or int, optional
        The complete state, by label, that a *simulated* ``given`` was taken from: drawn from the network, it is an
        exact draw given the evidence, so that the upper bound is proven (over repetitions of the simulation too).
    seed : int, optional
        Whole number; taken from the system when left out.

    Raises
    ------
    ArgumentError
        If an argument is wrong; `ImpossibleEvidenceError` if evidence of probability zero is found out.
    BudgetError
        If ``method`` is "exact" and costs more than the budget.
    NoWeightError
        If no particle ends at a possible state.

    Examples
    --------
    >>> from doxa.models import Dag
    >>> dag = Dag.from_edges([("rain", "wet")])
    >>> yes_no = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
    >>> network = CategoricalNetwork(dag, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.0, 1.0]]}, yes_no)
    >>> print(log_partition(network, given={"wet": "yes"}))  # log(.8 * .1 + .2)
    -1.27297 (exact)
    """
    check_discrete(network)
    if method not in _METHODS:
        raise ArgumentError(f"method is {method!r}; it must be one of {', '.join(map(repr, _METHODS))}")
    evidence = read_evidence(network, given, soft)
    start = _read_origin(network, evidence, origin)
    entropy = fresh_entropy() if seed is None else check_whole("seed", seed, 0)
    why = "asked for"
    if method != "annealed":
        try:
            return _exact(network, evidence, method)
        except BudgetError as error:
            if method == "exact":
                raise
            why = str(error).split(":")[0]
    candidates = _paths(network, evidence)
    if not candidates:
        return _exact(network, evidence, method)  # nothing is left to sum over
    return _annealed(candidates, start, why, np.random.default_rng(entropy))


def _read_origin(
    network: DiscreteNetwork, evidence: Evidence, origin: Mapping[str, str | int] | None
) -> NDArray[np.intp] | None:
    """A complete state as positions, checked."""
    if origin is None:
        return None
    found = read_evidence(network, origin).hard
    missing = [name for v, name in enumerate(network.names) if v not in found]
    if missing:
        raise ArgumentError(f"origin has no state for {missing[0]!r}; it must be a complete state of the network")
    for v, state in evidence.hard.items():
        if found[v] != state:
            raise ArgumentError(
                f"origin and given disagree about {network.names[v]!r}; given must be taken from origin"
            )
    if evidence.soft:
        raise ArgumentError("origin goes with given alone: soft evidence was not simulated from a state")
    return np.array([found[v] for v in range(len(network.names))], dtype=np.intp)


def _exact(network: DiscreteNetwork, evidence: Evidence, method: str) -> LogPartition:
    """By contraction, or BudgetError."""
    _refuse_wide_grid(network, evidence)
    if isinstance(network, IsingNetwork):
        left, _ = condition_spins(network, evidence)
        n_states, factors, constant = left.n_states, left.factors, 0.0
    else:
        problem = prepare(network, evidence, ()).whole()
        n_states, factors, constant = problem.n_states, problem.factors, problem.log_constant
    plan = plan_contraction(n_states, [factor.variables for factor in factors])
    free = len(n_states) - len({v for factor in factors for v in factor.variables})  # spins in no factor
    value = plan.joint(factors).log_z + constant + free * math.log(2)
    if value == -math.inf:
        raise ArgumentError("given, or the network itself, is impossible: the sum over all states is 0")
    why = f"contraction takes {plan.joint_cost}" if method != "exact" else f"asked for; it took {plan.joint_cost}"
    good = WeightVerdict(True, "exact", "")
    return LogPartition(
        value, 0.0, math.inf, exact=True, delta_error=0.0, verdict=good, lower=value, upper=value, method="exact",
        why=why, bounds_are="exact",
    )  # fmt: skip


def _refuse_wide_grid(network: DiscreteNetwork, evidence: Evidence) -> None:
    """Raise BudgetError for large grids without looking for an order: the treewidth of a grid is its shorter side."""
    shape = getattr(network, "shape", None)
    if shape is not None and not evidence.variables:
        entries = len(network.states[0]) ** (min(shape) + 1)
        Budget().check(Cost(entries, 8 * entries), "one step of log Z of this grid, in any order,")


def _paths(network: DiscreteNetwork, evidence: Evidence) -> list[NetworkPath]:
    """Paths to choose from; none where no variable is free."""
    if isinstance(network, IsingNetwork):
        found = spin_path(network, evidence)
        return [] if found is None else [found]
    problem = prepare(network, evidence, ()).whole()
    if not problem.variables:
        return []
    path = TablePath(problem.n_states, problem.factors, constant=problem.log_constant)
    paths = [NetworkPath(path, problem.variables, problem.states, "uniform states")]
    if isinstance(network, CategoricalNetwork):
        directed = directed_path(network, evidence)
        paths += [] if directed is None else [directed]
    return paths


def _choose(candidates: list[NetworkPath], rng: np.random.Generator) -> tuple[NetworkPath, Schedule, int]:
    """The path along which the log weights of a short run vary least, a schedule for it, and the steps it may take."""
    spreads = [0.0]
    if len(candidates) > 1:
        pilots = [anneal(candidate.path, linear(_PILOT), _PARTICLES, rng) for candidate in candidates]
        spreads = [float(pilot.variances[-1]) for pilot in pilots]
    candidate = candidates[int(np.argmin(spreads))]
    path = candidate.path
    longest = max(_WORK * path.speed // (_PARTICLES * path.n_variables), _PILOT)
    schedule = tune_schedule(path, _PARTICLES, rng, variance=_VARIANCE, most_steps=longest)
    return candidate, schedule, longest


def _annealed(
    candidates: list[NetworkPath], origin: NDArray[np.intp] | None, why: str, rng: np.random.Generator
) -> LogPartition:
    candidate, schedule, longest = _choose(candidates, rng)
    path = candidate.path
    forward = anneal(path, schedule.betas, _PARTICLES, rng)
    if not (forward.log_weights > -np.inf).any():
        raise NoWeightError(
            f"all {len(forward.log_weights)} particles ended at states of probability 0: the network's zeros leave too "
            "little; use method='exact', or observe more"
        )
    estimate = forward.estimate()
    n = len(forward.log_weights)
    lower = lower_bound(forward.log_weights, best_groups(n, schedule.variance))
    if origin is not None:
        draws: NDArray[np.generic] | None = candidate.encode(origin)[None]
        how = "the state that the evidence came from"
    else:
        draws, how = draw_exactly(path, n, rng)
    is_exact = draws is not None
    if draws is None:
        draws = path.stay(forward.resample(path.block * (n // path.block), rng), _REFINED, rng)
    back_schedule = adapted(forward, min(max(len(schedule.betas) // 2, 32), longest))
    back = anneal_back(path, back_schedule.betas, draws, rng)
    upper = upper_bound(back.log_weights, best_groups(len(draws), back_schedule.variance))
    start = how if is_exact else f"states of the forward run ({how})"
    done = (
        f"{why}; {n} particles from {candidate.base} in {len(schedule.betas) - 1} steps, and back from {start} in "
        f"{len(back_schedule.betas) - 1}"
    )
    verdict = _compare(estimate, back)
    reliable = bool(verdict.reliable)
    return LogPartition(
        estimate.value, estimate.mcse if reliable else math.nan, estimate.ess if reliable else math.nan,
        law=estimate.law, delta_error=estimate.delta_error, verdict=verdict, lower=lower, upper=upper,
        method="annealed", why=done, bounds_are="proven" if is_exact else "estimate",
    )  # fmt: skip


def _compare(estimate: WeightedEstimate, back: Reversed) -> WeightVerdict:
    """The verdict on the forward weights, unless the way back says otherwise."""
    if not estimate.verdict.reliable or len(back.log_weights) < 2:
        return estimate.verdict
    gap = inverse_mean(back.log_weights) - estimate.value
    error = math.hypot(estimate.delta_error, as_sample(-back.log_weights).log_normalising_constant().delta_error)
    if abs(gap) <= _DISAGREE * error:
        return estimate.verdict
    return WeightVerdict(
        False,
        f"forward and reverse runs disagree by {gap:.2f} nats, {abs(gap) / error:.0f} standard errors",
        "One of them misses a part of the network: believe the bounds at most.",
    )

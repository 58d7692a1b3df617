"""Exact answers about a network with evidence: marginals, the joint of a few variables, the likeliest states.

The contraction itself is in `doxa.inference.exact`; here evidence is cut out first, and what the cut made trivial is
put back.  Plans depend on shapes alone, so those of the latest questions are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate, Verdict
from doxa.inference.answers import Answer, certain
from doxa.inference.exact import Budget, BudgetError, ContractionPlan, Cost, plan_contraction
from doxa.inference.options import read_budget
from doxa.inference.problem import Problem, check_discrete, prepare
from doxa.inference.propagation import ImpossibleEvidenceError, impossible
from doxa.models.evidence import Evidence, read_evidence
from doxa.models.factors import DiscreteNetwork
from doxa.models.gaussian import GaussianNetwork
from doxa.models.ising import PairNetwork
from doxa.sampling.driver import fresh_entropy

_ROUNDING = 1e-12  # nats: a log probability this near to 0 is 0 but for rounding

__all__ = ["Explanation", "JointTable", "joint", "most_probable"]


_TIE = 1e-9  # nats: what rounding makes of no difference


class JointTable(NamedTuple):
    """The joint distribution of a few variables."""

    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    probabilities: NDArray[np.float64]  # shape (n_states of each variable...), sums to 1


class Explanation(NamedTuple):
    """The likeliest states of all variables together."""

    states: dict[str, str]  # of every variable, observed ones included
    log_probability: float  # nats, with the evidence: log p(states) of a directed network, log potential of another
    gap: float  # nats to the next states; about 0 where others are as likely; nan where they were searched for
    exact: bool = True  # whether no states are likelier; else they are the best that a search has met
    verdict: str = "Exact: the maximum over all states."  # says so where others are as likely


def answer_exactly(
    network: DiscreteNetwork, evidence: Evidence, query: Sequence[int], budget: Budget | None = None
) -> Answer:
    """Marginals of variables given evidence, and the log evidence; BudgetError where that costs too much."""
    budget = Budget() if budget is None else budget
    refuse_wide_grids(network, evidence, budget)
    problem = prepare(network, evidence, query)
    result = _plan(problem, (), budget).run(problem.factors)
    log_evidence = problem.log_constant + result.log_z
    if problem.rest is not None and result.log_z > -math.inf:
        log_evidence += _log_z(problem.rest, budget)
    if log_evidence == -math.inf:
        raise _impossible(network, evidence, budget)
    if abs(log_evidence) < _ROUNDING:
        log_evidence = 0.0
    marginals = {v: result.marginals[i] for v, i in problem.position.items()}
    estimates = {v: certain(problem.expand(v, marginals.get(v))) for v in query}
    return Answer("exact", estimates, Estimate.exactly(log_evidence), Verdict(True, "Exact", "summed over all states."))


def joint(
    network: DiscreteNetwork,
    names: Sequence[str],
    *,
    given: Mapping[str, str | int] | None = None,
    soft: Mapping[str, ArrayLike | Mapping[str, float]] | None = None,
    exact_budget: Budget | int | None = None,
) -> JointTable:
    """The joint distribution of a few variables given evidence, exactly.

    Parameters
    ----------
    network : CategoricalNetwork or MarkovNetwork
    names : sequence of str
        Variables, in the order of the table's axes.
    given, soft, exact_budget
        As in `doxa.infer`.

    Raises
    ------
    BudgetError, ImpossibleEvidenceError, ArgumentError
        As `doxa.infer` with ``method="exact"``.
    """
    evidence = read_evidence(network, given, soft)
    query = positions(network, list(names))
    budget = read_budget(exact_budget)
    problem = prepare(network, evidence, query)
    free = [v for v in query if v not in problem.fixed]
    plan = _plan(problem, tuple(problem.position[v] for v in free), budget)
    found = plan.joint(problem.factors)
    rest = problem.rest
    if found.log_z == -math.inf or (
        rest is not None and _plan(rest, (), budget).joint(rest.factors).log_z == -math.inf
    ):
        raise _impossible(network, evidence, budget)
    table = np.zeros([len(network.states[v]) for v in query])
    kept = [[problem.fixed[v]] if v in problem.fixed else problem.states[problem.position[v]] for v in query]
    table[np.ix_(*kept)] = found.probabilities.reshape([len(k) for k in kept])
    return JointTable(tuple(names), tuple(network.states[v] for v in query), table)


def most_probable(
    network: DiscreteNetwork,
    *,
    given: Mapping[str, str | int] | None = None,
    soft: Mapping[str, ArrayLike | Mapping[str, float]] | None = None,
    exact_budget: Budget | int | None = None,
    method: Literal["exact", "annealed", "auto"] = "exact",
    sweeps: int = 500,
    restarts: int = 512,
    seed: int | None = None,
) -> Explanation:
    """The likeliest states of all variables given evidence (the most probable explanation).

    Parameters
    ----------
    network : CategoricalNetwork or MarkovNetwork
    given, soft, exact_budget
        As in `doxa.infer`.
    method : {"exact", "annealed", "auto"}, default="exact"
        The maximum over all states; or simulated annealing, a search by chains that grow cold; or the first if the
        budget allows it, else the second.
    sweeps : int, default=500
        Of each annealed chain, from hot to cold.
    restarts : int, default=512
        Annealed chains, at least; they run in groups of 64 or 512.
    seed : int, optional
        Of the annealed chains.  The same seed gives the same answer.

    Returns
    -------
    Explanation
        Where several states are as likely, one of them, a ``gap`` of about 0, and a ``verdict`` that says so.  What
        annealing finds is a lower bound of the largest probability; ``verdict`` says how many chains ended there.

    Raises
    ------
    BudgetError, ImpossibleEvidenceError, ArgumentError
        As `doxa.infer` with ``method="exact"``; and `ArgumentError` where no annealed chain ends at a possible state.

    Examples
    --------
    >>> import doxa
    >>> doxa.most_probable(doxa.ising_grid(2, 2, coupling=1.0, field=0.1)).states
    {'X0_0': '1', 'X0_1': '1', 'X1_0': '1', 'X1_1': '1'}
    >>> wide = doxa.most_probable(doxa.ising_grid(40, 40, coupling=0.5, field=0.1), method="annealed", seed=1)
    >>> wide.exact, round(wide.log_probability, 6)  # all up: 0.5 for each of 3120 edges, and 160
    (False, 1720.0)
    """
    check_discrete(network)
    if method not in ("exact", "annealed", "auto"):
        raise ArgumentError(f"method is {method!r}; it must be one of 'exact', 'annealed', 'auto'")
    check_whole("sweeps", sweeps, 1)
    check_whole("restarts", restarts, 1)
    entropy = fresh_entropy() if seed is None else check_whole("seed", seed, 0)
    evidence = read_evidence(network, given, soft)
    budget = read_budget(exact_budget)
    if method != "annealed":
        try:
            return _best_of_all(network, evidence, budget)
        except BudgetError:
            if method == "exact":
                raise
    return _searched(network, evidence, sweeps, restarts, entropy)


def _best_of_all(network: DiscreteNetwork, evidence: Evidence, budget: Budget) -> Explanation:
    refuse_wide_grids(network, evidence, budget)
    problem = prepare(network, evidence)
    best = _plan(problem, (), budget).most_probable(problem.factors)
    if best.log_value == -math.inf:
        raise _impossible(network, evidence, budget)
    codes = problem.decode(np.asarray(best.states)[None])[0]
    states = {name: network.states[v][codes[v]] for v, name in enumerate(network.names)}
    found = Explanation(states, problem.log_constant + best.log_value, best.gap)
    if best.gap > _TIE:
        return found
    return found._replace(verdict="Exact: the maximum over all states, which these share with others.")


def _searched(network: DiscreteNetwork, evidence: Evidence, sweeps: int, restarts: int, seed: int) -> Explanation:
    from doxa.inference.annealing import coldest

    found = coldest(network, evidence, sweeps, restarts, seed)
    states = {name: network.states[v][found.row[v]] for v, name in enumerate(network.names)}
    verdict = (
        f"Cannot tell: {found.n_found} of {found.n_restarts} annealed chains ended at states as likely as these and "
        "none at likelier ones, which is no proof that there are none."
    )
    return Explanation(states, found.log_probability, math.nan, False, verdict)


def positions(
    network: DiscreteNetwork | GaussianNetwork, query: str | Sequence[str] | None, argument: str = "query"
) -> list[int]:
    """Positions of the variables asked for: one by name, several, or all."""
    names = network.names
    if query is None:
        return list(range(len(names)))
    if not isinstance(query, Iterable):
        raise ArgumentTypeError(f"{argument} is {query!r}; give the name of a variable, or a list of names")
    asked = [query] if isinstance(query, str) else list(query)
    index = {name: i for i, name in enumerate(names)}
    for k, name in enumerate(asked):
        if name not in index:
            from difflib import get_close_matches

            near = get_close_matches(str(name), names, 1)
            there = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {there}"
            raise ArgumentError(f"{argument} has {name!r}, which is no variable of the network{hint}")
        if name in asked[:k]:
            raise ArgumentError(f"{argument} has {name!r} twice; name each variable once")
    return [index[name] for name in asked]


def refuse_wide_grids(network: DiscreteNetwork, evidence: Evidence, budget: Budget) -> None:
    """Raise `BudgetError` at once for a grid that is far too wide, without listing its factors.

    An unobserved k x k grid has a treewidth of k, so no order does with less than one step of n_states^k.
    """
    if isinstance(network, PairNetwork) and network.shape is not None and not evidence.hard:
        least = len(network.states[0]) ** min(network.shape)
        budget.check(Cost(least, 8 * least), "one step of log Z of this grid, in the best order,")


def _plan(problem: Problem, keep: tuple[int, ...], budget: Budget) -> ContractionPlan:
    scopes = tuple(tuple(map(int, factor.variables)) for factor in problem.factors)
    return _planned(problem.n_states, scopes, keep, budget)


def _log_z(problem: Problem, budget: Budget) -> float:
    return _plan(problem, (), budget).joint(problem.factors).log_z


@lru_cache(maxsize=16)
def _planned(
    n_states: tuple[int, ...], scopes: tuple[tuple[int, ...], ...], keep: tuple[int, ...], budget: Budget
) -> ContractionPlan:
    return plan_contraction(n_states, scopes, keep=keep, budget=budget)


def _impossible(network: DiscreteNetwork, evidence: Evidence, budget: Budget) -> ImpossibleEvidenceError:
    """The error that names a small conflict, found by exact sums over parts of the evidence."""

    def is_possible(part: Evidence) -> bool:
        try:
            whole = prepare(network, part, ()).whole()
        except ImpossibleEvidenceError:
            return False
        return _log_z(whole, budget) > -math.inf

    return impossible(network, evidence, is_possible)

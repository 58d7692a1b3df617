r"""Conditional probabilities in every drawn network, by exact inference.

Every network is pruned to what the question depends on.  Networks whose pruned graphs agree share one elimination
program; a thousand networks of ALARM's size take about a second.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.inference.exact import Budget, BudgetError, ContractionPlan, plan_contraction
from doxa.models.separation import requisite_families
from doxa.structure.averaging.counts import Family
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.questions import Question

__all__ = [
    "Conditionals",
    "Weighted",
    "conditional_draws",
    "is_linear",
    "read_budget",
    "weighted_conditionals",
]


def is_linear(families: Sequence[Family], given: Collection[int]) -> bool:
    r"""Whether p(target | given, do) needs no division: none of the requisite ``families`` is of an observed child.

    Notes
    -----
    Then the families' children are the free nodes, each once, and the sum of their product over all of these is 1: the
    conditional probability is a sum of products, each of one entry of every family.  Parameters of different families
    are independent given graph and completed table, so that its posterior mean is exactly the conditional probability
    in the network of posterior mean parameters.  With an observed child it is a ratio, and its mean is not.
    """
    return all(child not in given for child, _ in families)


_OPERATIONS = 50_000_000_000  # of all networks together: a minute or so
_LEAST_OPERATIONS = 1_000_000  # of one network


class Conditionals(NamedTuple):
    """Conditional probabilities of the labels of a question, network by network; shape (n_networks, n_labels)."""

    drawn: Floats  # with the parameters drawn
    smooth: Floats  # its mean over parameters where that is known exactly, else as drawn


class Weighted(NamedTuple):
    """Conditional probabilities in networks of posterior mean parameters, and how probable the evidence is there."""

    conditional: Floats  # (n_networks, n_labels)
    log_evidence: Floats  # (n_networks,): nats


class _Program(NamedTuple):
    """What networks of equal pruned graphs share."""

    families: tuple[Family, ...]
    scopes: tuple[tuple[int, ...], ...]  # of those with free members; () where all are known
    cuts: tuple[tuple[Any, ...], ...]  # [family]: what to take of its table
    plan: ContractionPlan


def conditional_draws(draws: NetworkDraws, question: Question, budget: Budget) -> Conditionals:
    """p(target | given, do, theta, G) for every network; refuses networks that are too wide.

    Raises
    ------
    BudgetError
        If exact inference in a pruned network costs more than its budget.
    """
    drawn = np.empty((len(draws), len(question.labels)))
    smooth, log_z = np.empty_like(drawn), np.empty(len(draws))
    for families, members in _sharing(draws, question, whole=False).items():
        program = _program(draws, question, families, int(members[0]), budget)
        drawn[members], log_z[members] = _run(draws, question, program, members, mean=False)
        if is_linear(families, question.given):
            smooth[members], _ = _run(draws, question, program, members, mean=True)
        else:
            smooth[members] = drawn[members]
    _check_possible(log_z)
    return Conditionals(drawn, smooth)


def weighted_conditionals(draws: NetworkDraws, question: Question, budget: Budget) -> Weighted:
    """p(target | given, do) and log p(given | do), both in the network of posterior mean parameters of every graph."""
    found = np.empty((len(draws), len(question.labels)))
    log_evidence = np.empty(len(draws))
    for families, members in _sharing(draws, question, whole=True).items():
        program = _program(draws, question, families, int(members[0]), budget)
        found[members], log_evidence[members] = _run(draws, question, program, members, mean=True)
    _check_possible(log_evidence)
    return Weighted(found, log_evidence)


def read_budget(budget: Budget | int | None, n_networks: int) -> Budget:
    """What one network may cost: a number is one of operations."""
    if budget is None:
        return Budget(max(_OPERATIONS // n_networks, _LEAST_OPERATIONS))
    return budget if isinstance(budget, Budget) else Budget(operations=budget)


def _sharing(draws: NetworkDraws, question: Question, *, whole: bool) -> dict[tuple[Family, ...], NDArray[np.intp]]:
    """Networks by the families on which the answer depends: equal pruned graphs are asked together."""
    found: dict[tuple[Family, ...], list[int]] = {}
    for parents, members in draws.of_graph.items():
        families = requisite_families(parents, question.target, question.given, question.do, whole=whole)
        found.setdefault(families, []).extend(members)
    return {families: np.sort(members) for families, members in found.items()}


def _program(draws: NetworkDraws, question: Question, families: tuple[Family, ...], t: int, budget: Budget) -> _Program:
    known = question.given | question.do
    members = [(*parents, child) for child, parents in families]
    free = sorted({v for own in members for v in own if v not in known})
    number = {v: i for i, v in enumerate(free)}
    scopes = tuple(tuple(number[v] for v in own if v not in known) for own in members)
    cuts = tuple(tuple(known.get(v, slice(None)) for v in own) for own in members)
    sizes = [draws.n_states[v] for v in free]
    try:
        plan = plan_contraction(
            sizes, [scope for scope in scopes if scope], keep=[number[v] for v in question.target], budget=budget
        )
        budget.check(plan.joint_cost, "the joint distribution of the target")
    except BudgetError as error:
        what = f"network {t + 1} of {len(draws)}, of which {len(free)} nodes matter to this question,"
        raise BudgetError(what, error.cost, budget) from None
    return _Program(families, scopes, cuts, plan)


def _run(
    draws: NetworkDraws, question: Question, program: _Program, members: NDArray[np.intp], *, mean: bool
) -> tuple[Floats, Floats]:
    """Probabilities of the labels in networks that share a program, and the logs of what they were divided by."""
    tables = []
    constant = np.zeros(len(members))
    for family, scope, cut in zip(program.families, program.scopes, program.cuts, strict=True):
        own = draws.log_tables(family, members, mean=mean)[:, *cut]
        if scope:
            tables.append(own)
        else:
            constant += own
    found = program.plan.joints(tables)
    at: tuple[slice | int, ...] = (slice(None), *(question.event or ()))
    return found.probabilities[at].reshape(len(members), -1), constant + found.log_z


def _check_possible(log_z: Floats) -> None:
    impossible = np.flatnonzero(log_z == -np.inf)
    if impossible.size:
        t = int(impossible[0])
        raise ArgumentError(f"given has probability zero in network {t + 1} of {len(log_z)}; leave out part of it")

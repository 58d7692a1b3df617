r"""Conditional probabilities in every drawn network, by exact inference.

Every network is pruned to what the question depends on.  Networks whose pruned graphs agree share one elimination
program; a thousand networks of ALARM's size take about a second.

Which families of a graph a question depends on.

Nodes that are neither asked for nor observed, nor ancestors of such, sum to one and are left out; so is, once observed
nodes are cut out, what is no longer joined to the target (d-separation).  Intervention removes the families of the
nodes that are set, the truncated factorisation of Pearl (2009, eq. 3.10):

.. math:: p(x \mid do(z)) = \prod_{i \notin Z} p(x_i \mid x_{\pi(i)}) \quad \text{where } x_Z = z.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.inference.exact import Budget, BudgetError, ContractionPlan, plan_contraction
from doxa.models.factors import Factor
from doxa.structure.averaging.counts import Family
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.questions import Question

__all__ = [
    "Conditionals",
    "Weighted",
    "conditional_draws",
    "is_linear",
    "read_budget",
    "requisite_families",
    "weighted_conditionals",
]

Parents = Sequence[tuple[int, ...]]


def requisite_families(
    parents: Parents,
    target: Collection[int],
    given: Collection[int],
    do: Collection[int],
    *,
    whole: bool = False,
) -> tuple[Family, ...]:
    """The families on which p(target | given, do) depends, or with ``whole`` p(target, given | do).

    Parameters
    ----------
    parents : sequence of tuple of int
        Of every node.
    target, given, do : collection of int
        Nodes, none of them in two.
    whole : bool, default=False
        Whether the probability of ``given`` is wanted too.

    Returns
    -------
    tuple of (int, tuple of int)
        Children, increasing, with their parents.

    Examples
    --------
    >>> chain = [(), (0,), (1,), (2,)]
    >>> requisite_families(chain, [1], [], [])
    ((0, ()), (1, (0,)))
    >>> requisite_families(chain, [0], [1, 3], [])
    ((0, ()), (1, (0,)))
    >>> requisite_families(chain, [2], [0], [1])
    ((2, (1,)),)
    """
    found = {*target, *given}
    waiting = list(found)
    while waiting:
        node = waiting.pop()
        if node not in do:
            new = [p for p in parents[node] if p not in found]
            found.update(new)
            waiting += new
    families = [(node, parents[node]) for node in sorted(found) if node not in do]
    if whole:
        return tuple(families)
    known = {*given, *do}
    free = [[v for v in (child, *group) if v not in known] for child, group in families]
    neighbours: dict[int, list[int]] = {}
    for k, members in enumerate(free):
        for v in members:
            neighbours.setdefault(v, []).append(k)
    joined = set(target)
    waiting = list(joined)
    used = [False] * len(families)
    while waiting:
        for k in neighbours[waiting.pop()]:
            if not used[k]:
                used[k] = True
                new = [v for v in free[k] if v not in joined]
                joined.update(new)
                waiting += new
    return tuple([family for k, family in enumerate(families) if used[k]])


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


Floats = NDArray[np.float64]

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
    programs: dict[tuple[Family, ...], _Program] = {}
    drawn = np.empty((len(draws), len(question.labels)))
    smooth = np.empty_like(drawn)
    for t, parents in enumerate(draws.parents):
        families = requisite_families(parents, question.target, question.given, question.do)
        program = _program(programs, draws, question, families, t, budget)
        drawn[t], _ = _run(draws, question, program, t, mean=False)
        linear = is_linear(families, question.given)
        smooth[t] = _run(draws, question, program, t, mean=True)[0] if linear else drawn[t]
    return Conditionals(drawn, smooth)


def weighted_conditionals(draws: NetworkDraws, question: Question, budget: Budget) -> Weighted:
    """p(target | given, do) and log p(given | do), both in the network of posterior mean parameters of every graph."""
    programs: dict[tuple[Family, ...], _Program] = {}
    found = np.empty((len(draws), len(question.labels)))
    log_evidence = np.empty(len(draws))
    for t, parents in enumerate(draws.parents):
        families = requisite_families(parents, question.target, question.given, question.do, whole=True)
        program = _program(programs, draws, question, families, t, budget)
        found[t], log_evidence[t] = _run(draws, question, program, t, mean=True)
    return Weighted(found, log_evidence)


def read_budget(budget: Budget | int | None, n_networks: int) -> Budget:
    """What one network may cost: a number is one of operations."""
    if budget is None:
        return Budget(max(_OPERATIONS // n_networks, _LEAST_OPERATIONS))
    return budget if isinstance(budget, Budget) else Budget(operations=budget)


def _program(
    programs: dict[tuple[Family, ...], _Program],
    draws: NetworkDraws,
    question: Question,
    families: tuple[Family, ...],
    t: int,
    budget: Budget,
) -> _Program:
    if families in programs:
        return programs[families]
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
    programs[families] = _Program(families, scopes, cuts, plan)
    return programs[families]


def _run(
    draws: NetworkDraws, question: Question, program: _Program, t: int, *, mean: bool
) -> tuple[Floats | float, float]:
    """Probabilities of the labels, and the log of what they were divided by."""
    factors = []
    constant = 0.0
    for family, scope, cut in zip(program.families, program.scopes, program.cuts, strict=True):
        table = draws.log_table(t, family[0], mean)[cut]
        if scope:
            factors.append(Factor(scope, table))
        else:
            constant += float(table)
    found = program.plan.joint(factors)
    if found.log_z == -np.inf:
        raise ArgumentError(f"given has probability zero in network {t + 1} of {len(draws)}; leave out part of it")
    return found.probabilities[... if question.event is None else question.event], constant + found.log_z

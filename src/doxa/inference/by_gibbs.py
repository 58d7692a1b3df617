"""Marginals by chains over tables.

Gibbs sampling: blocks join deterministic variables with their parents, and starts are possible.  Parallel tempering:
chains on flatter networks lead the first one from mode to mode.

Blocks of a user's own are read by name, checked, and laid over what is left of the network.  They may overlap, and
which of them is redrawn may depend on time, on chance and on values outside the block (Riggelsen, ch. 4, section
2.1.6); never on what it redraws (`doxa.inference.gibbs.scans` says why).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate, Verdict
from doxa.inference.annealing import ParallelTempering, TablePath, tune_ladder
from doxa.inference.answers import Answer, certain, certain_answer
from doxa.inference.chains import ChainRun, Running, run_to_accuracy
from doxa.inference.exact_answers import positions
from doxa.inference.gibbs import (
    ByValue,
    Connectivity,
    Scan,
    TableGibbs,
    connecting_blocks,
    connectivity,
    cyclic,
    deterministic_blocks,
    random_blocks,
    scope_blocks,
)
from doxa.inference.gibbs.scans import Entry, blocks_of
from doxa.inference.gibbs.supports import Block, Supports
from doxa.inference.population import run_apart
from doxa.inference.problem import Problem, prepare
from doxa.inference.propagation import determined
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork

__all__ = ["ChosenBy"]

SCANS = ("in_order", "reversed", "random")
_MOST_CONFIGURATIONS = 4096  # of a block, as `TableGibbs` allows


@dataclass(frozen=True)
class ChosenBy:
    """Blocks of which the state of a variable chooses; stands in the place of a block in ``infer(blocks=...)``.

    Parameters
    ----------
    variable : str
        What chooses.  Another block redraws it.
    blocks : mapping of str to sequence of sequence of str
        By the label of each of its states, the blocks that are redrawn one after another; there may be none.  None of
        them has the variable itself: a choice that depends on what is redrawn leads chains elsewhere.

    Examples
    --------
    >>> import doxa
    >>> grid = doxa.ising_grid(2, 2, coupling=0.4, field=0.1)
    >>> rest = ["X0_1", "X1_0", "X1_1"]
    >>> chosen = ChosenBy("X0_0", {"1": [rest], "-1": [[name] for name in rest]})
    >>> found = doxa.infer(grid, "X0_0", method="gibbs", blocks=[["X0_0"], chosen], seed=1)
    >>> exact = doxa.infer(grid, "X0_0", method="exact")
    >>> bool(abs(found["X0_0"]["1"].value - exact["X0_0"]["1"].value) < 4 * found["X0_0"]["1"].mcse)
    True
    """

    variable: str
    blocks: Mapping[str, Sequence[Sequence[str]]] = field(hash=False)


class Plan(NamedTuple):
    """What the user asked for, by position in the network."""

    entries: tuple[Entry, ...] | None  # None: doxa's own blocks
    order: str  # of `SCANS`
    weights: tuple[float, ...] | None = None  # of the entries, where they are drawn by chance


def read_plan(network: DiscreteNetwork, blocks: Any, scan: Any) -> Plan:
    """Blocks and scan, checked."""
    entries = None
    if blocks is not None:
        given = _listed(blocks, "blocks", "blocks, each a sequence of variables")
        if not given:
            raise ArgumentError("blocks is empty; give at least one block, or leave it out")
        entries = tuple(_read_entry(network, entry, f"blocks[{b}]") for b, entry in enumerate(given))
    if scan is None or isinstance(scan, str):
        if scan is not None and scan not in SCANS:
            names = ", ".join(map(repr, SCANS))
            raise ArgumentError(f"scan is {scan!r}; it must be one of {names}, or a weight for each block")
        return Plan(entries, scan or "in_order")
    if entries is None:
        raise ArgumentError("scan has weights but there are no blocks to weigh; give blocks=")
    return Plan(entries, "random", _read_weights(scan, len(entries)))


def scan_of(plan: Plan, network: DiscreteNetwork, problem: Problem, default: Sequence[Block]) -> Scan:
    """The scan over the free variables of a problem: what was observed is left out of blocks, choices are made by it.

    ``default`` are blocks for a plan that has none, numbered as the problem's variables are.
    """
    entries: list[tuple[Entry, float]] = [(block, 1.0) for block in default]
    if plan.entries is not None:
        entries = []
        for b, entry in enumerate(plan.entries):
            weight = 1.0 if plan.weights is None else plan.weights[b]
            entries += [(one, weight) for one in _laid_over(entry, network, problem, f"blocks[{b}]")]
        _check_all(entries, network, problem)
    taken = [entry for entry, _ in entries]
    if plan.order == "random":
        weights = [weight for _, weight in entries]
        return random_blocks(taken, weights)
    return cyclic(_turned(entry) for entry in reversed(taken)) if plan.order == "reversed" else cyclic(taken)


def connected_by(scan: Scan, problem: Problem) -> Connectivity:
    """Whether the blocks of a scan connect all possible states, where values choose some of them."""
    n_states, factors = problem.n_states, problem.factors
    choices = [entry for entry in scan.entries if isinstance(entry, ByValue)]
    every = connectivity(n_states, factors, scan.blocks)
    if not choices or every.answer is False:
        return every
    always = [entry for entry in scan.entries if not isinstance(entry, ByValue)]
    for choice in choices:
        always += [block for block in choice.lists[0] if all(block in own for own in choice.lists)]
    if {v for block in always for v in block} == set(range(len(n_states))):
        found = connectivity(n_states, factors, always)
        if found.answer:
            return found
    if all((f.log_values > -np.inf).all() for f in factors) and _all_reached(always, choices, len(n_states)):
        return every._replace(answer=True)
    return every._replace(answer=None, reason="values choose the blocks, and may keep some from ever being redrawn")


def _all_reached(always: Sequence[Block], choices: Sequence[ByValue], n: int) -> bool:
    """Without zeros: whether every variable is redrawn by a block that variables before it can bring about."""
    free = {v for block in always for v in block}
    grown = True
    while grown:
        reached = [choice for choice in choices if choice.variable in free]
        new = {v for choice in reached for block in blocks_of(choice) for v in block} - free
        free |= new
        grown = bool(new)
    return len(free) == n


def _listed(given: Any, name: str, what: str) -> list[Any]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ArgumentTypeError(f"{name} is {given!r}; give a sequence of {what}")
    return list(given)


def _read_entry(network: DiscreteNetwork, entry: Any, name: str) -> Entry:
    if not isinstance(entry, ChosenBy):
        return _read_block(network, entry, name)
    (chooser,) = positions(network, entry.variable, f"the variable of {name}")
    labels = [str(label) for label in network.states[chooser]]
    if not isinstance(entry.blocks, Mapping):
        raise ArgumentTypeError(f"the blocks of {name} are a {type(entry.blocks).__name__}; give blocks by state")
    by_label = {str(label): blocks for label, blocks in entry.blocks.items()}
    for label in by_label:
        if label not in labels:
            raise ArgumentError(f"{name} has blocks for {label!r}, which is no state of {entry.variable!r}: {labels}")
    lists = []
    for label in labels:
        if label not in by_label:
            raise ArgumentError(
                f"{name} has no blocks for the state {label!r} of {entry.variable!r}, which chooses; give them, or []"
            )
        where = f"{name}[{label!r}]"
        own = _listed(by_label[label], where, "blocks, each a sequence of variables")
        lists.append(tuple(_read_block(network, block, f"{where}[{j}]") for j, block in enumerate(own)))
        if any(chooser in block for block in lists[-1]):
            raise ArgumentError(
                f"{where} redraws {entry.variable!r}, which chooses the blocks; chains would settle elsewhere; leave "
                "it out of them, and give it a block of its own"
            )
    return ByValue(chooser, tuple(lists))


def _read_block(network: DiscreteNetwork, block: Any, name: str) -> Block:
    members = _listed(block, name, "variables; a block of one is [name]")
    if not members:
        raise ArgumentError(f"{name} is empty; a block has at least one variable")
    return tuple(positions(network, members, name))


def _read_weights(scan: Any, n: int) -> tuple[float, ...]:
    given = _listed(scan, "scan", f"weights, or one of {', '.join(map(repr, SCANS))}")
    if len(given) != n:
        raise ArgumentError(f"scan has {len(given)} weights but there are {n} blocks; give one for each")
    weights = []
    for b, weight in enumerate(given):
        try:
            weights.append(float(weight))
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"scan[{b}] is {weight!r}; a weight is a number") from None
        if not (weights[-1] >= 0 and math.isfinite(weights[-1])):
            raise ArgumentError(f"scan[{b}] is {weights[-1]:g}; a weight is a finite number of at least 0")
    if not 0 < math.fsum(weights) < math.inf:
        raise ArgumentError(f"the weights of scan sum to {math.fsum(weights):g}; at least one must be positive")
    return tuple(weights)


def _laid_over(entry: Entry, network: DiscreteNetwork, problem: Problem, name: str) -> list[Entry]:
    """What is left of an entry once evidence is known; blocks of which nothing is left are gone."""

    def left_of(blocks: Iterable[Block]) -> list[Block]:
        own = (tuple(problem.position[v] for v in block if v in problem.position) for block in blocks)
        return [block for block in own if block]

    if not isinstance(entry, ByValue):
        return [*left_of([entry])]
    v = entry.variable
    if v in problem.fixed:
        return [*left_of(entry.lists[problem.fixed[v]])]
    if v not in problem.position:
        raise ArgumentError(
            f"{name} is chosen by {network.names[v]!r}, which bears on nothing that was asked for and is left out; ask "
            "for it too, or give these blocks without a choice"
        )
    lists = tuple(tuple(left_of(entry.lists[state])) for state in problem.states[problem.position[v]])
    return [ByValue(problem.position[v], lists)] if any(lists) else []


def _check_all(entries: Sequence[tuple[Entry, float]], network: DiscreteNetwork, problem: Problem) -> None:
    """Every free variable is in a block that can be taken, and no block is too large."""
    supports = Supports.of(problem.n_states, problem.factors)
    covered = set()
    for entry, weight in entries:
        for block in blocks_of(entry):
            if supports.configurations(block, _MOST_CONFIGURATIONS) is None:
                names = [network.names[problem.variables[i]] for i in block]
                raise ArgumentError(
                    f"the block {names} has more than {_MOST_CONFIGURATIONS} possible configurations; make it smaller"
                )
            covered |= set(block) if weight > 0 else set()
    for i, v in enumerate(problem.variables):
        if i not in covered:
            name = network.names[v]
            raise ArgumentError(f"no block has {name!r}, so it would never move; add the block [{name!r}]")


def _turned(entry: Entry) -> Entry:
    return ByValue(entry.variable, tuple(own[::-1] for own in entry.lists)) if isinstance(entry, ByValue) else entry


Starts = Callable[[Problem], NDArray[np.int64] | None]


def answer_by_gibbs(
    network: DiscreteNetwork,
    evidence: Evidence,
    query: Sequence[int],
    running: Running,
    starts: Starts | None = None,
    plan: Plan | None = None,
) -> Answer:
    """Marginals with Monte Carlo errors.

    ``starts`` makes of the problem possible states (n, n_free) to begin at, drawn nearly as they should be; else states
    are searched for.  ``plan`` has the user's own blocks and scan.
    """
    problem = prepare(network, evidence, query)
    asked = [problem.position[v] for v in query if v not in problem.fixed]
    if not asked:
        return certain_answer("exact", {v: certain(problem.expand(v)) for v in query})
    made = gibbs_sampler(problem, asked) if plan is None else _planned(network, problem, asked, plan)
    sampler, connected = made[0], _by_name(made[1], [network.names[v] for v in problem.variables])
    alone = [i for i in asked if _is_alone(problem, sampler, i)]
    path = TablePath(problem.n_states, problem.factors)
    columns, values = np.array([(i, k) for i in asked for k in range(problem.n_states[i])], dtype=np.intp).T
    given = starts(problem) if starts is not None else None
    run = run_apart(sampler, path, running, columns, values, _names(network, problem, asked).__getitem__, starts=given)
    estimates = _estimates(problem, query, asked, run)
    for v in query:
        if v not in problem.fixed and problem.position[v] in alone:  # redrawn from its marginal
            estimates[v] = certain(estimate.value for estimate in estimates[v])
    if len(alone) == len(asked):
        exactly = Verdict(True, "Exact", "every block that was asked for is summed over, and nothing else bears on it.")
        return Answer("gibbs", estimates, None, exactly, run.numbers)
    return Answer("gibbs", estimates, None, _with_connectivity(run.judgement, connected), run.numbers)


def _planned(
    network: DiscreteNetwork, problem: Problem, asked: Sequence[int], plan: Plan
) -> tuple[TableGibbs, Connectivity]:
    """The sampler with the user's own blocks, or doxa's in the user's order."""
    if plan.entries is None:
        sampler, connected = gibbs_sampler(problem, asked)
        assert sampler.scan is not None
        return replace(sampler, scan=scan_of(plan, network, problem, sampler.scan.blocks)), connected
    scan = scan_of(plan, network, problem, ())
    return _sampler(problem, asked, scan), connected_by(scan, problem)


def _is_alone(problem: Problem, sampler: TableGibbs, variable: int) -> bool:
    """Whether a variable is in no block but one that nothing outside of it bears on."""
    assert sampler.scan is not None
    block, *others = [set(block) for block in sampler.scan.blocks if variable in block]
    touching = [set(f.variables) for f in problem.factors if not block.isdisjoint(f.variables)]
    return not others and all(scope <= block for scope in touching)


def gibbs_sampler(problem: Problem, asked: Sequence[int]) -> tuple[TableGibbs, Connectivity]:
    """The sampler of a problem, and whether its blocks connect all possible states."""
    n_states, factors = problem.n_states, problem.factors
    blocks = scope_blocks(n_states, factors, deterministic_blocks(n_states, factors, determined(factors)).blocks)
    blocks, connected = connecting_blocks(n_states, factors, blocks)
    return _sampler(problem, asked, cyclic(blocks)), connected


def _sampler(problem: Problem, asked: Sequence[int], scan: Scan) -> TableGibbs:
    thin = _thin(sum(problem.n_states[i] for i in asked))
    return TableGibbs(problem.n_states, problem.factors, scan, thin=thin, wanted=asked)


_THIN = 10  # sweeps behind each kept draw, so that draws are correlated little
_KEPT_PER_SWEEP = 20  # numbers of a draw that one more sweep between kept draws makes up for


def _thin(n_kept: int) -> int:
    """Sweeps between kept draws of so many numbers."""
    return max(_THIN, math.ceil(n_kept / _KEPT_PER_SWEEP))


def _names(network: DiscreteNetwork, problem: Problem, asked: Sequence[int]) -> list[str]:
    """What the states left of the variables asked for are called, in the order of a draw."""
    variables = [problem.variables[i] for i in asked]
    return [
        f"{network.names[v]} = {network.states[v][s]}" for v in variables for s in problem.states[problem.position[v]]
    ]


def _estimates(
    problem: Problem, query: Sequence[int], asked: Sequence[int], run: ChainRun
) -> dict[int, list[Estimate]]:
    """Estimates of all states of the variables asked for; states that are impossible have an exact 0."""
    ends = np.cumsum([problem.n_states[i] for i in asked])
    begin = {problem.variables[i]: int(end) - problem.n_states[i] for i, end in zip(asked, ends, strict=True)}
    found = {}
    for v in query:
        if v in problem.fixed:
            found[v] = certain(problem.expand(v))
            continue
        left = {int(s): begin[v] + k for k, s in enumerate(problem.states[problem.position[v]])}
        found[v] = [
            run.marginals.estimate(left[s]) if s in left else Estimate.exactly(0.0) for s in range(problem.sizes[v])
        ]
    return found


def _by_name(connected: Connectivity, names: Sequence[str]) -> Connectivity:
    """With the names of variables where the reason has their numbers."""
    reason = connected.reason
    for part in connected.parts:
        reason = reason.replace(str(part.variables), f"({', '.join(names[i] for i in part.variables)})")
    return connected._replace(reason=reason)


def _with_connectivity(found: Verdict, connected: Connectivity) -> Verdict:
    """The verdict on chains, knowing whether their blocks connect all possible states."""
    if connected.answer is False:
        advice = "Use method='importance' or 'tempering'."
        return Verdict.of_chains(False, f"{connected.reason}.", advice=advice)
    if connected.answer is None and found.converged:
        return Verdict.of_chains(None, found.reason, f"Zeros may keep states apart: {connected.reason}.")
    return found


_CAVEAT = "A mode that is narrow at every temperature can be missed by all chains."
_STEPS = 10**7  # updates between two commits: a second or less


def answer_by_tempering(network: DiscreteNetwork, evidence: Evidence, query: Sequence[int], running: Running) -> Answer:
    """Marginals with Monte Carlo errors; the ladder is tuned by pilots and then frozen."""
    problem = prepare(network, evidence, query)
    alone = _alone(problem)
    known = {v: certain(problem.expand(v, alone.get(v))) for v in query if v in problem.fixed or v in alone}
    if len(known) == len(query):
        why = () if not alone else ("nothing that is unknown bears on what was asked",)
        return certain_answer("tempering", known, *why)
    running = running._replace(gives_up=False)  # there is no other method after it
    path = TablePath(problem.n_states, problem.factors)
    rng = np.random.default_rng(np.random.SeedSequence(running.seed, spawn_key=(0, 0)))
    ladder = tune_ladder(path, rng)
    every = range(len(problem.variables))
    names = _names(network, problem, every)
    run = run_to_accuracy(
        ParallelTempering(path, ladder.betas, thin=_thin(len(names))),
        running,
        len(names),
        names.__getitem__,
        scalar="log_value",
        probability="marginals",
        steps_per_block=max(1, _STEPS // (len(every) * len(ladder.betas))),
    )
    numbers = run.numbers | {"rungs": float(len(ladder.betas)), "barrier": ladder.barrier}
    estimates = _estimates(problem, query, every, run) | known
    found = run.judgement
    if found.converged:
        found = found._replace(reason=f"{found.reason} {_CAVEAT}")
    return Answer("tempering", estimates, None, found, numbers)


def _alone(problem: Problem) -> dict[int, NDArray[np.float64]]:
    """Distributions of the variables that share no factor with another, over the states left, by variable."""
    bound = {i for factor in problem.factors if len(factor.variables) > 1 for i in factor.variables}
    own = [factor for factor in problem.factors if factor.variables and factor.variables[0] not in bound]
    sums = {factor.variables[0]: np.zeros(problem.n_states[factor.variables[0]]) for factor in own}
    for factor in own:
        sums[factor.variables[0]] = sums[factor.variables[0]] + factor.log_values
    return {problem.variables[i]: softmax(total) for i, total in sums.items()}

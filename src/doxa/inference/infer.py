"""`infer`: the distribution of variables given evidence, by the method that the network allows.

A method is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from numpy.typing import ArrayLike

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import Until
from doxa.inference.answers import Answer, Inference
from doxa.inference.chains import Running
from doxa.inference.exact import Budget, BudgetError
from doxa.inference.exact_answers import answer_exactly, positions
from doxa.inference.options import METHODS, InferOptions
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence, read_evidence, read_values, with_soft_values
from doxa.models.factors import DiscreteNetwork
from doxa.models.gaussian import GaussianNetwork
from doxa.models.ising import PairNetwork
from doxa.models.markov import MarkovNetwork
from doxa.progress import following, tell
from doxa.sampling.driver import fresh_entropy
from doxa.text import a_kind

if TYPE_CHECKING:
    from doxa.inference.by_gibbs import ChosenBy, Plan
    from doxa.inference.by_numbers import GaussianInference

__all__ = ["infer", "infer_from"]


class Question(NamedTuple):
    """What is asked of a network, and how hard to try."""

    network: DiscreteNetwork
    evidence: Evidence
    query: Sequence[int]
    budget: Budget
    running: Running
    plan: Plan | None


@overload
def infer(
    network: GaussianNetwork,
    query: str | Sequence[str] | None = None,
    *,
    given: Mapping[str, str | float] | None = None,
    **options: Any,
) -> GaussianInference: ...
@overload
def infer(
    network: CategoricalNetwork | MarkovNetwork,
    query: str | Sequence[str] | None = None,
    *,
    given: Mapping[str, str | int] | None = None,
    **options: Any,
) -> Inference: ...
def infer(  # type: ignore[misc]  # the overloads say which options go on
    network: CategoricalNetwork | MarkovNetwork | GaussianNetwork,
    query: str | Sequence[str] | None = None,
    *,
    given: Mapping[str, str | int] | Mapping[str, str | float] | None = None,
    soft: Mapping[str, ArrayLike | Mapping[str, float]] | None = None,
    method: str = "auto",
    exact_budget: Budget | int | None = None,
    blocks: Sequence[Sequence[str] | ChosenBy] | None = None,
    scan: Literal["in_order", "reversed", "random"] | Sequence[float] | None = None,
    chains: int = 4,
    draws: int | None = None,
    warmup: int | None = None,
    until: Until | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Inference:
    """Find the distribution of variables given what was observed.

    Parameters
    ----------
    network : CategoricalNetwork, MarkovNetwork or GaussianNetwork
        Of `GaussianNetwork.do` where nodes were set.
    query : str or sequence of str, optional
        Variables asked for; all that were not observed when left out.  The fewer, the less of the network matters.
    given : mapping of str to str, optional
        Hard evidence: the label of the state each variable was seen in; of a number its value, in its unit.
    soft : mapping of str to array_like or mapping, optional
        Soft evidence: likelihoods by state, in the network's order or by label; of a number ``(value, sd)``, a
        measurement and its standard deviation.
    method : str, default="auto"
        ``"exact"`` (contraction), ``"importance"`` (adaptive importance sampling; directed networks), ``"gibbs"``,
        ``"tempering"`` (parallel tempering), or ``"mean_field"``, an approximation without an error.  ``"auto"`` takes
        the first of the first four that is feasible and whose answer can be relied on.  Of a `GaussianNetwork`,
        ``"exact"`` (linear algebra, categories summed out), ``"importance"`` (likelihood weighting), which auto takes
        where the answer depends on a category that depends on numbers, or ``"gibbs"``, which auto takes where the
        weights cannot be relied on and chains can.
    exact_budget : Budget or int, optional
        Most that an exact answer may cost; a number is one of operations.  20 thousand million, some ten seconds, and
        4 GB when left out.
    blocks : sequence of sequence of str, optional
        With ``method="gibbs"``, variables that are redrawn together; blocks may overlap, and observed variables are
        left out of them.  `ChosenBy` in the place of a block lets the state of another variable choose.  When left out,
        variables that determine each other, or share a small table, are redrawn together; Ising and Potts models have
        kernels of their own then, and are drawn by tables where blocks or a scan are given.
    scan : {"in_order", "reversed", "random"} or sequence of float, optional
        With ``method="gibbs"``, in which order: all blocks in every step, as given or backwards; or as many as there
        are, each chosen by chance, equally or with these weights.  ``"in_order"`` when left out.
    chains : int, default=4
        Independent chains of Gibbs sampling and tempering.
    draws : int, optional
        Of each chain, or weighted draws; as many as ``until`` needs when left out.
    warmup : int, optional
        Draws of each chain discarded first; half of ``draws``, or until the chains agree, when left out.
    until : Until, optional
        ``mcse`` is the largest Monte Carlo error of a probability that is good enough; 0.01 when left out.  That of a
        number's mean is counted in its standard deviations.
    seed : int, optional
        The same seed gives the same answer.
    workers : int, optional
        Chains that run at the same time, or blocks of weighted draws; one for each core when left out.  The answer does
        not depend on it.
    progress : bool, optional
        Say on one line of standard error what goes on; when left out, if that is a terminal or a notebook's.

    Returns
    -------
    Inference or GaussianInference
        ``result["BP"]["LOW"]`` is an `Estimate`; exact ones say exact.  The latter of a `GaussianNetwork`:
        ``result["pressure"]`` is a distribution with ``mean``, ``sd``, ``quantile`` and ``probability``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a variable, state, method or number is not valid.
    ImpossibleEvidenceError
        If the evidence is found to have probability zero; the message names a set that conflicts.
    BudgetError
        If ``method="exact"`` would cost more than the budget.

    Examples
    --------
    >>> import doxa
    >>> grid = doxa.ising_grid(3, 3, coupling=0.5)
    >>> print(doxa.infer(grid, "X1_1", given={"X0_1": 1, "X1_0": 1}))
    X1_1 = -1  0.0788851 (exact)
    X1_1 = 1   0.921115 (exact)
    >>> from doxa.models import GaussianNetwork, Regression
    >>> lines = {"age": Regression(50.0, [], 10.0), "pressure": Regression(80.0, [0.7], 8.0)}
    >>> network = GaussianNetwork(doxa.Dag.from_edges([("age", "pressure")]), lines)
    >>> print(doxa.infer(network, "age", given={"pressure": 130.0})["age"].probability(above=60))
    0.462526 (exact)
    """
    asked = InferOptions(
        method=method,
        exact_budget=exact_budget,
        blocks=blocks,
        scan=scan,
        chains=chains,
        draws=draws,
        warmup=warmup,
        until=until,
        seed=seed,
    )
    return infer_from(network, query, given, soft, asked, workers, progress)


def infer_from(
    network: CategoricalNetwork | MarkovNetwork | GaussianNetwork,
    query: str | Sequence[str] | None,
    given: Mapping[str, str | int] | Mapping[str, str | float] | None,
    soft: Mapping[str, ArrayLike | Mapping[str, float]] | None,
    asked: InferOptions,
    workers: int | None = None,
    progress: bool | None = None,
) -> Inference:
    """`infer`, its options as one value."""
    if isinstance(network, GaussianNetwork):
        return _about_numbers(network, query, given, soft, asked, progress)
    if not isinstance(network, (CategoricalNetwork, MarkovNetwork)):
        raise ArgumentTypeError(
            f"network is {a_kind(network)}; give a CategoricalNetwork or a MarkovNetwork, "
            "such as doxa.read_network makes, or a GaussianNetwork"
        )
    entropy = fresh_entropy() if asked.seed is None else asked.seed
    evidence = read_evidence(network, given, soft)  # type: ignore[arg-type]  # it judges
    wanted = positions(network, query)
    if query is None:
        wanted = [v for v in wanted if v not in evidence.hard]
    running = Running(*asked.length, entropy, workers=workers)
    question = Question(network, evidence, wanted, asked.budget, running, _read_plan(network, asked))
    with following(progress):
        answer, why = _auto(question) if asked.method == "auto" else (_by(asked.method, question), "asked for")
    labels = network.states
    tables = {network.names[v]: dict(zip(labels[v], answer.estimates[v], strict=True)) for v in wanted}
    observed = {network.names[v]: labels[v][state] for v, state in evidence.hard.items()}
    return Inference(
        tables, answer.method, why, answer.judgement, answer.log_evidence, answer.numbers, observed, entropy
    )


def _about_numbers(
    network: GaussianNetwork,
    query: str | Sequence[str] | None,
    given: Mapping[str, str | float] | None,
    soft: Mapping[str, Any] | None,
    asked: InferOptions,
    progress: bool | None,
) -> GaussianInference:
    from doxa.inference.by_numbers import answer_about_numbers

    seen = read_values(network, given)
    wanted = positions(network, query)
    if query is None:
        wanted = [v for v in wanted if v not in seen]
    network, measured, constant = with_soft_values(network, soft)
    seen |= measured
    entropy = fresh_entropy() if asked.seed is None else asked.seed
    with following(progress):
        found = answer_about_numbers(network, wanted, seen, asked, Running(*asked.length, entropy))
    evidence = found.log_evidence
    if constant and evidence is not None:
        found = replace(found, log_evidence=replace(evidence, value=evidence.value + constant))
    return found


def _read_plan(network: DiscreteNetwork, asked: InferOptions) -> Plan | None:
    """Blocks and order of a Gibbs sampler as the user gave them; None if neither was given."""
    if asked.blocks is None and asked.scan is None:
        return None
    from doxa.inference.by_gibbs import read_plan

    return read_plan(network, asked.blocks, asked.scan)


def _by(method: str, question: Question) -> Answer:
    """The answer of one method, which is named on the line that says what goes on."""
    tell(f"asking the method {method!r}")
    return _ANSWERS[method](question)


def _exact(question: Question) -> Answer:
    return answer_exactly(question.network, question.evidence, question.query, question.budget)


def _importance(question: Question) -> Answer:
    from doxa.inference.by_importance import answer_by_importance

    if not isinstance(question.network, CategoricalNetwork):
        raise ArgumentError("method is 'importance', which needs a directed network; use 'gibbs' or 'tempering'")
    return answer_by_importance(question.network, question.evidence, question.query, question.running)


def _gibbs(question: Question) -> Answer:
    from doxa.inference.by_gibbs import answer_by_gibbs
    from doxa.inference.by_importance import cross_checked, weighted_starts
    from doxa.inference.by_spins import answer_by_spins

    network, evidence, query, running = question.network, question.evidence, question.query, question.running
    if isinstance(network, PairNetwork) and question.plan is None:
        return answer_by_spins(network, evidence, query, running)
    if not isinstance(network, CategoricalNetwork):
        return answer_by_gibbs(network, evidence, query, running, plan=question.plan)
    starts = weighted_starts(network, evidence, query, running.seed)
    found = answer_by_gibbs(network, evidence, query, running, starts, question.plan)
    return cross_checked(found, network, evidence, query, running.seed)


def _tempering(question: Question) -> Answer:
    from doxa.inference.by_gibbs import answer_by_tempering
    from doxa.inference.by_importance import cross_checked

    network, evidence, query, running = question.network, question.evidence, question.query, question.running
    found = answer_by_tempering(network, evidence, query, running)
    if isinstance(network, CategoricalNetwork):
        return cross_checked(found, network, evidence, query, running.seed)
    return found


def _mean_field(question: Question) -> Answer:
    from doxa.inference.by_mean_field import answer_by_mean_field

    return answer_by_mean_field(question.network, question.evidence, question.query, question.running.seed)


def _auto(question: Question) -> tuple[Answer, str]:
    """The first method whose answer can be relied on; else the last one's, with its verdict."""
    try:
        return _by("exact", question), "an exact answer is within the budget"
    except BudgetError as error:
        tried = [f"exact: {str(error).split(':', maxsplit=1)[0]}"]
    answer: Answer | None = None
    question = question._replace(running=question.running._replace(gives_up=True))
    for name in ("importance", "gibbs", "tempering"):
        if name == "importance" and not isinstance(question.network, CategoricalNetwork):
            continue
        answer = _by(name, question)
        if answer.judgement.converged:
            break
        tried.append(f"{name}: {answer.judgement.text}")
    assert answer is not None
    if not answer.judgement.converged:
        tried.pop()
    return answer, "; ".join(tried)


_ANSWERS: dict[str, Callable[[Question], Answer]] = dict(
    zip(METHODS, (_exact, _importance, _gibbs, _tempering, _mean_field), strict=True)
)

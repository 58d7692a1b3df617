"""Answers in networks of numbers and categories: exact where there is an exact answer, else by weighted draws.

Every node that is asked for is a question of its own, of which the evidence that says nothing about it is pruned, so
that each is answered by the quickest method and with the best weights; nodes about which the same evidence speaks share
their draws.  The answers of one call may be exact for some nodes and sampled for others; the verdict is the worst.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.estimate import Estimate, Verdict
from doxa.estimates.real import diagnose_averages
from doxa.estimates.stopping import Shortfall, StopReport, Until, worst_shortfall
from doxa.inference.answers import SHOWN, Inference, certain, in_state, more_states
from doxa.inference.chains import Running, run_to_accuracy
from doxa.inference.exact import gaussian
from doxa.inference.exact.mixture import NormalMixture
from doxa.inference.exact.program import BudgetError
from doxa.inference.importance import numbers
from doxa.inference.importance.numbers import Weighted
from doxa.inference.number_distribution import NetworkNumber, StateProbabilities
from doxa.inference.options import InferOptions
from doxa.inference.propagation import ImpossibleEvidenceError, minimal_conflict
from doxa.models.gaussian import GaussianNetwork
from doxa.notebook import card
from doxa.progress import tell
from doxa.sampling.importance import ImportanceSample
from doxa.sampling.importance_weights import LEAST_ESS, WeightVerdict, judge_weights

__all__ = ["GaussianInference", "answer_about_numbers"]

_FIRST, _MOST = 2**14, 2**18  # weighted draws for a node; some hundred bytes each
_OF_EVIDENCE = 1e4  # effective draws: an error of 0.01 nats
_METHODS = ("auto", "exact", "importance", "gibbs")
_ADVICE = "Leave out what was seen far below the nodes asked for, or draw more: until=doxa.Until(max_draws=...)."
_EXACT = Verdict(True, "Exact", "by linear algebra, categories summed out.")


@dataclass(frozen=True, eq=False, repr=False)
class GaussianInference(Inference):
    """Distributions of numbers and of categories given evidence, made by `doxa.infer` of a `GaussianNetwork`.

    ``result["pressure"]`` of a number is a `NetworkNumber`: ``.mean``, ``.sd``, ``.quantile(0.9)`` and
    ``.probability(above=140)`` are estimates.  ``result["ill"]["yes"]`` of a category is one, as in `Inference`.

    Examples
    --------
    >>> import doxa
    >>> from doxa.models import GaussianNetwork, Regression
    >>> dag = doxa.Dag.from_edges([("smokes", "pressure")])
    >>> lines = {"pressure": Regression([120.0, 130.0], [[], []], [10.0, 10.0])}
    >>> network = GaussianNetwork(dag, lines, {"smokes": [0.6, 0.4]}, {"smokes": ["no", "yes"]})
    >>> result = doxa.infer(network, given={"pressure": 140.0})
    >>> print(result["smokes"]["yes"])
    0.749235 (exact)
    >>> print(doxa.infer(network, "pressure"))
    pressure  mean 124 (exact), standard deviation 11.1355 (exact)
    """

    distributions: Mapping[str, NetworkNumber | StateProbabilities] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """The distribution of one node: of a number a `NetworkNumber`, of a category its states' probabilities."""
        return super().__getitem__(name)

    @property
    def _answers(self) -> Mapping[str, Any]:
        return self.distributions

    def probabilities(self, name: str) -> Floats:
        """Probabilities of a category's states, in their order, shape (n_states,)."""
        if isinstance(self[name], NetworkNumber):
            raise ArgumentError(f"name is {name!r}, a number, which has no states; take .probability(above=...) of it")
        return super().probabilities(name)

    def to_frame(self) -> Any:
        """A row for each number, and for each state of each category.

        Columns ``variable, state, probability``, of numbers ``mean, sd, case_lower, case_upper`` (the central 95% of
        cases), and of both ``mcse, ess, lower, upper``: error, effective draws and 95% interval of the probability or
        the mean.
        """
        from doxa.frames import ReadFrame

        rows: list[dict[str, Any]] = []
        for name, own in self.distributions.items():
            if isinstance(own, NetworkNumber):
                e, ends = own.mean, own.interval()
                row = {"mean": e.value, "sd": own.sd.value, "case_lower": ends[0], "case_upper": ends[1]}
                rows.append({"variable": name, **row, **_error(e)})
                continue
            for label, e in own.items():
                rows.append({"variable": name, "state": label, "probability": e.value, **_error(e)})
        columns = ["variable", "state", "probability", "mean", "sd", "case_lower", "case_upper"]
        return ReadFrame(rows, columns=[*columns, "mcse", "ess", "lower", "upper"])

    def _shown(self) -> list[tuple[str, str]]:
        shown = []
        for name, own in self.distributions.items():
            if isinstance(own, NetworkNumber):
                shown.append((name, f"mean {own.mean}, standard deviation {own.sd}"))
            else:
                shown += [(f"{name} = {label}", str(e)) for label, e in own.items()]
        return shown

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, and a row for each number and each state."""
        rows, head = self._shown(), ("variable", "distribution")
        return card(self._title, self.judgement, head, rows[:SHOWN], n_left=2, more=more_states(len(rows)))


def _error(e: Estimate) -> dict[str, float]:
    low, high = e.interval()
    return {"mcse": e.mcse, "ess": e.ess, "lower": low, "upper": high}


class _Question(NamedTuple):
    network: GaussianNetwork
    states: Mapping[int, int]
    columns: list[int]
    values: Floats  # (1, n_columns)
    method: str
    running: Running
    given: Mapping[str, float | str]
    begin: float
    fixed: Mapping[int, float]  # nodes without parents that are always the same, as those that were set

    def about(self, targets: Sequence[int], *, whole: bool = False) -> numbers.Asked:
        """The question about these nodes."""
        return numbers.Asked(self.network, targets, self.states, self.columns, self.values, self.fixed, whole)


class _Found(NamedTuple):
    answer: NetworkNumber | StateProbabilities
    judgement: Verdict
    sample: ImportanceSample | None = None  # None: exact, or chains
    chains: Mapping[str, float] | None = None  # what is said of them


def answer_about_numbers(
    network: GaussianNetwork, wanted: list[int], seen: Mapping[int, float], asked: InferOptions, running: Running
) -> GaussianInference:
    """Distributions of nodes given what was seen: numbers, and positions of states of categories.

    Weighted draws for a node are ``draws`` times ``chains``, or as many as ``mcse`` needs, which is of probabilities,
    and of means in standard deviations of the number.

    Raises
    ------
    ArgumentError
        If the method is none of ``"auto"``, ``"exact"`` and ``"importance"``, there is no exact answer and one was
        asked for, or a number was seen that others determine.
    ImpossibleEvidenceError
        If the evidence is impossible; of weighted draws, if none agrees with it.
    BudgetError
        If ``method="exact"`` would list too many configurations of categories.
    """
    if asked.method not in _METHODS:
        raise ArgumentError(
            f"method is {asked.method!r}, and the network has numbers, about which answers are exact, weighted draws "
            "or chains; take 'exact', 'importance', 'gibbs' or 'auto'"
        )
    if asked.exact_budget is not None:
        raise ArgumentError(
            "exact_budget is given, and the network has numbers, whose exact answers have a budget of their own; "
            "leave it out"
        )
    columns = [v for v in seen if not network.states[v]]
    states = {v: int(k) for v, k in seen.items() if network.states[v]}
    given = {network.names[v]: network.states[v][int(k)] if network.states[v] else k for v, k in seen.items()}
    values = np.array([[seen[v] for v in columns]])
    question = _Question(
        network, states, columns, values, asked.method, running, given, time.monotonic(), _fixed(network, seen)
    )
    known = {**question.fixed, **seen}
    exact = {v: _known(question, v, known[v]) if v in known else _exactly(question, v) for v in wanted}
    groups: dict[frozenset[int], list[int]] = {}
    unknown = [v for v, one in exact.items() if one is None]
    for v in unknown:
        groups.setdefault(_speaking(question, v), []).append(v)
    if asked.method == "gibbs":
        drawn = _by_chains(question, unknown) if unknown else {}
    else:
        drawn = {v: one for group in groups.values() for v, one in _drawn(question, group).items()}
        if asked.method == "auto":
            drawn |= _again(question, drawn)
    found = {v: one if one is not None else drawn[v] for v, one in exact.items()}
    evidence = _log_evidence(question)
    sampled = {v: one for v, one in found.items() if one.sample is not None or one.chains is not None}
    judged = [one.judgement for one in sampled.values()]
    verdict = min(judged, key=lambda one: (False, None, True).index(one.converged), default=_EXACT)
    why = "asked for" if asked.method != "auto" else "an exact answer is within the budget"
    if asked.method == "auto" and sampled:
        reasons = dict.fromkeys(_why(question, v) for v in sampled)
        why = "; ".join(f"exact: {reason}" for reason in reasons)
    counts: dict[str, float] = {}
    weighted = [one.sample for one in sampled.values() if one.sample is not None]
    by_chains = next((one.chains for one in sampled.values() if one.chains is not None), None)
    if by_chains is not None:
        counts = dict(by_chains)
    elif weighted:
        worst = min(weighted, key=lambda sample: sample.ess)
        counts = {"draws": float(worst.n), "ess": worst.ess, "pareto_k": worst.pareto_k}
    names = network.names
    return GaussianInference(
        {names[v]: one.answer for v, one in found.items() if isinstance(one.answer, StateProbabilities)},
        "exact" if not sampled else "importance" if by_chains is None else "gibbs",
        why,
        verdict,
        evidence,
        counts,
        {name: str(value) if isinstance(value, str) else f"{value:g}" for name, value in given.items()},
        running.seed,
        {names[v]: one.answer for v, one in found.items()},
    )


def _fixed(network: GaussianNetwork, seen: Mapping[int, float]) -> dict[int, float]:
    """Nodes without parents that can have one value alone, as `GaussianNetwork.do` leaves those that were set."""
    found: dict[int, float] = {}
    for v, name in enumerate(network.names):
        if network.parents[v] or v in seen:
            continue
        if name in network.regressions and network.regressions[name].sd == 0:
            found[v] = float(network.regressions[name].intercept)
        elif name in network.tables and network.tables[name].max() == 1.0:
            found[v] = float(network.tables[name].argmax())
    return found


def _known(question: _Question, v: int, value: float) -> _Found:
    """What was seen or set, and is asked for all the same."""
    name, labels = question.network.names[v], question.network.states[v]
    if labels:
        return _Found(_of_states(question, v, in_state(int(value), len(labels))), _EXACT)
    point = NormalMixture([1.0], [value], [0.0])
    return _Found(NetworkNumber(name, question.given, {}, mixture=point), _EXACT)


def _of_states(question: _Question, v: int, estimates: Sequence[Estimate]) -> StateProbabilities:
    """A category's estimates by the labels of its states."""
    network = question.network
    return StateProbabilities(network.names[v], dict(zip(network.states[v], estimates, strict=True)))


def _why(question: _Question, v: int) -> str:
    below = question.about([v]).below_numbers
    return f"{below[0]} is a category that depends on numbers" if below else "too many configurations of categories"


def _speaking(question: _Question, v: int) -> frozenset[int]:
    """The evidence that says something about a node, by which its draws are weighted."""
    families = question.about([v]).families
    return frozenset(child for child, _ in families).intersection(question.states, question.columns)


def _exactly(question: _Question, v: int) -> _Found | None:
    """The answer about one node; None where it takes draws."""
    name, labels, asked = question.network.names[v], question.network.states[v], question.about([v])
    tell(f"asking for {name!r}")
    found: gaussian.Conditioned | Weighted | None = numbers.listed(asked)
    if question.method == "gibbs" or (found is None and question.method == "importance"):
        return None
    if found is None and question.method == "auto" and asked.below_numbers:
        return None
    if found is None or not asked.below_numbers:  # without weights the accuracy of small tails is kept
        try:
            found = _conflicts_named(question, asked)
        except BudgetError:
            if question.method == "exact":
                raise
            return None
    if labels:
        return _Found(_of_states(question, v, certain(found.state_probabilities(v, len(labels))[0])), _EXACT)
    mixture = found.mixture() if isinstance(found, gaussian.Conditioned) else found.mixture(most=_MOST)
    return _Found(NetworkNumber(name, question.given, {}, mixture=mixture), _EXACT)


def _drawn(question: _Question, group: list[int]) -> dict[int, _Found]:
    """Answers about nodes by the same weighted draws."""
    found, report = _weighted(question, group)
    sample = _sample_of(question.about(group), found)
    weights, stopped = sample.verdict, "" if report is None else report.text
    advice = "" if weights.reliable else _ADVICE
    reason = f"{_listing(question, group)}: {weights.reason}. {stopped}".rstrip()
    verdict = Verdict(weights.reliable, weights.status, reason, advice)
    return {v: _Found(_answer(question, v, found, sample, group), verdict, sample) for v in group}


def _listing(question: _Question, group: list[int]) -> str:
    names = [question.network.names[v] for v in group]
    return ", ".join(names) if len(names) < 4 else f"{names[0]}, {names[1]} and {len(names) - 2} more"


def _conflicts_named(question: _Question, asked: numbers.Asked) -> gaussian.Conditioned:
    """The exact answer; where the evidence is impossible, with the states that conflict."""
    try:
        return asked.exactly()
    except ImpossibleEvidenceError:
        of_states = replace(asked, targets=[], columns=[], values=np.empty((1, 0)), whole=True)

        def is_possible(part: tuple[int, ...]) -> bool:
            try:
                found = replace(of_states, given={v: question.states[v] for v in part}).exactly()
            except ImpossibleEvidenceError:
                return False
            return bool(np.isfinite(found.log_evidence[0]))

        names = tuple(question.network.names[v] for v in minimal_conflict(question.states, is_possible))
        listed = " and ".join(f"{name!r} is {question.given[name]!r}" for name in names)
        verb = "have probability 0 together" if len(names) > 1 else "has probability 0"
        raise ImpossibleEvidenceError(f"given says that {listed}, which {verb}; leave out one", names) from None


class _ChainDraws:
    """Kept draws of chains, in the place of weighted ones."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape  # chains, draws of each

    def expectation(self, f: Any, *, unit: bool = False) -> Estimate:
        """The mean of what every draw has, with its error."""
        own = np.asarray(f(None)).reshape(self.shape)
        return diagnose_averages(own[..., None]).estimate(0) if unit else diagnose_real(own).estimate


_CHAIN_ADVICE = "Draw more: draws=, or until=doxa.Until(max_draws=...)."
_ZEROS = "States that are impossible in some configurations may keep chains from others."


def _by_chains(question: _Question, group: list[int]) -> dict[int, _Found]:
    """Answers about nodes by Gibbs sampling."""
    from doxa.inference.gibbs.numbers import NumberGibbs, has_zeros  # compiled on import

    network = question.network
    seen = {**question.states, **dict(zip(question.columns, question.values[0].tolist(), strict=True))}
    sampler = NumberGibbs(network, group, seen, question.fixed)
    names = [
        f"{network.names[v]}{label}"
        for v in group
        for label in ([f" = {state}" for state in network.states[v]] or [", its mean in standard deviations,"])
    ]
    tell(f"chains for {_listing(question, group)}")
    run = run_to_accuracy(sampler, question.running, len(names), names.__getitem__)
    assert run.trace is not None  # it has just been run
    kept = run.trace["kept"]
    flat = kept.reshape(-1, kept.shape[-1])
    draws = _ChainDraws(kept.shape[:2])
    verdict = run.judgement
    if verdict.converged is not True:
        verdict = verdict._replace(advice=_CHAIN_ADVICE)
    elif has_zeros(network, sampler.nodes):
        verdict = Verdict.of_chains(None, verdict.reason, _ZEROS)
    found: dict[int, _Found] = {}
    for v in group:
        name, labels, at = network.names[v], network.states[v], int(sampler.places[v])
        if labels:
            own = flat[:, at : at + len(labels)].T
            made = [draws.expectation(lambda _, one=one: one, unit=True) for one in own]
            answer: Any = _of_states(question, v, made)
        else:
            parts = flat[:, at], flat[:, at + 1]
            n = len(flat)
            means, sds = (part[None, :, None] for part in parts)
            every = np.full((1, n), -math.log(n))
            no_states = np.zeros((1, n, 0), dtype=np.int64)
            mixture = Weighted(np.zeros(1), every, means, sds, (), no_states, {}, False).mixture(0, 0, n, alone=True)
            answer = NetworkNumber(name, question.given, {}, mixture=mixture, weighted=draws, parts=parts)
        found[v] = _Found(answer, verdict, chains=run.numbers)
    return found


def _again(question: _Question, drawn: Mapping[int, _Found]) -> dict[int, _Found]:
    """By chains what weighted draws could not be relied on for, where those can be."""
    poor = [v for v, one in drawn.items() if one.judgement.converged is not True]
    if not poor:
        return {}
    try:
        found = _by_chains(question, poor)
    except ArgumentError:  # a number without scatter, or no start that agrees with the evidence
        return {}
    return found if all(one.judgement.converged for one in found.values()) else {}


class _JudgedSample(ImportanceSample):
    """Weighted draws whose largest possible weight is known."""

    largest: float = math.inf  # nats

    @cached_property
    def _guaranteed(self) -> float:
        """As many draws as are needed at least for the sum of the weights."""
        top = float(self.log_weights.max())
        log_sum = top + math.log(float(np.exp(self.log_weights - top).sum()))
        return math.exp(min(log_sum - self.largest, 700.0))

    @cached_property
    def verdict(self) -> WeightVerdict:
        """As `doxa.inference.importance.sample.NetworkSample.verdict`: where no weight can matter, k is left out."""
        if self._guaranteed >= LEAST_ESS:
            return judge_weights(self.n, self.ess, np.nan)._replace(
                reason=f"no weight can be above 1/{self._guaranteed:.0f} of their sum, ess {self.ess:.0f} of {self.n} "
                "draws"
            )
        return judge_weights(self.n, self.ess, self.pareto_k)

    def _verdict_with(self, size: Floats) -> WeightVerdict:
        """Numbers have the tails of normal distributions: where no weight can matter, no product with one does."""
        return self.verdict if self._guaranteed >= LEAST_ESS else super()._verdict_with(size)


def _sample_of(asked: numbers.Asked, found: Weighted) -> ImportanceSample:
    n = found.log_weights.shape[1]
    log_weights = found.log_weights[0] + found.log_evidence[0] + math.log(n)
    made = _JudgedSample(np.arange(n), log_weights, np.zeros(n))
    object.__setattr__(made, "largest", numbers.largest_log_weight(asked))
    return made


def _answer(
    question: _Question, v: int, found: Weighted, sample: ImportanceSample, group: list[int]
) -> NetworkNumber | StateProbabilities:
    name, labels = question.network.names[v], question.network.states[v]
    if not labels:
        place = [u for u in group if not question.network.states[u]].index(v)
        parts = found.means[0, :, place], found.sds[0, :, place]
        mixture = found.mixture(0, place, len(parts[0]), alone=True)
        return NetworkNumber(name, question.given, {}, mixture=mixture, weighted=sample, parts=parts)
    own = found.shares[v][0] if v in found.shares else np.eye(len(labels))[found.states[0, :, found.listed.index(v)]]
    made = [sample.expectation(lambda draws, k=k: own[draws, k], unit=True) for k in range(len(labels))]  # type: ignore[misc]
    return _of_states(question, v, made)


def _looks(running: Running) -> list[int]:
    """Numbers of weighted draws at which to look."""
    if running.schedule.draws is not None:
        return [running.schedule.draws * running.schedule.chains]
    most = _MOST if running.until.max_draws is None else running.until.max_draws
    looks = [n for k in range(30) if (n := _FIRST << k) < most]
    return [*looks, most]


def _weighted(question: _Question, group: list[int]) -> tuple[Weighted, StopReport | None]:
    """Draws about nodes until nothing is missing at two looks running, or a limit is reached."""
    running, until = question.running, question.running.until
    is_fixed = running.schedule.draws is not None
    passed, missing, reason = 0, None, "max_draws"

    def is_enough(found: Weighted) -> bool:
        nonlocal passed, missing, reason
        missing = None if is_fixed else _shortfall(question, group, found, until)
        tell(f"weighted draws for {_listing(question, group)}: {found.log_weights.shape[1]}")
        passed = 0 if missing else passed + 1
        if until.max_seconds is not None and time.monotonic() - question.begin > until.max_seconds:
            reason = "max_seconds"
            return True
        if passed == 2:
            reason = "reached"
        return passed == 2

    rng = np.random.default_rng(np.random.SeedSequence(running.seed, spawn_key=(group[0],)))
    found = numbers.weigh(question.about(group), rng, _looks(running), is_enough)
    if is_fixed and reason != "max_seconds":
        return found, None
    return found, StopReport(reason, missing, time.monotonic() - question.begin)


def _shortfall(question: _Question, group: list[int], found: Weighted, until: Until) -> Shortfall | None:
    """What the draws lack most; as `doxa.inference.importance.until.shortfall`."""
    sample = _sample_of(question.about(group), found)
    if not sample.verdict.reliable or sample.ess < until.ess:
        factor = until.ess / max(sample.ess, 1e-9)
        return Shortfall("the weights", "effective draws", sample.ess, until.ess, factor if factor > 1 else np.inf)
    errors: dict[str, float] = {}
    places = {v: k for k, v in enumerate(u for u in group if not question.network.states[u])}
    for v in group:
        name = question.network.names[v]
        if v in places:
            means, sds = (part[0, :, places[v]] for part in (found.means, found.sds))
            mean = sample.expectation(lambda draws, own=means: own[draws])  # type: ignore[misc]
            sd = math.sqrt(sample.weights @ (np.nan_to_num(sds) ** 2 + (means - mean.value) ** 2))
            errors[f"the mean of {name}, in standard deviations,"] = mean.mcse / max(sd, 1e-300)
            continue
        answer = _answer(question, v, found, sample, group)
        assert isinstance(answer, StateProbabilities)
        errors |= {f"P({name} = {label})": e.mcse for label, e in answer.items()}
    short = [
        Shortfall(what, "Monte Carlo error", error, until.mcse, (error / until.mcse) ** 2)
        for what, error in errors.items()
        if error > until.mcse
    ]
    return worst_shortfall(short)


def _log_evidence(question: _Question) -> Estimate | None:
    """Log density of what was seen, nats; None where nothing but an exact answer is wanted, and there is none."""
    if not question.states and not question.columns:
        return Estimate.exactly(0.0)
    asked = question.about([], whole=True)
    if question.method != "importance" and not asked.below_numbers:
        try:
            return Estimate.exactly(float(_conflicts_named(question, asked).log_evidence[0]))
        except BudgetError:
            if question.method == "exact":
                return None
    elif question.method == "exact":
        return None
    key = (len(question.network.names),)
    rng = np.random.default_rng(np.random.SeedSequence(question.running.seed, spawn_key=key))
    looks = _looks(question.running)
    found = numbers.weigh(asked, rng, looks, lambda found: float(found.effective.min()) >= _OF_EVIDENCE)
    if found.is_sum:
        return Estimate.exactly(float(found.log_evidence[0]))
    return _sample_of(asked, found).log_normalising_constant()

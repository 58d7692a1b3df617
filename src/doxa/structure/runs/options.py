"""`LearnOptions`: what a run over graphs is asked for. `RunOptions`: what that comes to for a table, as plain data.

The second is what a posterior remembers, what a run file keeps, and what the limits and the prior are made from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.data.declared import declared
from doxa.data.interventions import Interventions, with_interventions
from doxa.data.options import shown
from doxa.data.slices import all_names
from doxa.data.time_order import TimeOrder, in_slices
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError
from doxa.estimates.stopping import Until
from doxa.schema import Many, Within, made_of_fields
from doxa.structure.families.additive.kinds import Additive, AdditiveMixture
from doxa.structure.families.gaussian.kinds import BGe, ConditionalGaussian, GaussianBIC
from doxa.structure.families.kind import FamilyKind
from doxa.structure.families.logistic.score import FamilyMixture, Logistic
from doxa.structure.families.scores import BIC, K2, BDeu
from doxa.structure.limits import Limits, forbid_more, make_limits, without_parents
from doxa.structure.priors import StructurePrior, make_prior
from doxa.text import shown as cut

if TYPE_CHECKING:
    from doxa.structure.cases.incomplete.missing_cells import IncompleteData
    from doxa.structure.moves.sampler import StructureMove

__all__ = ["FAMILIES", "LearnOptions", "RunOptions", "check_families", "check_family", "check_score"]

BESIDE = ("sampler", "warmup", "draws", "until", "source", "stop", "saved", "sums")  # of a run file's options
_ALWAYS = ("nodes", "n_rows", "score", "prior", "edge_log_odds", "max_parents", "required", "forbidden")
MOST_NODES, MOST_STATES = 20_000, 2**15 - 1  # of a run file: states are kept in 16 bits
FAMILIES = ("categorical", "logistic", "auto", "gaussian", "conditional_gaussian", "additive")
SCORES: dict[str, type[FamilyKind]] = {kind.name: kind for kind in (BDeu, K2, BIC, BGe, GaussianBIC)}


@dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """What `doxa.learn` is asked for, beside the table and where to keep the run: its keywords, and their defaults."""

    family: str | Mapping[str, str] | None = None
    score: str | FamilyKind | None = None
    equivalent_sample_size: float = 1.0
    prior_scale: float | None = None
    prior: str = "sparse"
    edge_log_odds: float | Mapping[tuple[str, str], float] | NDArray[Any] | None = None
    sampler: str | StructureMove = "auto"
    max_parents: int | Mapping[str, int] | None = None
    required: Iterable[tuple[str, str]] = ()
    forbidden: Iterable[tuple[str, str]] = ()
    tiers: Sequence[Sequence[str]] | None = None
    indicator: Iterable[str] = ()
    hidden: Mapping[str, int] | None = None
    interventions: str | Mapping[int, str | Iterable[str]] | None = None
    imperfect: bool | Iterable[str] = False
    uncertain_targets: bool = False
    time: str | None = None
    unit: str | None = None
    lags: int | None = None
    step: float | str | None = None
    gaps: str | None = None
    exact: bool | None = None
    chains: int = 4
    draws: int | None = None
    warmup: int | None = None
    thin: int | None = None
    until: Until | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "indicator", tuple(self.indicator))
        if not isinstance(self.imperfect, (bool, str)) and isinstance(self.imperfect, Iterable):
            object.__setattr__(self, "imperfect", tuple(self.imperfect))
        _ = self.done, self.order  # raises, before a table is read
        if isinstance(self.family, Mapping):
            object.__setattr__(self, "family", dict(self.family))
        self._kind((), np.zeros(1, dtype=np.bool_))  # raises, before a table is read
        if self.exact is not None and not isinstance(self.exact, bool):
            raise ArgumentTypeError(f"exact is {self.exact!r}; it must be True, False, or left out")

    @property
    def is_about_sampling(self) -> bool:
        """Whether something is asked that only a sampler can do."""
        return self.sampler != "auto" or any(x is not None for x in (self.draws, self.warmup, self.thin, self.until))

    @property
    def done(self) -> Interventions | None:
        """The interventions, checked."""
        return Interventions.of(self.interventions, self.imperfect, self.uncertain_targets)

    @property
    def order(self) -> TimeOrder | None:
        """That rows are moments in time, checked; None where they are not."""
        made = TimeOrder.of(self.time, self.unit, self.lags, self.step, self.gaps)
        if made is None:
            return None
        for name, value in (
            ("hidden", self.hidden), ("indicator", self.indicator), ("uncertain_targets", self.uncertain_targets)
        ):  # fmt: skip
            if value:
                raise ArgumentError(
                    f"{name} is {value!r} and time is {self.time!r}, which do not go together; leave one of them out"
                )
        return made

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of times and units, which are no nodes."""
        return _keys(self.order)

    def declared(self, table: Table) -> Table:
        """The table with the columns that are declared, what interventions did in its rows, and the past of moments."""
        return in_slices(with_interventions(declared(table, self.indicator, self.hidden), self.done), self.order)

    def kind(self, table: Table) -> FamilyKind:
        """What ``family``, ``score`` and their numbers mean together, for the columns of a table."""
        return self._kind(table.names, table.is_number)

    def _kind(self, names: Sequence[str], is_number: NDArray[np.bool_]) -> FamilyKind:
        scales = self.equivalent_sample_size, self.prior_scale
        if isinstance(self.family, Mapping):
            return check_families(self.family, self.score, *scales, names, is_number)
        return check_family(self.family, self.score, *scales, is_number)

    def most_configurations(self, table: Table) -> int | None:
        """Of the parents of a node, under this prior and for this kind of family; None for any number."""
        return self.kind(table).most_configurations(table.n_rows) if self.prior == "sparse" else None

    def limits(self, table: Table) -> Limits:
        """The families that are possible in a table.

        Raises
        ------
        ArgumentError
            If the kind of family does not take a column, or demands contradict each other.
        """
        kind = self.kind(table)
        kind.check_columns(table.names, table.n_states, table.is_number)
        if table.moments is not None and not kind.is_of_moments:
            raise ArgumentError(
                f"the table has {table.n_rows} rows, of which the moments are kept, and {kind.name} families are "
                "scored from rows; take family='conditional_gaussian' or 'gaussian', or give fewer rows"
            )
        limits = make_limits(
            table.names,
            max_parents=self.max_parents,
            required=self.required,
            forbidden=self.forbidden,
            tiers=self.tiers,
            n_states=table.n_states,
            max_configurations=self.most_configurations(table),
        )
        banned = kind.forbidden_edges(table.is_number)
        for i, j in np.argwhere(banned & limits.required_edges).tolist():
            raise ArgumentError(
                f"the edge {table.names[i]!r} -> {table.names[j]!r} is required, and the {kind.name} score has no "
                "such families; take it out of required, or take another family"
            )
        pairs = [(table.names[i], table.names[j]) for i, j in np.argwhere(banned).tolist()]
        if table.slices is not None:
            limits = without_parents(limits, table.names, table.n_present)
        return forbid_more(limits, table.names, pairs) if pairs else limits


@dataclass(frozen=True)
class RunOptions:
    """What a run was asked for, beside the table and the sampler."""

    names: Annotated[tuple[str, ...], Many(2, MOST_NODES)]
    n_rows: Annotated[int, Within(1)]
    data_digest: str
    max_parents: tuple[Annotated[int, Within(0)], ...]  # of each node
    score: FamilyKind = dataclasses.field(default_factory=BDeu)
    prior: str = "uniform"
    edge_log_odds: tuple[tuple[str, str, float], ...] = ()
    required: tuple[tuple[str, str], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()  # those that tiers forbid among them
    n_missing: Annotated[int, Within(0)] = 0  # cells, those of hidden columns included
    indicator: tuple[str, ...] = ()  # columns whose absence is a column of its own
    hidden: tuple[
        tuple[str, Annotated[int, Within(2, MOST_STATES)]], ...
    ] = ()  # columns that nobody observed, with their numbers of states
    n_states: tuple[Annotated[int, Within(1, MOST_STATES)], ...] = ()  # of each node; older files do not say
    max_configurations: Annotated[int | None, Within(1)] = None  # of the parents of a node; None: any number
    numbers: tuple[str, ...] = ()  # columns that hold numbers
    transforms: tuple[tuple[str, str], ...] = ()  # the scales of those that are learned from on another
    graph_given: bool = False  # whether the tables of one graph were fitted, by `doxa.fit`
    interventions: Interventions | None = None
    target_sets: tuple[tuple[str, ...], ...] = ()  # columns on which somebody intervened together
    order: TimeOrder | None = None
    of_time: str = ""  # what was made of the table of moments, in words

    @classmethod
    def of(cls, table: Table, asked: LearnOptions, prior: StructurePrior, limits: Limits) -> RunOptions:
        """What options, a prior and limits amount to for a table."""
        names = table.names
        n = len(names)
        odds = prior.edge_log_odds
        banned = ~limits.allowed_edges & ~np.eye(n, dtype=np.bool_)
        banned[:, table.n_present :] = False  # which `limits` knows
        return cls(
            names,
            table.n_rows,
            table.digest,
            tuple(limits.max_parents.tolist()),
            asked.kind(table),
            prior.kind,
            tuple((names[i], names[j], float(odds[i, j])) for i, j in np.argwhere(odds).tolist()),
            tuple((names[i], names[j]) for i, j in np.argwhere(limits.required_edges).tolist()),
            tuple((names[i], names[j]) for i, j in np.argwhere(banned).tolist()),
            table.n_unknown,
            tuple(asked.indicator),
            tuple((asked.hidden or {}).items()),
            tuple(table.n_states.tolist()),
            asked.most_configurations(table),
            tuple(name for name, number in zip(names, table.is_number.tolist(), strict=True) if number),
            tuple((name, transform.method) for name, transform in table.transforms.items()),
            interventions=asked.done,
            target_sets=table.target_sets,
            order=asked.order,
            of_time="" if table.slices is None else table.slices.text,
        )

    def declared(self, table: Table) -> Table:
        """As `LearnOptions.declared`; what a table has already is left alone."""
        done = with_interventions(declared(table, self.indicator, dict(self.hidden)), self.interventions)
        return in_slices(done, self.order)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of times and units, which are no nodes."""
        return _keys(self.order)

    @property
    def n_present(self) -> int:
        """Number of columns, copies of the past not counted."""
        return len(self.names) if self.order is None else len(self.names) // (self.order.lags + 1)

    @property
    def hidden_names(self) -> list[str]:
        """The columns that nobody observed."""
        return [name for name, _ in self.hidden]

    def read_again(self, source: Mapping[str, Any]) -> Table:
        """The table with its declared columns, from where it was read."""
        from doxa.data.read import read_without_empty

        return self.declared(read_without_empty(allowed=self.hidden_names, known=self.keys, **source))

    def incomplete(self, table: Table) -> IncompleteData:
        """A table with missing cells, and how its completions are scored."""
        from doxa.structure.cases.incomplete.missing_cells import IncompleteData

        return IncompleteData(table, self.score, self.structure_prior, self.hidden_names)

    @property
    def targets(self) -> NDArray[np.bool_] | None:
        """The sets of columns on which somebody intervened together, shape (n_sets, n_columns); None without any.

        Copies of the past are sets of their own: what leads from them has a direction, as if they had been set.
        """
        past = [(name,) for name in self.names[self.n_present :]]
        sets = [*filter(None, self.target_sets), *past]
        return np.array([[name in names for name in self.names] for names in sets]) if sets else None

    @cached_property
    def limits(self) -> Limits:
        """The families that are possible."""
        caps = dict(zip(self.names, self.max_parents, strict=True))
        limits = make_limits(
            self.names,
            max_parents=caps,
            required=self.required,
            forbidden=self.forbidden,
            n_states=self.n_states,
            max_configurations=self.max_configurations,
        )
        return limits if self.order is None else without_parents(limits, self.names, self.n_present)

    @cached_property
    def structure_prior(self) -> StructurePrior:
        """The prior over graphs."""
        odds = {(i, j): value for i, j, value in self.edge_log_odds}
        return make_prior(self.names, self.prior, odds, self.n_present)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers; table and digest are kept elsewhere in a run file."""
        return {
            "nodes": list(self.names),
            "n_rows": self.n_rows,
            "score": self.score.settings,
            "prior": self.prior,
            "edge_log_odds": [list(entry) for entry in self.edge_log_odds],
            "max_parents": list(self.max_parents),
            "required": [list(edge) for edge in self.required],
            "forbidden": [list(edge) for edge in self.forbidden],
            "n_missing": self.n_missing,
            "indicator": list(self.indicator),
            "hidden": [list(entry) for entry in self.hidden],
            "n_states": list(self.n_states),
            "max_configurations": self.max_configurations,
            "numbers": list(self.numbers),
            "transforms": [list(entry) for entry in self.transforms],
            "graph_given": self.graph_given,
            "interventions": None if self.interventions is None else self.interventions.to_json(),
            "target_sets": [list(names) for names in self.target_sets],
            "order": None if self.order is None else self.order.to_json(),
            "of_time": self.of_time,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], data_digest: str) -> RunOptions:
        """Undo `to_json`, trusting nothing.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If something is not as `to_json` writes it.
        """
        own = {name: value for name, value in stored.items() if name not in BESIDE}
        for name in _ALWAYS:
            if name not in own:
                raise ArgumentError(f"its option {name} is missing")
        options: RunOptions = made_of_fields(cls, own | {"data_digest": data_digest}, "its option ", {"nodes": "names"})
        options.check_agreement()
        return options

    def check_table(self, table: Table) -> None:
        """Raise `ArgumentError` unless a table is of the form that the options say.

        Its digest says more, unless these come from a file that somebody has changed.
        """
        numbers = tuple(name for name, number in zip(table.names, table.is_number.tolist(), strict=True) if number)
        for what, mine, theirs in (
            ("columns", self.names, table.names),
            ("numbers of states", self.n_states, tuple(table.n_states.tolist()) if self.n_states else ()),
            ("columns of numbers", self.numbers, numbers if self.numbers else ()),
            ("number of missing cells", self.n_missing, table.n_unknown),
            ("number of rows", self.n_rows, table.n_rows),
        ):
            if mine != theirs:
                raise ArgumentError(f"the table's {what} differ: {cut(theirs)} now, and {cut(mine)} in the run")

    def check_agreement(self) -> None:
        """Raise `ArgumentError` unless options that came from a file, each of its form, agree with each other."""
        n, known = len(self.names), set(self.names)
        if len(known) < n:
            raise ArgumentError("its option nodes has equal names")
        for name, length, needed in (
            ("max_parents", len(self.max_parents), True),
            ("n_states", len(self.n_states), bool(self.n_states) or self.max_configurations is not None),
        ):
            if needed and length != n:
                raise ArgumentError(f"its option {name} has {length} entries, and there are {n} nodes")
        if self.order is not None and all_names(self.names[: self.n_present], self.order.lags) != self.names:
            raise ArgumentError("its option nodes has not the names of moments with their past")
        if self.n_missing > self.n_rows * n:
            raise ArgumentError(f"its option n_missing is {self.n_missing}, and the table has {self.n_rows * n} cells")
        for name, said in (
            ("numbers", self.numbers),
            ("hidden", self.hidden_names),
            ("transforms", [name for name, _ in self.transforms]),
            ("target_sets", [name for names in self.target_sets for name in names]),
        ):
            if unknown := [one for one in said if one not in known]:
                raise ArgumentError(f"its option {name} has {cut(unknown[0])}, which is none of its nodes")
        try:
            if self.n_states:
                is_number = np.array([name in self.numbers for name in self.names])
                self.score.check_columns(self.names, np.array(self.n_states, dtype=np.int64), is_number)
            _ = self.limits, self.structure_prior
        except DoxaError as error:
            raise ArgumentError(f"its options contradict each other: {error}") from error


def _keys(order: TimeOrder | None) -> tuple[str, ...]:
    return () if order is None else tuple(filter(None, (order.time, order.unit)))


def check_family(
    family: str | None,
    score: str | FamilyKind | None,
    equivalent_sample_size: float,
    prior_scale: float | None,
    is_number: NDArray[np.bool_],
) -> FamilyKind:
    """The score that ``family=``, ``score=`` and their numbers mean together, given which columns hold numbers.

    Raises
    ------
    ArgumentError
        If the family is unknown, or a score or a number is given that it does not have.
    """
    if family is not None and family not in FAMILIES:
        raise ArgumentError(f"family is {family!r}; it must be one of {', '.join(map(repr, FAMILIES))}")
    if family not in ("logistic", "auto", "additive") and prior_scale is not None:
        raise ArgumentError(
            f"prior_scale is {prior_scale!r}, which belongs to logistic families; leave it out, or say "
            "family='logistic', family='additive' or family='auto'"
        )
    if family is None and score is None:
        usual = BGe if is_number.all() else ConditionalGaussian if is_number.any() else BDeu
        family = {BGe: "gaussian", ConditionalGaussian: "conditional_gaussian", BDeu: "categorical"}[usual]
    if family is None or family == "categorical":
        return check_score(BDeu.name if score is None else score, equivalent_sample_size)
    if family == "gaussian" and score in (BGe.name, GaussianBIC.name, "bic"):
        return check_score(BGe.name if score == BGe.name else GaussianBIC.name, equivalent_sample_size)
    if score is not None:
        raise ArgumentError(f"score is {score!r}, and family={family!r} has a score of its own; leave score out")
    scales = () if prior_scale is None else (prior_scale,)
    if family == "auto":
        return (AdditiveMixture if is_number.any() else FamilyMixture)(equivalent_sample_size, *scales)
    if family == "conditional_gaussian":
        return ConditionalGaussian(equivalent_sample_size)
    if equivalent_sample_size != 1.0:
        way = "give alpha_mu, as in score=BGe(alpha_mu=2)" if family == "gaussian" else "give prior_scale"
        raise ArgumentError(
            f"equivalent_sample_size is {equivalent_sample_size!r}, and {family} families have none; {way}"
        )
    if family == "gaussian":
        return BGe()
    return Additive(*scales) if family == "additive" else Logistic(*scales)


_KINDS_OF = {  # of numbers, and of categories; and the prior probability that such a family is additive
    True: {"gaussian": 0.0, "conditional_gaussian": 0.0, "auto": 0.5, "additive": 1.0},
    False: {"categorical": 0.0, "conditional_gaussian": 0.0, "auto": 0.5, "logistic": 1.0, "additive": 1.0},
}


def check_families(
    families: Mapping[str, str],
    score: str | FamilyKind | None,
    equivalent_sample_size: float,
    prior_scale: float | None,
    names: Sequence[str],
    is_number: NDArray[np.bool_],
) -> FamilyKind:
    """The score that ``family=`` means which names kinds by column; before a table is read there are no ``names``.

    Raises
    ------
    ArgumentError
        If a kind or a column is unknown, or the kind is not one of such a column, or a score is given beside it.
    """
    known = {*_KINDS_OF[True], *_KINDS_OF[False]}
    for name, kind in families.items():
        if kind not in known:
            raise ArgumentError(f"family[{name!r}] is {kind!r}; it must be one of {', '.join(map(repr, FAMILIES))}")
    if score is not None:
        raise ArgumentError(
            f"score is {score!r}, and family names kinds by column, with scores of their own; leave it out"
        )
    shares = []
    if names and (unknown := [name for name in families if name not in names]):
        raise ArgumentError(
            f"family names {unknown[0]!r}, which is no column of the table; its columns are {shown(names)}"
        )
    for name, number in zip(names, is_number.tolist(), strict=bool(names)):
        kind = families.get(name, "conditional_gaussian")
        if kind not in _KINDS_OF[number]:
            what, fit = ("numbers", "categories") if number else ("categories", "numbers")
            raise ArgumentError(
                f"family[{name!r}] is {kind!r}, a kind for {fit}, and the column holds {what}; give one of "
                f"{', '.join(map(repr, _KINDS_OF[number]))}"
            )
        shares.append(_KINDS_OF[number][kind])
    scale = {} if prior_scale is None else {"prior_scale": prior_scale}
    return AdditiveMixture(equivalent_sample_size, additive_share=tuple(shares), **scale)


def check_score(score: str | FamilyKind, equivalent_sample_size: float) -> FamilyKind:
    """The score that ``score=`` means.

    Raises
    ------
    ArgumentError
        If it is unknown, or an equivalent sample size is given with a score that has none.
    """
    if isinstance(score, str):
        if score not in SCORES:
            raise ArgumentError(f"score is {score!r}; it must be one of {', '.join(map(repr, SCORES))}")
        if score == BDeu.name:
            return BDeu(equivalent_sample_size)
    elif not isinstance(score, FamilyKind):
        raise ArgumentError(f"score is {score!r}; it must be one of {', '.join(map(repr, SCORES))}, or such as K2(0.5)")
    if equivalent_sample_size != 1.0:
        raise ArgumentError(
            f"equivalent_sample_size is {equivalent_sample_size!r}, which belongs to score='bdeu'; "
            f"with score={score!r} leave it out"
        )
    return SCORES[score]() if isinstance(score, str) else score

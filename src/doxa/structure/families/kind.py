"""`FamilyKind`: how a node depends on its parents, as one object that every part of doxa asks.

A kind of family says how probable the data of a node are given its parents, parameters integrated out, and what the
parameters are given the data.  Samplers, exact sums, priors of graphs, limits, missing cells, audits, run files and
averages over graphs know a kind by this contract alone, so that a new one is a class of its own and nothing else:
docs/extending.md writes one.

`CalledScorer` lets compiled loops ask a kind whose score is a plain Python function.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data.options import shown
from doxa.errors import ArgumentError
from doxa.schema import made_of_fields
from doxa.structure.families.counting import CALLED_RULE, Rule
from doxa.text import shown as cut

if TYPE_CHECKING:
    from doxa.structure.limits import Limits

__all__ = ["IN_WORDS", "KINDS", "CalledScorer", "FamilyKind", "FamilyParameters", "Scorer", "Stream", "raise_caught"]

Data = tuple[NDArray[Any], ...]  # columns (n_nodes, n_rows), cases of each row, numbers of states
Stream = Callable[[int, int], np.random.Generator]  # of a purpose of draws, and a number

KINDS: dict[str, type[FamilyKind]] = {}  # by the name that run files keep
IN_WORDS = {2: "two"}
_LISTED = 2**14  # possible states of a family: counting them all is quicker than sorting those that occur


class Scorer(Protocol):
    """What compiled loops call for the scores of one chain; see `CalledScorer`."""

    @property
    def addresses(self) -> NDArray[np.int64]:
        """The function's address first, then whatever it needs; kept as long as the scorer."""


class FamilyParameters:
    """The posterior of one family's parameters, given its cases; derive that of your own kind from it."""

    def log_tables(self, n: int) -> Floats:
        """Log P(node | parents), drawn: shape (n, n_configurations, n_states); the last parent varies fastest."""
        raise NotImplementedError(f"{type(self).__name__} has no log_tables")

    def log_means(self) -> Floats:
        """Log of the posterior means of P(node | parents): shape (n_configurations, n_states)."""
        raise NotImplementedError(f"{type(self).__name__} has no log_means")

    def log_mean_tables(self) -> Floats:
        """`log_means` by completion of the table, where there are several: shape (1 or n, as there)."""
        return self.log_means()[None]


class FamilyKind:
    """A kind of family: a frozen dataclass of settings, derived from this class.

    A kind of your own has a ``name`` and a `log_marginal_likelihood`; then `doxa.learn` takes it as ``score=``, with
    every sampler, exact sum, prior and limit, with missing cells, and in run files (if its class is imported before
    they are read).  With `parameters` it also answers what is asked of averages over graphs.

    Attributes
    ----------
    name : str
        What run files call it; unique.
    is_score_equivalent : bool, default=False
        Whether graphs that say the same get the same score.
    is_probability : bool, default=True
        Whether the score is a probability of the data.  Missing cells cannot be summed over under any other.
    is_counted : bool, default=False
        Whether the score is a sum over the counts of two sets of columns, :math:`T(P + i) - T(P)`, made by doxa's own
        tables: quick, shared between families, and made of counts from anywhere.
    is_dirichlet : bool, default=False
        Whether parameters have a Dirichlet distribution for each configuration of the parents, with the weight
        `cell_prior` in every cell.
    has_coefficients, is_mixture : bool, default=False
        Whether families may have coefficients (`doxa.Posterior.coefficients`); whether other families have none.
    takes_categories : bool, default=True
    takes_numbers : bool, default=False
        Which columns a table may have.
    is_of_moments : bool, default=False
        Whether scores and parameters depend on numbers only through their means and sums of products in each
        configuration of the columns of categories.
    is_quick : bool, default=False
        Whether lists of families are worth being scored anew in every sweep, where cells are missing.  Those that take
        some millionths of a second are; additive ones are too, for all that they take.
    score_error : float, default=0.0
        Standard error of the score of a category below numbers, nats; 0 where it is a closed form.
    has_densities : bool, default=True
        Whether drawn parameters have a known density (`log_density`), by which those of a fit are weighted.
    most_states, most_parents : int, optional
        Of every column, and of a node; any number when None.
    """

    name: ClassVar[str]
    is_score_equivalent: ClassVar[bool] = False
    is_probability: ClassVar[bool] = True
    is_counted: ClassVar[bool] = False
    is_dirichlet: ClassVar[bool] = False
    has_coefficients: ClassVar[bool] = False
    is_mixture: ClassVar[bool] = False
    takes_categories: ClassVar[bool] = True
    takes_numbers: ClassVar[bool] = False
    is_of_moments: ClassVar[bool] = False
    is_quick: ClassVar[bool] = False
    score_error: float = 0.0
    has_densities: ClassVar[bool] = True
    most_states: ClassVar[int | None] = None
    most_parents: ClassVar[int | None] = None

    def __init_subclass__(cls) -> None:
        name = cls.__dict__.get("name")
        if name is None:
            return
        known = KINDS.setdefault(name, cls)
        if known.__module__.startswith("doxa.") and not cls.__module__.startswith("doxa."):
            raise ArgumentError(f"the kind of family {cls.__name__} has the name {name!r}, which is {known.__name__}'s")
        KINDS[name] = cls  # a class that is defined again, as in a notebook, takes the place of the first

    @property
    def text(self) -> str:
        """In words."""
        return repr(self)

    @property
    def settings(self) -> dict[str, Any]:
        """Name and settings as plain data, for run files."""
        return {"name": self.name, **dataclasses.asdict(self)}  # type: ignore[call-overload]  # kinds are dataclasses

    @classmethod
    def from_stored(cls, stored: Any, where: str) -> FamilyKind:
        """Undo `settings`, trusting nothing; `ArgumentError` if it is not what that returns."""
        name = stored.get("name") if isinstance(stored, dict) else None
        if not isinstance(name, str) or name not in KINDS:
            raise ArgumentError(
                f"{where} is {cut(stored)}; it must name a kind of family that is known here, and one of your own is "
                "known once its class is imported"
            )
        made: FamilyKind = made_of_fields(KINDS[name], {k: v for k, v in stored.items() if k != "name"}, where)
        return made

    @property
    def own(self) -> FamilyKind:
        """The kind of families on which nobody intervened: this one."""
        return self

    def log_marginal_likelihood(self, codes: NDArray[np.integer[Any]], cases: NDArray[np.int64], sizes: Any) -> float:
        """Log probability (nats) of a node's cases given its parents', parameters integrated out.

        Parameters
        ----------
        codes : ndarray of int, shape (n_cells, 1 + n_parents)
            Distinct states of the node, first, and of its parents.  Where ``takes_numbers``, of float: columns of
            numbers hold their values, centred and divided by their standard deviations.
        cases : ndarray of int, shape (n_cells,)
            How often each occurs.
        sizes : ndarray of int, shape (1 + n_parents,)
            Numbers of states; 0 for a column of numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} has no log_marginal_likelihood")

    def parameters(
        self,
        codes: NDArray[np.integer[Any]],  # noqa: ARG002
        cases: NDArray[np.integer[Any]],  # noqa: ARG002
        sizes: Sequence[int],  # noqa: ARG002
        stream: Stream,  # noqa: ARG002
    ) -> FamilyParameters:
        """The posterior of one family's parameters; ``codes, cases, sizes`` as in `log_marginal_likelihood`.

        ``stream(purpose, number)`` is a fresh random generator, the same for the same two whole numbers from 1 on.

        Raises
        ------
        ArgumentError
            If the kind says nothing about parameters.
        """
        raise ArgumentError(
            f"the graphs were learned with {self.text}, which says nothing about parameters; name a prior, as in "
            "prior=BDeu(1.0)"
        )

    def parameters_in_table(
        self,
        codes: NDArray[np.integer[Any]],
        cases: NDArray[np.integer[Any]],
        sizes: Sequence[int],
        stream: Stream,
        n_numbers: int,  # noqa: ARG002
    ) -> FamilyParameters:
        """`parameters`, of a kind whose prior knows how many columns of the table hold numbers."""
        return self.parameters(codes, cases, sizes, stream)

    def gaussian_rule(self, n_numbers: int, n_cases: int) -> Any:  # noqa: ARG002
        """By which compiled loops fit regressions of numbers, `GaussianRule`; None where there are none."""
        return None

    def of_node(self, node: int) -> FamilyKind:  # noqa: ARG002
        """The kind of one node's families, where nodes have different kinds; this one itself otherwise."""
        return self

    def cell_prior(self, n_configurations: int, n_states: int) -> float:
        """Weight of the Dirichlet prior in each cell of a family, in cases, if ``is_dirichlet``."""
        raise NotImplementedError(f"{type(self).__name__} has no Dirichlet prior")

    def rule(self, n_cases: int) -> Rule:
        """What compiled loops are told of the kind."""
        return Rule(CALLED_RULE, 0.0, math.log(max(1, n_cases)))

    def scorer(self, data: Data, numbers: Floats | None = None, *, fixed: bool = False) -> Scorer | None:  # noqa: ARG002
        """What compiled loops call for a score; None where ``is_counted``.

        ``numbers`` are scaled values, shape (n_nodes, n_rows), NaN in columns of categories; None where there are none.
        Unless they are ``fixed``, both may be written into afterwards: what then stands there counts.
        """
        return CalledScorer(self, data, numbers)

    def cost(self, n_parents: int, n_rows: int) -> float:
        """Work of scoring a family in a table of ``n_rows`` distinct rows, about a microsecond: it bounds lists."""
        return 60.0 + 0.1 * n_rows * (1 + n_parents)

    def most_configurations(self, n_rows: int) -> int | None:
        """Configurations that the parents of a node have at most under the sparse prior; None for any number."""
        return n_rows

    def forbidden_edges(self, is_number: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Edges i -> j, at ``[i, j]``, that no graph can have, given which columns hold numbers; none by default."""
        return np.zeros((len(is_number), len(is_number)), dtype=np.bool_)

    def check_columns(self, names: Sequence[str], n_states: NDArray[np.int64], is_number: NDArray[np.bool_]) -> None:
        """Raise `ArgumentError` if a column is of a type that the kind does not take, or has too many states."""
        for wrong, what, way in (
            (is_number & (not self.takes_numbers), "categories",
             "cut numbers into bins (bins= of read_table), or leave score and family out"),
            (~is_number & (not self.takes_categories), "numbers",
             "take family='conditional_gaussian', or leave the columns out"),
        ):  # fmt: skip
            if wrong.any():
                other = "numbers" if what == "categories" else "categories"
                named = shown(name for name, one in zip(names, wrong.tolist(), strict=True) if one)
                hold = "holds" if wrong.sum() == 1 else "hold"
                raise ArgumentError(f"the {self.name} score takes {what}, and {named} {hold} {other}; {way}")
        most = self.most_states
        if most is None:
            return
        listed = zip(names, n_states.tolist(), strict=True)
        many = [f"{name!r} ({count} states)" for name, count in listed if count > most]
        if many:
            raise ArgumentError(
                f"the {self.name} score needs columns of {IN_WORDS.get(most, most)} states, and the table has "
                f"{', '.join(many[:6])}; merge states (bins= of read_table), leave the columns out, or score families "
                "by tables"
            )

    def check_parents(self, names: Sequence[str], limits: Limits) -> None:
        """Raise `ArgumentError` if a node may have more parents than the kind takes."""
        most = limits.most_parents
        node = int(most.argmax())
        if self.most_parents is not None and most[node] > self.most_parents:
            raise ArgumentError(
                f"{names[node]!r} may have {most[node]} parents, and a {self.name} family has at most "
                f"{self.most_parents}; give max_parents={self.most_parents} or fewer"
            )


_CALL = ctypes.CFUNCTYPE(
    ctypes.c_double, ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
)


class CalledScorer:
    """A kind's `FamilyKind.log_marginal_likelihood` behind an address, for compiled loops.

    Parameters
    ----------
    kind : FamilyKind
    data : tuple of ndarray
        Columns int (n_nodes, n_rows), cases of each row, numbers of states; not copied.
    numbers : ndarray of float, shape (n_nodes, n_rows), optional
        As `FamilyKind.scorer` has them; not copied.

    Attributes
    ----------
    addresses : ndarray of int64, shape (1,)
    error : Exception or None
        What the function raised.  Loops get a score of -1e300 then, and `raise_caught` raises it when they
        return.
    """

    def __init__(self, kind: FamilyKind, data: Data, numbers: Floats | None = None) -> None:
        self.error: Exception | None = None
        self._kind, self._data, self._numbers = kind, data, numbers
        self._is_number = None if numbers is None else np.asarray(~np.isnan(numbers).all(axis=1))
        self._called = _CALL(self._score)  # kept: its memory is what the address names
        self.addresses = np.array([ctypes.cast(self._called, ctypes.c_void_p).value], dtype=np.int64)

    def _score(self, child: int, words: Any, n_words: int, _box: Any, _of_table: float) -> float:
        columns, cases, n_states = self._data
        try:
            members = [child, *_members(words, n_words)]
            if self._numbers is None or self._is_number is None:
                sizes = n_states[members]
                codes, counted = _distinct(columns[members], cases, sizes)
            else:
                is_number = self._is_number[members]
                sizes, counted = np.where(is_number, 0, n_states[members]), cases
                codes = np.where(is_number, self._numbers[members].T, columns[members].T)
                if not counted.all():
                    codes, counted = codes[counted > 0], counted[counted > 0]
            value = float(self._kind.log_marginal_likelihood(codes, counted, sizes))
        except Exception as error:  # nothing may cross compiled code
            self.error = self.error or error
            return -1e300  # not NaN, which score caches take for nothing
        if math.isnan(value) or value == math.inf:
            self.error = ArgumentError(f"{self._kind!r} gives a family the log marginal likelihood {value}")
            return -1e300
        return value


def _members(words: Any, n_words: int) -> Iterator[int]:
    """The members of a set at an address, increasing."""
    for w in range(n_words):
        word = words[w]
        while word:
            lowest = word & -word
            yield 64 * w + lowest.bit_length() - 1
            word ^= lowest


def _distinct(
    columns: NDArray[np.integer[Any]], cases: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct rows of some columns (n_columns, n_rows), and how often each occurs."""
    steps = [1]  # of one state more, in the number of a row's states
    for size in sizes[:0:-1].tolist():
        steps.insert(0, size * steps[0])
    if steps[0] * int(sizes[0]) > _LISTED:
        codes, place = np.unique(columns.T, axis=0, return_inverse=True)
        counted = np.bincount(place.ravel(), weights=cases, minlength=len(codes))
        occurs = counted > 0
        return codes[occurs].astype(np.int64), counted[occurs].astype(np.int64)
    cells = np.bincount(np.dot(steps, columns), weights=cases)
    occur = np.flatnonzero(cells)
    return occur[:, None] // steps % sizes, cells[occur].astype(np.int64)


def raise_caught(scorer: Any) -> None:
    """Raise what a kind's own function raised under a compiled loop."""
    error = getattr(scorer, "error", None)
    if error is not None:
        scorer.error = None
        raise error

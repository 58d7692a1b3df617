r"""`Logistic` and `FamilyMixture`: the settings of scores that know logistic families.

**The prior's scale.**  States are coded -1 and +1, so at coefficients of 0 one case says about each of them what a
normal observation of variance 4 says: the Fisher information is :math:`\tfrac14 E[x x^T]`, a quarter of the identity
for balanced, unrelated parents.  The default scale of 2 is therefore the prior of one case (unit information; Kass &
Wasserman 1995), as an equivalent sample size of 1 is for BDeu.  It is also mild: a node without parents gets nearly
the uniform prior (whose logit has standard deviation 1.81), and a parent changes the logit by 4 at one standard
deviation.  A scale that is far too wide, such as 10, is harmless where parameters are fitted, but every edge then pays
about :math:`\ln 5` nats more, and rows of tables near 0 and 1 are what it expects.

**Not score equivalent.**  x -> y and y -> x hold the same laws, with different priors: their scores differ by an amount
that stays bounded as rows are added.  In a `FamilyMixture` both types are the same model where a family has at most
one varying parent (every function of one binary parent is logistic), so no data tell them apart; there both take the
table's prior, the type keeps its prior probability, and single edges stay score equivalent.

What scoring a family costs, estimated by counts: score tables are as large as a budget of such work allows.

A clock would make the lists, and so the draws, depend on the machine.  The unit is a microsecond of one core at some
three gigahertz; measured for 1000 and for 10000 distinct rows and up to 10 parents, the estimate is within a factor of
two but for separable data, whose families need more nodes than the usual 512.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.families.counting import CALLED_WITH_TABLE_RULE, Rule
from doxa.structure.families.kind import FamilyKind, FamilyParameters, Stream
from doxa.structure.families.logistic.work import MOST_PARENTS

if TYPE_CHECKING:
    from doxa.structure.families.logistic.box import Box

__all__ = [
    "BOUND_RULE",
    "METHODS",
    "MIXTURE_RULE",
    "OPTIMAL_RULE",
    "SCALES",
    "FamilyMixture",
    "Logistic",
    "LogisticKind",
    "LogisticRule",
    "check_number",
    "family_cost",
]

_LAPLACE_RULE, BOUND_RULE, OPTIMAL_RULE, MIXTURE_RULE = range(4)
METHODS = ("laplace", "jaakkola_jordan", "optimal")
_KIND = dict(zip(METHODS, (_LAPLACE_RULE, BOUND_RULE, OPTIMAL_RULE), strict=True))
_IN_WORDS = {
    "laplace": "Laplace with importance weights",
    "jaakkola_jordan": "Jaakkola-Jordan bound",
    "optimal": "bound by the best Gaussian",
}
SCALES = (1e-3, 1e3)


class LogisticRule(NamedTuple):
    """What the scorer takes; the first three fields are those of `doxa.structure.families.counting.Rule`."""

    kind: int
    log_weight: float
    log_cases: float
    scale: float
    tolerance: float
    log_table_share: float
    log_logistic_share: float


class LogisticKind(FamilyKind):
    """A kind of family that knows logistic regressions; the methods that `Logistic` and `FamilyMixture` share."""

    has_coefficients: ClassVar[bool] = True

    prior_scale: float
    tolerance: float

    def logistic_rule(self, n_cases: int) -> LogisticRule:
        """What the logistic scorer takes."""
        raise NotImplementedError

    def log_marginal_likelihood(self, codes: NDArray[np.integer[Any]], cases: NDArray[np.int64], sizes: Any) -> float:
        """As `FamilyKind.log_marginal_likelihood`."""
        from doxa.structure.families.scores import BDeu

        data = (np.array(codes.T, dtype=np.int16, order="C"), np.array(cases), np.array(sizes, dtype=np.int64))
        weight = getattr(self, "equivalent_sample_size", 1.0)
        return self.scorer(data).score_first(len(sizes), BDeu(weight).log_marginal_likelihood(codes, cases, sizes))

    def parameters(
        self, codes: NDArray[np.integer[Any]], cases: NDArray[np.integer[Any]], sizes: Sequence[int], stream: Stream
    ) -> FamilyParameters:
        """As `FamilyKind.parameters`."""
        from doxa.structure.families.logistic.parameters import LogisticFamily

        return LogisticFamily(self, codes, cases, sizes, stream)

    def scorer(self, data: Any, numbers: Any = None, *, fixed: bool = False) -> Box:  # noqa: ARG002
        """A compiled scorer."""
        from doxa.structure.families.logistic.box import Box  # compiled on import

        return Box(self, data)

    def cost(self, n_parents: int, n_rows: int) -> float:
        """As `family_cost`."""
        return family_cost(self, n_parents, n_rows)


@dataclass(frozen=True)
class Logistic(LogisticKind):
    """Log evidence of Bayesian logistic regression on the parents, main effects only; see the module's notes.

    Parameters
    ----------
    prior_scale : float, default=2.0
        Standard deviation of the normal prior of the bias and of every coefficient, from 0.001 to 1000.
    method : str, default="laplace"
        ``"laplace"`` corrected by importance weights, or a lower bound, with an error that is not known:
        ``"jaakkola_jordan"`` or, far tighter, ``"optimal"``, the bound of the best Gaussian.
    tolerance : float, default=0.01
        Standard error (nats) to which a family's score is refined, from 1e-6 to 1; for ``"laplace"``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of its range or the method unknown.

    Examples
    --------
    >>> Logistic().text
    'logistic score, prior scale 2, Laplace with importance weights'
    """

    prior_scale: float = 2.0
    method: str = "laplace"
    tolerance: float = 0.01

    name: ClassVar[str] = "logistic"
    most_states: ClassVar[int | None] = 2
    most_parents: ClassVar[int | None] = MOST_PARENTS

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior_scale", check_number("prior_scale", self.prior_scale, *SCALES))
        object.__setattr__(self, "tolerance", check_number("tolerance", self.tolerance, 1e-6, 1.0))
        if self.method not in METHODS:
            raise ArgumentError(f"method is {self.method!r}; it must be one of {', '.join(map(repr, METHODS))}")

    def logistic_rule(self, n_cases: int) -> LogisticRule:
        """What the logistic scorer takes."""
        kind = _KIND[self.method]
        return LogisticRule(kind, 0.0, math.log(max(1, n_cases)), self.prior_scale, self.tolerance, 0.0, 0.0)

    def most_configurations(self, n_rows: int) -> int | None:  # noqa: ARG002
        """Any number: a regression needs no table."""
        return None

    @property
    def text(self) -> str:
        """In words."""
        return f"logistic score, prior scale {self.prior_scale:g}, {_IN_WORDS[self.method]}"


@dataclass(frozen=True)
class FamilyMixture(LogisticKind):
    r"""Each family is a table or a logistic regression: the sum over both, :math:`\ln(w_t e^{s_t} + w_l e^{s_l})`.

    Families with a column of more than two states are tables, and where both types are the same model the table's
    score stands for both; see the module's notes.

    Parameters
    ----------
    equivalent_sample_size : float, default=1.0
        Of the table's BDeu prior, above 0.
    prior_scale : float, default=2.0
        Of the logistic families, as for `Logistic`.
    logistic_share : float, default=0.5
        Prior probability w_l that a family is logistic, between 0 and 1.
    tolerance : float, default=0.01
        As for `Logistic`.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of its range.
    """

    equivalent_sample_size: float = 1.0
    prior_scale: float = 2.0
    logistic_share: float = 0.5
    tolerance: float = 0.01

    name: ClassVar[str] = "family_mixture"
    is_mixture: ClassVar[bool] = True

    def __post_init__(self) -> None:
        bounds = {
            "equivalent_sample_size": (1e-300, 1e300), "prior_scale": SCALES, "logistic_share": (1e-9, 1 - 1e-9),
            "tolerance": (1e-6, 1.0),
        }  # fmt: skip
        for name, (least, most) in bounds.items():
            object.__setattr__(self, name, check_number(name, getattr(self, name), least, most))

    def logistic_rule(self, n_cases: int) -> LogisticRule:
        """What the logistic scorer takes."""
        return LogisticRule(
            MIXTURE_RULE,
            math.log(self.equivalent_sample_size),
            math.log(max(1, n_cases)),
            self.prior_scale,
            self.tolerance,
            math.log1p(-self.logistic_share),
            math.log(self.logistic_share),
        )

    def rule(self, n_cases: int) -> Rule:
        """What compiled loops are told, the table's prior among it."""
        return Rule(CALLED_WITH_TABLE_RULE, math.log(self.equivalent_sample_size), math.log(max(1, n_cases)))

    @property
    def text(self) -> str:
        """In words."""
        return (
            f"sum over tables (BDeu, equivalent sample size {self.equivalent_sample_size:g}) and logistic families "
            f"(prior scale {self.prior_scale:g}, prior probability {self.logistic_share:g})"
        )


def check_number(name: str, value: Any, least: float, most: float) -> float:
    """Return ``value`` as a float, or raise where it is no number from ``least`` to ``most``."""
    if isinstance(value, (str, bytes, bool)) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise ArgumentTypeError(f"{name} is {value!r}; it must be a number from {least:g} to {most:g}")
    if not least <= value <= most:
        raise ArgumentError(f"{name} is {value!r}; it must be from {least:g} to {most:g}")
    return float(value)


_FEW = 4.0  # a family without parents, or with one
_ROW, _ROW_A_PARENT = 0.003, 0.0005  # to find a row's cell
_TABLE_ROW = 0.0006  # the same in a table, for each column
_CELL = 1.8  # to weigh 512 nodes
_FRAME = 4.0  # mode and axes, for each coefficient


def family_cost(score: LogisticKind, n_parents: int, n_rows: int) -> float:
    """Work of scoring a family of so many binary parents in a table of ``n_rows`` distinct rows, about a microsecond.

    Examples
    --------
    >>> [round(family_cost(Logistic(), k, 1000)) for k in (1, 2, 3, 5, 8)]
    [8, 27, 39, 91, 508]
    """
    cost = _FEW + n_rows * (_ROW + _ROW_A_PARENT * n_parents)
    if score.is_mixture:
        cost += n_rows * _TABLE_ROW * (1 + n_parents)
    if n_parents > 1:
        cost += _FRAME * (1 + n_parents) + _CELL * min(2**n_parents, n_rows)
    return cost

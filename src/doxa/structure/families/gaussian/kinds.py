r"""`BGe`, `GaussianBIC` and `ConditionalGaussian`: the settings of scores of numbers.

Numbers are centred and divided by their standard deviations before they are scored (`doxa.data.scaled`), so priors are
in these units, and so is the density that a score is the logarithm of.

**The prior.**  A regression on p parents that are numbers has a residual variance of
:math:`\mathrm{InvGamma}((\alpha_w - n + p + 1) / 2, t / 2)` and independent coefficients :math:`N(0, \sigma^2 / t)`,
with :math:`t = \alpha_\mu (\alpha_w - n - 1) / (\alpha_\mu + 1)`; the mean has the weight of :math:`\alpha_\mu` cases.
With the field's defaults :math:`\alpha_\mu = 1` and :math:`\alpha_w = n + \alpha_\mu + 1`, t is 1/2 (Kuipers, Moffa &
Heckerman, Annals of Statistics 42, 2014).

**Score equivalence.**  Graphs over numbers that say the same get the same BGe score.  So do graphs of
`ConditionalGaussian`, as far as both are possible: an edge can only be turned where both ends are numbers, or both are
categories, and a number's regressions, one for each configuration of its parents that are categories, all have that
prior.  An edge between a category and a number has one direction, whatever the data: from the category.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.structure.families.kind import FamilyKind, FamilyParameters, Stream, raise_caught
from doxa.structure.families.scores import BDeu, check_weight
from doxa.structure.families.tables import DirichletFamily, cell_counts

if TYPE_CHECKING:
    from doxa.structure.families.additive.kinds import AdditiveKind
    from doxa.structure.families.gaussian.box import GaussianBox, GaussianRule

__all__ = ["BGe", "ConditionalGaussian", "GaussianBIC", "GaussianKind", "alphas_in_words", "check_alphas"]


class GaussianKind(FamilyKind):
    """A kind of family of numbers; the methods that `BGe`, `GaussianBIC` and `ConditionalGaussian` share."""

    takes_numbers: ClassVar[bool] = True
    takes_categories: ClassVar[bool] = False
    is_of_moments: ClassVar[bool] = True
    is_quick: ClassVar[bool] = True
    is_score_equivalent: ClassVar[bool] = True

    def gaussian_rule(self, n_numbers: int, n_cases: int) -> GaussianRule:
        """What the scorer takes, in a table with so many columns of numbers."""
        raise NotImplementedError

    def log_marginal_likelihood(self, codes: NDArray[Any], cases: NDArray[np.int64], sizes: Any) -> float:
        """As `FamilyKind.log_marginal_likelihood`, of numbers as they are: they are not scaled."""
        sizes = np.array(sizes, dtype=np.int64)
        numbers = np.where(sizes == 0, codes, np.nan).T.astype(np.float64)
        columns = np.where(sizes == 0, 0, codes).T.astype(np.int16)
        data = (np.ascontiguousarray(columns), np.array(cases, dtype=np.int64), np.maximum(sizes, 1))
        scorer = self.scorer(data, np.ascontiguousarray(numbers))
        value = scorer.score_first(len(sizes))
        raise_caught(scorer)
        return value

    def scorer(
        self, data: tuple[NDArray[Any], ...], numbers: NDArray[np.float64] | None = None, *, fixed: bool = False
    ) -> GaussianBox:
        """A compiled scorer."""
        from doxa.structure.families.gaussian.box import GaussianBox  # compiled on import

        assert numbers is not None  # check_columns saw to it
        return GaussianBox(self, data, numbers, fixed=fixed)

    def parameters(
        self,
        codes: NDArray[Any],
        cases: NDArray[np.integer[Any]],
        sizes: Sequence[int],
        stream: Stream,
        *,
        n_numbers: int | None = None,
    ) -> FamilyParameters:
        """As `FamilyKind.parameters`, of numbers as they are; ``n_numbers`` columns of the table hold numbers."""
        from doxa.structure.families.gaussian.parameters import GaussianFamily

        if not self.is_probability:
            return super().parameters(codes, cases, sizes, stream)
        if sizes[0]:
            weight = math.exp(self.gaussian_rule(0 if n_numbers is None else n_numbers, 0).log_weight)
            return DirichletFamily(BDeu(weight), cell_counts(codes, cases, sizes)[None], stream)
        of_family = sum(not size for size in sizes)
        rule = self.gaussian_rule(of_family if n_numbers is None else n_numbers, int(cases.sum()))
        return GaussianFamily(rule, codes, cases, sizes, stream)

    def parameters_in_table(
        self,
        codes: NDArray[Any],
        cases: NDArray[np.integer[Any]],
        sizes: Sequence[int],
        stream: Stream,
        n_numbers: int,
    ) -> FamilyParameters:
        """As `FamilyKind.parameters_in_table`."""
        return self.parameters(codes, cases, sizes, stream, n_numbers=n_numbers)

    def cost(self, n_parents: int, n_rows: int) -> float:  # noqa: ARG002
        """That of a Cholesky factor: the sums of products are there."""
        return 0.05 + 0.02 * (1 + n_parents)


@dataclass(frozen=True)
class BGe(GaussianKind):
    r"""Log marginal likelihood of a multivariate normal distribution, score equivalent; see the module's notes.

    Parameters
    ----------
    alpha_mu : float, default=1.0
        Weight of the prior mean, which is 0, in cases; above 0.
    alpha_w : float, optional
        Degrees of freedom of the Wishart prior of the precision; more than the number of columns plus 1.  That number
        plus ``alpha_mu + 1`` when left out.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of its range.

    Examples
    --------
    >>> BGe().text
    'BGe score, alpha_mu 1'
    >>> cells = np.array([[0.2, -0.3], [1.0, 0.4], [-1.2, -0.1]])
    >>> round(BGe().log_marginal_likelihood(cells, np.ones(3, dtype=np.int64), [0, 0]), 4)
    -6.2833
    """

    alpha_mu: float = 1.0
    alpha_w: float | None = None

    name: ClassVar[str] = "bge"

    def __post_init__(self) -> None:
        check_alphas(self)

    def gaussian_rule(self, n_numbers: int, n_cases: int) -> GaussianRule:
        """What the scorer takes."""
        return _bge_rule(self.alpha_mu, self.alpha_w, 1.0, n_numbers, n_cases)

    @property
    def text(self) -> str:
        """In words."""
        return f"BGe score, {alphas_in_words(self)}"


@dataclass(frozen=True)
class GaussianBIC(GaussianKind):
    r"""Greatest log density of a linear regression minus :math:`\tfrac12 (p + 2) \ln N` (Schwarz 1978).

    For numbers that are no linear combinations of each other; a family of more coefficients than rows is impossible.
    """

    name: ClassVar[str] = "gaussian_bic"
    is_probability: ClassVar[bool] = False

    def gaussian_rule(self, n_numbers: int, n_cases: int) -> GaussianRule:  # noqa: ARG002
        """What the scorer takes."""
        from doxa.structure.families.gaussian.box import GAUSSIAN_BIC_RULE, GaussianRule

        return GaussianRule(GAUSSIAN_BIC_RULE, 0.0, 0.0, 0.0, float(n_cases), 0.0)

    @property
    def text(self) -> str:
        """In words."""
        return "Gaussian BIC score"


@dataclass(frozen=True)
class ConditionalGaussian(GaussianKind):
    r"""Log marginal likelihood of a conditional Gaussian network (Lauritzen & Wermuth 1989), in closed form.

    A number has a regression on its parents that are numbers in each configuration of those that are categories, each
    with the prior of `BGe`; a category has a table, with the prior of `BDeu`, and no parents that are numbers.

    Parameters
    ----------
    equivalent_sample_size : float, default=1.0
        Of the tables, above 0.
    alpha_mu : float, default=1.0
        As for `BGe`.
    alpha_w : float, optional
        As for `BGe`, of the number of columns of numbers.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of its range.

    Examples
    --------
    >>> ConditionalGaussian().text
    'conditional Gaussian score, equivalent sample size 1, alpha_mu 1'
    """

    equivalent_sample_size: float = 1.0
    alpha_mu: float = 1.0
    alpha_w: float | None = None

    name: ClassVar[str] = "conditional_gaussian"
    takes_categories: ClassVar[bool] = True

    def __post_init__(self) -> None:
        weight = check_weight("equivalent_sample_size", self.equivalent_sample_size)
        object.__setattr__(self, "equivalent_sample_size", weight)
        check_alphas(self)

    def gaussian_rule(self, n_numbers: int, n_cases: int) -> GaussianRule:
        """What the scorer takes."""
        return _bge_rule(self.alpha_mu, self.alpha_w, self.equivalent_sample_size, n_numbers, n_cases)

    def cost(self, n_parents: int, n_rows: int) -> float:
        """That of adding up the rows of each configuration."""
        return 0.5 + n_rows * (0.006 + 0.0015 * (1 + n_parents) ** 2)

    def forbidden_edges(self, is_number: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """From every number to every category."""
        return is_number[:, None] & ~is_number[None, :]

    @property
    def text(self) -> str:
        """In words."""
        alphas = alphas_in_words(self)
        return f"conditional Gaussian score, equivalent sample size {self.equivalent_sample_size:g}, {alphas}"


def check_alphas(kind: BGe | ConditionalGaussian | AdditiveKind) -> None:
    """Make the weights of the normal-Wishart prior floats, or raise where one is not above 0."""
    for name in ("alpha_mu", *(() if kind.alpha_w is None else ("alpha_w",))):
        object.__setattr__(kind, name, check_weight(name, getattr(kind, name)))


def alphas_in_words(kind: BGe | ConditionalGaussian | AdditiveKind) -> str:
    """The weights of the normal-Wishart prior; ``alpha_w`` where it was given."""
    weight = f", alpha_w {kind.alpha_w:g}" if kind.alpha_w is not None else ""
    return f"alpha_mu {kind.alpha_mu:g}{weight}"


def _bge_rule(alpha_mu: float, alpha_w: float | None, weight: float, n_numbers: int, n_cases: int) -> GaussianRule:
    from doxa.structure.families.gaussian.box import BGE_RULE, GaussianRule

    freedom = alpha_mu + 1.0 if alpha_w is None else alpha_w - n_numbers
    if freedom <= 1.0:
        raise ArgumentError(
            f"alpha_w is {alpha_w!r}, and the table has {n_numbers} columns of numbers; it must be more than "
            f"{n_numbers + 1}, or left out"
        )
    scale = alpha_mu * (freedom - 1.0) / (alpha_mu + 1.0)
    return GaussianRule(BGE_RULE, alpha_mu, freedom, scale, float(n_cases), math.log(weight))

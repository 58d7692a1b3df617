r"""`Additive` and `AdditiveMixture`: kinds of families for tables of numbers and categories with every edge.

**Additive.**  The effects of the parents add up: a number has one linear regression on them all, a category one
logistic regression (multinomial, where it has more than two states).  Parents that are categories enter by contrasts.
So an edge may lead from a number to a category, which `ConditionalGaussian` has no family for.

**The priors**, of numbers centred and divided by their standard deviations, and of contrasts in which two states are -1
and +1.  A number: residual variance :math:`\mathrm{InvGamma}((a + p + 1) / 2, t / 2)` for p parents that are numbers,
coefficients :math:`N(0, \sigma^2 / t)`, intercept :math:`N(0, \sigma^2 / \alpha_\mu)`, a and t as in `BGe`.  A
category: every coefficient of the log odds of one state against another is N(0, ``prior_scale`` squared), as in
`Logistic`.  Contrasts have a prior under which the names and the order of states mean nothing, and any two states of a
parent differ alike a priori, however many states there are: no state is the base.  Scores of numbers are closed forms;
those of categories are exact to a standard error, ``tolerance``, so they depend on the coding by as much.

**Not score equivalent.**  Edges between numbers that have the same categories among their parents can be turned without
a change of score, as in `BGe`.  Between a number and a category, and between categories, both directions are different
models, or the same model with different priors.  What tells them apart is then the form of the model (normal scatter
about a line one way, a logistic curve the other), which says little about causes.

**The mixture** of `family="auto"`: the conditional Gaussian family and the additive one, added up with prior
probabilities, :math:`\ln((1 - w) e^{s_c} + w e^{s_a})`.  Where only the additive one is possible, for a category that
has a number among its parents, it has all the prior probability; where both are the same model, the conditional
Gaussian score stands for both.  The prior probability may be given by column: with 0 a column's families are
conditional Gaussian, or tables, and with 1 they are additive, which `family={column: ...}` of `doxa.learn` says in
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.structure.families.gaussian.kinds import BGe, ConditionalGaussian, GaussianKind, alphas_in_words, check_alphas
from doxa.structure.families.kind import FamilyParameters, Stream
from doxa.structure.families.logistic.score import SCALES, check_number
from doxa.structure.families.scores import check_weight

if TYPE_CHECKING:
    from doxa.structure.families.additive.box import AdditiveBox
    from doxa.structure.families.gaussian.box import GaussianRule

__all__ = ["Additive", "AdditiveKind", "AdditiveMixture"]

_SHARES = (1e-9, 1 - 1e-9)
_TOLERANCES = (1e-6, 1.0)
_MOST_STATES = 65  # of a category: without parents it has as many coefficients as the scorer takes, and one state more


class AdditiveKind(GaussianKind):
    """A kind of family that knows additive ones; the methods that `Additive` and `AdditiveMixture` share."""

    takes_categories: ClassVar[bool] = True
    is_of_moments: ClassVar[bool] = False
    is_score_equivalent: ClassVar[bool] = False
    has_densities: ClassVar[bool] = False
    most_states: ClassVar[int | None] = _MOST_STATES

    prior_scale: float
    alpha_mu: float
    alpha_w: float | None
    tolerance: float
    additive_share: Any = 1.0

    @property
    def score_error(self) -> float:  # type: ignore[override]  # a setting, here
        """The tolerance."""
        return self.tolerance

    @property
    def conditional(self) -> ConditionalGaussian | None:
        """The other kind of a mixture."""
        return None

    def gaussian_rule(self, n_numbers: int, n_cases: int) -> GaussianRule:
        """What the scorer takes."""
        return BGe(self.alpha_mu, self.alpha_w).gaussian_rule(n_numbers, n_cases)

    def scorer(  # type: ignore[override]  # another box with the same face
        self, data: tuple[NDArray[Any], ...], numbers: NDArray[np.float64] | None = None, *, fixed: bool = False
    ) -> AdditiveBox:
        """A compiled scorer."""
        from doxa.structure.families.additive.box import AdditiveBox  # compiled on import

        return AdditiveBox(self, data, numbers, fixed=fixed)

    def parameters(
        self,
        codes: NDArray[Any],
        cases: NDArray[np.integer[Any]],
        sizes: Sequence[int],
        stream: Stream,
        *,
        n_numbers: int | None = None,
    ) -> FamilyParameters:
        """As `GaussianKind.parameters`."""
        from doxa.structure.families.additive.parameters import AdditiveFamily, mixture_family

        n = sum(not size for size in sizes) if n_numbers is None else n_numbers
        if isinstance(self, AdditiveMixture):
            return mixture_family(self, codes, cases, sizes, stream, n)
        return AdditiveFamily(self, codes, cases, sizes, stream, n)

    def cost(self, n_parents: int, n_rows: int) -> float:
        """That of a multinomial regression of three states, for every other family."""
        return 10.0 + n_rows * (0.01 + 0.011 * (1 + n_parents))

    def _check_settings(self) -> None:
        check_alphas(self)
        for name, bounds in (("prior_scale", SCALES), ("tolerance", _TOLERANCES)):
            object.__setattr__(self, name, check_number(name, getattr(self, name), *bounds))


@dataclass(frozen=True)
class Additive(AdditiveKind):
    """Log marginal likelihood of additive families, closed or exact to a known error; see the module's notes.

    Parameters
    ----------
    prior_scale : float, default=2.0
        Standard deviation of the coefficients of log odds, from 0.001 to 1000.
    alpha_mu : float, default=1.0
        As for `BGe`.
    alpha_w : float, optional
        As for `BGe`, of the number of columns of numbers.
    tolerance : float, default=0.01
        Standard error (nats) to which scores of categories are refined, from 1e-6 to 1.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of its range.

    Examples
    --------
    >>> Additive().text
    'additive score (not score equivalent), prior scale 2, alpha_mu 1'
    """

    prior_scale: float = 2.0
    alpha_mu: float = 1.0
    alpha_w: float | None = None
    tolerance: float = 0.01

    name: ClassVar[str] = "additive"

    def __post_init__(self) -> None:
        self._check_settings()

    def most_configurations(self, n_rows: int) -> int | None:  # noqa: ARG002
        """Any number: a regression needs no table."""
        return None

    @property
    def text(self) -> str:
        """In words."""
        return f"additive score (not score equivalent), prior scale {self.prior_scale:g}, {alphas_in_words(self)}"


@dataclass(frozen=True)
class AdditiveMixture(AdditiveKind):
    """Each family is conditional Gaussian or additive: the sum over both; see the module's notes.

    Parameters
    ----------
    equivalent_sample_size : float, default=1.0
        As for `ConditionalGaussian`.
    prior_scale, alpha_mu, alpha_w, tolerance
        As for `Additive`.
    additive_share : float or sequence of float, default=0.5
        Prior probability w that a family is additive, between 0 and 1; or one for each column, 0 and 1 among them.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of its range.
    """

    equivalent_sample_size: float = 1.0
    prior_scale: float = 2.0
    alpha_mu: float = 1.0
    alpha_w: float | None = None
    additive_share: float | tuple[float, ...] = 0.5
    tolerance: float = 0.01

    name: ClassVar[str] = "additive_mixture"

    def __post_init__(self) -> None:
        self._check_settings()
        weight = check_weight("equivalent_sample_size", self.equivalent_sample_size)
        object.__setattr__(self, "equivalent_sample_size", weight)
        share: Any = self.additive_share
        if isinstance(share, (tuple, list, np.ndarray)):
            share = tuple(check_number("a number of additive_share", one, 0.0, 1.0) for one in share)
        else:
            share = check_number("additive_share", share, *_SHARES)
        object.__setattr__(self, "additive_share", share)

    @property
    def conditional(self) -> ConditionalGaussian:
        """The other kind."""
        return ConditionalGaussian(self.equivalent_sample_size, self.alpha_mu, self.alpha_w)

    @property
    def alone(self) -> Additive:
        """The additive kind of the mixture."""
        return Additive(self.prior_scale, self.alpha_mu, self.alpha_w, self.tolerance)

    def of_node(self, node: int) -> AdditiveMixture | Additive | ConditionalGaussian:
        """The kind of one column's families, where columns have prior probabilities of their own."""
        if not isinstance(self.additive_share, tuple):
            return self
        share = self.additive_share[node]
        if share in (0.0, 1.0):
            return self.alone if share else self.conditional
        return replace(self, additive_share=share)

    def check_columns(self, names: Sequence[str], n_states: NDArray[np.int64], is_number: NDArray[np.bool_]) -> None:
        """As `FamilyKind.check_columns`, and whether every column has a prior probability."""
        super().check_columns(names, n_states, is_number)
        share = self.additive_share
        if isinstance(share, tuple) and len(share) != len(names):
            raise ArgumentError(
                f"additive_share has {len(share)} numbers, and there are {len(names)} columns; give one for each"
            )

    def forbidden_edges(self, is_number: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """From every number to every category that is conditional Gaussian, which is to say a table."""
        is_table = np.resize(self.additive_share, len(is_number)) == 0.0
        return np.asarray(is_number[:, None] & (~is_number & is_table)[None, :])

    def cost(self, n_parents: int, n_rows: int) -> float:
        """That of both."""
        return super().cost(n_parents, n_rows) + ConditionalGaussian().cost(n_parents, n_rows)

    @property
    def text(self) -> str:
        """In words."""
        share = self.additive_share
        said = f"{share:g}" if isinstance(share, float) else "by column " + ", ".join(f"{one:g}" for one in share)
        return (
            "sum over conditional Gaussian families (equivalent sample size "
            f"{self.equivalent_sample_size:g}) and additive ones (prior scale {self.prior_scale:g}, prior probability "
            f"{said}), {alphas_in_words(self)}, not score equivalent"
        )

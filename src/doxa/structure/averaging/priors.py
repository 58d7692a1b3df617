r"""The prior of a family's parameters, as the score of the graphs has it.

A table with q configurations of the parents and r states of the child has in every configuration a distribution
:math:`\theta_j \sim \mathrm{Dirichlet}(a, \dots, a)`; BDeu has :math:`a = \alpha / (qr)`, K2 its prior count.  Logistic
families have normal coefficients (`doxa.structure.averaging.logistic_families`).  BIC is no marginal likelihood under
any prior, so nothing follows from it about parameters: one has to be named.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.scores import K2, BDeu, Score

__all__ = ["ParameterPrior", "cell_prior", "check_prior", "log_dirichlet", "parameter_prior"]

Floats = NDArray[np.float64]


ParameterPrior: TypeAlias = BDeu | K2 | Logistic | FamilyMixture


def parameter_prior(score: Score, prior: ParameterPrior | None = None) -> ParameterPrior:
    """The prior of the parameters: that of the score, unless another is given.

    Raises
    ------
    ArgumentError
        If the score is BIC and none is given.
    ArgumentTypeError
        If ``prior`` is no score with a prior of parameters.

    Examples
    --------
    >>> parameter_prior(BDeu(2.0))
    BDeu(equivalent_sample_size=2.0)
    """
    known = (BDeu, K2, Logistic, FamilyMixture)
    if prior is not None:
        if not isinstance(prior, known):
            raise ArgumentTypeError(
                f"prior is {prior!r}; give BDeu(...) or K2(...) from doxa.structure, or Logistic(...) or "
                "FamilyMixture(...) from doxa.structure.families.logistic"
            )
        return prior
    if not isinstance(score, known):
        raise ArgumentError(
            "the graphs were learned with score='bic', which implies no prior of parameters; learn with 'bdeu' or "
            "'k2', or name one, as in prior=BDeu(1.0)"
        )
    return score


def check_prior(prior: ParameterPrior, table: Table) -> None:
    """Raise `ArgumentError` if the table has states that logistic families cannot have."""
    if not isinstance(prior, (BDeu, K2)):
        prior.check_states(table.names, table.n_states)


def cell_prior(prior: BDeu | K2, n_configurations: int, n_states: int) -> float:
    """Weight of the prior in each cell of a family, in cases.

    Examples
    --------
    >>> cell_prior(BDeu(1.0), 4, 2), cell_prior(K2(), 4, 2)
    (0.125, 1.0)
    """
    if isinstance(prior, BDeu):
        return prior.equivalent_sample_size / (n_configurations * n_states)
    return prior.prior_count


def log_dirichlet(alpha: Floats, rng: np.random.Generator) -> Floats:
    r"""Logarithms of Dirichlet draws, one for each vector along the last axis.

    Parameters
    ----------
    alpha : ndarray of float, shape (..., n_states)
        Positive.
    rng : numpy.random.Generator
        Advanced.

    Returns
    -------
    ndarray of float, shape (..., n_states)
        Nats; finite however small ``alpha`` is.

    Notes
    -----
    With G ~ Gamma(a + 1) and U uniform, :math:`G U^{1/a}` ~ Gamma(a) (Marsaglia & Tsang 2000).  A small ``a`` makes
    it underflow, and a distribution of nothing but zeros be 0/0; its logarithm does not.

    Examples
    --------
    >>> draw = log_dirichlet(np.full((2, 3), 1e-5), np.random.default_rng(1))
    >>> np.exp(draw).sum(axis=1).round(12).tolist(), bool(np.isfinite(draw).all())
    ([1.0, 1.0], True)
    """
    log_gamma = np.log(rng.standard_gamma(alpha + 1.0))
    log_gamma += np.log1p(-rng.random(alpha.shape)) / alpha
    log_gamma -= log_gamma.max(axis=-1, keepdims=True)
    log_gamma -= np.log(np.exp(log_gamma).sum(axis=-1, keepdims=True))
    return log_gamma

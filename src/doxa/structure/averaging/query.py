r"""Questions answered by averaging over graphs, parameters and unobserved values.

Two questions look alike, and must not be confused.

`query` asks for the *posterior of a conditional probability*: how probable y is among cases with x, in the world that
made the data, about which graph and parameters are uncertain,

.. math:: E[p(y \mid x, \theta, G) \mid D]
          = \sum_G P(G \mid D) \int p(y \mid x, \theta, G)\, p(\theta \mid G, D)\, d\theta.

It has a mean and a posterior spread.  `predictive` asks for the *probability of y in one new case of which x has been
seen*,

.. math:: p(y \mid x, D) = \frac{p(y, x \mid D)}{p(x \mid D)}
          = \frac{\sum_G P(G \mid D)\, p(y, x \mid G, D)}{\sum_G P(G \mid D)\, p(x \mid G, D)},

in which x, too, is evidence about the network: networks count as much as they make x probable.  It is one number and
has no spread.  The two agree where x says nothing about graph and parameters, and differ by little on much data.

A new row uses every family once.  p(row | theta, G) is a product of one entry of each family's table, parameters of
different families are independent given G and the (completed) table, so its mean is the product of the means:
p(row | G, D) is the probability in the network of posterior mean parameters.  Sums over unobserved cells keep this, so
p(y, x | G, D) and p(x | G, D) are exact there.  Their ratio for one G is the conditional probability in that network,
which is *not* the mean of p(y | x, theta, G) over theta, unless no requisite node is an observed child.

Interventions ``do`` cut the edges into a node and set it (truncated factorisation); in `predictive` a case that is
intervened upon says nothing about the families that were cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.arrays import Floats
from doxa.data import Table
from doxa.estimates.estimate import Estimate
from doxa.inference.exact import Budget
from doxa.structure.averaging.answers import AveragedProbability, QueryAnswer, mean_over_draws, weighted_mean
from doxa.structure.averaging.conditional import conditional_draws, read_budget, weighted_conditionals
from doxa.structure.averaging.draws import N_NETWORKS, NetworkDraws, draw_networks
from doxa.structure.averaging.questions import Question, read_question
from doxa.structure.families.kind import FamilyKind

if TYPE_CHECKING:
    from doxa.structure.averaging.numbers import NumberAnswer, NumberQuestion
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["asked", "averaged_answer", "checked_question", "predictive", "query"]


def query(
    posterior: StructurePosterior,
    table: Table,
    target: str | Mapping[str, str | float],
    given: Mapping[str, str | float] | None = None,
    do: Mapping[str, str | float] | None = None,
    *,
    networks: int | None = N_NETWORKS,
    prior: FamilyKind | None = None,
    exact_budget: Budget | int | None = None,
    seed: int | None = None,
) -> AveragedProbability | QueryAnswer | NumberAnswer:
    """Posterior of the conditional probability p(target | given, do(do)), over graphs and parameters.

    Parameters
    ----------
    posterior : StructurePosterior
    table : Table
        The table that it was learned from.
    target, given, do, networks, prior
        As for `doxa.structure.averaging.posterior.Posterior.query`, which asks this of its own table.
    exact_budget : Budget or int, optional
        Most that one network may cost.
    seed : int, optional
        Of the parameters that are drawn; the same networks at every call when left out.

    Returns
    -------
    AveragedProbability, QueryAnswer or NumberAnswer
        Of a column, one for each state; of a column of numbers, its distribution.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        As there.
    BudgetError
        If a network is too wide for exact inference even when it is pruned.

    Notes
    -----
    Where the mean over parameters is known exactly (`doxa.structure.averaging.conditional.is_linear`), the mean uses
    it, and its error is that of the graphs alone; the spread is always that of drawn parameters.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("reinis")
    >>> posterior = doxa.learn(table, seed=1)
    >>> answer = query(posterior, table, {"smoke": "yes"}, given={"phys": "no"})
    >>> low, high = answer.credible_interval()
    >>> low < answer.value < high and high - low > 5 * answer.mcse
    True
    """
    return asked(  # type: ignore[no-any-return]
        draw_networks(posterior, table, networks, prior=prior, seed=seed), target, given, do, exact_budget
    )


def asked(
    draws: NetworkDraws,
    target: str | Mapping[str, Any],
    given: Mapping[str, Any] | None,
    do: Mapping[str, Any] | None,
    exact_budget: Budget | int | None = None,
    *,
    weighted: bool = False,
) -> Any:
    """`query` of networks that are drawn already, or `predictive`, where ``weighted``."""
    question = checked_question(draws.completed.table, target, given, do)
    if not isinstance(question, Question):
        from doxa.structure.averaging.numbers import number_answer

        return number_answer(draws, question, weighted=weighted)  # type: ignore[arg-type]  # of such a table
    budget = read_budget(exact_budget, len(draws))
    if weighted:
        found = weighted_conditionals(draws, question, budget)
        return averaged_answer(draws, question, found.conditional, found.conditional, found.log_evidence)
    return averaged_answer(draws, question, *conditional_draws(draws, question, budget))


def checked_question(
    table: Table,
    target: str | Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    do: Mapping[str, Any] | None = None,
) -> Question | NumberQuestion:
    """What `query` and `predictive` ask of a table, by positions.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a column or state is unknown, the target is empty, or target, given and do contradict each other.
    """
    if table.numbers is not None:
        from doxa.structure.averaging.numbers import read_number_question

        return read_number_question(table, target, given, do)
    return read_question(table.names, table.states, target, given, do, table.cuts)


def predictive(
    posterior: StructurePosterior,
    table: Table,
    target: str | Mapping[str, str | float],
    given: Mapping[str, str | float] | None = None,
    do: Mapping[str, str | float] | None = None,
    *,
    networks: int | None = N_NETWORKS,
    prior: FamilyKind | None = None,
    exact_budget: Budget | int | None = None,
) -> Estimate | QueryAnswer | NumberAnswer:
    """Probability of the target in one new case, p(target | given, do(do), D).

    Parameters
    ----------
    posterior, table, target, given, do, networks, prior, exact_budget
        As for `query`; no parameters are drawn.

    Returns
    -------
    Estimate, QueryAnswer or NumberAnswer
        With its Monte Carlo error, of a ratio of means over graphs; a predictive probability has no posterior spread.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("reinis")
    >>> answer = predictive(doxa.learn(table, seed=1), table, "smoke", given={"phys": "no", "family": "positive"})
    >>> round(sum(e.value for e in answer.values()), 9), answer.effective_networks > 900
    (1.0, True)
    """
    return asked(  # type: ignore[no-any-return]
        draw_networks(posterior, table, networks, prior=prior), target, given, do, exact_budget, weighted=True
    )


def averaged_answer(
    draws: NetworkDraws,
    question: Question | NumberQuestion,
    drawn: Floats,
    smooth: Floats,
    log_weights: Floats | None = None,
) -> Estimate | QueryAnswer:
    """The answer to a question about states, from their probabilities in every network.

    Parameters
    ----------
    draws : NetworkDraws
    question : Question or NumberQuestion
    drawn : ndarray of float, shape (n_networks, n_quantities)
        Of the event, or of every state of the column.
    smooth : ndarray of float, same shape
        Their means over parameters where these are known exactly, else as drawn.
    log_weights : ndarray of float, shape (n_networks,), optional
        Nats, of networks that count by what was given; there is then no posterior spread.
    """
    quantities, effective = range(smooth.shape[1]), float(len(draws))
    made: Sequence[Estimate]
    if log_weights is None:
        means = mean_over_draws(smooth.reshape(*draws.shape, -1), draws.reference_ess)
        made = [AveragedProbability.of(means.estimate(k), drawn[:, k].reshape(draws.shape)) for k in quantities]
    else:
        means, effective = weighted_mean(smooth, log_weights, draws.shape, draws.reference_ess)
        made = [means.estimate(k) for k in quantities]
    if question.event is not None:
        return made[0]
    column = question.target[0]
    estimates = dict(zip(draws.states[column], made, strict=True))
    given, do = (
        {name: str(value) for name, value in draws.named(known).items()} for known in (question.given, question.do)
    )
    return QueryAnswer(draws.names[column], estimates, given, do, len(draws), float(np.round(effective, 6)))

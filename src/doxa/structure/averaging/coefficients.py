"""Coefficients of logistic families, and slopes of numbers, averaged over graphs: 0 where a column is no parent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.structure.averaging.answers import mean_over_draws
from doxa.structure.averaging.draws import N_NETWORKS, NetworkDraws, draw_networks
from doxa.structure.averaging.questions import column_of
from doxa.structure.families.kind import FamilyKind

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["Coefficients", "coefficients", "coefficients_of"]

_FEWEST = 20  # networks that a mean and an interval given a parent are taken from


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Bias and coefficients of a node in every drawn network; made by `coefficients`.

    Attributes
    ----------
    node : str
        P(node = ``state``) is g(bias + sum of coefficients times parents), g(h) = 1 / (1 + exp(-h)).
    state : str
        The second state of the node.
    labels : tuple of str
        ``"bias"``, then all other columns.  A parent counts as -1 in its first state and +1 in its second.
    draws : ndarray of float, shape (chain, draw, coefficient)
        0 where the column is no parent; nan in networks where the node's family is a table.
    is_parent : ndarray of bool, shape (chain, draw, coefficient)
        Of the bias True.
    """

    node: str
    state: str
    labels: tuple[str, ...]
    draws: Floats = field(repr=False)
    is_parent: NDArray[np.bool_] = field(repr=False)
    type_probability: Floats = field(repr=False)  # (chain, draw): that the family is logistic, given the graph
    is_mixed: bool  # whether families are summed over types
    excess: float  # draws are off by at most this in probability, as measured: `CoefficientPosterior`
    worth: float = field(repr=False)  # effective draws of the slowest quantity of the run over graphs

    @cached_property
    def is_logistic(self) -> NDArray[np.bool_]:
        """Whether the node's family is logistic, shape (chain, draw)."""
        found: NDArray[np.bool_] = ~np.isnan(self.draws[..., 0])
        return found

    @property
    def logistic_probability(self) -> Estimate:
        """Posterior probability that the node's family is logistic: 1 unless families were summed over types."""
        if (self.type_probability == 1.0).all() and not self.is_mixed:
            return Estimate.exactly(1.0)
        return mean_over_draws(self.type_probability[..., None], self.worth).estimate(0)

    def summary(self, prob: float = 0.95) -> pd.DataFrame:
        """A row for each coefficient.

        Parameters
        ----------
        prob : float, default=0.95
            Of the credible intervals.

        Returns
        -------
        pandas.DataFrame
            Columns ``coefficient, probability, mean, sd, lower, upper, mcse``: the probability that the column is a
            parent; mean, standard deviation and equal-tailed credible interval of the coefficient, which is 0 where it
            is none; the Monte Carlo standard error of the mean, nan where the column was a parent in no network.  All
            of them given that the family is logistic.
        """
        from doxa.frames import ReadFrame

        tail = (1 - check_prob(prob)) / 2
        own = self.draws[self.is_logistic]
        lower, upper = np.quantile(own, [tail, 1 - tail], axis=0)
        return ReadFrame(
            {
                "coefficient": list(self.labels),
                "probability": self.is_parent[self.is_logistic].mean(axis=0),
                "mean": own.mean(axis=0),
                "sd": own.std(axis=0, ddof=1) if len(own) > 1 else np.nan,
                "lower": lower,
                "upper": upper,
                "mcse": self._errors(own.mean(axis=0)),
            }
        )

    def given_parent(self, prob: float = 0.95) -> pd.DataFrame:
        """A row for each coefficient, of the networks in which its column is a parent and no others.

        Parameters
        ----------
        prob : float, default=0.95
            Of the credible intervals.

        Returns
        -------
        pandas.DataFrame
            Columns as of `summary`, but that ``mean, sd, lower, upper, mcse`` are given that the column is a parent:
            how large the effect is if there is one.  nan where it is a parent in fewer than 20 networks, too few for
            an interval: ``networks=`` asks for more.
        """
        from doxa.frames import ReadFrame

        tail = (1 - check_prob(prob)) / 2
        rows = []
        for k, label in enumerate(self.labels):
            has = self.is_parent[..., k] & self.is_logistic
            own = self.draws[..., k][has]
            probability = float(has.sum() / self.is_logistic.sum())
            if own.size < _FEWEST:
                rows.append([label, probability, *[np.nan] * 5])
                continue
            mean = float(own.mean())
            series = mean + np.where(has, self.draws[..., k] - mean, 0.0) / has.mean()  # of a ratio of means
            mcse = float(mean_over_draws(series[..., None], self.worth).mcse[0])
            ends = np.quantile(own, [tail, 1 - tail]).tolist()
            rows.append([label, probability, mean, float(own.std(ddof=1)), *ends, mcse])
        return ReadFrame(rows, columns=["coefficient", "probability", "mean", "sd", "lower", "upper", "mcse"])

    def _errors(self, means: Floats) -> Floats:
        """Of means over the logistic networks, a ratio where there are others."""
        share = self.is_logistic[..., None] / self.is_logistic.mean()
        series = means + share * (np.nan_to_num(self.draws, nan=0.0) - means)
        errors: Floats = mean_over_draws(series, self.worth).mcse[:-1]
        return errors


def coefficients(
    posterior: StructurePosterior,
    table: Table,
    node: str,
    *,
    networks: int | None = N_NETWORKS,
    prior: FamilyKind | None = None,
) -> Coefficients:
    """Coefficients of a node's logistic regression on its parents, over graphs.

    Parameters
    ----------
    posterior : StructurePosterior
    table : Table
        The table that it was learned from.
    node : str
        A column of two states.
    networks : int, optional
        About how many networks to average over; None for one of each draw of a graph.
    prior : FamilyKind, optional
        Of the parameters; that of the score when left out.

    Raises
    ------
    ArgumentError
        If the prior has no logistic families, the column is unknown or has another number of states than two, or none
        of the networks has a logistic family there.

    Notes
    -----
    Where families were summed over types, a family of one parent that varies, or none, is a table and a regression at
    once: it counts as logistic, and its coefficients are those of its table.  A column with a single state says
    nothing, and has a coefficient of 0 where it is a parent.

    Examples
    --------
    >>> import doxa
    >>> table = doxa.datasets.load("reinis")
    >>> found = coefficients(doxa.learn(table, family="logistic", seed=1), table, "systol")
    >>> found.labels
    ('bias', 'smoke', 'mental', 'phys', 'protein', 'family')
    >>> found.summary().set_index("coefficient")["mean"].round(2)[["bias", "protein"]].tolist()
    [-0.29, 0.03]
    """
    return coefficients_of(draw_networks(posterior, table, networks, prior=prior), node)


def coefficients_of(draws: NetworkDraws, node: str, where: Mapping[str, str] | None = None) -> Coefficients:
    """`coefficients` in networks that are drawn already; ``where`` is for numbers, as of `slopes_of`."""
    if draws.completed.table.numbers is not None:
        from doxa.structure.averaging.slopes import slopes_of

        return slopes_of(draws, node, where)  # type: ignore[arg-type]  # such a table has such draws
    if where is not None:
        raise ArgumentError(
            "where is for slopes of numbers, which may differ between states of a category; coefficients of a logistic "
            "regression are the same everywhere: leave it out"
        )
    child = column_of("node", node, draws.names)
    if not draws.prior.has_coefficients:
        raise ArgumentError(
            "families are tables, which have no coefficients; learn with family='logistic' or family='auto', or name "
            "a prior, as in prior=Logistic() from doxa.structure.families.logistic"
        )
    if draws.n_states[child] != 2:
        raise ArgumentError(f"{node!r} has {draws.n_states[child]} states; a logistic family has a node of two")
    others = [j for j in range(len(draws.names)) if j != child]
    place = {j: 1 + k for k, j in enumerate(others)}
    found = np.zeros((len(draws), 1 + len(others)))
    is_parent = np.zeros(found.shape, dtype=np.bool_)
    is_parent[:, 0] = True
    of_type, excess = np.empty(len(draws)), 0.0
    for family, members in draws.users.items():
        if family[0] == child:
            columns = np.array([0, *(place[j] for j in family[1])])
            drawn = draws.drawn_coefficients(family)
            found[members[np.isnan(drawn[:, 0])]] = np.nan
            found[members[:, None], columns] = drawn
            is_parent[members[:, None], columns] = True
            own = draws.parameters_of(family)
            of_type[members] = own.logistic_probabilities
            excess += len(members) * own.excess
    if np.isnan(found[:, 0]).all():
        raise ArgumentError(
            f"{node!r} has a logistic family in none of the {len(draws)} networks, but tables: see parent_tables"
        )
    labels = ("bias", *(draws.names[j] for j in others))
    shape = (*draws.shape, len(labels))
    return Coefficients(
        node,
        draws.states[child][1],
        labels,
        found.reshape(shape),
        is_parent.reshape(shape),
        of_type.reshape(draws.shape),
        draws.prior.is_mixture,
        excess / len(draws),
        draws.reference_ess,
    )

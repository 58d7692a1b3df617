r"""`RegressionPosterior`: the parameters of a graph that is given, where columns hold numbers; `doxa.fit` makes it.

It is the posterior over graphs where only one is possible, so everything that is asked of such a posterior about
numbers is answered (`doxa.structure.averaging.numbers`).  With a complete table the regressions have
normal-inverse-gamma distributions, whose coefficients are Student's t
(`doxa.structure.families.gaussian.parameters`), tables are Dirichlet, and the evidence is a sum; log odds, and sums
over kinds of family, are read off independent draws.  Where cells are missing they are drawn with the sampler of
`doxa.learn`, which then has no edge to change, and all parameters with them.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from doxa.arrays import Floats
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.estimates.real import AverageDiagnostics, diagnose_averages
from doxa.models import Dag
from doxa.models.gaussian import GaussianNetwork, LogOdds, Regression
from doxa.sampling.importance import ImportanceSample
from doxa.structure.averaging.given_graph import GraphFit
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.averaging.numbers import log_evidence_in
from doxa.structure.averaging.parent_tables import family_table
from doxa.structure.averaging.terms import Spread, closed_form, drawn_terms, spread_of, terms_of
from doxa.structure.families.tables import DirichletFamily
from doxa.structure.runs.options import LearnOptions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RegressionPosterior", "kind_for"]

_EVIDENCE_DRAWS = 256  # completions, and parameters
_MEAN_OF = 2000  # draws, of tables that are no Dirichlet's: as `AdditiveFamily.log_means`
_ERRORS = ("mcse", "ess", "r_hat")


class RegressionPosterior(GraphFit):
    """The posterior of the regressions, log odds and tables of one graph, and of missing cells; made by `doxa.fit`.

    All of `doxa.Posterior` about numbers (``query``, ``predict``, ``impute``, ``networks``, ``coefficients``, ``save``
    ...), and the parameters with their errors.

    Examples
    --------
    >>> import doxa
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"age": rng.normal(50, 10, 200)})
    >>> frame["pressure"] = 80 + 0.7 * frame["age"] + rng.normal(0, 8, 200)
    >>> fit = doxa.fit(doxa.Dag.from_edges([("age", "pressure")]), frame, seed=1)
    >>> fit.regressions()[["node", "term", "mean", "sd"]].round(2)
           node       term  mean   sd
    0       age  intercept 49.26 0.65
    1       age         sd  9.22 0.46
    2  pressure  intercept  77.8 2.74
    3  pressure        age  0.73 0.05
    4  pressure         sd  7.14 0.36
    """

    def regressions(self, prob: float = 0.95) -> pd.DataFrame:
        """Every regression of every number.

        Parameters
        ----------
        prob : float, default=0.95
            Of the credible intervals.

        Returns
        -------
        pandas.DataFrame
            Columns ``node``; ``parents, given``: parents that are categories, and their states (both tuples); ``term``:
            ``"intercept"``, a parent that is a number, or ``"sd"``, the standard deviation about the line;
            ``mean, sd, lower, upper``: posterior mean, standard deviation and equal-tailed credible interval, in units
            of the columns; ``mcse, ess, r_hat`` of the mean (0, nan and nan where it is exact); ``cases``: rows of this
            configuration, averaged over what missing cells may hold.
        """
        return self._frame([j for j in range(len(self.names)) if self._draws.is_number[j]], check_prob(prob))

    def log_odds(self, prob: float = 0.95) -> pd.DataFrame:
        """The log odds of every category that depends on numbers, each state against its first.

        Parameters
        ----------
        prob : float, default=0.95
            Of the credible intervals.

        Returns
        -------
        pandas.DataFrame
            As `regressions`, with a column ``state``; per unit of the parent.  They are never exact.
        """
        return self._frame(self._with_odds, check_prob(prob))

    def draws(self, node: str) -> Regression | LogOdds | Floats:
        """Draws of a node's parameters, in the units of the columns.

        Returns
        -------
        Regression, LogOdds or ndarray
            Of a number, of a category that depends on numbers, or of another category; arrays as in a
            `GaussianNetwork`, with the axes (chain, draw) before.

        Raises
        ------
        ArgumentError
            If there is no such node.
        """
        family = self._family(self._node(node))
        made = self._draws.in_units(family, list(self._draws.family_draws(family)))
        shape = self._draws.shape
        if isinstance(made, tuple):
            return type(made)(*(part.reshape(*shape, *part.shape[1:]) for part in made))
        return made.reshape(*shape, *made.shape[1:])

    def network(self, which: Any = None, **options: Any) -> GaussianNetwork:  # type: ignore[override]  # of one graph
        """One network to hand on, as to `doxa.infer`: posterior means of intercepts, slopes, scatter, odds and tables.

        It says nothing of what the data leave open; ``networks(n)`` has draws, and `query` averages over them.

        Raises
        ------
        ArgumentError
            If an option is given: the graph is that of the fit.
        """
        if which is not None or options:
            raise ArgumentError("a fit has one graph, and its network no options; leave them out")
        regressions, log_odds, tables = {}, {}, {}
        names, is_number, tabled = self.names, self._draws.is_number, self._tabled
        for node, name in enumerate(names):
            if node in tabled:
                shape = [self._draws.n_states[j] for j in (*self._family(node)[1], node)]
                tables[name] = family_table(self._draws, *self._family(node)).mean.reshape(shape)
                continue
            mean = self._spread_of(node, 0.95).mean
            if is_number[node]:
                regressions[name] = Regression(mean[0], np.moveaxis(mean[1:-1], 0, -1), mean[-1])
            else:
                log_odds[name] = LogOdds(mean[0], np.moveaxis(mean[1:], 0, -1))
        states = {name: own for name, own in zip(names, self._draws.states, strict=True) if own}
        return GaussianNetwork(self.graph, regressions, tables, states, log_odds)

    @cached_property
    def log_marginal_likelihood(self) -> Estimate:
        r"""Log P(data | graph), nats, parameters integrated out; as of `doxa.learn`, a density of scaled numbers.

        Numbers are centred and divided by their standard deviations, so differences between graphs, families and priors
        for the same columns are log Bayes factors.  Exact, but for additive families of categories, each of which has a
        standard error of the score's ``tolerance``.

        Where cells are missing, by importance sampling of the parameters: of S drawn completions X of the table,
        parameters :math:`\theta` are drawn given each, so that their density is known, and what was seen is weighed by
        them, the missing cells integrated out,

        .. math:: p(D) \approx \frac1S \sum_t \frac{p(\theta_t)\, p(D \mid \theta_t)}
           {\frac1S \sum_s p(\theta_t \mid X_s)}.

        Raises
        ------
        ArgumentError
            If cells are missing and families are additive.
        """
        if not self.is_closed_form:
            return self._evidence_by_weights()
        value, error = float(self.log_score[0, 0]), self.options.score.score_error
        n_sampled = int((~self._draws.is_number).sum()) if error else 0
        return Estimate(value, error * math.sqrt(n_sampled), np.nan) if n_sampled else Estimate.exactly(value)

    def _evidence_by_weights(self) -> Estimate:
        if not self.options.score.has_densities:
            raise ArgumentError(
                f"the table has {self.options.n_missing} missing cells, and the evidence of additive families is known "
                "of complete tables; take family='conditional_gaussian', or leave the rows with missing cells out"
            )
        draws, table = self._draws, self.table
        chosen = np.unique(np.linspace(0, len(draws) - 1, min(_EVIDENCE_DRAWS, len(draws))).astype(np.int64)).tolist()
        log_weights = np.zeros(len(chosen))
        log_q = np.zeros((len(chosen), len(chosen)))  # [s, t]: of parameters t given completion s
        for node in range(len(self.names)):
            own, prior = draws.log_densities(self._family(node), chosen)
            log_q += own
            log_weights += prior
        log_weights -= logsumexp(log_q, axis=0) - math.log(len(chosen))
        values = np.full(table.codes.shape, np.nan) if table.numbers is None else table.numbers
        unit = np.where(np.isnan(values), 0.0, np.log(draws.scaling.scale)).sum(axis=1, where=draws.is_number)
        log_weights += (log_evidence_in(draws, table.codes, values, chosen) + unit) @ table.counts
        sample = ImportanceSample(np.arange(len(chosen)), log_weights, np.zeros(len(chosen)))
        return sample.log_normalising_constant()

    @property
    def _known(self) -> str:  # type: ignore[override]  # it depends on the graph
        drawn = [self.names[j] for j in range(len(self.names)) if not self._is_known(j)]
        text = "no cell is missing: regressions have normal-inverse-gamma distributions, and tables Dirichlet ones"
        return f"{text}; the parameters of {', '.join(drawn)} are independent draws." if drawn else f"{text}."

    @cached_property
    def _draws(self) -> GaussianDraws:
        found = GraphFit._draws.func(self)  # type: ignore[attr-defined]
        assert isinstance(found, GaussianDraws)
        return found

    @property
    def _with_odds(self) -> list[int]:
        is_number = self._draws.is_number
        return [j for j in range(len(self.names)) if not is_number[j] and any(is_number[p] for p in self._family(j)[1])]

    @property
    def _tabled(self) -> list[int]:
        odds = set(self._with_odds)
        return [j for j in range(len(self.names)) if not self._draws.is_number[j] and j not in odds]

    def _what(self, node: int) -> str:
        return "table" if node in self._tabled else "log odds" if node in self._with_odds else "regression"

    def _is_known(self, node: int) -> bool:
        """Whether a node's parameters have a distribution in closed form."""
        if not self.is_closed_form:
            return False
        if node in self._tabled:
            return isinstance(self._draws.parameters_of(self._family(node)), DirichletFamily)
        return self._wholes[node] is not None

    @cached_property
    def _wholes(self) -> list[Any]:
        """The terms of every node in closed form, or None."""
        nodes = range(len(self.names))
        return [closed_form(self._draws, self._family(node)) if self.is_closed_form else None for node in nodes]

    @cached_property
    def _diagnoses(self) -> dict[int, AverageDiagnostics | None]:
        tabled = self._tabled
        return {j: self._of_table(j) if j in tabled else self._of_lines(j) for j in range(len(self.names))}

    def _of_table(self, node: int) -> AverageDiagnostics | None:
        family = self._family(node)
        if self.is_closed_form:
            if self._is_known(node):
                return None
            found = _diagnosed(np.exp(self._draws.drawn_tables(family)).reshape(*self._draws.shape, -1))
            more = np.sqrt(len(self._draws) / _MEAN_OF)
            return found._replace(mcse=found.mcse * more, ess=found.ess / more**2)
        tables = np.exp(self._draws.mean_tables(family))
        return diagnose_averages(tables.reshape(*self._draws.shape, -1)) if len(tables) > 1 else None

    def _of_lines(self, node: int) -> AverageDiagnostics | None:
        if self._is_known(node):
            return None
        return _diagnosed(drawn_terms(self._draws, self._family(node)).reshape(*self._draws.shape, -1))

    def _spread_of(self, node: int, prob: float) -> Spread:
        return spread_of(self._draws, self._family(node), self._wholes[node], prob)

    def _frame(self, nodes: list[int], prob: float) -> pd.DataFrame:
        from doxa.frames import ReadFrame

        draws, rows = self._draws, []
        with_state = nodes == self._with_odds and bool(nodes)
        for node in nodes:
            family, spread, own = self._family(node), self._spread_of(node, prob), self._diagnoses[node]
            shape = spread.mean.shape
            errors = [
                np.full(shape, blank) if own is None else getattr(own, name).reshape(shape)
                for name, blank in zip(_ERRORS, (0.0, np.nan, np.nan), strict=True)
            ]
            known = tuple(self.names[p] for p in family[1] if not draws.is_number[p])
            for term in terms_of(draws, family):
                row: list[Any] = [self.names[node], known, term.given, *([term.state] if with_state else []), term.name]
                rows.append([*row, *(part[term.place] for part in (*spread, *errors)), term.cases])
        columns = ["node", "parents", "given", *(["state"] if with_state else []), "term", *Spread._fields]
        return ReadFrame(rows, columns=[*columns, *_ERRORS, "cases"])

    def __repr__(self) -> str:
        """The first terms and the verdict."""
        others = [name for name, nodes in (("log_odds()", self._with_odds), ("entries()", self._tabled)) if nodes]
        more = f"\nCategories: see {' and '.join(others)}" if others else ""
        return self._described("regressions", self.regressions(), "regressions()", more)


def _diagnosed(draws: Floats) -> AverageDiagnostics:
    """Means of real quantities, shape (chain, draw, quantity), with their errors."""
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    unit = np.where(sd > 0, sd, 1.0)
    found = diagnose_averages((draws - mean) / unit)
    return found._replace(value=mean, mcse=found.mcse * unit)


def kind_for(asked: LearnOptions, data: Table, graph: Dag) -> LearnOptions:
    """Options of a fit of a table with numbers, the family filled in.

    Raises
    ------
    ArgumentError
        If the score implies no prior, the family has no edges from numbers to categories and the graph has one, or a
        column has a transform.
    """
    number = dict(zip(data.names, data.is_number.tolist(), strict=True))
    into = [(a, b) for a, b in graph.edges if number[a] and not number[b]]
    if into and asked.family is None and asked.score is None:
        asked = dataclasses.replace(asked, family="auto")
    kind = asked.kind(data)
    if not kind.is_probability:
        raise ArgumentError(
            f"score is {asked.score!r}, which implies no prior of parameters; leave it out, or take such as BGe() or "
            "ConditionalGaussian() from doxa.structure"
        )
    if into and kind.forbidden_edges(data.is_number).any():
        a, b = into[0]
        raise ArgumentError(
            f"the graph has the edge {a!r} -> {b!r}, from a number to a category, and {kind.name} families have none; "
            "leave family and score out, or take family='additive'"
        )
    if data.transforms:
        name, transform = next(iter(data.transforms.items()))
        raise ArgumentError(
            f"the table was read with transform={{{name!r}: {transform.method!r}}}, and regressions are in the units "
            "of its columns; give the table a column that is transformed already"
        )
    return asked

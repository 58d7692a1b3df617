"""`Posterior`: what `doxa.learn` returns, the posterior over graphs, parameters and missing cells together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.structure.averaging.draws import N_NETWORKS, NetworkDraws, draw_networks
from doxa.structure.families.kind import FamilyKind
from doxa.structure.posterior.exact_answer import ExactStructurePosterior
from doxa.structure.posterior.structure_posterior import StructurePosterior, diagnoses_of

if TYPE_CHECKING:
    import pandas as pd

    from doxa.estimates.stopping import Until
    from doxa.models import CategoricalNetwork, Dag
    from doxa.structure.averaging.answers import AveragedProbability, QueryAnswer
    from doxa.structure.averaging.coefficients import Coefficients
    from doxa.structure.averaging.effects import Effect
    from doxa.structure.averaging.numbers import NumberAnswer
    from doxa.structure.averaging.one_network import PosteriorNetwork
    from doxa.structure.averaging.predict import LogScore
    from doxa.structure.runs.evidence import GraphBaseline

__all__ = ["ExactGraphsPosterior", "Posterior", "with_table"]


class Posterior(StructurePosterior):
    """The posterior over graphs, parameters and missing cells, as `doxa.learn` samples it.

    All of `StructurePosterior`, and answers averaged over networks: graphs with the parameters of their tables, and the
    values of what is missing.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
    >>> answer = posterior.query({"smoke": "yes"}, given={"phys": "no"})
    >>> low, high = answer.credible_interval()
    >>> low < answer.value < high
    True
    """

    def __init__(self, *parts: Any, table: Table | None = None, **named_parts: Any) -> None:
        """Take what a posterior over graphs is made of, and its table; None to read that when it is asked for."""
        super().__init__(*parts, **named_parts)
        self._table = None if table is None else check_table(self, table)

    @property
    def table(self) -> Table:
        """The table that it was learned from, with the columns that were declared.

        A posterior that was loaded reads it again when it is first asked for.

        Raises
        ------
        ArgumentError
            If it is not known where the table is, or its contents have changed.
        """
        if self._table is None:
            self._table = self._read_again()
        return self._table

    @cached_property
    def log_marginal_likelihood(self) -> Estimate:
        r"""Log P(data), nats: :math:`\log \sum_G P(G) P(D \mid G)`, with its Monte Carlo error.

        Of a sampled posterior by bridge sampling between its draws and graphs of many orders, which have exact sums
        (`doxa.structure.exact.order_sums`); it is as trustworthy as the verdict.  Missing cells are summed out.  Of a
        summed one it is exact.  Of moments in time it is that of the present given the past of each row.
        Differences between scores, sample sizes, priors or limits for the same columns are log Bayes factors.

        Raises
        ------
        ArgumentError
            If cells are missing and families may be logistic, or it is not known where the table is.
        """
        from doxa.structure.runs.evidence import log_marginal_likelihood

        return log_marginal_likelihood(self, self.table)

    def baseline(self, n: int = 4000, seed: int = 1) -> GraphBaseline:
        """Hold the edges against importance sampling from graphs of many orders, which no chain has drawn.

        The comparison that ends the algorithm of Antal & Sarkozy (slides, steps 0 and 6).  Agreement is no proof: the
        orders are those of sampled graphs, so both may miss the same mode.

        Parameters
        ----------
        n : int, default=4000
            Weighted draws, at least 100.
        seed : int, default=1

        Returns
        -------
        GraphBaseline
            ``edges`` with both probabilities and their errors, ``agrees``, ``text``, and the weighted graphs.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If cells are missing and families may be logistic, a number is out of range, or it is not known where the
            table is.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), exact=False, seed=1)
        >>> posterior.baseline().agrees
        True
        """
        from doxa.structure.runs.evidence import graph_baseline

        return graph_baseline(self, self.table, n, seed)

    def query(
        self,
        target: str | Mapping[str, str | float],
        given: Mapping[str, str | float] | None = None,
        do: Mapping[str, str | float] | None = None,
        *,
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> AveragedProbability | QueryAnswer | NumberAnswer:
        """How probable something is among cases where something else was seen, or was set by intervention.

        The posterior of the conditional probability p(target | given, do), averaged over graphs, parameters and missing
        cells; see `doxa.structure.averaging.query.query`, and `predictive` for the probability in one new case.

        Parameters
        ----------
        target : str or mapping of str to str
            A column, for all its states; or columns and their states, for the one event that all of these hold.
        given : mapping of str to str or number, optional
            What was seen: states of categories, numbers of numbers in the unit of the column, also of one that was cut
            into bins.
        do : mapping of str to str or number, optional
            What was set by intervention: edges into these columns are cut.
        networks : int, optional
            About how many networks to average over; None for one of each draw.
        prior : FamilyKind, optional
            Of the parameters; that of the score when left out.

        Returns
        -------
        AveragedProbability, QueryAnswer or NumberAnswer
            The last of a column of numbers: a distribution.  Else
            ``.value`` with its Monte Carlo error ``.mcse``, and ``.credible_interval()``, what the data leave open.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If a column or state is unknown, the target is empty, or target, given and do contradict each other.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
        >>> list(posterior.query("smoke", given={"phys": "no"}))
        ['no', 'yes']
        """
        from doxa.structure.averaging.query import asked

        return asked(self.network_draws(networks, prior), target, given, do)  # type: ignore[no-any-return]

    def predictive(
        self,
        target: str | Mapping[str, str | float],
        given: Mapping[str, str | float] | None = None,
        do: Mapping[str, str | float] | None = None,
        *,
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> Estimate | QueryAnswer | NumberAnswer:
        """The probability of the target in one new case of which something was seen, p(target | given, data).

        Networks count as much as they make what was seen probable; see `doxa.structure.averaging.query.predictive`.
        Parameters, returns and errors as `query`, without a posterior spread.
        """
        from doxa.structure.averaging.query import asked

        return asked(self.network_draws(networks, prior), target, given, do, weighted=True)  # type: ignore[no-any-return]

    def impute(self, *, networks: int | None = N_NETWORKS, prior: FamilyKind | None = None) -> pd.DataFrame:
        """Probability of every state of every missing cell, given all that was observed.

        Columns ``row`` (of the source, from 0), ``column, state, probability, mcse``, and of tables with numbers
        ``mean, sd, lower, upper``; see `doxa.structure.averaging.impute`.
        """
        from doxa.structure.averaging.impute import impute

        return impute(self, self.table, networks=networks, prior=prior)

    def completed_tables(self, n: int = 10) -> list[pd.DataFrame]:
        """The table with every missing cell filled in, ``n`` times, by draws from the posterior."""
        from doxa.structure.averaging.impute import completed_tables

        return completed_tables(self, self.table, n)

    def predict(
        self,
        rows: Any,
        target: str | None = None,
        *,
        unseen: str = "error",
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> pd.DataFrame:
        """Predictive probabilities of one column, or of all missing cells, of every row.

        Columns ``row, column, state, probability, mcse``; see `doxa.structure.averaging.predict.predict`.

        Parameters
        ----------
        rows : Table, data frame or path
            Any cells may be missing; a column that is not there is missing in every row.
        target : str, optional
            A column to predict from the others; all missing cells when left out.
        unseen : {"error", "prior"}
            What to do with a state that the table does not have: refuse it, or give it the prior's share.
        networks, prior
            As for `query`.
        """
        from doxa.structure.averaging.predict import predict_of

        return predict_of(self.network_draws(networks, prior), rows, target, unseen)

    def log_predictive(
        self,
        rows: Any,
        *,
        unseen: str = "error",
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> LogScore:
        """Log predictive probability of new rows, nats; see `doxa.structure.averaging.predict.log_score`."""
        from doxa.structure.averaging.predict import log_score_of

        return log_score_of(self.network_draws(networks, prior), rows, unseen)

    def networks(
        self, n: int = 100, *, mean: bool = False, prior: FamilyKind | None = None
    ) -> Iterable[CategoricalNetwork]:
        """Networks drawn from the posterior, graph and parameters together; see
        `doxa.structure.averaging.draws.networks`.

        Logistic families come as the tables that their coefficients stand for.
        """
        from doxa.structure.averaging.draws import networks

        return networks(self, self.table, n, mean=mean, prior=prior)

    def network(
        self,
        which: str | Dag = "consensus",
        *,
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> PosteriorNetwork:
        """One network to hand on: a graph that stands for all, with the posterior means of its tables.

        Parameters
        ----------
        which : {"consensus", "most_probable"} or Dag, default="consensus"
            The pairs that are joined with a probability above 1/2, each in its likelier direction, most probable
            first; an edge that would close a cycle is turned round (`doxa.structure.posterior.consensus`).  Or the most
            probable graph of the sample (of a table with missing cells, the most frequent).  Or a graph of your own
            over the same columns.
        networks : int, optional
            About how many draws of the missing cells to average over; None for all.  Complete tables need none.
        prior : FamilyKind, optional
            Of the parameters; that of the score when left out.

        Returns
        -------
        PosteriorNetwork
            A `CategoricalNetwork`, which ``.write("network.bif")`` writes, in any format of `doxa.write_network`;
            ``.entries()`` has the credible interval of every entry, and ``.how`` says what stands there.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If the word is unknown, the graph has other nodes, columns hold numbers, or a table would be too large.

        Notes
        -----
        It says nothing of how uncertain the graph is: answers of `query` and `predict` average over all graphs.  Given
        the graph alone, with missing cells drawn under it, tables are those of ``doxa.fit(graph, table)``.

        Examples
        --------
        >>> import doxa
        >>> network = doxa.learn(doxa.datasets.load("reinis"), seed=1).network("consensus")
        >>> network
        PosteriorNetwork(6 nodes, 3 edges, 10 free probabilities)
        """
        from doxa.structure.averaging.one_network import network_to_hand_on

        return network_to_hand_on(self, self.table, which, networks=networks, prior=prior)

    def update(
        self,
        rows: Any,
        *,
        unseen: str = "error",
        until: Until | None = None,
        seed: int | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> Posterior:
        """The posterior given more data: new rows of the same columns beside those that it was learned from.

        Prior and limits are those of the first run.  Sums over all graphs are made again.  Kept graphs are weighted by
        what they make of the new rows, where the weights can be trusted: an effective number of at least 200 draws, a
        Pareto k of at most 0.7 (no weight with a share above 0.01, where a tail of equal weights has no k), and no
        better graph found by a search.  Else, and where cells are missing, chains run again on all rows, every other
        one from a graph of the old posterior.

        Parameters
        ----------
        rows : Table, data frame or path
            The new rows alone, with all columns of the table.
        unseen : {"error", "add"}
            What to do with a state that the table does not have: refuse it, or make it one.
        until : Until, optional
            If chains are run, when to stop.
        seed, workers, progress
            As for `doxa.learn`, if chains are run.

        Returns
        -------
        Posterior
            Of all rows, with its own verdict; ``.how`` says which way was taken, with the numbers.

        Raises
        ------
        ArgumentError
            If a column is lacking, or a state is new.

        Examples
        --------
        >>> import doxa
        >>> table = doxa.datasets.load("reinis").select(["smoke", "systol", "protein"])
        >>> updated = doxa.learn(table, seed=1).update(table)
        >>> updated.how
        'updated by 1841 rows: all graphs were summed again, over all rows'
        """
        from doxa.structure.averaging.update import update

        return update(self, rows, unseen=unseen, until=until, seed=seed, workers=workers, progress=progress)  # type: ignore[arg-type]

    def parent_tables(
        self, node: str, most: int = 5, *, prob: float = 0.95, prior: FamilyKind | None = None
    ) -> pd.DataFrame:
        """The probable parent sets of a node, each with its table; see `doxa.structure.averaging.parent_tables`."""
        from doxa.structure.averaging.parent_tables import parent_tables

        return parent_tables(self, self.table, node, most, prob=prob, prior=prior)

    def parent_regressions(
        self, node: str, most: int = 5, *, prob: float = 0.95, prior: FamilyKind | None = None
    ) -> pd.DataFrame:
        """The probable parent sets of a node with numbers, each with its regression, in units of the columns; see
        `doxa.structure.averaging.parent_regressions`.
        """
        from doxa.structure.averaging.terms import parent_regressions

        return parent_regressions(self, self.table, node, most, prob=prob, prior=prior)

    def coefficients(
        self,
        node: str,
        *,
        where: Mapping[str, str] | None = None,
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> Coefficients:
        """Coefficients of a node's logistic regression on its parents, or a number's slopes, averaged over graphs.

        A coefficient is 0 where the column is no parent; see `doxa.structure.averaging.coefficients`.

        Parameters
        ----------
        node : str
            A column of two states, or of numbers: intercept and slopes on the other numbers, in their units.
        where : mapping of str to str, optional
            Of numbers: states of categories.  Slopes that differ between configurations of parents that are categories
            are averaged over the cases in which these states were observed; over all cases when left out.
        networks, prior
            As for `query`.

        Returns
        -------
        Coefficients
            ``.summary()``, a row for each, with 0 where a column is no parent; ``.given_parent()``, given that it is
            one; ``.draws``, (chain, draw, coefficient); ``.logistic_probability``.
        """
        from doxa.structure.averaging.coefficients import coefficients_of

        return coefficients_of(self.network_draws(networks, prior), node, where)

    def slopes(
        self,
        *,
        where: Mapping[str, str] | None = None,
        prob: float = 0.95,
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> pd.DataFrame:
        """Every edge between two numbers with its slope, given that there is the edge, averaged over graphs.

        Parameters
        ----------
        where : mapping of str to str, optional
            States of categories, as for `coefficients`.
        prob : float, default=0.95
            Of the credible intervals.
        networks, prior
            As for `coefficients`.

        Returns
        -------
        pandas.DataFrame
            Columns ``source, target, probability, probability_mcse`` (of the edge, as in `edges`), and ``mean, sd,
            lower, upper, mcse`` of the slope, in units of the target a unit of the source: posterior mean, standard
            deviation and equal-tailed credible interval given that the edge exists, and the Monte Carlo error of the
            mean; nan where fewer than 20 networks have the edge.  Most probable edges first.

        Raises
        ------
        ArgumentError
            If no column holds numbers, or ``where`` names a number or an unknown column or state.

        Notes
        -----
        The target's other parents are held fixed, and differ between graphs: a slope is that of the regression in the
        graph, and says what an intervention does only as far as arrows do.

        Examples
        --------
        >>> import doxa
        >>> import numpy as np, pandas as pd
        >>> rng = np.random.default_rng(1)
        >>> frame = pd.DataFrame({"x": rng.normal(size=50)})
        >>> frame["y"] = 2 * frame["x"] + rng.normal(size=50)
        >>> doxa.learn(frame, seed=1).slopes().round(2)[["source", "target", "mean", "lower", "upper"]]
          source target  mean  lower  upper
        0      x      y  1.94   1.68   2.19
        1      y      x  0.41   0.35   0.46
        """
        from doxa.structure.averaging.slopes import all_slopes

        return all_slopes(self, self.network_draws(networks, prior), where, prob)

    def effect(
        self,
        of: str,
        on: str | Mapping[str, str],
        *,
        values: Sequence[float | str] | None = None,
        lag: int | None = None,
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> Effect:
        """Posterior of the average causal effect of setting one column on another.

        Averaged over graphs, parameters and missing cells; see `doxa.structure.averaging.effects`.  It is the effect of
        an intervention if every common cause of the columns is a column, and the families have the right form.

        Parameters
        ----------
        of : str
            The column that is set.
        on : str or mapping of str to str
            The column on which the effect is: a number, whose mean changes, or a category of two states, of which the
            second is meant.  ``{column: state}`` of a category of more states.
        values : pair, optional
            From what ``of`` is changed, and to what: states, or numbers in the unit of the column.  When left out, from
            the first state to the last; of a number from its mean to a standard deviation above.
        lag : int, optional
            Where rows are moments in time: how many moments later, 0 for the same moment, which it is when left out.
            The pasts are those of the table's rows.
        networks, prior
            As for `query`.

        Returns
        -------
        Effect
            ``.value`` with its Monte Carlo error ``.mcse``, ``.credible_interval()``, ``.no_effect``, the probability
            that no directed path leads from ``of`` to ``on``, ``.ratio``, ``.probability(above=...)`` and ``.draws``.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If a column or state is unknown, both columns are the same, or the values are not two different ones.
        BudgetError
            If a network is too wide for exact inference even when it is pruned.

        Examples
        --------
        >>> import doxa
        >>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
        >>> effect = posterior.effect("smoke", "protein", values=("no", "yes"))
        >>> effect.target, effect.state, effect.no_effect.value < 0.9
        ('protein', '>=3', True)
        """
        from doxa.structure.averaging.effects import effect_of

        draws = self.network_draws(networks, prior)
        if lag is None and self.options.order is None:
            return effect_of(self, draws, of, on, values)
        from doxa.structure.averaging.effects_in_time import effect_in_time

        return effect_in_time(self, draws, of, on, values, 0 if lag is None else lag)

    def effects(
        self, *, prob: float = 0.95, networks: int | None = N_NETWORKS, prior: FamilyKind | None = None
    ) -> pd.DataFrame:
        """The average causal effects of every column on every other; see `effect`.

        Parameters
        ----------
        prob : float, default=0.95
            Of the credible intervals.
        networks, prior
            As for `query`.

        Returns
        -------
        pandas.DataFrame
            Columns ``of, from, to, on, state, effect, mcse, sd, lower, upper, no_effect, no_effect_mcse``: what is set,
            from which value to which (the values that `effect` uses when none are given), the column on which the
            effect is and its state (None of a number; each state where there are more than two), the posterior mean
            with its Monte Carlo error, standard deviation and equal-tailed credible interval, and the posterior
            probability that there is none.  The surest effects come first.  Where rows are moments in time ``lag``
            follows ``on``: after how many moments, up to as many as there are lags.

        Examples
        --------
        >>> import doxa
        >>> frame = doxa.learn(doxa.datasets.load("reinis"), seed=1).effects()
        >>> len(frame), bool((frame["no_effect"].diff()[1:] >= 0).all())
        (30, True)
        """
        from doxa.structure.averaging.effects import all_effects

        draws = self.network_draws(networks, prior)
        if self.options.order is None:
            return all_effects(self, draws, check_prob(prob))
        from doxa.structure.averaging.effects_in_time import all_effects_in_time

        return all_effects_in_time(self, draws, check_prob(prob))

    def forecast(
        self,
        ahead: int = 1,
        given: Any = None,
        do: Mapping[str, str | float] | None = None,
        *,
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> pd.DataFrame:
        """What comes next: the distribution of every column at the moments to come.

        Averaged over graphs and parameters, those of a network being the same all along, by paths that are drawn in
        every network; of posteriors whose rows are moments in time.

        Parameters
        ----------
        ahead : int, default=1
            How many moments.
        given : mapping, data frame, Table or path, optional
            What was seen last.  A mapping has it of one unit, ``"x"`` at the last moment, ``"x [t-1]"`` before; a frame
            has moments of units as the table had them.  When left out, every unit of the table goes on from its last
            moment that has its past.  Cells that are left out are drawn from the distribution that their column has
            over all moments; those missing in the table are as likely as the table makes them.
        do : mapping of str to str or number, optional
            What is set by intervention: ``{"x [t+1]": "yes"}`` at the first of the moments to come.
        networks, prior
            As for `query`.

        Returns
        -------
        pandas.DataFrame
            Columns ``unit`` and ``after`` (the last moment that was seen), where these are known, ``ahead``,
            ``column``; of categories ``state, probability``, of numbers ``mean, sd, lower, upper``, the last two the
            central 95%; and ``mcse``, the Monte Carlo error of probability or mean.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If rows are no moments in time, or a column, state or moment is unknown.

        Examples
        --------
        >>> import doxa, pandas
        >>> frame = pandas.DataFrame({"day": range(40), "x": list("nnyy") * 10})
        >>> posterior = doxa.learn(frame, time="day", seed=1)
        >>> posterior.forecast(2, given={"x": "n"})[["ahead", "column", "state"]].values.tolist()
        [[1, 'x', 'n'], [1, 'x', 'y'], [2, 'x', 'n'], [2, 'x', 'y']]
        """
        from doxa.structure.averaging.forecast import forecast

        return forecast(self, self.network_draws(networks, prior), ahead, given, do)

    def simulate(
        self,
        ahead: int = 1,
        given: Any = None,
        do: Mapping[str, str | float] | None = None,
        *,
        n: int = 100,
        seed: int = 1,
        networks: int | None = N_NETWORKS,
        prior: FamilyKind | None = None,
    ) -> pd.DataFrame:
        """Paths through the moments to come, each in a network of its own.

        Parameters
        ----------
        ahead, given, do, networks, prior
            As for `forecast`.
        n : int, default=100
            Paths of every unit.
        seed : int, default=1
            Of the paths.

        Returns
        -------
        pandas.DataFrame
            Columns ``path``, ``unit`` where it is known, ``ahead``, and a column for each of the table's.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            As `forecast`.

        Examples
        --------
        >>> import doxa, pandas
        >>> frame = pandas.DataFrame({"day": range(40), "x": list("nnyy") * 10})
        >>> paths = doxa.learn(frame, time="day", seed=1).simulate(3, n=5)
        >>> list(paths.columns), len(paths)
        (['path', 'ahead', 'x'], 15)
        """
        from doxa.structure.averaging.forecast import simulate

        return simulate(self, self.network_draws(networks, prior), ahead, given, do, n, seed)

    def predictive_checks(self, *, replicas: int | None = 400, prior: FamilyKind | None = None) -> pd.DataFrame:
        """The table's counts and mutual informations against those of tables that the posterior makes.

        Of numbers means, standard deviations, skewnesses and correlations.  See
        `doxa.structure.averaging.checks.predictive_checks`.
        """
        from doxa.structure.averaging.checks import predictive_checks

        return predictive_checks(self, self.table, replicas=replicas, prior=prior)

    def network_draws(self, networks: int | None = N_NETWORKS, prior: FamilyKind | None = None) -> NetworkDraws:
        """The networks that answers average over; the usual number of them, with the score's own prior, is kept."""
        if networks == N_NETWORKS and prior is None:
            return self._usual_draws
        return draw_networks(self, self.table, networks, prior=prior)

    @cached_property
    def _usual_draws(self) -> NetworkDraws:
        return draw_networks(self, self.table)

    def _read_again(self) -> Table:
        if self.source is None:
            raise ArgumentError(
                "the posterior does not know its table, which was not read from a file; load it with the table: "
                "doxa.load(path, table=...)"
            )
        return check_table(self, self.options.read_again(self.source))


class ExactGraphsPosterior(Posterior, ExactStructurePosterior):
    """`Posterior` where graphs were summed and not sampled: what concerns graphs alone is exact."""

    @cached_property
    def log_marginal_likelihood(self) -> Estimate:
        """Log P(data), nats: the evidence divided by the sum of the prior weights over all possible graphs.

        Of moments in time it is that of the present given the past of each row.
        """
        whole = ExactStructurePosterior.log_marginal_likelihood.func(self)  # type: ignore[attr-defined]
        if self.options.order is None:
            return whole  # type: ignore[no-any-return]
        from doxa.structure.runs.evidence import log_past

        return Estimate.exactly(whole.value - log_past(self.options, self.table))


def with_table(posterior: StructurePosterior, table: Table | None) -> Posterior:
    """A posterior over graphs together with its table; None to read that when it is asked for."""
    kind: type[Posterior] = ExactGraphsPosterior if isinstance(posterior, ExactStructurePosterior) else Posterior
    if posterior.options.graph_given:
        from doxa.structure.averaging.given_graph import TablePosterior
        from doxa.structure.averaging.given_numbers import RegressionPosterior

        kind = RegressionPosterior if posterior.options.numbers else TablePosterior
    made = kind(**posterior.parts, table=table)
    made.how = posterior.how
    if kind is Posterior:
        vars(made).update(diagnoses_of(posterior))
    return made


def check_table(posterior: StructurePosterior, table: Table) -> Table:
    """The table, if it is the one that a posterior was learned from.

    Raises
    ------
    ArgumentError
        If it is another.
    """
    known = posterior.options.data_digest
    if known and table.digest != known:
        raise ArgumentError("the table is not the one that the posterior was learned from; its contents differ")
    posterior.options.check_table(table)  # a file may say what it likes beside a digest
    if "cells" in posterior.trace.names:
        from doxa.structure.cases.incomplete.missing_cells import missing_cells_of

        missing_cells_of(table).check_values(posterior.trace["cells"], "cells")
    return table

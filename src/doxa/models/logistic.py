r"""`LogisticNetwork`: a belief network of binary nodes with logistic conditional probabilities.

A node with parents is 1 with probability :math:`g(\theta_i \cdot [1, x_{\pi(i)}])`, where
:math:`g(z) = 1 / (1 + e^{-z})`; parents count as -1 and +1 (de Freitas et al. 2001, section 2) or as 0
and 1 (Jaakkola & Jordan 2000, eqs. 1 and 20).  The coefficients of each node have a Gaussian prior,
independent of those of other nodes.

Posteriors of the coefficients are not here: this is the model they are posteriors of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_generator, check_whole
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models.dag import Dag
from doxa.models.logistic_factors import Factor, LogisticFactor, RootFactor
from doxa.models.logistic_options import (
    GaussianPrior,
    RootBlock,
    check_thetas,
    read_biases,
    read_parents,
    read_roots,
)
from doxa.models.logistic_prior import LearnedScale, NetworkPrior
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.models.logistic_rows import LogisticLikelihood, complete_regression, parent_values
from doxa.text import counted, listed

__all__ = ["LogisticNetwork", "draw_table"]


def draw_table(
    names: Sequence[str],
    factors: Sequence[Factor],
    n_rows: int,
    thetas: Mapping[str, NDArray[np.float64]],
    rng: np.random.Generator,
    states: tuple[str, str],
) -> Table:
    """Draw rows of all nodes; ``factors`` have children before parents, ``thetas`` are checked."""
    if not isinstance(states, (tuple, list)) or len(states) != 2:
        raise ArgumentError(f"states is {states!r}; give two labels, of 0 and of 1")
    codes = np.zeros((n_rows, len(names)), dtype=np.int8)
    for factor in reversed(factors):
        codes[:, list(factor.children)] = factor.draw(codes, thetas, rng.random(n_rows))
    return Table.from_codes(names, [tuple(states)] * len(names), codes)


_LOW = {"pm1": -1.0, "01": 0.0}


class LogisticNetwork:
    r"""A belief network of binary nodes with logistic conditional probabilities and Gaussian priors.

    Parameters
    ----------
    parents : mapping of str to sequence of str, Dag, or iterable of (str, str)
        Every child's parents, a graph, or edges (parent, child).  A node that is only a parent need not
        be a key: nodes without parents are *roots*.  Coefficients follow the order of the parents given.
    prior_mean, prior_scale : float or mapping of str to (float, vector or mapping), default=0.0 and 10.0
        Means and standard deviations of the coefficients: one number for all, or for each node a number,
        a vector, or ``{coefficient: number}``; what a mapping leaves out has the default.  A `LearnedScale` makes
        standard deviations parameters; ``"learned"`` is the simplest, one for all coefficients of parents.
    prior_covariance : mapping of str to matrix, optional
        A full covariance for some nodes, in place of ``prior_scale``; symmetric and positive definite.
    bias : "learned", float or mapping of str to either, default="learned"
        A learned bias is the first coefficient and shares the prior; a number is fixed.  Nodes that a
        mapping leaves out have a learned bias.
    roots : mapping, array or "learned", optional
        ``{node: P(node = 1)}``; a root that is left out, or given as "learned", has a probability that is
        itself a parameter with prior Beta(1, 1), and so have all roots when the argument is left out.  A key
        that is a tuple of nodes has a joint table, an array of shape ``(2,) * len(key)`` with an axis for
        each; an array alone is the joint table of all roots, in the order of `roots`.
    coding : {"pm1", "01"}, default="pm1"
        Whether parents enter as -1 and +1 or as 0 and 1.

    Raises
    ------
    ArgumentError
        If an argument breaks its rule; the message names node, value and rule.

    Notes
    -----
    The likelihood of a child is :math:`g(x \eta)` with :math:`x = \pm 1` in both codings (de Freitas et al.
    2001, section 2; the :math:`H_s` of Jaakkola & Jordan 2000, eq. 7).  The codings describe the same
    probabilities: coefficients :math:`(b, w)` for -1 and +1 are :math:`(b - \sum_j w_j, 2 w)` for 0 and 1.
    The same prior numbers are different priors.

    In a `Table`, the second of a column's two states is 1.  A column with a single state is 1 where its
    label is one of 1, +1, 1.0, yes, true (in any case), else 0.  Columns that are no nodes are ignored;
    nodes without a column are hidden, and summed out.

    Parameters of the whole network, ``thetas``, are a mapping: for a node with parents a vector of shape
    ``(n_coefficients,)``, for a learned root its probability, of shape ``(1,)``.  Any of them may be a batch,
    ``(n_batch, ...)``; results then have a first axis of that length.

    Examples
    --------
    >>> network = LogisticNetwork({"heart": ["smokes", "pressure"]}, roots={"smokes": 0.3})
    >>> network
    LogisticNetwork(3 nodes, 1 with parents, coding='pm1')
    >>> network.coefficients("heart"), network.coefficients("pressure"), network.coefficients("smokes")
    (('bias', 'smokes', 'pressure'), ('probability',), ())
    >>> thetas = {"heart": [-1.0, 0.5, 0.25], "pressure": [0.4]}
    >>> table = network.simulate(1000, thetas, np.random.default_rng(1), states=("no", "yes"))
    >>> round(network.log_likelihood(thetas, table), 2)
    -1811.67
    """

    def __init__(
        self,
        parents: Mapping[str, Sequence[str]] | Dag | Iterable[tuple[str, str]],
        *,
        prior_mean: float | Mapping[str, Any] = 0.0,
        prior_scale: float | Mapping[str, Any] | LearnedScale | Literal["learned"] = 10.0,
        prior_covariance: Mapping[str, ArrayLike] | None = None,
        bias: str | float | Mapping[str, str | float] = "learned",
        roots: str | Mapping[Any, Any] | ArrayLike | None = None,
        coding: Literal["pm1", "01"] = "pm1",
    ) -> None:
        if not isinstance(coding, str) or coding not in _LOW:
            raise ArgumentError(f"coding is {coding!r}; it must be 'pm1' (parents -1 and +1) or '01' (parents 0 and 1)")
        self._dag, self._parents = read_parents(parents)
        self._coding: Literal["pm1", "01"] = coding
        self._roots = tuple(node for node in self.names if not self._parents[node])
        families = {node: group for node, group in self._parents.items() if group}
        self._biases = read_biases(bias, families, self._roots)
        self._coefficients = {
            node: (("bias", *group) if self._biases[node] is None else group) for node, group in families.items()
        }
        given = prior_mean, prior_scale, prior_covariance
        self._prior = NetworkPrior(families, self._coefficients, self._roots, *given)
        self._root_blocks = read_roots(roots, self._roots)
        self._labels = dict.fromkeys(self.names, ()) | self._coefficients
        self._labels.update({block.learned: ("probability",) for block in self._root_blocks if block.learned})
        self._labels |= dict.fromkeys(self._prior.scales, ("scale",))
        self._position = {name: k for k, name in enumerate(self.names)}
        self._families = {node: self._family(node) for node in families}
        order = [node for node in reversed(self._dag.topological_order()) if node in families]
        factors: list[Factor] = [self._families[node] for node in order]
        self._factors = (*factors, *(self._root_factor(block) for block in self._root_blocks))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes: in order of appearance, or the graph's."""
        return self._dag.names

    @property
    def dag(self) -> Dag:
        """The graph."""
        return self._dag

    @property
    def coding(self) -> Literal["pm1", "01"]:
        """How parents enter: as -1 and +1, or as 0 and 1."""
        return self._coding

    @property
    def roots(self) -> tuple[str, ...]:
        """Nodes without parents, in node order."""
        return self._roots

    @property
    def root_blocks(self) -> tuple[RootBlock, ...]:
        """Distributions of the roots: blocks of nodes with a joint table, or None where it is learned."""
        return self._root_blocks

    @property
    def parameters(self) -> tuple[str, ...]:
        """Nodes that have parameters, in node order: those with parents, and learned roots.  Then learned scales."""
        return tuple(name for name in (*self.names, *self._prior.scales) if self._labels[name])

    @property
    def learned_scale(self) -> LearnedScale | None:
        """The hyperprior of scales that are parameters; None where all are given."""
        return self._prior.learned

    @property
    def scales(self) -> dict[str, tuple[str, ...]]:
        """Learned scales of the prior by name, with the nodes whose coefficients of parents share each."""
        return dict(self._prior.scales)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Factors of a row's probability, children before parents: of nodes with parents, then of blocks of roots."""
        return self._factors

    def scale_of(self, node: str) -> str | None:
        """Name of the learned scale that coefficients of ``node`` share; None where it is given."""
        return self._prior.scale_of.get(self._known(node))

    def parents(self, node: str) -> tuple[str, ...]:
        """Parents of ``node``, in the order given, which is that of its coefficients."""
        return self._parents[self._known(node)]

    def coefficients(self, node: str) -> tuple[str, ...]:
        """Labels of the parameters of ``node``: 'bias' if learned, then its parents; a learned root's 'probability'.

        Those of a learned scale, by its name, are ``("scale",)``.
        """
        return self._labels[node if node in self._prior.scales else self._known(node)]

    def n_coefficients(self, node: str) -> int:
        """Number of parameters of ``node``."""
        return len(self.coefficients(node))

    def bias(self, node: str) -> float | None:
        """The fixed bias of ``node``, None where it is learned."""
        return self._biases[self._with_parents(node)]

    def prior(self, node: str, scale: float | None = None) -> GaussianPrior:
        """Mean and covariance of the coefficients of ``node``, as fresh arrays; given their ``scale`` if it is learned.

        ArgumentError without a learned scale: the prior is then no Gaussian.
        """
        return self._prior.of(self._with_parents(node), scale)

    def design(self, node: str, values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Design matrix and offset of ``node`` for given values of its parents.

        Parameters
        ----------
        node : str
            A node with parents.
        values : array_like, shape (n, n_parents)
            Codes 0 and 1 of the parents in the order of `parents`, or probabilities of 1: the row is then
            the expected one.

        Returns
        -------
        design : ndarray, shape (n, n_coefficients)
            Ones for a learned bias, then the parents in the network's coding.
        offset : ndarray, shape (n,)
            The fixed bias; 0 where it is learned.

        Examples
        --------
        >>> design, offset = LogisticNetwork({"c": ["a", "b"]}).design("c", [[0, 1]])
        >>> design.tolist(), offset.tolist()
        ([[1.0, -1.0, 1.0]], [0.0])
        """
        factor = self._families[self._with_parents(node)]
        return factor.design(parent_values(values, len(self._parents[node])))

    def simulate(
        self,
        n: int,
        thetas: Mapping[str, ArrayLike],
        rng: np.random.Generator | None = None,
        *,
        states: tuple[str, str] = ("0", "1"),
        seed: int | None = None,
    ) -> Table:
        """Draw rows of all nodes, parents before children.

        Parameters
        ----------
        n : int
            Number of rows.
        thetas : mapping of str to vector
            Parameters, not a batch.
        rng : numpy.random.Generator, optional
            Advanced.
        states : (str, str), default=("0", "1")
            Labels of 0 and 1.
        seed : int, optional
            In the place of ``rng``: the same seed gives the same rows.  Fresh when both are left out.

        Returns
        -------
        Table
            A column for every node, in the order of `names`; ``table.select`` hides some of them.

        Examples
        --------
        >>> network = LogisticNetwork({"b": ["a"]}, roots={"a": 0.5})
        >>> network.simulate(8, {"b": [0.0, 50.0]}, seed=0).codes.tolist()
        [[1, 1], [0, 0]]
        """
        n_rows = check_whole("n", n, 0)
        checked, n_batch = self._check_thetas(thetas)
        if n_batch is not None:
            raise ArgumentError("thetas holds a batch; simulate draws under one vector a node: pick one of them")
        return draw_table(self.names, self._factors, n_rows, checked, check_generator(rng, seed), states)

    def likelihood(self, table: Table) -> LogisticLikelihood:
        """Prepare the likelihood of a table for many evaluations: missing cells are summed out exactly.

        Parameters
        ----------
        table : Table
            Columns that are no nodes are ignored; nodes without a column are hidden.

        Returns
        -------
        LogisticLikelihood
            With methods ``log_likelihood(thetas)`` and ``log_rows(thetas)``.

        Raises
        ------
        TableError
            If a node's column has more than two states, or no column is a node's.
        ArgumentError
            If the missing cells need sums over more than 2**20 configurations.
        """
        return LogisticLikelihood(self.names, self._factors, self._check_thetas, table)

    def log_likelihood(self, thetas: Mapping[str, ArrayLike], table: Table) -> float | NDArray[np.float64]:
        """Log likelihood of a table (nats), missing cells and hidden nodes summed out.

        Where it is needed many times, prepare it once with `likelihood`.

        Examples
        --------
        >>> network = LogisticNetwork({"b": ["a"]}, roots={"a": 0.25})
        >>> table = Table.from_codes(["a", "b"], [["0", "1"]] * 2, [[1, -1], [1, -1]])
        >>> round(float(np.exp(network.log_likelihood({"b": [0.0, 1.0]}, table))), 4)
        0.0625
        """
        return self.likelihood(table).log_likelihood(thetas)

    def log_marginal_rows(self, thetas: Mapping[str, ArrayLike], table: Table) -> NDArray[np.float64]:
        r"""Log probability of what every distinct row of a table observes (nats).

        Parameters
        ----------
        thetas : mapping of str to array
        table : Table
            Missing cells are summed over, hidden nodes too.

        Returns
        -------
        ndarray, shape (n_distinct,) or (n_batch, n_distinct)
            In the order of ``table.codes``; ``[..., table.row_index]`` is that of the source.

        Notes
        -----
        :math:`\ln \sum_{x^h} \prod_i p(x_i | x_{\pi(i)}, \theta_i)`: de Freitas et al. 2001, section 2 (ii), with
        the probabilities of roots, which are left out there.  Cells that share no family are summed over
        apart, and a missing cell without observed descendants sums to one.

        Examples
        --------
        >>> network = LogisticNetwork({"b": ["a"]}, roots={"a": 0.25})
        >>> table = Table.from_codes(["a", "b"], [["0", "1"]] * 2, [[1, -1], [-1, 0]])
        >>> np.exp(network.log_marginal_rows({"b": [0.0, 1.0]}, table)).round(4).tolist()
        [0.25, 0.6155]
        """
        return self.likelihood(table).log_rows(thetas)

    def log_prior(self, thetas: Mapping[str, ArrayLike]) -> float | NDArray[np.float64]:
        """Log prior density (nats), normalised; learned roots have the density 1 of Beta(1, 1)."""
        checked, n_batch = self._check_thetas(thetas)
        total = np.broadcast_to(self._prior.log_density(checked), n_batch or 1)
        return float(total[0]) if n_batch is None else total.copy()

    def log_joint(self, thetas: Mapping[str, ArrayLike], table: Table) -> float | NDArray[np.float64]:
        """Log of prior density times likelihood (nats): the posterior's density up to a constant."""
        return self.log_prior(thetas) + self.log_likelihood(thetas, table)

    def regression(self, node: str, table: Table) -> LogisticRegressionProblem:
        """Make the logistic regression of ``node`` on its parents, identical rows collapsed.

        With no missing cell in a family the posterior of its coefficients is that of this regression,
        whatever is missing elsewhere (de Freitas et al. 2001, section 2 (i); Jaakkola & Jordan 2000, 5.1).

        Parameters
        ----------
        node : str
            A node with parents.
        table : Table
            With the columns of the node and its parents, none of their cells missing.

        Returns
        -------
        LogisticRegressionProblem
            At most ``2 ** (n_parents + 1)`` rows, whatever the number of rows of the table.

        Raises
        ------
        TableError
            If a cell of the family is missing: its sum belongs to `likelihood`.

        Examples
        --------
        >>> network = LogisticNetwork({"c": ["a", "b"]}, bias=0.5, coding="01")
        >>> table = Table.from_codes(["a", "b", "c"], [["0", "1"]] * 3, [[1, 0, 1], [1, 0, 1], [0, 1, 0]])
        >>> problem = network.regression("c", table)
        >>> problem.design.tolist(), problem.sign.tolist(), problem.counts.tolist(), problem.offset.tolist()
        ([[0.0, 1.0], [1.0, 0.0]], [-1.0, 1.0], [1.0, 2.0], [0.5, 0.5])
        """
        factor = self._families[self._with_parents(node)]
        family = [self.names[v] for v in factor.scope]
        return complete_regression(factor, family, table, self.prior(node))

    def __repr__(self) -> str:
        nodes = counted(len(self.names), "node")
        return f"LogisticNetwork({nodes}, {len(self._families)} with parents, coding={self._coding!r})"

    def _known(self, node: str) -> str:
        if node not in self._parents:
            raise ArgumentError(f"node {node!r} is not in the network; its nodes are {listed(self.names)}")
        return node

    def _with_parents(self, node: str) -> str:
        if not self._parents[self._known(node)]:
            raise ArgumentError(f"node {node!r} has no parents, so no regression; its distribution is in root_blocks")
        return node

    def _family(self, node: str) -> LogisticFactor:
        child = self._position[node]
        scope = (*(self._position[parent] for parent in self._parents[node]), child)
        return LogisticFactor(node, scope, (child,), _LOW[self._coding], self._biases[node])

    def _root_factor(self, block: RootBlock) -> RootFactor:
        scope = tuple(self._position[node] for node in block.nodes)
        return RootFactor(block.learned, scope, scope, block.probabilities)

    def _check_thetas(self, thetas: Mapping[str, ArrayLike]) -> tuple[dict[str, NDArray[np.float64]], int | None]:
        return check_thetas(thetas, self._labels, self._roots)

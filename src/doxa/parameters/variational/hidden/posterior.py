r"""Variational posteriors of logistic networks with hidden nodes and missing cells: the result, and the way to it.

Jaakkola & Jordan (2000, section 5.2 and appendix B) bound the logistic factors by their xi-transformation and the sum
over what is missing by a q-transformation; the posterior is then a Gaussian for each node.  De Freitas et al. (2001,
section 3.3) use the factorised q.  What is maximised is in `doxa.parameters.variational.hidden.ascent`; the forms of q
are in `doxa.parameters.variational.hidden.blocks`; families with a xi for each configuration and with one for each row
in `doxa.parameters.variational.hidden.problem`.

Corrected here: eqs. 7 and 8 of de Freitas et al. (see `doxa.parameters.variational.hidden.problem`), and the factors of
hidden roots, which they leave out of eq. 5.  Missing cells without observed descendants have no part in q, where they
would only lower the bound.

Several starts, several optima: the posterior of a network with hidden nodes as a mixture of Gaussians.

Exchanging the states of a hidden node, or two hidden nodes with the same neighbours, changes no probability of the
data; so modes come in sets that mirror each other, as alike as the priors of the coefficients make them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic import LogisticNetwork
from doxa.parameters.variational.hidden.ascent import AscentFit, ascend
from doxa.parameters.variational.hidden.problem import Form, HiddenProblem, Xi, hidden_problem
from doxa.parameters.variational.hidden.starts import (
    begin_at,
    begin_from,
    block_marginals,
    check_rng,
    drawn_starts,
    predict_rest,
)
from doxa.parameters.variational.whitened import to_posterior
from doxa.sampling.gaussian import Gaussian, GaussianPosterior

if TYPE_CHECKING:
    from doxa.parameters.variational.hidden.sequential import SequentialHiddenPosterior

__all__ = [
    "HiddenPosterior",
    "ascend_from",
    "different_optima",
    "hidden_posterior",
    "hidden_posteriors",
    "joint_gaussian",
    "mixture_weights",
]


Found = TypeVar("Found", "HiddenPosterior", "SequentialHiddenPosterior")

_SAME = 0.1  # standard deviations: nearer Gaussians are one


@dataclass(frozen=True, eq=False, repr=False)
class HiddenPosterior:
    """Gaussians and Betas that approximate the posterior of a network's parameters, and q of what is missing.

    Attributes
    ----------
    gaussians : dict of str to GaussianPosterior
        Coefficients of every node with parents, independent between nodes.  Where no cell of a node's family is
        missing, its ``log_evidence`` is a bound of its own; elsewhere it is NaN, as families share one bound.
    roots : dict of str to (float, float)
        Beta(a, b) of the probability of each learned root: exact where its cells are all observed.
    log_evidence : float
        Lower bound (nats) of the log marginal likelihood of what the table observes.
    trace : ndarray of float, shape (n,)
        The bound on the way; it only increases.
    converged : bool
        False if the limit of iterations ended the search.
    n_iterations : int
        Fits of all coupled Gaussians; 0 where nothing is missing.
    problem : HiddenProblem
        The network and the table, made ready.
    q : ndarray of float
        Probabilities of hidden configurations, as ``problem.ascent.layout`` places them.

    Notes
    -----
    The posterior of a network with hidden nodes has several modes as a rule, and this is near one of them:
    `doxa.parameters.variational.hidden.hidden_posteriors` looks for more.  Standard deviations are too small.
    """

    gaussians: dict[str, GaussianPosterior]
    roots: dict[str, tuple[float, float]]
    log_evidence: float
    trace: Floats
    converged: bool
    n_iterations: int
    problem: HiddenProblem
    q: Floats = field(repr=False)

    @property
    def network(self) -> LogisticNetwork:
        """The network."""
        return self.problem.network

    @property
    def form(self) -> Form:
        """The form of q."""
        return self.problem.form

    @property
    def xi(self) -> Xi:
        """What has a xi of its own."""
        return self.problem.xi

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """Node and coefficient, in the order in which `joint_gaussian` strings the coefficients."""
        return tuple((node, label) for node in self.gaussians for label in self.network.coefficients(node))

    def cell_probabilities(self) -> Floats:
        """P(cell = 1) for each distinct row of the table and each node, shape (n_distinct, n_nodes).

        Observed cells are 0 or 1, missing ones the marginals of q.  A missing cell without observed descendants is no
        part of the bound and is predicted from its parents, as if those that are missing were independent.
        """
        cells = block_marginals(self.problem.codes, self.problem.components, self.problem.ascent.layout, self.q)
        predict_rest(cells, self.network.factors, self.gaussians, self.roots)
        return cells

    def __repr__(self) -> str:
        state = "" if self.converged else ", not converged"
        return (
            f"<HiddenPosterior: {self.form} q, a xi for each {self.xi}, "
            f"lower bound {self.log_evidence:.4f} of the log evidence{state}>"
        )


def hidden_posterior(
    network: LogisticNetwork,
    table: Table,
    *,
    form: Form = "unconstrained",
    xi: Xi = "configuration",
    group_size: int | None = None,
    start: HiddenPosterior | Mapping[str, ArrayLike] | None = None,
    rng: np.random.Generator | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 2000,
) -> HiddenPosterior:
    r"""Variational posterior of a logistic network's parameters, with hidden nodes and missing cells.

    Parameters
    ----------
    network : LogisticNetwork
    table : Table
        Missing cells are -1; nodes without a column are hidden.
    form : {"unconstrained", "structured", "mean_field"}, default="unconstrained"
        What q may be for the missing cells of a row that share factors: any distribution, a product over groups of
        cells, or a product over cells.
    xi : {"configuration", "row"}, default="configuration"
        A variational parameter for each configuration of a family, missing cells filled in; or, as in the papers, one
        for each row, which is looser, and tends to explain hidden nodes away, but needs no sum over the missing cells
        of a family.
    group_size : int, optional
        Largest group of cells with ``form="structured"``; 3 by default.  Cells of one joint table of roots stay
        together in every form.
    start : HiddenPosterior or mapping of str to vector, optional
        A posterior of the same network and table in any form, or coefficients ``{node: vector}``; those of nodes that
        are left out are drawn.
    rng : numpy.random.Generator, optional
        Draws the start.  Without it the same numbers are drawn each time.
    tolerance : float, default=1e-10
        Stop when three steps in a row raise the bound by less than this share of 1 + its size.
    max_iterations : int, default=2000

    Returns
    -------
    HiddenPosterior
        Without missing cells, its Gaussians are those of `doxa.parameters.variational.batch.batch_posterior`.

    Raises
    ------
    ArgumentError
        If an option is out of range, ``start`` does not fit, q needs more than 2**20 numbers, or given probabilities of
        roots make a row impossible.
    TableError
        If a node's column has more than two states, or no column is a node's.

    Examples
    --------
    >>> network = LogisticNetwork({"b": ["a"], "c": ["a"]}, prior_scale=2.0)
    >>> rows, counts = [[0, 0], [0, 1], [1, 0], [1, 1]], [40, 10, 10, 40]
    >>> table = Table.from_codes(["b", "c"], [["0", "1"]] * 2, rows, counts)
    >>> fit = hidden_posterior(network, table)  # a is hidden
    >>> fit
    <HiddenPosterior: unconstrained q, a xi for each configuration, lower bound -131.1504 of the log evidence>
    """
    problem = hidden_problem(network, table, form, xi, group_size, tolerance, max_iterations)
    rng = check_rng(rng)
    if isinstance(start, HiddenPosterior):
        fit = begin_from(problem, start.problem, start.gaussians, start.roots, start.cell_probabilities())
    elif start is None or isinstance(start, Mapping):
        fit = begin_at(problem, start or {}, rng)
    else:
        raise ArgumentTypeError(
            f"start is of type {type(start).__name__}; give a HiddenPosterior or a mapping of nodes to coefficients"
        )
    return ascend_from(problem, fit, tolerance, max_iterations)


def ascend_from(problem: HiddenProblem, fit: AscentFit, tolerance: float, max_iterations: int) -> HiddenPosterior:
    """Ascend from ``fit`` and put everything together."""
    top = ascend(problem.ascent, fit, tolerance=tolerance, max_iterations=max_iterations)
    found = dict(problem.settled)
    for family, complete, best in zip(problem.ascent.families, problem.complete, top.fit.families, strict=True):
        found[family.node] = to_posterior(
            complete,
            best.mean,
            best.factor,
            method=f"hidden variational ({problem.form} q)",
            evidence_kind="lower bound",
            n_iterations=top.n_iterations,
            converged=top.converged,
            trace=top.trace,
        )
    roots = {root.node: (best.ones, best.zeros) for root, best in zip(problem.ascent.roots, top.fit.roots, strict=True)}
    names = problem.network.names
    return HiddenPosterior(
        gaussians={node: found[node] for node in names if node in found},
        roots={node: roots[node] for node in names if node in roots},
        log_evidence=top.fit.log_bound,
        trace=top.trace,
        converged=top.converged and all(fit.converged for fit in problem.settled.values()),
        n_iterations=top.n_iterations if problem.components else 0,
        problem=problem,
        q=top.fit.q,
    )


def different_optima(results: Iterable[Found]) -> list[Found]:
    """The best first; of two that agree to a tenth of a standard deviation in all means, only the better one."""
    kept: list[Found] = []
    for new in results:
        same = next((k for k, old in enumerate(kept) if _agree(old.gaussians, new.gaussians)), None)
        if same is None:
            kept.append(new)
        elif new.log_evidence > kept[same].log_evidence:
            kept[same] = new
    return sorted(kept, key=lambda result: -result.log_evidence)


def _agree(one: Mapping[str, GaussianPosterior], other: Mapping[str, GaussianPosterior]) -> bool:
    return all(bool((np.abs(mine.mean - other[node].mean) < _SAME * mine.sd).all()) for node, mine in one.items())


def hidden_posteriors(
    network: LogisticNetwork,
    table: Table,
    *,
    starts: int = 8,
    seed: int | None = None,
    form: Form = "unconstrained",
    xi: Xi = "configuration",
    group_size: int | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 2000,
) -> list[HiddenPosterior]:
    """Different optima of the bound, found from several starts; the best first.

    Parameters
    ----------
    network, table, form, xi, group_size, tolerance, max_iterations
        As for `hidden_posterior`.
    starts : int, default=8
        Where nodes are hidden, every two begin at the same draw of coefficients, with the states of some hidden nodes
        exchanged in the first, and of all the others in the second: a mode's mirror image is then found with it.
    seed : int, optional
        Of the draws.

    Returns
    -------
    list of HiddenPosterior
        Two that differ by less than a tenth of a standard deviation in every mean are one.  Nothing says that all
        optima were found.

    Examples
    --------
    >>> network = LogisticNetwork({"b": ["a"], "c": ["a"]}, prior_scale=2.0)
    >>> rows, counts = [[0, 0], [0, 1], [1, 0], [1, 1]], [40, 10, 10, 40]
    >>> table = Table.from_codes(["b", "c"], [["0", "1"]] * 2, rows, counts)
    >>> fits = hidden_posteriors(network, table, starts=4, seed=1)
    >>> sorted(fit.gaussians["b"].mean.round(2)[1] for fit in fits)  # a's states exchanged
    [np.float64(-2.03), np.float64(2.03)]
    """
    starts = check_whole("starts", starts, 1)
    problem = hidden_problem(network, table, form, xi, group_size, tolerance, max_iterations)
    if not problem.components:
        starts = 1  # one optimum
    return different_optima(
        ascend_from(problem, begin_at(problem, coefficients, rng), tolerance, max_iterations)
        for coefficients, rng in drawn_starts(problem, np.random.SeedSequence(seed).spawn(starts))
    )


def joint_gaussian(result: HiddenPosterior | SequentialHiddenPosterior) -> Gaussian:
    """The Gaussians of all nodes as one, independent between nodes, in the order of ``result.labels``.

    Examples
    --------
    >>> from doxa.parameters.variational.hidden.posterior import hidden_posterior
    >>> network = LogisticNetwork({"b": ["a"], "c": ["a"]}, prior_scale=2.0)
    >>> fit = hidden_posterior(network, Table.from_codes(["b", "c"], [["0", "1"]] * 2, [[0, 1], [1, 0]]))
    >>> fit.labels, joint_gaussian(fit).mean.shape
    ((('b', 'bias'), ('b', 'a'), ('c', 'bias'), ('c', 'a')), (4,))
    """
    parts = list(result.gaussians.values())
    if not parts:
        raise ArgumentError("result is of a network without coefficients; its roots have Beta posteriors")
    return Gaussian(np.concatenate([part.mean for part in parts]), block_diag(*(part.cholesky for part in parts)))


def mixture_weights(results: Sequence[HiddenPosterior] | Sequence[SequentialHiddenPosterior]) -> NDArray[np.float64]:
    """Weight of each optimum in a mixture: its share of the summed bounds on the evidence, shape (n,).

    Examples
    --------
    >>> network = LogisticNetwork({"b": ["a"], "c": ["a"]}, prior_scale=2.0)
    >>> table = Table.from_codes(["b", "c"], [["0", "1"]] * 2, [[0, 0], [1, 1]], [40, 40])
    >>> mixture_weights(hidden_posteriors(network, table, starts=4, seed=1)).round(3)  # mirror images
    array([0.5, 0.5])
    """
    if not results:
        raise ArgumentError("results is empty; hidden_posteriors finds at least one optimum")
    bounds = np.array([result.log_evidence for result in results])
    weights = np.exp(bounds - bounds.max())
    return np.asarray(weights / weights.sum())

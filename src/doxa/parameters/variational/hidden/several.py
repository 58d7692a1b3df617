"""Several starts, several optima: the posterior of a network with hidden nodes as a mixture of Gaussians.

Exchanging the states of a hidden node, or two hidden nodes with the same neighbours, changes no probability of the
data; so modes come in sets that mirror each other, as alike as the priors of the coefficients make them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from doxa.checks import check_whole
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models.logistic import LogisticNetwork
from doxa.parameters.variational.hidden.posterior import HiddenPosterior, ascend_from, same_optimum
from doxa.parameters.variational.hidden.problem import Form, Xi, hidden_problem
from doxa.parameters.variational.hidden.starts import begin_at, draw_coefficients, hidden_nodes, relabelled
from doxa.sampling.gaussian import Gaussian

if TYPE_CHECKING:
    from doxa.parameters.variational.hidden.sequential import SequentialHiddenPosterior

__all__ = ["hidden_posteriors", "joint_gaussian", "mixture_weights"]


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
    hidden = np.array(hidden_nodes(problem), dtype=np.intp)
    children = np.random.SeedSequence(seed).spawn(starts)
    found: list[HiddenPosterior] = []
    for k in range(starts):
        rng = np.random.default_rng(children[k // 2 * 2 if hidden.size else k])
        drawn = draw_coefficients(problem, rng)
        exchanged = (rng.random(hidden.size) < 0.5) ^ bool(k % 2)
        coefficients = relabelled(problem, drawn, hidden[exchanged].tolist())
        new = ascend_from(problem, begin_at(problem, coefficients, rng), tolerance, max_iterations)
        same = next((j for j, old in enumerate(found) if same_optimum(old.gaussians, new.gaussians)), None)
        if same is None:
            found.append(new)
        elif new.log_evidence > found[same].log_evidence:
            found[same] = new
    return sorted(found, key=lambda result: -result.log_evidence)


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

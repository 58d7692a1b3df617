r"""`conjugate_mean_field`: the best product of factors found for a conjugate network, and its bound on the evidence.

.. math:: \log p(\text{given}) \ge L(q) = \sum_v E_q [\log p(z_v \mid z_{pa(v)})] + \sum_{v\ \text{hidden}} H(q_v),

with :math:`q = \prod_v q_v` (the lecture notes' formulas 24 and 25).  The best factor given the others has as natural
parameters the sum of the messages of the node and its children (formula 28; Winn & Bishop 2005 call it variational
message passing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.conjugate.nodes import CategoricalFactor, Factors, Known, Node
from doxa.inference.mean_field.fit import Start, best_ascent, check_search
from doxa.inference.mean_field.problem import Ascending, kinds
from doxa.models.dag import Dag

__all__ = ["ConjugateMeanField", "ConjugateProblem", "conjugate_mean_field", "conjugate_problem"]


@dataclass(frozen=True, eq=False)
class ConjugateProblem(Ascending[Factors]):
    """Nodes and what was observed of them; made by `conjugate_problem`."""

    nodes: Mapping[str, Node]
    given: Mapping[str, Known]
    order: tuple[str, ...]  # of the hidden nodes, parents first
    children: Mapping[str, tuple[str, ...]]

    @property
    def is_exact(self) -> bool:
        """Whether no node joins two hidden ones, so that the best q is the posterior itself."""
        scopes = [{name, *node.parents} - set(self.given) for name, node in self.nodes.items()]
        return all(len(scope) < 2 for scope in scopes)

    def start(self, rng: np.random.Generator | None = None) -> dict[str, Any]:
        """A q to begin at: factors as their parents' means have them, or moved at random."""
        q: dict[str, Any] = dict(self.given)
        for name in self.order:
            node = self.nodes[name]
            missing = {p: self._blank(p) for p in (*node.parents, name) if p not in q}
            found = node.family.from_natural(node.message(name, name, q | missing), node.size)
            q[name] = found if rng is None else found.moved(rng)
        return q

    def natural(self, q: Factors, name: str) -> Floats:
        """Natural parameters of the best factor of a hidden node given the others."""
        messages = [self.nodes[name].message(name, name, q)]
        messages += [self.nodes[child].message(child, name, q) for child in self.children[name]]
        return np.asarray(sum(messages))

    def updated(self, q: Factors, name: str) -> dict[str, Any]:
        """q with the best factor of one hidden node: the bound does not decrease."""
        node = self.nodes[name]
        return {**q, name: node.family.from_natural(self.natural(q, name), node.size)}

    def step(self, q: Factors) -> tuple[dict[str, Any], float]:
        """One sweep, categorical nodes first: the new q, and the largest change of a mean relative to 1 + its size."""
        new = dict(q)
        # Centres that were drawn apart part the cases; cases that were drawn at random hardly part the centres.
        for name in sorted(self.order, key=lambda name: self.nodes[name].family is not CategoricalFactor):
            new = self.updated(new, name)
        changes = [np.abs(new[name].mean - q[name].mean) / (1 + np.abs(q[name].mean)) for name in self.order]
        return new, float(max((change.max() for change in changes), default=0.0))

    def _bound(self, q: Factors) -> tuple[float, float, float]:
        terms = [node.expected_log(name, q) for name, node in self.nodes.items()]
        entropies = [q[name].entropy for name in self.order]
        return sum(terms) + sum(entropies), float(np.abs(terms + entropies).sum()), sum(entropies)

    def _blank(self, name: str) -> Known:
        """What stands for a node that has no factor yet; a message to a node itself does not depend on it."""
        return Known(np.zeros(self.nodes[name].size))


def conjugate_problem(nodes: Mapping[str, Node], given: Mapping[str, ArrayLike]) -> ConjugateProblem:
    """Prepare a network for mean field.

    Parameters
    ----------
    nodes : mapping of str to Node
        `Normal`, `Gamma`, `Categorical` and `Mixture` nodes by name.
    given : mapping of str to array_like
        What was observed, by node: all elements of it.  The others are hidden.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a parent is no node, or of the wrong kind or size, nodes depend on themselves, or an observation does not
        fit its node.

    Examples
    --------
    >>> from doxa.inference.conjugate import Normal
    >>> nodes = {"level": Normal(0.0, 1.0), "seen": Normal(slopes={"level": [[1.0], [1.0]]})}
    >>> problem = conjugate_problem(nodes, {"seen": [1.0, 2.0]})
    >>> problem.updated(problem.start(), "level")["level"].mean
    array([1.])
    """
    if not isinstance(nodes, Mapping) or not isinstance(given, Mapping):
        raise ArgumentTypeError("nodes and given must be mappings by name: {'level': Normal(0.0, 1.0)}")
    for name, node in nodes.items():
        if not isinstance(node, Node):
            raise ArgumentTypeError(f"nodes[{name!r}] is {node!r}; give a Normal, Gamma, Categorical or Mixture")
        for parent in node.parents:
            if parent not in nodes:
                raise ArgumentError(f"{name!r} has the parent {parent!r}, which is no node; nodes are {list(nodes)}")
    dag = Dag.from_parents({name: node.parents for name, node in nodes.items()})
    for name, node in nodes.items():
        node.check_parents(name, nodes)
    for name in given:
        if name not in nodes:
            raise ArgumentError(f"given has {name!r}, which is no node; nodes are {list(nodes)}")
    known = {name: nodes[name].known(name, value) for name, value in given.items()}
    order = tuple(name for name in dag.topological_order() if name not in known)
    return ConjugateProblem(dict(nodes), known, order, {name: dag.children(name) for name in order})


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ConjugateMeanField:
    """An approximation of a posterior by a product of exponential families; made by `conjugate_mean_field`.

    Attributes
    ----------
    factors : mapping of str to GaussianFactor, GammaFactor or CategoricalFactor
        Of every hidden node, each with ``mean``, ``natural`` and ``entropy``; the fit itself is indexed by them too.
    log_evidence_bound : float
        Lower bound on the log density of what was observed, nats, of the best start.
    bounds : ndarray
        The bound at the best start's beginning and after each sweep; never decreasing.
    converged : bool
        Whether no mean changed by more than the tolerance in the last sweep of the best start.
    starts : tuple of Start
        All starts, in the order they were made.
    entropy : float
        Of q, nats.
    exact : bool
        Whether no node joins two hidden ones: q is the posterior, and the bound is the log evidence.
    """

    factors: Mapping[str, Any]
    log_evidence_bound: float
    bounds: NDArray[np.float64]
    converged: bool
    starts: tuple[Start, ...]
    entropy: float
    exact: bool

    def __getitem__(self, name: str) -> Any:
        """The factor of a hidden node."""
        return self.factors[name]

    def __repr__(self) -> str:
        sign, kind = ("=", "exact") if self.exact else (">=", "an approximation")
        state = "" if self.converged else f"; not converged in {len(self.bounds) - 1} sweeps"
        return f"<mean field, {kind}: log evidence {sign} {self.log_evidence_bound:.6g}{state}>"


def conjugate_mean_field(
    nodes: Mapping[str, Node],
    given: Mapping[str, ArrayLike],
    *,
    starts: int = 4,
    seed: int | None = None,
    tolerance: float = 1e-9,
    max_sweeps: int = 1000,
) -> ConjugateMeanField:
    r"""Approximate the posterior of a conjugate network by a product, by coordinate ascent on the bound.

    Parameters
    ----------
    nodes : mapping of str to Node
        `Normal`, `Gamma`, `Categorical` and `Mixture` nodes by name.
    given : mapping of str to array_like
        What was observed, by node; the others are hidden, each with one factor.
    starts : int, default=4
        Starts: the prior's means, then random draws about them.  The best bound is kept.
    seed : int, optional
        Of the starts.
    tolerance : float, default=1e-9
        A start has converged when no mean changed by more in a sweep, relative to 1 + its size.
    max_sweeps : int, default=1000
        Most sweeps of a start.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If nodes, observations or options are not as described.

    Notes
    -----
    Among products, q has the least :math:`KL(q \| p)`.  Between modes it settles in one, so that starts may end
    apart; its variances are too small as a rule, since what two nodes share is lost between their factors.

    Examples
    --------
    A linear regression with unknown precision:

    >>> from doxa.inference.conjugate import Gamma, Normal
    >>> nodes = {
    ...     "weights": Normal(precision=0.01, size=2),
    ...     "noise": Gamma(1.0, 1.0),
    ...     "y": Normal(slopes={"weights": [[1, -1], [1, 0], [1, 1], [1, 2]]}, precision="noise"),
    ... }
    >>> fit = conjugate_mean_field(nodes, {"y": [-1.1, 0.9, 3.1, 4.9]})
    >>> fit
    <mean field, an approximation: log evidence >= -10.0491>
    >>> fit["weights"].mean.round(2), fit["noise"].mean.round(2)
    (array([0.94, 2.02]), array([1.97]))
    """
    problem = conjugate_problem(nodes, given)
    n_starts = 1 if problem.is_exact else check_whole("starts", starts, 1)
    check_search(tolerance, max_sweeps)
    children = np.random.SeedSequence(seed).spawn(n_starts)
    begins = [
        (kind, problem.start(None if kind == "prior" else np.random.default_rng(child)))
        for kind, child in zip(kinds(n_starts, "prior"), children, strict=True)
    ]
    best, search = best_ascent(problem, begins, tolerance, max_sweeps)
    return ConjugateMeanField(
        factors={name: best.q[name] for name in problem.order},
        log_evidence_bound=search.pop("log_z_bound"),
        entropy=problem.entropy(best.q),
        exact=problem.is_exact,
        **search,
    )

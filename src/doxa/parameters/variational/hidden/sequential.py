r"""Variational posteriors of networks with hidden nodes and missing cells in one pass over the cases.

Jaakkola & Jordan 2000, eqs. 29 and 30 with appendix B; de Freitas et al. 2001, section 3.3.  Each case has a xi and a q
of its own, optimised against the Gaussians and Betas that the cases before it left, and then kept
(`doxa.parameters.variational.hidden.one_case`).  Each case's bounded likelihood is one that its Gaussians and Betas are
conjugate to, so by the chain rule the sum of the cases' bounds bounds the log evidence, whatever the xi and q.

Where the prior does not tell a hidden node's states apart, q stays uniform: a saddle in which the hidden node says
nothing.  So a pass may be led: in its first cases q is what given coefficients say, and not improved.  The bound holds
there too.  `sequential_hidden_posteriors` leads several passes by draws, as `hidden_posteriors` begins at them.

Corrected here are eqs. 7 and 8 of de Freitas et al., and the roots that they leave out; ``published=True`` has them as
printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.checks import check_positive, check_whole
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic import LogisticNetwork
from doxa.models.logistic_rows import ordered_regression
from doxa.parameters.variational.hidden.pass_layout import Family, Group, PassLayout, State, lay_out_pass
from doxa.parameters.variational.hidden.posterior import different_optima
from doxa.parameters.variational.hidden.problem import Form, HiddenProblem, Xi, check_form, hidden_problem
from doxa.parameters.variational.hidden.starts import (
    check_coefficients,
    check_rng,
    draw_coefficients,
    drawn_starts,
    predict_rest,
    sure,
)
from doxa.parameters.variational.sequential import CaseOrder, Order, order_cases, sequential_posterior
from doxa.parameters.variational.whitened import Whitened, conditioned, to_posterior
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["SequentialHiddenPosterior", "sequential_hidden_posterior", "sequential_hidden_posteriors"]

_SWEEPS = 3  # of q at given coefficients
_LED = 2  # cases that are led for each parameter


@dataclass(frozen=True, eq=False, repr=False)
class SequentialHiddenPosterior:
    """Gaussians and Betas that a single pass over the cases ends with.

    Attributes
    ----------
    gaussians : dict of str to GaussianPosterior
        Coefficients of every node with parents, independent between nodes.  Where no cell of a node's family is
        missing, it is that of `doxa.parameters.variational.sequential.sequential_posterior`, with a bound of its own.
    roots : dict of str to (float, float)
        Beta(a, b) of the probability of each learned root.
    log_evidence : float
        Lower bound (nats) of the log marginal likelihood of what the table observes: the sum of ``trace``.
    trace : ndarray of float, shape (n_cases,)
        Each case's bound, given the cases before it.
    converged : bool
        False if the limit of iterations ended the search for some case's xi and q; bounds hold all the same.
    order : CaseOrder
        The cases in the order in which they were taken, and whether chance chose it.
    network : LogisticNetwork
    form : str
    xi : str
    cells : ndarray of float, shape (n_cases, n_nodes)
        P(cell = 1) as each case was filled in, in that order: observed cells 0 and 1, NaN for a missing cell without
        observed descendants.

    Notes
    -----
    Standard deviations are too small, and one pass finds at most one mode.
    """

    gaussians: dict[str, GaussianPosterior]
    roots: dict[str, tuple[float, float]]
    log_evidence: float
    trace: Floats
    converged: bool
    order: CaseOrder
    network: LogisticNetwork
    form: Form
    xi: Xi
    cells: Floats = field(repr=False)

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """Node and coefficient, in the order in which `joint_gaussian` strings the coefficients."""
        return tuple((node, label) for node in self.gaussians for label in self.network.coefficients(node))

    def cell_probabilities(self) -> Floats:
        """``cells``, with missing cells that have no observed descendants predicted from their parents."""
        cells = self.cells.copy()
        predict_rest(cells, self.network.factors, self.gaussians, self.roots)
        return cells

    def __repr__(self) -> str:
        order = " in random order" if self.order.drawn else ""
        return (
            f"<SequentialHiddenPosterior: {len(self.trace)} cases{order}, {self.form} q, a xi for each {self.xi}, "
            f"lower bound {self.log_evidence:.4f}>"
        )


def sequential_hidden_posterior(
    network: LogisticNetwork,
    table: Table,
    *,
    form: Form = "unconstrained",
    xi: Xi = "configuration",
    group_size: int | None = None,
    order: Order = "auto",
    start: Mapping[str, ArrayLike] | None = None,
    led: int | None = None,
    published: bool = False,
    rng: np.random.Generator | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 1000,
) -> SequentialHiddenPosterior:
    r"""Variational posterior of a network with hidden nodes and missing cells, in one pass over the cases.

    Parameters
    ----------
    network : LogisticNetwork
    table : Table
        Missing cells are -1; nodes without a column are hidden.
    form : {"unconstrained", "structured", "mean_field"}, default="unconstrained"
    xi : {"configuration", "row"}, default="configuration"
        A variational parameter for each configuration of a family in each case; or, as in the papers, one for each
        family in each case, which is looser.
    group_size : int, optional
        As for `hidden_posterior`.
    order : {"auto", "table", "random"}, default="auto"
        Of the cases; see `doxa.parameters.variational.sequential.order_cases`.
    start : mapping of str to vector, optional
        Coefficients, and probabilities of learned roots, ``{node: vector}``, that lead the first cases.  Those that are
        left out are drawn.  Without it no case is led.
    led : int, optional
        How many cases with missing cells are led; by default two for each parameter, and at most half of them.
    published : bool, default=False
        Eqs. 7 and 8 of de Freitas et al. (2001) as printed, which lack the quadratic term and the law of the roots: q
        is then not the best, and the bound lower.  With ``form="mean_field"`` and ``xi="row"``.
    rng : numpy.random.Generator, optional
        For orders and starts that are drawn.  Without it the same numbers are drawn each time.
    tolerance : float, default=1e-9
        A case is done when no xi changes by more than this share, and no number of q by more than this.
    max_iterations : int, default=1000
        For each case.

    Returns
    -------
    SequentialHiddenPosterior
        Without missing cells, its Gaussians are those of `doxa.parameters.variational.sequential.sequential_posterior`.

    Raises
    ------
    ArgumentError
        If an option is out of range, q or the families need more than 2**20 numbers, or given probabilities of roots
        make a row impossible.
    TableError
        If a node's column has more than two states, no column is a node's, or the order is asked for and unknown.

    Examples
    --------
    >>> network = LogisticNetwork({"y": ["h", "x"]}, prior_mean=3.0, prior_scale=3.0, roots={"h": 0.6, "x": 0.5})
    >>> rows = [[0, 1], [1, 1], [1, 0], [0, 1], [1, 1], [0, 0]]
    >>> table = Table.from_codes(["x", "y"], [["0", "1"]] * 2, rows)
    >>> sequential_hidden_posterior(network, table)  # h is hidden
    <SequentialHiddenPosterior: 6 cases, unconstrained q, a xi for each configuration, lower bound -11.3988>
    """
    plan = _plan(network, table, form, xi, group_size, order, published, rng, tolerance, max_iterations)
    coefficients = None
    if start is not None:
        if not isinstance(start, Mapping):
            raise ArgumentTypeError(
                f"start is of type {type(start).__name__}; give a mapping of nodes to coefficients, such as "
                "{'heart': [0.0, 1.0]}"
            )
        checked = check_coefficients(network, start)
        coefficients = draw_coefficients(_problem_of_draws(network, table), plan.rng) | checked
    elif led is not None:
        raise ArgumentError(f"led is {led!r} but there is no start to lead cases by; give start, or leave led out")
    limit = None if led is None else check_whole("led", led, 0)
    return _run(plan, coefficients, limit)


def sequential_hidden_posteriors(
    network: LogisticNetwork,
    table: Table,
    *,
    starts: int = 8,
    seed: int | None = None,
    form: Form = "unconstrained",
    xi: Xi = "configuration",
    group_size: int | None = None,
    order: Order = "auto",
    tolerance: float = 1e-9,
    max_iterations: int = 1000,
) -> list[SequentialHiddenPosterior]:
    """What several passes find that are led by different draws of coefficients; the highest bound first.

    Parameters
    ----------
    network, table, form, xi, group_size, order, tolerance, max_iterations
        As for `sequential_hidden_posterior`; an order that is drawn is the same for all passes.
    starts : int, default=8
        Where nodes are hidden, draws come in pairs with hidden states exchanged, as in `hidden_posteriors`.
    seed : int, optional
        Of orders and draws.

    Returns
    -------
    list of SequentialHiddenPosterior
        Two that differ by less than a tenth of a standard deviation in every mean are one.  `joint_gaussian` and
        `mixture_weights` take them.

    Examples
    --------
    >>> network = LogisticNetwork({"b": ["a"], "c": ["a"]}, prior_scale=2.0)
    >>> rows = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [40, 10, 10, 40], axis=0)
    >>> rows = np.random.default_rng(1).permutation(rows)
    >>> table = Table.from_codes(["b", "c"], [["0", "1"]] * 2, rows)
    >>> fits = sequential_hidden_posteriors(network, table, starts=2, seed=1)
    >>> [bool(fit.gaussians["b"].mean[1] > 0) for fit in fits]  # a is hidden; its states exchanged
    [True, False]
    """
    starts = check_whole("starts", starts, 1)
    own, *children = np.random.SeedSequence(seed).spawn(starts + 1)
    rng = np.random.default_rng(own)
    plan = _plan(network, table, form, xi, group_size, order, False, rng, tolerance, max_iterations)
    if not any(group.nodes for group in plan.layout.groups):
        return [_run(plan, None, None)]
    problem = _problem_of_draws(network, table)
    return different_optima(_run(plan, coefficients, None) for coefficients, _ in drawn_starts(problem, children))


@dataclass(frozen=True)
class _Plan:
    """Arguments, checked, and the table laid out."""

    layout: PassLayout
    order: CaseOrder
    settled: dict[str, tuple[GaussianPosterior, NDArray[np.intp]]]  # with the places of its cases in the order
    form: Form
    xi: Xi
    published: bool
    rng: np.random.Generator
    tolerance: float
    most: int


def _plan(
    network: LogisticNetwork,
    table: Table,
    form: Form,
    xi: Xi,
    group_size: int | None,
    order: Order,
    published: bool,
    rng: np.random.Generator | None,
    tolerance: float,
    max_iterations: int,
) -> _Plan:
    if not isinstance(network, LogisticNetwork):
        raise ArgumentTypeError(f"network is of type {type(network).__name__}; it must be a LogisticNetwork")
    rng = check_rng(rng)
    size = check_form(form, xi, group_size)
    if published and (form, xi) != ("mean_field", "row"):
        raise ArgumentError(
            f"published is True but form is {form!r} and xi {xi!r}; the printed equations are of form='mean_field' and "
            "xi='row'"
        )
    check_positive("tolerance", tolerance)
    most = check_whole("max_iterations", max_iterations, 1)
    layout = lay_out_pass(network, table, size)
    cases = order_cases(table, order, rng)
    settled = {}
    for factor in layout.settled:
        codes = layout.codes[cases.rows][:, list(factor.scope)]
        places = np.flatnonzero((codes >= 0).all(axis=1))
        problem = ordered_regression(factor, codes, network.prior(factor.node))
        settled[factor.node] = (sequential_posterior(problem), places)
    return _Plan(layout, cases, settled, form, xi, published, rng, tolerance, most)


def _run(plan: _Plan, coefficients: Mapping[str, Floats] | None, led: int | None) -> SequentialHiddenPosterior:
    from doxa.parameters.variational.hidden.one_case import see_case  # compiled: imported where it is used

    layout = plan.layout
    state = layout.fresh_state()
    guide = None if coefficients is None else _guide(layout, coefficients)
    left = _n_led(plan, led) if guide is not None else 0
    trace = np.zeros(len(plan.order.rows))
    cells = np.where(layout.codes < 0, np.nan, layout.codes.astype(np.float64))[plan.order.rows]
    flat = [[_flat_q(group, case.log_given) for case in group.cases] for group in layout.groups]
    by_row, converged = plan.xi == "row", True
    for t, row in enumerate(plan.order.rows.tolist()):
        place = layout.places[row]
        total = place.log_given
        for root, value in place.roots:
            total += float(np.log(state.beta[root, value] / state.beta[root].sum()))
            state.beta[root, value] += 1
        lead = left > 0 and any(layout.groups[g].nodes for g, _ in place.groups)
        for g, local in place.groups:
            group = layout.groups[g]
            given, q = (group.shape, group.cases[local]), flat[g][local].copy()
            free = not (lead and group.nodes)
            if guide is not None and not free:
                see_case(*given, guide, q, True, False, (by_row, False, 0.0, _SWEEPS))
            rules = (by_row, plan.published, plan.tolerance, plan.most)
            log_bound, _, done = see_case(*given, state, q, free, True, rules)
            total += log_bound
            converged &= done
            for block, begin in zip(group.blocks, group.shape.block_at.tolist(), strict=False):
                cells[t, list(block.nodes)] = q[begin : begin + block.shape[1]] @ block.bits
        left -= lead
        trace[t] = total
    gaussians = {}
    for node, (gaussian, places) in plan.settled.items():
        trace[places] += gaussian.trace
        gaussians[node] = gaussian
    method = f"hidden variational in one pass ({plan.form} q)"
    for family in layout.families:
        gaussians[family.node] = _gaussian(family, state.weight, state.pull, method, converged, trace)
    network = layout.network
    betas = {node: (float(beta[1]), float(beta[0])) for node, beta in zip(layout.roots, state.beta, strict=True)}
    return SequentialHiddenPosterior(
        gaussians={node: gaussians[node] for node in network.names if node in gaussians},
        roots={node: betas[node] for node in network.names if node in betas},
        log_evidence=float(trace.sum()),
        trace=trace,
        converged=converged,
        order=plan.order,
        network=network,
        form=plan.form,
        xi=plan.xi,
        cells=cells,
    )


def _gaussian(
    family: Family, weights: Floats, pulls: Floats, method: str, converged: bool, trace: Floats
) -> GaussianPosterior:
    """Sum what each configuration taught afresh, which removes what rounding did on the way."""
    place = slice(family.first, family.first + len(family.configurations))
    weights, pulls = weights[place], pulls[place]
    rows = family.coordinates.rows(family.configurations[:, :-1])
    mean, factor = conditioned(rows[:, 1:], rows[:, 0], weights, pulls)
    whitened = Whitened(rows[:, 1:], rows[:, 0], weights, family.coordinates.prior_mean, family.coordinates.root)
    return to_posterior(
        whitened,
        mean,
        factor,
        method=method,
        log_evidence=np.nan,
        evidence_kind="lower bound",
        n_iterations=len(trace),
        converged=converged,
        trace=trace,
    )


def _flat_q(group: Group, log_given: Floats) -> Floats:
    """What is known of q before the data: the given roots' law, uniform where there is none."""
    q = np.empty(log_given.size)
    for begin, end in zip(group.shape.block_at[:-1].tolist(), group.shape.block_at[1:].tolist(), strict=True):
        weights = np.exp(log_given[begin:end] - log_given[begin:end].max())
        q[begin:end] = weights / weights.sum()
    return q


def _n_led(plan: _Plan, led: int | None) -> int:
    """Cases that are led."""
    if led is not None:
        return led
    layout = plan.layout
    incomplete = np.array([any(layout.groups[g].nodes for g, _ in place.groups) for place in layout.places])
    n_parameters = sum(family.coordinates.root.shape[0] for family in layout.families) + len(layout.roots)
    return int(min(_LED * n_parameters, incomplete[plan.order.rows].sum() // 2))


def _guide(layout: PassLayout, coefficients: Mapping[str, Floats]) -> State:
    """A state that is sure of given coefficients; roots that are not given are as the prior has them."""
    state = layout.fresh_state()
    state.covariance[:] = 0.0
    for k, family in enumerate(layout.families):
        first = state.mean_at[k]
        mean = family.coordinates.to_whitened(np.asarray(coefficients[family.node], dtype=np.float64))
        state.mean[first : first + mean.size] = mean
    for k, node in enumerate(layout.roots):
        if node in coefficients:
            fit = sure(coefficients[node])
            state.beta[k] = fit.zeros, fit.ones
    return state


def _problem_of_draws(network: LogisticNetwork, table: Table) -> HiddenProblem:
    """What coefficients are drawn from, in the form that costs least."""
    return hidden_problem(network, table, "mean_field", "row", None, 1e-10, 1)

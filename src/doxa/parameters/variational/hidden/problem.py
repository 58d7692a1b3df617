"""A network and a table made ready: what is settled at once, and the coupled rest as an `Ascent`.

A family or root without a missing cell has a posterior of its own (de Freitas et al. 2001, section 2 (i)); it is found
here, by `doxa.parameters.variational.batch`, and only its share of the bound takes part in what follows.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_positive, check_whole
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic import LogisticNetwork
from doxa.models.logistic_factors import LogisticFactor, RootFactor
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.models.logistic_rows import binary_codes
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.hidden.ascent import Ascent
from doxa.parameters.variational.hidden.blocks import lay_out
from doxa.parameters.variational.hidden.configurations import Bits, Component, complete_cases, components_of_table
from doxa.parameters.variational.hidden.families import Family, signs_of
from doxa.parameters.variational.hidden.instances import instances_of
from doxa.parameters.variational.hidden.roots import LearnedRoot, impossible_row, log_given_roots
from doxa.parameters.variational.hidden.rows import RowFamily
from doxa.parameters.variational.hidden.tables import TableFamily
from doxa.parameters.variational.whitened import Whitened
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["Form", "HiddenProblem", "Xi", "check_form", "hidden_problem"]

Form = Literal["unconstrained", "mean_field", "structured"]
Xi = Literal["configuration", "row"]
_Floats = NDArray[np.float64]
_GROUP_SIZE = 3


class HiddenProblem(NamedTuple):
    """A table under a network, for one form of q."""

    network: LogisticNetwork
    form: Form
    xi: Xi
    codes: Bits  # (n_distinct, n_nodes)
    components: list[Component]
    settled: dict[str, GaussianPosterior]  # of families without missing cells
    ascent: Ascent
    complete: list[Whitened]  # for each of the ascent's families, the rows in which it is complete


def hidden_problem(
    network: LogisticNetwork,
    table: Table,
    form: Form,
    xi: Xi,
    group_size: int | None,
    tolerance: float,
    max_iterations: int,
) -> HiddenProblem:
    """Check the arguments of `doxa.parameters.variational.hidden.hidden_posterior` and build what it ascents."""
    if not isinstance(network, LogisticNetwork):
        raise ArgumentTypeError(f"network is of type {type(network).__name__}; it must be a LogisticNetwork")
    size = check_form(form, xi, group_size)
    check_positive("tolerance", tolerance)
    max_iterations = check_whole("max_iterations", max_iterations, 1)
    codes, factors, names = binary_codes(table, network.names), network.factors, network.names
    components = components_of_table(factors, codes, table.counts)
    layout = lay_out(components, factors, names, size)
    coupled = {f for component in components for f in component.factors}
    kind = RowFamily if xi == "row" else TableFamily
    families: list[Family] = []
    roots: list[LearnedRoot] = []
    settled: dict[str, GaussianPosterior] = {}
    whole: list[Whitened] = []
    log_constant = 0.0
    for f, factor in enumerate(factors):
        complete, cases = complete_cases(factor, codes, table.counts)
        instances = instances_of(f, factor.scope, components, layout) if f in coupled else None
        if isinstance(factor, RootFactor):
            if factor.probabilities is None:
                roots.append(LearnedRoot(str(factor.node), complete, cases, instances))
            else:
                log_constant += _log_likelihood(factor, complete, cases, names)
        elif instances is not None:
            family = kind(factor, network.prior(factor.node), complete, cases, instances)
            rows = family.coordinates.rows(complete[:, :-1])
            whole.append(family.coordinates.whitened(rows, signs_of(complete[:, -1]), cases))
            families.append(family)
        else:
            problem = _regression(network, factor, complete, cases)
            settled[factor.node] = batch_posterior(problem, tolerance=tolerance, max_iterations=max_iterations)
            log_constant += settled[factor.node].log_evidence
    given = [factor for factor in factors if isinstance(factor, RootFactor)]
    ascent = Ascent(families, roots, layout, log_given_roots(given, components, layout, names), log_constant)
    return HiddenProblem(network, form, xi, codes, components, settled, ascent, whole)


def check_form(form: str, xi: str, group_size: int | None) -> int | None:
    """Largest block of cells; None for no limit."""
    if form not in ("unconstrained", "mean_field", "structured"):
        raise ArgumentError(f"form is {form!r}; it must be 'unconstrained', 'mean_field' or 'structured'")
    if xi not in ("configuration", "row"):
        raise ArgumentError(f"xi is {xi!r}; it must be 'configuration' or 'row'")
    if form == "structured":
        return _GROUP_SIZE if group_size is None else check_whole("group_size", group_size, 1, "; 1 is mean field")
    if group_size is not None:
        raise ArgumentError(f"group_size is {group_size!r} but form is {form!r}; only form='structured' has groups")
    return None if form == "unconstrained" else 1


def _log_likelihood(factor: RootFactor, complete: Bits, cases: _Floats, names: tuple[str, ...]) -> float:
    assert factor.probabilities is not None
    probabilities = factor.probabilities[tuple(complete.T)]
    if (probabilities == 0).any():
        raise impossible_row(factor, names)
    return float(cases @ np.log(probabilities))


def _regression(
    network: LogisticNetwork, factor: LogisticFactor, complete: Bits, cases: _Floats
) -> LogisticRegressionProblem:
    design, offset = factor.design(complete[:, :-1])
    return LogisticRegressionProblem(design, signs_of(complete[:, -1]), cases, offset, *network.prior(factor.node))

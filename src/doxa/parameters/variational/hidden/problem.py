r"""A network and a table made ready: what is settled at once, and the coupled rest as an `Ascent`.

A family or root without a missing cell has a posterior of its own (de Freitas et al. 2001, section 2 (i)); it is found
here, by `doxa.parameters.variational.batch`, and only its share of the bound takes part in what follows.

One xi for each configuration of a family, missing cells filled in: never a looser bound than one for each row.

The best xi of a configuration c, :math:`\xi_c^2 = E (o_c + \theta^T x_c)^2`, is the same in every row that c may have
come from.  So a family is its distinct configurations, :math:`n_c` expected cases each, and its Gaussian is that of
`doxa.parameters.variational.batch` for these; its term in the logarithm of q is the expected bound of each
configuration, averaged over the cells in other blocks.  (Jaakkola & Jordan 2000, below eq. 52, leave this form aside
for simplicity.)

One xi for each instance of a family: all that is needed of q is the mean and covariance of its rows.

With the extended row :math:`\tilde x = (o, x)` and :math:`\varphi = s(o + \theta^T x)`, the expected bound of a family
in one neighbourhood is (Jaakkola & Jordan 2000, eq. 51; de Freitas et al. 2001, eqs. 5 and 6)

.. math:: \log g(\xi) + (E\varphi - \xi)/2 - \lambda(\xi)(E\varphi^2 - \xi^2),

quadratic in theta: it adds :math:`2 n \lambda(\xi) E[x x^T]` to the precision (eq. 53) and :math:`n E[s x]/2 - 2 n
\lambda(\xi) E[o x]` to precision times mean (eq. 54, without offset).  Inside a block the moments are sums over its
configurations, between blocks they are products: :math:`E[x x^T] = \bar x \bar x^T + \sum_b \mathrm{Cov}_b(x)`.

For a configuration of one block, with the other cells at their means, D the extended row and s the child's value or its
mean, the family adds

.. math:: s\, \mu^T D / 2 - \lambda(\xi) [(\mu^T D)^2 + D^T \Sigma D]

to the logarithm of q (eq. 65).  In a block of one cell the difference of its two configurations is the update of mean
field; de Freitas et al.'s eq. 7 leaves out the factors of children, and eq. 8 the term with lambda, which is not zero.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Bits, Floats
from doxa.checks import check_positive, check_whole
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.logistic import LogisticNetwork
from doxa.models.logistic_factors import LogisticFactor, RootFactor
from doxa.models.logistic_options import GaussianPrior
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.models.logistic_rows import MAX_CONFIGURATIONS, binary_codes, distinct_rows
from doxa.parameters.variational import batch
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.bound import expected_log_bound, lambda_of
from doxa.parameters.variational.hidden.ascent import Ascent
from doxa.parameters.variational.hidden.blocks import (
    Component,
    Instances,
    Share,
    complete_cases,
    components_of_table,
    instances_of,
    lay_out,
)
from doxa.parameters.variational.hidden.families import (
    Coordinates,
    Family,
    FamilyFit,
    LearnedRoot,
    log_given_observed,
    log_given_roots,
    signs_of,
)
from doxa.parameters.variational.whitened import Whitened, conditioned, divergence, row_variances
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["Form", "HiddenProblem", "RowFamily", "TableFamily", "Xi", "check_form", "hidden_problem"]

_Number = TypeVar("_Number", np.float64, np.intp)


class _Part(NamedTuple):
    """A share with what its configurations mean for this family."""

    share: Share
    steps: Floats  # (n_entries, 1 + d), what the block's parents add to the row in which they are 0
    sign: Floats  # (n_entries,), of the child; 0 where it is not in the block
    has_child: NDArray[np.bool_]  # (n_entries,)

    def spread(self, values: NDArray[_Number]) -> NDArray[_Number]:
        """One value a block, repeated for its entries."""
        return np.repeat(values, self.share.sizes, axis=0)


class _Expected(NamedTuple):
    """Expected rows and signs, complete configurations first; and each part with its share in them."""

    rows: Floats  # (n_xi, 1 + d)
    sign: Floats  # (n_xi,)
    parts: list[tuple[_Part, NDArray[np.intp], Floats, Floats]]  # xi and probability of entries, mean step of blocks


class _Moments(NamedTuple):
    """Expected rows of q, and the spread about them as rows with probabilities."""

    rows: Floats  # (n_xi, 1 + d)
    sign: Floats  # (n_xi,), expected
    spread: Floats  # (n_entries, 1 + d), of mean zero in each block
    owner: NDArray[np.intp]  # (n_entries,), the xi that each belongs to
    probability: Floats  # (n_entries,)
    spread_sign: Floats  # (n_entries,), 0 where the child is not in the block

    def of_logit(self, mean: Floats, factor: Floats) -> tuple[Floats, Floats]:
        """Expectation of the signed logit and of its square, under q and the Gaussian."""
        centre = self.rows[:, 0] + self.rows[:, 1:] @ mean
        second = centre**2 + row_variances(self.rows[:, 1:], factor)
        centre *= self.sign
        if self.owner.size:
            away = self.spread[:, 0] + self.spread[:, 1:] @ mean
            squares = self.probability * (away**2 + row_variances(self.spread[:, 1:], factor))
            second += np.bincount(self.owner, weights=squares, minlength=second.size)
            products = self.probability * self.spread_sign * away
            centre += np.bincount(self.owner, weights=products, minlength=second.size)
        return centre, second


class RowFamily:
    """A family with a xi for each of its instances, and for each complete configuration."""

    def __init__(
        self, factor: LogisticFactor, prior: GaussianPrior, complete: Bits, cases: Floats, instances: Instances
    ) -> None:
        self.node = factor.node
        self.coordinates = Coordinates(factor, prior)
        codes = np.concatenate([complete, instances.codes])
        self._rows = self.coordinates.rows(np.maximum(codes[:, :-1], 0))  # missing parents at 0
        self._sign = signs_of(codes[:, -1])
        self._cases = np.concatenate([cases, instances.cases])
        self._n_complete = len(complete)
        self._parts = [None if share is None else self._part(share) for share in instances.shares]
        self.n_xi = self._cases.size

    def fit(self, xi: Floats, q: Floats) -> FamilyFit:
        """Best Gaussian at ``xi`` (n_xi,) and ``q``."""
        moments = self._moments(q)
        cases = np.concatenate([self._cases, self._cases[moments.owner] * moments.probability])
        rows = np.concatenate([moments.rows, moments.spread])
        sign = np.concatenate([moments.sign, moments.spread_sign])
        weights = 2 * cases * np.concatenate([slope := lambda_of(xi), slope[moments.owner]])
        mean, factor = conditioned(rows[:, 1:], rows[:, 0], weights, cases * sign / 2)
        centre, second = moments.of_logit(mean, factor)
        log_bound = float(self._cases @ expected_log_bound(centre, second, xi)) - divergence(mean, factor)
        return FamilyFit(mean, factor, log_bound, np.sqrt(second))

    def best_xi(self, mean: Floats, factor: Floats, q: Floats) -> Floats:
        """Best xi for any Gaussian, shape (n_xi,)."""
        return np.asarray(np.sqrt(self._moments(q).of_logit(mean, factor)[1]))

    def terms(self, mean: Floats, factor: Floats, xi: Floats, q: Floats) -> _RowTerms:
        """Terms of the logarithm of q at these; ``q`` is where it starts."""
        expected, n = self._expected(q), self._n_complete
        return _RowTerms(self._parts, expected.rows[n:], expected.sign[n:], mean, factor, lambda_of(xi[n:]))

    def _part(self, share: Share) -> _Part:
        sign = signs_of(share.bits[:, -1])
        return _Part(share, np.maximum(share.bits[:, :-1], 0) @ self.coordinates.step, sign, sign != 0)

    def _expected(self, q: Floats) -> _Expected:
        rows, sign = self._rows.copy(), self._sign.copy()
        parts = []
        for part in self._parts:
            if part is not None:
                owner = self._n_complete + part.share.instance
                probability = part.share.marginals(q)
                centre = part.share.totals(probability[:, None] * part.steps)
                rows[owner] += centre
                sign[owner] += part.share.totals(probability * part.sign)
                parts.append((part, part.spread(owner), probability, centre))
        return _Expected(rows, sign, parts)

    def _moments(self, q: Floats) -> _Moments:
        rows, sign, parts = self._expected(q)
        spread = np.concatenate([rows[:0], *(part.steps - part.spread(centre) for part, _, _, centre in parts)])
        owner = np.concatenate([np.empty(0, dtype=np.intp), *(owner for _, owner, _, _ in parts)])
        probability = np.concatenate([sign[:0], *(probability for _, _, probability, _ in parts)])
        return _Moments(rows, sign, spread, owner, probability, np.concatenate([sign[:0], *(p[0].sign for p in parts)]))


class _RowTerms:
    """What the family adds to the logarithm of q while blocks change one stage after another."""

    def __init__(
        self,
        parts: list[_Part | None],
        rows: Floats,
        sign: Floats,
        mean: Floats,
        factor: Floats,
        slope: Floats,
    ) -> None:
        self._parts, self._rows, self._sign = parts, rows, sign
        self._mean, self._factor, self._slope = mean, factor, slope

    def add(self, stage: int, q: Floats, logits: Floats) -> None:
        """Take the block's cells out of the mean rows, and put each of their configurations in."""
        part = self._parts[stage]
        if part is None:
            return
        share = part.share
        self._rows[share.instance] -= share.totals(share.marginals(q)[:, None] * part.steps)
        rows = part.spread(self._rows[share.instance]) + part.steps
        centre = rows[:, 0] + rows[:, 1:] @ self._mean
        square = centre**2 + row_variances(rows[:, 1:], self._factor)
        sign = np.where(part.has_child, part.sign, part.spread(self._sign[share.instance]))
        values = sign * centre / 2 - part.spread(self._slope[share.instance]) * square
        logits[share.position] += values[share.entry]

    def moved(self, stage: int, q: Floats) -> None:
        """Put the block's cells back, with their new probabilities."""
        part = self._parts[stage]
        if part is None:
            return
        share = part.share
        probability = share.marginals(q)
        self._rows[share.instance] += share.totals(probability[:, None] * part.steps)
        mine = part.has_child[share.first]
        self._sign[share.instance[mine]] = share.totals(probability * part.sign)[mine]


_Index = NDArray[np.intp]


class _Group(NamedTuple):
    """Instances whose missing cells are in the same stages, every configuration of these cells an entry."""

    stages: tuple[int, ...]
    bits: Bits  # (n_entries, n_scope)
    cases: Floats  # (n_entries,), of the instance
    marginal: _Index  # (n_entries, n_stages), places in the marginals of all shares


class TableFamily:
    """A family with a xi for each of its configurations."""

    def __init__(
        self, factor: LogisticFactor, prior: GaussianPrior, complete: Bits, cases: Floats, instances: Instances
    ) -> None:
        self.node = factor.node
        self.coordinates = Coordinates(factor, prior)
        self.shares = instances.shares
        sizes = [0 if share is None else len(share.bits) for share in self.shares]
        ends = np.cumsum(sizes, dtype=np.intp)
        self.stretches = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self._groups = _groups(instances, self.stretches, factor.node)
        blocks = [complete, *(group.bits for group in self._groups)]
        configurations, index = distinct_rows(np.concatenate(blocks))
        certain, *self._index = np.split(index.astype(np.intp), np.cumsum([len(bits) for bits in blocks])[:-1])
        self._cases = np.bincount(certain, weights=cases, minlength=len(configurations)).astype(np.float64)
        self._regression = self.coordinates.whitened(
            self.coordinates.rows(configurations[:, :-1]), signs_of(configurations[:, -1]), self._cases
        )
        self.n_xi = len(configurations)

    def marginals(self, q: Floats) -> Floats:
        """Marginals of all shares, one after another."""
        return np.concatenate([np.empty(0), *(share.marginals(q) for share in self.shares if share is not None)])

    def expected_cases(self, q: Floats) -> Floats:
        """Cases of each configuration, those that are certain included; shape (n_xi,)."""
        marginals = self.marginals(q)
        cases = self._cases.copy()
        for group, index in zip(self._groups, self._index, strict=True):
            probability = marginals[group.marginal].prod(axis=1)
            cases += np.bincount(index, weights=group.cases * probability, minlength=self.n_xi)
        return cases

    def averages(self, stage: int, values: Floats, marginals: Floats) -> Floats:
        """Values of configurations averaged over the cells in other stages, one for each entry of the share."""
        stretch = self.stretches[stage]
        total = np.zeros(stretch.stop - stretch.start)
        for group, index in zip(self._groups, self._index, strict=True):
            if stage in group.stages:
                j = group.stages.index(stage)
                others = np.delete(group.marginal, j, axis=1)
                terms = values[index] * marginals[others].prod(axis=1)
                total += np.bincount(group.marginal[:, j] - stretch.start, weights=terms, minlength=total.size)
        return total

    def fit(self, xi: Floats, q: Floats) -> FamilyFit:
        """Best Gaussian at ``xi`` (n_xi,) and ``q``."""
        state = batch.init(self._regression._replace(counts=self.expected_cases(q)), xi)
        return FamilyFit(state.mean, state.factor, state.log_bound, state.next_xi)

    def best_xi(self, mean: Floats, factor: Floats, q: Floats) -> Floats:  # noqa: ARG002
        """Best xi for any Gaussian, whatever q is; shape (n_xi,)."""
        return np.sqrt(self._moments(mean, factor)[1])

    def terms(self, mean: Floats, factor: Floats, xi: Floats, q: Floats) -> _TableTerms:
        """Terms of the logarithm of q at these; ``q`` is where it starts."""
        centre, second = self._moments(mean, factor)
        return _TableTerms(self, expected_log_bound(centre, second, xi), self.marginals(q))

    def _moments(self, mean: Floats, factor: Floats) -> tuple[Floats, Floats]:
        centre = self._regression.offset + self._regression.rows @ mean
        return centre, centre**2 + row_variances(self._regression.rows, factor)


class _TableTerms:
    """What the family adds to the logarithm of q while blocks change one stage after another."""

    def __init__(self, family: TableFamily, values: Floats, marginals: Floats) -> None:
        self._family, self._values, self._marginals = family, values, marginals

    def add(self, stage: int, q: Floats, logits: Floats) -> None:  # noqa: ARG002
        """Average the values over the cells of other blocks."""
        share = self._family.shares[stage]
        if share is not None:
            logits[share.position] += self._family.averages(stage, self._values, self._marginals)[share.entry]

    def moved(self, stage: int, q: Floats) -> None:
        """Use the new probabilities from now on."""
        share = self._family.shares[stage]
        if share is not None:
            self._marginals[self._family.stretches[stage]] = share.marginals(q)


def _groups(instances: Instances, stretches: list[slice], node: str) -> list[_Group]:
    n, n_stages = len(instances.codes), len(instances.shares)
    sizes, first = np.ones((n, n_stages), dtype=np.int64), np.zeros((n, n_stages), dtype=np.intp)
    for k, share in enumerate(instances.shares):
        if share is not None:
            sizes[share.instance, k], first[share.instance, k] = share.sizes, share.first
    n_entries = int(np.exp2(np.minimum(np.log2(sizes).sum(axis=1), 40)).sum())
    if n_entries > MAX_CONFIGURATIONS:
        raise ArgumentError(
            f"xi='configuration' needs {n_entries:,} configurations of the family of {node!r}, and the limit is "
            f"{MAX_CONFIGURATIONS:,}; xi='row' needs no more than its mean rows"
        )
    patterns, pattern = np.unique(sizes, axis=0, return_inverse=True)
    groups = []
    for g, lengths in enumerate(patterns):
        members = np.flatnonzero(pattern.ravel() == g)
        stages = tuple(np.flatnonzero(lengths > 1).tolist())
        size = int(lengths.prod())
        entry, stride = np.arange(size), 1
        bits = np.repeat(instances.codes[members], size, axis=0)
        marginal = np.empty((members.size * size, len(stages)), dtype=np.intp)
        for j, k in enumerate(stages):
            share = instances.shares[k]
            assert share is not None
            place = (first[members, k][:, None] + entry // stride % lengths[k]).ravel()
            stride *= int(lengths[k])
            bits = np.where(share.bits[place] < 0, bits, share.bits[place])
            marginal[:, j] = stretches[k].start + place
        groups.append(_Group(stages, bits, np.repeat(instances.cases[members], size), marginal))
    return groups


Form = Literal["unconstrained", "mean_field", "structured"]
Xi = Literal["configuration", "row"]
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
                log_constant += float(cases @ log_given_observed(factor, complete, names))
        elif instances is not None:
            family = kind(factor, network.prior(factor.node), complete, cases, instances)
            rows = family.coordinates.rows(complete[:, :-1])
            whole.append(family.coordinates.whitened(rows, signs_of(complete[:, -1]), cases))
            families.append(family)
        else:
            design, offset = factor.design(complete[:, :-1])
            sign, prior = signs_of(complete[:, -1]), network.prior(factor.node)
            problem = LogisticRegressionProblem(design, sign, cases, offset, *prior)
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

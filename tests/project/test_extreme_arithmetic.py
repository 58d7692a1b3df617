"""Scores, sums and eliminations on extreme tables, held against fifty digits and exact fractions.

Counts of 10^9 in one configuration, equivalent sample sizes from 1e-12 to 1e9, probabilities of 1e-300, a thousand
states.  The oracles share no code with doxa: `ln_gamma` is Stirling's series in decimal arithmetic, and sums over joint
states are made of fractions.
"""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import comb

import numpy as np
import pytest

import doxa
from doxa.structure.exact.dag_sums import log_sum_over_dags
from doxa.structure.families.counting import counting_scratch
from doxa.structure.families.scores import K2, BDeu, family_log_marginal, log_bdeu

DIGITS = 60
SIZES = [1e-12, 1e-6, 0.3, 1.0, 17.0, 1e9]
COUNTS = {
    "one configuration": [[10**9, 0]],
    "one case beside a billion": [[10**9, 1], [0, 1]],
    "all alike": [[10**9, 10**9], [10**9, 10**9]],
    "few": [[1, 0, 2], [0, 0, 0], [3, 1, 1]],
    "none": [[0, 0], [0, 0]],
    "from one to a trillion": [[1, 10**3], [10**6, 10**9], [10**12, 1]],
    "a thousand states": [list(range(1000))],
    "a thousand configurations": [[k % 3, (k * k) % 5] for k in range(1000)],
}


def bernoulli(n):
    """The Bernoulli numbers B_0 to B_n."""
    found = []
    for m in range(n + 1):
        found.append((m == 0) - sum(Fraction(comb(m, k)) * found[k] / (m - k + 1) for k in range(m)))
    return found


STIRLING = [(number / (k * (k - 1)), k) for k, number in enumerate(bernoulli(60)) if k >= 2 and not k % 2]
HALF_LOG_TWO_PI = Decimal(
    "0.918938533204672741780329736405617639861397473637783412817151540482765695927260397694743298636"
)


@cache
def ln_gamma(x):
    """Logarithm of the gamma function, by Stirling's series beyond 60."""
    product = Decimal(1)
    while x < 60:
        product *= x
        x += 1
    series = sum(Decimal(term.numerator) / Decimal(term.denominator) / x ** (k - 1) for term, k in STIRLING)
    return (x - Decimal("0.5")) * x.ln() - x + HALF_LOG_TWO_PI + series - product.ln()


def exact_bdeu(counts, size, prior=None):
    """The BDeu score in decimals, rounded at the end, and the sum of its terms' absolute values."""
    with localcontext() as context:
        context.prec = DIGITS
        q, r = len(counts), len(counts[0])
        of_cell = Decimal(size) / (q * r) if prior is None else Decimal(prior)
        cells = [ln_gamma(of_cell + n) - ln_gamma(of_cell) for row in counts for n in row if n]
        rows = [ln_gamma(of_cell * r + sum(row)) - ln_gamma(of_cell * r) for row in counts if sum(row)]
        return float(sum(cells) - sum(rows)), float(sum(map(abs, cells)) + sum(map(abs, rows)))


def test_the_oracle_knows_known_values():
    with localcontext() as context:
        context.prec = DIGITS
        assert abs(ln_gamma(Decimal("0.5")) - HALF_LOG_TWO_PI + Decimal(2).ln() / 2) < Decimal("1e-50")
        assert abs(ln_gamma(Decimal(11)) - Decimal(3628800).ln()) < Decimal("1e-50")
    value, _ = exact_bdeu([[3, 1], [0, 4]], 1.0)
    assert value == pytest.approx(log_bdeu([[3, 1], [0, 4]]), abs=1e-13)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", COUNTS)
def test_bdeu_on_extreme_counts(name, size):
    exact, magnitude = exact_bdeu(COUNTS[name], size)
    assert abs(log_bdeu(COUNTS[name], size) - exact) <= 1e-15 * magnitude + 1e-13


@pytest.mark.parametrize("score", [BDeu(1e-12), BDeu(1.0), BDeu(1e9), K2(1e-9), K2(1e6)], ids=str)
def test_compiled_scores_on_extreme_counts(score):
    """By the tables that chains use: a child, a parent, a billion rows in one configuration."""
    columns = np.array([[0, 0, 1, 1, 2], [0, 1, 0, 1, 1]], dtype=np.int16)
    cases, sizes = np.array([10**9, 1, 3, 10**6, 2]), np.array([3, 2])
    data, rule = (columns, cases, sizes), score.rule(int(cases.sum()))
    none, a = np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.uint64)
    weights = [
        family_log_marginal(child, parents, data, rule, counting_scratch(len(cases)))
        for child, parents in ((0, none), (1, a))
    ]
    prior = getattr(score, "prior_count", None)
    size = getattr(score, "equivalent_sample_size", 1.0)
    of_a, of_b = [[10**9 + 1, 10**6 + 3, 2]], [[10**9, 1], [3, 10**6], [0, 2]]
    for weight, counts in zip(weights, (of_a, of_b), strict=True):
        exact, magnitude = exact_bdeu(counts, size, prior)
        assert abs(weight - exact) <= 1e-15 * magnitude + 1e-12


def logarithm(fraction):
    """The natural logarithm of a fraction, however small."""
    with localcontext() as context:
        context.prec = DIGITS
        return float(Decimal(fraction.numerator).ln() - Decimal(fraction.denominator).ln())


def test_sums_over_graphs_of_extreme_weights():
    """Every graph on four nodes; weights of families from e^-600 to e^600, where a sum of doubles would overflow."""
    rng = np.random.default_rng(4)
    families = []
    for i in range(4):
        sets = [mask for mask in range(16) if not mask >> i & 1]
        families.append((sets, rng.integers(-600, 600, len(sets)).astype(float)))
    total = Fraction(0)
    for choice in itertools.product(*(range(8) for _ in range(4))):
        masks = [families[i][0][choice[i]] for i in range(4)]
        if acyclic(masks):
            with localcontext() as context:
                context.prec = DIGITS
                total += Fraction(Decimal(sum(families[i][1][choice[i]] for i in range(4))).exp())
    assert log_sum_over_dags(families) == pytest.approx(logarithm(total), abs=1e-9)


def acyclic(parents):
    left = set(range(len(parents)))
    while left:
        free = {node for node in left if not any(parents[node] >> other & 1 for other in left)}
        if not free:
            return False
        left -= free
    return True


TINY = [1e-300, 5e-324, 1e-17, 0.5, 1.0]


def network_of(rng, n=6):
    """A network of binary nodes whose tables hold probabilities of 1e-300, and its joint as fractions."""
    edges = [(f"x{i}", f"x{j}") for i in range(n) for j in range(i + 1, n) if rng.random() < 0.5] or [("x0", "x1")]
    dag = doxa.Dag.from_edges(edges, nodes=[f"x{k}" for k in range(n)])
    tables = {}
    for name in dag.names:
        shape = (2,) * len(dag.parents(name))
        low = np.array([TINY[int(k)] for k in rng.integers(0, len(TINY), int(np.prod(shape)))]).reshape(shape)
        tables[name] = np.stack([low, 1.0 - low], axis=-1)
    return doxa.CategoricalNetwork(dag, tables, {name: ["n", "y"] for name in dag.names})


def joint(network, values):
    product = Fraction(1)
    for name in network.names:
        place = (*(values[parent] for parent in network.dag.parents(name)), values[name])
        product *= Fraction(float(network.tables[name][place]))
    return product


@pytest.mark.parametrize("seed", range(8))
def test_elimination_with_probabilities_of_1e_300(seed):
    network = network_of(np.random.default_rng(seed))
    names = network.names
    given = {names[-1]: "n", names[-2]: "n"}
    sums = dict.fromkeys([(name, state) for name in names for state in range(2)], Fraction(0))
    for values in itertools.product(range(2), repeat=len(names)):
        at = dict(zip(names, values, strict=True))
        if any(at[name] != 0 for name in given):
            continue
        weight = joint(network, at)
        for name in names:
            sums[name, at[name]] += weight
    evidence = sums[names[0], 0] + sums[names[0], 1]
    if not evidence:
        with pytest.raises(doxa.DoxaError, match="probability"):
            doxa.infer(network, given=given, method="exact")
        return
    found = doxa.infer(network, given=given, method="exact")
    for name in names:
        if name in given:
            continue
        for state, label in enumerate("ny"):
            exact = float(sums[name, state] / evidence)
            assert found[name][label].value == pytest.approx(exact, rel=1e-10, abs=1e-307)


def test_log_partition_far_below_the_least_double():
    """Forty factors of 1e-300: the sum is some e^-27631."""
    n = 41
    names = [f"x{k}" for k in range(n)]
    rng = np.random.default_rng(1)
    factors = [([names[k], names[k + 1]], rng.integers(1, 9, (2, 2)) * 1e-300) for k in range(n - 1)]
    network = doxa.MarkovNetwork({name: ["n", "y"] for name in names}, [(two, np.log(table)) for two, table in factors])
    message = [Fraction(1), Fraction(1)]
    for _, table in factors:
        message = [sum(message[i] * Fraction(float(table[i, j])) for i in range(2)) for j in range(2)]
    assert doxa.log_partition(network, method="exact").value == pytest.approx(logarithm(sum(message)), rel=1e-13)


def test_the_checks_can_fail():
    """The twin: a plain difference of log gammas loses digits where the prior weighs much more than the cases."""
    from scipy.special import gammaln

    counts, size = COUNTS["few"], 1e9
    table = np.array(counts, dtype=float)
    cell, row = size / table.size, size / len(table)
    naive = (gammaln(cell + table) - gammaln(cell)).sum() - (gammaln(row + table.sum(1)) - gammaln(row)).sum()
    exact, magnitude = exact_bdeu(counts, size)
    assert abs(log_bdeu(counts, size) - exact) <= 1e-15 * magnitude + 1e-13
    assert abs(naive - exact) > 1000 * (1e-15 * magnitude + 1e-13)

"""Terms of one family with numbers: intercepts, slopes, scatter and log odds, in the units of the columns.

Read off closed forms where they are known (`doxa.structure.families.gaussian.parameters`), else off draws; for one
graph (`doxa.structure.averaging.given_numbers`), and here for the probable parent sets of a node, as
`doxa.structure.averaging.parent_tables` does for tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.estimate import check_prob
from doxa.models.gaussian import LogOdds, Regression
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.averaging.parent_tables import probable_parents
from doxa.structure.averaging.questions import column_of
from doxa.structure.families.additive.parameters import MixtureFamily

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.families.kind import FamilyKind
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["Spread", "Term", "closed_form", "drawn_terms", "parent_regressions", "spread_of", "terms_of"]

Family = tuple[int, tuple[int, ...]]


class Spread(NamedTuple):
    """Posterior of every term of a family, shape (n_terms, states of parents..., states - 1 of a category)."""

    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats


class Term(NamedTuple):
    """One term of a family, and where it stands in `Spread`."""

    given: tuple[str, ...]  # states of the parents that are categories
    state: str  # whose log odds against the first; "" of a number
    name: str
    cases: float  # rows of this configuration of the parents
    place: tuple[int, ...]


def closed_form(draws: GaussianDraws, family: Family) -> Any:
    """The family's parameters where terms have a distribution in closed form; None where they are to be drawn."""
    if not draws.is_number[family[0]] or not draws.is_complete(family):
        return None
    whole = draws.whole_family(family)
    return None if isinstance(whole, MixtureFamily) else whole


def drawn_terms(draws: GaussianDraws, family: Family) -> Floats:
    """Draws of the terms, shape (n_draws, ...), as of `Spread`."""
    made = draws.in_units(family, list(draws.family_draws(family)))
    assert isinstance(made, (Regression, LogOdds))
    parts = [made.intercept, *np.moveaxis(made.coefficients, -1, 0)]
    return np.stack([*parts, made.sd] if isinstance(made, Regression) else parts, axis=1)


def spread_of(draws: GaussianDraws, family: Family, known: Any, prob: float) -> Spread:
    """Means, standard deviations and credible intervals; ``known`` is what `closed_form` found."""
    if known is None:
        drawn, tail = drawn_terms(draws, family), (1 - prob) / 2
        lower, upper = np.quantile(drawn, [tail, 1 - tail], axis=0)
        return Spread(drawn.mean(axis=0), drawn.std(axis=0, ddof=1), lower, upper)
    node, parents = family
    scaling, on = draws.scaling, [p for p in parents if draws.is_number[p]]
    scale, centre = float(scaling.scale[node]), float(scaling.centre[node])
    weights = np.diag([scale, *(scale / scaling.scale[on])])
    weights[0, 1:] = -scale / scaling.scale[on] * scaling.centre[on]
    lines, sd = known.linear(weights, prob), known.scatter(prob)
    moved = np.zeros_like(lines.mean)
    moved[0] = centre
    ends = (lines.mean + moved, lines.sd, lines.lower + moved, lines.upper + moved)
    return Spread(*(np.concatenate([a, scale * b[None]]) for a, b in zip(ends, sd, strict=True)))


def terms_of(draws: GaussianDraws, family: Family) -> Iterator[Term]:
    """The terms of a family, configuration by configuration."""
    node, parents = family
    above, on = ([p for p in parents if draws.is_number[p] == one] for one in (False, True))
    is_number = bool(draws.is_number[node])
    names = ["intercept", *(draws.names[p] for p in on), *(["sd"] if is_number else [])]
    cases = draws.cases_of(above)
    states = ("",) if is_number else draws.states[node][1:]
    for k, given in enumerate(product(*(range(draws.n_states[p]) for p in above))):
        labels = tuple(draws.states[p][code] for p, code in zip(above, given, strict=True))
        for s, state in enumerate(states):
            for t, name in enumerate(names):
                yield Term(labels, state, name, float(cases[k]), (t, *given) if is_number else (t, *given, s))


def parent_regressions(
    posterior: StructurePosterior,
    table: Table,
    node: str,
    most: int = 5,
    *,
    prob: float = 0.95,
    prior: FamilyKind | None = None,
) -> pd.DataFrame:
    """The probable parent sets of a node, each with its regression: posterior means and credible intervals.

    Parameters
    ----------
    posterior : StructurePosterior
    table : Table
        The table that it was learned from.
    node : str
        A column of numbers, or a category with parents that are numbers.
    most : int, default=5
        Parent sets.
    prob : float, default=0.95
        Of the credible intervals.
    prior : FamilyKind, optional
        Of the parameters; that of the score when left out.

    Returns
    -------
    pandas.DataFrame
        Columns ``parents`` (a tuple), ``probability, mcse`` (of the parent set, as `StructurePosterior.parent_sets`),
        ``given`` (states of the parents that are categories, a tuple), ``state`` (of a category: whose log odds against
        its first state; else empty), ``term`` (``"intercept"``, a parent that is a number, or ``"sd"``, the standard
        deviation about the line), ``mean, sd, lower, upper``: given that these are its parents, with the spread of the
        posterior, in units of the columns; ``cases``: rows of this configuration.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the column is unknown or none of its probable parent sets has a regression, or a number is out of range.

    Examples
    --------
    >>> import doxa
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"age": rng.normal(50, 10, 200)})
    >>> frame["pressure"] = 80 + 0.7 * frame["age"] + rng.normal(0, 8, 200)
    >>> found = doxa.learn(frame, seed=1).parent_regressions("pressure", most=1)
    >>> found[["parents", "term", "mean", "sd"]].round(1)
      parents       term  mean  sd
    0  (age,)  intercept  77.8 2.7
    1  (age,)        age   0.7 0.1
    2  (age,)         sd   7.1 0.4
    """
    from doxa.frames import ReadFrame

    child = column_of("node", node, table.names)
    check_prob(prob)
    draws = draw_networks(posterior, table, None, prior=prior)
    if not isinstance(draws, GaussianDraws):
        raise ArgumentError(f"no column holds numbers, so {node!r} has tables and no regressions; take parent_tables")
    rows: list[list[Any]] = []
    for names, parents, probability, mcse in probable_parents(posterior, draws, node, most):
        family = child, parents
        if not draws.is_number[[child, *parents]].any():
            continue  # it has a table (`parent_tables`)
        spread = spread_of(draws, family, closed_form(draws, family), prob)
        for term in terms_of(draws, family):
            own = (part[term.place] for part in spread)
            rows.append([names, probability, mcse, term.given, term.state, term.name, *own, term.cases])
    if not rows:
        raise ArgumentError(f"no probable parent set of {node!r} has numbers, so it has tables; take parent_tables")
    columns = ["parents", "probability", "mcse", "given", "state", "term", *Spread._fields, "cases"]
    return ReadFrame(rows, columns=columns)

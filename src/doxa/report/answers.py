"""Answers to try on the page, packed: three characters for a probability and its error.

For every pair of columns y and x, P(y | x) and P(y | do(x)); of tables with many columns, the pairs that tell most of
each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.report.numbers import decimals
from doxa.report.packing import DIGITS
from doxa.report.simulation import PairAnswers, simulate_pairs

if TYPE_CHECKING:
    from doxa.structure.averaging.draws import NetworkDraws

__all__ = ["ERROR_STEPS", "MOST_ANSWERS", "pair_answers"]

MOST_ANSWERS = 16_000  # probabilities of one kind: 48 kB
_MOST_STATES = 1000  # of all columns together, whose pairs are counted
_NONE = len(DIGITS) ** 2 - 1
ERROR_STEPS = np.round(1e-4 * 1.13 ** np.arange(len(DIGITS)), 6)  # an error is packed as the next step above it

Floats = NDArray[np.float64]


def pair_answers(draws: NetworkDraws) -> dict[str, Any]:
    """Answers, packed; or ``why`` there are none.

    Returns
    -------
    dict
        ``pairs``: y * n_nodes + x of the pairs of columns, in order; ``seen`` and ``done``: text with three characters
        for each state of y and each of x, pair after pair, y by y, first P (two digits of base 64, in 1/4000; the
        largest number for none), then the place of its error among ``steps``.
    """
    n_states = sum(draws.n_states)
    if n_states > _MOST_STATES:
        return {"why": f"The columns have {n_states} states, too many for simulated answers: ask posterior.query."}
    seen = simulate_pairs(draws)
    done = simulate_pairs(draws, intervene=True)
    pairs = _chosen_pairs(seen)
    return {
        "why": "",
        "all": len(pairs) == len(draws.names) * (len(draws.names) - 1),
        "pairs": [y * len(draws.names) + x for y, x in pairs],
        "steps": ERROR_STEPS.tolist(),
        "networks": seen.n_networks,
        "rows": seen.n_rows,
        "marginal": decimals(np.diagonal(seen.joint), 4),
        "seen": _packed(seen, pairs),
        "done": _packed(done, pairs),
    }


def _chosen_pairs(seen: PairAnswers) -> list[tuple[int, int]]:
    """Pairs (y, x), the most informative first as far as there is room; in the order of the columns."""
    information = _mutual_information(seen)
    sizes = np.diff(seen.starts)
    size = np.outer(sizes, sizes)
    y, x = np.triu_indices(len(sizes), 1)
    order = np.argsort(-np.round(information[y, x], 12), kind="stable")
    room = np.cumsum(2 * size[y[order], x[order]]) <= MOST_ANSWERS
    kept = [(int(y[k]), int(x[k])) for k in order[room]]
    return sorted(kept + [(b, a) for a, b in kept])


def _mutual_information(seen: PairAnswers) -> Floats:
    """Of all pairs of columns, nats."""
    share = np.diagonal(seen.joint)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(seen.joint > 0, seen.joint * np.log(seen.joint / np.outer(share, share)), 0.0)
    summed = np.add.reduceat(np.add.reduceat(terms, seen.starts[:-1], axis=0), seen.starts[:-1], axis=1)
    return np.asarray(summed)


def _packed(answers: PairAnswers, pairs: list[tuple[int, int]]) -> str:
    unknown = np.isnan(answers.probability)
    p = np.where(unknown, _NONE, np.round(np.nan_to_num(answers.probability) * 4000)).astype(np.int64)
    step = np.searchsorted(ERROR_STEPS, np.nan_to_num(answers.mcse)).clip(0, len(DIGITS) - 1)
    digits = np.array(list(DIGITS))
    cells = np.char.add(np.char.add(digits[p // 64], digits[p % 64]), digits[step])
    begin = answers.starts
    return "".join("".join(cells[begin[y] : begin[y + 1], begin[x] : begin[x + 1]].ravel()) for y, x in pairs)

"""What a page about a posterior over graphs shows: facts, evidence on convergence, and what the inspector shows.

The inspector has of every node its parent sets with their parameters, its Markov blanket, missing cells, and answers to
try: for every pair of columns y and x, P(y | x) and P(y | do(x)), packed in three characters each with their errors; of
tables with many columns, of the pairs that tell most of each other.  All of it as far as there is room.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data.slices import past_name
from doxa.errors import DoxaError
from doxa.estimates.gelman_rubin import rank_shares
from doxa.report.graphs import NOT_DRAWN, by_rank, family_tables, graphs
from doxa.report.numbers import DIGITS, closing_facts, decimal, decimals, diagnosis, rounded, significant, verdict_box
from doxa.report.simulation import PairAnswers, simulate_pairs
from doxa.structure.averaging.answers import mean_over_draws
from doxa.structure.averaging.effects import ASSUMPTIONS
from doxa.structure.averaging.impute import cell_state_probabilities
from doxa.structure.posterior.summary import cap_text, prior_text, tempering_cost
from doxa.text import counted, duration, printable

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.averaging.draws import NetworkDraws
    from doxa.structure.posterior.structure_posterior import StructurePosterior

MOST_COEFFICIENTS = 3000  # of all nodes together
_MOST_FAMILIES = 2  # of a node
_MOST_OF_ONE_REGRESSIONS = 40
_DRAWS = 2000
_LEAST_DRAWS = 200  # of a regression, where the family may be a table
_ENDS = (0.025, 0.975)


def regressions(draws: NetworkDraws, sets: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]] | None:
    """Of every node, its most probable parent sets as logistic regressions; None where all families are tables.

    A family has ``parents``; posterior ``mean``, ``low`` and ``high`` of the bias and of the coefficient of each
    parent, counted as -1 and +1, or ``why`` there are none; ``share``, the probability that it is a regression and no
    table, or None where that was not open.
    """
    if not draws.prior.has_coefficients:
        return None
    found: list[list[dict[str, Any]]] = [[] for _ in draws.names]
    room = MOST_COEFFICIENTS
    for node, parents in by_rank(sets, _MOST_FAMILIES):
        size = len(parents) + 1
        if (node, parents) not in draws.users:
            entry: dict[str, Any] = {"why": NOT_DRAWN}
        elif size > min(_MOST_OF_ONE_REGRESSIONS, room):
            entry = {"why": f"{size} coefficients have no room on this page"}
        else:
            entry = _regression(draws, node, parents)
            room -= size if "mean" in entry else 0
        found[node].append({"parents": list(parents), **entry})
    return found


def _regression(draws: NetworkDraws, node: int, parents: tuple[int, ...]) -> dict[str, Any]:
    family = draws.parameters_of((node, parents))
    share = family.logistic_probability
    if share == 0:
        return {"why": "it can only be a table: not all of its columns have two states"}
    drawn = family.coefficients(_DRAWS)
    drawn = drawn[~np.isnan(drawn[:, 0])]
    if len(drawn) < _LEAST_DRAWS:
        return {"why": f"it is a table with probability {1 - share:.3f}"}
    low, high = np.quantile(drawn, _ENDS, axis=0)
    return {
        "share": None if share == 1 else decimal(min(max(share, 1e-4), 0.9999), 4),  # sure it never is
        "mean": decimals(drawn.mean(axis=0), 3),
        "low": decimals(low, 3),
        "high": decimals(high, 3),
    }


MOST_ANSWERS = 16_000  # probabilities of one kind: 48 kB
_MOST_STATES = 1000  # of all columns together, whose pairs are counted
_NONE = len(DIGITS) ** 2 - 1
ERROR_STEPS = np.round(1e-4 * 1.13 ** np.arange(len(DIGITS)), 6)  # an error is packed as the next step above it


def pair_answers(draws: NetworkDraws) -> dict[str, Any]:
    """Answers, packed; or ``why`` there are none.

    ``pairs``: y * n_nodes + x of the pairs of columns, in order.  ``seen`` and ``done``: text with three characters for
    each state of y and each of x, pair after pair, y by y, first P (two digits of base 64, in 1/4000; the largest
    number for none), then the place of its error among ``steps``.
    """
    n_states = sum(draws.n_states)
    if n_states > _MOST_STATES:
        return {"why": f"The columns have {n_states} states, too many for simulated answers: ask posterior.query."}
    seen, done = simulate_pairs(draws), simulate_pairs(draws, intervene=True)
    return packed_pairs(len(draws.names), seen, done, np.diagonal(seen.joint), MOST_ANSWERS)


def packed_pairs(n_nodes: int, seen: PairAnswers, done: PairAnswers, marginal: Floats, most: int) -> dict[str, Any]:
    """What `pair_answers` gives, of simulations with x seen and set; ``most`` answers of each kind have room."""
    size = np.outer(np.diff(seen.starts), np.diff(seen.x_starts))
    pairs = chosen_pairs(mutual_information(seen), size, most)
    return {
        "why": "",
        "all": len(pairs) == n_nodes * (n_nodes - 1),
        "pairs": [y * n_nodes + x for y, x in pairs],
        "steps": ERROR_STEPS.tolist(),
        "networks": seen.n_networks,
        "rows": seen.n_rows,
        "marginal": decimals(marginal, 4),
        "seen": packed_answers(seen, pairs),
        "done": packed_answers(done, pairs),
    }


def chosen_pairs(information: Floats, size: NDArray[np.integer], most: int) -> list[tuple[int, int]]:
    """Pairs (y, x), the most informative first as far as there is room for ``most`` answers; in the order of the
    columns.
    """
    y, x = np.triu_indices(len(size), 1)
    order = np.argsort(-np.round(information[y, x], 12), kind="stable")
    room = np.cumsum((size + size.T)[y[order], x[order]]) <= most
    kept = [(int(y[k]), int(x[k])) for k in order[room]]
    return sorted(kept + [(b, a) for a, b in kept])


def mutual_information(found: PairAnswers) -> Floats:
    """Of all pairs of columns, nats, from the shares of rows in their cells."""
    joint, y_starts, x_starts = found.joint, found.starts, found.x_starts
    by_y = np.add.reduceat(joint, x_starts[:-1], axis=1)[:, :1]  # the same of every x
    by_x = np.add.reduceat(joint, y_starts[:-1], axis=0)[:1]
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(joint / (by_y * by_x)), 0.0)
    summed = np.add.reduceat(np.add.reduceat(terms, y_starts[:-1], axis=0), x_starts[:-1], axis=1)
    return np.asarray(summed)


def packed_answers(found: PairAnswers, pairs: list[tuple[int, int]]) -> str:
    """Three characters for each probability and its error: see `pair_answers`."""
    unknown, y_starts, x_starts = np.isnan(found.probability), found.starts, found.x_starts
    p = np.where(unknown, _NONE, np.round(np.nan_to_num(found.probability) * 4000)).astype(np.int64)
    step = np.searchsorted(ERROR_STEPS, np.nan_to_num(found.mcse)).clip(0, len(DIGITS) - 1)
    digits = np.array(list(DIGITS))
    cells = np.char.add(np.char.add(digits[p // 64], digits[p % 64]), digits[step])
    own = (cells[y_starts[y] : y_starts[y + 1], x_starts[x] : x_starts[x + 1]] for y, x in pairs)
    return "".join("".join(block.ravel()) for block in own)


MOST_CELLS = 1000  # of all columns together
_MOST_OF_ONE = 200  # cells of one column


def imputed_cells(draws: NetworkDraws) -> dict[str, Any]:
    """The missing cells, column by column, or ``why`` there are none to show.

    ``columns`` has for each node ``n`` missing cells, the first ``rows`` of them (of the source, from 0), ``p``, a list
    of probabilities for each, and ``mcse``, the largest Monte Carlo error of these.
    """
    completed = draws.completed
    if not completed.table.n_missing:
        return {"why": "", "columns": []}
    if not completed.table.has_row_order:
        return {"why": "The rows of the table were counted where they are, so that cells have no place.", "columns": []}
    missing_cells = [np.flatnonzero(column >= 0) for column in completed.missing_cell_of.T]
    most = min(_MOST_OF_ONE, max(1, MOST_CELLS // sum(rows.size > 0 for rows in missing_cells)))
    return {"why": "", "columns": [_column(draws, j, rows, most) for j, rows in enumerate(missing_cells)]}


def _column(draws: NetworkDraws, j: int, rows: NDArray[np.intp], most: int) -> dict[str, Any]:
    if not rows.size:
        return {"n": 0, "rows": [], "p": [], "mcse": None}
    source = draws.completed.source_row[rows]
    first = np.argsort(source, kind="stable")[:most]
    probabilities = cell_state_probabilities(draws, j, rows[first])
    means = mean_over_draws(probabilities.reshape(*draws.shape, -1), draws.reference_ess)
    p = means.value[:-1].reshape(len(first), -1)
    return {
        "n": int(rows.size),
        "rows": source[first].tolist(),
        "p": [decimals(row, 3) for row in p],
        "mcse": rounded(means.errors[:-1].max(), 2),
    }


_MOST_SETS = 6  # parent sets of a node
_MOST_MEMBERS = 12  # of a Markov blanket
_LEAST_MEMBER = 0.01
_ROOM_FOR_SETS = 1500  # parent sets of all nodes together


def inspection(posterior: StructurePosterior) -> dict[str, Any]:
    """All that the inspector shows; ``missing`` says why there are no tables and no answers, if there are none."""
    sets = _parent_sets(posterior)
    found: dict[str, Any] = {"sets": sets, "blankets": _blankets(posterior), "missing": ""}
    draws, why = _networks(posterior)
    if draws is None:
        return found | {"missing": why}
    found["effects"] = effects(posterior, draws)
    if draws.completed.table.moments is not None:
        return found | {"missing": "The rows of the table were not held, but their moments: ask posterior.query."}
    if posterior.options.numbers and posterior.options.order is not None:
        return found | {"missing": f"{_IN_TIME}."}
    if posterior.options.numbers:
        from doxa.report.of_numbers import inspection_of_numbers

        return found | inspection_of_numbers(posterior, draws)
    return found | {
        "states": [list(states) for states in draws.states],
        "tables": family_tables(draws, sets),
        "regressions": regressions(draws, sets),
        **_cells_and_answers(posterior, draws),
    }


_IN_TIME = "Rows are moments in time: ask posterior.forecast, posterior.effect and posterior.impute"


def _cells_and_answers(posterior: StructurePosterior, draws: NetworkDraws) -> dict[str, Any]:
    if posterior.options.order is not None:
        return {"cells": {"why": f"{_IN_TIME}.", "columns": []}, "answers": {"why": f"{_IN_TIME}."}}
    return {"cells": imputed_cells(draws), "answers": pair_answers(draws)}


_MOST_EFFECTS = 60
_MOST_COLUMNS, _MOST_MIXED = 40, 12  # of tables of one kind, and of categories and numbers, whose effects are found
_NETWORKS = 200  # that are asked for effects


def effects(posterior: Any, draws: NetworkDraws) -> dict[str, Any]:
    """The surest causal effects and what they rest on, or ``why`` there are none.

    A row has the column that is set, the column on which the effect is, its state (None of a number), the mean, the
    ends of the 95% credible interval and the probability that there is none; ``levels`` has of each column from what to
    what it is set.
    """
    is_number = draws.completed.table.is_number
    most = _MOST_MIXED if is_number.any() and not is_number.all() else _MOST_COLUMNS
    if len(draws.names) > most:
        return {"why": f"{len(draws.names)} columns have too many effects for this page: ask posterior.effects."}
    try:
        frame = posterior.effects(networks=_NETWORKS)
    except DoxaError as error:
        return {"why": f"Networks could not be asked for effects: {error}."}
    rows: list[list[Any]] = []
    levels: dict[int, list[str]] = {}
    place = {name: k for k, name in enumerate(draws.names)}
    for row in frame.itertuples(index=False):
        ends = [f"{level:.4g}" if isinstance(level, float) else level for level in row[1:3]]
        of = past_name(row.of, int(getattr(row, "lag", 0)))
        levels[place[of]] = [printable(end) for end in ends]
        if len(rows) < _MOST_EFFECTS:
            state = printable(row.state) if isinstance(row.state, str) else None
            numbers = significant([row.effect, row.lower, row.upper], 2)
            rows.append([place[of], place[row.on], state, *numbers, *decimals([row.no_effect], 2)])
    return {
        "why": "",
        "assumes": ASSUMPTIONS,
        "rows": rows,
        "levels": [levels.get(j, ["", ""]) for j in range(len(draws.names))],
    }


def _networks(posterior: StructurePosterior) -> tuple[NetworkDraws | None, str]:
    """The networks that tables and answers come from, or why there are none."""
    from doxa.structure.averaging.posterior import Posterior

    if not isinstance(posterior, Posterior):
        return None, "This posterior is over graphs alone and knows no table."
    try:
        return posterior.network_draws(), ""
    except (DoxaError, OSError) as error:
        return None, f"The table of this posterior could not be used: {error}."


def _parent_sets(posterior: StructurePosterior) -> list[list[dict[str, Any]]]:
    """Of every node, its probable parent sets."""
    position = {name: k for k, name in enumerate(posterior.names)}
    most = max(2, min(_MOST_SETS, _ROOM_FOR_SETS // len(posterior.names)))
    found = []
    for name in posterior.names:
        frame = posterior.parent_sets(name, most)
        columns = zip(
            frame["parents"],
            decimals(frame["probability"], 4),
            significant(frame["mcse"], 2),
            decimals(frame["r_hat"], 3),
            strict=True,
        )
        found.append(
            [
                {"parents": [position[parent] for parent in own], "p": p, "mcse": e, "r_hat": r}
                for own, p, e, r in columns
            ]
        )
    return found


def _blankets(posterior: StructurePosterior) -> list[list[list[Any]]]:
    """Of every node, the probable members of its Markov blanket: [member, probability, error]."""
    frame: pd.DataFrame = posterior.markov_blankets()
    frame = frame[frame["probability"] >= _LEAST_MEMBER]
    position = {name: k for k, name in enumerate(posterior.names)}
    found: list[list[list[Any]]] = [[] for _ in posterior.names]
    columns = zip(
        frame["node"], frame["member"], decimals(frame["probability"], 3), significant(frame["mcse"], 2), strict=True
    )
    for node, member, p, error in columns:
        own = found[position[node]]
        if len(own) < _MOST_MEMBERS:
            own.append([position[member], p, error])
    return found


MOST_POINTS = 2000  # of a trace, over all chains


def evidence(posterior: StructurePosterior) -> dict[str, Any]:
    """Traces and ranks of log score and number of edges, and their diagnoses."""
    n_chains, n_draws = posterior.n_edges.shape
    step = -(-n_draws * n_chains // MOST_POINTS)
    shown = np.arange(0, n_draws, step)
    log_score, n_edges = posterior.log_score, posterior.n_edges
    return {
        "step": int(step),
        "n_draws": n_draws,
        "draws": shown.tolist(),
        "log_score": [decimals(chain[shown], 2) for chain in log_score],
        "n_edges": [chain[shown].tolist() for chain in n_edges],
        "ranks": {
            "log_score": [decimals(chain, 3) for chain in rank_shares(np.round(log_score, 6))],
            "n_edges": [decimals(chain, 3) for chain in rank_shares(n_edges.astype(np.float64))],
        },
        "quantities": [
            {"name": "log score", **diagnosis(posterior.log_score_diagnosis)},
            {"name": "number of edges", **diagnosis(posterior.n_edges_diagnosis)},
        ],
    }


def run_facts(posterior: StructurePosterior, written: datetime) -> list[list[str]]:
    """Names and values: data, model, run, versions and times."""
    options, trace = posterior.options, posterior.trace
    n_chains, n_draws = posterior.n_edges.shape
    exact = posterior.sampler.name == "exact"
    facts = [
        ("Data", f"{options.n_rows} rows, {options.n_present} columns, {options.n_missing or 'no'} missing cells"),
        *([] if options.order is None else [("Time", f"{options.order.text}: {options.of_time}")]),
        ("Digest of the data", options.data_digest or "not known"),
        ("Score", options.score.text),
        ("Prior", f"{prior_text(posterior)}; {cap_text(posterior)}"),
        *([] if options.interventions is None else [("Interventions", options.interventions.text)]),
        ("Sampler", "sum over all graphs" if exact else repr(posterior.sampler)),
        ("Draws", f"{counted(n_chains, 'chain')} of {n_draws} {_drawn(posterior)}"),
    ]
    if not exact and "proposed" in trace.info:
        accepted = trace.info["accepted"].sum() / max(1, trace.info["proposed"].sum())
        facts.append(("Accepted", f"{accepted:.1%} of the proposals"))
    if tempering_cost(posterior):
        facts.append(("Tempering", tempering_cost(posterior)))
    facts.append(("Seed", "not known" if trace.entropy is None else str(trace.entropy)))
    if posterior.stop is not None:
        facts.append(("Time", f"{duration(posterior.stop.seconds)}, warm-up not included"))
    if posterior.source is not None and posterior.source.get("source"):
        facts.append(("File", printable(PurePath(str(posterior.source["source"])).name)))
    facts += closing_facts(("doxa", "numpy", "numba"), written)
    return [list(fact) for fact in facts]


def _drawn(posterior: StructurePosterior) -> str:
    if posterior.sampler.name == "exact":
        return "independent draws, for what has no exact sum"
    trace = posterior.trace
    return f"draws, one every {trace.thin} steps, after {trace.n_warmup} steps of warm-up"


def of_graphs(posterior: StructurePosterior, written: datetime) -> dict[str, Any]:
    """As plain data."""
    return {
        "kind": "numbers" if posterior.options.numbers else "graphs",
        "title": f"Belief network of {len(posterior.names)} columns, learned by doxa",
        "verdict": verdict_box(posterior.judgement),
        "facts": run_facts(posterior, written),
        "graphs": graphs(posterior),
        "evidence": evidence(posterior),
        "nodes": inspection(posterior),
    }

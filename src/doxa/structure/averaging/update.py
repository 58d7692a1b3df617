r"""More data later: the posterior given old and new rows, from one that was learned from the old rows.

Under the same prior and limits, with :math:`D` the old rows and :math:`D'` all of them,

.. math:: P(G \mid D') \propto P(G \mid D) \, \frac{P(D' \mid G)}{P(D \mid G)},

so kept graphs are draws of the new posterior once they are weighted by the second factor.  Few new rows change little,
and weights are even; many make one graph outweigh the others.  How far the weights can be trusted say their effective
number and the shape k of their tail (Vehtari et al. 2024).  Where they cannot, chains are run again on all rows.

Weighted draws become draws again by holding times: along each chain a graph is repeated in proportion to its weight,
at even steps of the cumulated weights.  Errors of such chains count the repetitions as what they are, draws that did
not move.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table, read_table
from doxa.data.bins import codes_of_numbers
from doxa.data.large.table import OutOfCoreTable
from doxa.data.table import check_categories, collapsed
from doxa.data.transforms import transform_of
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Audit, StopReport, Until
from doxa.estimates.trace import Trace
from doxa.sampling.driver import Schedule, fresh_entropy
from doxa.sampling.importance_weights import kish_ess, normalised_weights, pareto_k
from doxa.structure.averaging.posterior import Posterior, with_table
from doxa.structure.averaging.questions import column_of_numbers, number_of
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.by_name import Exact
from doxa.structure.posterior.structure_posterior import StructurePosterior
from doxa.structure.runs.plan import RunPlan, exact_answer, scores_of

if TYPE_CHECKING:
    from doxa.structure.averaging.given_graph import GraphFit

__all__ = ["all_rows", "held_in_proportion", "update"]

Unseen = Literal["error", "add"]

_LEAST_EFFECTIVE = 200.0  # draws, both by weights and by how the chains moved
_LARGEST_SHARE = 0.01  # of one weight, counted in effective draws, where the tail has no shape
_LARGEST_K = 0.7  # of the tail of the weights: above it their mean is not to be trusted (Vehtari et al. 2024)


def update(
    posterior: Posterior,
    rows: Any,
    *,
    unseen: Unseen = "error",
    until: Until | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Posterior:
    """The posterior given the table and new rows together; see `doxa.Posterior.update`."""
    _check(posterior)
    table = all_rows(posterior.table, rows, posterior.options.hidden_names, unseen)
    n_new = table.n_rows - posterior.options.n_rows
    options = dataclasses.replace(
        posterior.options,
        n_rows=table.n_rows,
        data_digest=table.digest,
        n_missing=table.n_missing,
        n_states=tuple(table.n_states.tolist()),
    )
    chains, entropy = posterior.trace.n_chains, fresh_entropy() if seed is None else seed
    schedule, goal = Schedule(chains, None, None), Until() if until is None else until
    move = Auto() if isinstance(posterior.sampler, Exact) else posterior.sampler
    plan = RunPlan(table, options, move, posterior.trace.thin, schedule, goal, entropy)
    answer: StructurePosterior | None = None
    if options.graph_given:
        answer, how = _refitted(plan, workers, progress), "the tables were fitted again to all rows"
    elif isinstance(posterior.sampler, Exact):
        answer, how = exact_answer(plan, None, False, workers), "all graphs were summed again, over all rows"
        plan = plan._replace(thin=max(200, len(table.names) * (len(table.names) - 1)))
    elif not (options.n_missing or posterior.options.n_missing):
        answer, how = _reweighted(posterior, plan)
    else:
        how = "cells are missing, so that draws cannot be weighted"
    if answer is None:
        from doxa.structure.runs.running import run_plan

        answer = run_plan(plan._replace(begin_at=_best(posterior, plan)), None, workers, progress)
        begun = np.arange(chains) % 2
        answer.trace = dataclasses.replace(answer.trace, info=dict(answer.trace.info) | {"begun_at_kept": begun})
        how += ": a new run over all rows, every other chain of which began at a graph of the old posterior"
    made = with_table(answer, table)
    made.how = f"updated by {n_new} rows: {how}"
    return made


def all_rows(table: Table, rows: Any, hidden: list[str], unseen: Unseen = "error") -> Table:
    """The rows of a table and new ones, with the table's columns; hidden ones are missing in all.

    Raises
    ------
    ArgumentError
        If the new rows lack a column, or have a state that the table does not have and ``unseen`` is not ``"add"``.
    """
    from doxa.data.options import shown

    if unseen not in ("error", "add"):
        raise ArgumentError(f"unseen is {unseen!r}; it must be 'error', or 'add' for states that are new")
    wanted = [name for name in table.names if name not in hidden]
    held = [name for name, own in zip(table.names, table.is_number.tolist(), strict=True) if own]
    new = rows if isinstance(rows, Table) else read_table(rows, columns=wanted, numbers=held or None)
    lacking = [name for name in wanted if name not in new.names]
    if lacking:
        raise ArgumentError(
            f"rows lacks the column {shown(lacking)}; give all columns of the table, empty if not known"
        )
    if not new.n_rows:
        raise ArgumentError("rows is empty; there is nothing to update with")
    check_categories(new, "a posterior of categories", [name for name in wanted if name not in (*table.cuts, *held)])
    columns, states = [], []
    numbers: dict[int, NDArray[np.float64]] = {}
    measured = dict(table.measured)
    for j, (name, labels) in enumerate(zip(table.names, table.states, strict=True)):
        known = tuple(labels)
        k = -1 if name in hidden else new.names.index(name)
        if name in hidden:
            codes = np.full(new.n_rows, -1)
        elif name in held:
            assert table.numbers is not None
            cells = column_of_numbers(new, k)
            numbers[j] = np.concatenate([table.numbers[table.row_index, j], cells])
            codes = np.where(np.isnan(cells), -1, 0)
        elif name in table.cuts:
            cells, codes = _cut(new, k, table.cuts[name], labels)
            measured[name] = np.concatenate([table.measured[name], cells])
        else:
            added = [label for label in new.states[k] if label not in labels]
            if added and unseen == "error":
                raise ArgumentError(
                    f"rows has the states {shown(added)} in column {name!r}, which the table does not have: its states "
                    f"are {shown(labels)}; correct them, or say unseen='add'"
                )
            known += tuple(added)
            codes = np.array([*(known.index(label) for label in new.states[k]), -1])[new.codes[new.row_index, k]]
        columns.append(np.concatenate([table.codes[table.row_index, j], codes]).astype(np.int16))
        states.append(known)
    transforms = {
        name: transform_of(name, own.method, numbers[table.names.index(name)]) for name, own in table.transforms.items()
    }
    return collapsed(
        table.names,
        tuple(states),
        columns,
        numbers=numbers or None,
        cuts=table.cuts,
        measured=measured,
        transforms=transforms,
    )


def _cut(
    new: Table, k: int, cuts: tuple[float, ...], labels: tuple[str, ...]
) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Numbers of a column that was cut into bins, and the codes of these; or of labels, whose numbers are not known."""
    if new.is_number[k]:
        assert new.numbers is not None
        numbers = new.numbers[new.row_index, k]
        return numbers, codes_of_numbers(cuts, numbers)
    known, codes = [], []
    for label in new.states[k]:
        number = number_of(label) if label not in labels else None
        if number is None and label not in labels:
            raise ArgumentError(
                f"rows has {label!r} in column {new.names[k]!r}, which was cut into the bins {', '.join(labels)}; give "
                "numbers"
            )
        known.append(np.nan if number is None else number)
        codes.append(labels.index(label) if number is None else int(codes_of_numbers(cuts, np.array([number]))[0]))
    place = new.codes[new.row_index, k]
    return np.array([*known, np.nan])[place], np.array([*codes, -1], dtype=np.int16)[place]


def held_in_proportion(log_weights: NDArray[np.float64]) -> NDArray[np.intp]:
    """Which draw of a chain stands at each of as many places, so that draws are held in proportion to their weights.

    Parameters
    ----------
    log_weights : ndarray of float, shape (n_draws,)
        Nats, up to a constant; at least one finite.

    Examples
    --------
    >>> held_in_proportion(np.log([1.0, 3.0, 2.0, 2.0])).tolist()
    [1, 1, 2, 3]
    """
    weights = np.exp(log_weights - log_weights.max())
    ends = np.cumsum(weights) / weights.sum()
    n = len(weights)
    found: NDArray[np.intp] = np.minimum(np.searchsorted(ends, (np.arange(n) + 0.5) / n, side="right"), n - 1)
    return found


def _check(posterior: Posterior) -> None:
    """Refuse what cannot be updated, with the way out."""
    options, way = posterior.options, "learn again from all rows together"
    if options.indicator:
        raise ArgumentError(f"{options.indicator[0]!r} has an indicator column, which new rows do not have; {way}")
    if options.interventions is not None or posterior.table.interventions is not None:
        raise ArgumentError(f"the posterior was learned with interventions, which new rows do not have; {way}")
    if options.order is not None:
        raise ArgumentError(
            f"the posterior was learned from moments in time, and new rows may go on with old ones; {way}"
        )
    if isinstance(posterior.table, OutOfCoreTable):
        raise ArgumentError(f"the rows of the table are not held in memory, but counts of families; {way}")


def _reweighted(posterior: Posterior, plan: RunPlan) -> tuple[StructurePosterior | None, str]:
    """The kept graphs weighted by the new rows, if the weights can be trusted, and in words how it went."""
    rows, which = posterior._distinct
    scores = scores_of(plan)
    new = local_weights(scores, rows).sum(axis=1)
    log_weights = (new - posterior._distinct_score)[which]
    flat = log_weights.ravel()
    share = min(1.0, posterior.reference_ess / flat.size)
    effective = share * kish_ess(flat)
    told, wanted = f"effective number {effective:.0f} of {flat.size} draws", f"at least {_LEAST_EFFECTIVE:.0f}"
    k = pareto_k(flat)
    if np.isnan(k):  # a few graphs make up the tail: no shape, but the largest weight is known
        most = float(normalised_weights(flat).max()) / max(share, 1e-9)
        trusted = most <= _LARGEST_SHARE
        told += f"; equal weights in the tail have no Pareto k, and the largest has a share of {most:.2g}"
        wanted += f" and a share of at most {_LARGEST_SHARE}"
    else:
        trusted = k <= _LARGEST_K
        told += f", Pareto k {k:.2f}"
        wanted += f" and a k of at most {_LARGEST_K}"
    if effective < _LEAST_EFFECTIVE or not trusted:
        wanted += " are wanted"
        return None, f"weights of the kept graphs cannot be trusted ({told}; {wanted})"
    places = np.stack([held_in_proportion(chain) for chain in log_weights])
    chosen = np.take_along_axis(which, places, axis=1)
    draws = {
        "rows": rows[chosen],
        "log_score": new[chosen],
        "n_edges": np.bitwise_count(rows[chosen]).sum(axis=(2, 3)).astype(np.int32),
    }
    old = posterior.trace
    trace = Trace(draws, thin=old.thin, n_warmup=old.n_warmup, entropy=old.entropy, info=old.info)
    missed = _missed(plan, scores, trace)
    if missed:
        return None, f"the kept graphs, weighted by the new rows, are not enough ({missed})"
    stop = StopReport("draws", None, 0.0, Audit("", 0.0))
    answer = StructurePosterior(plan.options.names, trace, posterior.sampler, plan.options, None, stop)
    return answer, f"the kept graphs were weighted by the new rows ({told})"


def _missed(plan: RunPlan, scores: FamilyScores, trace: Trace) -> str:
    """What a search with other moves finds that no kept graph has; empty where it finds nothing."""
    from doxa.structure.runs.audit import audit_graphs

    if not plan.options.score.is_counted:
        return ""
    found = audit_graphs(scores, plan.options.limits, trace)
    return "" if found is None else found.why


def _best(posterior: Posterior, plan: RunPlan) -> NDArray[np.uint64]:
    """Kept graphs, one for each chain: those that are most probable given all rows; some, where cells are missing."""
    rows, _ = posterior._distinct
    if plan.options.n_missing:
        order = np.linspace(0, len(rows) - 1, plan.schedule.chains).astype(np.intp)
    else:
        order = np.argsort(-local_weights(scores_of(plan), rows).sum(axis=1))
    return rows[np.resize(order, plan.schedule.chains)]


def _refitted(plan: RunPlan, workers: int | None, progress: bool | None) -> GraphFit:
    """The tables of the same graph, of all rows."""
    from doxa.structure.averaging.given_graph import fit_plan

    return fit_plan(plan, None, workers, progress)

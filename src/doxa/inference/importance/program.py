"""`Program`: a proposal as the flat arrays that compiled loops read.

Rows of codes hold a state, or the number of a configuration of parents, for each draw of a batch.  Every step fills
rows from rows above; what is counted is a row.  A barren variable is counted by the configurations of its parents,
where there are not too many: given these its probabilities are known, and need no draw (Rao & Blackwell).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.importance.layout import Table
from doxa.inference.importance.proposal import NetworkProposal

__all__ = ["FINDINGS", "OWN", "PLAIN", "Compiled", "OutOfCore", "Program", "compile_proposal", "thresholds"]

MOST_CONFIGURATIONS = 1024  # of parents, to count a variable by them
SCRATCH = 0  # the row of configurations that nothing counts
FINDINGS, OWN, PLAIN = 0, 1, 2  # sums that a step's ratios belong to: p(e | x), p / q, p / plain

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Program(NamedTuple):
    """Step s: the configuration of its parents goes to one row; then a state is drawn to another, if asked."""

    starts: Integers  # (n_steps + 1,) of the parents of each step
    parent_rows: Integers
    parent_strides: Integers
    configuration_rows: Integers  # (n_steps,)
    state_rows: Integers  # (n_steps,) -1: nothing is drawn
    n_states: Integers  # (n_steps,) 1 where nothing is drawn
    thresholds_at: Integers  # (n_steps,)
    ratios_at: Integers  # (n_steps,) -1: the weight stays as it is
    ratio_sums: Integers  # (n_steps,) which sum the ratios are added to
    thresholds: Floats  # n_states - 1 a configuration; a state is the number of those not above a uniform number
    ratios: Floats  # nats, n_states a configuration
    counted_rows: Integers  # (n_counted,)
    first_cells: Integers  # (n_counted,)


class OutOfCore(NamedTuple):
    """How a variable is counted."""

    first: int  # cell
    n_cells: int
    values: Floats | None  # (n_cells, n_states) probability of each state in each cell; None: cells are states


class Compiled(NamedTuple):
    """What a sampler needs of a proposal."""

    own: Program
    plain: Program  # the same rows, drawn by likelihood weighting
    n_rows: int
    rows: dict[int, int]  # of states, by variable that is drawn
    counted: dict[int, OutOfCore]  # by variable of the query
    n_cells: int


class _Step(NamedTuple):
    configuration_row: int
    state_row: int = -1
    n_states: int = 1
    thresholds_at: int = 0
    ratios_at: int = -1
    ratio_sum: int = FINDINGS


class _Builder:
    """Steps, and the rows that they fill; rows are numbered in the order in which they are asked for."""

    def __init__(self) -> None:
        self.starts = [0]
        self.parents: list[tuple[int, int]] = []  # row, stride
        self.steps: list[_Step] = []
        self.thresholds: list[Floats] = [np.zeros(0)]
        self.ratios: list[Floats] = [np.zeros(0)]
        self.n_thresholds = self.n_ratios = 0
        self.rows: dict[int, int] = {}
        self.n_rows = 1

    def new_row(self) -> int:
        self.n_rows += 1
        return self.n_rows - 1

    def configure(self, parents: tuple[int, ...], shape: tuple[int, ...], row: int = SCRATCH) -> None:
        """Begin a step with the configurations of some variables."""
        self.parents += [(self.rows[p], int(np.prod(shape[a + 1 :]))) for a, p in enumerate(parents)]
        self.starts.append(len(self.parents))
        self.steps.append(_Step(row))

    def draw(self, table: Table) -> None:
        """Draw the last variable of a table given the others; they are the configuration of the step."""
        k = table.values.shape[-1]
        row = self.rows[table.variables[-1]] = self.new_row()
        self.steps[-1] = self.steps[-1]._replace(state_row=row, n_states=k, thresholds_at=self.n_thresholds)
        self.thresholds.append(thresholds(table.values.reshape(-1, k)).ravel())
        self.n_thresholds += self.thresholds[-1].size

    def weigh(self, ratios: Floats, ratio_sum: int) -> None:
        """Let the step add ratios, by configuration and state drawn."""
        self.steps[-1] = self.steps[-1]._replace(ratios_at=self.n_ratios, ratio_sum=ratio_sum)
        self.ratios.append(ratios.ravel())
        self.n_ratios += ratios.size

    def program(self, counted_rows: list[int], first_cells: list[int]) -> Program:
        parents = np.array(self.parents, dtype=np.int64).reshape(-1, 2).T.copy()
        steps = np.array(self.steps, dtype=np.int64).reshape(-1, len(_Step._fields)).T.copy()
        counted = np.array([counted_rows, first_cells], dtype=np.int64)
        flat = np.concatenate(self.thresholds), np.concatenate(self.ratios)
        return Program._make([np.array(self.starts), *parents, *steps, *flat, *counted])


def compile_proposal(proposal: NetworkProposal) -> Compiled:
    """Flatten a proposal and its defence."""
    layout = proposal.layout
    programs = []
    for plain in (False, True):
        build = _Builder()
        _informed_steps(proposal, build, plain)
        with np.errstate(divide="ignore"):
            for finding in layout.findings.values():
                build.configure(finding.variables, finding.values.shape)
                build.weigh(np.log(finding.values), FINDINGS)
        by_configuration = _barren_steps(proposal, build)
        counted, rows, n_cells = {}, [], 0
        for v in layout.query:
            by_states = v not in by_configuration
            values = None if by_states else layout.conditionals[v].values.reshape(-1, layout.n_states[v])
            rows.append(build.rows[v] if by_states else by_configuration[v])
            counted[v] = OutOfCore(n_cells, layout.n_states[v] if values is None else len(values), values)
            n_cells += counted[v].n_cells
        programs.append(build.program(rows, [c.first for c in counted.values()]))
    return Compiled(programs[0], programs[1], build.n_rows, build.rows, counted, n_cells)


def _informed_steps(proposal: NetworkProposal, build: _Builder, plain: bool) -> None:
    """Draw informed variables and weigh them; with a defence, by the ratios of both."""
    both = proposal.defence > 0
    for i in range(len(proposal.tables)):
        drawn, other = proposal.tables[i], proposal.plain[i]
        if plain:
            drawn, other = other, drawn
        build.configure(drawn.variables[:-1], drawn.values.shape[:-1])
        build.draw(drawn)
        ratios = proposal.log_ratios(i, plain=plain)
        if _matter(ratios, drawn):
            build.weigh(ratios, PLAIN if plain else OWN)
        ratios = proposal.log_ratios(i, plain=not plain)
        if both and _matter(ratios, other):
            build.configure(other.variables, other.values.shape)
            build.weigh(ratios, OWN if plain else PLAIN)


def _matter(ratios: Floats, table: Table) -> bool:
    """Whether a draw can change the weight, more than by rounding."""
    drawn = table.values > 0
    return bool((np.abs(ratios[drawn]) > 1e-14).any() or not drawn.any(axis=-1).all())


def _barren_steps(proposal: NetworkProposal, build: _Builder) -> dict[int, int]:
    """Draw barren variables that others are drawn from; rows of the configurations by which they are counted."""
    layout = proposal.layout
    parents = {p for v in layout.barren for p in layout.conditionals[v].variables[:-1]}
    by_configuration = {}
    for v in layout.barren:
        table = layout.conditionals[v]
        is_counted = v in layout.query and table.values.size <= MOST_CONFIGURATIONS * layout.n_states[v]
        row = build.new_row() if is_counted else SCRATCH
        build.configure(table.variables[:-1], table.values.shape[:-1], row)
        if is_counted:
            by_configuration[v] = row
        if v in parents or not is_counted:
            build.draw(table)
    return by_configuration


def thresholds(q: Floats) -> Floats:
    """Sums of probabilities up to each state but the last, shape (n, n_states - 1).

    At and after the last state that is possible they are infinite: rounding must not let a uniform number get beyond.

    Examples
    --------
    >>> thresholds(np.array([[0.25, 0.5, 0.25], [0.0, 1.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  ,  inf]])
    """
    sums = np.cumsum(q, axis=-1)[:, :-1]
    later = np.cumsum(q[:, ::-1], axis=-1)[:, ::-1][:, 1:]
    return np.where(later == 0, np.inf, sums)

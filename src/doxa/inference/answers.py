"""`Inference`: the distribution of each variable asked for, every probability an `Estimate`, and how it was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, Verdict
from doxa.notebook import bar, card, report_link
from doxa.text import printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHOWN", "Inference"]


class Answer(NamedTuple):
    """What a method has found, by position of the variables."""

    method: str
    estimates: Mapping[int, Sequence[Estimate]]  # one for each of the network's states
    log_evidence: Estimate | None  # nats; None where the method says nothing of it
    judgement: Verdict
    numbers: Mapping[str, float] = {}  # what the verdict rests on


def certain(probabilities: Iterable[float]) -> list[Estimate]:
    """Probabilities that need no sampling."""
    return [Estimate.exactly(float(p)) for p in probabilities]


def in_state(state: int, n_states: int) -> list[Estimate]:
    """Of a variable whose state is known."""
    return certain(s == state for s in range(n_states))


def certain_answer(
    method: str, estimates: Mapping[int, Sequence[Estimate]], why: str = "the evidence leaves one state of each"
) -> Answer:
    """The answer where nothing has to be drawn: the evidence leaves one state of everything that was asked for."""
    return Answer(method, estimates, None, Verdict(True, "Exact", f"{why}."))


SHOWN = 24  # states, in shells and notebooks


@dataclass(frozen=True, eq=False, repr=False)
class Inference(Mapping[str, Mapping[str, Estimate]]):
    """Distributions of variables given evidence: ``result["BP"]["LOW"]`` is an `Estimate`.

    Made by `doxa.infer`.  A mapping from the names of the variables asked for, in the order of the question.

    Attributes
    ----------
    method : str
        ``"exact"``, ``"importance"``, ``"gibbs"``, ``"tempering"`` or ``"mean_field"``.
    why : str
        Why this method: what was tried before it, with the numbers.
    judgement : Verdict
        Whether the answer can be relied on, why and what to do, taken apart; `converged` and `verdict` are parts of it.
    log_evidence : Estimate or None
        Log probability of what was observed (nats), of directed networks; of undirected ones the log of the sum over
        all states that agree with it.  None where the method says nothing of it.
    numbers : mapping of str to float
        What the verdict rests on: effective draws, R-hat, bounds.
    given : mapping of str to str
        Hard evidence, by label.
    seed : int or None
        The seed with which the same question has the same answer; exact ones do not depend on it.

    Examples
    --------
    >>> import doxa
    >>> dag = doxa.Dag.from_edges([("rain", "wet")])
    >>> yes_no = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
    >>> network = doxa.CategoricalNetwork(dag, {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.0, 1.0]]}, yes_no)
    >>> result = doxa.infer(network, "rain", given={"wet": "yes"})
    >>> print(result)
    rain = no   0.285714 (exact)
    rain = yes  0.714286 (exact)
    >>> result.method, result.converged
    ('exact', True)
    """

    tables: Mapping[str, Mapping[str, Estimate]]
    method: str
    why: str
    judgement: Verdict
    log_evidence: Estimate | None
    numbers: Mapping[str, float] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None

    @property
    def converged(self) -> bool | None:
        """Whether the answer can be relied on; None where nobody can tell."""
        return self.judgement.converged

    @property
    def verdict(self) -> str:
        """The same in a line, with the numbers."""
        return self.judgement.text

    def __getitem__(self, name: str) -> Mapping[str, Estimate]:
        """The distribution of one variable: its labels and their probabilities."""
        if name not in self._answers:
            raise ArgumentError(f"{name!r} was not asked for; there are {', '.join(map(repr, self._answers))}")
        return self._answers[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the variables, in the order of the question."""
        return iter(self._answers)

    def __contains__(self, name: object) -> bool:
        """Whether a variable was asked for."""
        return name in self._answers

    def __len__(self) -> int:
        """Number of variables."""
        return len(self._answers)

    @property
    def _answers(self) -> Mapping[str, Mapping[str, Estimate]]:
        """What this is a mapping of."""
        return self.tables

    def probabilities(self, name: str) -> NDArray[np.float64]:
        """Probabilities of a variable's states, in their order, shape (n_states,)."""
        return np.array([estimate.value for estimate in self[name].values()])

    def to_frame(self) -> pd.DataFrame:
        """A row for each state: variable, state, probability, mcse, ess, lower and upper end of the 95% interval."""
        from doxa.frames import ReadFrame

        rows = [
            (name, label, e.value, e.mcse, e.ess, *e.interval())
            for name, table in self.items()
            for label, e in table.items()
        ]
        return ReadFrame(rows, columns=["variable", "state", "probability", "mcse", "ess", "lower", "upper"])

    def __str__(self) -> str:
        """A line for each state."""
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        """The answer and the verdict, in a few lines."""
        lines = self._lines()
        return "\n".join([self._title, *lines[:SHOWN], *more_states(len(lines)), printable(self.verdict)])

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict and a bar for each state."""
        rows = [(name, label, bar(e), str(e)) for name, table in self.items() for label, e in table.items()]
        head, more = ("variable", "state", "", "probability"), [*more_states(len(rows)), report_link(self)]
        return card(self._title, self.judgement, head, rows[:SHOWN], n_left=2, more=more)

    @property
    def _title(self) -> str:
        given = ", ".join(f"{name} = {label}" for name, label in self.given.items())
        return printable(f"Inference ({self.method})" + (f", given {_shortened(given)}" if given else ""))

    def _lines(self) -> list[str]:
        shown = [(printable(head), text) for head, text in self._shown()]
        width = max((len(head) for head, _ in shown), default=0)
        return [f"{head:{width}}  {text}" for head, text in shown]

    def _shown(self) -> list[tuple[str, str]]:
        return [(f"{name} = {label}", str(e)) for name, table in self.items() for label, e in table.items()]


def more_states(n: int) -> list[str]:
    """The line that says how many states of ``n`` are not shown; none where all are."""
    return [] if n <= SHOWN else [f"... {n - SHOWN} more: see to_frame()"]


def _shortened(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

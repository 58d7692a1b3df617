"""Questions to a posterior of networks: ``--query party=republican --given crime=y --do aid=n``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import typer

from doxa.cli.aligned import aligned
from doxa.cli.evidence_words import parse_given
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.estimates.estimate import Estimate
    from doxa.structure.averaging.posterior import Posterior

__all__ = ["Questions"]


class Questions(NamedTuple):
    """What is asked, and under which conditions."""

    targets: list[str]
    given: dict[str, str]
    do: dict[str, str]

    @classmethod
    def parse(cls, query: list[str] | None, given: list[str] | None, do: list[str] | None) -> Questions:
        """Check the words of the three options; conditions need a question."""
        if not query and (given or do):
            option = "--given" if given else "--do"
            raise typer.BadParameter("it needs a question: --query party=republican", param_hint=option)
        return cls(query or [], parse_given(given or []), parse_given(do or [], "--do"))

    def answer(self, posterior: Posterior) -> None:
        """Print the answers, each with its Monte Carlo error and the spread of the posterior."""
        if not self.targets:
            return
        rows = [("probability of", "mean", "credible interval (95%)")]
        for word in self.targets:
            rows += self._one(posterior, word)
        print()
        print(_conditions(self.given, self.do))
        print(aligned(rows, n_left=1))
        print("The mean has a Monte Carlo error; the interval is what the data leave open about the probability.")

    def _one(self, posterior: Posterior, word: str) -> list[tuple[str, str, str]]:
        from doxa.structure.averaging import QueryAnswer

        names = posterior.table.names
        is_column = word in names or ("=" not in word and not word.lstrip().startswith("{"))
        target = word if is_column else parse_given([word], "--query")
        found = posterior.query(target, given=self.given, do=self.do)
        if isinstance(found, QueryAnswer):
            return [_row(f"{word} = {state}", estimate) for state, estimate in found.items()]
        event = target.items() if isinstance(target, dict) else ()
        return [_row(", ".join(f"{name} = {state}" for name, state in event), found)]


def _row(name: str, estimate: Estimate) -> tuple[str, str, str]:
    from doxa.structure.averaging import AveragedProbability

    assert isinstance(estimate, AveragedProbability)
    low, high = estimate.credible_interval()
    return printable(name), str(estimate), f"{low:.3f} - {high:.3f}"


def _conditions(given: dict[str, str], do: dict[str, str]) -> str:
    parts = [f"{name} = {state} was seen" for name, state in given.items()]
    parts += [f"{name} = {state} was set" for name, state in do.items()]
    return printable(f"Averaged over networks, where {', '.join(parts)}:" if parts else "Averaged over networks:")

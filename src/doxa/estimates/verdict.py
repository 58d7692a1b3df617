"""A verdict on a run, as data: whether it can be trusted, why, and what to do; the text follows from these."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Verdict"]

_OF_CHAINS = {True: "Converged", False: "Not converged", None: "Cannot tell"}


class Verdict(NamedTuple):
    """Whether a run can be trusted.

    Examples
    --------
    >>> verdict = Verdict.of_chains(None, "there is one chain.", advice="Run several.")
    >>> verdict.status, verdict.text
    ('Cannot tell', 'Cannot tell: there is one chain. Run several.')
    """

    converged: bool | None  # None: cannot tell
    status: str  # what the text begins with, such as "Converged"
    reason: str  # why, in sentences
    advice: str = ""  # what to do; empty when there is nothing to add

    @classmethod
    def of_chains(cls, converged: bool | None, *reason: str, advice: str = "") -> Verdict:
        """With the status that chains have; empty sentences are left out."""
        return cls(converged, _OF_CHAINS[converged], " ".join(filter(None, reason)), advice)

    @property
    def text(self) -> str:
        """All of it in a line."""
        return f"{self.status}: {self.reason} {self.advice}".rstrip()

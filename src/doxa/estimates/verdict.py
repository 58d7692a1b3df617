"""A verdict on a run, in words that can be taken apart."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Verdict"]


class Verdict(NamedTuple):
    """Whether a run can be trusted.

    Examples
    --------
    >>> verdict = Verdict(None, "Cannot tell: there is one chain. Run several.", "Run several.")
    >>> verdict.word, verdict.reason, verdict.advice
    ('Cannot tell', 'there is one chain.', 'Run several.')
    """

    converged: bool | None  # None: cannot tell
    text: str  # a word, a colon, the reason, the advice
    advice: str = ""  # what to do, in the words of the text; empty when there is nothing to add

    @property
    def word(self) -> str:
        """What the text begins with, such as "Converged"."""
        return self.text.partition(": ")[0]

    @property
    def reason(self) -> str:
        """Why, in sentences: the text without its word and the advice."""
        before, _, after = self.text.partition(": ")[2].rpartition(self.advice or self.text)
        return " ".join(part.strip() for part in (before, after) if part.strip())

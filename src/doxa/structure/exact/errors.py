"""What can go wrong when weights of graphs are summed or integrated."""

from __future__ import annotations

from doxa.errors import DoxaError

__all__ = ["PrecisionError"]


class PrecisionError(DoxaError, ArithmeticError):
    """A sum lost too many digits to be given out."""

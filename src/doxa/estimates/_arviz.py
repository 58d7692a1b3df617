"""The one door to arviz-stats, which takes seconds to import."""

from __future__ import annotations

from typing import Any

__all__ = ["array_stats"]


def array_stats() -> Any:
    """Array interface of arviz-stats, which is untyped.

    Returns
    -------
    object
        With methods ``rhat``, ``ess`` and ``mcse``.

    Examples
    --------
    >>> import numpy as np
    >>> float(array_stats().ess(np.random.default_rng(0).normal(size=(4, 1000)), chain_axis=0, draw_axis=1)) > 3000
    True
    """
    from arviz_stats import base

    return base.array_stats  # type: ignore[attr-defined, unused-ignore]

"""Draws of parameters in the shapes that other tools read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import MissingExtraError

if TYPE_CHECKING:
    from doxa.estimates.trace import Trace
    from doxa.models import LogisticNetwork

__all__ = ["draws_to_arviz"]


def draws_to_arviz(
    network: LogisticNetwork, draws: Mapping[str, NDArray[np.float64]], method: str, trace: Trace
) -> Any:
    """See `doxa.ParameterPosterior.to_arviz`; ``trace`` is the one that the draws (chain, draw, coefficient) are of."""
    try:
        from arviz_base import from_dict
    except ModuleNotFoundError as error:
        raise MissingExtraError("to_arviz needs the package arviz-base: pip install 'doxa[arviz]'") from error
    dims = {node: [f"{node} coefficient"] for node in draws}
    coords = {f"{node} coefficient": list(network.coefficients(node)) for node in draws}
    tree = from_dict({"posterior": dict(draws)}, coords=coords, dims=dims)
    tree["posterior"].attrs.update(method=method, thin=trace.thin, n_warmup=trace.n_warmup, seed=str(trace.entropy))
    return tree

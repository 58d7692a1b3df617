"""Draws of graphs in the shapes that other tools read: an ArviZ DataTree, and a plain frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import MissingExtraError
from doxa.models.bits import unpack_rows

if TYPE_CHECKING:
    import pandas as pd

    from doxa.structure.posterior.sample import GraphSample

__all__ = ["draws_frame", "draws_to_arviz"]


def draws_to_arviz(posterior: GraphSample) -> Any:
    """See `StructurePosterior.to_arviz`."""
    try:
        from arviz_base import from_dict
    except ModuleNotFoundError as error:
        raise MissingExtraError("to_arviz needs the package arviz-base: pip install 'doxa[arviz]'") from error
    trace = posterior.trace
    draws = {
        "edge": _edges(posterior).astype(np.int8),  # not bool: arviz-stats' summary cannot subtract booleans
        "log_score": trace["log_score"],
        "n_edges": trace["n_edges"],
    }
    names = list(posterior.names)
    tree = from_dict(
        {"posterior": draws}, coords={"source": names, "target": names}, dims={"edge": ["source", "target"]}
    )
    tree["posterior"].attrs.update(
        sampler=repr(posterior.sampler), thin=trace.thin, n_warmup=trace.n_warmup, seed=str(trace.entropy)
    )
    return tree


def draws_frame(posterior: GraphSample) -> pd.DataFrame:
    """See `StructurePosterior.to_frame`."""
    import pandas as pd

    n_chains, n_draws = posterior.n_edges.shape
    edges = _edges(posterior).reshape(n_chains * n_draws, len(posterior.names), len(posterior.names))
    columns: dict[str, Any] = {
        "chain": np.repeat(np.arange(n_chains), n_draws),
        "draw": np.tile(np.arange(n_draws), n_chains),
        "log_score": posterior.log_score.ravel(),
        "n_edges": posterior.n_edges.ravel(),
    }
    for i, source in enumerate(posterior.names):
        for j, target in enumerate(posterior.names):
            if i != j:
                columns[f"{source} -> {target}"] = edges[:, i, j].astype(np.int8)
    return pd.DataFrame(columns)


def _edges(posterior: GraphSample) -> NDArray[np.bool_]:
    """Indicators of all edges, shape (chain, draw, source, target)."""
    return unpack_rows(posterior.trace["rows"], len(posterior.names))

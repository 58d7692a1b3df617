"""Draws of parameters in the shapes that other tools read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doxa.errors import MissingExtraError

if TYPE_CHECKING:
    from doxa.parameters.posterior import ParameterPosterior

__all__ = ["draws_to_arviz"]


def draws_to_arviz(posterior: ParameterPosterior) -> Any:
    """See `ParameterPosterior.to_arviz`."""
    try:
        from arviz_base import from_dict
    except ModuleNotFoundError as error:
        raise MissingExtraError("to_arviz needs the package arviz-base: pip install 'doxa[arviz]'") from error
    network = posterior.network
    draws = {node: posterior.draws(node) for node in network.parameters}
    dims = {node: [f"{node} coefficient"] for node in draws}
    coords = {f"{node} coefficient": list(network.coefficients(node)) for node in draws}
    tree = from_dict({"posterior": draws}, coords=coords, dims=dims)
    trace = posterior.trace
    tree["posterior"].attrs.update(
        method=posterior.report.method, thin=trace.thin, n_warmup=trace.n_warmup, seed=str(trace.entropy)
    )
    return tree

"""One quantity out of whatever holds draws of it: a posterior, a trace, a mapping, plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.trace import Trace

if TYPE_CHECKING:
    from doxa.parameters.posterior import ParameterPosterior

__all__ = ["Column", "Which", "as_fit", "read_column"]

Floats: TypeAlias = NDArray[np.float64]
Which: TypeAlias = str | int | tuple[Any, ...] | None

_OF_STRUCTURES = ("log_score", "n_edges")


class Column(NamedTuple):
    """Draws of one quantity."""

    label: str
    draws: Floats  # (chain, draw)
    thin: int = 1  # steps of the sampler for each draw
    n_warmup: int = 0  # steps before the first kept draw


def read_column(source: Any, which: Which = None) -> Column:
    """Read one quantity of a posterior, a trace, a mapping of arrays, or an array (chain, draw) or (chain, draw,
    coefficient).

    ``which`` is ``("node", "coefficient")`` or ``"node: coefficient"`` of a fit; ``"log_score"`` or ``"n_edges"`` of a
    structure posterior; a name of a trace or a mapping, or a tuple of it and indices; the number of a coefficient of an
    array with three axes.
    """
    fit = as_fit(source)
    if fit is not None:
        node, label = fit_coefficient(fit, which)
        place = fit.network.coefficients(node).index(label)
        trace = fit.trace
        return Column(f"{node}: {label}", fit.draws(node)[..., place], trace.thin, trace.n_warmup)
    if hasattr(source, "log_score") and hasattr(source, "n_edges"):
        if which not in _OF_STRUCTURES:
            raise ArgumentError(f"which is {which!r}; of a posterior over graphs it must be 'log_score' or 'n_edges'")
        trace = source.trace
        label = "log score, nats" if which == "log_score" else "edges in the graph"
        return Column(label, _checked(getattr(source, which), label), trace.thin, trace.n_warmup)
    if isinstance(source, (Trace, Mapping)):
        return _of_names(source, which)
    return _of_array(source, which)


def as_fit(source: Any) -> ParameterPosterior | None:
    """The source, if it is what `doxa.fit` returned; ArgumentError if that has kept no draws."""
    if isinstance(source, (np.ndarray, list, tuple, Trace, Mapping)):
        return None
    from doxa.parameters.averages import ParameterAverages
    from doxa.parameters.posterior import ParameterPosterior

    if isinstance(source, ParameterAverages):
        raise ArgumentError(f"source has kept {source.kept}, and a plot is of draws; fit with keep='draws'")
    return source if isinstance(source, ParameterPosterior) else None


def fit_coefficient(fit: ParameterPosterior, which: Which) -> tuple[str, str]:
    """Node and name of a coefficient of a fit."""
    known = [(node, label) for node in fit.network.parameters for label in fit.network.coefficients(node)]
    for node, label in known:
        if which in ((node, label), f"{node}: {label}"):
            return node, label
    some = ", ".join(map(repr, known[:6])) + (", ..." if len(known) > 6 else "")
    raise ArgumentError(f"{which!r} is no coefficient of this fit; name one as (node, coefficient): {some}")


def _of_names(source: Trace | Mapping[str, Any], which: Which) -> Column:
    names = source.names if isinstance(source, Trace) else tuple(source)
    if which is None and len(names) == 1:
        which = names[0]
    name, *indices = which if isinstance(which, tuple) else (which,)
    if name not in names:
        raise ArgumentError(f"{name!r} is not among the draws; there are {', '.join(map(repr, names))}")
    array = np.asarray(source[name])
    label = f"{name}[{', '.join(map(str, indices))}]" if indices else str(name)
    if indices:
        try:
            array = array[(slice(None), slice(None), *indices)]
        except IndexError as error:
            raise ArgumentError(f"{which!r}: {error}; draws of {name!r} have shape {array.shape}") from None
    if isinstance(source, Trace):
        return Column(label, _checked(array, label), source.thin, source.n_warmup)
    return Column(label, _checked(array, label))


def _of_array(source: Any, which: Which) -> Column:
    array = np.asarray(source)
    if array.ndim == 3:
        if isinstance(which, bool) or not isinstance(which, (int, np.integer)):
            raise ArgumentTypeError(
                f"which is {which!r}; of draws (chain, draw, coefficient) it is a coefficient's number"
            )
        if not 0 <= which < array.shape[2]:
            raise ArgumentError(f"which is {which}; coefficients are 0..{array.shape[2] - 1}")
        return Column(f"coefficient {which}", _checked(array[:, :, which], "draws"))
    if which is not None:
        raise ArgumentError(
            f"which is {which!r}, but draws has shape {array.shape}, which has no coefficients; omit it"
        )
    return Column("value", _checked(array, "draws"))


def _checked(draws: Any, name: str) -> Floats:
    try:
        array = np.asarray(draws, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name} is not an array of numbers; give draws of shape (n_chains, n_draws)") from None
    if array.ndim != 2 or array.size == 0:
        raise ArgumentError(f"{name} has shape {array.shape}; it must be (n_chains, n_draws), at least one of each")
    if not np.isfinite(array).all():
        chain, draw = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ArgumentError(f"{name}[{chain}, {draw}] is {array[chain, draw]}; every draw must be finite")
    return array

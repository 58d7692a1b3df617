"""Write UAI, as `doxa.models.network_files.uai` reads it and other programs do.

Numbers are written without exponents, which some readers do not know; names follow as comments behind the last number,
where most readers have stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.markov import MarkovNetwork
from doxa.models.network_files.uai import default_name

__all__ = ["linear_potential", "uai_pieces"]


def uai_pieces(network: CategoricalNetwork | MarkovNetwork) -> Iterator[str]:
    """The text of a network in pieces, numbers with all their digits.

    Raises
    ------
    ArgumentError
        If the exponential of a log potential is beyond the range of numbers.
    """
    if isinstance(network, CategoricalNetwork):
        kind = "BAYES"
        scopes: list[tuple[int, ...]] = [(*parents, node) for node, parents in enumerate(network.parents)]
        tables = [network.tables[name] for name in network.names]
    else:
        kind = "MARKOV"
        scopes = [factor.variables for factor in network.factors]
        tables = [linear_potential(network, k) for k in range(len(scopes))]
    n_states = [len(labels) for labels in network.states]
    yield f"{kind}\n{len(n_states)}\n{' '.join(map(str, n_states))}\n{len(scopes)}\n"
    for scope in scopes:
        yield f"{len(scope)} {' '.join(map(str, scope))}\n"
    for table in tables:
        yield f"\n{table.size}\n"
        for row in table.reshape(-1, table.shape[-1] if table.ndim else 1).tolist():
            yield f" {' '.join(map(_written, row))}\n"
    yield from _names(network.names, network.states)


def linear_potential(network: MarkovNetwork, k: int) -> NDArray[np.float64]:
    """Exponentials of the logs of factor ``k``; a constant taken out of them would change the partition function.

    Raises
    ------
    ArgumentError
        If one of them is beyond the range of numbers.
    """
    variables, log_values = network.factors[k]
    with np.errstate(over="ignore", under="ignore"):
        values: NDArray[np.float64] = np.exp(log_values)
    normal = (values >= np.finfo(np.float64).tiny) & np.isfinite(values)
    lost = log_values[~normal & ~np.isneginf(log_values)]
    if lost.size:
        over = ", ".join(network.names[v] for v in variables) or "nothing"
        raise ArgumentError(
            f"the potential over {over} has the log value {lost[0]:.9g}; what other programs read are "
            "exponentials, numbers for logs from -708 to 709 only: subtract a constant from the potential"
        )
    return values


def _written(value: float) -> str:
    text = repr(value)
    return np.format_float_positional(value, trim="-") if "e" in text else text


def _names(names: Sequence[str], states: Sequence[Sequence[str]]) -> Iterator[str]:
    default = [default_name(i) for i in range(len(names))]
    if list(names) == default and all(list(labels) == list(map(str, range(len(labels)))) for labels in states):
        return
    yield "\n"
    for i, (name, labels) in enumerate(zip(names, states, strict=True)):
        yield f"# variable {i}: {json.dumps([name, *labels])}\n"

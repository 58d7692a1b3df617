"""What networks have in common that have a graph, and parameters for every node of it."""

from __future__ import annotations

import os
from functools import cached_property

from doxa.models.dag import Dag

__all__ = ["DirectedNetwork"]


class DirectedNetwork:
    """A graph with the states of its nodes; `CategoricalNetwork` and `GaussianNetwork` add the parameters."""

    _dag: Dag
    _states: tuple[tuple[str, ...], ...]
    _parents: tuple[tuple[int, ...], ...]

    @property
    def dag(self) -> Dag:
        """The graph."""
        return self._dag

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes, in the graph's order."""
        return self._dag.names

    @property
    def states(self) -> tuple[tuple[str, ...], ...]:
        """Labels of each node's states; none of a number."""
        return self._states

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Positions of each node's parents, increasing: the order of its table's axes."""
        return self._parents

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Positions of the nodes, parents before children."""
        place = {name: i for i, name in enumerate(self.names)}
        return tuple(place[name] for name in self._dag.topological_order())

    def write(self, path: str | os.PathLike[str], *, format: str | None = None) -> None:  # noqa: A002
        """Write the network to a file; the end of the name says how: see `doxa.write_network`.

        Parameters
        ----------
        path : str or path-like
            Such as ``"network.json"``; packed if it ends in ``.gz``.
        format : {"json", "bif", "xmlbif", "net", "dsc", "xdsl", "uai"}, optional
            By the end of the name if left out.  A `GaussianNetwork` goes into ``"json"`` alone.

        Raises
        ------
        ArgumentError, FileError
            As `doxa.write_network`.
        """
        from doxa.models.network_files import write_network

        write_network(self, path, format=format)  # type: ignore[arg-type]  # it is one of the classes made of this

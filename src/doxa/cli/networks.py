"""`doxa convert` and `doxa sample`: networks from one format to another, and records drawn from them.

What `doxa learn` and `doxa fit` share to hand one network on: `--network FILE`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import doxa
from doxa.cli import options
from doxa.cli.words import refuse
from doxa.errors import ArgumentError
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.structure.averaging import PosteriorNetwork

__all__ = ["ToHandOn", "check_network", "convert", "sample", "write_network"]

ToHandOn = Annotated[
    Path | None,
    options.said(
        "Write one network to hand on to this file, with the posterior means of its tables: .bif, .net, .xdsl, .dsc, "
        ".xml, .uai or .json."
    ),
]


def check_network(path: Path | None, needed: Iterable[Path | None]) -> None:
    """Raise unless a network can be written to a file, before hours of sampling; ``needed`` are files that are read."""
    from doxa.models.network_files import ENDS
    from doxa.output import check_folder, is_same_file

    if path is None:
        return
    end = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    if end.lower() not in ENDS:
        refuse("--network", f"'{path}' must end in one of {', '.join(ENDS)}, also with .gz")
    check_folder(path, "network")
    for other in needed:
        if other is not None and is_same_file(path, other):
            refuse("--network", f"'{path}' is read by this command; give it another name")


def write_network(network: PosteriorNetwork, path: Path) -> None:
    """Write it, and say what it is."""
    network.write(path)
    print(f"\nOne network is in {printable(str(path))}: {printable(network.how)}.")


def convert(
    network: options.Network,
    target: Annotated[
        Path,
        typer.Argument(help="The file to write; its ending says the format, .dot of the graph alone.", metavar="FILE"),
    ],
) -> None:
    """Write a network in another format, or draw its graph for Graphviz."""
    from doxa.models import write_graph
    from doxa.models.graph_files import is_dot
    from doxa.output import is_same_file

    if is_same_file(network, target):
        raise ArgumentError(f"FILE is '{target}', which is the network itself; give another name")
    model = doxa.read_network(network)
    if is_dot(target) and not isinstance(model, doxa.MarkovNetwork):
        write_graph(model.dag, target)
    else:
        doxa.write_network(model, target)
    print(f"{len(model.names)} variables are in {printable(str(target))}.")


def sample(
    network: options.Network,
    output: Annotated[Path, typer.Option(help="The file to write: .csv, .json or .parquet.")],
    n: Annotated[int, typer.Option("--n", "-n", help="Records to draw.")] = 1000,
    missing: Annotated[float, typer.Option(help="Share of cells left blank, each by chance alone.")] = 0.0,
    seed: Annotated[
        int | None, typer.Option(help="Seed; the same seed gives the same records.", show_default=False)
    ] = None,
) -> None:
    """Draw records from a directed network."""
    import numpy as np
    import pandas as pd

    from doxa.output import check_output, write_frame

    check_output(output, network)
    model = doxa.read_network(network)
    if isinstance(model, doxa.MarkovNetwork):
        raise ArgumentError(f"network is '{network}', which has no directions; records are drawn from directed ones")
    table = model.simulate(n, np.random.default_rng(seed), missing=missing)
    codes, numbers = table.codes[table.row_index], table.numbers
    columns: dict[str, Any] = {}
    for j, (name, states) in enumerate(zip(table.names, table.states, strict=True)):
        if numbers is not None and not states:
            columns[name] = numbers[table.row_index, j]
        else:
            columns[name] = np.array([*states, None], dtype=object)[codes[:, j]]  # the last for -1
    write_frame(pd.DataFrame(columns), output)
    print(f"{n} records of {len(table.names)} variables are in {printable(str(output))}.")

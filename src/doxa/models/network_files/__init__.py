"""Networks from files and into files, by linear-time scanners that trust nothing.

Formats are told apart by the end of the name, each also with ``.gz``: BIF (``.bif``), XMLBIF (``.xml``, ``.xmlbif``,
``.bifxml``), Hugin's NET (``.net``), Microsoft's DSC (``.dsc``), GeNIe's XDSL (``.xdsl``), UAI (``.uai``, with
evidence in ``.uai.evid``), and JSON of our own (``.json``), which alone holds networks with numbers.  Whatever a file
holds, reading it ends in a network or in a `NetworkFileError` that says where and why, in time linear in the file, and
what a file declares is compared with `Limits` before memory is taken for it.  A refusal takes less memory than 20 times
the file, unpacked, and 64 KiB; those of files below half a megabyte take less than a second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import NamedTuple

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.gaussian import GaussianNetwork
from doxa.models.markov import MarkovNetwork
from doxa.models.network_files.bif import bif_pieces, dsc_pieces, read_bif, read_dsc
from doxa.models.network_files.json_nodes import json_pieces, read_json
from doxa.models.network_files.net import net_pieces, read_net
from doxa.models.network_files.source import Limits, NetworkFileError, Source, check_path, open_source, write_text
from doxa.models.network_files.uai import read_evidence_file, read_uai, uai_pieces, write_evidence_file
from doxa.models.network_files.xdsl import read_xdsl, xdsl_pieces
from doxa.models.network_files.xmlbif import read_xmlbif, xmlbif_pieces

__all__ = [
    "Limits",
    "NetworkFileError",
    "read_evidence_file",
    "read_network",
    "write_evidence_file",
    "write_network",
]

Network = CategoricalNetwork | GaussianNetwork | MarkovNetwork


class _Format(NamedTuple):
    ends: tuple[str, ...]  # of names
    read: Callable[[Source], Network]
    pieces: Callable[[CategoricalNetwork], Iterator[str]]  # of the text to write


_FORMATS = {
    "bif": _Format((".bif",), read_bif, bif_pieces),
    "xmlbif": _Format((".xml", ".xmlbif", ".bifxml"), read_xmlbif, xmlbif_pieces),
    "net": _Format((".net",), read_net, net_pieces),
    "dsc": _Format((".dsc",), read_dsc, dsc_pieces),
    "xdsl": _Format((".xdsl",), read_xdsl, xdsl_pieces),
    "uai": _Format((".uai",), read_uai, uai_pieces),
    "json": _Format((".json",), read_json, json_pieces),
}
ENDS = {end: kind for kind, form in _FORMATS.items() for end in form.ends}  # of names of network files


def read_network(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    limits: Limits | None = None,
) -> Network:
    """Read a network.

    Parameters
    ----------
    path : str or path-like
        A file of one of the formats; unpacked if its name ends in ``.gz``.
    format : {"bif", "xmlbif", "net", "dsc", "xdsl", "uai", "json"}, optional
        By the end of the name if left out.
    limits : Limits, optional
        The most that the file may hold or ask for.

    Returns
    -------
    CategoricalNetwork, GaussianNetwork or MarkovNetwork
        The second of JSON alone, the last of a UAI file of the kind MARKOV alone.  Variables stand in the order of the
        file.

    Raises
    ------
    NetworkFileError
        If the file cannot be read; ``path``, ``line``, ``column`` and ``cause`` tell why.
    ArgumentError, ArgumentTypeError
        If the format is unknown, or an argument is of another type.

    Notes
    -----
    Rows of a table that miss 1 by rounding to three decimals are divided by their sum; those that miss it by more are
    refused.  Names are kept as they are; UAI has none and knows X0, X1, ... unless doxa wrote the file.  JSON is also
    read in the form in which pgmpy keeps linear Gaussian networks.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rain.uai")
    ...     n_characters = path.write_text("BAYES 2  2 2  2  1 0  2 0 1  2 0.8 0.2  4 0.9 0.1 0.0 1.0")
    ...     network = read_network(path)
    >>> network.dag, network.tables["X1"][1].tolist()
    (Dag(2 nodes: X0 -> X1), [0.0, 1.0])
    """
    name = check_path(path)
    kind = _format(name, format)
    return _FORMATS[kind].read(open_source(name, limits, xml=kind in ("xmlbif", "xdsl")))


def write_network(
    network: Network,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
) -> None:
    """Write a network, whole or not at all; an older file is replaced in one step.

    Parameters
    ----------
    network : CategoricalNetwork, GaussianNetwork or MarkovNetwork
        The second in JSON only, the last in UAI only.
    path : str or path-like
        Packed if its name ends in ``.gz``.
    format : {"bif", "xmlbif", "net", "dsc", "xdsl", "uai", "json"}, optional
        By the end of the name if left out.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the format is unknown, or cannot hold the network or one of its names.
    FileError
        If the file cannot be written.

    Notes
    -----
    Probabilities are written with all their digits.  What is written is read again as the same network.  Names that a
    format cannot hold are left behind in comments, and other programs see words in their place: UAI has numbers alone,
    NET, DSC and XDSL have words of letters, digits and underlines for variables, and XDSL for states too.
    """
    name = check_path(path)
    kind = _format(name, format)
    if not isinstance(network, Network):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; give a CategoricalNetwork, a GaussianNetwork or a "
            "MarkovNetwork"
        )
    if isinstance(network, GaussianNetwork):
        if kind != "json":
            raise ArgumentError(
                f"network is a GaussianNetwork, which the format {kind!r} cannot hold; write JSON (.json)"
            )
        pieces = json_pieces(network)
    elif kind == "uai":
        pieces = uai_pieces(network)
    elif isinstance(network, MarkovNetwork):
        raise ArgumentError(f"network is a MarkovNetwork, which the format {kind!r} cannot hold; write UAI (.uai)")
    else:
        pieces = _FORMATS[kind].pieces(network)
    write_text(pieces, name, "network")


def _format(name: str, given: str | None) -> str:
    if given is not None:
        if given not in _FORMATS:
            raise ArgumentError(f"format is {given!r}; it must be one of {', '.join(map(repr, _FORMATS))}")
        return given
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    if suffixes[-1:] == [".evid"]:
        raise ArgumentError(f"path is {name!r}, which is evidence by its name; read it by read_evidence_file")
    if not suffixes or suffixes[-1] not in ENDS:
        ends = ", ".join(ENDS)
        raise ArgumentError(f"path is {name!r}; its end must be one of {ends}, also with .gz, or format must be given")
    return ENDS[suffixes[-1]]

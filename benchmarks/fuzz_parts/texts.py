"""Files of text and tables: whole ones to begin with, the words of their formats, and what is done with them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import doxa
from doxa.models import GaussianNetwork
from doxa.models.graph_files import read_graph, read_parents, write_graph
from doxa.models.network_files import read_evidence_file, write_evidence_file

from .mutations import changed_bytes, changed_json, changed_text

__all__ = ["Format", "text_formats"]


class Format(NamedTuple):
    """One kind of file."""

    end: str  # of the names of its files
    whole: Sequence[Path]  # sound files
    change: Callable[[np.random.Generator, Path, Path], None]  # a changed copy of the first at the second
    use: Callable[[Path, np.random.Generator], None]  # read it, and ask it something; DoxaError is a refusal
    is_linear: bool = True  # whether memory is bounded by 20 times the file
    beside: tuple[str, ...] = ()  # ends of the names of files that reading leaves beside it


@cache
def _content(whole: Path) -> bytes:
    return whole.read_bytes()


def _in_bytes(
    words: tuple[bytes, ...] = (), of_bytes: float = 0.2
) -> Callable[[np.random.Generator, Path, Path], None]:
    def change(rng: np.random.Generator, whole: Path, to: Path) -> None:
        data = _content(whole)
        to.write_bytes(changed_bytes(rng, data) if rng.random() < of_bytes else changed_text(rng, data, words))

    return change


def _in_tree(rng: np.random.Generator, whole: Path, to: Path) -> None:
    if rng.random() < 0.3:
        _in_bytes()(rng, whole, to)
    else:
        to.write_text(json.dumps(changed_json(rng, json.loads(_content(whole)))))


def _zipped(rng: np.random.Generator, whole: Path, to: Path) -> None:
    data = _content(whole)
    inside = rng.random() < 0.5
    to.write_bytes(gzip.compress(changed_text(rng, gzip.decompress(data))) if inside else changed_bytes(rng, data))


def _use_network(path: Path, rng: np.random.Generator) -> None:
    network = doxa.read_network(path)
    if rng.random() < 0.1 and len(network.names) < 20:
        doxa.infer(network, network.names[0], seed=1, draws=20, method="auto")


def _use_evidence(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    read_evidence_file(path, _network())


def _use_graph(path: Path, rng: np.random.Generator) -> None:
    (read_parents if rng.random() < 0.5 else read_graph)(path)


def _use_table(path: Path, rng: np.random.Generator) -> None:
    options: dict[str, Any] = [{}, {"bins": 2}, {"numbers": ["c"]}, {"missing": ["x"]}, {"columns": ["a", "b"]}][
        int(rng.integers(5))
    ]
    doxa.read_table(path, **options)


@cache
def _network() -> Any:
    graph = doxa.Dag.from_edges([("rain", "sprinkler"), ("rain", "wet grass"), ("sprinkler", "wet grass")])
    wet = [[[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]], [[0.2, 0.8], [0.01, 0.99], [1 / 3, 2 / 3]]]
    return doxa.CategoricalNetwork(
        graph,
        {"rain": [0.8, 0.2], "sprinkler": [[0.6, 0.3, 0.1], [0.9, 0.05, 0.05]], "wet grass": wet},
        {"rain": ["no", "yes"], "sprinkler": ["off", "on", "broken"], "wet grass": ["dry", "wet"]},
    )


_WORDS = {
    "bif": (b"network", b"variable", b"type", b"discrete", b"probability", b"table", b"default", b"property", b"|"),
    "xmlbif": (b"BIF", b"NETWORK", b"VARIABLE", b"NAME", b"OUTCOME", b"DEFINITION", b"FOR", b"GIVEN", b"TABLE"),
    "net": (b"net", b"node", b"states", b"potential", b"data", b"label", b"decision", b"utility", b"|"),
    "dsc": (b"belief", b"network", b"node", b"type", b"discrete", b"probability", b"default", b"|"),
    "xdsl": (b"smile", b"nodes", b"cpt", b"state", b"parents", b"probabilities", b"noisymax", b"deterministic", b"id"),
    "uai": (b"MARKOV", b"BAYES", b"0", b"1", b"2", b"3", b"-1"),
}


def text_formats(folder: Path) -> dict[str, Format]:
    """All of them, their sound files made in a folder."""
    network = _network()
    formats = {}
    for kind, words in _WORDS.items():
        end = ".xml" if kind == "xmlbif" else f".{kind}"
        doxa.write_network(network, folder / f"whole{end}")
        formats[kind] = Format(end, [folder / f"whole{end}"], _in_bytes(words), _use_network)
    mixed = GaussianNetwork(
        doxa.Dag.from_edges([("sex", "height"), ("height", "weight")]),
        {"height": ([165.0, 178.0], [[], []], [6.0, 7.0]), "weight": (-80.0, [0.9], 8.0)},
        {"sex": [0.5, 0.5]},
        {"sex": ["f", "m"]},
    )
    doxa.write_network(network, folder / "whole.json")
    doxa.write_network(mixed, folder / "mixed.json")
    formats["json"] = Format(".json", [folder / "whole.json", folder / "mixed.json"], _in_tree, _use_network)
    doxa.write_network(network, folder / "whole.bif.gz")
    formats["bif.gz"] = Format(".bif.gz", [folder / "whole.bif.gz"], _zipped, _use_network)
    write_evidence_file({"rain": "yes", "wet grass": "wet"}, network, folder / "whole.uai.evid")
    formats["evidence"] = Format(".uai.evid", [folder / "whole.uai.evid"], _in_bytes(of_bytes=0.4), _use_evidence)
    write_graph(network.dag, folder / "graph.dot")
    edges = folder / "edges.csv"
    edges.write_text('source,target,probability\na,b,0.75\nb,c,0.5\n"d, e",a,0.9\n')
    formats["graph csv"] = Format(".csv", [edges], _in_bytes((b"source", b"target")), _use_graph)
    formats["graph dot"] = Format(
        ".dot",
        [folder / "graph.dot"],
        _in_bytes((b"digraph", b"graph", b"subgraph", b"strict", b"->", b"[")),
        _use_graph,
    )
    return formats | _tables(folder)


def _tables(folder: Path) -> dict[str, Format]:
    plain = folder / "table.csv"
    rows = [f"{'xy'[i % 2]},{'pqr'[i % 3]},{i * 0.37:.3f},{'' if i % 5 else 'NA'}" for i in range(24)]
    plain.write_text("\n".join(["a,b,c,d", *rows]) + "\n")
    quoted = folder / "quoted.csv"
    quoted.write_text('"a";"b";"c";"d\n""e"""\n' + '"x";"p";"1.5";"y"\n"y";"q;";"2";""\n' * 4)
    packed = folder / "table.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    parquet = folder / "table.parquet"
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT * FROM '{plain}') TO '{parquet}' (FORMAT parquet)")
    return {
        "table csv": Format(".csv", [plain, quoted], _in_bytes(of_bytes=0.4), _use_table, False, (".counts",)),
        "table csv.gz": Format(".csv.gz", [packed], _zipped, _use_table, False, (".counts",)),
        "table parquet": Format(".parquet", [parquet], _in_bytes(of_bytes=1.0), _use_table, False, (".counts",)),
    }

"""Reference networks from the example models inside the pgmpy wheel, and records sampled from them.

The files are read where pgmpy is installed, without importing it.  This reader knows just the dialect that these
files are written in.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.models import Dag

VARIABLE = re.compile(r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{([^}]*)\}")
PROBABILITY = re.compile(r"probability\s*\(\s*([^|)]+?)\s*(?:\|\s*([^)]*?)\s*)?\)\s*\{([^}]*)\}")
ROW = re.compile(r"(?:\(([^)]*)\)|table)\s*([^;]*);")


@dataclass(frozen=True)
class ReferenceNetwork:
    dag: Dag
    states: tuple[tuple[str, ...], ...]
    tables: tuple[NDArray[np.float64], ...]  # [node]: (parent configurations..., states); parents in ``orders``
    orders: tuple[tuple[int, ...], ...]

    def sample(self, n: int, seed: int) -> Table:
        """Forward-sample ``n`` complete records."""
        rng = np.random.default_rng(seed)
        codes = np.zeros((n, self.dag.n_nodes), dtype=np.int64)
        for name in self.dag.topological_order():
            node = self.dag.names.index(name)
            rows = self.tables[node][tuple(codes[:, p] for p in self.orders[node])]
            cumulative = np.cumsum(np.broadcast_to(rows, (n, rows.shape[-1])), axis=1)
            draw = (rng.random((n, 1)) * cumulative[:, -1:] >= cumulative).sum(axis=1)
            codes[:, node] = np.minimum(draw, cumulative.shape[1] - 1)
        return Table.from_codes(self.dag.names, self.states, codes)


def network_file(name: str) -> Path:
    """Where a reference network is."""
    spec = find_spec("pgmpy")
    assert spec is not None, "pgmpy is not installed: pip install --no-deps -r requirements/networks.txt"
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "utils" / "example_models" / f"{name}.bif.gz"


def load_network(name: str) -> ReferenceNetwork:
    text = gzip.decompress(network_file(name).read_bytes()).decode()
    states = {m[1]: tuple(s.strip() for s in m[3].split(",")) for m in VARIABLE.finditer(text)}
    names = tuple(states)
    index = {node: i for i, node in enumerate(names)}
    tables: dict[int, NDArray[np.float64]] = {}
    orders: dict[int, tuple[int, ...]] = {}
    for child, given, body in PROBABILITY.findall(text):
        parents = [p.strip() for p in given.split(",")] if given else []
        table = np.full([len(states[p]) for p in parents] + [len(states[child])], np.nan)
        for configuration, numbers in ROW.findall(body):
            keys = [k.strip() for k in configuration.split(",")] if configuration else []
            at = tuple(states[p].index(k) for p, k in zip(parents, keys, strict=True))
            table[at] = [float(x) for x in numbers.split(",")]
        assert np.isfinite(table).all()
        tables[index[child]] = table
        orders[index[child]] = tuple(index[p] for p in parents)
    dag = Dag.from_edges([(names[p], names[c]) for c in range(len(names)) for p in orders[c]], names)
    return ReferenceNetwork(
        dag,
        tuple(states.values()),
        tuple(tables[i] for i in range(len(names))),
        tuple(orders[i] for i in range(len(names))),
    )

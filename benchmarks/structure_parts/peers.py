"""Other packages on PyPI beside the default sampler: same records and prior, same CPU time, errors against exact sums.

sumu 0.1.2 (source only) is the one that samples, or sums, the posterior of structures of discrete records.  Its C++
files were generated for Python 3.10 and earlier, and with Cython 3 its ``2**K`` is a float: so they are generated
afresh with Cython 0.29, against NumPy 1.26.  Its sampler, Gadget, then has four faults, all of them also in 0.1.0 and
0.1.1, and is measured as published and with them repaired (``REPAIRS``):

* where a difference of two sums cancels, sums kept beforehand should step in, but are kept under the wrong key
  (``ikbit_32``), and for two or more nodes their recursion starts from ``T & ~T``, which is empty: NaN or noise,
  which every run on Sachs and Child meets;
* the proposal that splits a part draws its nodes with replacement, and from the first part never more than one, which
  the acceptance probability does not know: the chain has another stationary distribution, and on Asia the error stays.

Its exact sums (aps) are sound.  Its prior is fixed, uniform over in-degrees.  Its BGe score, of numbers, has our prior;
the numbers that it is given are scaled as doxa scales them.

What is often reported as confidence in an edge is its share among the graphs that a greedy search finds in resampled
records: no posterior, and measured as what it is, beside exact sums under the uniform prior, since such a search has
none.  An edge that the class of a graph leaves undirected counts as one half either way.  pyAgrum's BDeu score departs
from the formula where cells are many (-910.3 instead of -897.0 for three parents in Sachs).  pgmpy's is right, but what
its search finds depends on the order of a set of names, so that the seed of their hashes is fixed.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.data.scaled import scaled
from doxa.structure import Auto, BGe
from doxa.structure.exact.enumeration import exact_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.kind import FamilyKind
from doxa.structure.families.scores import BDeu
from doxa.structure.limits import Limits
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.priors import make_prior
from structure_parts.chains import SEEDS, WARMUP, caps, compile_kernels, load, run_for, spread
from support.networks import load_network

# network, cap on parents of the exact sum and of doxa, CPU seconds, sumu's candidate parents (then up to 3 of any)
CASES = (
    ("asia", None, 2.0, 7), ("asia", None, 10.0, 7), ("sachs", None, 10.0, 10), ("child", 3, 10.0, 8),
    ("10 numbers", None, 10.0, 9), ("16 numbers", None, 10.0, 8),
)  # fmt: skip
CHAINS = (1, 4, 16)  # tempered chains of sumu
REPEATS = max(1, SEEDS)
APS_NODES = 16  # its exact sums take three times as long for each node more: 7 s for 16
PLAIN = {"pyagrum": ("pyagrum==3.3.1", "pandas"), "pgmpy": ("pgmpy==1.1.2",)}

SUMS, KEEP = "CandidateRestrictedScore/CandidateRestrictedScore.hpp", "m_tau_cc[v][(bm64) U << 32 | T] ="
REPAIRS = (  # file, wrong, right
    ("bitmap/bitmap.hpp", "(newmask | ((1 << k) - 1)) & bitmap", "newmask | (((1 << k) - 1) & bitmap)"),
    (SUMS, "T1 = T & ~T;", "T1 = T & -T;"),
    (SUMS, KEEP, f"if (T2) {KEEP}"),
    ("mcmc_moves.py", "(list(R[i_star]), c_star)", "(list(R[i_star]), c_star, replace=False)"),
    ("mcmc_moves.py", "sum_binoms[i_star-1] + c", "(i_star and sum_binoms[i_star-1]) + c"),
)

WITHOUT = (  # what was looked into and has no row
    "bnlearn 1.1.0: calls the searches of pgmpy",
    "causal-learn 0.1.4.8: one graph a search (GES, exact search), no posterior",
    "dibs-lib 1.0 and 1.3.3: likelihoods of continuous records only (linear and nonlinear Gaussian)",
    "torchgfn 2.4.1: its environment of structures knows the BGe score only, of continuous records",
    "trilearn 2.0.5: undirected decomposable graphs, another posterior",
    "avici 1.0.7: edge probabilities of a network trained beforehand on other records, no BDeu; not tried",
    "netmc 0.0.1: empty classes; structure-learning 0.1.0: makes records, learns nothing",
    "jax-dag-gflownet: its repository holds no package to install, only a clone to run",
    "structure_learning of the Human Technology Institute: not on PyPI, where the name is another's",
)


class Answer(NamedTuple):
    """What one run of another package came to."""

    edges: NDArray[np.float64]  # (n_nodes, n_nodes)
    seconds: float  # CPU, of the sampling or searching process, imports left out
    n_found: int  # iterations, graphs or sums


# Each of these is sent as text to the Python of its package, which knows nothing of doxa: imports are inside.


def sumu_gadget(data: Any, seconds: float, seed: int, k: int, chains: int) -> tuple[Any, float, int]:
    """Iterations are fitted to the time by two short runs, which are not charged; warm-up is the first tenth."""
    import time

    import numpy as np
    from sumu.gadget import Data, Gadget

    n = data.shape[1]

    def run(iterations: int) -> tuple[Any, float]:
        begin = time.process_time()
        discrete = data.dtype.kind == "i"
        settings = {"ess": 1, "max_id": -1, "cp_algo": "top", "cp_path": None, "tolerance": 2.0**-32}
        settings["scoref"] = "bdeu" if discrete else "bge"
        lengths = {"burn_in": iterations // 10, "iterations": iterations, "thinning": 10}
        gadget = Gadget(data=Data(data, discrete=discrete), K=k, d=min(k, 3), mc3_chains=chains, **settings, **lengths)
        graphs, _ = gadget.sample()
        edges = np.zeros((n, n))
        for families in graphs:
            for family in families:
                if len(family) > 1:
                    edges[list(family[1]), family[0]] += 1
        return edges / len(graphs), time.process_time() - begin

    np.random.seed(seed)  # noqa: NPY002 (the generator that sumu draws from)
    run(100)
    short, longer = run(200)[1], run(1200)[1]
    iterations = int(200 + (seconds - short) / (longer - short) * 1000)
    return *run(iterations), iterations


def sumu_aps(data: Any, seconds: float, seed: int) -> tuple[Any, float, int]:  # noqa: ARG001 (exact)
    import time

    import numpy as np
    import sumu
    from sumu.gadget import Data, LocalScore

    begin, n = time.process_time(), data.shape[1]
    others = np.array([[u for u in range(n) if u != v] for v in range(n)], dtype=np.int32)
    discrete = data.dtype.kind == "i"
    local = LocalScore(Data(data, discrete=discrete), scoref="bdeu" if discrete else "bge", maxid=-1, ess=1)
    scores = local.all_candidate_restricted_scores(others)
    weights, sets, edges = np.exp(sumu.aps(scores, normalize=True)), np.arange(2 ** (n - 1)), np.zeros((n, n))
    for bit in range(n - 1):
        edges[others[:, bit], np.arange(n)] = weights[:, sets >> bit & 1 == 1].sum(axis=1)
    return edges, time.process_time() - begin, 1


def pyagrum_bootstrap(data: Any, seconds: float, seed: int) -> tuple[Any, float, int]:
    """Greedy hill climbing over BDeu 1 in resampled records; classes, not graphs, are counted."""
    import time

    import numpy as np
    import pandas as pd
    import pyagrum as gum

    rng, n = np.random.default_rng(seed), data.shape[1]
    names, edges, count, took = [f"x{v}" for v in range(n)], np.zeros((n, n)), 0, 0.0
    states = gum.BayesNet()
    for name, n_states in zip(names, data.max(axis=0) + 1, strict=True):
        states.add(gum.LabelizedVariable(name, name, int(n_states)))
    begin = time.process_time()
    while (now := time.process_time()) - begin + took < seconds:
        records = pd.DataFrame(data[rng.integers(len(data), size=len(data))], columns=names)
        learner = gum.BNLearner(records, states)
        learner.setNumberOfThreads(1)
        learner.useScoreBDeu()
        learner.useGreedyHillClimbing()
        found = learner.learnBN()  # kept: its class points into it
        graph = gum.EssentialGraph(found)
        place = {graph.idFromName(name): v for v, name in enumerate(names)}
        for a, b in graph.arcs():
            edges[place[a], place[b]] += 1.0
        for a, b in graph.edges():
            edges[place[a], place[b]] += 0.5
            edges[place[b], place[a]] += 0.5
        count, took = count + 1, time.process_time() - now
    return edges / count, time.process_time() - begin, count


def pgmpy_bootstrap(data: Any, seconds: float, seed: int) -> tuple[Any, float, int]:
    """Hill climbing with a tabu list over BDeu 1 in resampled records; classes, not graphs, are counted."""
    import logging
    import time

    import numpy as np
    import pandas as pd

    logging.disable(logging.CRITICAL)
    from pgmpy.causal_discovery import HillClimbSearch
    from pgmpy.structure_score import BDeu

    rng, n = np.random.default_rng(seed), data.shape[1]
    names = [f"x{v}" for v in range(n)]
    states = {name: list(range(data[:, v].max() + 1)) for v, name in enumerate(names)}
    edges, count, took, begin = np.zeros((n, n)), 0, 0.0, time.process_time()
    while (now := time.process_time()) - begin + took < seconds:
        drawn = data[rng.integers(len(data), size=len(data))]
        records = pd.DataFrame({x: pd.Categorical(drawn[:, v], categories=states[x]) for v, x in enumerate(names)})
        score = BDeu(records, equivalent_sample_size=1, state_names=states)
        graph = HillClimbSearch(scoring_method=score, return_type="pdag", show_progress=False).fit(records)
        for a, b in graph.causal_graph_.directed_edges:
            edges[names.index(a), names.index(b)] += 1.0
        for a, b in graph.causal_graph_.undirected_edges:
            edges[names.index(a), names.index(b)] += 0.5
            edges[names.index(b), names.index(a)] += 0.5
        count, took = count + 1, time.process_time() - now
    return edges / count, time.process_time() - begin, count


def run(
    python: str, runner: Callable[..., tuple[Any, float, int]], data: NDArray[Any], *arguments: float
) -> Answer | str:
    """The answer, or the last line of the error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npy"
        np.save(path, data)
        code = "\n".join(
            (
                "from typing import Any\nimport json\nimport numpy as np\n",
                inspect.getsource(runner),
                f"edges, seconds, count = {runner.__name__}(np.load({str(path)!r}), *{arguments!r})",
                "print(json.dumps([edges.tolist(), seconds, count]))",
            )
        )
        strict = ["-W", "error:invalid value:RuntimeWarning"] if runner is sumu_gadget else []  # NaN is no answer
        environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [python, *strict, "-c", code], capture_output=True, text=True, cwd=folder, env=environment
        )
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    edges, seconds, count = json.loads(done.stdout.splitlines()[-1])
    return Answer(np.array(edges), seconds, count)


def install(folder: Path, name: str) -> str:
    """Make an environment for ``name``, unless ``folder`` has a finished one; returns its Python."""
    python, finished = str(folder / name / "bin" / "python"), folder / name / "finished"
    if finished.exists():
        return python
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    quiet: dict[str, Any] = {"check": True, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder / name)], check=True)
    if name in PLAIN:
        subprocess.run([*pip, "install", *PLAIN[name]], **quiet)
    else:
        install_sumu(folder / name, pip, quiet, repaired=name == "repaired")
    finished.touch()
    return python


def install_sumu(folder: Path, pip: list[str], quiet: dict[str, Any], *, repaired: bool) -> None:
    sources = ["--no-deps", "--no-build-isolation", "--no-binary", "sumu"]
    subprocess.run([*pip, "install", "setuptools<70", "wheel", "cython<3", "numpy<2", "scipy"], **quiet)
    subprocess.run([*pip, "download", *sources, "--dest", str(folder), "sumu==0.1.2"], **quiet)
    with tarfile.open(folder / "sumu-0.1.2.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / "sumu-0.1.2"
    for written in unpacked.rglob("_*.pyx"):
        written.with_suffix(".cpp").unlink(missing_ok=True)
    for file, wrong, right in REPAIRS if repaired else ():
        path = unpacked / "sumu" / file
        text = path.read_text()
        assert wrong in text
        path.write_text(text.replace(wrong, right))
    subprocess.run([*pip, "install", "--no-deps", "--no-build-isolation", str(unpacked)], **quiet)


def peers() -> None:
    """PEERS_FOLDER keeps the environments for another time."""
    kept = os.environ.get("PEERS_FOLDER")
    with tempfile.TemporaryDirectory() as temporary:
        pythons = {}
        for name in ("published", "repaired", *PLAIN):
            try:
                pythons[name] = install(Path(kept or temporary), name)
            except subprocess.CalledProcessError as error:
                print(f"{name}: could not be installed, {' '.join(map(str, error.cmd))} failed", flush=True)
        compile_kernels(Auto())
        small = load_network("asia").sample(100, seed=1)
        exact_posterior(FamilyScores(small), caps(small))  # compiled, too
        print(
            f"1000 records, BDeu 1, or 200, BGe; {REPEATS} seeds; first {WARMUP:.0%} discarded; mean and largest error "
            "of the edge probabilities; scores and tables included",
            flush=True,
        )
        for name, cap, seconds, k in CASES:
            compare(pythons, name, cap, seconds, k)
    print("no row:", *WITHOUT, sep="\n  ")


def compare(pythons: dict[str, str], name: str, cap: int | None, seconds: float, k: int) -> None:
    if name.endswith("numbers"):
        table, kind = linear(int(name.split()[0]), 200, seed=1), BGe()
        data = np.ascontiguousarray(scaled(table).values.T[table.row_index])
    else:
        table, kind = load_network(name).sample(1000, seed=1), BDeu(1.0)
        data = table.codes[table.row_index].astype(np.int32)
        assert (table.n_states == table.codes.max(axis=0) + 1).all()  # they know only the states that they see
    limits = caps(table, cap)
    priors = ("in_degree", "uniform") if isinstance(kind, BDeu) else ("in_degree",)
    for prior in priors:
        begin = time.process_time()
        scores = FamilyScores(table, kind, make_prior(table.names, prior))
        exact = exact_posterior(scores, limits).edge_probabilities
        took = time.process_time() - begin
        print(f"{name}, {seconds:.0f} CPU s, {prior} prior: exact sum by doxa {took:.2f} CPU s", flush=True)
        if prior == "uniform":
            for package, runner in (("pyagrum", pyagrum_bootstrap), ("pgmpy", pgmpy_bootstrap)):
                who = f"{package}, bootstrap of a greedy search"
                theirs(pythons.get(package), who, runner, data, exact, seconds)
        else:
            if len(limits.max_parents) <= APS_NODES:
                theirs(pythons.get("repaired"), "sumu, aps (exact)", sumu_aps, data, exact, seconds)
            for how, chains in (("published", 1), *(("repaired", chains) for chains in CHAINS)):
                who = f"sumu {how}, {chains} chain{'s' * (chains > 1)}"
                theirs(pythons.get(how), who, sumu_gadget, data, exact, seconds, k, chains)
        ours(table, kind, prior, limits, exact, seconds)


def linear(n: int, n_rows: int, seed: int) -> Table:
    """Rows of a random linear Gaussian network, two parents at most."""
    rng, values = np.random.default_rng(seed), np.zeros((n_rows, n))
    for j in range(n):
        parents = rng.choice(j, size=min(j, int(rng.integers(0, 3))), replace=False)
        values[:, j] = values[:, parents] @ rng.uniform(0.3, 1.0, len(parents)) + rng.normal(size=n_rows)
    names = [f"x{j}" for j in range(n)]
    return Table.from_codes(names, [()] * n, np.zeros(values.shape, dtype=int), numbers=values)


def theirs(
    python: str | None,
    who: str,
    runner: Callable[..., tuple[Any, float, int]],
    data: NDArray[Any],
    exact: NDArray[np.float64],
    seconds: float,
    *settings: int,
) -> None:
    if python is None:
        return
    repeats = 1 if runner is sumu_aps else REPEATS
    answers = [run(python, runner, data, seconds, seed, *settings) for seed in range(1, repeats + 1)]
    kept = [answer for answer in answers if isinstance(answer, Answer)]
    failed = [answer for answer in answers if isinstance(answer, str)]
    if kept:
        took, count = median(answer.seconds for answer in kept), median(answer.n_found for answer in kept)
        unit = {"sumu_gadget": "iterations", "sumu_aps": "sum"}.get(runner.__name__, "graphs")
        show(who, [answer.edges for answer in kept], exact, f"{count:.0f} {unit} in {took:.2f} CPU s (median)")
    if failed:
        print(f"  {who:38s} {len(failed)} of {len(answers)} runs fail: {failed[0]}", flush=True)


def ours(
    table: Table, kind: FamilyKind, prior: str, limits: Limits, exact: NDArray[np.float64], seconds: float
) -> None:
    chains = []
    for seed in range(1, REPEATS + 1):
        begin = time.process_time()
        scores = FamilyScores(table, kind, make_prior(table.names, prior))
        sampler = StructureSampler(Auto(), scores, limits, thin=20)
        rng = np.random.default_rng(seed)
        chains.append(run_for(sampler, sampler.init(rng), rng, seconds, begin))
    steps, took = median(chain.n_steps for chain in chains) / 1e6, median(chain.seconds for chain in chains)
    show("doxa, auto", [chain.edges for chain in chains], exact, f"{steps:.1f} million steps in {took:.2f} CPU s")


def show(who: str, found: list[NDArray[np.float64]], exact: NDArray[np.float64], more: str) -> None:
    off = ~np.eye(len(exact), dtype=bool)
    errors = [np.abs(edges - exact)[off] for edges in found]
    means, largest = [float(error.mean()) for error in errors], [float(error.max()) for error in errors]
    print(f"  {who:38s} mean {spread(means)}, largest {spread(largest, 4)}; {more}; {load()}", flush=True)

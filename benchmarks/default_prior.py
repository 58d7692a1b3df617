"""Which prior over graphs is regular under sparse counts: noise, known graphs, held-out rows.  Exact sums throughout.

    python benchmarks/default_prior.py [noise | known | held_out | real | all]

``noise``     expected number of edges on independent columns: 12 of them, 2 to 10 states, 30 to 10 000 rows, equal
              shares (bins by quantiles, q) or bell-shaped ones (bins of equal width, w).
``known``     records of Asia, Sachs and random graphs on ten nodes: log and Brier scores of adjacency a pair, true and
              spurious edges above one half, and nats a held-out row.
``held_out``  nats a held-out row on eleven random columns of Child, Insurance, Alarm and Hailfinder.
``real``      the same on real tables, measurements binned by quantiles; half of the rows held out.

All tables of one family share a Dirichlet prior of equivalent sample size 1.  A candidate is a prior over numbers of
parents k, and a cap on the parents' configurations q or on their number; N is the number of rows.  ``degree`` is
P(k) = 1/n, spread over the sets of that size; ``size a`` is P(k) ~ n^(-ak), spread likewise, ``halved`` is (2n)^(-k);
``odds x`` adds x for each edge.  ``bds`` spreads the equivalent sample size over the configurations that occur
(Scutari 2016).  ``mixture`` leaves it to the data how sparse the graph is: four of the others, equally probable.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from doxa._jit import hot
from doxa.data import Table, datasets
from doxa.models.bits import unpack_rows
from doxa.structure.exact.dag_sums import log_sum_over_dags, sum_over_dags
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.counting import counting_scratch, group_family
from doxa.structure.families.score_table import build_score_table
from doxa.structure.families.scores import log_ratio
from doxa.structure.limits import capped
from support.networks import load_network

SEEDS = int(os.environ.get("BENCH_SEEDS", "3"))
DRAWS = 200
KNOWN = ("asia", "sachs", "random")
FLOOR = 1e-6  # of a probability in a log score


class Sizes(NamedTuple):
    """What a prior may look at: of each set of parents, and of each child."""

    n: int
    rows: int
    parents: NDArray[np.int64]  # (2^n,)
    log_q: NDArray[np.float64]  # (2^n,) log of the number of configurations
    free: NDArray[np.float64]  # (n, 1) log(r - 1)


class Candidate(NamedTuple):
    name: str
    log_priors: tuple[Callable[[Sizes], Any], ...]  # more than one: equally probable beforehand, the data choose
    allowed: Callable[[Sizes], Any] = lambda s: s.parents >= 0
    score: str = "bdeu"


def uniform(s: Sizes) -> Any:
    return np.zeros(len(s.parents))


def size(power: float, times: float = 1.0) -> Callable[[Sizes], Any]:
    def log_prior(s: Sizes) -> Any:
        by_size = [
            -k * (power * math.log(s.n) + math.log(times)) - math.log(max(1, math.comb(s.n - 1, k)))
            for k in range(s.n + 1)
        ]
        return np.array(by_size)[s.parents]

    return log_prior


def odds(each: float) -> Callable[[Sizes], Any]:
    return lambda s: each * s.parents


def rows_each(least: float) -> Callable[[Sizes], Any]:
    return lambda s: s.log_q <= max(0.0, math.log(s.rows / least)) + 1e-9


def free_cells(s: Sizes) -> Any:
    return (s.log_q + s.free <= math.log(s.rows) + 1e-9) | (s.parents == 0)


CANDIDATES = (
    Candidate("uniform", (uniform,)),
    Candidate("uniform, k <= 3", (uniform,), lambda s: s.parents <= 3),
    Candidate("uniform, q <= N", (uniform,), rows_each(1)),
    Candidate("uniform, q <= N/5", (uniform,), rows_each(5)),
    Candidate("uniform, q <= N/10", (uniform,), rows_each(10)),
    Candidate("degree", (size(0.0),)),
    Candidate("degree, q <= N", (size(0.0),), rows_each(1)),
    Candidate("odds -2, q <= N", (odds(-2.0),), rows_each(1)),
    Candidate("odds -4, q <= N", (odds(-4.0),), rows_each(1)),
    Candidate("size 1/2, q <= N", (size(0.5),), rows_each(1)),
    Candidate("size 3/4, q <= N", (size(0.75),), rows_each(1)),
    Candidate("size 1", (size(1.0),)),
    Candidate("size 1, q <= N", (size(1.0),), rows_each(1)),
    Candidate("size 1, q <= N/5", (size(1.0),), rows_each(5)),
    Candidate("size 1, q(r-1) <= N", (size(1.0),), free_cells),
    Candidate("halved, q <= N", (size(1.0, 2.0),), rows_each(1)),
    Candidate("mixture, q <= N", (uniform, size(0.0), size(0.5), size(1.0)), rows_each(1)),
    Candidate("bds", (uniform,), score="bds"),
    Candidate("bds, q <= N", (uniform,), rows_each(1), "bds"),
    Candidate("bds, size 1, q <= N", (size(1.0),), rows_each(1), "bds"),
)


def sizes_of(table: Table) -> Sizes:
    n_states = np.array([len(s) for s in table.states])
    n = len(n_states)
    members = np.arange(2**n)[:, None] >> np.arange(n) & 1
    free = np.log(np.maximum(1, n_states - 1))[:, None]
    return Sizes(n, int(table.counts.sum()), members.sum(axis=1), members @ np.log(n_states), free)


def bdeu_scores(table: Table) -> NDArray[np.float64]:
    """Log scores of all families, (n, 2^n), -inf where a node would be its own parent."""
    n = len(table.names)
    found = build_score_table(
        FamilyScores(table), capped([n - 1] * n), max_size=n - 1, max_families=2**62, keep_within=np.inf
    )
    scores = np.full((n, 2**n), -np.inf)
    for child, (begin, end) in enumerate(pairwise(found.first.tolist())):
        scores[child, found.sets[begin:end, 0].astype(np.int64)] = found.log_weight[begin:end]
    return scores


@hot
def _bds(child: int, parents: Any, data: Any, scratch: Any, totals: Any, cells: Any) -> float:
    columns, weights, n_states = data
    n_configs, n_cells, _ = group_family(columns, n_states, child, parents, scratch)
    totals[:n_configs] = 0
    cells[:n_cells] = 0
    for row in range(weights.size):
        totals[scratch[0][row]] += weights[row]
        cells[scratch[1][row]] += weights[row]
    occurring = 0
    for label in range(n_configs):
        occurring += totals[label] > 0
    log_alpha = -math.log(occurring)
    log_cell = log_alpha - math.log(n_states[child])
    score = 0.0
    for label in range(n_configs):
        if totals[label] > 0:
            score -= log_ratio(float(totals[label]), math.exp(log_alpha), log_alpha)
    for label in range(n_cells):
        if cells[label] > 0:
            score += log_ratio(float(cells[label]), math.exp(log_cell), log_cell)
    return score


@hot
def _all_bds(data: Any, parents: Any, scratch: Any, totals: Any, cells: Any, out: Any) -> None:
    for child in range(out.shape[0]):
        for mask in range(out.shape[1]):
            if not mask >> child & 1:
                parents[0] = np.uint64(mask)
                out[child, mask] = _bds(child, parents, data, scratch, totals, cells)


def bds_scores(table: Table) -> NDArray[np.float64]:
    """`bdeu_scores` for BDs."""
    n = len(table.names)
    scratch = counting_scratch(len(table.counts))
    out = np.full((n, 2**n), -np.inf)
    data = FamilyScores(table).data
    one, totals, cells = np.zeros(1, dtype=np.uint64), np.zeros(len(scratch[2])), np.zeros(len(scratch[2]))
    _all_bds(data, one, scratch, totals, cells, out)
    return out


class Posterior:
    """The exact posterior under one candidate; several priors weigh what the data make of them."""

    def __init__(self, scores: NDArray[np.float64], candidate: Candidate, sizes: Sizes, names: tuple[str, ...]) -> None:
        self.parts, log_weights = [], []
        for log_prior in candidate.log_priors:
            of_prior = np.where(candidate.allowed(sizes) & np.isfinite(scores), log_prior(sizes), -np.inf)
            self.parts.append(sum_over_dags(scores + of_prior, names, 1))
            normaliser = log_sum_over_dags(of_prior, 1) if len(candidate.log_priors) > 1 else 0.0
            log_weights.append(self.parts[-1].log_evidence - normaliser)
        weights = np.exp(np.array(log_weights) - max(log_weights))
        self.weights = weights / weights.sum()

    @property
    def edge_probabilities(self) -> NDArray[np.float64]:
        return np.einsum("p,pij->ij", self.weights, [part.edge_probabilities for part in self.parts])

    def draw(self, n_draws: int, rng: np.random.Generator) -> NDArray[np.uint64]:
        numbers = rng.multinomial(n_draws, self.weights)
        return np.concatenate([p.draw(int(k), rng) for p, k in zip(self.parts, numbers, strict=True)])


def posteriors(table: Table) -> Iterator[tuple[Candidate, Posterior]]:
    sizes = sizes_of(table)
    scores = {"bdeu": bdeu_scores(table), "bds": bds_scores(table)}
    for candidate in CANDIDATES:
        yield candidate, Posterior(scores[candidate.score], candidate, sizes, table.names)


def held_out(posterior: Posterior, train: NDArray[Any], new: NDArray[Any], n_states: Any, score: str) -> float:
    """Nats a row of ``new``, averaged over graphs drawn from the posterior; tables at their posterior means."""
    n = len(n_states)
    drawn = posterior.draw(DRAWS, np.random.default_rng(0))
    parents = unpack_rows(drawn, n).transpose(0, 2, 1)  # [draw, child, parent]
    log_p = np.zeros((DRAWS, len(new)))
    for child in range(n):
        families, which = np.unique(parents[:, child], axis=0, return_inverse=True)
        of_family = np.array([_log_means(child, np.flatnonzero(f), train, new, n_states, score) for f in families])
        log_p += of_family[which.ravel()]
    return float(-(logsumexp(log_p, axis=0) - math.log(DRAWS)).mean())


def _log_means(child: int, parents: Any, train: Any, new: Any, n_states: Any, score: str) -> NDArray[np.float64]:
    """Log posterior mean of each new row's cell in one family."""
    config, new_config = np.zeros(len(train), dtype=np.int64), np.zeros(len(new), dtype=np.int64)
    for parent in parents:
        config = config * n_states[parent] + train[:, parent]
        new_config = new_config * n_states[parent] + new[:, parent]
    seen, label, totals = np.unique(config, return_inverse=True, return_counts=True)
    r = int(n_states[child])
    cells = np.bincount(label * r + train[:, child], minlength=len(seen) * r)
    at = np.minimum(np.searchsorted(seen, new_config), len(seen) - 1)
    met = seen[at] == new_config
    q = float(len(seen)) if score == "bds" else float(np.prod(n_states[parents], dtype=np.float64))
    total = np.where(met, totals[at], 0)
    cell = np.where(met, cells[at * r + new[:, child]], 0)
    return np.asarray(np.log((cell + 1 / (q * r)) / (total + 1 / q)))


def table_of(codes: NDArray[Any], n_states: Any) -> Table:
    names = tuple(f"x{i}" for i in range(codes.shape[1]))
    return Table.from_codes(names, [tuple(map(str, range(r))) for r in n_states], codes)


def print_table(title: str, rows: dict[str, list[float]], heads: list[Any], form: str = "9.3f") -> None:
    print(f"\n{title}\n{'':22}" + "".join(f"{h!s:>9}" for h in heads))
    for name, values in rows.items():
        print(f"{name:22}" + "".join(f"{v:{form}}" for v in values), flush=True)


# -- noise ----------------------------------------------------------------------------------------------------------


def noise_codes(rows: int, states: int, even: bool, seed: int) -> NDArray[np.int64]:
    values = np.random.default_rng([seed, rows, states]).normal(size=(rows, 12))
    if even:
        return np.asarray(values.argsort(axis=0).argsort(axis=0) * states // rows)
    low, high = values.min(axis=0), values.max(axis=0)
    return np.minimum((values - low) / (high - low) * states, states - 1).astype(np.int64)


def noise(all_rows: tuple[int, ...] = (30, 100, 300, 1000, 3000, 10000)) -> None:
    kinds = [(r, even) for even in (True, False) for r in (2, 3, 4, 6, 10)]
    found = {(c.name, rows): np.zeros((len(kinds), SEEDS)) for c in CANDIDATES for rows in all_rows}
    for rows in all_rows:
        for k, (states, even) in enumerate(kinds):
            for seed in range(SEEDS):
                table = table_of(noise_codes(rows, states, even, seed), [states] * 12)
                for candidate, posterior in posteriors(table):
                    found[candidate.name, rows][k, seed] = posterior.edge_probabilities.sum()
        mean = {c.name: [*found[c.name, rows].mean(axis=1), found[c.name, rows].max()] for c in CANDIDATES}
        heads = [f"{r}{'q' if even else 'w'}" for r, even in kinds]
        print_table(f"noise, {rows} rows: edges, mean of {SEEDS} seeds; states, q/w bins", mean, [*heads, "worst"])
    worst = {c.name: [found[c.name, rows].mean(axis=1).max() for rows in all_rows] for c in CANDIDATES}
    print_table("noise: edges, worst of the ten kinds of columns", worst, list(all_rows))


# -- known graphs ---------------------------------------------------------------------------------------------------


def random_graph(seed: int, n: int = 10) -> tuple[NDArray[np.bool_], NDArray[np.int64], Callable[[int, Any], Any]]:
    """Adjacency, numbers of states and a sampler of records: 1-3 parents where so many come before, flat Dirichlets."""
    rng = np.random.default_rng([seed, n])
    n_states = rng.integers(2, 5, n)
    order = rng.permutation(n)
    parents = {
        int(v): np.sort(rng.choice(order[:i], min(i, int(rng.integers(1, 4))), replace=False))
        for i, v in enumerate(order)
    }
    tables = {v: rng.dirichlet(np.ones(n_states[v]), size=tuple(n_states[p])) for v, p in parents.items()}
    adjacency = np.zeros((n, n), dtype=np.bool_)
    for v, p in parents.items():
        adjacency[p, v] = True

    def sample(rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        codes = np.zeros((rows, n), dtype=np.int64)
        for v in order:
            share = np.broadcast_to(tables[v][tuple(codes[:, p] for p in parents[v])], (rows, n_states[v]))
            codes[:, v] = np.minimum((rng.random((rows, 1)) >= share.cumsum(axis=1)).sum(axis=1), n_states[v] - 1)
        return codes

    return adjacency, n_states, sample


def network_records(name: str, rows: int, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    network = load_network(name)
    adjacency = np.zeros((len(network.states),) * 2, dtype=np.bool_)
    for child, parents in enumerate(network.orders):
        adjacency[list(parents), child] = True
    table = network.sample(rows, seed)
    return adjacency, np.array([len(s) for s in network.states]), table.codes[table.row_index].astype(np.int64)


def known_case(name: str, rows: int, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.int64], Any, Any]:
    if name == "random":
        adjacency, n_states, sample = random_graph(seed)
        codes = sample(rows + 1000, np.random.default_rng([seed, rows]))
    else:
        adjacency, n_states, codes = network_records(name, rows + 1000, 100 * rows + seed)
    return adjacency, n_states, codes[:rows], codes[rows:]


def known(all_rows: tuple[int, ...] = (30, 100, 300, 1000, 3000), names: tuple[str, ...] = KNOWN) -> None:
    measures = ("log", "brier", "true", "false", "nats")
    for name in names:
        found: dict[tuple[str, int], list[list[float]]] = {}
        for rows in all_rows:
            for seed in range(SEEDS):
                adjacency, n_states, train, new = known_case(name, rows, seed)
                upper = np.triu_indices(len(n_states), 1)
                truth = (adjacency | adjacency.T)[upper]
                for candidate, posterior in posteriors(table_of(train, n_states)):
                    pairs = (posterior.edge_probabilities + posterior.edge_probabilities.T)[upper]
                    right = np.where(truth, pairs, 1 - pairs)
                    found.setdefault((candidate.name, rows), []).append(
                        [
                            float(-np.log(np.maximum(right, FLOOR)).mean()),
                            float(((pairs - truth) ** 2).mean()),
                            float((truth & (pairs > 0.5)).sum()),
                            float((~truth & (pairs > 0.5)).sum()),
                            held_out(posterior, train, new, n_states, candidate.score),
                        ]
                    )
        total = int(truth.sum()) if name != "random" else "about 18"
        for m, measure in enumerate(measures):
            means = {c.name: [np.mean([f[m] for f in found[c.name, rows]]) for rows in all_rows] for c in CANDIDATES}
            print_table(f"{name} ({total} edges), {measure}, mean of {SEEDS}", means, list(all_rows))


# -- held-out rows --------------------------------------------------------------------------------------------------


def predictive(cases: dict[Any, list[tuple[Any, Any, Any]]], title: str) -> None:
    """Nats a held-out row; all but the first line as differences from the first candidate."""
    found = {c.name: np.zeros(len(cases)) for c in CANDIDATES}
    for k, tables in enumerate(cases.values()):
        for n_states, train, new in tables:
            for candidate, posterior in posteriors(table_of(train, n_states)):
                loss = held_out(posterior, train, new, n_states, candidate.score)
                found[candidate.name][k] += loss / len(tables)
    first = CANDIDATES[0].name
    print_table(title, {c.name: [*found[c.name], found[c.name].mean()] for c in CANDIDATES}, [*cases, "mean"])
    rest = {c.name: found[c.name] - found[first] for c in CANDIDATES[1:]}
    print_table(f"{title}: less {first}", {k: [*v, v.mean()] for k, v in rest.items()}, [*cases, "mean"], "+9.3f")


def held_out_part(all_rows: tuple[int, ...] = (30, 100, 300, 1000)) -> None:
    for rows in all_rows:
        cases: dict[Any, list[Any]] = {}
        for name in ("child", "insurance", "alarm", "hailfinder"):
            for seed in range(SEEDS):
                _, n_states, codes = network_records(name, rows + 1000, 100 * rows + seed)
                some = np.random.default_rng([seed, rows]).choice(len(n_states), 11, replace=False)
                codes = codes[:, some]
                cases.setdefault(name[:8], []).append((n_states[some], codes[:rows], codes[rows:]))
        predictive(cases, f"11 columns, {rows} rows: nats a held-out row, mean of {SEEDS}")


def quantile_bins(values: NDArray[Any], bins: int) -> NDArray[np.int64]:
    cuts = np.quantile(values, np.arange(1, bins) / bins, axis=0)
    return np.stack(
        [np.searchsorted(np.unique(cuts[:, j]), values[:, j], side="right") for j in range(values.shape[1])], 1
    )


def real_tables() -> dict[str, NDArray[np.int64]]:
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

    found = {}
    reinis = datasets.load("reinis")
    found["reinis"] = reinis.codes[reinis.row_index].astype(np.int64)
    votes = datasets.load("house_votes")
    codes = votes.codes[votes.row_index].astype(np.int64)
    found["votes"] = codes[(codes >= 0).all(axis=1)][:, :11]
    for bins in (3, 4):
        found[f"wine {bins}"] = quantile_bins(load_wine().data[:, :11], bins)
        found[f"cancer {bins}"] = quantile_bins(load_breast_cancer().data[:, :11], bins)
        found[f"diab. {bins}"] = quantile_bins(load_diabetes().data[:, :10], bins)
    return found


def real() -> None:
    for rows in (30, 100, 10000):
        cases: dict[Any, list[Any]] = {}
        for name, codes in real_tables().items():
            for seed in range(SEEDS):
                shuffled = np.random.default_rng(seed).permutation(codes)
                half = len(codes) // 2
                split = shuffled[: min(rows, half)], shuffled[half:]
                cases.setdefault(name, []).append((codes.max(axis=0) + 1, *split))
        what = f"{rows} rows" if rows < 10000 else "half of the rows"
        predictive(cases, f"real tables, {what}: nats a held-out row, mean of {SEEDS}")


PARTS = {"noise": noise, "known": known, "held_out": held_out_part, "real": real}


def main() -> None:
    asked = sys.argv[1:] or ["all"]
    for name in PARTS if asked == ["all"] else asked:
        begin = time.process_time()
        PARTS[name]()
        print(f"-- {name}: {time.process_time() - begin:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()

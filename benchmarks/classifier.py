"""Log loss and accuracy of `BeliefNetworkClassifier` and its sister for numbers, by repeated cross-validation.

    python benchmarks/classifier.py [loss | regression | speed] [TABLE ...] [--blank SHARE ...] [--repeats N]

``loss``   every table with 0, 10 and 30% of its cells blanked at random, all classifiers on the same folds:
           averaged   `BeliefNetworkClassifier()`
           gaussian, additive
                      the same with numbers="conditional_gaussian" and "additive", where features are numbers
           pooled     the same with numbers=("conditional_gaussian", "additive")
           all        and with ("bins", "conditional_gaussian", "additive")
           best       the best graph that its chains met, alone: parameters and missing cells still averaged
           bayes      scikit-learn's CategoricalNB on the same bins, missing as one more state
           logistic   LogisticRegression on means and indicators of missing cells, one column for each state
           forest     RandomForestClassifier on the same
           Nats and errors a row; then the difference to ``averaged`` in log loss, row by row, with its standard error
           (rows of repeats averaged first), so that a positive number is a loss to ``averaged``.
``regression``
           diabetes in the same way: root mean squared error and log density of a row (nats) by `BeliefNetworkRegressor`
           and by scikit-learn's BayesianRidge on means, with the difference in log density.
``speed``  CPU seconds of predict_proba: 10,000 rows x 16 features, complete and with missing cells.

Numbers that are impossible by a single classifier (probability 0) count as 1e-15.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import doxa
from doxa.sklearn import BeliefNetworkClassifier, BeliefNetworkRegressor
from doxa.sklearn.class_probabilities import ClassProbabilities
from doxa.sklearn.coded_columns import learn_column
from doxa.structure.averaging.draws import draw_networks

warnings.simplefilter("ignore", ConvergenceWarning)

Rows = tuple[Any, Any]


def bundled(name: str, target: str) -> Rows:
    table = doxa.datasets.load(name)
    codes = table.codes[table.row_index]
    j = table.names.index(target)
    cells = np.array([[None if k < 0 else str(k) for k in row] for row in codes.tolist()], dtype=object)
    return np.delete(cells, j, axis=1), codes[:, j].astype(int)


def digits() -> Rows:
    """The 16 pixels that vary most, of the first 600 images; scaled, so that they are cut into bins."""
    X, y = load_digits(return_X_y=True)
    return X[:600][:, np.sort(np.argsort(-X.var(axis=0))[:16])] / 16.1, y[:600]


TABLES: dict[str, Callable[[], Rows]] = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "reinis": lambda: bundled("reinis", "smoke"),
    "votes": lambda: bundled("house_votes", "party"),
    "digits": digits,
    "cancer": lambda: load_breast_cancer(return_X_y=True),
}


MEASURED: list[float] = []  # CPU seconds


def blanked(X: Any, share: float, seed: int) -> Any:
    cells = X.copy()
    cells[np.random.default_rng(seed).random(X.shape) < share] = None if X.dtype == object else np.nan
    return cells


def averaged(A: Any, a: Any, B: Any) -> tuple[Any, BeliefNetworkClassifier]:
    model = BeliefNetworkClassifier(random_state=1, n_jobs=1).fit(A, a)
    return model.predict_proba(B), model


def measured(A: Any, a: Any, B: Any) -> dict[str, Any]:
    if A.dtype == object:
        return {}
    begin = time.process_time()
    parts = {}
    for name, numbers in (("bins", "bins"), ("gaussian", "conditional_gaussian"), ("additive", "additive")):
        model = BeliefNetworkClassifier(numbers=numbers, random_state=1, n_jobs=1).fit(A, a)
        parts[name] = model.predict_proba(B)
    MEASURED.append(time.process_time() - begin)
    kept = {name: parts[name] for name in ("gaussian", "additive")}
    return {**kept, "pooled": sum(kept.values()) / 2, "all": sum(parts.values()) / 3}


def best(model: BeliefNetworkClassifier, B: Any) -> Any:
    """The same estimator with its most probable graph for the only one."""
    posterior = model.posterior_
    at = np.unravel_index(posterior.log_score.argmax(), posterior.log_score.shape)
    adjacency = doxa.Dag.from_rows(posterior.trace["rows"][at], posterior.names).adjacency
    pairs = [(i, j) for i in range(len(adjacency)) for j in range(len(adjacency)) if i != j]
    named = {p: (posterior.names[p[0]], posterior.names[p[1]]) for p in pairs}
    table = posterior.table
    alone = doxa.learn(
        table,
        score=posterior.options.score,
        required=[named[p] for p in pairs if adjacency[p]],
        forbidden=[named[p] for p in pairs if not adjacency[p]],
        exact=False,
        draws=60 if table.n_missing else 4,
        thin=1,
        seed=1,
        workers=1,
    )
    kept = model._members
    model._members = [kept[0]._replace(probabilities=ClassProbabilities(draw_networks(alone, table, model.networks)))]
    chances = model.predict_proba(B)
    model._members = kept
    return chances


def bayes(A: Any, a: Any, B: Any) -> Any:
    columns = [learn_column("", A[:, j], np.ones(len(A), dtype=np.int64), 5, False) for j in range(A.shape[1])]
    sizes = [len(column.labels) for column in columns]

    def coded(X: Any) -> Any:
        codes = np.column_stack([column.code(X[:, j]) for j, column in enumerate(columns)])
        return np.where(codes < 0, sizes, np.minimum(codes, np.array(sizes) - 1))

    return CategoricalNB(min_categories=[size + 1 for size in sizes]).fit(coded(A), a).predict_proba(coded(B))


def others(A: Any, a: Any, B: Any) -> dict[str, Any]:
    if A.dtype == object:
        A, B = (np.where(np.equal(X, None), "missing", X) for X in (A, B))  # type: ignore[call-overload]
        ready: Any = OneHotEncoder(handle_unknown="ignore")
    else:
        ready = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    ready = make_column_transformer((ready, list(range(A.shape[1]))))
    models = {"logistic": LogisticRegression(max_iter=2000), "forest": RandomForestClassifier(200, random_state=1)}
    return {name: make_pipeline(ready, model).fit(A, a).predict_proba(B) for name, model in models.items()}


def compare(name: str, share: float, repeats: int) -> None:
    X, y = TABLES[name]()
    losses: dict[str, Any] = {}
    misses: dict[str, Any] = {}
    seconds = [0.0, 0.0]
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0)
    for k, (train, test) in enumerate(folds.split(X, y)):
        cells = blanked(X, share, seed=k // 5)
        A, a, B = cells[train], y[train], cells[test]
        begin = time.process_time()
        chances, model = averaged(A, a, B)
        seconds = [seconds[0] + time.process_time() - begin, seconds[1] + 1]
        found = {
            "averaged": chances,
            **measured(A, a, B),
            "best": best(model, B),
            "bayes": bayes(A, a, B),
            **others(A, a, B),
        }
        for who, P in found.items():
            own = losses.setdefault(who, np.zeros((repeats, len(y)))), misses.setdefault(who, np.zeros(len(y)))
            own[0][k // 5, test] = -np.log(np.maximum(P[np.arange(len(test)), y[test]], 1e-15))
            own[1][test] += (P.argmax(axis=1) != y[test]) / repeats
    rows = {who: loss.mean(axis=0) for who, loss in losses.items()}
    shape = f"{X.shape[0]} x {X.shape[1]}"
    print(f"\n{name} ({shape}), {share:.0%} blanked; fit and predict {seconds[0] / seconds[1]:.1f} CPU s", flush=True)
    if MEASURED:
        print(f"  all three choices for numbers: {np.mean(MEASURED):.1f} CPU s", flush=True)
        MEASURED.clear()
    for who, loss in rows.items():
        gap = loss - rows["averaged"]
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        versus = "" if who == "averaged" else f"   {gap.mean():+.4f} +/- {error:.4f}"
        print(f"  {who:9} log loss {loss.mean():.4f}   accuracy {1 - misses[who].mean():.3f}{versus}", flush=True)


def regression(share: float, repeats: int) -> None:
    X, y = load_diabetes(return_X_y=True)
    logs, errors = (np.zeros((2, repeats, len(y))) for _ in range(2))
    seconds = 0.0
    for k, (train, test) in enumerate(RepeatedKFold(n_splits=5, n_repeats=repeats, random_state=0).split(X, y)):
        cells = blanked(X, share, seed=k // 5)
        begin = time.process_time()
        model = BeliefNetworkRegressor(random_state=1, n_jobs=1).fit(cells[train], y[train])
        mean, density = model.predict(cells[test]), model.log_density(cells[test], y[test])
        seconds += time.process_time() - begin
        ridge = make_pipeline(SimpleImputer(), StandardScaler(), BayesianRidge()).fit(cells[train], y[train])
        other, sd = ridge.predict(cells[test], return_std=True)
        for i, (own, log) in enumerate(((mean, density), (other, norm.logpdf(y[test], other, sd)))):
            logs[i, k // 5, test], errors[i, k // 5, test] = log, own - y[test]
    gap = (logs[0] - logs[1]).mean(axis=0)
    print(f"\ndiabetes, {share:.0%} blanked; fit and predict {seconds / 5 / repeats:.1f} CPU s")
    for i, who in enumerate(("averaged", "ridge")):
        print(f"  {who:9} error {np.sqrt((errors[i] ** 2).mean()):.2f}   log density {logs[i].mean():.4f}")
    print(f"  averaged is better by {gap.mean():+.4f} +/- {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}", flush=True)


def speed() -> None:
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 3, 11_000)
    noise = rng.integers(0, 3, (11_000, 16))
    X = np.where(rng.random((11_000, 16)) < np.linspace(0.05, 0.5, 16), hidden[:, None], noise).astype(object)
    model = BeliefNetworkClassifier(draws=100, random_state=1, n_jobs=1)
    model.fit(blanked(X[:1000], 0.05, 1), hidden[:1000])
    model.predict_proba(X[:10])  # compile
    for blank in (0.0, 0.1, 0.3):
        rows = blanked(X[1000:], blank, 2)
        begin = time.process_time()
        model.predict_proba(rows)
        used = time.process_time() - begin
        known = model._members[0].probabilities
        assert known is not None  # no column holds numbers
        different = len(known._networks.family)
        print(f"{blank:.0%} blanked: {used:.2f} s, {different} different networks", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["loss", "regression", "speed"], nargs="?", default="loss")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--blank", type=float, nargs="+", default=[0.0, 0.1, 0.3])
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if options.what == "speed":
        speed()
        return
    if options.what == "regression":
        for share in options.blank:
            regression(share, options.repeats)
        return
    for name in options.tables or TABLES:
        for share in options.blank:
            compare(name, share, options.repeats)


if __name__ == "__main__":
    main()

"""Section 6: whether the bound rises, with eq. 38 as printed and corrected, and what loadings it finds.

The model is the paper's: no biases, positions in two dimensions with a mean and a covariance of their own.  As printed,
eq. 38 sets the covariance to the mean of those of the posteriors.  EM is doxa's, whose steps are eqs. 36 to 42.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from doxa.parameters.variational.latent_em import PRIOR, Learned, TraitParameters, init, step
from doxa.parameters.variational.latent_rows import BinaryRows, code_rows
from doxa.parameters.variational.latent_trait import fit_latent_trait
from doxa.plots import Band, Look, panels, plot_curves
from doxa.plots.style import BLUE, ORANGE
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome, progress

Floats: TypeAlias = NDArray[np.float64]

ALL_TOGETHER = Learned(loadings=True, biases=False, mean=True, covariance=True)
SEED = 7
STEPS = 30
LOOKS = {"eq. 38 as printed": Look(ORANGE, "--"), "eq. 38 corrected": Look(BLUE, "-")}
METHODS = {"bound, as in the paper": Look(ORANGE, ":", "o"), "likelihood, by quadrature": Look(BLUE, "-", "s")}


def run(quick: bool) -> Outcome:
    n_rows, n_runs = (100, 3) if quick else (1000, 10)
    columns = (6, 12) if quick else (5, 10, 20, 50, 100)
    given = {name: paths(PRIOR, name == "eq. 38 as printed", n_rows, n_runs) for name in LOOKS}
    together = {name: paths(ALL_TOGETHER, name == "eq. 38 as printed", n_rows, n_runs) for name in LOOKS}
    lengths: dict[str, list[list[float]]] = {"bound": [], "quadrature": []}
    for p in columns:
        progress(f"{p} columns")
        found = [planted(p, n_rows, seed) for seed in range(2 if quick else 5)]
        for place, method in enumerate(lengths):
            lengths[method].append([pair[place] for pair in found])
    shares = [np.array(found) for found in lengths.values()]  # (columns, seeds)
    figures = {"jaakkola_jordan_section_6": draw(given, columns, shares)}
    return Outcome(claims(given, together, columns, shares), figures)


def simulate(p: int, n_rows: int, seed: int) -> tuple[TraitParameters, BinaryRows, NDArray[np.int64]]:
    """The model, and rows of it."""
    rng = np.random.default_rng(SEED + seed)
    truth = TraitParameters(rng.standard_normal((p, 2)), np.zeros(p), np.array([0.5, -0.5]), np.diag([1.2, 0.8]))
    positions = truth.prior_mean + rng.standard_normal((n_rows, 2)) @ truth.prior_root.T
    cells = (rng.logistic(size=(n_rows, p)) < positions @ truth.loadings.T).astype(np.int64)
    return truth, code_rows(cells)[0], cells


def paths(learn: Learned, printed: bool, n_rows: int, n_runs: int) -> Floats:
    """The bound after each step, nats a row above the start, (runs, steps + 1)."""
    found = []
    for seed in range(n_runs):
        progress(f"{'printed' if printed else 'corrected'}, run {seed}")
        truth, rows, _ = simulate(10, n_rows, seed)
        loadings = truth.loadings if not learn.loadings else 0.5 * truth.loadings
        state = init(rows, TraitParameters(loadings, truth.biases, np.zeros(2), np.eye(2)))
        bounds = [state.objective]
        for _ in range(STEPS):
            new = step(rows, state, learn)
            if printed:
                root, shares = state.parameters.prior_root, rows.counts / rows.counts.sum()
                mean = root @ np.einsum("t,tij->ij", shares, state.rows.covariance) @ root.T
                parameters = new.parameters._replace(prior_root=np.linalg.cholesky(mean))
                new = init(rows, parameters, state.rows.next_xi)
            state = new
            bounds.append(state.objective)
        found.append((np.array(bounds) - bounds[0]) / n_rows)
    return np.array(found)


def planted(p: int, n_rows: int, seed: int) -> tuple[float, float]:
    """Length of the loadings found as a share of the planted one, by the bound and by quadrature."""
    truth, _, cells = simulate(p, n_rows, seed)
    whole = np.linalg.norm(truth.loadings @ truth.prior_root)
    fits = (fit_latent_trait(cells, 2, likelihood=likelihood, tolerance=1e-8) for likelihood in ("bound", "auto"))
    one, other = (float(np.linalg.norm(fit.loadings) / whole) for fit in fits)
    return one, other


def falls(bounds: Floats) -> int:
    """Runs in which a step lowers the bound."""
    return int((np.diff(bounds, axis=1).min(axis=1) < -1e-10).sum())


def claims(
    given: dict[str, Floats], together: dict[str, Floats], columns: tuple[int, ...], shares: list[Floats]
) -> list[Claim]:
    n_runs = len(given["eq. 38 corrected"])
    printed = [falls(part["eq. 38 as printed"]) for part in (given, together)]
    corrected = [falls(part["eq. 38 corrected"]) for part in (given, together)]
    medians = [np.median(part, axis=1) for part in shares]
    return [
        Claim(
            "section 6",
            "the M-step necessarily raises the lower bound (mean and covariance for given loadings)",
            f"with eq. 38 as printed it falls in {printed[0]} of {n_runs} runs",
            holds_if(printed[0] == 0),
            f"with the spread of the means in eq. 38 it falls in {corrected[0]}",
        ),
        Claim(
            "",
            "the same, with loadings, mean and covariance together",
            f"with eq. 38 as printed it falls in {printed[1]} of {n_runs} runs",
            holds_if(printed[1] == 0),
            f"with eq. 38 corrected it falls in {corrected[1]}",
        ),
        Claim(
            "",
            "X, mu and Sigma are estimated by EM, through the bound",
            "; ".join(f"{p} columns: {share:.2f}" for p, share in zip(columns, medians[0], strict=True))
            + " of the planted length of the loadings",
            "holds" if (medians[0] > 0.9).all() else "in part",
            "by quadrature: " + "; ".join(f"{share:.2f}" for share in medians[1]),
        ),
    ]


def draw(given: dict[str, Floats], columns: tuple[int, ...], shares: list[Floats]) -> Figure:
    figure, (row,) = panels(1, 2)
    plot_curves(
        np.arange(STEPS + 1), {name: Band.over(bounds) for name, bounds in given.items()}, looks=LOOKS,
        x_label="iteration of EM", y_label="bound above its start, nats a row",
        title="Mean and covariance learned", ax=row[0],
    )  # fmt: skip
    plot_curves(
        columns, {name: Band.over(found.T) for name, found in zip(METHODS, shares, strict=True)}, looks=METHODS,
        exact=1.0, x_label="columns", y_label="length of the loadings / planted",
        title="Loadings learned", ax=row[1],
    )  # fmt: skip
    row[1].set_xscale("log")
    row[1].set_xticks(columns, [str(p) for p in columns])
    row[1].minorticks_off()
    return figure

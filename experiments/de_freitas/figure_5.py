"""Figure 5: random-walk Metropolis on a target of two modes, with a narrow, a middling and a wide proposal.

The paper names neither the target nor the widths.  Those of the same authors' tutorial are used (Andrieu, de Freitas,
Doucet & Jordan 2003, section 3.1, where the figure appears again): p(x) in proportion to 0.3 exp(-0.2 x^2) +
0.7 exp(-0.2 (x - 10)^2) and steps with standard deviation 1, 10 and 100.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from doxa.estimates.diagnostics import diagnose_real
from doxa.parameters.kernels import Path, RandomWalk, calibrated, start_at
from doxa.parameters.kernels.kernel import Function
from doxa.plots import panels, plot_marginals, plot_traces
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome, progress

WIDTHS = (1.0, 10.0, 100.0)
SHORT, LONG = 500, 5000  # iterations
BETWEEN = 5.0  # the modes
NEAR_0 = 0.3  # mass of the mode at 0
SEED = 5


class Walk(NamedTuple):
    """Many chains with steps of one width, all begun at 0."""

    name: str
    width: float
    path: Path

    @property
    def draws(self) -> NDArray[np.float64]:
        """Shape (chain, draw)."""
        return self.path.thetas[:, :, 0].T

    @property
    def acceptance(self) -> float:
        return float(self.path.acceptance.mean())

    @property
    def ess(self) -> float:
        """Effective draws in a chain."""
        return float(diagnose_real(self.draws).bulk_ess) / len(self.draws)

    def one_mode(self, n_steps: int) -> float:
        """Share of the chains that have not seen the mode at 10 in so many steps."""
        return float((self.draws[:, :n_steps] < BETWEEN).all(axis=1).mean())

    @property
    def error(self) -> float:
        """Root mean square error of a chain's mass near 0."""
        return float(np.sqrt((((self.draws < BETWEEN).mean(axis=1) - NEAR_0) ** 2).mean()))

    @property
    def longest_stay(self) -> float:
        """Median over chains of the most steps in a row without a move."""
        longest = []
        for chain in self.draws:
            moves = np.flatnonzero(np.diff(chain) != 0)
            longest.append(np.diff(np.concatenate([[-1], moves, [chain.size - 1]])).max())
        return float(np.median(longest))


def log_density(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.logaddexp(np.log(0.3) - 0.2 * x[:, 0] ** 2, np.log(0.7) - 0.2 * (x[:, 0] - 10) ** 2)


TARGET = Function(log_density, 1)


def run(quick: bool) -> Outcome:
    rng = np.random.default_rng(SEED)
    start = start_at(TARGET, np.zeros((8 if quick else 100, 1)))
    n_steps = 300 if quick else LONG
    walks = []
    for width in WIDTHS:
        progress(f"steps of {width:g}")
        walks.append(Walk(f"{width:g}", width, RandomWalk(width).run(TARGET, start, n_steps, rng)[1]))
    kernel, _ = calibrated(RandomWalk(), TARGET, start, rng)
    assert kernel.cholesky is not None
    width = float(kernel.scale * kernel.cholesky[0, 0])
    walks.append(Walk(f"tuned: {width:.1f}", width, kernel.run(TARGET, start, n_steps, rng)[1]))
    return Outcome(claims(walks), {"de_freitas_figure_5": draw(walks)}, [("Random walks", table(walks))])


def claims(walks: list[Walk]) -> list[Claim]:
    narrow, middling, wide, tuned = walks
    short = min(SHORT, narrow.draws.shape[1])
    n = narrow.draws.shape[1]
    return [
        Claim(
            "5",
            "too narrow a proposal: only one mode might be visited",
            f"sd 1: {100 * narrow.one_mode(short):.0f}% of the chains have seen one mode only after {short} "
            f"iterations, {100 * narrow.one_mode(n):.0f}% after {n}",
            holds_if(narrow.one_mode(short) > 0.05),
            f"tuned in warm-up (sd {tuned.width:.1f}): {100 * tuned.one_mode(short):.0f}% after {short}",
        ),
        Claim(
            "",
            "too wide: the rejection rate can be very high; the chain stays at each state for a long time",
            f"sd 100: {100 * (1 - wide.acceptance):.0f}% rejected; the longest stay in {n} iterations is "
            f"{wide.longest_stay:.0f}",
            holds_if(wide.acceptance < 0.1),
            f"{100 * (1 - tuned.acceptance):.0f}% rejected; longest stay {tuned.longest_stay:.0f}",
        ),
        Claim(
            "",
            "all modes visited and a high acceptance probability: the chain mixes well",
            f"sd 10: acceptance {middling.acceptance:.2f}, {middling.ess:.0f} effective draws in {n}; sd 1 has "
            f"{narrow.acceptance:.2f} and {narrow.ess:.0f}, sd 100 {wide.acceptance:.2f} and {wide.ess:.0f}",
            holds_if(middling.ess > max(narrow.ess, wide.ess)),
            f"acceptance {tuned.acceptance:.2f}, {tuned.ess:.0f} effective draws",
        ),
    ]


def table(walks: list[Walk]) -> str:
    lines = [f"{'sd of a step':14s} {'acceptance':>10s} {'effective draws':>16s} {'error of the mass near 0':>25s}"]
    lines += [f"{walk.name:14s} {walk.acceptance:10.3f} {walk.ess:16.1f} {walk.error:25.3f}" for walk in walks]
    return "\n".join(lines)


def draw(walks: list[Walk]) -> Figure:
    """One chain of each: where it was, and its histogram under the density."""
    figure, axes = panels(2, len(walks), height=2.6, width=11)
    for (above, below), walk in zip(axes.T, walks, strict=True):
        chain = {"x": walk.draws[:1]}
        plot_traces(chain, ax=above)
        above.set_title(f"sd {walk.name}, acceptance {walk.acceptance:.2f}", fontsize=10)
        above.set(ylim=(-8, 18), xlabel="iteration")
        plot_marginals(chain, exact=TARGET.log_density, prob=None, bins=52, limits=(-8, 18), legend=False, axes=[below])
        below.set_ylim(0, 0.3)
    for ax in axes[:, 1:].ravel():
        ax.set_ylabel("")
    figure.suptitle("Figure 5 again: one chain of each width begun at 0, and its histogram (black: the target)")
    return figure

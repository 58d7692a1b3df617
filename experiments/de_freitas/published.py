"""The algorithms as the paper prints them, with the corrections without which they do not run as they are meant.

Variational EM (figure 3) is one pass over the records, each with a xi of its own that is found by an inner loop.  As
printed the loop never feeds back, since its first line uses the xi of the record before; `sequential_posterior` uses
the record's own, and `printed_pass` is the print as it stands.  VarMCMC (figure 6) proposes each block from its
*marginal* under that Gaussian; VarMixMCMC (figure 7) makes a sweep of these or, as often, one of random-walk steps.

Not in the paper, and chosen here: blocks of five coordinates, a share of 1/2, all iterations kept.
"""

from __future__ import annotations

import numpy as np

from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.kernels import BlockIndependence, Kernel, RandomWalk, block, mixture
from doxa.parameters.kernels.gaussians import GaussianProposal
from doxa.parameters.variational.bound import lambda_of
from doxa.parameters.variational.sequential import one_pass, sequential_posterior
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["BLOCK", "SHARE", "WALK_SD", "mixed", "printed_pass", "sequential_posterior", "variational", "walk"]

BLOCK = 5
SHARE = 0.5  # nu of figure 7
WALK_SD = 0.1  # section 5.1: variance 0.01


def variational(gaussian: GaussianProposal, size: int = BLOCK) -> Kernel:
    """VarMCMC: a sweep over blocks, proposed from their marginals."""
    return BlockIndependence(gaussian, size, form="marginal")


def walk(d: int, sd: float = WALK_SD, size: int = BLOCK) -> Kernel:
    """A sweep of random-walk steps over blocks."""
    return block(RandomWalk(sd), [range(start, min(start + size, d)) for start in range(0, d, size)])


def mixed(gaussian: GaussianProposal, sd: float = WALK_SD, size: int = BLOCK) -> Kernel:
    """VarMixMCMC."""
    kernels = variational(gaussian, size), walk(len(gaussian.mean), sd, size)
    return mixture(*kernels, weights=[SHARE, 1 - SHARE])


def printed_pass(problem: LogisticRegressionProblem, first_xi: float = 1.0) -> GaussianPosterior:
    """Figure 3 to the letter: the Gaussian takes each record in with the xi of the record before."""
    xi = first_xi

    def rule(mean: float, variance: float, weight: float) -> tuple[float, float, float]:
        nonlocal xi
        w = 2 * weight * float(lambda_of(xi))
        growth = 1 + w * variance
        xi = float(np.sqrt(((mean + weight * variance / 2) / growth) ** 2 + variance / growth))
        return w, weight / 2, 0.0

    return one_pass(problem, rule, repeats="each", method="figure 3 as printed", evidence_kind="estimate")

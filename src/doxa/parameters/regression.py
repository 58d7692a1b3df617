"""`sample_regression`: the posterior of one logistic regression, whatever its explanatory values are.

A `LogisticNetwork` has binary nodes; a regression on real numbers is the same posterior without the network around it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate
from doxa.estimates.stopping import StopReport, Until
from doxa.estimates.trace import Trace
from doxa.models.logistic_parts import Part
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.approximate import APPROXIMATIONS, ONE_PASS, Approximated, in_order
from doxa.parameters.drawing import PlannedPart, chains_of, draw, log_evidence, plan_parts
from doxa.parameters.method_options import Method, check_blocks, check_method
from doxa.parameters.methods import METHODS, choose
from doxa.parameters.targets import RegressionTarget
from doxa.sampling.driver import fresh_entropy, plan_length
from doxa.sampling.gaussian import GaussianPosterior
from doxa.sampling.runner import single_threaded_products

__all__ = ["RegressionSample", "sample_regression"]


class RegressionSample:
    """Draws of a regression's coefficients, and how they were made.

    Attributes
    ----------
    planned : PlannedPart
        Target, approximation, and the rung of the cascade that was used.
    trace : Trace
    stop : StopReport
    """

    def __init__(self, planned: PlannedPart, trace: Trace, stop: StopReport) -> None:
        self.planned, self.trace, self.stop = planned, trace, stop

    @cached_property
    def draws(self) -> Floats:
        """Coefficients, shape (chain, draw, d)."""
        return chains_of(self.trace["0.theta"])

    @property
    def method(self) -> str:
        """The rung that was used."""
        return self.planned.rung.method

    @property
    def why(self) -> str:
        """What decided."""
        return self.planned.rung.why

    @property
    def acceptance(self) -> float:
        """Mean acceptance probability."""
        return float(self.trace["0.acceptance"].mean())

    @cached_property
    def log_evidence(self) -> Estimate:
        """Log marginal likelihood of the outcomes (nats), by bridge sampling."""
        rng = np.random.default_rng(np.random.SeedSequence(self.trace.entropy, spawn_key=(0, 1)))
        return log_evidence(self.planned, self.trace, 0, rng)


def sample_regression(
    problem: LogisticRegressionProblem,
    *,
    method: Method = "auto",
    approximation: str | None = None,
    chains: int = 4,
    draws: int | None = None,
    warmup: int | None = None,
    until: Until | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> RegressionSample:
    """Draw from the posterior of a logistic regression; the options are those of `doxa.fit`.

    Parameters
    ----------
    problem : LogisticRegressionProblem
        From `doxa.models.logistic_regression.make_problem`.
    approximation : str, optional
        One of those of complete families.  ``"sequential"`` and ``"spiegelhalter_lauritzen"`` take the rows in their
        order if none has a count, as `make_problem` with ``collapse=False`` leaves them; else cases in random order.

    Raises
    ------
    ArgumentError
        If an option is out of range; the message names it.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> problem = make_problem([[1.0, 0.3], [1.0, -1.2], [1.0, 0.1]], [1, -1, 1], prior_covariance=4.0)
    >>> sample = sample_regression(problem, draws=100, seed=1)
    >>> sample.draws.shape, sample.method
    ((4, 100, 2), 'independence')
    """
    method = check_method(method, METHODS)
    labels = [f"y: {j}" for j in range(problem.design.shape[1])]
    check_blocks(method, [labels])
    name = approximation or "optimal"
    if name not in APPROXIMATIONS:
        raise ArgumentError(f"approximation is {name!r}; it must be one of {', '.join(map(repr, APPROXIMATIONS))}")
    schedule, until = plan_length(chains, draws, warmup, until)
    entropy = fresh_entropy() if seed is None else check_whole("seed", seed, 0)
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0, 0)))
    with single_threaded_products():
        target, approximated = RegressionTarget(problem), _approximated(name, problem, rng)
        found = Approximated(Part(("y",), (0,), complete=True), target, approximated)
        parts = plan_parts([(found, choose(found, method, rng, labels))])
    run = draw(parts, [labels], schedule, until, entropy, None, workers, progress)
    return RegressionSample(parts[0], run.trace, run.stop)


def _approximated(name: str, problem: LogisticRegressionProblem, rng: np.random.Generator) -> GaussianPosterior:
    """What takes case after case gets equal ones apart, in an order that is drawn: a problem with counts has none."""
    if name not in ONE_PASS:
        return APPROXIMATIONS[name](problem)
    if (problem.counts != np.round(problem.counts)).any() or (problem.counts == 1).all():
        return in_order(name, problem, drawn=False)  # which refuses shares of a case in its own words
    cases = rng.permutation(np.repeat(np.arange(len(problem.counts)), problem.counts.astype(np.int64)))
    one_by_one = problem._replace(
        design=problem.design[cases], sign=problem.sign[cases], offset=problem.offset[cases], counts=np.ones(cases.size)
    )
    return in_order(name, one_by_one, drawn=True)

"""From a network and a table to the posterior of the network's parameters: `fit`; from a run file: `resume`, `load`."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import xlogy

from doxa.data import Table, read_table
from doxa.data.options import Among
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import Until
from doxa.estimates.store import RunFileError, RunHeader, create_run, keep_stop, open_reader, stored_stop
from doxa.estimates.trace import Trace
from doxa.models import LogisticNetwork
from doxa.models.logistic_parts import Part, fixed_log_likelihood, independent_parts
from doxa.models.logistic_rows import binary_codes
from doxa.parameters.approximate import Approximated, approximate, joint_bound
from doxa.parameters.averages import ParameterAverages
from doxa.parameters.cascade import Rung
from doxa.parameters.drawing import PlannedPart, draw, log_evidence, plan_parts
from doxa.parameters.joint_target import Packing
from doxa.parameters.keeping import Keep, averaging, levels_of
from doxa.parameters.kernels.ergodicity import mixture_ergodicity
from doxa.parameters.method_options import Method, check_blocks
from doxa.parameters.methods import choose
from doxa.parameters.options import FitOptions, FitPlan
from doxa.parameters.posterior import ParameterPosterior
from doxa.parameters.report import FitReport, PartReport
from doxa.parameters.runs import checked_header, go_on, report_as_json
from doxa.parameters.targets import RegressionTarget, RootPosterior
from doxa.parameters.variational.optimal import elbo
from doxa.parameters.variational.sequential import Order
from doxa.progress import following, tell
from doxa.sampling.driver import check_one_end
from doxa.sampling.gaussian import GaussianPosterior
from doxa.sampling.importance_proposals import Mixture
from doxa.sampling.runner import single_threaded_products

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from doxa.estimates.store import RunWriter
    from doxa.models.logistic_regression import LogisticRegressionProblem

__all__ = ["approximations_of", "fit", "load", "log_beta", "make_plan", "max_log_likelihood", "resume", "run_plan"]


def log_beta(found: Approximated, rung: Rung) -> float:
    """Bound on the log weights (nats) of a regression's independent proposals; infinite for anything else.

    Corollary 1 of de Freitas et al. (2001), corrected (`doxa.parameters.kernels.ergodicity`).  The likelihood is at
    most that of the saturated model, and any Gaussian's variational bound is below the evidence.
    """
    share = 0.0 if rung.reach is None else rung.reach.share
    if rung.method != "independence" or not share or not isinstance(found.target, RegressionTarget):
        return np.inf
    problem, gaussian = found.target.problem, found.proposal
    largest = max_log_likelihood(problem)
    return mixture_ergodicity(share, largest, min(elbo(problem, gaussian), largest), "lower bound").log_beta


def max_log_likelihood(problem: LogisticRegressionProblem) -> float:
    """Log likelihood (nats) where each distinct row has a probability of its own: no less than any."""
    rows = np.column_stack([problem.design, problem.offset])
    _, place = np.unique(rows, axis=0, return_inverse=True)
    place = place.reshape(-1)
    ones = np.bincount(place, weights=problem.counts * (problem.sign > 0))
    zeros = np.bincount(place, weights=problem.counts * (problem.sign < 0))
    total = ones + zeros
    return float((xlogy(ones, ones / total) + xlogy(zeros, zeros / total)).sum())


def fit(
    network: LogisticNetwork,
    table: Table | IntoDataFrame | str | os.PathLike[str],
    *,
    method: Method = "auto",
    approximation: str | None = None,
    order: Order = "auto",
    chains: int = 4,
    draws: int | None = None,
    warmup: int | None = None,
    until: Until | None = None,
    seed: int | None = None,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    keep: Keep = "draws",
) -> ParameterPosterior | ParameterAverages:
    """Draw from the posterior of a network's parameters, missing cells and hidden nodes summed out.

    Parameters
    ----------
    network : LogisticNetwork
    table : Table, data frame or path
        As `doxa.read_table` takes it.  Nodes without a column are hidden; columns that are no nodes are ignored.
    method : str or object, default="auto"
        How to draw: ``"auto"`` lets pilot draws decide between ``"independence"`` (Metropolis-Hastings with proposals
        from the approximation), ``"flip"`` (both ends of a step), ``"split_hmc"`` (Hamiltonian steps that rotate under
        the approximation) and ``"hmc"``.  Others by name, after de Freitas et al. 2001: ``"block"``, ``"mixture"``
        (with a random walk), ``"random_walk"``, ``"regeneration"`` and ``"resampling"`` (adaptive); for modes far
        apart, ``"tempered"``.  ``"augmentation"`` draws hidden values in turn with the parameters, as auto does where
        they are too many to sum out; ``"variational"`` draws from the approximation.  Options come with an object:
        `doxa.parameters.Block`, `RandomWalk`, `Mixture` or `Resampling`.
    approximation : str, optional
        Of each complete family: ``"optimal"`` (the Gaussian of least divergence), ``"laplace"``, ``"jaakkola_jordan"``,
        ``"sequential"`` or ``"spiegelhalter_lauritzen"``; the first when left out.  Or that of Jaakkola & Jordan with
        a form for what is hidden: ``"unconstrained"``, ``"structured"`` or ``"mean_field"``; or the same in one pass
        over the cases: ``"sequential_unconstrained"``, ``"sequential_structured"`` or ``"sequential_mean_field"``.
    order : {"auto", "table", "random"}, default="auto"
        Of the cases, for approximations that take one after another: ``"spiegelhalter_lauritzen"`` and all whose names
        begin with ``"sequential"``.  As they stand in the table, or drawn.  ``"auto"`` draws an order only where the
        table knows none, or where equal rows stand together as if counted; the part's ``approximation`` then says so.
    chains : int, default=4
        Independent chains; where steps need gradients, each is a group of eight that move in lockstep.
    draws : int, optional
        Kept from each chain, at least 4.  When left out, as many as ``until`` asks for.
    warmup : int, optional
        Draws discarded before that.  When left out: half of ``draws`` if these are given, else until the chains agree.
    until : Until, optional
        R-hat and effective draws of every coefficient at which to stop, and limits; ``Until()`` when neither it nor
        ``draws`` is given.  Its ``quantities`` are named as ``"systol: smoke"``.
    seed : int, optional
        The same seed and options give the same draws.  Fresh when left out, and kept in the trace.
    store : path, optional
        Keep the fit in this new file as it goes, so that `doxa.resume` can go on with it after a crash or for more
        draws, and `doxa.load` can read it.
    workers : int, optional
        Chains that run at the same time: when left out, what an active ``joblib.parallel_config`` says, else one for
        each core.
    progress : bool, optional
        Say on one line of standard error what goes on.  When left out: on a terminal and in a notebook, and elsewhere
        in a few lines where it takes long.
    keep : "draws" or Averages, default="draws"
        ``doxa.parameters.Averages(every=100)`` keeps averages of so many draws in their place, for runs too long to be
        held: moments, quantiles and probabilities with the same errors.  ``draws``, ``warmup`` and ``until`` then count
        averages.

    Returns
    -------
    ParameterPosterior or ParameterAverages

    Raises
    ------
    TableError
        If the table cannot be read, has no rows, or a node's column has more than two states.
    ArgumentError, ArgumentTypeError
        If an option is out of range or of the wrong type, or the missing cells are too many to sum out.

    Notes
    -----
    Parameters that share no missing cell are independent a posteriori and drawn apart: each complete family by its
    regression, each complete root from its Beta distribution.

    Examples
    --------
    >>> import doxa
    >>> network = doxa.LogisticNetwork({"systol": ["smoke", "phys"]})
    >>> fit = doxa.fit(network, doxa.datasets.load("reinis"), seed=1)
    >>> fit.method
    {'systol': 'independence', 'smoke': 'exact', 'phys': 'exact'}
    """
    asked = FitOptions(
        method=method,
        approximation=approximation,
        order=order,
        chains=chains,
        draws=draws,
        warmup=warmup,
        until=until,
        seed=seed,
        keep=keep,
    )
    source: dict[str, Any] | None = (
        {"source": str(Path(table).absolute())} if isinstance(table, (str, os.PathLike)) else None
    )
    with following(progress):
        if not isinstance(table, Table):
            tell(f"reading {table}" if source else "reading the table")
            table = read_table(table, columns=_nodes_of(network))
            source = None if source is None else source | {"columns": list(table.names)}
        return run_plan(make_plan(network, table, source, asked), store, workers, progress)


def _nodes_of(network: LogisticNetwork) -> Among | None:
    """The columns to read; what is no network is refused later, in words."""
    return Among(network.names) if isinstance(network, LogisticNetwork) else None


def make_plan(network: LogisticNetwork, table: Table, source: dict[str, Any] | None, asked: FitOptions) -> FitPlan:
    """Check what is to be fitted, and fill in the options that were left out; ``source`` is how the table was read."""
    _check(network, table, asked.method)
    return FitPlan(network, table, asked.filled_in(), source)


def resume(
    path: str | os.PathLike[str],
    table: Table | IntoDataFrame | str | os.PathLike[str] | None = None,
    *,
    draws: int | None = None,
    until: Until | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> ParameterPosterior | ParameterAverages:
    """Go on with a fit that is kept in a file; see `doxa.resume`."""
    check_one_end(draws, until)
    with following(progress):
        tell(f"resuming {path}")
        data = table if table is None or isinstance(table, Table) else read_table(table)
        plan, writer = go_on(path, data, draws, until)
        with writer:
            return run_plan(plan, None, workers, progress, writer)


def run_plan(
    plan: FitPlan,
    store: str | os.PathLike[str] | None,
    workers: int | None,
    progress: bool | None,
    writer: RunWriter | None = None,
) -> ParameterPosterior | ParameterAverages:
    """Run a plan, and keep it in a new file ``store``, or by the ``writer`` of one that is gone on with."""
    if store is not None and os.path.lexists(store):
        create_run(store, plan.header())  # refuses the name, before a long search rather than after
    tell("finding what to propose from")
    with single_threaded_products():
        parts = _plan_parts(plan)
        report = _report(plan, parts)
    labels = [_labels(plan.network, part.found.part) for part in parts]
    averaged = None
    if (keep := plan.options.averages) is not None:
        packed = [(Packing(plan.network, part.found.part.nodes), part.levels) for part in parts]
        averaged = partial(averaging, parts=packed, keep=keep)
    # only now: what cannot be planned leaves no file
    with nullcontext(writer) if store is None else create_run(store, plan.header()) as file:
        _keep_report(file, report)
        run = draw(parts, labels, plan.schedule, plan.until, plan.entropy, file, workers, progress, averaged)
        fitted = plan.network, plan.states, run.trace, report, run.stop, tuple(part.found for part in parts)
        posterior: ParameterPosterior | ParameterAverages
        if keep is None:
            posterior = ParameterPosterior(*fitted, partial(_with_evidence, report, parts, run.trace, plan.entropy))
        else:
            posterior = ParameterAverages(*fitted)
        if file is not None and run.stop.reason != "warm-up":  # from which a run that is gone on with goes on
            _keep_report(file, posterior.completed_report)
            keep_stop(file, run.stop)
    return posterior


def approximations_of(plan: FitPlan) -> tuple[Approximated, ...]:
    """What the parts of a plan are proposed from, found again without pilot draws or chains."""
    with single_threaded_products():
        return tuple(
            _approximated(plan, part, _planning_rng(plan, k))
            for k, part in enumerate(independent_parts(plan.network, plan.table))
        )


def _planning_rng(plan: FitPlan, k: int) -> np.random.Generator:
    """Of part k; chains have keys of length 1."""
    return np.random.default_rng(np.random.SeedSequence(plan.entropy, spawn_key=(k, 0)))


def _keep_report(store: RunWriter | None, report: FitReport) -> None:
    if store is not None:
        store.change_header(replace(store.header, options={**store.header.options, "report": report_as_json(report)}))


def _plan_parts(plan: FitPlan) -> list[PlannedPart]:
    chosen = []
    for k, part in enumerate(independent_parts(plan.network, plan.table)):
        rng = _planning_rng(plan, k)
        found = _approximated(plan, part, rng)
        chosen.append((found, choose(found, plan.options.method, rng, _labels(plan.network, part))))
    planned = plan_parts(chosen)
    return planned if plan.options.averages is None else [_with_levels(plan, part, k) for k, part in enumerate(planned)]


def _with_levels(plan: FitPlan, planned: PlannedPart, k: int) -> PlannedPart:
    """Part k, with a stream of its own for the levels, so that its draws are what they are when they are kept."""
    rng = np.random.default_rng(np.random.SeedSequence(plan.entropy, spawn_key=(k, 2)))
    packing = Packing(plan.network, planned.found.part.nodes)
    return planned._replace(levels=levels_of(packing, planned.found.proposal, planned.sampler, rng))


def _approximated(plan: FitPlan, part: Part, rng: np.random.Generator) -> Approximated:
    """The part with its approximation; left to data augmentation where it has too many hidden values."""
    options = plan.options
    given = plan.network, part, plan.table, options.approximation, rng
    if options.method == "augmentation":
        return approximate(*given, augment=True, order=options.order)
    try:
        return approximate(*given, order=options.order)
    except ArgumentError:
        if options.method != "auto" or part.complete or options.approximation is not None:
            raise
        return approximate(*given, augment=True)


def _report(plan: FitPlan, planned: list[PlannedPart]) -> FitReport:
    """All that is known before the chains start: methods and why, symmetries, and what the table holds."""
    table = plan.table
    codes = binary_codes(table, plan.network.names)
    symmetries = [symmetry.text for part in planned for symmetry in part.found.symmetries]
    n_missing = int(((codes < 0).sum(axis=1) * table.counts).sum())
    parts = [replace(_part_report(part.found, part.rung), levels=part.levels) for part in planned]
    joint = [k for k, part in enumerate(planned) if not part.found.part.complete]
    if joint:  # they share one bound
        bound = joint_bound(plan.network, table)
        parts = [replace(part, bound=0.0) if k in joint else part for k, part in enumerate(parts)]
        parts[joint[0]] = replace(parts[joint[0]], bound=bound)
    fixed = fixed_log_likelihood(plan.network, table)
    return FitReport(plan.options, tuple(parts), tuple(symmetries), table.n_rows, n_missing, table.digest, fixed)


def _part_report(found: Approximated, rung: Rung) -> PartReport:
    nodes = found.part.nodes
    if isinstance(found.target, RootPosterior):
        exact = found.target.log_evidence
        counts = found.target.ones, found.target.zeros
        return PartReport(nodes, "exact", rung.why, "Beta", 1.0, -np.inf, exact, 0.0, exact, counts=counts)
    proposal = found.proposal
    if proposal is None:
        return PartReport(nodes, rung.method, rung.why, "none", rung.pilot.efficiency, rung.pilot.tail)
    bound = np.nan
    if isinstance(proposal, GaussianPosterior) and proposal.evidence_kind == "lower bound":
        bound = proposal.log_evidence
    name = getattr(proposal, "method", "mixture of t" if isinstance(proposal, Mixture) else "Gaussian at the mode")
    return PartReport(
        *(nodes, rung.method, rung.why, name, rung.pilot.efficiency, rung.pilot.tail),
        bound=bound,
        log_beta=log_beta(found, rung),
        doubt=rung.doubt,
    )


def _with_evidence(report: FitReport, plan: list[PlannedPart], trace: Trace, entropy: int) -> FitReport:
    """The report, with the log evidence of each part that was drawn from the posterior itself."""
    parts = []
    for k, (part, planned) in enumerate(zip(report.parts, plan, strict=True)):
        if part.method in ("exact", "variational", "augmentation"):
            parts.append(part)
            continue
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(k, 1)))
        found = log_evidence(planned, trace, k, rng)
        parts.append(replace(part, log_evidence=found.value, log_evidence_mcse=found.mcse))
    return replace(report, parts=tuple(parts))


def _check(network: object, table: Table, method: Method) -> None:
    if not isinstance(network, LogisticNetwork):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; it must be a LogisticNetwork, such as "
            "doxa.LogisticNetwork({'heart': ['smokes']})"
        )
    if not network.parameters:
        raise ArgumentError("network has no parameters: it has no node with parents, and all roots are given")
    if not table.n_rows:
        raise ArgumentError("table has no rows; there is nothing to learn from")
    parts = independent_parts(network, table)
    exact = [part for part in parts if part.complete and part.nodes[0] in network.roots]
    drawn = [_labels(network, part) for part in parts if part not in exact]
    check_blocks(method, drawn, [label for part in exact for label in _labels(network, part)])


def _labels(network: LogisticNetwork, part: Part) -> list[str]:
    """Names of a part's coefficients, in their order."""
    return [f"{node}: {label}" for node in part.nodes for label in network.coefficients(node)]


def load(path: str | os.PathLike[str], table: Any = None) -> ParameterPosterior | ParameterAverages:
    """Read the posterior of a fit's run file, finished or not, even while it is written.

    With the table its approximations can be asked for, and are then found again as they were for the fit.

    Raises
    ------
    RunFileError
        If the file is no fit, is damaged, or holds no draws yet.
    ArgumentError
        If the table is another, or the file does not say all that approximations depend on.
    """
    with open_reader(path) as reader:
        header, stored, options = checked_header(reader)
        report = stored.report
        try:
            stop = stored_stop(header.options)
        except ValueError as error:
            raise RunFileError(f"'{path}' is not a run that doxa wrote: {error}") from error
        if report is None:
            raise RunFileError(
                f"'{path}' holds a fit that has not begun to draw; go on with it: doxa.resume({str(path)!r}, table)"
            )
        trace = reader.trace()
    plan = None if table is None else _plan_again(path, header, FitPlan(stored.network, table, options))
    kind = ParameterAverages if report.is_averaged else ParameterPosterior
    return kind(
        stored.network, stored.states, trace, report, stop, () if plan is None else partial(approximations_of, plan)
    )


def _plan_again(path: str | os.PathLike[str], header: RunHeader, plan: FitPlan) -> FitPlan:
    """The plan of a stored fit, as far as its approximations depend on it; its table is what was given for it."""
    stored, table = header.options, plan.table
    if "saved" in stored:
        raise ArgumentError(
            f"table is given, but '{path}' holds a saved posterior, which does not say how it was approximated (a run "
            "made with store= does); leave the table out, or fit again"
        )
    if header.versions.get("doxa") != version("doxa"):
        raise ArgumentError(
            f"table is given, but '{path}' was made by doxa {header.versions.get('doxa')}, and doxa {version('doxa')} "
            "may approximate in another way; leave the table out, or fit again"
        )
    if not isinstance(table, Table):
        is_path = isinstance(table, (str, os.PathLike))
        table = read_table(**{**((is_path and stored["source"]) or {}), "source": table})
    if table.digest != header.data_digest:
        raise ArgumentError(
            f"the table is not the one that '{path}' was made from: the digest of its data is {table.digest[:12]}..., "
            f"not {header.data_digest[:12]}...; give that table, or leave it out"
        )
    plan = plan._replace(table=table)
    if plan.header().options["cases"] != stored.get("cases"):
        raise ArgumentError(
            f"the table has its rows in another order than the one that '{path}' was made from, and its approximation "
            "depends on it; give the table as it was, or leave it out"
        )
    return plan

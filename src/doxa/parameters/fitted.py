"""`FittedParameters`: what a fit says of the parameters, whatever it has kept of its chains.

Importance sampling from the approximations of a fit: what its chains are held against (slides, steps 0 and 6).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import RealDiagnosis
from doxa.estimates.estimate import Estimate
from doxa.estimates.trace import Trace
from doxa.notebook import card, interval, report_link
from doxa.parameters.approximate import Approximated
from doxa.parameters.joint_target import Packing
from doxa.parameters.kernels.defensive import Defensive
from doxa.parameters.kernels.kernel import values_at
from doxa.parameters.report import FitReport, PartReport, Verdict, judge
from doxa.parameters.targets import RootPosterior
from doxa.sampling.importance import ImportanceSample
from doxa.sampling.importance_baseline import all_agree
from doxa.sampling.importance_proposals import Mixture, Proposal
from doxa.text import printable

if TYPE_CHECKING:
    import pandas as pd

    from doxa.estimates.stopping import StopReport
    from doxa.models import LogisticNetwork

__all__ = ["FitBaseline", "FittedParameters", "fit_baseline"]

_IN_A_SHELL, _IN_A_NOTEBOOK = 8, 24  # parameters shown


@dataclass(frozen=True, eq=False)
class FitBaseline:
    """A fit beside importance sampling from its approximations."""

    samples: dict[tuple[str, ...], ImportanceSample]  # of each part, by its nodes: draws (n, coefficients)
    coefficients: pd.DataFrame  # node, coefficient, mean, mcse, chain, chain_mcse, z; largest |z| first
    agrees: bool | None  # None where the weights of a part cannot be trusted
    text: str

    def __str__(self) -> str:
        return self.text


def fit_baseline(posterior: FittedParameters, found: Sequence[Approximated], n: int, seed: int) -> FitBaseline:
    """Draw, weigh and compare; see `doxa.ParameterPosterior.baseline`."""
    import pandas as pd

    n, rng = check_whole("n", n, 100), np.random.default_rng(check_whole("seed", seed, 0))
    samples, rows = {}, []
    for part in found:
        if part.proposal is None or isinstance(part.target, RootPosterior):  # augmented; or exact, and no chain
            continue
        inside = part.inside or part
        proposal = _with_tails(inside.mixture or inside.proposal)
        if part.inside is not None:
            proposal = replace(part.proposal, proposal=proposal)
        thetas = np.asarray(proposal.sample(n, rng))
        sample = ImportanceSample(thetas, values_at(part.target, thetas), proposal.log_density(thetas))
        samples[part.part.nodes] = sample
        packing = Packing(posterior.network, part.part.nodes)
        for node in packing.nodes:
            values = packing.unpack(thetas)[node]
            for j, label in enumerate(posterior.network.coefficients(node)):
                rows.append((node, label, *_compared(posterior, sample.weights, values[:, j], node, label)))
    if not rows:
        raise ArgumentError(
            "no part of this fit has an approximation that could be weighed: its parameters are known exactly, or were "
            "drawn by data augmentation"
        )
    names = ["node", "coefficient", "mean", "mcse", "chain", "chain_mcse", "z"]
    frame = pd.DataFrame(rows, columns=names).sort_values("z", key=np.abs, ascending=False, ignore_index=True)
    worst, ess = frame.iloc[0], min(sample.ess for sample in samples.values())
    reliable = all(sample.verdict.reliable for sample in samples.values())
    agrees, word, limit = all_agree(worst["z"], len(frame), reliable)
    text = (
        f"{word}: of {len(frame)} coefficients {worst['coefficient']} of {worst['node']} differs most, "
        f"{worst['chain']:.3f} by the chains and {worst['mean']:.3f} by weighted draws, {abs(worst['z']):.1f} standard "
        f"errors (limit {limit:.1f}); {ess:.0f} of {n} draws are effective."
    )
    return FitBaseline(samples, frame, agrees, text)


def _with_tails(proposal: Any) -> Proposal:
    """A Gaussian, also within a mixture, with the tails that its weights need."""
    if isinstance(proposal, Mixture):
        return Mixture([_with_tails(component) for component in proposal.components], proposal.weights)
    return Defensive(proposal) if np.isinf(getattr(proposal, "df", np.inf)) else proposal


def _compared(posterior: FittedParameters, weights: Floats, values: Floats, node: str, label: str) -> tuple[float, ...]:
    """Means and errors of one coefficient, of a root its probability, by weights and by chains; their distance."""
    mean = float(weights @ values)
    mcse = float(np.sqrt(weights**2 @ (values - mean) ** 2))
    chain = posterior.coefficient(node, label)
    return mean, mcse, chain.value, chain.mcse, (chain.value - mean) / np.hypot(mcse, chain.mcse)


Approximations: TypeAlias = "tuple[Approximated, ...]"  # the parts


class FittedParameters(ABC):
    """Parameters as fitted by `doxa.fit`; see `doxa.ParameterPosterior` and `doxa.parameters.ParameterAverages`."""

    def __init__(
        self,
        network: LogisticNetwork,
        states: Mapping[str, tuple[str, ...]],
        trace: Trace,
        report: FitReport,
        stop: StopReport | None = None,
        approximations: Approximations | Callable[[], Approximations] = (),
        complete: Callable[[], FitReport] | None = None,
    ) -> None:
        self.network = network
        self.states = dict(states)
        self.trace = trace
        self.report = report
        self.stop = stop
        self._made_approximations = approximations
        self._complete = complete
        self._packings = [Packing(network, part.nodes) for part in report.parts]
        self._part_of = {node: k for k, part in enumerate(report.parts) for node in part.nodes}

    def __repr__(self) -> str:
        """The answer and the verdict, in a few lines."""
        shown, rest = self._first(_IN_A_SHELL)
        rows = [(printable(f"{node}: {label}"), mean, spread) for node, label, mean, spread, *_ in shown]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{name:<{widths[0]}}  {mean:<{widths[1]}}  {spread}" for name, mean, spread in rows]
        return "\n".join([self._title, *lines, *filter(None, [rest]), printable(self.verdict)])

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict and the first parameters, as intervals and as a table."""
        shown, rest = self._first(_IN_A_NOTEBOOK)
        least, most = min((row[4] for row in shown), default=0.0), max((row[6] for row in shown), default=1.0)
        rows = [
            (node, label, interval(lower, mean, upper, least, most), text, spread)
            for node, label, text, spread, lower, mean, upper in shown
        ]
        head = ("node", "coefficient", "", "mean", "central 95%")
        more = (rest, f"{self.coding_text}.", report_link(self))
        return card(self._title, self.judgement, head, rows, n_left=2, more=more)

    @property
    def coding_text(self) -> str:
        """What a coefficient means, in a line: how the two states of a parent are coded."""
        if self.network.coding == "pm1":
            return "parents count as -1 and +1, so a coefficient is half a log odds ratio: odds ratio = exp(2 x mean)"
        return "parents count as 0 and 1, so a coefficient is a log odds ratio: odds ratio = exp(mean)"

    def odds_ratio(self, coefficient: float) -> float:
        """By what the odds of a node are multiplied when a parent with this coefficient goes from 0 to 1.

        Parameters
        ----------
        coefficient : float
            Of a parent, on the scale of the network's coding.

        Examples
        --------
        >>> import doxa
        >>> network = doxa.LogisticNetwork({"systol": ["smoke"]}, roots={"smoke": 0.5})
        >>> fit = doxa.fit(network, doxa.datasets.load("reinis"), seed=1)
        >>> round(fit.odds_ratio(fit.coefficient("systol", "smoke").value), 2)
        0.73
        """
        return float(np.exp((2.0 if self.network.coding == "pm1" else 1.0) * coefficient))

    @property
    def _title(self) -> str:
        method = self.report.method
        return (
            f"{type(self).__name__}: {len(self.network.names)} nodes, {self.n_chains} chains of {self.n_draws} "
            f"{self.kept}, {method}"
        )

    def _first(self, most: int) -> tuple[list[tuple[str, str, str, str, float, float, float]], str]:
        """Node, coefficient, mean and interval in words, and in numbers, of the first; how many there are besides."""
        names = [(node, label) for node, labels in self._coefficients() for label in labels]
        rows = []
        for node, label in names[:most]:
            estimate = self.coefficient(node, label)
            _, lower, upper = self._spread(node, self._place(node, label))
            spread = f"{lower:.3g} to {upper:.3g}"
            rows.append((node, label, str(estimate), spread, lower, estimate.value, upper))
        return rows, f"... {len(names) - most} more: see summary()" if len(names) > most else ""

    @property
    @abstractmethod
    def kept(self) -> str:
        """What is kept of the chains, in words: ``"draws"``, or ``"averages of 100 draws"``."""

    @property
    @abstractmethod
    def _diagnoses(self) -> Mapping[str, list[RealDiagnosis]]:
        """For each node with parameters, how well each of them is known."""

    @abstractmethod
    def _spread(self, node: str, j: int) -> tuple[float, float, float]:
        """Posterior standard deviation of a node's parameter j, and the limits of its central 95%."""

    @property
    def n_chains(self) -> int:
        """Chains, walkers in lockstep counted each."""
        theta = next(self.trace[name] for name in self.trace.names if name.endswith(".theta"))
        return int(theta.shape[0] * theta.shape[2])

    @property
    def n_draws(self) -> int:
        """Kept draws of each chain, or averages of draws."""
        return self.trace.n_draws

    @property
    def method(self) -> dict[str, str]:
        """For each node with parameters, how they were drawn."""
        return {node: self.report.parts[k].method for node, k in self._part_of.items()}

    @property
    def acceptance(self) -> dict[str, float]:
        """For each node with parameters, the mean acceptance probability of its kernel's proposals."""
        return {node: float(self.acceptance_rates(k).mean()) for node, k in self._part_of.items()}

    def acceptance_rates(self, k: int) -> Floats:
        """Of the proposals for part k of the report, shape (groups of chains,); 1 for what no chain need draw."""
        name = f"{k}.acceptance"
        return self.trace[name].mean(axis=(1, 2)) if name in self.trace.names else np.ones(self.trace.n_chains)

    def approximation(self, node: str) -> Proposal:
        """The approximation that the kernel of a node's part proposes from, over the part's packed parameters.

        ArgumentError for a posterior that was loaded without its table: a run file does not keep approximations, but
        they can be found again from the table.
        """
        found: Proposal | None = self._approximations[self._part(node)].proposal
        if found is None:
            raise ArgumentError(f"the parameters of {node!r} were drawn by data augmentation, without an approximation")
        return found

    @cached_property
    def _approximations(self) -> Approximations:
        made = self._made_approximations
        found = made() if callable(made) else made
        if not found:
            raise ArgumentError(
                "this posterior was loaded from a run file, which keeps no approximations; load a run that was made "
                "with store= together with its table, doxa.load(path, table=...), or fit again"
            )
        return found

    def baseline(self, n: int = 4000, seed: int = 1) -> FitBaseline:
        """Hold the coefficients against importance sampling from the approximations, without a chain.

        The comparison that ends the algorithm of Antal & Sarkozy (slides, steps 0 and 6).  Agreement is no proof: both
        may miss the same mode.

        Parameters
        ----------
        n : int, default=4000
            Weighted draws of each part, at least 100.
        seed : int, default=1

        Returns
        -------
        FitBaseline
            ``coefficients`` with both means and their errors, ``agrees``, ``text``, and the weighted ``samples``, which
            `doxa.sampling.importance_baseline.resample` makes draws of equal weight of.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If a number is out of range, no part has an approximation, or the posterior was loaded without its table.

        Examples
        --------
        >>> import doxa
        >>> network = doxa.LogisticNetwork({"systol": ["smoke", "phys"]})
        >>> doxa.fit(network, doxa.datasets.load("reinis"), seed=1).baseline().agrees
        True
        """
        return fit_baseline(self, self._approximations, n, seed)

    def part(self, node: str) -> PartReport:
        """How the part that holds a node was drawn."""
        return self.report.parts[self._part(node)]

    def summary(self) -> pd.DataFrame:
        """Posterior of every parameter.

        Returns
        -------
        pandas.DataFrame
            Columns ``node, coefficient, mean, sd, lower, upper, mcse, ess, r_hat``, in node order: posterior mean and
            standard deviation, the central 95%, the Monte Carlo standard error of the mean, its effective number of
            draws, and rank R-hat.

        Examples
        --------
        >>> import doxa
        >>> network = doxa.LogisticNetwork({"systol": ["smoke"]}, roots={"smoke": 0.5})
        >>> fit = doxa.fit(network, doxa.datasets.load("reinis"), seed=1)
        >>> fit.summary()[["node", "coefficient", "mean"]].round(2)
             node coefficient  mean
        0  systol        bias  -0.3
        1  systol       smoke -0.16
        """
        from doxa.frames import ReadFrame

        rows = []
        for node, labels in self._coefficients():
            for j, label in enumerate(labels):
                estimate, r_hat, _ = self._diagnoses[node][j]
                rows.append((node, label, estimate.value, *self._spread(node, j), estimate.mcse, estimate.ess, r_hat))
        names = ["node", "coefficient", "mean", "sd", "lower", "upper", "mcse", "ess", "r_hat"]
        return ReadFrame(rows, columns=names)

    def coefficient(self, node: str, label: str) -> Estimate:
        """Posterior mean of one parameter, such as ``("systol", "smoke")`` or ``("smoke", "probability")``.

        Raises
        ------
        ArgumentError
            If there is no such parameter.
        """
        return self._diagnoses[node][self._place(node, label)].estimate

    @property
    def log_marginal_likelihood(self) -> Estimate:
        """Log probability (nats) of the table, parameters and missing cells averaged over; by bridge sampling.

        Its value is nan for draws of an approximation and for averages, which do not tell it.
        """
        return self.completed_report.log_evidence

    @property
    def log_marginal_likelihood_bound(self) -> float:
        """Lower bound (nats) of the same by the variational approximations; nan where a part has none."""
        return self.report.bound

    @cached_property
    def completed_report(self) -> FitReport:
        """`report` with the log evidence, which is estimated when it is first asked for."""
        return self.report if self._complete is None else self._complete()

    @cached_property
    def judgement(self) -> Verdict:
        """The verdict taken apart: ``converged``, ``word``, ``reason``, ``advice``, and the ``text`` of all."""
        return judge(self)

    @property
    def converged(self) -> bool | None:
        """Whether the run can be trusted; None where that cannot be told."""
        return self.judgement.converged

    @property
    def verdict(self) -> str:
        """Whether the run can be trusted, in words, with the reason and what to do."""
        return self.judgement.text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to a new file, from which `doxa.load` makes an equal one but for its approximations.

        Raises
        ------
        RunFileError
            If the name is taken, or the file cannot be written; there is then no file of that name, whole or in part.
        """
        from doxa.parameters.runs import save_trace

        save_trace(path, self.network, self.states, self.trace, self.completed_report, self.stop)

    def _coefficients(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(node, self.network.coefficients(node)) for node in self.network.parameters]

    def _part(self, node: str) -> int:
        if node not in self._part_of:
            known = ", ".join(map(repr, self._part_of)) or "none"
            raise ArgumentError(f"{node!r} has no parameters here; nodes with parameters are {known}")
        return self._part_of[node]

    def _place(self, node: str, label: str) -> int:
        labels = self.network.coefficients(node)
        if label not in labels:
            known = ", ".join(map(repr, labels)) or "none"
            raise ArgumentError(f"{label!r} is no parameter of {node!r}; its parameters are {known}")
        return labels.index(label)

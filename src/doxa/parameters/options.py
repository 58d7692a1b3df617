"""`FitOptions`: what a fit is asked for.  `FitPlan`: what its draws depend on, the options filled in."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any, Literal, NamedTuple

from doxa.checks import check_whole
from doxa.data import Table
from doxa.data.options import TableSource
from doxa.estimates.stopping import Until
from doxa.estimates.store import RunHeader
from doxa.models import LogisticNetwork
from doxa.models.logistic_json import network_from_json, network_to_json
from doxa.parameters.approximate import ONE_PASS, PASSES, check_approximation
from doxa.parameters.keeping import Averages, Keep, check_keep
from doxa.parameters.method_options import Method, check_method, method_from_settings, method_settings
from doxa.parameters.methods import METHODS
from doxa.parameters.variational.sequential import Order, check_order
from doxa.sampling.driver import Schedule, fresh_entropy, plan_length
from doxa.schema import By, Many, Within

__all__ = ["KIND", "FitOptions", "FitPlan", "StoredFit", "run_header"]

KIND = "parameters"


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What `doxa.fit` is asked for, beside network, table and where to keep the run: its keywords, and their defaults.

    Those of a run that was begun are `filled_in`.
    """

    method: Method = "auto"
    approximation: str | None = None
    order: Order = "auto"
    chains: int = 4
    draws: int | None = None
    warmup: int | None = None
    until: Until | None = None
    seed: int | None = None
    keep: Keep = "draws"

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", check_method(self.method, METHODS))
        check_approximation(self.approximation)
        check_order(self.order)
        check_keep(self.keep)

    @property
    def averages(self) -> Averages | None:
        """What is kept in the place of draws; None where draws are."""
        return self.keep if isinstance(self.keep, Averages) else None

    def filled_in(self) -> FitOptions:
        """With all that was left out: when to stop, the warm-up, a seed."""
        schedule, until = plan_length(self.chains, self.draws, self.warmup, self.until)
        seed = fresh_entropy() if self.seed is None else check_whole("seed", self.seed, 0)
        return replace(self, warmup=schedule.warmup, until=until, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers; the number of chains, the seed and the length of averages are in a run's header."""
        until = dataclasses.asdict(self.until or Until())
        return {
            "method": method_settings(self.method),
            "approximation": self.approximation,
            "order": self.order,
            "keep": "draws" if self.averages is None else "averages",
            "warmup": self.warmup,
            "draws": self.draws,
            "until": until | {"quantities": None if until["quantities"] is None else list(until["quantities"])},
        }

    @classmethod
    def of_run(cls, header: RunHeader, stored: StoredFit) -> FitOptions:
        """Undo `to_json`; ArgumentError if an option is unknown."""
        return cls(
            method=stored.method,
            approximation=stored.approximation,
            order=stored.order,
            chains=header.n_chains,
            draws=stored.draws,
            warmup=stored.warmup,
            until=stored.until,
            seed=header.entropy if isinstance(header.entropy, int) else None,
            keep=Averages(header.thin) if stored.keep == "averages" else "draws",
        )


def _method(settings: Any) -> Method:
    return method_from_settings(settings, METHODS)


@dataclass(frozen=True)
class StoredFit:
    """The options of a run file of a fit."""

    network: Annotated[LogisticNetwork, By(network_from_json)]
    states: Mapping[str, Annotated[tuple[str, ...], Many(0, 2)]]
    method: Annotated[Method, By(_method)]
    approximation: str | None
    warmup: Annotated[int | None, Within(0, 2**40)]
    draws: Annotated[int | None, Within(1, 2**40)]
    until: Until
    source: TableSource | None
    report: Any  # which `doxa.parameters.runs.report_from_json` reads
    order: Any = "auto"
    keep: Literal["draws", "averages"] = "draws"  # older files do not say
    cases: str | None = None
    stop: Any = None
    saved: Any = None


class FitPlan(NamedTuple):
    """All that the draws of a fit depend on, and when it is to stop."""

    network: LogisticNetwork
    table: Table
    options: FitOptions  # filled in
    source: dict[str, Any] | None = None  # how the table was read

    @property
    def schedule(self) -> Schedule:
        """How many chains are run, and how long."""
        return Schedule(self.options.chains, self.options.draws, self.options.warmup)

    @property
    def until(self) -> Until:
        """When they are accurate enough."""
        assert self.options.until is not None
        return self.options.until

    @property
    def entropy(self) -> int:
        """The seed."""
        assert self.options.seed is not None
        return self.options.seed

    @property
    def states(self) -> dict[str, tuple[str, ...]]:
        """Labels of the nodes that have a column."""
        table = self.table
        return {name: table.states[table.names.index(name)] for name in self.network.names if name in table.names}

    @property
    def _cases(self) -> str | None:
        """A digest of the order of the cases, which that of the data leaves out, where the approximation is by it."""
        options = self.options
        by_order = options.approximation in (*ONE_PASS, *PASSES) and options.order != "random"
        if not by_order or not self.table.has_row_order:
            return None
        return hashlib.sha256(self.table.row_index.astype("<i8").tobytes()).hexdigest()

    def header(self) -> RunHeader:
        """What a run file says of the fit, before the chains start."""
        versions = {name: version(name) for name in ("doxa", "numpy", "scipy")} | {"machine": platform.machine()}
        more = {"cases": self._cases, "source": self.source, "stop": None, "report": None}
        return run_header(self.network, self.states, self.options, self.table.digest, versions, more)


def run_header(
    network: LogisticNetwork,
    states: Mapping[str, tuple[str, ...]],
    options: FitOptions,
    digest: str,
    versions: dict[str, str],
    more: dict[str, Any],
) -> RunHeader:
    """The header of a run file: what is known of every fit, and ``more``."""
    stored = {
        "network": network_to_json(network),
        "states": {node: list(labels) for node, labels in states.items()},
        **options.to_json(),
        **more,
    }
    created = datetime.now(UTC).isoformat(timespec="seconds")
    thin = 1 if options.averages is None else options.averages.every
    return RunHeader(KIND, stored, digest, versions, options.chains, thin, options.seed, created)

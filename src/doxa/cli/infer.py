"""`doxa infer`: the distribution of variables of a network, given what was observed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import doxa
from doxa.cli import infer_options as own
from doxa.cli.app import interruptible
from doxa.cli.block_words import parse_blocks, parse_scan
from doxa.cli.evidence_words import parse_given, parse_soft
from doxa.cli.report import check_page, tell
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.models.factors import DiscreteNetwork

__all__ = ["infer"]


def infer(
    network: own.Network,
    query: own.Query = None,
    given: own.Given = None,
    soft: own.Soft = None,
    method: own.Method = "auto",
    block: own.Block = None,
    scan: own.Scan = None,
    chains: own.Chains = 4,
    draws: own.Draws = None,
    mcse: own.Mcse = None,
    exact_budget: own.ExactBudget = None,
    seed: own.Seed = None,
    output: own.Output = None,
    report: own.Report = None,
) -> None:
    """Distributions of a network's variables, given what was observed: exactly where feasible, else with an error."""
    from doxa.output import check_output, write_frame

    if output is not None:
        check_output(output, network)
    if report is not None:
        check_page(report, network)
    observed, likelihoods = parse_given(given or []), parse_soft(soft or [])
    blocks = parse_blocks("--block", block) if block else None
    model = doxa.read_network(network)
    asked = query or [name for name in model.names if name not in observed]
    with interruptible("infer"):
        result = doxa.infer(
            model,
            asked,
            given=observed,
            soft=likelihoods,
            method=method,
            exact_budget=exact_budget,
            blocks=blocks,
            scan=None if scan is None else parse_scan(scan),
            chains=chains,
            draws=draws,
            until=None if mcse is None else doxa.Until(mcse=mcse),
            seed=seed,
        )
    print(result)
    print(f"\nMethod: {printable(result.method)} ({printable(result.why)}).")
    print(printable(result.verdict))
    if result.log_evidence is not None:
        print(f"Log evidence: {result.log_evidence} nats.")
    if output is not None:
        write_frame(result.to_frame(), output)
        print(f"The table is in {printable(str(output))}.")
    if report is not None:
        options = {"method": method, "chains": chains, "draws": draws, "mcse": mcse, "exact_budget": exact_budget}
        options |= {"block": "; ".join(block) if block else None, "scan": scan}
        doxa.report(result, report, facts=_facts(network, model, likelihoods, options))
        tell(report)


def _facts(
    path: Path, model: DiscreteNetwork, soft: dict[str, list[float]], options: dict[str, object]
) -> dict[str, str]:
    """What the page says of the question besides the answer."""
    import hashlib

    kind = "directed" if isinstance(model, doxa.CategoricalNetwork) else "undirected"
    given = ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)
    facts = {
        "Network": f"{path.name}: {len(model.names)} variables, {kind}",
        "Digest of its file": hashlib.sha256(path.read_bytes()).hexdigest(),
        "Options": given,
    }
    if soft:
        facts["Soft evidence"] = "; ".join(
            f"{name}: {', '.join(f'{x:g}' for x in numbers)}" for name, numbers in soft.items()
        )
    return facts

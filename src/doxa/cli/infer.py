"""`doxa infer`: the distribution of variables of a network, given what was observed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import doxa
from doxa.cli.app import interruptible
from doxa.cli.evidence_words import parse_given, parse_soft
from doxa.cli.report import check_page, tell
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.models.factors import DiscreteNetwork

__all__ = ["infer"]


def infer(
    network: Annotated[
        Path, typer.Argument(help="A network file: .bif, .xml, .xmlbif or .uai, also with .gz.", metavar="NETWORK")
    ],
    query: Annotated[
        list[str] | None,
        typer.Option(help="A variable to ask for (repeat for more).", show_default="all that were not observed"),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            help='What was observed: BP=LOW, split at the first "=" (repeat for more); or a JSON object for odd names.',
            show_default=False,
        ),
    ] = None,
    soft: Annotated[
        list[str] | None,
        typer.Option(
            help="Likelihoods of a variable's states, in their order: BP=0.5,1,2 (repeat for more).",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="auto, exact, importance, gibbs, tempering, or mean_field for an approximation.")
    ] = "auto",
    chains: Annotated[int, typer.Option(help="Independent chains, where there are chains.", show_default=True)] = 4,
    draws: Annotated[
        int | None, typer.Option(help="Draws of each chain, or weighted draws.", show_default="until accurate")
    ] = None,
    mcse: Annotated[
        float | None,
        typer.Option(help="Monte Carlo error of a probability to stop at.", show_default="0.01"),
    ] = None,
    exact_budget: Annotated[
        int | None, typer.Option(help="Most operations that an exact answer may take.", show_default="20000000000")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed; the same seed gives the same draws.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the table to this file, too: .csv, .json or .parquet.", show_default=False),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write a page with the answer, too: one file of HTML.", metavar="FILE.html", show_default=False
        ),
    ] = None,
) -> None:
    """Distributions of a network's variables, given what was observed: exactly where feasible, else with an error."""
    from doxa.output import check_output, write_frame

    if output is not None:
        check_output(output, network)
    if report is not None:
        check_page(report, network)
    observed, likelihoods = parse_given(given or []), parse_soft(soft or [])
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

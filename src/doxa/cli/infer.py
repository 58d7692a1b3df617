"""`doxa infer`: the distribution of variables of a network, given what was observed.

Options of Gibbs sampling in blocks: ``tub,lung`` for a block, a JSON object for a choice, ``1,2,1`` for weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import doxa
from doxa.cli import options
from doxa.cli.app import interruptible
from doxa.cli.options import Words, check_end, said, typed
from doxa.cli.report import check_page, tell
from doxa.cli.words import as_numbers, parse_given, parse_names, parse_soft, refuse
from doxa.text import printable

if TYPE_CHECKING:
    from doxa.inference import ChosenBy
    from doxa.inference.answers import Inference
    from doxa.inference.options import InferOptions
    from doxa.models import GaussianNetwork
    from doxa.models.factors import DiscreteNetwork

__all__ = ["infer", "parse_blocks", "parse_scan"]

Query = Annotated[Words, said("A variable to ask for (repeat for more).", "all that were not observed")]
Given = Annotated[
    Words, said('What was observed: BP=LOW, split at the first "=" (repeat for more); or a JSON object for odd names.')
]
Soft = Annotated[
    Words,
    said(
        "Likelihoods of a variable's states, in their order: BP=0.5,1,2; of a number a measurement and its standard "
        "deviation: age=50,3 (repeat for more)."
    ),
]
Method = Annotated[str, said("auto, exact, importance, gibbs, tempering, or mean_field for an approximation.", True)]
Block = Annotated[
    Words,
    said(
        "With --method gibbs, variables to redraw together: tub,lung (repeat for more; they may overlap). A JSON "
        'object lets a state choose: {"smoke": {"yes": [["tub", "lung"]], "no": [["tub"], ["lung"]]}}.',
        "doxa's own",
    ),
]
Scan = Annotated[
    str | None,
    said("With --method gibbs, in_order, reversed or random; or how often each block is drawn: 1,2,1.", "in_order"),
]
Chains = Annotated[int, said("Independent chains, where there are chains.", True)]
Draws = Annotated[int | None, said("Draws of each chain, or weighted draws.", "until accurate")]
Mcse = Annotated[float, said("Stop when no probability has a larger Monte Carlo error.", True)]
ExactBudget = Annotated[int | None, said("Most operations that an exact answer may take.", "20000000000")]
MostProbable = Annotated[
    bool, typer.Option("--most-probable", help="The likeliest states of all variables together, in place of all this.")
]
Output = Annotated[Path | None, options.written_too("the table")]


_OF_STATES = frozenset({"network", "given", "soft", "method", "exact_budget", "seed", "most_probable"})
_WHEN_TO_STOP = ("mcse", "max_draws", "max_seconds")


def parse_blocks(option: str, words: list[str]) -> list[list[str] | ChosenBy]:
    """``["tub,lung", '{"smoke": {"yes": [["tub"]], "no": []}}']`` to blocks; names with commas in quotes."""
    return [_choice(option, word) if word.lstrip().startswith("{") else parse_names(option, word) for word in words]


def parse_scan(word: str) -> Any:
    """``"1,2,1"`` to weights; any other word as it is, for `doxa.infer` to judge."""
    try:
        return [float(weight) for weight in word.split(",")]
    except ValueError:
        return word


def _choice(option: str, word: str) -> ChosenBy:
    from doxa.inference import ChosenBy

    try:
        found: dict[str, Any] = json.loads(word)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{word!r} is no JSON object: {error}", param_hint=option) from None
    if len(found) != 1:
        example = '{"smoke": {"yes": [["tub"]], "no": []}}'
        refuse(option, f"{word!r} has {len(found)} names; one variable chooses, as in {example}")
    ((variable, blocks),) = found.items()
    return ChosenBy(variable, blocks)


def infer(
    context: typer.Context,
    network: options.Network,
    query: Query = None,
    given: Given = None,
    soft: Soft = None,
    method: Method = "auto",
    block: Block = None,
    scan: Scan = None,
    chains: Chains = 4,
    draws: Draws = None,
    warmup: options.Warmup = None,
    mcse: Mcse = 0.01,
    max_draws: options.MaxDraws = None,
    max_seconds: options.MaxSeconds = None,
    exact_budget: ExactBudget = None,
    seed: options.Seed = None,
    workers: options.Workers = None,
    most_probable: MostProbable = False,
    output: Output = None,
    report: options.Report = None,
) -> None:
    """Distributions of a network's variables, given what was observed: exactly where feasible, else with an error."""
    from doxa.inference.infer import infer_from
    from doxa.inference.options import InferOptions
    from doxa.models import GaussianNetwork
    from doxa.output import check_output

    chosen = typed(context)
    check_end(chosen, _WHEN_TO_STOP)
    check_output(output, network)
    check_page(report, network)
    words, likelihoods = parse_given(given or []), parse_soft(soft or [])
    goal = doxa.Until(mcse=mcse, max_draws=max_draws, max_seconds=max_seconds)
    asked = InferOptions(
        method=method,
        exact_budget=exact_budget,
        blocks=parse_blocks("--block", block) if block else None,
        scan=None if scan is None else parse_scan(scan),
        chains=chains,
        draws=draws,
        warmup=warmup,
        until=goal if chosen.intersection(_WHEN_TO_STOP) else None,
        seed=seed,
    )
    model = doxa.read_network(network)
    numbers = set(model.regressions) if isinstance(model, GaussianNetwork) else set()
    observed = as_numbers(words, numbers, "--given")
    if most_probable:
        if isinstance(model, GaussianNetwork):
            refuse("--most-probable", "the network has numbers, whose answers have none; leave it out")
        for name in sorted(chosen - _OF_STATES):
            refuse("--most-probable", f"it has no --{name.replace('_', '-')}; leave that out")
        _explain(model, words, likelihoods, asked)
        return
    with interruptible("infer"):
        result = infer_from(model, query or None, observed, likelihoods, asked, workers)
    _show(result, output)
    if report is not None:
        doxa.report(result, report, facts=_facts(network, model, likelihoods, asked))
        tell(report)


def _show(result: Inference, output: Path | None) -> None:
    """Print an answer, and write its table where that is wanted."""
    from doxa.output import write_frame

    print(result)
    print(f"\nMethod: {printable(result.method)} ({printable(result.why)}).")
    print(printable(result.verdict))
    if result.log_evidence is not None:
        print(f"Log evidence: {result.log_evidence} nats.")
    if output is not None:
        write_frame(result.to_frame(), output)
        print(f"The table is in {printable(str(output))}.")


def _explain(
    model: DiscreteNetwork, observed: dict[str, str], soft: dict[str, list[float]], asked: InferOptions
) -> None:
    """Print the likeliest states of what was not observed."""
    with interruptible("infer"):
        found = doxa.most_probable(
            model,
            given=observed,
            soft=soft,
            exact_budget=asked.exact_budget,
            method=asked.method,  # type: ignore[arg-type]  # it judges
            seed=asked.seed,
        )
    for name, label in found.states.items():
        if name not in observed:
            print(printable(f"{name} = {label}"))
    print(f"\nLog probability, with what was observed: {found.log_probability:.6g} nats.")
    print(found.verdict)


def _facts(
    path: Path, model: DiscreteNetwork | GaussianNetwork, soft: dict[str, list[float]], asked: InferOptions
) -> dict[str, str]:
    """What the page says of the question besides the answer."""
    import hashlib

    kind = "undirected" if isinstance(model, doxa.MarkovNetwork) else "directed"
    facts = {
        "Network": f"{path.name}: {len(model.names)} variables, {kind}",
        "Digest of its file": hashlib.sha256(path.read_bytes()).hexdigest(),
        "Options": str(asked),
    }
    if soft:
        facts["Soft evidence"] = "; ".join(
            f"{name}: {', '.join(f'{x:g}' for x in numbers)}" for name, numbers in soft.items()
        )
    return facts

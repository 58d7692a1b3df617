"""Options of `doxa infer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from doxa.cli import options

__all__ = [
    "Block",
    "Chains",
    "Draws",
    "ExactBudget",
    "Given",
    "Mcse",
    "Method",
    "Network",
    "Output",
    "Query",
    "Report",
    "Scan",
    "Seed",
    "Soft",
]

Network = Annotated[
    Path, typer.Argument(help="A network file: .bif, .xml, .xmlbif or .uai, also with .gz.", metavar="NETWORK")
]
Query = Annotated[
    list[str] | None,
    typer.Option(help="A variable to ask for (repeat for more).", show_default="all that were not observed"),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        help='What was observed: BP=LOW, split at the first "=" (repeat for more); or a JSON object for odd names.',
        show_default=False,
    ),
]
Soft = Annotated[
    list[str] | None,
    typer.Option(
        help="Likelihoods of a variable's states, in their order: BP=0.5,1,2 (repeat for more).",
        show_default=False,
    ),
]
Method = Annotated[
    str, typer.Option(help="auto, exact, importance, gibbs, tempering, or mean_field for an approximation.")
]
Block = Annotated[
    list[str] | None,
    typer.Option(
        help="With --method gibbs, variables to redraw together: tub,lung (repeat for more; they may overlap). A JSON "
        'object lets a state choose: {"smoke": {"yes": [["tub", "lung"]], "no": [["tub"], ["lung"]]}}.',
        show_default="doxa's own",
    ),
]
Scan = Annotated[
    str | None,
    typer.Option(
        help="With --method gibbs, in_order, reversed or random; or how often each block is drawn: 1,2,1.",
        show_default="in_order",
    ),
]
Chains = Annotated[int, typer.Option(help="Independent chains, where there are chains.", show_default=True)]
Draws = Annotated[
    int | None, typer.Option(help="Draws of each chain, or weighted draws.", show_default="until accurate")
]
Mcse = Annotated[
    float | None,
    typer.Option(help="Monte Carlo error of a probability to stop at.", show_default="0.01"),
]
ExactBudget = Annotated[
    int | None, typer.Option(help="Most operations that an exact answer may take.", show_default="20000000000")
]
Seed = Annotated[int | None, typer.Option(help="Seed; the same seed gives the same draws.", show_default=False)]
Output = Annotated[Path | None, options.written_too("the table")]
Report = Annotated[
    Path | None,
    typer.Option(help="Write a page with the answer, too: one file of HTML.", metavar="FILE.html", show_default=False),
]

"""Options of `doxa learn`, besides those that other commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from doxa.cli import options

__all__ = [
    "Chains",
    "Data",
    "Do",
    "Draws",
    "EdgeLogOdds",
    "EquivalentSampleSize",
    "Ess",
    "Exact",
    "Family",
    "Forbidden",
    "Given",
    "Hidden",
    "Indicator",
    "MaxParents",
    "Mcse",
    "Output",
    "Prior",
    "PriorScale",
    "Query",
    "RHat",
    "Required",
    "Resume",
    "Sampler",
    "Score",
    "Store",
    "Thin",
    "Tier",
]

Data = Annotated[
    Path | None,
    typer.Argument(help="A CSV or Parquet file: a header, then one case a row.", metavar="DATA", show_default=False),
]
Sampler = Annotated[
    str,
    typer.Option(
        help="How to move between graphs: auto, single_edge, edge_gibbs, emc3, markov_blanket, parent_set_gibbs, "
        "edge_reversal or tempered."
    ),
]
Chains = Annotated[int, typer.Option(help="Independent chains, started far apart.")]
Draws = Annotated[int | None, typer.Option(help="Graphs kept from each chain.", show_default="until accurate enough")]
Thin = Annotated[
    int | None, typer.Option(help="Steps between two draws.", show_default="n(n-1) for n columns, at least 200")
]
Mcse = Annotated[float, typer.Option(help="Stop when no probability has a larger Monte Carlo error.")]
RHat = Annotated[float, typer.Option(help="Stop when the chains agree to this R-hat.")]
Ess = Annotated[float, typer.Option(help="Stop when there are so many effective draws.")]
MaxParents = Annotated[
    list[str] | None,
    typer.Option(
        help="Largest number of parents: 3, or heart=2 for one column (repeat for more).", show_default="any number"
    ),
]
Family = Annotated[
    str, typer.Option(help="How a node depends on its parents: categorical (a table), logistic, or auto (both).")
]
Score = Annotated[str, typer.Option(help="Of tables: bdeu, k2 or bic.")]
EquivalentSampleSize = Annotated[float, typer.Option(help="Weight of the BDeu prior, in cases.")]
PriorScale = Annotated[
    float | None, typer.Option(help="Standard deviation of logistic coefficients a priori.", show_default="2")
]
Prior = Annotated[str, typer.Option(help="sparse, uniform over graphs, or uniform over the in_degree of each node.")]
EdgeLogOdds = Annotated[
    list[str] | None,
    typer.Option(
        help="Added to the log prior for each edge: -2, or smokes,heart=1.5 for one edge (repeat for more).",
        show_default=False,
    ),
]
Required = Annotated[
    list[str] | None,
    typer.Option(help="An edge that every graph has: smokes,heart (repeat for more).", show_default=False),
]
Forbidden = Annotated[
    list[str] | None,
    typer.Option(help="An edge that no graph has: heart,age (repeat for more).", show_default=False),
]
Tier = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns of one time, age,sex; repeat in the order of time. No edge leads to an earlier tier.",
        show_default=False,
    ),
]
Indicator = Annotated[
    list[str] | None,
    typer.Option(
        help="A column that matters by its absence, too (repeat for more): adds a column for that.",
        show_default=False,
    ),
]
Hidden = Annotated[
    list[str] | None,
    typer.Option(help="A column that nobody observed and its states: cause=2 (repeat for more).", show_default=False),
]
Query = Annotated[
    list[str] | None,
    typer.Option(
        help="How probable is party=republican, or each state of party (repeat for more), averaged over networks?",
        show_default=False,
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(help="Among cases where crime=y was seen (repeat for more).", show_default=False),
]
Do = Annotated[
    list[str] | None,
    typer.Option(help="Where crime=y was set by intervention (repeat for more).", show_default=False),
]
Exact = Annotated[
    bool | None,
    typer.Option(
        "--exact/--sample", help="Sum over all graphs, or sample them.", show_default="sum if there are few columns"
    ),
]
Store = Annotated[Path | None, options.kept_as_it_goes("run")]
Resume = Annotated[Path | None, options.gone_on_with("run")]
Output = Annotated[Path | None, options.written_too("all edges")]

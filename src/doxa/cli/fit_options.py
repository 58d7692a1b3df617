"""Options of `doxa fit`, besides those that other commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from doxa.cli import options

__all__ = [
    "Approximation",
    "Average",
    "Bias",
    "Bins",
    "Chains",
    "Coding",
    "Data",
    "Draws",
    "Ess",
    "Graph",
    "Method",
    "Order",
    "Output",
    "Predict",
    "Predictions",
    "PriorMean",
    "PriorScale",
    "RHat",
    "Resume",
    "Root",
    "Store",
]

Graph = Annotated[
    Path | None,
    typer.Argument(
        help="The graph: lines 'child: parent parent', the structure of a .bif file, or edges as .csv.",
        metavar="GRAPH",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Argument(
        help="A CSV or Parquet file: a header, then one case a row. Nodes without a column are hidden.",
        metavar="DATA",
        show_default=False,
    ),
]
PriorScale = Annotated[
    list[str] | None,
    typer.Option(
        help="Standard deviation of the normal prior of the coefficients: 2.5, or heart=2.5 for one node (repeat "
        "for more); or learned, for one that is learned from all coefficients of parents.",
        show_default="10",
    ),
]
PriorMean = Annotated[
    list[str] | None,
    typer.Option(
        help="Mean of that prior: 1, or heart=1 for one node (repeat for more).",
        show_default="0",
    ),
]
Coding = Annotated[str, typer.Option(help="Parents count as -1 and +1 (pm1), or as 0 and 1 (01).")]
Bias = Annotated[
    list[str] | None,
    typer.Option(
        help="learned, or fixed at a number: 0.5, or heart=0.5 for one node (repeat for more).",
        show_default="learned",
    ),
]
Root = Annotated[
    list[str] | None,
    typer.Option(
        help="Probability that a node without parents is 1: smokes=0.3 (repeat for more).", show_default="learned"
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help="How to draw: auto, independence, flip, split_hmc, hmc, block, mixture, random_walk, tempered, "
        "regeneration, resampling, augmentation, or variational for the approximation itself."
    ),
]
Approximation = Annotated[
    str | None,
    typer.Option(
        help="What steps are proposed from: optimal, laplace, jaakkola_jordan, sequential or "
        "spiegelhalter_lauritzen; where values are hidden unconstrained, structured or mean_field, or in one pass "
        "sequential_unconstrained, sequential_structured or sequential_mean_field.",
        show_default="optimal",
    ),
]
Order = Annotated[
    str,
    typer.Option(
        help="Of the cases, where the approximation takes one after another: auto, table (as they stand) or random."
    ),
]
Chains = Annotated[int, typer.Option(help="Independent chains, or groups of them.")]
Draws = Annotated[int | None, typer.Option(help="Draws kept from each chain.", show_default="until accurate enough")]
Average = Annotated[
    int | None,
    typer.Option(
        help="Keep averages of so many draws in the place of draws; --draws and --warmup then count averages.",
        show_default=False,
    ),
]
RHat = Annotated[float, typer.Option(help="Stop when the chains agree to this R-hat in every coefficient.")]
Ess = Annotated[float, typer.Option(help="Stop when every coefficient has so many effective draws.")]
Bins = Annotated[
    list[str] | None,
    typer.Option(
        help="Cut numeric columns into quantile bins: 2, or age=2 for one column (repeat for more).",
        show_default=False,
    ),
]
Store = Annotated[Path | None, options.kept_as_it_goes("fit")]
Resume = Annotated[Path | None, options.gone_on_with("fit", " GRAPH and DATA may be left out.")]
Output = Annotated[Path | None, options.written_too("the summary")]
Predict = Annotated[
    Path | None,
    typer.Option(
        help="Rows whose missing cells are to be predicted: a CSV or Parquet file. Nodes without a column are "
        "missing in every row.",
        show_default=False,
    ),
]
Predictions = Annotated[
    Path | None,
    typer.Option(
        help="Write the probability of 1 of each of those cells to this file: .csv, .json or .parquet.",
        show_default=False,
    ),
]

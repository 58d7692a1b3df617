"""The command line: parse, call, print.

Exit code 0 means that an answer was given, 2 that the input was at fault (one line says how), 130 that the run was
interrupted.  Answers go to standard output; progress, notices and errors to standard error.
"""

from __future__ import annotations

import io
import logging
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import doxa
from doxa.errors import DoxaError
from doxa.text import printable
from doxa.words import parse_edges, parse_log_odds, parse_names, parse_numbers

if TYPE_CHECKING:
    from doxa.structure import StructurePosterior

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Bayesian belief networks: what depends on what in a table, how strongly, and how sure that is.",
)

_EDGES_SHOWN = 20


def main() -> None:
    """Run the command line; the entry point of the ``doxa`` command."""
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show is escaped, not fatal
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    notices = logging.getLogger("doxa")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("doxa: %(message)s"))
    notices.addHandler(handler)
    notices.setLevel(logging.INFO)
    try:
        code = _run()
    finally:
        notices.removeHandler(handler)
    sys.exit(code)


def _run() -> int:
    """Run the command that was typed and return the exit code."""
    try:
        outcome = app(prog_name="doxa", standalone_mode=False)
        sys.stdout.flush()  # so that a full disk is noticed here
    except DoxaError as error:
        return _fail(printable(str(error)))
    except BrokenPipeError:  # the reader of our output, such as head, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"the answer could not be printed: {error.strerror or error}")
    except Exception as error:
        if not hasattr(error, "format_message"):  # Typer's own, for words it cannot parse
            raise
        message = error.format_message().rstrip(".")
        return _fail(f"{message}; see doxa --help") if message else 2  # no words at all: the help was shown
    return outcome if isinstance(outcome, int) else 0


@contextmanager
def _interruptible(kept: Path | None = None) -> Iterator[None]:
    """Turn Ctrl-C into one line that says how far the run had come, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        told = getattr(interruption, "__notes__", None) or ["interrupted"]
        after = (
            "nothing was written" if kept is None else f"go on with it by: doxa learn --resume {printable(str(kept))}"
        )
        print(f"doxa: {told[0]}; {after}", file=sys.stderr)
        raise typer.Exit(130) from None


def _fail(message: str) -> int:
    print(f"doxa: {message}", file=sys.stderr)
    return 2


def _version(asked: bool) -> None:
    if asked:
        print(f"doxa {doxa.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: ARG001 (the callback has dealt with it)
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    return


@app.command()
def learn(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="A CSV or Parquet file: a header, then one case a row.", metavar="DATA", show_default=False
        ),
    ] = None,
    sampler: Annotated[
        str,
        typer.Option(
            help="How to move between graphs: auto, single_edge, edge_gibbs, emc3, markov_blanket, parent_set_gibbs, "
            "edge_reversal or tempered."
        ),
    ] = "auto",
    chains: Annotated[int, typer.Option(help="Independent chains, started far apart.")] = 4,
    draws: Annotated[
        int | None, typer.Option(help="Graphs kept from each chain.", show_default="until accurate enough")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(help="Draws discarded first.", show_default="half of --draws, or until the chains agree"),
    ] = None,
    thin: Annotated[
        int | None, typer.Option(help="Steps between two draws.", show_default="n(n-1) for n columns, at least 200")
    ] = None,
    mcse: Annotated[float, typer.Option(help="Stop when no probability has a larger Monte Carlo error.")] = 0.01,
    r_hat: Annotated[float, typer.Option(help="Stop when the chains agree to this R-hat.")] = 1.01,
    ess: Annotated[float, typer.Option(help="Stop when there are so many effective draws.")] = 400.0,
    max_draws: Annotated[
        int | None, typer.Option(help="Stop after so many draws of each chain all the same.", show_default="100000")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="Stop after so many seconds all the same.", show_default="none")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same draws.", show_default="fresh")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Chains that run at the same time.", show_default="one for each core")
    ] = None,
    max_parents: Annotated[
        list[str] | None,
        typer.Option(
            help="Largest number of parents: 3, or heart=2 for one column (repeat for more).", show_default="any number"
        ),
    ] = None,
    score: Annotated[str, typer.Option(help="bdeu, k2 or bic.")] = "bdeu",
    equivalent_sample_size: Annotated[float, typer.Option(help="Weight of the BDeu prior, in cases.")] = 1.0,
    prior: Annotated[str, typer.Option(help="uniform over graphs, or over the in_degree of each node.")] = "uniform",
    edge_log_odds: Annotated[
        list[str] | None,
        typer.Option(
            help="Added to the log prior for each edge: -2, or smokes,heart=1.5 for one edge (repeat for more).",
            show_default=False,
        ),
    ] = None,
    required: Annotated[
        list[str] | None,
        typer.Option(help="An edge that every graph has: smokes,heart (repeat for more).", show_default=False),
    ] = None,
    forbidden: Annotated[
        list[str] | None,
        typer.Option(help="An edge that no graph has: heart,age (repeat for more).", show_default=False),
    ] = None,
    tier: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of one time, age,sex; repeat in the order of time. No edge leads to an earlier tier.",
            show_default=False,
        ),
    ] = None,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--sample", help="Sum over all graphs, or sample them.", show_default="sum if there are few columns"
        ),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="Use this column (repeat for more); all when left out.", show_default=False)
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(
            help="Cut numeric columns into so many quantile bins: 4, or age=4 for one column (repeat for more).",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="A text that marks a missing cell (repeat for more), instead of NA, NaN, null, ? and the empty cell.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Keep the run in this new file as it goes: safe against crashes.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with the run in this file, as it was started; only --draws and the accuracy may change.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write all edges to this file, too: .csv, .json or .parquet.", show_default=False),
    ] = None,
) -> None:
    """Learn which columns of a table depend on which: the posterior over graphs, with errors."""
    from doxa.output import check_output
    from doxa.structure.learn import exact_answer, make_plan, run_plan
    from doxa.structure.limits import make_limits
    from doxa.structure.options import check_score
    from doxa.structure.priors import make_prior
    from doxa.structure.runs import begin

    kept = resume if resume is not None else store
    if output is not None:  # before hours of sampling, not after
        for needed in (data, kept):
            check_output(output, needed)
    read: dict[str, Any] = {"columns": columns, "missing": missing, "bins": parse_numbers("--bins", bins)}
    with _interruptible(kept):
        if resume is not None:
            if store is not None:
                raise typer.BadParameter(
                    "--resume goes on with a run and --store begins one; give one of them", param_hint="--store"
                )
            asked = (r_hat, mcse, ess, max_draws, max_seconds)
            until = None if asked == (1.01, 0.01, 400.0, None, None) else doxa.Until(*asked)
            table = None if data is None else doxa.read_table(data, **read)
            posterior = doxa.resume(resume, table, draws=draws, until=until, workers=workers)
        else:
            if data is None:
                raise typer.BadParameter("name the file with the table, or give --resume RUN", param_hint="DATA")
            cases = doxa.read_table(data, **read)
            plan = make_plan(
                cases,
                {"source": str(data.absolute()), **read},
                score=check_score(score, equivalent_sample_size),
                prior=make_prior(cases.names, prior, parse_log_odds("--edge-log-odds", edge_log_odds)),
                limits=make_limits(
                    cases.names,
                    max_parents=parse_numbers("--max-parents", max_parents),
                    required=parse_edges("--required", required),
                    forbidden=parse_edges("--forbidden", forbidden),
                    tiers=None if tier is None else [parse_names("--tier", names) for names in tier],
                ),
                sampler=sampler,
                chains=chains,
                draws=draws,
                warmup=warmup,
                thin=thin,
                until=doxa.Until(r_hat, mcse, ess, max_draws, max_seconds) if draws is None else None,
                seed=seed,
            )
            given = (draws, warmup, thin, max_draws, max_seconds, store)
            sampling = (
                sampler != "auto" or (mcse, r_hat, ess) != (0.01, 1.01, 400.0) or any(x is not None for x in given)
            )
            answer = exact_answer(plan, exact, sampling, workers)
            if answer is None:
                answer = run_plan(plan, None if store is None else lambda: begin(store, plan), workers, None)
            posterior = answer
    _show(posterior, _EDGES_SHOWN)
    if output is not None:
        _write_edges(posterior, output)


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help="A run file, finished or under way.", metavar="RUN")],
    output: Annotated[
        Path | None,
        typer.Option(help="Write all edges to this file, too: .csv, .json or .parquet.", show_default=False),
    ] = None,
    draws: Annotated[
        Path | None,
        typer.Option(help="Write every sampled graph to this file, too: .csv, .json or .parquet.", show_default=False),
    ] = None,
) -> None:
    """Show what is in a run file that `doxa learn --store` made."""
    from doxa.output import check_output, write_frame

    for path in (output, draws):
        if path is not None:
            check_output(path, run)
    posterior = doxa.load(run)
    _show(posterior, _EDGES_SHOWN)
    if output is not None:
        _write_edges(posterior, output)
    if draws is not None:
        write_frame(posterior.to_frame(), draws)
        print(f"\nAll {posterior.n_edges.size} draws are in {printable(str(draws))}.")


@app.command()
def demo() -> None:
    """Learn the structure of a real data set that comes with doxa, and explain what is seen."""
    from doxa import datasets

    print(datasets.describe("reinis"))
    print()
    with _interruptible():
        posterior = doxa.learn(datasets.load("reinis"), sampler="single_edge", seed=1)
    _show(posterior, 15)
    print()
    print("'joined' is the probability of an edge in either direction. Where it is near 1 and the two directions share")
    print("it, the data show that the two are connected, but not which way. Next, try a file of your own:")
    print("  doxa learn FILE.csv --output edges.csv")


def _write_edges(posterior: StructurePosterior, path: Path) -> None:
    from doxa.output import write_frame

    write_frame(posterior.edges(), path)
    print(f"\nAll {len(posterior.names) * (len(posterior.names) - 1)} edges are in {printable(str(path))}.")


def _show(posterior: StructurePosterior, most: int) -> None:
    """Print the run, the edge table and the verdict."""
    from doxa.structure.summary import cache_text, ranked_edges, run_text

    print(run_text(posterior))
    if posterior.cache is not None:
        print(cache_text(posterior))
    print()
    rows = [("source", "target", "probability", "95% interval", "ess", "r_hat", "joined")]
    for edge in ranked_edges(posterior, most):
        low, high = edge.estimate.interval()
        r_hat = "-" if math.isnan(edge.r_hat) else f"{edge.r_hat:.3f}"
        ess = "-" if math.isinf(edge.estimate.ess) else f"{edge.estimate.ess:.0f}"
        joined = f"{edge.joined.value:.3f}"
        names = (printable(edge.source), printable(edge.target))
        rows.append((*names, str(edge.estimate), f"{low:.3f} - {high:.3f}", ess, r_hat, joined))
    # Columns as wide as their widest cell, whatever the terminal: a cut name or number is worse than a long line.
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(w) if column < 2 else cell.rjust(w)
            for column, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    left = len(posterior.names) * (len(posterior.names) - 1) - most
    if left > 0:
        print(f"... and {left} less probable edges")
    print()
    print(f"edges in a graph: {posterior.expected_edges}")
    print(printable(posterior.verdict))

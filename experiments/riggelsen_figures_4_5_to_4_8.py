"""Riggelsen, chapter 4, section 3.3.5: figures 4.5 to 4.8 again, with the kernels as printed and with them corrected.

    python experiments/riggelsen_figures_4_5_to_4_8.py [--quick] [--figures FOLDER]

ALARM with 1000, 5000 and 7000 records and Insurance with 500 and 10,000, forward-sampled from the reference networks;
BDeu with equivalent sample size 1, a uniform prior over graphs, no cap on the number of parents; chains of 1,000,000
iterations (riggelsen/runs.py says what an iteration is) from the empty and from the true graph.  The chapter's own
records are lost, so its numbers and ours may differ by what one sample differs from another; the last table tells how
much that is.  docs/experiments.md is the account.

``--quick`` makes a thousandth of the iterations on a tenth of the records, to see that everything runs; its numbers
mean nothing.
``--figures`` is where the drawings go: docs/figures, and nowhere with ``--quick``, unless given.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from riggelsen.claims import claims_table, others_table, runs_table, scan_table, six_table
from riggelsen.figures import draw_all
from riggelsen.runs import Results, run_all

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a thousandth of the iterations, a tenth of the records")
    parser.add_argument("--figures", type=Path, help="folder of the drawings")
    arguments = parser.parse_args()
    report(run_all(arguments.quick), arguments.figures or (None if arguments.quick else FIGURES))


def report(results: Results, folder: Path | None) -> None:
    """Print the tables, draw the figures."""
    for heading, text in (
        (
            "Claims: ranges are the middle 90% of the second half; nats are log scores less the posterior's",
            claims_table,
        ),
        ("Runs: distances are from the true graph, in pairs of nodes", runs_table),
        ("eMC3, corrected, with six steps to an iteration: as many proposals as MB-MCMC with k = 5", six_table),
        ("k and w: six million steps each, from the empty graph", scan_table),
        (
            "Other records: mean edges of a run from the empty graph (nats less that of Auto), first those used above",
            others_table,
        ),
    ):
        print(f"== {heading}\n\n{text(results)}\n")
    for path in draw_all(results, folder) if folder else ():
        print(f"{path} ({path.stat().st_size / 1000:.0f} kB)")
    print(f"{results.seconds:.0f} CPU seconds of sampling")


if __name__ == "__main__":
    main()

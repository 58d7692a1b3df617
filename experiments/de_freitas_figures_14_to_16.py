"""De Freitas et al. (2001), section 5.2 again: figures 14 to 16, a network with a hidden parent and two modes.

    python experiments/de_freitas_figures_14_to_16.py [--quick] [--figures FOLDER] [--markdown]

Ten data sets of 50 records whose posterior has two modes, twenty chains of 5000 iterations of each algorithm, against
the posterior on a grid.  docs/experiments-logistic.md is the account.
"""

from de_freitas.bimodal import run_all
from de_freitas.bimodal_report import claims, draw, table
from logistic_papers.script import Outcome, run_script


def run(quick: bool) -> Outcome:
    results = run_all(quick)
    heading = (
        "Means over sets and chains: distance in total variation, mass of theta_h < 0, errors, outside the 99% region"
    )
    return Outcome(claims(results), {"de_freitas_figures_14_to_16": draw(results)}, [(heading, table(results))])


if __name__ == "__main__":
    run_script(__doc__ or "", run)

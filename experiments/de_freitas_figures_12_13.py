"""De Freitas et al. (2001), section 5.1 again: figures 12 and 13, table 1, and the abstract's claim on moments.

    python experiments/de_freitas_figures_12_13.py [--quick] [--figures FOLDER] [--markdown]

1, 5, 10, 20 and 50 parents, 1000 records, ten data sets; chains of 5000 iterations, of which the first 500 are figure
12.  The algorithms as published, the same with all xi fitted together, and independence Metropolis-Hastings on the
optimal Gaussian, against the exact posterior.  docs/experiments-logistic.md is the account.
"""

from de_freitas.unimodal import run_all
from de_freitas.unimodal_claims import claims
from de_freitas.unimodal_figures import draw_likelihoods, draw_moments
from de_freitas.unimodal_tables import tables
from logistic_papers.script import Outcome, run_script


def run(quick: bool) -> Outcome:
    results = run_all(quick)
    figures = {
        "de_freitas_figures_12_13": draw_likelihoods(results),
        "de_freitas_moments": draw_moments(results),
    }
    return Outcome(claims(results), figures, tables(results))


if __name__ == "__main__":
    run_script(__doc__ or "", run)

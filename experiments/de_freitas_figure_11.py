"""De Freitas et al. (2001), figure 11 again: likelihoods of a coefficient that is 1, from 1000 records.

    python experiments/de_freitas_figure_11.py [--quick] [--figures FOLDER] [--markdown]

Four data sets as in the paper, and 20,000 more for what it says of them.  docs/experiments-logistic.md is the account.
"""

from de_freitas.figure_11 import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

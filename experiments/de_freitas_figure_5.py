"""De Freitas et al. (2001), figure 5 again: Metropolis with a proposal that is too narrow, about right, too wide.

    python experiments/de_freitas_figure_5.py [--quick] [--figures FOLDER] [--markdown]

100 chains of 5000 iterations for each width, begun at the smaller mode.  docs/experiments-logistic.md is the account.
"""

from de_freitas.figure_5 import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

"""Jaakkola & Jordan (2000), figures 7 and 8 again: bounds on the probability of a node whose parents are not seen.

    python experiments/jaakkola_jordan_figures_7_8.py [--quick] [--figures FOLDER] [--markdown]

Five parents, a free and a factorised q, one xi as in the paper and one for each configuration of the parents.
docs/experiments-logistic.md is the account.
"""

from jaakkola_jordan.marginalisation import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

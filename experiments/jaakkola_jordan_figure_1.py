"""Jaakkola & Jordan (2000), section 2: figure 1, a convex function and the tangents that bound it from below.

    python experiments/jaakkola_jordan_figure_1.py [--quick] [--figures FOLDER] [--markdown]

The even part of the logarithm of the logistic function as a function of the square of its argument.
docs/experiments-logistic.md is the account.
"""

from jaakkola_jordan.tangents import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

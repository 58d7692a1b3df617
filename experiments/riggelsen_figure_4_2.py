"""Riggelsen, chapter 4, section 2.1.2: figure 4.2, an irreducible and a reducible chain.

    python experiments/riggelsen_figure_4_2.py [--quick] [--figures FOLDER] [--markdown]

Walks on the squares of a board, with and without a wall across it.  docs/experiments.md is the account.
"""

from logistic_papers.script import run_script
from riggelsen.figure_4_2 import run

if __name__ == "__main__":
    run_script(__doc__ or "", run)

"""The slides on stochastic inference, example 1: a random walk with one width on coordinates of different widths.

    python experiments/antal_example_1.py [--quick] [--figures FOLDER] [--markdown]

Gaussians of two coordinates, one of them up to thirty times as wide; steps in units of the narrow one.
docs/experiments-inference.md is the account.
"""

from antal.random_walk import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

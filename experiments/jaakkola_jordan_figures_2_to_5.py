"""Jaakkola & Jordan (2000), figures 2 to 5 again: the accuracy of the variational method for one observation.

    python experiments/jaakkola_jordan_figures_2_to_5.py [--quick] [--figures FOLDER] [--markdown]

The bound, and the posterior's mean, standard deviation and divergence, beside Spiegelhalter & Lauritzen's update,
Laplace's approximation and the optimal Gaussian.  docs/experiments-logistic.md is the account.
"""

from jaakkola_jordan.accuracy import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

"""The lecture notes on Gibbs sampling and mean field: both on the Ising model, over couplings.

    python experiments/lecture_ising.py [--quick] [--figures FOLDER] [--markdown]

Grids of 10 x 10 spins against exact sums; I- and M-projections of 4 x 4; variational EM.  docs/experiments-inference.md
is the account.
"""

from lecture.ising import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

"""The lecture notes on mixing: independent chains on distributions with two modes, and how tempering repairs them.

    python experiments/lecture_tempering.py [--quick] [--figures FOLDER] [--markdown]

Ferromagnets of 10 x 10 spins over couplings, against exact sums; a hidden cause whose modes differ in width.
docs/experiments-inference.md is the account.
"""

from lecture.tempering import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

"""Riggelsen, chapter 4, section 1.1: figure 4.1 again, importance sampling with proposals good and bad.

    python experiments/riggelsen_figure_4_1.py [--quick] [--figures FOLDER] [--markdown]

A target with two modes, known exactly; variances by quadrature, coverage over 400 runs.  docs/experiments.md is the
account.
"""

from logistic_papers.script import run_script
from riggelsen.figure_4_1 import run

if __name__ == "__main__":
    run_script(__doc__ or "", run)

"""Jaakkola & Jordan (2000), section 6: the latent trait model whose loadings, mean and covariance are learned together.

    python experiments/jaakkola_jordan_section_6.py [--quick] [--figures FOLDER] [--markdown]

The paper simulates nothing there; rows are drawn from its model.  docs/experiments-logistic.md is the account.
"""

from jaakkola_jordan.latent_traits import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

"""De Freitas et al. (2001), figure 8 again, and adaptation at regenerations in 1 to 50 dimensions.

    python experiments/de_freitas_figure_8.py [--quick] [--figures FOLDER] [--markdown]

50 adaptive chains on the posterior of one coefficient; then the published scheme and doxa's on the data of section
5.1, begun with three approximations.  docs/experiments-logistic.md is the account.
"""

from de_freitas.adaptation import run
from logistic_papers.script import run_script

if __name__ == "__main__":
    run_script(__doc__ or "", run)

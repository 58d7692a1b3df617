r"""Variational posteriors of logistic networks with hidden nodes and missing cells.

`hidden_posterior` finds one, `hidden_posteriors` several; `sequential_hidden_posterior` and
`sequential_hidden_posteriors` do it in one pass over the cases; `joint_gaussian` and `mixture_weights` make a mixture
of what was found.  Jaakkola & Jordan 2000, section 5.2 and appendix B; de Freitas et al. 2001, section 3.3.
"""

from doxa.variational.hidden.posterior import HiddenPosterior, hidden_posterior
from doxa.variational.hidden.sequential import (
    SequentialHiddenPosterior,
    sequential_hidden_posterior,
    sequential_hidden_posteriors,
)
from doxa.variational.hidden.several import hidden_posteriors, joint_gaussian, mixture_weights

__all__ = [
    "HiddenPosterior",
    "SequentialHiddenPosterior",
    "hidden_posterior",
    "hidden_posteriors",
    "joint_gaussian",
    "mixture_weights",
    "sequential_hidden_posterior",
    "sequential_hidden_posteriors",
]

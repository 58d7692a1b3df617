"""Variational posteriors of logistic networks with hidden nodes and missing cells.

`hidden_posterior` finds one, `hidden_posteriors` several; `sequential_hidden_posterior` and
`sequential_hidden_posteriors` do it in one pass over the cases; `joint_gaussian` and `mixture_weights` make a mixture
of what was found.  Jaakkola & Jordan 2000, section 5.2 and appendix B; de Freitas et al. 2001, section 3.3.
"""

from doxa._face import open_door

__all__ = open_door(__name__)

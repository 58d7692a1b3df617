"""doxa: Bayesian belief networks with honest error bars.

From a table of data to the posterior over the graphs that may have made it:

>>> import doxa
>>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
>>> print(posterior.edge("phys", "protein"))  # doctest: +SKIP

Names are loaded when they are first used, so that ``import doxa`` is quick.
"""

from doxa._face import open_door

__version__ = "0.1.0"
__all__ = [*open_door(__name__), "__version__"]

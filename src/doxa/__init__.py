"""doxa: Bayesian belief networks with honest error bars."""

__version__ = "0.1.0"

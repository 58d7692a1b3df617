"""Questions about parameters: their posterior given a network and a table."""

from doxa.parameters.fit import fit
from doxa.parameters.posterior import ParameterPosterior

__all__ = ["ParameterPosterior", "fit"]

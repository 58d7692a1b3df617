"""Questions about parameters: their posterior given a network and a table, and the methods that take options."""

from doxa.parameters.averages import ParameterAverages
from doxa.parameters.fit import fit
from doxa.parameters.keeping import Averages
from doxa.parameters.method_options import Block, Mixture, RandomWalk, Resampling
from doxa.parameters.posterior import ParameterPosterior

__all__ = [
    "Averages",
    "Block",
    "Mixture",
    "ParameterAverages",
    "ParameterPosterior",
    "RandomWalk",
    "Resampling",
    "fit",
]

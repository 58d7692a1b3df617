from doxa.parameters.averages import ParameterAverages as ParameterAverages
from doxa.parameters.fit import fit as fit
from doxa.parameters.keeping import Averages as Averages
from doxa.parameters.method_options import Block as Block
from doxa.parameters.method_options import Mixture as Mixture
from doxa.parameters.method_options import RandomWalk as RandomWalk
from doxa.parameters.method_options import Resampling as Resampling
from doxa.parameters.posterior import ParameterPosterior as ParameterPosterior

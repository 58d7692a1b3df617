from doxa.models.categorical import CategoricalNetwork as CategoricalNetwork
from doxa.models.dag import Cpdag as Cpdag
from doxa.models.dag import Dag as Dag
from doxa.models.graph_files import read_graph as read_graph
from doxa.models.graph_files import write_graph as write_graph
from doxa.models.logistic import LogisticNetwork as LogisticNetwork
from doxa.models.logistic_prior import LearnedScale as LearnedScale
from doxa.models.markov import MarkovNetwork as MarkovNetwork

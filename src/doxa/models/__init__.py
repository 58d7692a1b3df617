"""Models: graphs, networks and their file formats. They know nothing of samplers."""

from typing import TYPE_CHECKING

from doxa._face import lazy_face

if TYPE_CHECKING:
    from doxa.models.categorical import CategoricalNetwork as CategoricalNetwork
    from doxa.models.cpdag import Cpdag as Cpdag
    from doxa.models.dag import Dag as Dag
    from doxa.models.learned_scale import LearnedScale as LearnedScale
    from doxa.models.logistic import LogisticNetwork as LogisticNetwork
    from doxa.models.markov import MarkovNetwork as MarkovNetwork

__all__ = lazy_face(
    __name__,
    {
        "categorical": ["CategoricalNetwork"],
        "cpdag": ["Cpdag"],
        "dag": ["Dag"],
        "learned_scale": ["LearnedScale"],
        "logistic": ["LogisticNetwork"],
        "markov": ["MarkovNetwork"],
    },
)

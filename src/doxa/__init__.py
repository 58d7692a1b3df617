"""doxa: Bayesian belief networks with honest error bars.

From a table of data to the posterior over the graphs that may have made it:

>>> import doxa
>>> posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1)
>>> print(posterior.edge("phys", "protein"))  # doctest: +SKIP

Names are loaded when they are first used, so that ``import doxa`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doxa import datasets as datasets
    from doxa import inference as inference
    from doxa import structure as structure
    from doxa.averaging.learn import learn as learn
    from doxa.averaging.posterior import Posterior as Posterior
    from doxa.data import Table as Table
    from doxa.data import read_table as read_table
    from doxa.errors import DoxaError as DoxaError
    from doxa.estimates.estimate import Estimate as Estimate
    from doxa.estimates.stopping import Until as Until
    from doxa.inference import infer as infer
    from doxa.inference import log_partition as log_partition
    from doxa.models import CategoricalNetwork as CategoricalNetwork
    from doxa.models import Dag as Dag
    from doxa.models import LogisticNetwork as LogisticNetwork
    from doxa.models import MarkovNetwork as MarkovNetwork
    from doxa.models.ising import ising as ising
    from doxa.models.ising import ising_grid as ising_grid
    from doxa.models.ising import potts as potts
    from doxa.models.network_files import read_network as read_network
    from doxa.models.network_files import write_network as write_network
    from doxa.page import report as report
    from doxa.parameters import ParameterPosterior as ParameterPosterior
    from doxa.parameters.fit import fit as fit
    from doxa.run_files import load as load
    from doxa.run_files import resume as resume
    from doxa.structure import StructurePosterior as StructurePosterior

__all__ = [
    "CategoricalNetwork",
    "Dag",
    "DoxaError",
    "Estimate",
    "LogisticNetwork",
    "MarkovNetwork",
    "ParameterPosterior",
    "Posterior",
    "StructurePosterior",
    "Table",
    "Until",
    "__version__",
    "datasets",
    "fit",
    "infer",
    "inference",
    "ising",
    "ising_grid",
    "learn",
    "load",
    "log_partition",
    "potts",
    "read_network",
    "read_table",
    "report",
    "resume",
    "structure",
    "write_network",
]

__version__ = "0.1.0"

_HOMES = {
    "CategoricalNetwork": "doxa.models",
    "Dag": "doxa.models",
    "DoxaError": "doxa.errors",
    "Estimate": "doxa.estimates.estimate",
    "LogisticNetwork": "doxa.models",
    "MarkovNetwork": "doxa.models",
    "ParameterPosterior": "doxa.parameters",
    "Posterior": "doxa.averaging.posterior",
    "StructurePosterior": "doxa.structure",
    "Table": "doxa.data",
    "Until": "doxa.estimates.stopping",
    "datasets": "doxa.datasets",
    "fit": "doxa.parameters",
    "infer": "doxa.inference",
    "inference": "doxa.inference",
    "ising": "doxa.models.ising",
    "ising_grid": "doxa.models.ising",
    "learn": "doxa.averaging.learn",
    "load": "doxa.run_files",
    "log_partition": "doxa.inference",
    "potts": "doxa.models.ising",
    "read_network": "doxa.models.network_files",
    "report": "doxa.page",
    "resume": "doxa.run_files",
    "read_table": "doxa.data",
    "structure": "doxa.structure",
    "write_network": "doxa.models.network_files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'doxa' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    value = getattr(module, name, module)  # the module itself for rooms
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

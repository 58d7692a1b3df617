"""Kernels: transitions that leave a continuous target invariant, as values that combine."""

from doxa.mcmc.kernels.blocks import BlockIndependence, block
from doxa.mcmc.kernels.calibrate import Calibration, calibrated
from doxa.mcmc.kernels.combined import CycleKernel, MixtureKernel, cycle, mixture
from doxa.mcmc.kernels.exchange import Exchanging
from doxa.mcmc.kernels.flip import Flip, flip_weights
from doxa.mcmc.kernels.hamiltonian import Hamiltonian, warmed_up
from doxa.mcmc.kernels.independence import Independence
from doxa.mcmc.kernels.jump import Jump
from doxa.mcmc.kernels.kernel import Kernel, Path, Walkers, start_at
from doxa.mcmc.kernels.random_walk import RandomWalk
from doxa.mcmc.kernels.split import SplitHamiltonian, tuned_split
from doxa.mcmc.kernels.tempered_target import Tempered, at_power
from doxa.mcmc.kernels.tempered_transitions import TemperedTransitions, tempered

__all__ = [
    "BlockIndependence",
    "Calibration",
    "CycleKernel",
    "Exchanging",
    "Flip",
    "Hamiltonian",
    "Independence",
    "Jump",
    "Kernel",
    "MixtureKernel",
    "Path",
    "RandomWalk",
    "SplitHamiltonian",
    "Tempered",
    "TemperedTransitions",
    "Walkers",
    "at_power",
    "block",
    "calibrated",
    "cycle",
    "flip_weights",
    "mixture",
    "start_at",
    "tempered",
    "tuned_split",
    "warmed_up",
]

"""Kernels: transitions that leave a continuous target invariant, as values that combine."""

from doxa.mcmc.kernels.independence import Independence
from doxa.mcmc.kernels.kernel import Kernel, Path, Walkers, start_at

__all__ = ["Independence", "Kernel", "Path", "Walkers", "start_at"]

"""Annealing in discrete networks: log Z with bounds, tempering, the most probable states."""

from doxa.mcmc.annealing.bounds import best_groups, lower_bound, upper_bound
from doxa.mcmc.annealing.cooling import Cooled, cool
from doxa.mcmc.annealing.coupling import NotCoupledError, draw_by_coupling, turn_over
from doxa.mcmc.annealing.elimination import TooWideError, draw_by_elimination, elimination_cost
from doxa.mcmc.annealing.exact_draws import ExactDraws, draw_exactly
from doxa.mcmc.annealing.network_paths import NetworkPath, condition_spins, directed_path, spin_path
from doxa.mcmc.annealing.path import Annealed, Path, Reversed, anneal, anneal_back, inverse_mean
from doxa.mcmc.annealing.schedules import Schedule, adapted, geometric, linear, tune_schedule
from doxa.mcmc.annealing.spins import SpinPath
from doxa.mcmc.annealing.tables import TablePath
from doxa.mcmc.annealing.tempering import Ladder, ParallelTempering, TemperingState, tune_ladder

__all__ = [
    "Annealed",
    "Cooled",
    "ExactDraws",
    "Ladder",
    "NetworkPath",
    "NotCoupledError",
    "ParallelTempering",
    "Path",
    "Reversed",
    "Schedule",
    "SpinPath",
    "TablePath",
    "TemperingState",
    "TooWideError",
    "adapted",
    "anneal",
    "anneal_back",
    "best_groups",
    "condition_spins",
    "cool",
    "directed_path",
    "draw_by_coupling",
    "draw_by_elimination",
    "draw_exactly",
    "elimination_cost",
    "geometric",
    "inverse_mean",
    "linear",
    "lower_bound",
    "spin_path",
    "tune_ladder",
    "tune_schedule",
    "turn_over",
    "upper_bound",
]

"""Estimates with their Monte Carlo errors, the diagnostics behind them, and the draws they come from."""

from doxa._face import open_door

__all__ = open_door(__name__)

"""Estimates with their Monte Carlo errors, the diagnostics behind them, and the draws they come from."""

from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.diagnostics import RealDiagnosis, diagnose_real
from doxa.estimates.estimate import Estimate
from doxa.estimates.indicators import IndicatorDiagnostics, Status, diagnose_indicators
from doxa.estimates.trace import Trace

__all__ = [
    "Estimate",
    "IndicatorCounts",
    "IndicatorDiagnostics",
    "RealDiagnosis",
    "Status",
    "Trace",
    "diagnose_indicators",
    "diagnose_real",
]

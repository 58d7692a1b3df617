"""The diagnostics of draws, by one name each: what was found elsewhere in this room, gathered for users.

Every function says in its docstring where its formula comes from, and ``docs/diagnostics.md`` what it can and cannot
see.  Real quantities: `diagnose_real`, which doxa itself uses, and the classical methods, each alone.  0/1 quantities
belong to `doxa.estimates.indicators`.
"""

from __future__ import annotations

from doxa.estimates.autocovariance import autocovariance
from doxa.estimates.batch_means import batch_means_error
from doxa.estimates.bounds import (
    bernstein_bound,
    bernstein_known_variance,
    hoeffding_bound,
    hoeffding_draws,
    mean_error_bound,
)
from doxa.estimates.gelman_rubin import GelmanRubin, gelman_rubin, rank_r_hat
from doxa.estimates.geweke import geweke_z
from doxa.estimates.long_run import integrated_autocorrelation_time, long_run_variance, windowed_error
from doxa.estimates.real import RealDiagnosis, diagnose_real
from doxa.estimates.regenerative import RegenerativeEstimate, Tours, cut_tours, regenerative_estimate
from doxa.estimates.windows import WINDOWS, Window, default_bandwidth, lag_weights

__all__ = [
    "WINDOWS",
    "GelmanRubin",
    "RealDiagnosis",
    "RegenerativeEstimate",
    "Tours",
    "Window",
    "autocovariance",
    "batch_means_error",
    "bernstein_bound",
    "bernstein_known_variance",
    "cut_tours",
    "default_bandwidth",
    "diagnose_real",
    "gelman_rubin",
    "geweke_z",
    "hoeffding_bound",
    "hoeffding_draws",
    "integrated_autocorrelation_time",
    "lag_weights",
    "long_run_variance",
    "mean_error_bound",
    "rank_r_hat",
    "regenerative_estimate",
    "windowed_error",
]

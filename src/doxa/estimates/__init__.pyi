from doxa.estimates.counts import IndicatorCounts as IndicatorCounts
from doxa.estimates.diagnostics import RealDiagnosis as RealDiagnosis
from doxa.estimates.diagnostics import diagnose_real as diagnose_real
from doxa.estimates.estimate import Estimate as Estimate
from doxa.estimates.indicators import IndicatorDiagnostics as IndicatorDiagnostics
from doxa.estimates.indicators import Status as Status
from doxa.estimates.indicators import diagnose_indicators as diagnose_indicators
from doxa.estimates.trace import Trace as Trace

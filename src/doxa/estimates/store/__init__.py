"""The run store: the draws and the chain states of a run in one SQLite file, safe against crashes and strangers.

A round (what every chain did in one block of steps) and the chain states after it are written in one transaction.  A
run killed anywhere therefore has a file that ends with a whole round, from which it goes on to the same draws.  One
process writes, holding a `Lease`; others read meanwhile.  A file from a stranger is data: checked, never executed.

The format is described in docs/run-store.md.  Sampling, and what the options of a run mean, are not here.
"""

from doxa.estimates.store.header import RunFileError, RunHeader
from doxa.estimates.store.lease import LeaseHeldError
from doxa.estimates.store.opening import MAX_RUN_BYTES, create_run, open_reader, open_writer
from doxa.estimates.store.reader import RunReader
from doxa.estimates.store.rounds import ChainRound, Round
from doxa.estimates.store.saving import check_can_go_on, write_trace
from doxa.estimates.store.stops import keep_stop, stop_as_json, stored_stop
from doxa.estimates.store.writer import RunWriter

__all__ = [
    "MAX_RUN_BYTES",
    "ChainRound",
    "LeaseHeldError",
    "Round",
    "RunFileError",
    "RunHeader",
    "RunReader",
    "RunWriter",
    "check_can_go_on",
    "create_run",
    "keep_stop",
    "open_reader",
    "open_writer",
    "stop_as_json",
    "stored_stop",
    "write_trace",
]

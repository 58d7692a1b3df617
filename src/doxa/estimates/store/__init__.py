"""The run store: the draws and the chain states of a run in one SQLite file, safe against crashes and strangers.

A round (what every chain did in one block of steps) and the chain states after it are written in one transaction.  A
run killed anywhere therefore has a file that ends with a whole round, from which it goes on to the same draws.  One
process writes, holding a `Lease`; others read meanwhile.  A file from a stranger is data: checked, never executed.

The format is described in docs/run-store.md.  Sampling, and what the options of a run mean, are not here.
"""

from typing import TYPE_CHECKING

from doxa._face import lazy_face

if TYPE_CHECKING:
    from doxa.estimates.store.header import RunFileError as RunFileError
    from doxa.estimates.store.header import RunHeader as RunHeader
    from doxa.estimates.store.lease import LeaseHeldError as LeaseHeldError
    from doxa.estimates.store.opening import MAX_RUN_BYTES as MAX_RUN_BYTES
    from doxa.estimates.store.opening import create_run as create_run
    from doxa.estimates.store.opening import open_reader as open_reader
    from doxa.estimates.store.opening import open_writer as open_writer
    from doxa.estimates.store.reader import RunReader as RunReader
    from doxa.estimates.store.rounds import ChainRound as ChainRound
    from doxa.estimates.store.rounds import Round as Round
    from doxa.estimates.store.saving import check_can_go_on as check_can_go_on
    from doxa.estimates.store.saving import write_trace as write_trace
    from doxa.estimates.store.stops import keep_stop as keep_stop
    from doxa.estimates.store.stops import stop_as_json as stop_as_json
    from doxa.estimates.store.stops import stored_stop as stored_stop
    from doxa.estimates.store.writer import RunWriter as RunWriter

__all__ = lazy_face(
    __name__,
    {
        "header": ["RunFileError", "RunHeader"],
        "lease": ["LeaseHeldError"],
        "opening": ["MAX_RUN_BYTES", "create_run", "open_reader", "open_writer"],
        "reader": ["RunReader"],
        "rounds": ["ChainRound", "Round"],
        "saving": ["check_can_go_on", "write_trace"],
        "stops": ["keep_stop", "stop_as_json", "stored_stop"],
        "writer": ["RunWriter"],
    },
)

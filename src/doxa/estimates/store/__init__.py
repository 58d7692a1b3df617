"""The run store: the draws and the chain states of a run in one SQLite file, safe against crashes and strangers.

A round (what every chain did in one block of steps) and the chain states after it are written in one transaction.  A
run killed anywhere therefore has a file that ends with a whole round, from which it goes on to the same draws.  One
process writes, holding a `Lease`; others read meanwhile.  A file from a stranger is data: checked, never executed.

The format is described in docs/run-store.md.  Sampling, and what the options of a run mean, are not here.
"""

from doxa._face import open_door

__all__ = open_door(__name__)

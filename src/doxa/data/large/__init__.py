"""Tables that are counted where they live: large files, databases, lazy frames."""

from doxa.data.large.opening import open_source
from doxa.data.large.reading import read_or_open
from doxa.data.large.sets import SetCounts
from doxa.data.large.source import CountedSource, SourceError
from doxa.data.large.table import CountedTable

__all__ = ["CountedSource", "CountedTable", "SetCounts", "SourceError", "open_source", "read_or_open"]

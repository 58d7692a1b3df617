"""Tables that are counted where they live: large files, databases, lazy frames."""

from typing import TYPE_CHECKING

from doxa._face import lazy_face

if TYPE_CHECKING:
    from doxa.data.large.opening import open_source as open_source
    from doxa.data.large.reading import read_or_open as read_or_open
    from doxa.data.large.sets import SetCounts as SetCounts
    from doxa.data.large.source import CountedSource as CountedSource
    from doxa.data.large.source import SourceError as SourceError
    from doxa.data.large.table import CountedTable as CountedTable

__all__ = lazy_face(
    __name__,
    {
        "opening": ["open_source"],
        "reading": ["read_or_open"],
        "sets": ["SetCounts"],
        "source": ["CountedSource", "SourceError"],
        "table": ["CountedTable"],
    },
)

from doxa.data.large.opening import open_source as open_source
from doxa.data.large.reading import read_or_open as read_or_open
from doxa.data.large.sets import SetCounts as SetCounts
from doxa.data.large.source import OutOfCoreSource as OutOfCoreSource
from doxa.data.large.source import SourceError as SourceError
from doxa.data.large.table import OutOfCoreTable as OutOfCoreTable

from doxa.data.large.opening import open_source as open_source
from doxa.data.large.opening import read_or_open as read_or_open
from doxa.data.large.source import OutOfCoreSource as OutOfCoreSource
from doxa.data.large.source import SourceError as SourceError
from doxa.data.large.table import OutOfCoreTable as OutOfCoreTable
from doxa.data.large.table import SetCounts as SetCounts

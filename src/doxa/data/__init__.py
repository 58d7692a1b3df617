"""Tables of categories: read from files and frames, coded, and collapsed to counts."""

from doxa.data.read import read_table
from doxa.data.table import Table

__all__ = ["Table", "read_table"]

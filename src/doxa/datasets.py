"""The data sets that come with doxa: `load` one as a Table, `describe` what it is, list their `names`."""

from doxa.data.datasets import describe, load, names

__all__ = ["describe", "load", "names"]

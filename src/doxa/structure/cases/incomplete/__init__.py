"""The posterior over graphs and missing cells together: exact for tiny tables, sampled for others."""

from doxa._face import open_door

__all__ = open_door(__name__)

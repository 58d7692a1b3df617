"""Tables of categories: read from files and frames, coded, and collapsed to counts."""

from doxa._face import open_door

__all__ = open_door(__name__)

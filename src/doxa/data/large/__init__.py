"""Tables that are counted where they live: large files, databases, lazy frames."""

from doxa._face import open_door

__all__ = open_door(__name__)

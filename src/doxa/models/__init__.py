"""Models: graphs, networks and their file formats. They know nothing of samplers."""

from doxa._face import open_door

__all__ = open_door(__name__)

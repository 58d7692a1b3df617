"""Questions about parameters: their posterior given a network and a table, and the methods that take options."""

from doxa._face import open_door

__all__ = open_door(__name__)

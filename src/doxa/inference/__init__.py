"""Which values?  Distributions of a network's variables given what was observed: exact, or with an error."""

from doxa._face import open_door

__all__ = open_door(__name__)

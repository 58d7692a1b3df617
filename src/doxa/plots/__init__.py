"""Faces of a posterior: pictures for people.  ``import doxa`` does not load this, and this does not load matplotlib."""

from doxa._face import open_door

__all__ = open_door(__name__)

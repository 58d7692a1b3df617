"""Mean field for discrete networks: the best product of tables, naive or structured, and its bound on log Z."""

from doxa._face import open_door

__all__ = open_door(__name__)

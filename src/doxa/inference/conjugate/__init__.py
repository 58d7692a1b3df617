"""Mean field for conjugate networks of Gaussian, gamma and categorical nodes: variational message passing."""

from doxa._face import open_door

__all__ = open_door(__name__)

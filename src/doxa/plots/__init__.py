"""Faces of a posterior: pictures for people.  ``import doxa`` does not load this, and this does not load matplotlib."""

from doxa.plots.plots import plot_consensus, plot_edge_probabilities, plot_n_edges

__all__ = ["plot_consensus", "plot_edge_probabilities", "plot_n_edges"]

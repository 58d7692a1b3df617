"""Faces of a posterior: pictures for people.  ``import doxa`` does not load this, and this does not load matplotlib."""

from doxa.plots.autocovariances import plot_autocovariances
from doxa.plots.bars import plot_marginal_bars
from doxa.plots.bivariate import plot_bivariate
from doxa.plots.chains import plot_ranks, plot_running_means, plot_traces
from doxa.plots.curves import Band, plot_curves, plot_repeats
from doxa.plots.latent_map import plot_latent_map
from doxa.plots.laws import DensityGrid
from doxa.plots.marginals import plot_marginals
from doxa.plots.plots import plot_consensus, plot_edge_probabilities, plot_n_edges
from doxa.plots.style import LOOKS, Look, legend_below, panels, save_png

__all__ = [
    "LOOKS",
    "Band",
    "DensityGrid",
    "Look",
    "legend_below",
    "panels",
    "plot_autocovariances",
    "plot_bivariate",
    "plot_consensus",
    "plot_curves",
    "plot_edge_probabilities",
    "plot_latent_map",
    "plot_marginal_bars",
    "plot_marginals",
    "plot_n_edges",
    "plot_ranks",
    "plot_repeats",
    "plot_running_means",
    "plot_traces",
    "save_png",
]

"""Moves from graph to graph, each of which keeps the posterior; `doxa.structure.moves.by_name` has them by name."""

"""Exact answers: sums over all directed acyclic graphs, and draws from them."""

"""Prove a move of your own: finite chains, transition matrices, sums over all states."""

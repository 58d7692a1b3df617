"""The parts of `benchmarks/inference.py`, and the networks that they ask."""

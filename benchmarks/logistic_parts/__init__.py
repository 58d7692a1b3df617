"""The parts of `benchmarks/logistic.py`, and the problems that they measure."""

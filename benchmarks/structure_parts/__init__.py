"""The parts of `benchmarks/structure.py` that run chains for a stated CPU time."""

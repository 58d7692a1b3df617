"""The parts of `benchmarks/honesty.py`: problems with their oracles, how one is examined, what is printed."""

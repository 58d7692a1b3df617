"""What `benchmarks/fuzz.py` changes in files, and what it then does with them."""

"""What several tests and benchmarks share: reference networks, enumeration, statistical assertions."""

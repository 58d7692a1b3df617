"""A run from its options to its file: starts, the sampler as the driver takes it, what is watched, resuming."""

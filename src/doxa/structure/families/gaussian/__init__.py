"""Kinds of families of numbers: Gaussian regressions on numbers, in each configuration of categories."""

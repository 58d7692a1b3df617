"""Engines that all questions share: the driver and its chains, Metropolis-Hastings, importance sampling."""

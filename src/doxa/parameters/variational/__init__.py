"""Engines: Gaussian approximations to posteriors, with bounds on the evidence."""

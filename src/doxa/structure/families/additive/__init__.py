"""Additive families: one regression on all parents, linear for numbers, logistic or multinomial for categories."""

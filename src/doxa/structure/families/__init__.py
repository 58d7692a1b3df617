"""What a family is worth: counts, scores, priors' share, and the lists of parent sets that are worth keeping."""

"""What is read off a posterior over graphs: edges, features, single graphs, comparisons, and whether to trust it."""

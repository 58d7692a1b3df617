"""What the scripts about Jaakkola & Jordan (2000) share: one observation, hidden parents, the figures."""

import logistic_papers  # noqa: F401 (one thread)

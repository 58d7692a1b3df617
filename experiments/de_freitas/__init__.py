"""What the scripts about de Freitas et al. (2001) share: the records, the algorithms as published, the figures."""

import logistic_papers  # noqa: F401 (one thread)

"""What the scripts about the lecture notes on Gibbs sampling and variational methods share."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy is imported: seconds are of one core
    os.environ.setdefault(_name, "1")

"""What the scripts about de Freitas et al. (2001) and Jaakkola & Jordan (2000) share: claims and scripts."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy is imported: seconds are of one core
    os.environ.setdefault(_name, "1")

"""What holds for every test: matrix products run on one thread, before NumPy is imported.

Tests run side by side, one process for each core.  The threads of a BLAS wait for each other in busy loops, so with two
processes on two cores products of small matrices took ten times as long as on one thread.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

collect_ignore = ["conftest.py"]  # a search for doctests would import two modules of this name

"""The tests' own processes, and what they start, multiply matrices on one thread."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import threadpoolctl

THREADS = """
import numpy as np, scipy.linalg, threadpoolctl
print([own["num_threads"] for own in threadpoolctl.threadpool_info() if own["user_api"] == "blas"])
"""


def test_products_of_the_tests_run_on_one_thread():
    np.ones((2, 2)) @ np.ones((2, 2))
    own = [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
    assert own
    assert set(own) == {1}
    started = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert set(started.stdout.strip("[]\n").split(", ")) == {"1"}

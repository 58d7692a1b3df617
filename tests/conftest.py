"""What holds for every test: one thread, and imports are no garbage.

Tests run side by side, one process for each core.  The threads of a BLAS, whose number is set before NumPy is imported,
wait for each other in busy loops, so with two processes on two cores products of small matrices took ten times as long
as on one thread; chains on threads of their own take a fifth to a half more CPU time than one after the other.
"""

from __future__ import annotations

import atexit
import gc
import os

import pytest

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT"):
    os.environ.setdefault(name, "1")

collect_ignore = ["conftest.py"]  # a search for doctests would import two modules of this name


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Half a million objects of the modules and tests stay: they are not looked through for garbage, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # what is left at the end is freed as ever

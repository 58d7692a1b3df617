"""Another program that reads and writes networks."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import pytest

collect_ignore = ["conftest.py"]  # a search for doctests would import two modules of this name


@pytest.fixture(scope="session")
def gum():
    if find_spec("pyagrum") is None:
        pytest.skip("pyAgrum is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # with warnings as errors its import crashes
        import pyagrum
    return pyagrum

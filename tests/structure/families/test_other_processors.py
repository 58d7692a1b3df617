"""Columns of numbers are centred, scaled and multiplied in one order, whatever processor BLAS finds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import hashlib
import numpy as np
from doxa.data import Table
from doxa.data.scaled import scaled
from doxa.structure.families.gaussian.box import sums_of_products

numbers = np.random.default_rng(3).normal(size=(999, 7)) @ np.diag([1.0, 2.0, 3.0, 1e6, 1e-6, 7.0, 0.1])
numbers[::5, 2] = np.nan
table = Table.from_codes(list("abcdefg"), [()] * 7, np.where(np.isnan(numbers), -1, 0), numbers=numbers)
values = scaled(table).values
whole = np.nan_to_num(values)
for made in (values, *sums_of_products(values, table.counts), whole @ whole.T):
    print(hashlib.sha256(np.ascontiguousarray(made).tobytes()).hexdigest())
"""


def digests(core):
    """Of scaled columns, of sums of products and means; and, the twin, of products by BLAS."""
    environment = os.environ | {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "1"}
    told = subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return told.stdout.split()


def chooses_kernels():
    """Whether NumPy's BLAS is one that has kernels for several processors, of which this is one."""
    import numpy.linalg  # noqa: F401 (loads BLAS)
    from threadpoolctl import threadpool_info

    return any(one["internal_api"] == "openblas" for one in threadpool_info())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the setting is that of OpenBLAS on Linux")
def test_scores_of_numbers_do_not_hang_on_the_processor():
    """The same bits under kernels of BLAS for an old and a newer processor; a matrix product has others."""
    if os.uname().machine != "x86_64" or not chooses_kernels():
        pytest.skip("this BLAS has no kernels for other processors")
    old, newer = digests("Prescott"), digests("Sandybridge")
    assert len(old) == 4
    assert old[:3] == newer[:3]
    assert old[3] != newer[3]

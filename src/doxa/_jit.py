"""The one way doxa compiles a hot loop: Numba, without the GIL, cached on disk where that is possible.

Numba raises at decoration time where neither the source folder nor a user cache folder is
writable (containers, zipped installs); there the kernel is compiled afresh in every process.
Only modules that hold kernels import this file, so `import doxa` does not import Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile ``function`` on first call with ``nogil``, keeping the machine code for the next process."""
    try:
        return numba.njit(nogil=True, cache=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # "cannot cache function ...: no locator available"
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]

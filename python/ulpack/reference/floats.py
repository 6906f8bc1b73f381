"""Float arithmetic with subnormals, whatever the caller set (FORMAT.md section 15).

A process may have told its processor to flush subnormals to zero (``torch.set_flush_denormal``, libraries built with
fast-math). The predictions of the format need them kept and results rounded to nearest.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from ..errors import InternalError

_ENVIRONMENT_BYTES = 512  # more than fenv_t has anywhere


def keeps_subnormals() -> bool:
    """Whether float32 and float64 results and operands below the normal range survive, rounded to nearest even."""
    small = np.array([0x00800000, 0x00000003], np.uint32).view(np.float32)
    tiny = np.array([0x0010000000000000, 0x0000000000000003], np.uint64).view(np.float64)
    one = np.array([1, 1], np.float32)
    half_ulp = np.array([2.0**-24, -(2.0**-25)], np.float32)
    halves, quarters = small * np.float32(0.5), tiny * np.float64(0.5)
    up, down = one + half_ulp
    return (
        halves.view(np.uint32).tolist() == [0x00400000, 0x00000002]
        and quarters.view(np.uint64).tolist() == [0x0008000000000000, 0x0000000000000002]
        and bool(small[1:] * np.float32(2) > 0)
        and float(up) == float(down) == 1
    )


@lru_cache(maxsize=1)
def _libm() -> ctypes.CDLL | None:
    """The C library's functions for the float environment, None where it has none."""
    for name in (None, ctypes.util.find_library("m")):
        try:
            library = ctypes.CDLL(name)
            library.fegetenv.argtypes = library.fesetenv.argtypes = [ctypes.c_void_p]
        except (OSError, AttributeError, TypeError):
            continue
        return library
    return None


def _default_environment(library: ctypes.CDLL) -> ctypes.c_void_p:
    """FE_DFL_ENV: an object in some C libraries, the address -1 in others."""
    try:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV")))
    except ValueError:
        return ctypes.c_void_p(-1)


@contextmanager
def exact_floats() -> Iterator[None]:
    """Run float operations of NumPy in the default environment, without warnings.

    Raises:
        InternalError: this processor flushes subnormals and cannot be told not to.
    """
    with np.errstate(all="ignore"):
        if keeps_subnormals():
            yield
            return
        library = _libm()
        if library is None:
            raise InternalError("float operations of this process flush subnormals to zero")
        before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
        library.fegetenv(before)
        library.fesetenv(_default_environment(library))
        try:
            if not keeps_subnormals():
                raise InternalError("float operations of this process flush subnormals to zero")
            yield
        finally:
            library.fesetenv(before)

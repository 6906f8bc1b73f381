"""Which implementation of the codec serves this process."""

from __future__ import annotations

import os
import warnings

from ..errors import ArgumentError, ForkError, UlpackWarning, UnsupportedError
from . import library
from .api import ALL, Backend, Items, Options, Progress, Saved, Stream, Table
from .native import NativeBackend

__all__ = ["ALL", "NUMPY_NOTICE", "Backend", "Items", "Options", "Progress", "Saved", "Stream", "Table", "select"]

NUMPY_NOTICE = "using the NumPy implementation, which is much slower"

_native = NativeBackend()
_noted = False


def select() -> Backend:
    """The native library, or where it does not load the NumPy implementation, with a notice once a process.

    ULPACK_BACKEND=native makes the lack of the library an error; ULPACK_BACKEND=reference asks for NumPy.
    """
    global _noted
    choice = os.environ.get("ULPACK_BACKEND", "")
    if choice not in ("", "native", "reference"):
        raise ArgumentError(f"ULPACK_BACKEND is {choice!r}; it may be 'native' or 'reference'")
    if choice != "reference":
        try:
            library.load()
            return _native
        except (UnsupportedError, ForkError) as error:
            if choice == "native":
                raise
            reason = error
    from .reference import ReferenceBackend

    if choice != "reference" and not _noted:
        _noted = True
        warnings.warn(f"{NUMPY_NOTICE}: {reason.message}", UlpackWarning, stacklevel=3)
    return ReferenceBackend()

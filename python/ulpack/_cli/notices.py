"""Warnings of this package as lines for people."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._backend import NUMPY_NOTICE
from ..errors import UlpackWarning


@contextmanager
def notices(slow: bool = True) -> Iterator[None]:
    """Show this package's warnings as one line each on standard error; they never become errors here.

    Args:
        slow: whether that the NumPy implementation serves is worth a notice: for what takes no time it is not.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UlpackWarning)
        if not slow:
            warnings.filterwarnings("ignore", message=NUMPY_NOTICE, category=UlpackWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if issubclass(category, UlpackWarning):
                print(f"ulpack: note: {message}", file=sys.stderr)
            else:
                others(message, category, *rest, **named)

        warnings.showwarning = show
        yield

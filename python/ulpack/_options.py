"""Arguments that several public functions share, checked in one place."""

from __future__ import annotations

import json
from typing import Any

from ._backend import Options, Progress
from .errors import ArgumentError

EFFORTS = {None: 2, "fast": 1, "default": 2, "max": 3, 1: 1, 2: 2, 3: 3}


def options(
    threads: int | None = None,
    progress: Progress | bool | None = None,
    effort: str | int | None = None,
    *,
    uninterruptible: bool = False,
    relate: bool = False,
) -> Options:
    """Options of a backend call from public arguments."""
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or not 0 < threads <= 4096):
        raise ArgumentError(f"threads is {threads!r}; it may be 1 .. 4096, or None for as many as there are")
    if isinstance(effort, bool) or effort not in EFFORTS:
        raise ArgumentError(f"effort is {effort!r}; it may be 'fast', 'default' or 'max'")
    shown: Progress | None
    if progress is True:
        from ._progress import terminal_bar

        shown = terminal_bar()
    elif progress is None or progress is False:
        shown = None
    elif callable(progress):
        shown = progress
    else:
        raise ArgumentError("progress is neither a callable nor a bool")
    return Options(threads or 0, EFFORTS[effort], shown, uninterruptible, relate)


def metadata_bytes(metadata: Any) -> bytes:
    """Metadata as JSON; nothing for None."""
    if metadata is None:
        return b""
    try:
        return json.dumps(metadata, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"metadata cannot be written as JSON: {error}") from error

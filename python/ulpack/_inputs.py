"""An output is never also an input: refused before anything is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ._files import is_path, label
from .errors import ArgumentError


def refuse_overwriting(out: Any, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse an output that is one of the inputs, under whatever name, or a folder that holds one of them.

    Args:
        out: a path, or a file object, which counts as the file behind it if there is one.
        inputs: files and folders; those that are not there are passed over.

    Raises:
        ArgumentError: it is.
    """
    found = _status(out)
    if found is None or not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return
    folder = Path(os.path.realpath(out)) if stat.S_ISDIR(found.st_mode) and is_path(out) else None
    for one in inputs:
        its = _status(one)
        if its is None:
            continue
        if (its.st_dev, its.st_ino) == (found.st_dev, found.st_ino):
            raise ArgumentError(f"the output is also an input ({os.fspath(one)}); give another one", path=label(out))
        if folder is not None and Path(os.path.realpath(one)).is_relative_to(folder):
            raise ArgumentError(f"the output holds an input ({os.fspath(one)}); give another one", path=label(out))


def everything_in(paths: Iterable[Path]) -> Iterable[Path]:
    """The paths, and of folders every file."""
    for path in paths:
        yield path
        for folder, _, names in os.walk(path):  # of a file, nothing
            yield from (Path(folder, name) for name in names)


def _status(place: Any) -> os.stat_result | None:
    try:
        return os.stat(place) if is_path(place) else os.fstat(place.fileno())
    except (AttributeError, OSError, TypeError, ValueError):  # not there, or a file object without a file behind it
        return None

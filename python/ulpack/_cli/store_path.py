"""Which store a command means."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import MissingFileError
from ..trajectory.layout import is_store

NAME = "trajectory"


def existing(store: Path | None) -> Path:
    """The store that was named, or the one here.

    Raises:
        MissingFileError: there is none.
    """
    if store is not None:
        return store
    here = Path()
    for place in (here, here / NAME):
        if is_store(place):
            return place
    raise MissingFileError("there is no store here; name one", path=os.getcwd())


def beside(store: Path | None, paths: Sequence[Path]) -> Path:
    """The store that was named, or the one beside the first of some checkpoints."""
    return store if store is not None else Path(os.path.abspath(paths[0])).parent / NAME


def nbytes_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())

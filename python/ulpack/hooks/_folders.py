"""Folders of checkpoints that a library has written, and what of them stays beside the store."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from ..errors import ArgumentError, UlpackError
from ..trajectory import Trajectory
from ..trajectory.add import step_of_path

TEMPORARY = ".ulp-removing"


def remove_folder(folder: Path) -> None:
    """Remove a folder; killed in the middle, it leaves nothing that looks like a checkpoint."""
    hidden = folder.with_name(f".{folder.name}{TEMPORARY}")
    shutil.rmtree(hidden, ignore_errors=True)
    os.replace(folder, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def remove_stored(trajectory: Trajectory, folders: Iterable[Path], keep: Iterable[Path]) -> list[Path]:
    """Remove those folders that the store can make again exactly as they are, except those in ``keep``; what was
    removed.

    Only folders whose every byte was compared with the store are touched.
    """
    kept = {os.path.realpath(folder) for folder in keep}
    removed = []
    for folder in folders:
        with contextlib.suppress(UlpackError, OSError):
            if os.path.realpath(folder) not in kept and trajectory.holds(folder) is not None:
                remove_folder(folder)
                removed.append(folder)
    return removed


def numbered(parent: Path, prefix: str) -> list[Path]:
    """Folders "<prefix><number>", by number."""
    found = []
    for folder in parent.glob(f"{prefix}*"):
        number = folder.name.removeprefix(prefix)
        if number.isdecimal() and folder.is_dir():
            found.append((int(number), folder))
    return [folder for _, folder in sorted(found)]


def recorded_step(folder: Path) -> int | None:
    """The step of a folder, or None."""
    try:
        return step_of_path(folder)
    except ArgumentError:
        return None

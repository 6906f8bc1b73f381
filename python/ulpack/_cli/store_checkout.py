"""checkout: a step to files."""

from __future__ import annotations

import os
from pathlib import Path

from .._progress import terminal_bar
from ..trajectory import Trajectory
from .output import emit, size
from .store_path import existing, nbytes_of


def checkout(
    step: str, store: Path | None, out: Path | None, format: str | None, force: bool, threads: int | None, as_json: bool
) -> None:
    """Write a step to files."""
    trajectory = Trajectory(existing(store), threads=threads)
    info = trajectory.info(step)
    if out is None:
        out = Path(f"checkpoint-{info.step}") if info.kind == "folder" and format in (None, "original") else Path()
    bar = None if as_json else terminal_bar("checkout")
    made = trajectory.export(info.id, out, format, force=force, progress=bar)
    nbytes = nbytes_of(made)
    record = {"path": os.fspath(made), "step": info.step, "id": info.id, "nbytes": nbytes}
    emit(as_json, record, f"{made}: step {info.step}, {size(nbytes)}")

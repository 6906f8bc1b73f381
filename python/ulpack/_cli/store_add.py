"""add, discard: checkpoint files and folders into a store, and away once they are in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._progress import terminal_bar
from ..errors import ArgumentError, CorruptError, MissingFileError
from ..hooks._folders import remove_folder
from ..trajectory import Trajectory
from ..trajectory.add import step_of_path
from .output import count, emit, percent, size
from .store_path import beside, nbytes_of


def add(
    paths: list[Path],
    store: Path | None,
    step: int | None,
    tags: list[str],
    force: bool,
    verify: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Put checkpoints into a store."""
    if step is not None and len(paths) > 1:
        raise ArgumentError("--step is for a single path")
    place = beside(store, paths)
    for path in paths:
        if os.path.realpath(path) == os.path.realpath(place):
            raise ArgumentError("this is the store itself", path=os.fspath(path))
        if not path.exists():
            raise MissingFileError("no such file or folder", path=os.fspath(path))
    ordered = sorted((step_of_path(path) if step is None else step, path) for path in paths)
    rows: list[dict[str, Any]] = []
    bar = None if as_json else terminal_bar("add")
    everything = sum(nbytes_of(path) for _, path in ordered)
    done = 0
    try:
        with Trajectory(place, background=False, verify=verify, threads=threads) as trajectory:
            for number, path in ordered:
                rows.append(_add_one(trajectory, number, path, tags, "replace" if force else "error"))
                done += rows[-1]["original_nbytes"]
                if bar is not None:
                    bar(done, max(everything, 1))
    finally:
        close = getattr(bar, "close", None)
        if close is not None:
            close()
    stored, originals = sum(row["nbytes"] for row in rows), sum(row["original_nbytes"] for row in rows)
    lines = [_line(row) for row in rows]
    lines.append(
        f"{place}: {count(len(rows), 'checkpoint')}, {size(originals)} as files, {size(stored)} added to the store "
        f"({percent(stored, originals)}); nothing was deleted (ulpack discard does that)"
    )
    record = {"path": os.fspath(place), "added": rows, "nbytes": stored, "original_nbytes": originals}
    emit(as_json, record, "\n".join(lines))


def _add_one(trajectory: Trajectory, step: int, path: Path, tags: list[str], existing: str) -> dict[str, Any]:
    original = nbytes_of(path)
    there = trajectory.holds(path, step=step) if trajectory.exists() else None
    info = there if there is not None else trajectory.add(path, step=step, tags=tags, existing=existing).wait()
    for tag in tags:
        if tag not in info.tags:
            info = trajectory.tag(info.id, tag)
    new = there is None
    return {
        "path": os.fspath(path),
        "step": step,
        "id": info.id,
        "new": new,
        "nbytes": info.nbytes if new else 0,
        "original_nbytes": original,
    }


def _line(row: dict[str, Any]) -> str:
    name = f"{row['path']}: step {row['step']}"
    if not row["new"]:
        return f"{name} is in the store already"
    share = percent(row["nbytes"], row["original_nbytes"])
    return f"{name}, {size(row['nbytes'])}, {share} of {size(row['original_nbytes'])}"


def discard(paths: list[Path], store: Path | None, yes: bool, threads: int | None, as_json: bool) -> None:
    """Delete checkpoints that a store can make again."""
    place = beside(store, paths)
    trajectory = Trajectory(place, threads=threads)
    good: set[int] | None = None
    rows: list[dict[str, Any]] = []
    for path in paths:
        held = trajectory.holds(path)
        if held is None:
            raise CorruptError("the store does not hold exactly these files; nothing was deleted", path=os.fspath(path))
        if good is None:  # once for all of them
            report = trajectory.verify(progress=None if as_json else terminal_bar("verify"))
            good = set(report.good)
        if held.step not in good:
            raise CorruptError(f"step {held.step} in the store is damaged; nothing was deleted", path=os.fspath(path))
        rows.append({"path": os.fspath(path), "step": held.step, "nbytes": nbytes_of(path)})
    freed = sum(row["nbytes"] for row in rows)
    if yes:
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            else:
                path.unlink()
    verb = "deleted" if yes else "would be deleted with --yes"
    lines = [f"{row['path']}: step {row['step']}, {size(row['nbytes'])}" for row in rows]
    lines.append(f"{count(len(rows), 'checkpoint')}, {size(freed)}, verified in {place} and {verb}")
    emit(as_json, {"path": os.fspath(place), "deleted": yes, "checkpoints": rows, "nbytes": freed}, "\n".join(lines))

"""prune, fold: what stays, and against what it is stored."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ArgumentError
from ..trajectory import Trajectory
from .output import count, emit, percent, size, some
from .store_path import existing


def prune(
    store: Path | None,
    keep_last: int | None,
    keep_every: int | None,
    keep_best: list[str],
    keep_tagged: bool,
    dry_run: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Remove steps."""
    place = existing(store)
    best = dict(_best(rule) for rule in keep_best)
    with Trajectory(place, threads=threads) as trajectory:
        done = trajectory.prune(
            keep_last=keep_last, keep_every=keep_every, keep_best=best, keep_tagged=keep_tagged, dry_run=dry_run
        )
    lines = [f"keep {step}: {', '.join(reasons)}" for step, reasons in sorted(done.kept.items())]
    verb = "would go" if dry_run else "removed"
    gone = f": {some([str(step) for step in done.removed], 20)}" if done.removed else ""
    lines.append(f"{count(len(done.removed), 'step')} {verb}{gone}")
    if done.rebased:
        lines.append(f"stored again: {some([str(step) for step in done.rebased], 20)}")
    if not dry_run:
        freed = done.nbytes_before - done.nbytes_after
        lines.append(f"{size(freed)} freed ({percent(freed, done.nbytes_before)}), {size(done.nbytes_after)} left")
    record = {
        "path": os.fspath(place),
        "kept": {str(step): list(reasons) for step, reasons in sorted(done.kept.items())},
        "removed": list(done.removed),
        "rebased": list(done.rebased),
        "nbytes_before": done.nbytes_before,
        "nbytes_after": done.nbytes_after,
        "dry_run": dry_run,
    }
    emit(as_json, record, "\n".join(lines))


def _best(rule: str) -> tuple[str, int]:
    name, equals, number = rule.rpartition("=")
    if not equals:
        return rule, 1
    if not number.isdecimal():
        raise ArgumentError(f"--keep-best {rule!r}: METRIC or METRIC=N")
    return name, int(number)


def fold(step: str, store: Path | None, threads: int | None, as_json: bool) -> None:
    """Make a step an anchor."""
    place = existing(store)
    with Trajectory(place, threads=threads) as trajectory:
        before = trajectory.info(step)
        info = trajectory.fold(before.id)
    record = {"path": os.fspath(place), "step": info.step, "nbytes_before": before.nbytes, "nbytes": info.nbytes}
    text = f"step {info.step}: {size(info.nbytes)} (before: {size(before.nbytes)}), needs no other step"
    emit(as_json, record, text)

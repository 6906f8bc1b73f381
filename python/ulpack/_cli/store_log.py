"""log, why, du: what is in a store and why."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

from ..trajectory import StepInfo, Trajectory
from .info import on_terminal
from .names import fit, printable
from .output import count, emit, percent, size
from .store_path import existing, nbytes_of


def log(store: Path | None, as_json: bool) -> None:
    """List the steps."""
    place = existing(store)
    steps = Trajectory(place).log()
    if as_json:
        rows = [{**dataclasses.asdict(info), "load_cost": info.load_cost} for info in steps]
        print(json.dumps({"path": os.fspath(place), "steps": rows, "nbytes": nbytes_of(place)}))
        return
    print(_table(steps, shutil.get_terminal_size().columns if on_terminal() else None))
    raw, total = sum(info.raw_nbytes for info in steps), nbytes_of(place)
    print(f"{count(len(steps), 'step')}, {size(raw)} raw; store {size(total)} ({percent(total, raw)})")


def _table(steps: list[StepInfo], width: int | None) -> str:
    """The steps as text; ``width`` as for the tensors of a file."""
    columns = [["step"], ["saved"], ["tags, metrics"], ["stored"], ["bytes"], ["of raw"], ["load reads"], ["files"]]
    for info in steps:
        cells = (
            str(info.step),
            info.saved[:19].replace("T", " "),
            printable(_names(info)),
            _stored(info),
            f"{info.nbytes:,}",
            percent(info.nbytes, info.raw_nbytes),
            f"{info.load_cost:.2f} x raw",
            str(info.load_files),
        )
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    if width is not None:
        columns = fit(columns, (2, 3), width)
    between = "  " if width is None else " "
    widths = [max(map(len, column)) for column in columns]
    rows = (
        between.join(
            cell.ljust(w) if 0 < n < 4 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in zip(*columns, strict=True)
    )
    return "\n".join(rows)


def _names(info: StepInfo) -> str:
    return ", ".join([*info.tags, *(f"{name} {value:.6g}" for name, value in info.metrics.items())])


def _stored(info: StepInfo) -> str:
    text = "anchor" if info.base is None else f"against {info.base}"
    if info.nbytes == 0:
        text = "nothing new"
    if info.uses:
        text += f", uses {', '.join(map(str, info.uses))}"
    return text if info.line == 0 else f"{text} (line {info.line})"


def why(step: str, store: Path | None, as_json: bool) -> None:
    """What needs a step."""
    found = Trajectory(existing(store)).why(step)
    lines = [f"step {found.step}" + (": pruned, but values of it are needed" if found.hidden else "")]
    if found.kept_as:
        lines.append(f"found as {', '.join(found.kept_as)}")
    lines.append(f"needs {_steps(found.needs)}")
    lines.append(f"needed by {_steps(found.needed_by)}")
    emit(as_json, dataclasses.asdict(found), "\n".join(lines))


def _steps(steps: tuple[int, ...]) -> str:
    return ", ".join(map(str, steps)) if steps else "nothing"


def du(store: Path | None, as_json: bool) -> None:
    """Where the bytes are."""
    place = existing(store)
    steps = Trajectory(place).log()
    anchors = sum(info.nbytes for info in steps if info.base is None)
    deltas = sum(info.nbytes for info in steps if info.base is not None)
    data, manifests, total = nbytes_of(place / "data"), nbytes_of(place / "steps"), nbytes_of(place)
    raw = sum(info.raw_nbytes for info in steps)
    parts = {
        "anchors": anchors,
        "deltas": deltas,
        "values of pruned steps, leftovers": data - anchors - deltas,
        "manifests": manifests,
        "other": total - data - manifests,
    }
    width = max(map(len, parts))
    lines = [f"{name:{width}}  {nbytes:>16,}  {percent(nbytes, total):>7}" for name, nbytes in parts.items()]
    lines.append(
        f"{'all':{width}}  {total:>16,}  {percent(total, raw)} of {size(raw)} raw in {count(len(steps), 'step')}"
    )
    record = {"path": os.fspath(place), "nbytes": total, "raw_nbytes": raw, "steps": len(steps), "parts": parts}
    emit(as_json, record, "\n".join(lines))

"""plot: a picture of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from .. import _files
from .._progress import terminal_bar
from ..errors import FileExistsStorageError, UnsupportedError
from ..trajectory import StepInfo, Trajectory
from ..trajectory.changes import Change, changes
from .output import emit
from .store_path import existing


def plot(store: Path | None, out: Path, force: bool, threads: int | None, as_json: bool) -> None:
    """Draw a store."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedError("drawing needs matplotlib (pip install 'ulpack[plot]')") from None
    place = existing(store)
    if os.path.lexists(out) and not force:
        raise FileExistsStorageError("it is already there; --force replaces it", path=os.fspath(out))
    trajectory = Trajectory(place, threads=threads)
    steps = trajectory.log()
    rows = list(changes(trajectory, progress=None if as_json else terminal_bar("plot")))
    figure = Figure(figsize=(11, 10), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, height_ratios=(2, 3, 2))
    _draw_bytes(top, steps)
    _draw_changes(figure, middle, rows)
    _draw_crossings(bottom, rows)
    figure.suptitle(os.fspath(place.resolve()))
    with _files.output(out) as fd, open(fd, "wb", closefd=False) as file:
        figure.savefig(file, format="png")
    record = {
        "path": os.fspath(out),
        "steps": [{"step": info.step, "nbytes": info.nbytes, "raw_nbytes": info.raw_nbytes} for info in steps],
        "changes": [row._asdict() for row in rows],
    }
    emit(as_json, record, f"{out}: {len(steps)} steps")


def _draw_bytes(axes: Any, steps: list[StepInfo]) -> None:
    where = np.arange(len(steps))
    for kind, chosen in (("delta", [i.base is not None for i in steps]), ("anchor", [i.base is None for i in steps])):
        axes.bar(where[chosen], [info.nbytes for info, mine in zip(steps, chosen, strict=True) if mine], label=kind)
    axes.plot(where, [info.raw_nbytes for info in steps], ".", color="gray", label="raw")
    axes.set(ylabel="bytes a step", yscale="log")
    _steps_axis(axes, [info.step for info in steps])
    axes.legend()


def _draw_changes(figure: Any, axes: Any, rows: list[Change]) -> None:
    steps = sorted({row.step for row in rows})
    names = list(dict.fromkeys(row.name for row in rows))
    shares = np.full((len(names), len(steps)), np.nan)
    for row in rows:
        shares[names.index(row.name), steps.index(row.step)] = row.changed
    if shares.size:
        image = axes.imshow(shares, aspect="auto", vmin=0, vmax=1, interpolation="nearest")
        figure.colorbar(image, ax=axes, label="share of changed weights")
    if len(names) <= 40:
        axes.set_yticks(range(len(names)), [name[-50:] for name in names], fontsize=6)
    else:
        axes.set_ylabel(f"{len(names)} tensors")
    _steps_axis(axes, steps)


def _draw_crossings(axes: Any, rows: list[Change]) -> None:
    steps = sorted({row.step for row in rows})
    weights = {step: [0, 0] for step in steps}
    for row in rows:
        if row.crossed is not None:
            weights[row.step][0] += round(row.crossed * row.elements)
            weights[row.step][1] += row.elements
    rates = [crossed / elements if elements else np.nan for crossed, elements in weights.values()]
    axes.plot(range(len(steps)), rates, "o-", markersize=3)
    axes.set(xlabel="step", ylabel="share of weights that\nchanged their sign")
    _steps_axis(axes, steps)


def _steps_axis(axes: Any, steps: list[int]) -> None:
    shown = range(0, len(steps), max(1, len(steps) // 12))
    axes.set_xticks(list(shown), [str(steps[number]) for number in shown])

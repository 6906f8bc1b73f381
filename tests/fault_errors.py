"""Run as a script under fault_layer: system calls of a save, a prune and a load fail, once or from then on.

Arguments: the layer's path, a folder, how many calls of each kind (spread over all there are), the kinds. Prints one
JSON object.
"""

from __future__ import annotations

import ctypes
import errno
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ulpack
from fault_runs import same, state

KINDS = ("fsync", "write", "pread", "read", "rename", "unlink")
FOREVER = 1 << 40


def save(store: Path) -> None:
    with ulpack.Trajectory(store) as trajectory:
        trajectory.save(3, state(3))


def prune(store: Path) -> None:
    with ulpack.Trajectory(store) as trajectory:
        trajectory.prune(keep_last=1)


def load(store: Path) -> None:
    trajectory = ulpack.Trajectory(store)
    assert all(same(trajectory.load(step), step) for step in (0, 1, 2))


ACTIONS: dict[str, tuple[Callable[[Path], None], set[int], set[int]]] = {
    # what it does, steps that must be there if it failed, steps that must be there if it did not
    "save": (save, {0, 1, 2}, {0, 1, 2, 3}),
    "prune": (prune, {2}, {2}),
    "load": (load, {0, 1, 2}, {0, 1, 2}),
}


def main() -> None:
    layer, folder = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2])
    layer.fault_arm.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int]
    layer.fault_seen.restype = ctypes.c_long
    warnings.simplefilter("ignore")
    template = folder / "template"
    with ulpack.Trajectory(template) as trajectory:
        for step in (0, 1, 2):
            trajectory.save(step, state(step))
    counts = {"failed": 0, "survived": 0}
    store = folder / "run"
    for action, (run, if_failed, if_not) in ACTIONS.items():
        for kind, name in enumerate(KINDS):
            if name not in sys.argv[4:]:
                continue
            shutil.copytree(template, store)
            layer.fault_arm(kind, 0, 0, 0)
            run(store)
            calls = layer.fault_seen(kind)
            shutil.rmtree(store)
            for number in spread(calls, int(sys.argv[3])):
                for until in (number, FOREVER):
                    shutil.copytree(template, store)
                    error: ulpack.UlpackError | None = None
                    layer.fault_arm(kind, number, until, errno.EIO)
                    try:
                        run(store)
                    except ulpack.UlpackError as raised:
                        error = raised
                    finally:
                        layer.fault_arm(kind, 0, 0, 0)
                    place = f"{action}, {name} {number} of {calls}, until {until}"
                    assert getattr(error, "errno", errno.EIO) == errno.EIO, f"{place}: {error!r}"
                    check(store, if_failed if error else if_not, place)
                    counts["failed" if error else "survived"] += 1
                    shutil.rmtree(store)
    print(json.dumps(counts))


def spread(calls: int, most: int) -> list[int]:
    """Numbers of calls, the first and the last among them."""
    count = min(calls, most)
    return sorted({1 + (calls - 1) * i // max(1, count - 1) for i in range(count)})


def check(store: Path, required: set[int], place: str) -> None:
    trajectory = ulpack.Trajectory(store)
    steps: Any = set(trajectory.steps())
    assert required <= steps, f"{place}: {steps}"
    assert steps <= {0, 1, 2, 3}, place
    report = trajectory.verify()
    assert report.ok, f"{place}: {report.bad}"
    for step in steps:
        assert same(trajectory.load(step), step), f"{place}: step {step}"
    with trajectory:  # and life goes on
        trajectory.save(9, state(9))
        trajectory.prune(keep_last=2)
    assert trajectory.verify(decode=False).leftovers == (), place


if __name__ == "__main__":
    main()

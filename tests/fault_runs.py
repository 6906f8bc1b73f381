"""Run as a script: a store is written to, in children that are killed at random moments, and looked at after each.

Arguments: folder, number of kills, seed. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import ulpack

BASE = np.random.default_rng(0).standard_normal((64, 100)).astype("f4")


def state(step: int) -> dict[str, Any]:
    """What is saved at a step: most of it moves a little, one part never does."""
    drift = np.sin(np.arange(6400, dtype="f4") + step).reshape(64, 100) * np.float32(1e-3)
    return {"w": BASE + drift, "moment": drift, "fixed": BASE[:8], "step": step, "rng": [step] * 5}


def same(found: Any, step: int) -> bool:
    expected = state(step)
    return found.keys() == expected.keys() and all(
        found[key].tobytes() == value.tobytes() if isinstance(value, np.ndarray) else found[key] == value
        for key, value in expected.items()
    )


def work(store: str, report: int, seed: int) -> None:
    """Save and prune until killed; says what is about to happen, and what has been acknowledged."""

    def say(*words: Any) -> None:
        os.write(report, (" ".join(map(str, words)) + "\n").encode())

    chosen = random.Random(seed)
    trajectory = ulpack.Trajectory(store, background=chosen.random() < 0.7, max_files=6)
    say("open")
    step = max(trajectory.steps(), default=-1) + 1 if trajectory.exists() else 0
    for _ in range(40):
        say("saving", step)
        saving = trajectory.save(step, state(step))
        if chosen.random() < 0.6:
            saving.wait()
            say("saved", step)
        step += 1
        if chosen.random() < 0.35 or step % 20 == 0:
            trajectory.flush()
            say("saved", *range(max(0, step - 60), step))
            steps = trajectory.steps()
            kind = chosen.randrange(3) if len(steps) < 16 else 0
            if kind == 0:
                last, every = chosen.randrange(1, 5), chosen.choice([None, 3, 4])
                planned = trajectory.prune(keep_last=last, keep_every=every, dry_run=True)
                say("removing", *planned.removed)
                trajectory.prune(keep_last=last, keep_every=every)
            elif kind == 1:
                one = chosen.choice(steps)
                say("removing", one)
                trajectory.remove(one)
            else:
                say("folding")
                trajectory.fold(chosen.choice(steps))
            say("done")
    trajectory.close()


def look(store: str, allowed: set[int], required: set[int]) -> None:
    """Everything acknowledged is there, nothing else is, and all of it is right; first for a reader, then a writer."""
    trajectory = ulpack.Trajectory(store)
    steps = set(trajectory.steps()) if trajectory.exists() else set()
    assert steps <= allowed, f"steps {sorted(steps - allowed)} were never saved, or removed"
    assert required <= steps, f"steps {sorted(required - steps)} were acknowledged and are lost"
    if not trajectory.path.joinpath("trajectory.json").exists():
        return
    report = trajectory.verify()
    assert report.ok, report.bad
    for step in steps:
        assert same(trajectory.load(step), step), f"step {step} is wrong"
    with trajectory:
        if steps:
            trajectory.tag(min(steps), "looked-at")
    assert trajectory.verify(decode=False).leftovers == (), "a writer takes leftovers away"


def child(function: Any, *arguments: Any) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function(*arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return pid


def watch(reader: int, pid: int, moment: float) -> list[list[str]]:
    """What a child says until it is killed at a moment after it has opened the store, or ends."""
    said = b""
    deadline: float | None = None
    while True:
        left = 60.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            break
        ready, _, _ = select.select([reader], [], [], left)
        if not ready:
            break
        more = os.read(reader, 65536)
        if not more:
            break
        said += more
        if deadline is None:
            deadline = time.monotonic() + moment
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while more := os.read(reader, 65536):
        said += more
    return [line.split() for line in said.decode().splitlines()]


def main() -> None:
    store, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chosen = random.Random(seed)
    allowed: set[int] = set()  # steps that may be there
    required: set[int] = set()  # steps that must be
    last: dict[str, int] = {}
    for number in range(kills):
        reader, writer = os.pipe()
        pid = child(work, store, writer, chosen.randrange(1 << 30))
        os.close(writer)
        lines = watch(reader, pid, chosen.random() ** 2 * 0.25)
        os.close(reader)
        removing: set[int] = set()
        for word, *steps in lines:
            numbers = {int(step) for step in steps}
            if word == "saving":
                allowed |= numbers
            elif word == "saved":
                required |= numbers & allowed
            elif word == "removing":
                removing = numbers
                required -= numbers
            elif word == "done":
                allowed -= removing
                removing = set()
        verb = lines[-1][0] if lines else "start"
        last[verb] = last.get(verb, 0) + 1
        pid = child(look, store, allowed, required)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
            raise SystemExit(f"after kill {number}, while {lines[-3:]}")
        present = ulpack_steps(store)
        allowed &= present
        required = set(present)
    print(json.dumps({"kills": kills, "last words": last, "steps": len(required)}))


def ulpack_steps(store: str) -> set[int]:
    """The steps of a store, read off the names of its manifests."""
    folder = Path(store, "steps")
    names = [path.name.split(".") for path in folder.glob("*.json")] if folder.is_dir() else []
    return {int(name[0]) for name in names if "hidden" not in name}


if __name__ == "__main__":
    main()

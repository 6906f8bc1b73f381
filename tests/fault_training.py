"""Run as a script: a training loop that keeps its checkpoints in a trajectory, for an outside judge to crash.

Argument: the output folder. After each acknowledged save there is a file ``acknowledged-<step>`` in it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import ulpack

STEPS = 8


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with ulpack.Trajectory(out / "run", max_files=3) as trajectory:
        state = {"w": np.random.default_rng(0).standard_normal((40, 50)).astype("f4"), "step": 0}
        if trajectory.exists():
            state = trajectory.load("latest")
        print("resumed from step", state["step"])
        for step in range(state["step"] + 1, STEPS + 1):
            gradient = np.random.default_rng(step).standard_normal(state["w"].shape).astype("f4")
            state = {"w": state["w"] - np.float32(1e-3) * gradient, "step": step}
            trajectory.save(step, state).wait()
            (out / f"acknowledged-{step}").touch()
            if step % 3 == 0:
                trajectory.prune(keep_last=2)
        (out / "final.bin").write_bytes(trajectory.load("latest")["w"].tobytes())


if __name__ == "__main__":
    main()

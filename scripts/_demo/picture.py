"""The picture: bytes of each checkpoint over the steps."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import Saved

PARTS = {"weights": "model.", "exp_avg": ".exp_avg", "exp_avg_sq": ".exp_avg_sq"}
COLORS = {"weights": "#4477aa", "exp_avg": "#66ccee", "exp_avg_sq": "#228833", "rest": "#bbbbbb"}


def part(name: str) -> str:
    """Which part of a training state a tensor belongs to."""
    if name.endswith(PARTS["exp_avg_sq"]):
        return "exp_avg_sq"
    if name.endswith(PARTS["exp_avg"]):
        return "exp_avg"
    return "weights" if name.startswith(PARTS["weights"]) else "rest"


def draw(saved: Sequence[Saved], path: Path) -> None:
    """Left: what each file holds, under the raw size. Right: all of them so far."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    integers: Any = importlib.import_module("matplotlib.ticker").MaxNLocator
    steps, raw = [one.step for one in saved], [one.raw / 1e6 for one in saved]
    sizes = [one.nbytes / 1e6 for one in saved]
    figure, (each, total) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    bottom = [0.0] * len(saved)
    width = 0.8 * (steps[1] - steps[0] if len(steps) > 1 else 1)
    for label, color in COLORS.items():
        heights = [one.parts.get(label, 0) / 1e6 for one in saved]
        if label == "rest":  # small tensors, names, index
            heights = [size - below for size, below in zip(sizes, bottom, strict=True)]
        each.bar(steps, heights, width, bottom, label=label, color=color)
        bottom = [below + height for below, height in zip(bottom, heights, strict=True)]
    each.plot(steps, raw, color="black", linestyle="--", label="raw")
    each.set(title="each checkpoint", xlabel="step", ylabel="MB", ylim=(0, 1.3 * max(raw)))
    each.legend(loc="upper center", ncol=5, fontsize="small", columnspacing=1.0)
    total.plot(steps, running(raw), color="black", linestyle="--", label="raw")
    total.plot(steps, running(sizes), color=COLORS["weights"], label="ulpack")
    total.set(title="all checkpoints so far", xlabel="step", ylabel="MB", ylim=(0, None))
    total.legend()
    for axes in (each, total):
        axes.xaxis.set_major_locator(integers(integer=True, min_n_ticks=1))  # there is no step 2.5
    figure.suptitle("A GPT's weights and AdamW state, each checkpoint stored against the one before")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def running(values: Sequence[float]) -> list[float]:
    sums: list[float] = []
    for value in values:
        sums.append(value + (sums[-1] if sums else 0.0))
    return sums

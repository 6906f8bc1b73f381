"""scripts/demo once its environment is there: train and save, restore and compare, show."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ulpack
from rich.console import Console
from rich.table import Table

from . import pairs, picture, states
from .training import Training

console = Console(highlight=False, soft_wrap=True)


@dataclass
class Saved:
    """One checkpoint: where it is, what it took. Sizes in bytes, times in seconds."""

    step: int
    path: Path
    digest: str
    raw: int
    nbytes: int
    values: int
    encode: float
    parts: dict[str, int]
    decode: float = field(default=0.0)


def main(chosen: argparse.Namespace) -> int:
    steps = chosen.output / "steps"
    clear(chosen.output)
    steps.mkdir(parents=True, exist_ok=True)
    training = Training(chosen)
    weights = sum(parameter.numel() for parameter in training.model.parameters())
    console.print(f"a GPT with {weights:,} weights, {chosen.steps} steps of {chosen.batch} x {chosen.context} bytes")
    start = time.perf_counter()
    saved = train(training, chosen, steps)
    console.print(f"trained and saved in {time.perf_counter() - start:.0f} s; restoring\n")
    problems = restore(chosen, saved)
    show(saved)
    show_pairs(chosen.output / "pairs")
    image = chosen.output / "sizes.png"
    picture.draw(saved, image)
    console.print(f"\npicture: {image}\npairs for scripts/bench: {chosen.output / 'pairs'}")
    return report(problems, len(saved))


def clear(output: Path) -> None:
    """Remove what an earlier run left."""
    for pattern in ("steps/step*.ulp", "pairs/*/step*.safetensors", "sizes.png"):
        for path in output.glob(pattern):
            path.unlink()


def train(training: Training, chosen: argparse.Namespace, folder: Path) -> list[Saved]:
    """Train, and save the state every few steps against the one saved before; the first needs nothing."""
    saved: list[Saved] = []
    reference: Any = None
    last = chosen.steps - chosen.steps % chosen.every
    for step in range(1, chosen.steps + 1):
        loss = training.step()
        if step % chosen.every == 0:
            state = training.state()
            saved.append(save(step, state, reference, folder))
            reference = states.copy(state)
            one = saved[-1]
            console.print(f"step {step:4}  loss {loss:.3f}  {one.raw:,} -> {one.nbytes:,} bytes")
        pairs.leave(training, chosen.output / "pairs", step, last, chosen.every)
    return saved


def save(step: int, state: Any, reference: Any, folder: Path) -> Saved:
    path = folder / f"step{step:05}.ulp"
    start = time.perf_counter()
    info = ulpack.save_delta(state, path, reference=reference)
    seconds = time.perf_counter() - start
    parts: dict[str, int] = {}
    for tensor in info.tensors:
        part = picture.part(tensor.name)
        parts[part] = parts.get(part, 0) + tensor.nbytes
    values = sum(tensor.elements for tensor in ulpack.inspect(path).tensors)
    return Saved(step, path, states.digest(state), info.raw_nbytes, info.nbytes, values, seconds, parts)


def restore(chosen: argparse.Namespace, saved: list[Saved]) -> list[str]:
    """Restore every step from its file and the step before; then go on training from the last but one."""
    problems = []
    state: Any = None
    before: Any = None
    for one in saved:
        start = time.perf_counter()
        before, state = state, ulpack.load_delta(one.path, reference=state)
        one.decode = time.perf_counter() - start
        if states.digest(state) != one.digest:
            problems.append(f"step {one.step} came back different")
    if before is not None:
        again = Training(chosen)
        again.restore(before)
        while again.done < saved[-1].step:
            again.step()
        if states.digest(again.state()) != saved[-1].digest:
            problems.append(f"training resumed at step {saved[-2].step} took another course")
    return problems


def show(saved: list[Saved]) -> None:
    table = grid("step", "raw", "delta", "ratio", "bits/weight", "encode GB/s", "decode GB/s")
    for one in saved:
        speeds = (f"{one.raw / seconds / 1e9:.2f}" for seconds in (one.encode, one.decode))
        table.add_row(str(one.step), *size(one.raw, one.nbytes, one.values), *speeds)
    console.print(table)
    raw, nbytes = sum(one.raw for one in saved), sum(one.nbytes for one in saved)
    console.print(
        "\nThe first file needs no reference, every other one the step before. A weight here is any stored value,\n"
        "a weight or one of its two moments. Speeds are those of save_delta and load_delta, files and fsync included.\n"
        f"all steps: {raw:,} -> {nbytes:,} bytes, ratio {raw / nbytes:.2f}\n"
    )


def show_pairs(folder: Path) -> None:
    console.print("other checkpoints of the same run, the last one against the one before:\n")
    table = grid("checkpoint", "raw", "delta", "ratio", "bits/weight")
    table.columns[0].justify = "left"
    for name, *sizes in pairs.sizes(folder):
        table.add_row(name, *size(*sizes))
    console.print(table)


def grid(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def size(raw: int, nbytes: int, values: int) -> tuple[str, str, str, str]:
    return f"{raw:,}", f"{nbytes:,}", f"{raw / nbytes:.2f}", f"{8 * nbytes / values:.2f}"


def report(problems: list[str], count: int) -> int:
    for problem in problems:
        console.print(problem, style="bold red")
    if not problems:
        console.print(
            f"restored {count} steps, every bit compared; training resumed from the last but one ended in the same bits"
        )
    return int(bool(problems))

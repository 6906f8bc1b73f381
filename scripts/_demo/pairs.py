"""Checkpoint pairs of the same run as .safetensors files: other kinds of checkpoints, and data for scripts/bench."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import torch
import ulpack
from safetensors.torch import load_file, save_file

from . import states
from .training import Training


def leave(training: Training, folder: Path, step: int, last: int, every: int) -> None:
    """Write the state of this step into every pair that it belongs to; most steps belong to none."""
    spaced, adjacent = step in (last - every, last), step in (last - 1, last) and every > 1
    if not spaced and not adjacent:
        return
    weights = {name: weight.detach() for name, weight in training.model.named_parameters()}  # tied ones once
    state = training.optimizer.state_dict()["state"]
    whole = {f"master/{name}": tensor for name, tensor in weights.items()}
    whole |= {f"model/{name}": tensor.bfloat16() for name, tensor in weights.items()}
    for moment in ("exp_avg", "exp_avg_sq"):
        whole |= {f"optimizer.{moment}.{name}": state[i][moment] for i, name in enumerate(weights)}
    if spaced:
        write(folder / f"weights-bf16-{every}steps", step, {name: t.bfloat16() for name, t in weights.items()})
        write(folder / f"weights-fp16-{every}steps", step, {name: t.half() for name, t in weights.items()})
        write(folder / f"weights-fp32-{every}steps", step, weights)
        write(folder / f"training-state-{every}steps", step, whole)
    if adjacent:
        write(folder / "training-state-1step", step, whole)


def sizes(folder: Path) -> Iterator[tuple[str, int, int, int]]:
    """Store the second file of each pair against the first: name, raw bytes, bytes stored, number of values."""
    for pair in sorted(path for path in folder.iterdir() if path.is_dir()):
        first, second = sorted(pair.glob("*.safetensors"))
        tensors = load_file(second)
        stored = io.BytesIO()
        info = ulpack.save_delta(tensors, stored, reference=first)
        back = ulpack.load_delta(stored.getvalue(), reference=first)
        if states.digest(back) != states.digest(tensors):
            raise SystemExit(f"{second} came back different")
        yield pair.name, info.raw_nbytes, info.nbytes, sum(tensor.numel() for tensor in tensors.values())


def write(folder: Path, step: int, tensors: dict[str, torch.Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / f"step{step:05}.safetensors")

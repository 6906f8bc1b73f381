"""States of a small training run for the tests of trajectories."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import torch
import ulpack
from torch_states import assert_same, small_model, train


def training_states(count: int, every: int = 1) -> list[dict[str, Any]]:
    """Everything that resuming needs, after each of some steps of a real run."""
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    states = []
    for number in range(count):
        losses = train(model, optimizer, every)
        scheduler.step()
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "rng": torch.get_rng_state(),
            "step": number,
            "losses": losses,
            "note": None,
        }
        states.append(copy.deepcopy(state))
    return states


def save_all(trajectory: ulpack.Trajectory, states: dict[int, Any]) -> None:
    """Save states under their steps and wait for the last one."""
    for step, state in states.items():
        trajectory.save(step, state)
    trajectory.flush()


def assert_holds(trajectory: ulpack.Trajectory, states: dict[int, Any]) -> None:
    """The trajectory has these steps and no others, every bit of them."""
    assert trajectory.steps() == sorted(states)
    for step, state in states.items():
        assert_same(trajectory.load(step), state, f"step {step}")


def weights(seed: int = 0, size: int = 4096) -> dict[str, torch.Tensor]:
    """Random weights and a tensor of another dtype."""
    generator = torch.Generator().manual_seed(seed)
    return {
        "a": torch.randn(size // 64, 64, generator=generator),
        "b": torch.randn(size, generator=generator).to(torch.bfloat16),
        "count": torch.tensor(seed),
    }


def drift(state: dict[str, torch.Tensor], seed: int, share: float = 1.0) -> dict[str, torch.Tensor]:
    """The weights after a small step, of which ``share`` have changed."""
    generator = torch.Generator().manual_seed(seed)
    moved = {}
    for name, value in state.items():
        if value.dtype.is_floating_point:
            step = torch.randn(value.shape, generator=generator) * 1e-3
            step *= torch.rand(value.shape, generator=generator) < share
            moved[name] = value + step.to(value.dtype)
        else:
            moved[name] = value + 1
    return moved


def data_files(store: Path) -> dict[int, Path]:
    """The delta file of each step."""
    return {int(path.name.split(".")[0]): path for path in (store / "data").glob("*.ulp")}


def manifest_files(store: Path) -> dict[int, Path]:
    """The manifest of each step."""
    return {int(path.name.split(".")[0]): path for path in (store / "steps").glob("*.json")}


def everything(store: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {os.fspath(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}

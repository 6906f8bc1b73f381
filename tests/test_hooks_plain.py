"""The ten lines for a plain PyTorch loop that the package shows are run as they stand there."""

from __future__ import annotations

import contextlib
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import ulpack
import ulpack.hooks


def loop(folder: Path, steps: int, stop: int | None = None) -> list[float]:
    code = textwrap.dedent(ulpack.hooks.__doc__.partition("no hook:\n\n")[2]).replace('"run"', repr(str(folder)))
    assert 8 <= len(code.strip().splitlines()) <= 12
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses: list[float] = []

    def train(step: int) -> None:
        if step == stop:
            raise KeyboardInterrupt
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    names: dict[str, Any] = {"ulpack": ulpack, "torch": torch, "model": model, "optimizer": optimizer}
    with contextlib.suppress(KeyboardInterrupt):
        exec(code, {**names, "train": train, "steps": steps})
    return losses


def test_ten_lines(tmp_path: Path, native: None) -> None:
    whole = loop(tmp_path / "whole", 8)
    first = loop(tmp_path / "cut", 8, stop=5)
    for thread in threading.enumerate():
        if thread.name == "ulpack-save":
            thread.join()
    rest = loop(tmp_path / "cut", 8)
    assert first + rest == whole
    assert len(rest) == 3
    assert ulpack.Trajectory(tmp_path / "cut").steps() == list(range(8))


@pytest.mark.parametrize("name", ["transformers", "lightning", "accelerate"])
def test_each_hook_is_documented(name: str) -> None:
    assert f"{name}" in (ulpack.hooks.__doc__ or "")

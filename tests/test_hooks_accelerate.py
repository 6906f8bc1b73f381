"""save_state and load_state of Accelerate with a trajectory behind them."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState, PartialState
    from accelerate.utils import ProjectConfiguration, set_seed
    from ulpack.hooks.accelerate import TrajectoryState

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's


class Run:
    """A small model under an accelerator."""

    def __init__(self, out: Path, store: Path | None, automatic: bool = True, **options: Any) -> None:
        AcceleratorState._reset_state(True)
        PartialState._reset_state()
        GradientState._reset_state()
        set_seed(11)
        config = ProjectConfiguration(str(out), automatic_checkpoint_naming=automatic)
        self.accelerator = Accelerator(cpu=True, project_config=config)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.state = None if store is None else TrajectoryState(self.accelerator, store, **options)

    def train(self, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            loss = self.model(torch.randn(4, 8)).pow(2).mean()
            self.optimizer.zero_grad()
            self.accelerator.backward(loss)
            self.optimizer.step()
            losses.append(loss.item())
        return losses


def folders(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "checkpoints").iterdir())


def test_resumed_run_has_the_same_losses(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = Run(out, tmp_path / "store")
    assert run.state is not None
    for _ in range(3):
        run.train(2)
        run.accelerator.save_state()
    expected = run.train(4)
    run.state.close()
    assert folders(out) == ["checkpoint_2"], "only the newest plain folder stays"
    assert run.state.trajectory.steps() == [0, 1, 2]
    assert run.state.trajectory.verify().ok

    shutil.rmtree(out / "checkpoints")
    again = Run(out, tmp_path / "store")
    again.accelerator.load_state()
    assert again.train(4) == expected


def test_an_older_step_by_its_folder(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", tmp_path / "store", automatic=False)
    assert run.state is not None
    weights = {}
    for step in (10, 20):
        run.train(2)
        weights[step] = [p.detach().clone() for p in run.model.parameters()]
        run.accelerator.save_state(str(tmp_path / "run" / f"step-{step}"))
    run.state.trajectory.flush()
    assert (tmp_path / "run" / "step-10").is_dir(), "folders under names of the user's own stay"
    shutil.rmtree(tmp_path / "run" / "step-10")
    run.accelerator.load_state(str(tmp_path / "run" / "step-10"))
    assert all(torch.equal(a, b) for a, b in zip(run.model.parameters(), weights[10], strict=True))
    with pytest.raises(ValueError, match="does not exist"):
        run.accelerator.load_state(str(tmp_path / "run" / "step-30"))


def test_close_gives_the_methods_back(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", None)
    before = run.accelerator.save_state.__func__
    state = TrajectoryState(run.accelerator, tmp_path / "store", keep_folders=True)
    for _ in range(2):
        run.accelerator.save_state()
    state.close()
    assert folders(tmp_path / "run") == ["checkpoint_0", "checkpoint_1"]
    assert run.accelerator.save_state.__func__ is before

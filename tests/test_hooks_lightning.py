"""The Lightning plugin in real runs: training goes on from the store exactly as from ordinary checkpoints."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from ulpack import Trajectory
from ulpack.errors import MissingFileError, UnsupportedTypeError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import Callback, ModelCheckpoint
    from ulpack.hooks.lightning import TrajectoryCheckpointIO, read_pointer

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.save_hyperparameters({"width": 16, "place": Path("data")})
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
        self.losses: dict[int, float] = {}

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        loss = self.net(batch[0]).pow(2).mean()
        self.losses[self.global_step] = loss.item()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)

    def train_dataloader(self) -> Any:
        rows = torch.randn(64, 16, generator=torch.Generator().manual_seed(3))
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=4)


class Randomness(Callback):
    """Lightning leaves random states to others; here they are part of the checkpoint."""

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint["torch_rng"] = torch.get_rng_state()

    def on_load_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
        self.state = checkpoint["torch_rng"]

    def on_train_start(self, trainer: Any, module: Any) -> None:
        if hasattr(self, "state"):
            torch.set_rng_state(self.state)


def trainer(out: Path, io: TrajectoryCheckpointIO | None, steps: int = 12, **checkpoint: Any) -> pl.Trainer:
    pl.seed_everything(5, verbose=False)
    options = {"every_n_train_steps": 3, "save_top_k": -1, **checkpoint}
    return pl.Trainer(
        max_steps=steps,
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(out, filename="{step}", **options), Randomness()],
        plugins=[] if io is None else [io],
    )


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


def test_resumed_run_has_the_same_losses(tmp_path: Path) -> None:
    """The same as when it is resumed from Lightning's own checkpoints (which do not wind the data loader forward)."""
    runs: list[tuple[dict[int, float], list[torch.Tensor]]] = []
    stores = [None, tmp_path / "store"]
    for store in stores:
        out = tmp_path / f"run-{store is None}"
        trainer(out, None if store is None else TrajectoryCheckpointIO(store), steps=6).fit(Model())
        resumed = Model()
        io = None if store is None else TrajectoryCheckpointIO(store)
        trainer(out, io).fit(resumed, ckpt_path=str(out / "step=6.ckpt"), weights_only=False)
        runs.append((resumed.losses, [p.detach() for p in resumed.parameters()]))
    (losses, weights), (found, values) = runs
    assert list(losses) == list(range(6, 12))
    assert found == losses
    assert all(torch.equal(a, b) for a, b in zip(weights, values, strict=True))
    assert (tmp_path / "run-False" / "step=6.ckpt").stat().st_size < 200
    log = Trajectory(tmp_path / "store").log()
    assert [(info.step, info.parent) for info in log] == [(3, None), (6, 3), (9, 6), (12, 9)]


def test_a_checkpoint_is_what_lightning_wrote(tmp_path: Path) -> None:
    plain = trainer(tmp_path / "plain", None, steps=3)
    plain.fit(Model())
    expected = torch.load(tmp_path / "plain" / "step=3.ckpt", weights_only=False)
    io = TrajectoryCheckpointIO()
    trainer(tmp_path / "run", io, steps=3).fit(Model())
    found = io.load_checkpoint(tmp_path / "run" / "step=3.ckpt")
    assert io.trajectory is not None
    assert io.trajectory.path == tmp_path / "run" / "trajectory"
    for key in expected.keys() - {"callbacks", "hyper_parameters"}:
        assert same(found[key], expected[key]), key
    assert dict(found["hyper_parameters"]) == {"width": 16, "place": "data"}
    ordinary = io.load_checkpoint(tmp_path / "plain" / "step=3.ckpt", weights_only=False)
    assert same(ordinary["state_dict"], expected["state_dict"])


def test_top_k_removes_from_the_store(tmp_path: Path) -> None:
    io = TrajectoryCheckpointIO(tmp_path / "store")
    run = trainer(tmp_path / "run", io, save_top_k=2, monitor="loss", save_last=True)
    run.fit(Model())
    pointers = sorted(path for path in (tmp_path / "run").glob("*.ckpt"))
    assert "last.ckpt" in [path.name for path in pointers]
    assert io.trajectory is not None
    used = {pointer.identity for pointer in map(read_pointer, pointers) if pointer is not None}
    assert {info.id for info in io.trajectory.log()} == used, "nothing in the store but what a pointer points to"
    assert io.trajectory.verify().ok
    for path in pointers:
        assert io.load_checkpoint(path)["global_step"] > 0
    io.remove_checkpoint(tmp_path / "run" / "last.ckpt")
    for path in pointers:
        if path.name != "last.ckpt":
            io.remove_checkpoint(path)
    assert io.trajectory.steps() == []


def test_two_pointers_to_one_state(tmp_path: Path) -> None:
    io = TrajectoryCheckpointIO(tmp_path / "store")
    checkpoint = {"global_step": 4, "state_dict": {"w": torch.arange(5.0)}}
    for name in ("a.ckpt", "b.ckpt"):
        io.save_checkpoint(checkpoint, tmp_path / name)
    io.remove_checkpoint(tmp_path / "a.ckpt")
    assert torch.equal(io.load_checkpoint(tmp_path / "b.ckpt")["state_dict"]["w"], torch.arange(5.0))
    with pytest.raises(MissingFileError):
        io.load_checkpoint(tmp_path / "a.ckpt")


def test_different_states_of_one_step_stay_apart(tmp_path: Path) -> None:
    io = TrajectoryCheckpointIO(tmp_path / "store")
    for number, name in enumerate(("a.ckpt", "b.ckpt")):
        io.save_checkpoint({"global_step": 4, "state_dict": {"w": torch.full((5,), number)}}, tmp_path / name)
    for number, name in enumerate(("a.ckpt", "b.ckpt")):
        assert io.load_checkpoint(tmp_path / name)["state_dict"]["w"].tolist() == [number] * 5


def test_what_cannot_be_stored_is_named(tmp_path: Path) -> None:
    io = TrajectoryCheckpointIO(tmp_path / "store")
    with pytest.raises(UnsupportedTypeError, match="hyper_parameters"):
        io.save_checkpoint({"global_step": 1, "hyper_parameters": {"x": object()}}, tmp_path / "a.ckpt")
    assert not (tmp_path / "a.ckpt").exists()

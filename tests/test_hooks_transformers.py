"""The Trainer callback in real runs of a small model: what was interrupted and resumed is what would have been."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import ulpack

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import peft
    import transformers
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
    from ulpack.hooks.transformers import TrajectoryCallback

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries'; none of ours is expected, see test_no_warning
STEPS = 12


class Stop(TrainerCallback):
    """Ends a run as a crash would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt


def data(count: int = 64, seed: int = 1) -> list[dict[str, torch.Tensor]]:
    rows = torch.randint(0, 64, (count, 16), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": row, "labels": row} for row in rows]


def trainer(out: Path, callbacks: list[TrainerCallback], **options: Any) -> Trainer:
    transformers.set_seed(7)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    arguments = {
        "max_steps": STEPS,
        "save_steps": 3,
        "logging_steps": 1,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-3,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 7,
        **options,
    }
    return Trainer(
        model=model,
        args=TrainingArguments(str(out), **arguments),
        train_dataset=data(),
        eval_dataset=data(8, seed=2),
        callbacks=callbacks,
    )


def losses(run: Trainer) -> dict[int, float]:
    return {entry["step"]: entry["loss"] for entry in run.state.log_history if "loss" in entry}


def folders(out: Path) -> list[str]:
    return sorted(path.name for path in out.glob("checkpoint-*"))


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def nbytes(folder: Path) -> int:
    return sum(len(raw) for raw in files(folder).values())


def test_resumed_run_has_the_same_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = trainer(tmp_path / "whole", [])
    whole.train()

    out = tmp_path / "cut"
    callback = TrajectoryCallback(out / "trajectory")
    with pytest.raises(KeyboardInterrupt):
        trainer(out, [callback, Stop(8)]).train()
    callback.trajectory.close()
    assert folders(out) == ["checkpoint-6"], "only the newest plain folder stays"

    for folder in out.glob("checkpoint-*"):  # as on another machine: only the store is left
        for file in folder.rglob("*"):
            file.unlink()
        folder.rmdir()
    callback = TrajectoryCallback(out / "trajectory")
    resumed = trainer(out, [callback])
    place = callback.checkout()
    assert Path(place) == out / "checkpoint-6"
    resumed.train(resume_from_checkpoint=place)

    expected = losses(whole)
    assert set(expected) == set(range(1, STEPS + 1))
    assert losses(resumed) == expected, "every loss, before and after the interruption, to the last bit"
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    assert callback.trajectory.steps() == [3, 6, 9, 12]
    assert [info.parent for info in callback.trajectory.log()] == [None, 3, 6, 9]
    assert callback.trajectory.verify().ok
    before, after = nbytes(tmp_path / "whole"), nbytes(out)
    with capsys.disabled():
        print(
            f"\n4 checkpoints of the Trainer: {before:,} bytes in folders, {after:,} in the store and its last folder"
        )
    assert after < before


def test_every_folder_comes_back_byte_for_byte(tmp_path: Path) -> None:
    callback = TrajectoryCallback(keep_folders=True)
    trainer(tmp_path / "run", [callback]).train()
    assert folders(tmp_path / "run") == ["checkpoint-12", "checkpoint-3", "checkpoint-6", "checkpoint-9"]
    assert callback.trajectory.path == tmp_path / "run" / "trajectory"
    for step in (3, 6, 9, 12):
        made = Path(callback.checkout(step, tmp_path / "again"))
        original = files(tmp_path / "run" / made.name)
        assert {
            "model.safetensors",
            "optimizer.pt",
            "scheduler.pt",
            "rng_state.pth",
            "trainer_state.json",
        } <= original.keys()
        assert files(made) == original


def test_limit_and_best_model(tmp_path: Path) -> None:
    callback = TrajectoryCallback(tmp_path / "store")
    run = trainer(
        tmp_path / "run",
        [callback],
        eval_strategy="steps",
        eval_steps=3,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=True,  # so that the best step is an early one
        save_total_limit=2,
    )
    run.train()
    best = run.state.best_global_step
    assert best == 3
    steps = callback.trajectory.steps()
    assert best in steps
    assert steps[-2:] == [9, 12]
    assert len(steps) <= 3
    assert f"checkpoint-{best}" in folders(tmp_path / "run")
    assert callback.trajectory.info("best:eval_loss:max").step == best
    stored = callback.trajectory.load(best)
    for name, value in run.model.state_dict().items():  # the Trainer has loaded the best weights
        if name in stored:
            assert torch.equal(value, stored[name]), name


def test_half_written_folder_is_replaced(tmp_path: Path) -> None:
    callback = TrajectoryCallback(tmp_path / "run" / "trajectory")
    trainer(tmp_path / "run", [callback], max_steps=6).train()
    folder = tmp_path / "run" / "checkpoint-6"
    whole = files(folder)
    (folder / "trainer_state.json").unlink()
    (folder / "model.safetensors").write_bytes(whole["model.safetensors"][:1000])
    assert callback.checkout() == str(folder)
    assert files(folder) == whole


def test_new_run_in_the_same_place_is_a_new_line(tmp_path: Path) -> None:
    for steps in (6, 3):
        callback = TrajectoryCallback(tmp_path / "run" / "trajectory")
        trainer(tmp_path / "run", [callback], max_steps=steps).train()
    log = callback.trajectory.log()
    assert [(info.step, info.line, info.parent) for info in log] == [(3, 1, None), (6, 0, 3)]
    assert callback.trajectory.info("latest").step == 3
    assert callback.trajectory.verify().ok


def test_adapters(tmp_path: Path) -> None:
    callback = TrajectoryCallback(tmp_path / "store")
    run = trainer(tmp_path / "run", [callback])
    run.model = peft.get_peft_model(run.model, peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM"))
    run.train()
    newest = tmp_path / "run" / "checkpoint-12"
    assert (newest / "adapter_model.safetensors").is_file()
    assert files(Path(callback.checkout(12, tmp_path / "again"))) == files(newest)
    state = json.loads((newest / "trainer_state.json").read_text())
    assert state["global_step"] == 12


def test_no_warning_of_ours(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ulpack.UlpackWarning)
        trainer(tmp_path / "run", [TrajectoryCallback()], max_steps=6).train()

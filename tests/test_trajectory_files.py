"""Checkpoint files and folders in a store, and steps as files."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
import ulpack
from torch_states import assert_same, steps
from trajectory_runs import assert_holds, save_all, training_states
from ulpack import Trajectory
from ulpack.errors import ArgumentError, FileExistsStorageError, MissingFileError

safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is part of the test requirements")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "run"


def write_folder(folder: Path, step: int, state: dict[str, torch.Tensor]) -> None:
    """A folder as a trainer leaves it."""
    folder.mkdir(parents=True)
    names = list(state)
    half = len(names) // 2
    for part, chosen in enumerate((names[:half], names[half:]), 1):
        safetensors.save_file(
            {name: state[name] for name in chosen}, folder / f"model-0000{part}-of-00002.safetensors", {"format": "pt"}
        )
    index = {name: f"model-0000{1 + (number >= half)}-of-00002.safetensors" for number, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    torch.save(
        {"state": {0: {"exp_avg": state["embed.weight"] * 0.1}}, "lr": 1e-3 / (step + 1)}, folder / "optimizer.pt"
    )
    torch.save({"python": random.Random(step).getstate(), "cpu": torch.get_rng_state()}, folder / "rng_state.pth")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "log": list(range(step))}))
    (folder / "tokenizer.json").write_bytes(random.Random(1).randbytes(20_000))
    (folder / "nested").mkdir()
    (folder / "nested" / "empty").write_bytes(b"")


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_folders_come_back_byte_for_byte(store: Path, tmp_path: Path, native: None) -> None:
    states = steps(3)
    with Trajectory(store) as trajectory:
        for step, state in enumerate(states):
            folder = tmp_path / f"checkpoint-{step}"
            write_folder(folder, step, state)
            trajectory.add(folder)
        trajectory.flush()
        log = trajectory.log()
    assert [(info.step, info.kind) for info in log] == [(0, "folder"), (1, "folder"), (2, "folder")]
    assert all(info.nbytes < log[0].nbytes - 20_000 for info in log[1:]), "files that do not change are stored once"
    trajectory = Trajectory(store)
    assert trajectory.verify().ok
    for step in range(3):
        made = trajectory.export(step, tmp_path / "made" / f"checkpoint-{step}")
        assert contents(made) == contents(tmp_path / f"checkpoint-{step}")
    with pytest.raises(FileExistsStorageError):
        trajectory.export(1, tmp_path / "made" / "checkpoint-1")
    trajectory.export(0, tmp_path / "made" / "checkpoint-1", force=True)
    assert contents(tmp_path / "made" / "checkpoint-1") == contents(tmp_path / "checkpoint-0")
    assert_same(trajectory.load(2, names=list(states[2])), states[2])
    loaded = trajectory.load(2)
    assert {name: loaded[name] for name in states[2]}.keys() == states[2].keys()


def test_single_files(store: Path, tmp_path: Path, native: None) -> None:
    states = steps(4)
    with Trajectory(store) as trajectory:
        for step, state in enumerate(states):
            path = tmp_path / f"step{step:05d}.safetensors"
            safetensors.save_file(state, path)
            trajectory.add(path)
        trajectory.flush()
        for step in range(4):
            original = tmp_path / f"step{step:05d}.safetensors"
            made = trajectory.export(step, tmp_path / f"made-{step}.safetensors")
            assert made.read_bytes() == original.read_bytes()
            into = trajectory.export(step, tmp_path_folder(tmp_path))
            assert into == tmp_path / "into" / original.name
            assert into.read_bytes() == original.read_bytes()
        assert trajectory.info(3).base is not None


def tmp_path_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir(exist_ok=True)
    return folder


def test_the_step_of_a_path(store: Path, tmp_path: Path, native: None) -> None:
    folder = tmp_path / "checkpoint-7"
    write_folder(folder, 700, steps(1)[0])
    other = tmp_path / "weights.bin"
    other.write_bytes(b"x" * 1000)
    with Trajectory(store) as trajectory:
        trajectory.add(folder)
        with pytest.raises(ArgumentError, match="step"):
            trajectory.add(other)
        trajectory.add(other, step=5, tags="bytes")
        assert trajectory.steps() == [5, 700], "what the trainer recorded counts, not the name"
        with pytest.raises(MissingFileError):
            trajectory.add(tmp_path / "checkpoint-9")
        assert trajectory.export("bytes", tmp_path / "again.bin").read_bytes() == other.read_bytes()


def test_what_the_store_holds(store: Path, tmp_path: Path, native: None) -> None:
    folder = tmp_path / "checkpoint-3"
    write_folder(folder, 3, steps(1)[0])
    with Trajectory(store) as trajectory:
        trajectory.add(folder).wait()
        held = trajectory.holds(folder)
        assert held is not None
        assert held.step == 3
        assert trajectory.holds(folder, step=4) is None
        tokenizer = folder / "tokenizer.json"
        raw = bytearray(tokenizer.read_bytes())
        raw[777] ^= 1
        tokenizer.write_bytes(raw)
        assert trajectory.holds(folder) is None, "one bit is enough"
        raw[777] ^= 1
        tokenizer.write_bytes(raw)
        assert trajectory.holds(folder) is not None
        (folder / "more.txt").write_text("new")
        assert trajectory.holds(folder) is None


def test_a_file_that_changes_after_add(store: Path, tmp_path: Path, native: None) -> None:
    path = tmp_path / "step1.safetensors"
    state = {"w": torch.randn(300, 1000)}
    safetensors.save_file(state, path)
    original = path.read_bytes()
    with Trajectory(store) as trajectory:
        saving = trajectory.add(path)
        path.write_bytes(b"")  # as torch.save does with the file it writes again
        saving.wait()
        safetensors.save_file({"w": state["w"] + 1e-3}, path)
        trajectory.add(path, step=2)
        os.unlink(path)
        assert trajectory.export(1, tmp_path / "made.safetensors").read_bytes() == original
        assert trajectory.verify().ok


def test_states_as_files(store: Path, tmp_path: Path, native: None) -> None:
    flat = steps(2)
    nested = training_states(2)
    with Trajectory(store) as trajectory:
        save_all(trajectory, {0: flat[0], 1: flat[1], 2: nested[0], 3: nested[1]})
        assert_same(safetensors.load_file(trajectory.export(1, tmp_path / "a.safetensors")), flat[1])
        assert_same(torch.load(trajectory.export(1, tmp_path / "a.pt"), weights_only=False), flat[1])
        assert_same(torch.load(trajectory.export(3, tmp_path / "b.pt"), weights_only=False), nested[1])
        assert_same(ulpack.load_delta(trajectory.export(3, tmp_path / "b.ulp")), nested[1])
        made = trajectory.export(3, tmp_path_folder(tmp_path))
        assert made.name == "step-3.pt"
        assert trajectory.export(1, made.parent).name == "step-1.safetensors"
        assert trajectory.export(1, made.parent, "ulp").name == "step-1.ulp"
        for step, format in ((3, "safetensors"), (3, "original"), (1, "zip")):
            with pytest.raises(ArgumentError):
                trajectory.export(step, tmp_path / "none", format)
        assert not (tmp_path / "none").exists()


def test_a_store_can_be_moved_and_copied(store: Path, tmp_path: Path, native: None) -> None:
    states = dict(enumerate(training_states(3)))
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
    shutil.copytree(store, tmp_path / "copy")
    shutil.move(store, tmp_path / "moved")
    for place in ("copy", "moved"):
        assert_holds(Trajectory(tmp_path / place), states)
        assert Trajectory(tmp_path / place).verify().ok


def test_mixed_kinds_in_one_store(store: Path, tmp_path: Path, native: None) -> None:
    first, second = steps(2)
    path = tmp_path / "step1.safetensors"
    safetensors.save_file(first, path)
    with Trajectory(store) as trajectory:
        trajectory.add(path)
        trajectory.save(2, second)
        assert trajectory.info(2).base == 1
        assert_same(trajectory.load(2), second)
        assert_same(trajectory.load(1), {name: first[name] for name in trajectory.load(1)})

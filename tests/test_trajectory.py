"""The store of a run: what goes in comes out, by every name it has, at a bounded cost."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import ulpack
from torch_states import assert_same, steps
from trajectory_runs import assert_holds, data_files, drift, manifest_files, save_all, training_states, weights
from ulpack import Trajectory
from ulpack.errors import ArgumentError, MissingFileError, UnsupportedTypeError
from ulpack.trajectory import StepInfo


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_training_states_come_back(store: Path, each_backend: str) -> None:
    states = dict(enumerate(training_states(6 if each_backend == "native" else 3)))
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        assert_holds(trajectory, states)
    assert_holds(Trajectory(store), states)


def test_ties_are_ties_and_equal_tensors_are_not(store: Path, native: None) -> None:
    tied = torch.arange(6.0)
    state = {"x": tied, "y": tied, "equal": tied.clone(), "n": np.arange(3), "m": np.arange(3)}
    with Trajectory(store) as trajectory:
        trajectory.save(1, state)
        found = trajectory.load()
    assert_same(found, state)
    assert found["x"] is found["y"]
    assert found["equal"].data_ptr() != found["x"].data_ptr()
    assert not np.shares_memory(found["n"], found["m"])


def test_what_did_not_change_is_stored_once(store: Path, native: None) -> None:
    frozen = torch.randn(1000, 100)
    adapter = torch.randn(20, 20)
    with Trajectory(store) as trajectory:
        for step in range(5):
            adapter = adapter + 1e-3
            trajectory.save(
                step, {"frozen": frozen.clone(), "adapter": adapter, "twice": frozen.clone(), "plain": step}
            )
        log = trajectory.log()
        assert_same(trajectory.load(4)["frozen"], frozen)
    assert log[0].nbytes > 300_000
    assert all(info.nbytes < 4_000 for info in log[1:])
    assert [info.uses for info in log] == [(), (0,), (0,), (0,), (0,)]


def test_nothing_new_is_no_file(store: Path, native: None) -> None:
    state = {"w": torch.arange(10.0)}
    with Trajectory(store) as trajectory:
        for step in (1, 2, 3):
            trajectory.save(step, state)
        assert [info.nbytes > 0 for info in trajectory.log()] == [True, False, False]
        assert_holds(trajectory, dict.fromkeys((1, 2, 3), state))
        assert list(data_files(store)) == [1]
        assert trajectory.verify().ok


def test_names_of_a_step(store: Path, native: None) -> None:
    states = steps(4)
    with Trajectory(store, higher_is_better=["accuracy"]) as trajectory:
        for number, (loss, accuracy) in enumerate([(3.0, 0.1), (1.0, 0.9), (math.nan, 0.2), (1.0, 0.9)]):
            tags = ["first", "kept"] if number < 2 else "later"
            metrics = {"loss": loss, "accuracy": accuracy}
            trajectory.save(10 * number, states[number], tags=tags, metrics=metrics)
        expected = {
            "latest": 30,
            30: 30,
            "20": 20,
            "kept": 10,
            "later": 30,
            "best:loss": 10,
            "best:accuracy": 10,
            "best:accuracy:min": 0,
            "best:loss:max": 0,
            trajectory.info(20).id: 20,
        }
        for name, step in expected.items():
            assert trajectory.info(name).step == step, name
            assert_same(trajectory.load(name), states[step // 10])
        assert trajectory.info(0).tags == ("first", "kept")
        assert math.isnan(trajectory.info(20).metrics["loss"])
    again = Trajectory(store)
    assert again.info("best:accuracy").step == 10, "which end is the best is part of the store"
    for name in (40, "none", "best:none", "9.0123456789abcdef"):
        with pytest.raises(MissingFileError):
            again.load(name)
    with pytest.raises(MissingFileError, match=r"step 5 is not in the store \(4 steps, 0 \.\. 30\)"):
        again.load(5)


def test_tags_come_and_go(store: Path, native: None) -> None:
    with Trajectory(store) as trajectory:
        save_all(trajectory, dict(enumerate(steps(2))))
        trajectory.tag(0, "good")
        assert trajectory.info("good").step == 0
        trajectory.tag(1, "good")
        assert trajectory.info("good").step == 1
        trajectory.untag(1, "good")
        assert trajectory.info("good").step == 0
        assert trajectory.verify().ok


@pytest.mark.parametrize("tag", ["latest", "last", "best:x", "", "12", "7up", 3])
def test_what_cannot_be_a_tag(store: Path, tag: Any) -> None:
    with pytest.raises(ArgumentError):
        Trajectory(store).save(1, {}, tags=[tag])
    assert not store.exists()


@pytest.mark.parametrize("step", [-1, 1.0, "1", True, None, 10**19])
def test_what_cannot_be_a_step(store: Path, step: Any) -> None:
    with pytest.raises(ArgumentError):
        Trajectory(store).save(step, {})
    assert not store.exists()


def test_order_is_by_step_and_not_by_name_or_time(store: Path, native: None) -> None:
    states = {step: {"w": torch.full((5,), float(step))} for step in (9, 10, 100, 1000000000, 99)}
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
    now = time.time()
    for number, path in enumerate(sorted(manifest_files(store).values())):
        os.utime(path, (now - number * 1000, now - number * 1000))
    trajectory = Trajectory(store)
    assert trajectory.steps() == [9, 10, 99, 100, 1000000000]
    assert trajectory.info("latest").step == 1000000000
    assert [info.parent for info in trajectory.log()] == [None, 9, 10, 10, 100]
    assert_holds(trajectory, states)


def test_a_branch_is_a_line_of_its_own(store: Path, native: None) -> None:
    states = training_states(8)
    with Trajectory(store) as trajectory:
        save_all(trajectory, {10: states[0], 20: states[1], 30: states[2]})
    with Trajectory(store) as trajectory:
        trajectory.load(10)  # whoever loads a step goes on from it
        trajectory.save(15, states[3])
        trajectory.load(30)  # and looking at others later changes nothing
        trajectory.save(25, states[4])
        assert trajectory.info("latest").step == 25
        assert [(i.step, i.line, i.parent) for i in trajectory.log()] == [
            (10, 0, None),
            (15, 1, 10),
            (20, 0, 10),
            (25, 1, 15),
            (30, 0, 20),
        ]
        trajectory.save(40, states[5], parent=30)
        trajectory.save(5, states[6], parent=None)
        assert [(trajectory.info(s).line, trajectory.info(s).parent) for s in (40, 5)] == [(2, 30), (3, None)]
    expected = {10: 0, 20: 1, 30: 2, 15: 3, 25: 4, 40: 5, 5: 6}
    assert_holds(Trajectory(store), {step: states[number] for step, number in expected.items()})


def test_a_step_that_is_there_already(store: Path, native: None) -> None:
    first, second, third = training_states(3)
    with Trajectory(store) as trajectory:
        trajectory.save(1, first)
        trajectory.save(2, second)
        with pytest.raises(ArgumentError, match="step 2 is in the store already"):
            trajectory.save(2, third)
        before = trajectory.info(2)
        trajectory.save(2, third, existing="keep")
        assert_same(trajectory.load(2), third)
        assert_same(trajectory.load(before.id), second)
        assert trajectory.steps() == [1, 2]
        assert len(trajectory.log()) == 3
        trajectory.save(2, second, existing="keep")
        assert_same(trajectory.load(2), second)  # the one saved last, although it was there before
        assert_same(trajectory.load("latest"), second)
        trajectory.save(2, first, existing="replace")
        assert_same(trajectory.load(2), first)
        assert [info.step for info in trajectory.log()] == [1, 2]
        with pytest.raises(MissingFileError):
            trajectory.load(before.id)
        assert trajectory.verify() == ulpack.trajectory.StoreReport(str(store), (1, 2), {}, (), True)


def test_the_same_state_again_only_adds_tags(store: Path, native: None) -> None:
    (state,) = training_states(1)
    with Trajectory(store) as trajectory:
        trajectory.save(1, state, tags="a", metrics={"x": 1}).wait()
        before = data_files(store)[1].stat()
        trajectory.save(1, state, tags="b", metrics={"y": 2}, existing="keep")
        info = trajectory.info(1)
        assert (info.tags, info.metrics) == (("a", "b"), {"x": 1.0, "y": 2.0})
        assert data_files(store)[1].stat().st_mtime_ns == before.st_mtime_ns
        assert len(trajectory.log()) == 1


def test_some_tensors_and_rows(store: Path, native: None) -> None:
    states = [{"big": torch.randn(3000, 200), "small": torch.randn(3, 2, 2), "scalar": torch.tensor(1.5)}]
    for number in range(4):
        states.append({name: value + 1e-4 * number for name, value in states[-1].items()})
    with Trajectory(store) as trajectory:
        save_all(trajectory, dict(enumerate(states)))
    trajectory, state = Trajectory(store), states[-1]
    assert trajectory.info().load_files > 2
    assert_same(trajectory.load(names="small"), {"small": state["small"]})
    assert_same(trajectory.load(names=["scalar", "small"]), {n: state[n] for n in ("scalar", "small")})
    rows = {"big": slice(2990, None), "small": (1, 2), "scalar": None}
    found = trajectory.load(names=rows)
    assert_same(found, {"big": state["big"][2990:], "small": state["small"][1:2], "scalar": state["scalar"]})
    for begin, end in [(0, 1), (0, 3000), (1310, 1312), (5, 5), (2999, 3000), (100, 50)]:
        found = trajectory.load(names={"big": (begin, end)})
        assert_same(found["big"], state["big"][begin : max(begin, end)])
    for wrong in ({"scalar": (0, 1)}, {"big": slice(0, 10, 2)}, {"big": 3}, "none"):
        with pytest.raises(ArgumentError):
            trajectory.load(names=wrong)


def read_bytes() -> int:
    """Bytes that this process has read through system calls."""
    text = Path("/proc/self/io").read_text()
    return int(dict(line.split(": ") for line in text.splitlines())["rchar"])


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count reads")


@needs_proc
def test_rows_read_little(store: Path, native: None) -> None:
    states = [{"big": torch.randn(20_000, 256)}]
    for _ in range(3):
        states.append({"big": states[-1]["big"] + 1e-4})
    with Trajectory(store) as trajectory:
        save_all(trajectory, dict(enumerate(states)))
        trajectory.load(names={"big": (0, 1)})
        before = read_bytes()
        found = trajectory.load(names={"big": (10_000, 10_010)})
        read = read_bytes() - before
        whole = trajectory.info().load_nbytes
    assert_same(found["big"], states[-1]["big"][10_000:10_010])
    assert read < whole / 8, "rows of one tensor are read without the rest"


@needs_proc
@pytest.mark.parametrize("max_cost", [1.5, 3.0])
def test_loading_reads_a_bounded_multiple(store: Path, native: None, max_cost: float) -> None:
    state = weights(size=100_000)
    with Trajectory(store, max_cost=max_cost) as trajectory:
        states = {}
        for step in range(15):
            states[step] = state
            trajectory.save(step, state)
            state = drift(state, step)
        log = trajectory.log()
        for info in log:
            before = read_bytes()
            found = trajectory.load(info.step)
            read = read_bytes() - before
            assert_same(found, states[info.step])
            slack = 4096 * (info.load_files + 4)  # manifests, and indexes read twice
            assert read <= max_cost * info.raw_nbytes + slack
            assert info.load_cost <= max_cost
        assert {info.base is None for info in log} == {True, False}


def test_chains_of_small_steps_hang_on_one_anchor(store: Path, native: None) -> None:
    state = weights(size=50_000)
    states = {}
    with Trajectory(store, max_files=4) as trajectory:
        for step in range(12):
            states[step] = state
            trajectory.save(step, state)
            state = drift(state, step, share=0.002)
        log = trajectory.log()
        assert_holds(trajectory, states)
    assert max(info.load_files for info in log) == 4
    assert [info.base for info in log].count(None) == 1, "far steps are stored against the anchor, not as new ones"
    assert sum(info.nbytes for info in log[1:]) < log[0].nbytes


def test_store_is_no_larger_than_the_delta_files(store: Path, tmp_path: Path, native: None) -> None:
    states = training_states(8, every=4)
    nbytes = 0
    with Trajectory(store, max_cost=1000) as trajectory:
        for step, state in enumerate(states):
            trajectory.save(step, state)
            reference = states[step - 1] if step else None
            nbytes += ulpack.save_delta(state, tmp_path / "delta.ulp", reference=reference).nbytes
    data = sum(path.stat().st_size for path in data_files(store).values())
    assert data <= nbytes, "equal and unchanged tensors, and the structure, cost less than in delta files"


def test_manifests_are_small_and_readable(store: Path, native: None) -> None:
    with Trajectory(store) as trajectory:
        save_all(trajectory, dict(enumerate(training_states(3))))
    for step, path in manifest_files(store).items():
        raw = path.read_text()
        assert len(raw) < 700
        fields = json.loads(raw)
        assert fields["step"] == step
        assert raw.count("\n") == len(fields)


def test_out_and_device(store: Path, native: None) -> None:
    states = [weights(0), drift(weights(0), 1)]
    with Trajectory(store) as trajectory:
        save_all(trajectory, dict(enumerate(states)))
        out = {name: torch.zeros_like(value) for name, value in states[1].items()}
        wrapped = {f"module.{name}": value for name, value in out.items()}
        found = trajectory.load(1, out=wrapped)
        assert found["a"] is out["a"]
        assert_same(found, states[1])
        assert_same(trajectory.load(1, device="cpu"), states[1])
        with pytest.raises(ArgumentError, match="out is"):
            trajectory.load(1, out={"a": torch.zeros(3)})
        shared = torch.zeros(4096, dtype=torch.bfloat16)
        with pytest.raises(ArgumentError, match="shares memory"):
            trajectory.load(1, out={"b": shared, "count": shared.view(torch.int64)[0]})


def test_states_of_any_form(store: Path, native: None) -> None:
    odd = {
        "empty": torch.empty(0, 3),
        "strided": torch.arange(24.0).view(4, 6).t()[::2],
        "big": np.arange(5, dtype=">i4"),
        "\0contents": torch.tensor([1, 2]),
        "ünïcode": [torch.tensor(1), {"x": (1, 2.5, b"z", None)}],
        "half": torch.randn(3, dtype=torch.complex64).conj(),
    }
    states: dict[int, Any] = {0: odd, 1: torch.randn(7), 2: [], 3: {}, 4: odd, 5: 17}
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        for step, state in states.items():
            if step in (0, 4):
                found = trajectory.load(step)
                assert_same(found["strided"], state["strided"].contiguous())
                assert found["big"].dtype == state["big"].dtype
                assert_same({**found, "strided": 0}, {**state, "strided": 0, "half": state["half"].resolve_conj()})
            else:
                assert_same(trajectory.load(step), state)
        assert trajectory.verify().ok


def test_wrappers_in_names_keep_deltas_small(store: Path, native: None) -> None:
    first, second = steps(2)
    with Trajectory(store) as trajectory:
        trajectory.save(0, first)
        trajectory.save(1, {f"_orig_mod.{name}": value for name, value in second.items()})
        assert trajectory.info(1).nbytes < 0.8 * trajectory.info(0).nbytes
        assert_same(trajectory.load(1), {f"_orig_mod.{name}": value for name, value in second.items()})


def test_what_cannot_be_stored_changes_nothing(store: Path, native: None) -> None:
    with Trajectory(store) as trajectory:
        trajectory.save(0, {"w": torch.ones(3)})
        with pytest.raises(UnsupportedTypeError, match=r"\['x'\]"):
            trajectory.save(1, {"x": object()})
        trajectory.save(1, {"w": torch.zeros(3)})
        assert trajectory.steps() == [0, 1]


def test_no_store(store: Path) -> None:
    trajectory = Trajectory(store)
    assert not trajectory.exists()
    for read in (trajectory.steps, trajectory.load, trajectory.log, trajectory.verify):
        with pytest.raises(MissingFileError, match="no trajectory here"):
            read()
    assert not store.exists(), "reading makes nothing"


def test_a_folder_with_other_things_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"mine")
    with pytest.raises(ArgumentError, match=r"model\.safetensors"):
        Trajectory(tmp_path).save(1, {})
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_settings_that_make_no_sense(store: Path) -> None:
    for options in ({"max_cost": 0.5}, {"max_files": 0}, {"on_error": "ignore"}, {"threads": 0}, {"retention": {}}):
        with pytest.raises(ArgumentError):
            Trajectory(store, **options)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        Trajectory(store).save(1, {}, metrics={"x": "much"})  # type: ignore[dict-item]


def test_info_of_a_step(store: Path, native: None) -> None:
    with Trajectory(store) as trajectory:
        save_all(trajectory, dict(enumerate(training_states(2))))
        info = trajectory.info(1)
        assert isinstance(info, StepInfo)
        assert info.base == info.parent == 0
        assert info.load_files == 2
        assert info.saved.endswith("Z")
        assert 0 in trajectory
        assert 7 not in trajectory
        assert len(trajectory) == 2
        assert ulpack.inspect(data_files(store)[1]).metadata == {"step": 1, "reference": trajectory.info(0).id}


def test_many_steps_are_listed_from_names_and_copies(
    store: Path, native: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    with Trajectory(store, background=False) as trajectory:
        for step in range(300):
            trajectory.save(step, {"w": torch.full((4,), step)}, metrics={"loss": -step})
    assert (store / "catalog").is_file()
    opened: list[str] = []
    read = Path.read_bytes

    def counted(path: Path) -> bytes:
        opened.append(path.name)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    trajectory = Trajectory(store)
    assert trajectory.steps() == list(range(300))
    trajectory.load("latest")
    assert len(opened) < 40
    opened.clear()
    assert Trajectory(store).info("best:loss").step == 299
    assert len(opened) < 60
    (store / "catalog").write_bytes(b"300\nnonsense")
    assert Trajectory(store).info("best:loss").step == 299, "the copies are only copies"

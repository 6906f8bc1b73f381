"""Damage to a store: never a wrong value, always the step by name, and everything else still loads."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_states import assert_same
from trajectory_runs import data_files, drift, everything, manifest_files, save_all, training_states, weights
from ulpack import Trajectory
from ulpack.errors import CorruptError, MissingFileError, TruncatedError, UlpackError

STEPS = 9


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    """A store with two chains, the second beginning with an anchor at step 5."""
    os.environ["ULPACK_BACKEND"] = "native"
    store = tmp_path_factory.mktemp("damage") / "run"
    states: dict[int, Any] = dict(enumerate(training_states(STEPS)))
    with Trajectory(store, max_files=5) as trajectory:
        save_all(trajectory, states)
        bases = {info.step: info.base for info in trajectory.log()}
    del os.environ["ULPACK_BACKEND"]
    assert bases == {0: None, 1: 0, 2: 1, 3: 2, 4: 3, 5: None, 6: 5, 7: 6, 8: 7}
    return store, states


@pytest.fixture
def copy(made: tuple[Path, dict[int, Any]], tmp_path: Path, native: None) -> tuple[Path, dict[int, Any]]:
    store = tmp_path / "run"
    shutil.copytree(made[0], store)
    return store, made[1]


def check(store: Path, states: dict[int, Any], broken: set[int], *damaged: int) -> None:
    """Exactly these steps do not load, each error names the damaged step, and the verification says the same."""
    trajectory = Trajectory(store)
    for step, state in states.items():
        if step in broken:
            with pytest.raises(UlpackError) as caught:
                trajectory.load(step)
            assert any(f"step {step}" in str(caught.value) or f"{step:09d}." in str(caught.value) for step in damaged)
        else:
            assert_same(trajectory.load(step), state)
    report = trajectory.verify()
    assert set(report.bad) == broken
    assert set(report.good) == set(states) - broken
    assert not report.ok
    with pytest.raises(UlpackError):
        report.check()


AFTER_2 = {2, 3, 4}


def test_a_middle_delta_file_removed_by_hand(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    data_files(store)[2].unlink()
    check(store, states, AFTER_2, 2)
    with pytest.raises(MissingFileError, match="step 4 needs the delta file of step 2, which is missing"):
        Trajectory(store).load(4)
    with Trajectory(store) as trajectory:  # life goes on from what is good
        assert_same(trajectory.load(1), states[1])
        trajectory.save(20, states[4])
        assert_same(trajectory.load(20), states[4])


def test_a_middle_step_removed_by_hand(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    manifest_files(store)[2].unlink()
    left = {step: state for step, state in states.items() if step != 2}
    check(store, left, {3, 4}, 2)
    with pytest.raises(
        MissingFileError, match=r"step 4 needs values of step 2, whose manifest .* not in the store any more"
    ):
        Trajectory(store).load(4)
    before = data_files(store).keys()
    with Trajectory(store) as trajectory:
        trajectory.save(20, states[0])
    assert data_files(store).keys() - {20} == before, "values that others need are not swept away"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_truncated_delta_file(copy: tuple[Path, dict[int, Any]], share: float) -> None:
    store, states = copy
    path = data_files(store)[2]
    os.truncate(path, int(path.stat().st_size * share))
    check(store, states, AFTER_2, 2)
    with pytest.raises(TruncatedError):
        Trajectory(store).load(2)


def test_a_delta_file_with_something_behind_it(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    with open(data_files(store)[2], "ab") as file:
        file.write(b"more")
    check(store, states, AFTER_2, 2)


def test_swapped_delta_files(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    files = data_files(store)
    first, second = files[2].read_bytes(), files[3].read_bytes()
    files[2].write_bytes(second)
    files[3].write_bytes(first)
    check(store, states, AFTER_2, 2, 3)


def test_a_delta_file_of_another_run(copy: tuple[Path, dict[int, Any]], tmp_path: Path) -> None:
    store, states = copy
    with Trajectory(tmp_path / "other") as other:
        save_all(other, {0: weights(0), 1: weights(1)})
    shutil.copy(data_files(tmp_path / "other")[1], data_files(store)[2])
    check(store, states, AFTER_2, 2)


def test_swapped_manifests(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    files = manifest_files(store)
    first, second = files[7].read_bytes(), files[8].read_bytes()
    files[7].write_bytes(second)
    files[8].write_bytes(first)
    check(store, states, {7, 8}, 7, 8)


def test_a_renamed_manifest_is_noticed(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    path = manifest_files(store)[4]
    shutil.copy(path, path.with_name(path.name.replace("000000004", "000000099")))
    with pytest.raises(CorruptError, match="manifest of step 99 is damaged"):
        Trajectory(store).load("latest")
    report = Trajectory(store).verify()
    assert set(report.bad) == {99}
    assert set(report.good) == set(states)


def test_a_flipped_bit_anywhere_in_a_manifest(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    path = manifest_files(store)[8]
    raw = path.read_bytes()
    for position in range(len(raw)):
        bit = 1 << position % 8
        path.write_bytes(raw[:position] + bytes([raw[position] ^ bit]) + raw[position + 1 :])
        with pytest.raises(CorruptError):
            Trajectory(store).load(8)
    path.write_bytes(raw)
    assert_same(Trajectory(store).load(8), states[8])


def test_flipped_bits_in_delta_files(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    chosen = random.Random(5)
    for _ in range(60):
        step = chosen.randrange(STEPS)
        path = data_files(store)[step]
        raw = path.read_bytes()
        position = chosen.randrange(len(raw))
        path.write_bytes(raw[:position] + bytes([raw[position] ^ 1 << chosen.randrange(8)]) + raw[position + 1 :])
        trajectory = Trajectory(store)
        for other, state in states.items():
            hangs = (step <= other < 5) if step < 5 else other >= step
            if not hangs:
                assert_same(trajectory.load(other), state)
                continue
            try:
                found = trajectory.load(other)
            except UlpackError:
                continue
            assert_same(found, state)  # a bit that does not matter to this step, never a wrong value
        report = trajectory.verify()
        assert step in report.bad, "the SHA-256 covers every bit"
        path.write_bytes(raw)
    assert Trajectory(store).verify().ok


def test_the_good_tensors_of_a_damaged_step(store_of_weights: tuple[Path, dict[int, Any]]) -> None:
    store, states = store_of_weights
    path = data_files(store)[1]
    from ulpack import inspect

    hit = next(tensor for tensor in inspect(path).tensors if tensor.name == "a")
    raw = bytearray(path.read_bytes())
    raw[hit.offset + hit.nbytes // 2] ^= 4
    path.write_bytes(raw)
    trajectory = Trajectory(store)
    for step in (1, 2):
        with pytest.raises(CorruptError):
            trajectory.load(step)
        found = trajectory.load(step, salvage=True)
        assert set(found.bad) == {"a"}
        assert "step 1" in str(found.bad["a"])
        assert_same(found.state, {name: value for name, value in states[step].items() if name != "a"})
        assert_same(trajectory.load(step, names="b"), {"b": states[step]["b"]})
    report = trajectory.verify()
    assert {step: set(errors) for step, errors in report.bad.items()} == {1: {"a"}, 2: {"a"}}
    assert report.good == (0,)
    quick = trajectory.verify(decode=False)
    assert set(quick.bad) == {1, 2}


@pytest.fixture
def store_of_weights(tmp_path: Path, native: None) -> tuple[Path, dict[int, Any]]:
    states = {0: weights(0, 50_000)}
    states[1] = drift(states[0], 1)
    states[2] = drift(states[1], 2)
    with Trajectory(tmp_path / "run") as trajectory:
        save_all(trajectory, states)
        assert trajectory.info(2).load_files == 3
    return tmp_path / "run", states


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"nonsense", b'{"format": "ulpack trajectory", "version": "1"}'])
def test_a_damaged_header(copy: tuple[Path, dict[int, Any]], text: bytes) -> None:
    store, _ = copy
    (store / "trajectory.json").write_bytes(text)
    with pytest.raises(CorruptError, match="header"):
        Trajectory(store)


def test_a_store_of_the_future(copy: tuple[Path, dict[int, Any]]) -> None:
    store, _ = copy
    (store / "trajectory.json").write_text('{"format": "ulpack trajectory", "version": 2}')
    with pytest.raises(UlpackError, match="version 2"):
        Trajectory(store)


def test_leftovers_do_no_harm(copy: tuple[Path, dict[int, Any]]) -> None:
    store, states = copy
    path = data_files(store)[3]
    strangers = {
        "data/.000000009.x.ulp.abc.ulp-tmp": b"half",
        "steps/.000000009.x.json.abc.ulp-tmp": b"half",
        "data/000000050.0123456789abcdef.0.ulp": path.read_bytes(),
        "steps/notes.txt": b"mine",
        "steps/other.json": b"{}",
        "data/readme": b"mine",
    }
    for name, raw in strangers.items():
        (store / name).write_bytes(raw)
    trajectory = Trajectory(store)
    assert trajectory.steps() == list(states)
    report = trajectory.verify()
    assert report.ok
    assert set(report.leftovers) == strangers.keys()
    assert everything(store).keys() >= strangers.keys(), "looking changes nothing"
    with Trajectory(store) as trajectory:
        trajectory.save(9, states[0])
    left = everything(store).keys() & strangers.keys()
    assert left == {"steps/notes.txt", "steps/other.json", "data/readme"}, "what is not ours is not touched"


def test_steps_that_need_each_other(copy: tuple[Path, dict[int, Any]]) -> None:
    """No writer makes this; a reader must not hang on it."""
    import dataclasses

    from ulpack.trajectory.catalog import Catalog
    from ulpack.trajectory.layout import Layout
    from ulpack.trajectory.manifest import encode

    store, states = copy
    catalog = Catalog(Layout(store))
    catalog.refresh()
    named: Callable[[int], Any] = lambda step: catalog.manifest(catalog.at(step)[0].id)  # noqa: E731
    circle = dataclasses.replace(named(6), base=named(8).id)
    (store / "steps" / str(circle.name)).write_bytes(encode(circle))
    for step in (6, 7, 8):
        with pytest.raises(UlpackError):
            Trajectory(store).load(step)
    assert set(Trajectory(store).verify().bad) == {6, 7, 8}
    assert_same(Trajectory(store).load(5), states[5])


def test_names_that_would_leave_the_folder(copy: tuple[Path, dict[int, Any]], tmp_path: Path) -> None:
    import dataclasses

    from ulpack.trajectory.catalog import Catalog
    from ulpack.trajectory.layout import Layout
    from ulpack.trajectory.manifest import encode

    store, _ = copy
    catalog = Catalog(Layout(store))
    catalog.refresh()
    manifest = catalog.manifest(catalog.at(8)[0].id)
    assert manifest.data is not None
    hostile = dataclasses.replace(manifest, data=dataclasses.replace(manifest.data, file="../../secret"))
    (store / "steps" / str(hostile.name)).write_bytes(encode(hostile))
    with pytest.raises(CorruptError, match="data file"):
        Trajectory(store).load(8)


def test_states_without_tensors_are_checked_too(tmp_path: Path, native: None) -> None:
    with Trajectory(tmp_path / "run") as trajectory:
        trajectory.save(0, {"plain": [1, 2, 3], "t": torch.empty(0)})
    path = data_files(tmp_path / "run")[0]
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptError):
        Trajectory(tmp_path / "run").load(0)

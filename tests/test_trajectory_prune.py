"""Pruning, folding, and what is left when steps go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import ulpack.trajectory.prune as prune_module
from torch_states import assert_same
from trajectory_runs import (
    assert_holds,
    data_files,
    drift,
    everything,
    manifest_files,
    save_all,
    training_states,
    weights,
)
from ulpack import Trajectory
from ulpack.errors import ArgumentError, MissingFileError


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "run"


def chain(count: int, size: int = 20_000) -> dict[int, dict[str, torch.Tensor]]:
    """States that hang on one another."""
    states, state = {}, weights(size=size)
    for step in range(count):
        states[step] = state
        state = drift(state, step)
    return states


def nbytes(store: Path) -> int:
    return sum(path.stat().st_size for path in data_files(store).values())


def test_rules(store: Path, native: None) -> None:
    states = chain(12)
    with Trajectory(store) as trajectory:
        for step, state in states.items():
            trajectory.save(step, state, metrics={"loss": abs(step - 3)}, tags=["good"] if step == 7 else ())
        planned = trajectory.prune(keep_last=2, keep_every=5, keep_best={"loss": 2}, dry_run=True)
        assert trajectory.steps() == list(range(12)), "a dry run removes nothing"
        done = trajectory.prune(keep_last=2, keep_every=5, keep_best={"loss": 2})
        assert done.removed == planned.removed == (1, 4, 6, 8, 9)
        assert done.kept[0] == ("every 5",)
        assert done.kept[2] == done.kept[3] == ("best loss",)
        assert done.kept[7] == ("tagged good",)
        assert done.kept[11] == ("latest", "one of the last 2")
        assert done.nbytes_after < done.nbytes_before
        assert done.nbytes_after == nbytes(store)
        assert_holds(trajectory, {step: states[step] for step in (0, 2, 3, 5, 7, 10, 11)})
        assert trajectory.verify().ok
        assert trajectory.prune(keep_last=1, keep_tagged=False).removed == (0, 2, 3, 5, 7, 10)
        assert_holds(trajectory, {11: states[11]})
        assert trajectory.verify().leftovers == ()
        assert len(data_files(store)) == 1


@pytest.mark.parametrize("rules", [{}, {"keep_last": 0}, {"keep_every": 1.5}, {"keep_best": {"loss": 0}}])
def test_rules_that_make_no_sense(store: Path, rules: dict[str, Any], native: None) -> None:
    with Trajectory(store) as trajectory:
        save_all(trajectory, chain(2, 100))
        before = everything(store)
        with pytest.raises(ArgumentError):
            trajectory.prune(**rules)
        assert everything(store) == before


def test_rollover_of_numbers(store: Path, native: None) -> None:
    with Trajectory(store, retention={"keep_last": 3}) as trajectory:
        for step in (8, 9, 10, 11, 99, 100, 101):
            trajectory.save(step, {"w": torch.full((50,), step)})
            trajectory.flush()
        assert trajectory.steps() == [99, 100, 101]


def test_loading_stays_cheap_after_pruning(store: Path, native: None) -> None:
    states = chain(30)
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        trajectory.prune(keep_every=4)
        for info in trajectory.log():
            assert info.load_cost <= 3
        kept = {step: states[step] for step in (0, 4, 8, 12, 16, 20, 24, 28, 29)}
        assert_holds(Trajectory(store), kept)


def test_rebased_steps_go_on_being_references(store: Path, native: None) -> None:
    states = chain(5)
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        bases = {info.step: info.base for info in trajectory.log()}
        assert bases == {0: None, 1: 0, 2: 1, 3: 2, 4: 3}
        info = trajectory.remove(2)
        assert (info.removed, info.rebased) == ((2,), (3,))
        assert {info.step: info.base for info in trajectory.log()} == {0: None, 1: 0, 3: 1, 4: 3}
        del states[2]
        assert_holds(trajectory, states)
        states[5] = drift(states[4], 9)
        trajectory.save(5, states[5])
        assert_holds(trajectory, states)
        assert trajectory.info(5).base == 4


def test_values_that_others_use_stay(store: Path, native: None) -> None:
    frozen, moving = torch.randn(500, 100), torch.randn(500, 100)
    states = {}
    with Trajectory(store) as trajectory:
        for step in range(4):
            moving = moving + 1e-3
            states[step] = {"frozen": frozen, "moving": moving, "step": step}
            trajectory.save(step, states[step])
        trajectory.prune(keep_last=2)
        assert_holds(trajectory, {step: states[step] for step in (2, 3)})
        assert trajectory.info(3).uses == (0,)
        why = trajectory.why(0)
        assert why.hidden
        assert why.needed_by == (2, 3)
        with pytest.raises(MissingFileError):
            trajectory.load(0)
        frozen_nbytes = 500 * 100 * 4
        hidden = data_files(store)[0].stat().st_size
        assert 0.7 * frozen_nbytes < hidden < frozen_nbytes + 1000, "only the values that others use are left of step 0"
        assert trajectory.verify().ok
        trajectory.fold(2)
        trajectory.fold(3)
        assert 0 not in data_files(store)
        assert_holds(trajectory, {step: states[step] for step in (2, 3)})
        with pytest.raises(MissingFileError):
            trajectory.why(0)


def test_a_pruned_state_can_come_back(store: Path, native: None) -> None:
    frozen = torch.randn(300, 100)
    states = {step: {"frozen": frozen, "x": torch.full((10,), step)} for step in range(3)}
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        trajectory.prune(keep_last=1)
        assert trajectory.why(0).hidden
        trajectory.save(0, states[0])
        trajectory.save(1, states[1])
        assert_holds(trajectory, states)
        assert not trajectory.why(0).hidden
        assert trajectory.verify().ok


def test_a_trimmed_state_can_come_back(store: Path, native: None) -> None:
    frozen, moving = torch.randn(300, 100), torch.randn(300, 100)
    states = {step: {"frozen": frozen, "moving": moving + step / 100} for step in range(3)}
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        trajectory.prune(keep_last=2)
        nbytes_trimmed = data_files(store)[0].stat().st_size
        assert trajectory.why(0).needed_by == (1, 2)
        trajectory.save(0, states[0])  # of which the store has only one tensor left
        assert_holds(trajectory, states)
        assert data_files(store)[0].stat().st_size > 1.5 * nbytes_trimmed
        assert trajectory.verify().ok


def test_why(store: Path, native: None) -> None:
    with Trajectory(store) as trajectory:
        save_all(trajectory, chain(4))
        trajectory.tag(2, "good")
        why = trajectory.why(2)
        assert (why.needs, why.needed_by, why.kept_as, why.hidden) == ((0, 1), (3,), ("good",), False)
        assert trajectory.why("latest").kept_as == ("latest",)


def test_fold(store: Path, native: None) -> None:
    states = chain(4)
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        folded = trajectory.fold(2)
        assert (folded.base, folded.uses, folded.load_files) == (None, (), 1)
        assert trajectory.why(2).needs == ()
        assert 1 not in trajectory.why(3).needs
        trajectory.prune(keep_last=2)
        assert_holds(trajectory, {step: states[step] for step in (2, 3)})
        assert trajectory.fold().step == 3


def test_training_states_survive_any_pruning(store: Path, native: None) -> None:
    states = dict(enumerate(training_states(16)))
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        for keep in ({"keep_every": 2}, {"keep_every": 6}, {"keep_last": 2}):
            trajectory.prune(**keep)
            left = {step: states[step] for step in trajectory.steps()}
            assert_holds(trajectory, left)
            assert trajectory.verify().ok
        assert set(left) == {12, 15}


def test_pruning_only_what_it_can_read(store: Path, native: None) -> None:
    states = chain(5)
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
    manifest = manifest_files(store)[2]
    manifest.write_bytes(manifest.read_bytes().replace(b'"line": 0', b'"line": 1'))
    before = everything(store)
    with pytest.raises(ulpack_corrupt(), match="manifest"):
        Trajectory(store).prune(keep_last=1)
    after = everything(store)
    assert {name: raw for name, raw in after.items() if name != "lock"} == {
        n: r for n, r in before.items() if n != "lock"
    }


def ulpack_corrupt() -> type[Exception]:
    from ulpack.errors import CorruptError

    return CorruptError


def test_retention_that_fails_leaves_the_save_alone(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from ulpack.errors import StorageError, UlpackWarning

    def broken(*args: Any) -> None:
        raise StorageError("no more")

    states = chain(3)
    with Trajectory(store, retention={"keep_last": 1}) as trajectory:
        trajectory.save(0, states[0]).wait()
        with monkeypatch.context() as patched:
            patched.setattr(prune_module, "remove", broken)
            trajectory.save(1, states[1]).wait()
        with pytest.warns(UlpackWarning, match="step 1 was saved, but then something failed: no more"):
            trajectory.save(2, states[2])
        assert_same(trajectory.load(), states[2])
        assert trajectory.steps() == [2]


def test_removing_the_latest(store: Path, native: None) -> None:
    states = chain(4)
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)
        trajectory.remove("latest")
        assert trajectory.info("latest").step == 2
        states[3] = drift(states[2], 77)
        trajectory.save(3, states[3])
        assert_holds(trajectory, states)
        for step in range(4):
            trajectory.remove(step)
        assert trajectory.steps() == []
        assert nbytes(store) == 0
        trajectory.save(0, states[0])
        assert_holds(trajectory, {0: states[0]})

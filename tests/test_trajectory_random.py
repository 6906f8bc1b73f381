"""Random sequences of everything that can be done to a store, against a dict of what it should hold."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch_states import assert_same
from ulpack import Trajectory

NAMES = ("a", "b", "c", "long.name.d")


class Store(RuleBasedStateMachine):
    """What a user may do, in any order."""

    @initialize(max_files=st.integers(1, 4), max_cost=st.sampled_from([1.0, 1.6, 3.0]))
    def start(self, max_files: int, max_cost: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ulpack-random-"))
        self.options: dict[str, Any] = {"max_files": max_files, "max_cost": max_cost}
        self.trajectory = Trajectory(self.folder / "run", **self.options)
        self.state: dict[str, Any] = {name: torch.randn(40, 50) for name in NAMES}
        self.saved: dict[int, dict[str, Any]] = {}
        self.trajectory.save(0, self.state)
        self.saved[0] = self.copy()

    def copy(self) -> dict[str, Any]:
        return {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in self.state.items()}

    @rule(name=st.sampled_from(NAMES), amount=st.sampled_from([1e-3, 1.0]), share=st.sampled_from([0.01, 1.0]))
    def train(self, name: str, amount: float, share: float) -> None:
        value = self.state.get(name)
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            self.state[name] = value + torch.randn(value.shape) * amount * (torch.rand(value.shape) < share)

    @rule(name=st.sampled_from(NAMES), kind=st.integers(0, 5))
    def change(self, name: str, kind: int) -> None:
        other = self.state.get("a")
        self.state.pop(name, None)
        if kind == 0:
            self.state[name] = torch.randn(7, 3)
        elif kind == 1:
            self.state[name] = torch.arange(5)
        elif kind == 2:
            self.state[name] = {"nested": [1, None, "x"], "t": torch.zeros(3, dtype=torch.bfloat16)}
        elif kind == 3 and isinstance(other, torch.Tensor):
            self.state[name] = other.clone()  # the value of another tensor
        elif kind == 4:
            self.state[name] = torch.zeros(40, 50)

    @rule(ahead=st.integers(1, 20))
    def save(self, ahead: int) -> None:
        step = max(self.saved, default=0) + ahead
        self.trajectory.save(step, self.state)
        self.saved[step] = self.copy()

    @rule(data=st.data(), existing=st.sampled_from(["replace", "keep"]))
    def save_again(self, data: st.DataObject, existing: str) -> None:
        step = data.draw(st.integers(0, max(self.saved, default=0) + 2))
        self.trajectory.save(step, self.state, existing=existing)
        self.saved[step] = self.copy()

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        self.trajectory.close()
        self.trajectory = Trajectory(self.folder / "run", **self.options)
        step = data.draw(st.sampled_from(sorted(self.saved)))
        self.state = self.trajectory.load(step)
        assert_same(self.state, self.saved[step])
        self.state = self.copy()

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def fold(self, data: st.DataObject) -> None:
        info = self.trajectory.fold(data.draw(st.sampled_from(sorted(self.saved))))
        assert info.load_files <= 1
        assert info.base is None

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(sorted(self.saved)))
        while step in self.trajectory:  # each state of it
            self.trajectory.remove(step)
        del self.saved[step]

    @precondition(lambda self: self.saved)
    @rule(last=st.integers(1, 3), every=st.sampled_from([None, 2, 5]))
    def prune(self, last: int, every: int | None) -> None:
        done = self.trajectory.prune(keep_last=last, keep_every=every)
        for step in done.removed:
            del self.saved[step]
        assert set(done.kept) == set(self.saved)

    @invariant()
    def everything_is_there(self) -> None:
        if not hasattr(self, "trajectory"):
            return
        assert self.trajectory.steps() == sorted(self.saved)
        for step, state in self.saved.items():
            assert_same(self.trajectory.load(step), state)
        for info in self.trajectory.log():
            assert info.load_files <= self.options["max_files"]
            assert info.load_cost <= max(self.options["max_cost"], 1.5) or info.load_nbytes <= 1 << 16

    def teardown(self) -> None:
        if not hasattr(self, "trajectory"):
            return
        self.trajectory.close()
        if (self.folder / "run").exists():
            report = Trajectory(self.folder / "run").verify()
            assert report.ok, report.bad
            assert report.leftovers == ()
        shutil.rmtree(self.folder)


TestStore = pytest.mark.usefixtures("native")(Store.TestCase)
TestStore.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)

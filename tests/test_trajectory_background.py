"""Saves behind the back of training: what is copied, what waits, what is told, and what they leave behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import ulpack
from torch_states import assert_same
from trajectory_runs import assert_holds, drift, save_all, training_states, weights
from ulpack import Trajectory
from ulpack.errors import StorageError, UlpackWarning
from ulpack.trajectory.encode import Encoder

PACKAGE = str(Path(ulpack.__file__).parent.parent)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "run"


class Gate:
    """Holds saves up at the moment when their delta file is to be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.waiting = threading.Event()
        write = Encoder.write_data

        def held(encoder: Encoder, *args: Any, **kwargs: Any) -> Any:
            self.waiting.set()
            assert self.open.wait(60)
            return write(encoder, *args, **kwargs)

        monkeypatch.setattr(Encoder, "write_data", held)


def test_the_state_is_that_of_the_call(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    state = weights(size=5000)
    expected = {name: value.clone() for name, value in state.items()}
    with Trajectory(store) as trajectory:
        saving = trajectory.save(1, state)
        assert gate.waiting.wait(60)
        assert not saving.done()
        with pytest.raises(TimeoutError):
            saving.wait(0)
        for value in state.values():
            value.zero_()
        gate.open.set()
        assert saving.wait().step == 1
        assert saving.blocked > 0
        assert 0 < saving.copied <= saving.blocked
        assert_same(trajectory.load(1), expected)


def test_a_second_save_waits_for_the_first(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with Trajectory(store) as trajectory:
        first = trajectory.save(1, weights(1))
        assert gate.waiting.wait(60)
        threading.Timer(0.2, gate.open.set).start()
        second = trajectory.save(2, weights(2))
        assert first.done(), "there are never more than two copies of a state"
        assert second.blocked >= 0.1
        trajectory.flush()
        assert_holds(trajectory, {1: weights(1), 2: weights(2)})


def test_reading_waits_for_what_was_saved(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with Trajectory(store) as trajectory:
        trajectory.save(1, weights(1))
        threading.Timer(0.1, gate.open.set).start()
        assert trajectory.steps() == [1]


class Failing:
    """Makes the n-th delta file, and those after it, fail to be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        self.error: Exception | None = None
        self.planned = error
        write = Encoder.write_data

        def broken(encoder: Encoder, *args: Any, **kwargs: Any) -> Any:
            if self.error is not None:
                raise self.error
            return write(encoder, *args, **kwargs)

        monkeypatch.setattr(Encoder, "write_data", broken)

    def start(self) -> None:
        self.error = self.planned

    def stop(self) -> None:
        self.error = None


def no_space() -> StorageError:
    error = StorageError("No space left on device")
    error.errno = 28
    return error


def test_a_failed_save_is_raised_at_the_next_call(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, no_space())
    states = dict(enumerate(training_states(4)))
    trajectory = Trajectory(store)
    save_all(trajectory, {0: states[0], 1: states[1]})
    failing.start()
    saving = trajectory.save(2, states[2])
    with pytest.raises(StorageError, match="No space left"):
        trajectory.save(3, states[3])
    assert saving.done()
    failing.stop()
    assert trajectory.steps() == [0, 1], "told once, and the steps before are there"
    save_all(trajectory, {2: states[2], 3: states[3]})
    assert_holds(trajectory, states)
    failing.start()
    saving = trajectory.save(4, states[0])
    with pytest.raises(StorageError):
        saving.wait()
    failing.stop()
    trajectory.close()  # it was told already
    assert_holds(Trajectory(store), states)


def test_a_failed_save_is_warned_of(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, no_space())
    states = dict(enumerate(training_states(4)))
    with Trajectory(store, on_error="warn") as trajectory:
        trajectory.save(0, states[0]).wait()
        failing.start()
        trajectory.save(1, states[1])
        trajectory._worker.join()
        failing.stop()
        with pytest.warns(UlpackWarning, match="step 1 was not saved: No space left"):
            trajectory.save(2, states[2])
        trajectory.save(3, states[3])
        del states[1]
        assert_holds(trajectory, states)


def test_a_passing_failure_is_tried_again(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, no_space())
    with Trajectory(store) as trajectory:
        trajectory.save(0, weights(0)).wait()
        failing.start()
        saving = trajectory.save(1, weights(1))
        time.sleep(0.05)
        failing.stop()
        assert saving.wait().step == 1
        assert_holds(trajectory, {0: weights(0), 1: weights(1)})


def test_the_same_without_a_thread(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, no_space())
    trajectory = Trajectory(store, background=False)
    before = threading.active_count()
    saving = trajectory.save(0, weights(0))
    assert saving.done()
    assert threading.active_count() == before
    failing.start()
    with pytest.raises(StorageError):
        trajectory.save(1, weights(1))
    failing.stop()
    trajectory.save(1, weights(1))
    assert_holds(trajectory, {0: weights(0), 1: weights(1)})


def resident() -> int:
    """Anonymous memory of this process in bytes."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_200_saves_leave_nothing_behind(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    state = weights(size=200_000)  # 1.2 MB
    with Trajectory(store, retention={"keep_last": 3}) as trajectory:
        seen = []
        for step in range(200):
            trajectory.save(step, state)
            state = drift(state, step, share=0.2)
            if step in (60, 199):
                trajectory.flush()
                gc.collect()
                seen.append((resident(), threading.active_count(), len(os.listdir("/proc/self/fd"))))
        (early, threads, files), (late, threads_later, files_later) = seen
        assert threads_later <= threads
        assert files_later <= files
        assert late - early < 24 << 20, "140 states of 1.2 MB would be 168 MB"
        assert trajectory.steps() == [197, 198, 199]


def test_verify_reads_back_before_a_step_appears(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    check = ulpack.trajectory.encode.check_written

    def noted(*args: Any) -> None:
        assert not list((store / "steps").iterdir())
        checked.append(args)
        check(*args)

    monkeypatch.setattr(ulpack.trajectory.encode, "check_written", noted)
    with Trajectory(store, verify=True) as trajectory:
        trajectory.save(0, weights(0))
        trajectory.flush()
        assert len(checked) == 1


def script(code: str, store: Path, expected: int = 0) -> str:
    variables = {**os.environ, "PYTHONPATH": PACKAGE, "ULPACK_BACKEND": "native"}
    prelude = "import sys, numpy as np, ulpack\nw = lambda n: {'w': np.full(50_000, n, 'f4')}\n"
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code), str(store)],
        capture_output=True,
        text=True,
        timeout=180,
        env=variables,
    )
    assert done.returncode == expected, done.stderr
    return done.stderr


def test_the_end_of_the_program_waits(store: Path) -> None:
    script(
        """
        trajectory = ulpack.Trajectory(sys.argv[1])
        for step in range(5):
            trajectory.save(step, w(step))
        """,
        store,
    )
    assert Trajectory(store).steps() == list(range(5))


def test_an_exception_that_ends_the_program_loses_nothing(store: Path) -> None:
    stderr = script(
        """
        with ulpack.Trajectory(sys.argv[1]) as trajectory:
            for step in range(3):
                trajectory.save(step, w(step))
            raise RuntimeError("training broke")
        """,
        store,
        expected=1,
    )
    assert "training broke" in stderr
    assert Trajectory(store).steps() == [0, 1, 2]


def test_the_end_of_the_program_tells_of_a_failure(store: Path) -> None:
    stderr = script(
        """
        from ulpack.trajectory.encode import Encoder
        trajectory = ulpack.Trajectory(sys.argv[1])
        trajectory.save(0, w(0)).wait()
        def broken(*args, **kwargs):
            raise ulpack.errors.InternalError("broken")
        Encoder.write_data = broken
        trajectory.save(1, w(1))
        """,
        store,
    )
    assert "step 1 was not saved: broken" in stderr
    assert Trajectory(store).steps() == [0]


def test_from_several_threads(store: Path, native: None) -> None:
    states = {step: weights(step, 2048) for step in range(24)}
    with Trajectory(store) as trajectory:
        errors: list[BaseException] = []

        def work(part: int) -> None:
            try:
                for step in range(part, 24, 4):
                    trajectory.save(step, states[step])
                    assert_same(trajectory.load(step), states[step])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert_holds(trajectory, states)


def test_memory_of_tensors_on_the_way(store: Path, native: None) -> None:
    """Tensors of any strides and classes are copied as they are."""
    base = torch.randn(64, 48)
    state = {
        "turned": base.t(),
        "channels": torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
        "expanded": torch.randn(1, 5).expand(7, 5),
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "negated": torch.randn(4, dtype=torch.complex128).conj().imag,
        "fp8": torch.randn(33).to(torch.float8_e4m3fn),
        "bool": torch.tensor([True, False]),
    }
    expected = {name: value.detach().clone().contiguous() for name, value in state.items()}
    with Trajectory(store) as trajectory:
        trajectory.save(0, state)
        assert_same(trajectory.load(0), expected)

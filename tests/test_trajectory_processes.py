"""One writer and many readers, in several processes, and children after fork."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
import ulpack
from torch_states import assert_same
from trajectory_runs import assert_holds, save_all, weights
from ulpack import Trajectory
from ulpack.errors import ForkError
from ulpack.trajectory import LockedError, lock

PACKAGE = str(Path(ulpack.__file__).parent.parent)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "run"


def start(code: str, store: Path) -> subprocess.Popen[str]:
    variables = {**os.environ, "PYTHONPATH": PACKAGE, "ULPACK_BACKEND": "native"}
    prelude = """
    import os, sys, time
    import numpy as np
    import ulpack
    def state(n):
        return {"a": np.full((300, 40), n, "f4") + np.arange(40, dtype="f4") / 64, "n": n, "fixed": np.arange(5000)}
    def right(found, n):
        return found["n"] == n and all(found[k].tobytes() == v.tobytes() for k, v in state(n).items() if k != "n")
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(code), str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env=variables,
    )


def end(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def test_a_second_writer_is_told_who_the_first_is(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.1)
    process = start(
        "t = ulpack.Trajectory(sys.argv[1]); t.save(1, state(1)).wait(); print('ready', flush=True); input()", store
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    second = Trajectory(store)
    with pytest.raises(LockedError, match=f"process {process.pid} on .* since") as caught:
        second.save(2, weights())
    assert isinstance(caught.value, OSError)
    assert second.steps() == [1], "reading needs no lock"
    for write in (lambda: second.prune(keep_last=1), second.fold, lambda: second.tag(1, "x")):
        with pytest.raises(LockedError):
            write()
    process.kill()
    process.communicate()
    second.save(2, weights())
    second.flush()
    assert second.steps() == [1, 2], "the lock goes with its process, however that ends"
    second.close()


def test_two_writers_in_one_process(store: Path, native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.1)
    first, second = Trajectory(store), Trajectory(store)
    first.save(1, weights()).wait()
    with pytest.raises(LockedError, match="this process"):
        second.save(2, weights())
    first.close()
    second.save(2, weights())
    second.flush()
    del second
    gc.collect()
    first.save(3, weights())  # an object that is gone holds nothing
    assert first.steps() == [1, 2, 3]


def test_readers_while_a_writer_saves_and_prunes(store: Path) -> None:
    writer = start(
        """
        with ulpack.Trajectory(sys.argv[1]) as trajectory:
            for step in range(60):
                trajectory.save(step, state(step))
                if step % 4 == 3:
                    trajectory.prune(keep_last=3, keep_every=10)
                if step % 7 == 6:
                    trajectory.fold()
        """,
        store,
    )
    readers = [
        start(
            """
            trajectory = ulpack.Trajectory(sys.argv[1])
            loads = 0
            highest = -1
            while highest < 59:
                try:
                    steps = trajectory.steps()
                    found = trajectory.load("latest")
                except ulpack.errors.MissingFileError as error:
                    assert highest < 0, error  # not even the first step is there yet
                    time.sleep(0.01)
                    continue
                loads += 1
                assert right(found, found["n"])
                assert found["n"] >= highest, "the latest step never goes back"
                highest = found["n"]
                one = steps[loads % len(steps)]
                try:
                    assert right(trajectory.load(one), one)
                except ulpack.errors.MissingFileError as error:
                    assert "is not in the store" in str(error), error  # it was pruned meanwhile
            print(loads)
            """,
            store,
        )
        for _ in range(2)
    ]
    end(writer)
    assert all(int(end(reader)) > 0 for reader in readers)
    trajectory = Trajectory(store)
    assert trajectory.steps() == [0, 10, 20, 30, 40, 50, 57, 58, 59]
    assert trajectory.verify().ok


def test_verify_while_a_writer_prunes(store: Path, native: None) -> None:
    writer = start(
        """
        with ulpack.Trajectory(sys.argv[1]) as trajectory:
            for step in range(40):
                trajectory.save(step, state(step))
                trajectory.prune(keep_last=2)
        """,
        store,
    )
    reports = []
    while writer.poll() is None:
        try:
            reports.append(Trajectory(store).verify(decode=False))
        except ulpack.errors.MissingFileError:
            time.sleep(0.01)
    end(writer)
    # A store that changes all the time may be seen in between; a damaged one is something else.
    for report in reports:
        for errors in report.bad.values():
            assert all(isinstance(error, ulpack.errors.MissingFileError) for error in errors.values())
    assert Trajectory(store).verify().ok


def in_child(work: object) -> int:
    """Run something in a child after fork; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()  # type: ignore[operator]
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_after_fork_reads_and_does_not_write(
    store: Path, native: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.1)
    states = {step: weights(step, 2048) for step in range(3)}
    with Trajectory(store) as trajectory:
        save_all(trajectory, states)

        def child() -> None:
            assert_holds(trajectory, states)
            with pytest.raises(ForkError, match="parent process"):
                trajectory.save(3, weights())
            trajectory.close()
            with pytest.raises(LockedError):
                Trajectory(store).save(3, weights())

        assert in_child(child) == 0
        trajectory.save(3, weights())  # the lock is still ours
        trajectory.flush()
        assert trajectory.steps() == [0, 1, 2, 3]
        with pytest.raises(LockedError):
            Trajectory(store).save(4, weights())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_does_not_keep_the_lock(store: Path, native: None) -> None:
    trajectory = Trajectory(store)
    trajectory.save(0, weights()).wait()
    context = multiprocessing.get_context("fork")
    event = context.Event()
    child = context.Process(target=event.wait)
    child.start()
    trajectory.close()
    try:
        with Trajectory(store) as other:
            other.save(1, weights())
    finally:
        event.set()
        child.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_fork_in_the_middle_of_a_save(store: Path, native: None) -> None:
    with Trajectory(store) as trajectory:
        for step in range(10):
            trajectory.save(step, weights(step, 200_000))

            def child() -> None:
                Trajectory(store).steps()
                trajectory.close()

            assert in_child(child) == 0
        assert trajectory.verify().ok
        assert trajectory.steps() == list(range(10))


def test_loaders_of_data_while_saving(store: Path, native: None) -> None:
    rows = torch.arange(64.0)
    loader = torch.utils.data.DataLoader(rows, batch_size=8, num_workers=2, multiprocessing_context="fork")
    with Trajectory(store) as trajectory:
        for step in range(3):
            trajectory.save(step, weights(step))
            assert sum(batch.sum().item() for batch in loader) == rows.sum().item()
        assert_same(trajectory.load(), weights(2))

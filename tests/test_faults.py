"""Kills, full disks, failing disks: nothing acknowledged is lost, nothing half-written is visible."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import ulpack
from trajectory_runs import assert_holds, drift, everything, save_all, weights
from ulpack import Trajectory
from ulpack.errors import StorageError, UlpackWarning

HERE = Path(__file__).parent
PACKAGE = str(Path(ulpack.__file__).parent.parent)


def run_script(name: str, *arguments: Any, **environment: str) -> Any:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([PACKAGE, str(HERE)]), **environment}
    done = subprocess.run(
        [sys.executable, str(HERE / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=1800,
        env=variables,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_killed_at_200_random_moments(tmp_path: Path) -> None:
    result = run_script("fault_runs.py", tmp_path / "run", 200, 20261201, ULPACK_BACKEND="native")
    assert result["kills"] == 200
    words = result["last words"]
    # Kills in the middle of saves, and of prunes and folds; not just before anything happened.
    assert words.get("saving", 0) >= 40, words
    assert words.get("removing", 0) + words.get("folding", 0) >= 10, words


@pytest.mark.parametrize(
    ("backend", "most", "kinds"),
    [("native", 9, ("fsync", "rename", "unlink", "write", "read")), ("reference", 2, ("write", "pread"))],
)
def test_system_calls_fail(tmp_path: Path, backend: str, most: int, kinds: tuple[str, ...]) -> None:
    """With the native library the layer sees all but the reading and writing of delta files; with NumPy that, too."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        pytest.skip("the layer between process and system needs a C compiler and LD_PRELOAD")
    layer = tmp_path / "layer.so"
    source = HERE / "fault_layer.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", str(layer), str(source), "-ldl"], check=True)
    variables = {"ULPACK_BACKEND": backend, "LD_PRELOAD": str(layer), "PYTHONDONTWRITEBYTECODE": "1"}
    result = run_script("fault_errors.py", layer, tmp_path, most, *kinds, **variables)
    assert result["failed"] >= 3 * most, result
    assert result["survived"] >= most, result


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[Path]:
    """A file system of a few bytes of its own."""
    place = Path(tempfile.mkdtemp(prefix="ulpack-disk-"))
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", f"size={size}", "ulpack-test", str(place)]
    if mount is None or subprocess.run(command, capture_output=True).returncode != 0:
        place.rmdir()
        pytest.skip("this user may not mount a small file system; the test with a limit on file sizes runs everywhere")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()


def test_full_disk(native: None) -> None:
    with small_disk(1 << 20) as disk:
        states = {}
        state = weights(size=20_000)
        trajectory = Trajectory(disk / "run")
        with pytest.raises(StorageError) as caught:  # noqa: PT012
            for step in range(100):
                trajectory.save(step, state).wait()
                states[step] = state
                state = drift(state, step)
        assert caught.value.errno == errno.ENOSPC
        assert len(states) > 5
        assert_holds(trajectory, states)
        assert not [name for name in everything(disk / "run") if name.endswith(".ulp-tmp")]
        trajectory.prune(keep_last=2)
        states = {step: states[step] for step in sorted(states)[-2:]}
        assert_holds(trajectory, states)
        states[100] = state
        trajectory.save(100, state)
        assert_holds(trajectory, states)
        assert trajectory.verify().ok
        trajectory.close()


def test_full_disk_does_not_stop_training(native: None) -> None:
    with small_disk(1 << 20) as disk:
        state = weights(size=20_000)
        trajectory = Trajectory(disk / "run", on_error="warn")
        with pytest.warns(UlpackWarning, match=r"(?i)was not saved: .*no space left"):  # noqa: PT031
            for step in range(30):
                trajectory.save(step, state)
                state = drift(state, step)
            trajectory.close()
        saved = trajectory.steps()
        assert 5 < len(saved) < 30
        assert saved == list(range(len(saved)))
        assert trajectory.verify().ok


def test_a_limit_on_file_sizes(tmp_path: Path, native: None) -> None:
    small, large = weights(size=4096), weights(size=400_000)
    with Trajectory(tmp_path / "run") as trajectory:
        trajectory.save(0, small)
        trajectory.flush()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            with pytest.raises(StorageError) as caught:
                trajectory.save(1, large).wait()
            trajectory.save(2, small).wait()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert caught.value.errno == errno.EFBIG
        trajectory.save(3, large)
        assert_holds(trajectory, {0: small, 2: small, 3: large})
        assert trajectory.verify().leftovers == ()


def test_a_read_only_file_system(native: None) -> None:
    with small_disk(4 << 20) as disk:
        states = {step: weights(step) for step in range(3)}
        with Trajectory(disk / "run") as trajectory:
            save_all(trajectory, states)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        trajectory = Trajectory(disk / "run")
        assert_holds(trajectory, states)
        assert trajectory.verify().ok
        for write in (lambda: trajectory.save(3, weights()), lambda: trajectory.prune(keep_last=1)):
            with pytest.raises(StorageError) as caught:
                write()
            assert caught.value.errno == errno.EROFS
        assert_holds(trajectory, states)


def as_other_user(function: Any) -> int:
    """Run something in a child that is not the superuser; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            function()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_read_only_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULPACK_BACKEND", "reference")  # whose modules are loaded here, not by the other user
    folder = Path(tempfile.mkdtemp(prefix="ulpack-read-only-"))
    states = {step: {"w": torch.arange(20.0) + step} for step in range(2)}
    try:
        with Trajectory(folder / "run") as trajectory:
            save_all(trajectory, states)
            assert trajectory.verify().ok
        folder.chmod(0o755)
        folders = (folder / "run", folder / "run" / "steps", folder / "run" / "data")
        for place in folders:
            place.chmod(0o555)
        before = everything(folder / "run")

        def look() -> None:
            trajectory = Trajectory(folder / "run")
            assert_holds(trajectory, states)
            for write in (lambda: trajectory.save(2, states[0]), lambda: trajectory.fold(0)):
                with pytest.raises(StorageError) as caught:
                    write()
                assert caught.value.errno == errno.EACCES
                assert str(folder) in str(caught.value)
            assert_holds(trajectory, states)

        assert as_other_user(look) == 0
        assert everything(folder / "run") == before
    finally:
        for place in (folder / "run", folder / "run" / "steps", folder / "run" / "data"):
            place.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("modes", ["before", "torn,unsynced"])
def test_an_outside_judge(tmp_path: Path, modes: str) -> None:
    """ckpt-chaos kills the training at file events, resumes it, and compares; acknowledged steps count as complete."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ckpt_chaos", "run", "--work", str(tmp_path / "work"), "--modes", modes),
            *("--checkpoint-glob", "{out}/acknowledged-*", "--step-regex", r"resumed from step (\d+)"),
            *("--result-file", "{out}/final.bin", "--max-points", "30", "--jobs", "2"),
            *("--fail-on", "HARD_FAIL,SILENT_DIVERGENCE,LOST_WORK,CONTROL_FAIL"),
            *("--", sys.executable, str(HERE / "fault_training.py"), "{out}"),
        ],
        capture_output=True,
        text=True,
        timeout=1800,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PACKAGE, "ULPACK_BACKEND": "native"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(path.read_text()) for path in (tmp_path / "work").glob("pt_*/result.json")]
    assert sum(result["crashed"] for result in results) > 10, done.stdout

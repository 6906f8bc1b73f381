"""Fork, spawn, threads, signals, crashes: what happens to a process that uses the native library.

Each test is a script in a process of its own, so that a hang is a failure of one test and not of the run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ulpack

PACKAGE = str(Path(ulpack.__file__).parent.parent)
HANG = 180  # seconds after which a process counts as hanging

PRELUDE = """
import ctypes, faulthandler, gc, multiprocessing, os, signal, sys, threading, time, warnings
import numpy as np
import ulpack

def arrays(seed, count=4, size=3000):
    rng = np.random.default_rng(seed)
    return {f"w{n}": rng.standard_normal(size).astype("f4") for n in range(count)}

def round_trip(seed=0, size=3000):
    base = arrays(seed, size=size)
    state = {k: v * np.float32(1.0001) for k, v in base.items()}
    blobs = [ulpack.encode(state[k], base[k]) for k in state]
    back = [ulpack.decode(blob, base[k]) for blob, k in zip(blobs, state)]
    assert all((a.view("u4") == b.view("u4")).all() for a, b in zip(back, state.values()))
    return ulpack.backend().name

arrays(0)  # numpy.random is imported now: a module that a thread is importing is lost to a child forked meanwhile
"""


def run(
    code: str,
    *,
    cwd: Path | None = None,
    code_expected: int = 0,
    arguments: Sequence[str] = (),
    **environment: str,
) -> str:
    """Run a script to its end; its standard output, with what it wrote to standard error after it."""
    variables = {**os.environ, "PYTHONPATH": PACKAGE, "ULPACK_BACKEND": "native", "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=HANG,
        cwd=cwd,
        env=variables,
        check=False,
    )
    assert done.returncode == code_expected, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")


@needs_fork
class TestFork:
    def test_pool_after_use_in_the_parent(self) -> None:
        code = """
            round_trip()
            gc.collect()
            with multiprocessing.get_context("fork").Pool(4) as pool:
                print(set(pool.map(round_trip, range(12))))
            print(round_trip())
        """
        assert run(code) == "{'native'}\nnative\n"

    def test_children_of_a_parent_that_never_used_it(self) -> None:
        code = """
            for n in range(5):
                child = multiprocessing.get_context("fork").Process(target=round_trip, args=(n,))
                child.start()
                child.join()
                assert child.exitcode == 0
            print("libulpack" in open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else False)
        """
        assert run(code) == "False\n"

    def test_children_of_children(self) -> None:
        code = """
            def descend(depth):
                assert round_trip(depth) == "native"
                pid = os.fork()
                if pid == 0:
                    if depth:
                        descend(depth - 1)
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            descend(8)
            print("done")
        """
        assert run(code) == "done\n"

    def test_while_other_threads_are_inside(self) -> None:
        code = """
            stop = threading.Event()
            def work(n):
                while not stop.is_set():
                    round_trip(n, size=20000)
            threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
            [t.start() for t in threads]
            for n in range(20):
                pid = os.fork()
                if pid == 0:
                    try:
                        os._exit(0 if round_trip(n) == "native" else 1)
                    finally:
                        os._exit(2)
                assert os.waitpid(pid, 0)[1] == 0
            stop.set()
            [t.join() for t in threads]
            print("done")
        """
        assert run(code) == "done\n"

    def test_while_another_thread_loads_it(self) -> None:
        code = """
            thread = threading.Thread(target=round_trip)
            thread.start()
            time.sleep(float(sys.argv[1]))
            pid = os.fork()
            if pid == 0:
                os._exit(0 if round_trip(1) == "native" else 1)
            assert os.waitpid(pid, 0)[1] == 0
            thread.join()
            print("done")
        """
        for milliseconds in (0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 6):
            assert run(code, arguments=[str(milliseconds / 1000)]) == "done\n"

    def test_fork_that_python_does_not_see(self) -> None:
        code = """
            round_trip()
            fork = ctypes.CDLL(None).fork
            pid = fork()
            if pid == 0:
                try:
                    os._exit(0 if round_trip(1) == "native" else 1)
                except BaseException as error:
                    print(repr(error), flush=True)
                    os._exit(2)
            print(os.waitpid(pid, 0)[1])
        """
        assert run(code) == "0\n"

    def test_where_no_copy_can_be_loaded(self) -> None:
        code = """
            from ulpack._backend import library
            round_trip()
            def refuse(image):
                raise OSError("not allowed")
            library._memory_copy = library._disk_copy = refuse
            pid = os.fork()
            if pid == 0:
                try:
                    print(round_trip(), flush=True)
                except ulpack.errors.ForkError as error:
                    print("ForkError", "spawn" in str(error), "not allowed" in str(error), flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
        """
        assert run(code) == "ForkError True True\n"
        text = run(code, ULPACK_BACKEND="")
        assert text.startswith("reference\n")
        assert text.count("UlpackWarning: using the NumPy implementation") == 1

    def test_data_loader_workers(self, tmp_path: Path) -> None:
        code = """
            import torch
            warnings.filterwarnings("ignore", message=".*worker processes in total")  # this machine has few processors
            class Data(torch.utils.data.Dataset):
                def __len__(self):
                    return 16
                def __getitem__(self, n):
                    assert round_trip(n) == "native"
                    return n
            loader = torch.utils.data.DataLoader(Data(), num_workers=4, batch_size=2, multiprocessing_context="fork")
            model = torch.nn.Linear(20, 20)
            for epoch in range(3):
                ulpack.save_delta(model.state_dict(), "x.ulp")
                assert sorted(torch.cat(list(loader)).tolist()) == list(range(16))
            print("done")
        """
        assert run(code, cwd=tmp_path) == "done\n"

    def test_a_worker_error_reaches_the_parent_whole(self) -> None:
        code = """
            def fail(n):
                ulpack.decode(b"nothing")
            round_trip()
            with multiprocessing.get_context("fork").Pool(1) as pool:
                try:
                    pool.map(fail, [1])
                except ulpack.UlpackError as error:
                    print(type(error).__name__, error.kind)
        """
        assert run(code).split()[1] in ("corrupt", "truncated")

    def test_save_in_a_child(self, tmp_path: Path) -> None:
        code = """
            base = arrays(1)
            ulpack.save_delta(base, "base.ulp")
            def save(n):
                state = {k: v + np.float32(n) for k, v in base.items()}
                ulpack.save_delta(state, f"{n}.ulp", reference="base.ulp", verify=True)
                return n
            with multiprocessing.get_context("fork").Pool(2) as pool:
                for n in pool.imap(save, range(4)):
                    loaded = ulpack.load_delta(f"{n}.ulp", reference=base)
                    assert all((loaded[k] == base[k] + np.float32(n)).all() for k in base)
            print("done")
        """
        assert run(code, cwd=tmp_path) == "done\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(method: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PRELUDE)
    code = f"""
        sys.path.insert(0, {str(tmp_path)!r})
        import job
        job.round_trip()
        with multiprocessing.get_context({method!r}).Pool(2) as pool:
            print(set(pool.map(job.round_trip, range(4))))
    """
    assert run(code, PYTHONPATH=f"{PACKAGE}{os.pathsep}{tmp_path}") == "{'native'}\n"


class TestThreads:
    def test_32_threads(self) -> None:
        code = """
            failures = []
            def work(n):
                try:
                    for k in range(6):
                        round_trip(n * 10 + k, size=2000 + n)
                except BaseException as error:
                    failures.append(error)
            threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            print(failures)
        """
        assert run(code) == "[]\n"

    def test_the_interpreter_goes_on_during_a_call(self, tmp_path: Path) -> None:
        code = """
            state = {"x": np.random.default_rng(0).standard_normal(8_000_000).astype("f4")}
            counted, saving = 0, threading.Event()
            def count():
                global counted
                while not saving.is_set():
                    counted += 1
                    time.sleep(0)
            def save():
                ulpack.save_delta(state, "x.ulp", threads=1)
                saving.set()
            ulpack.backend()
            threads = [threading.Thread(target=f) for f in (save, count)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            print(counted > 100)
        """
        assert run(code, cwd=tmp_path) == "True\n"

    def test_a_call_in_a_daemon_thread_at_exit(self, tmp_path: Path) -> None:
        code = """
            state = {"x": np.random.default_rng(0).standard_normal(8_000_000).astype("f4")}
            threading.Thread(target=ulpack.save_delta, args=(state, "x.ulp"), daemon=True).start()
            time.sleep(0.2)
            print("end")
        """
        assert run(code, cwd=tmp_path) == "end\n"

    def test_saves_leave_nothing_behind(self, tmp_path: Path) -> None:
        code = """
            def used():
                return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
            base = arrays(1, size=30000)
            state = arrays(2, size=30000)
            for n in range(60):
                ulpack.save_delta(state, "x.ulp", reference=base, verify=True, progress=lambda *a: None)
                ulpack.load_delta("x.ulp", reference=base)
                ulpack.inspect("x.ulp")
                if n == 20:
                    before = used()
            after = used()
            print(after[0] - before[0], after[1] - before[1] < 3)
        """
        if not os.path.isdir("/proc/self/fd"):
            pytest.skip("needs /proc")
        growth, threads_flat = run(code, cwd=tmp_path).split()
        # Go opens two descriptors when its poller first starts, which may be late.
        assert int(growth) <= 2
        assert threads_flat == "True"


LARGE = """
            state = {"x": np.random.default_rng(0).standard_normal(60_000_000).astype("f4")}
            total, seen = state["x"].nbytes, []
            ulpack.backend()
            def later(action, seconds=0.3):
                timer = threading.Timer(seconds, action)
                timer.start()
            def interrupt():
                os.kill(os.getpid(), signal.SIGINT)
"""


class TestSignals:
    def test_ctrl_c_ends_a_save(self, tmp_path: Path) -> None:
        (tmp_path / "x.ulp").write_bytes(b"old")
        code = (
            LARGE
            + """
            def progress(done, total):
                seen.append(done)
                if len(seen) == 1:
                    interrupt()
            try:
                ulpack.save_delta(state, "x.ulp", threads=1, progress=progress)
            except KeyboardInterrupt:
                print("interrupted", seen[0] < total, open("x.ulp", "rb").read(), os.listdir())
            print(round_trip())
        """
        )
        assert run(code, cwd=tmp_path) == "interrupted True b'old' ['x.ulp']\nnative\n"

    def test_ctrl_c_ends_a_load(self, tmp_path: Path) -> None:
        code = (
            LARGE
            + """
            ulpack.save_delta(state, "x.ulp")
            def progress(done, total):
                if not seen:
                    seen.append(done)
                    interrupt()
            try:
                ulpack.load_delta("x.ulp", threads=1, progress=progress)
            except KeyboardInterrupt:
                print("interrupted", len(seen) == 1)
            print(round_trip())
        """
        )
        assert run(code, cwd=tmp_path) == "interrupted True\nnative\n"

    def test_ctrl_c_waits_for_an_apply(self, tmp_path: Path) -> None:
        code = """
            base = {f"w{n}": np.random.default_rng(n).standard_normal(4_000_000).astype("f4") for n in range(4)}
            state = {k: v * np.float32(1.001) for k, v in base.items()}
            ulpack.save_delta(state, "x.ulp", reference=base)
            from ulpack import _apply
            plain = _apply.decode_items
            def interrupted(*arguments, **options):
                os.kill(os.getpid(), signal.SIGINT)
                return plain(*arguments, **options)
            _apply.decode_items = interrupted
            try:
                ulpack.apply_delta_(base, "x.ulp")
            except KeyboardInterrupt:
                print(all((base[k] == state[k]).all() for k in state))
        """
        assert run(code, cwd=tmp_path) == "True\n"

    def test_handlers_run_during_a_call(self, tmp_path: Path) -> None:
        code = (
            LARGE
            + """
            hits = []
            signal.signal(signal.SIGALRM, lambda *a: hits.append("alarm"))
            signal.signal(signal.SIGPROF, lambda *a: hits.append("profile"))
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            signal.setitimer(signal.ITIMER_PROF, 0.05, 0.05)
            ulpack.save_delta(state, "x.ulp")
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            during = set(hits)
            loaded = ulpack.load_delta("x.ulp")
            print(sorted(during), (loaded["x"] == state["x"]).all())
        """
        )
        assert run(code, cwd=tmp_path) == "['alarm', 'profile'] True\n"

    def test_an_exception_of_a_handler_ends_a_call(self, tmp_path: Path) -> None:
        code = (
            LARGE
            + """
            class Timeout(Exception):
                pass
            def expire(*_):
                raise Timeout
            signal.signal(signal.SIGALRM, expire)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            try:
                ulpack.save_delta(state, "x.ulp", threads=1)
            except Timeout:
                print("timeout", os.listdir())
        """
        )
        assert run(code, cwd=tmp_path) == "timeout []\n"

    def test_loading_leaves_handlers_alone(self) -> None:
        code = """
            def handlers():
                return {s: signal.getsignal(s) for s in signal.valid_signals()}
            signal.signal(signal.SIGUSR1, lambda *a: None)
            before = handlers()
            round_trip()
            print(handlers() == before)
            os.kill(os.getpid(), signal.SIGUSR1)
            read, write = os.pipe()
            os.close(read)
            try:
                os.write(write, b"x")
            except BrokenPipeError:
                print("broken pipe")
        """
        assert run(code) == "True\nbroken pipe\n"

    @pytest.mark.parametrize("order", ["before", "after"])
    def test_faulthandler(self, order: str) -> None:
        code = f"""
            faulthandler.disable()
            if {order == "before"}:
                faulthandler.enable()
            round_trip()
            faulthandler.enable()
            round_trip()
            print("fine", flush=True)
            ctypes.string_at(0)
        """
        text = run(code, code_expected=-signal.SIGSEGV)
        assert text.startswith("fine\n")
        assert "Fatal Python error: Segmentation fault" in text


class TestCrashes:
    def test_kill_during_a_save(self, tmp_path: Path) -> None:
        """Whenever the process dies, the old file is whole or the new one is, and leftovers go with the next save."""
        script = (
            PRELUDE
            + """
base = arrays(1, size=400_000)
print("ready", flush=True)
for n in range(1000):
    ulpack.save_delta({"n": n, **base}, "x.ulp")
"""
        )
        variables = {**os.environ, "PYTHONPATH": PACKAGE, "ULPACK_BACKEND": "native"}
        rng = random.Random(7)
        seen = -1
        for _ in range(12):
            process = subprocess.Popen(
                [sys.executable, "-c", script], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.random() * 0.6)
            process.kill()
            process.wait()
            process.stdout.close()
            if (tmp_path / "x.ulp").exists():
                seen = ulpack.load_delta(tmp_path / "x.ulp")["n"]
        assert seen >= 0
        ulpack.save_delta({"n": 1}, tmp_path / "x.ulp")
        assert os.listdir(tmp_path) == ["x.ulp"]

    def test_temporary_files_in_use_are_left_alone(self, tmp_path: Path) -> None:
        def save_another(done: int, total: int) -> None:
            ulpack.save_delta({"n": 2}, tmp_path / "x.ulp")

        ulpack.save_delta({"n": 1, "x": np.ones(9)}, tmp_path / "x.ulp", progress=save_another)
        assert ulpack.load_delta(tmp_path / "x.ulp")["n"] == 1
        assert os.listdir(tmp_path) == ["x.ulp"]

    def test_file_size_limit(self, tmp_path: Path) -> None:
        (tmp_path / "x.ulp").write_bytes(b"old")
        code = """
            import resource, errno
            state = {"x": np.random.default_rng(0).standard_normal(3_000_000).astype("f4")}
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
            try:
                ulpack.save_delta(state, "x.ulp")
            except ulpack.errors.StorageError as error:
                print(isinstance(error, OSError), error.errno == errno.EFBIG, error.path)
            print(open("x.ulp", "rb").read(), os.listdir())
        """
        assert run(code, cwd=tmp_path) == "True True x.ulp\nb'old' ['x.ulp']\n"

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_full_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import errno

        for backend in ("native", "reference"):
            monkeypatch.setenv("ULPACK_BACKEND", backend)
            with pytest.raises(OSError, match="space") as caught:
                ulpack.save_delta({"x": np.ones(100)}, "/dev/full")
            assert isinstance(caught.value, ulpack.errors.StorageError)
            assert caught.value.errno == errno.ENOSPC

    @pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
    def test_memory_of_diff_and_apply(self, tmp_path: Path) -> None:
        """Mapped in, mapped out: no copy of a checkpoint is made in between."""
        code = """
            import json
            from ulpack._cli.app import app
            def write(name, data):
                header = json.dumps({"x": {"dtype": "BF16", "shape": [data.size], "data_offsets": [0, data.nbytes]}})
                with open(name, "wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header.encode())
                    data.tofile(file)
            rng = np.random.default_rng(0)
            data = (rng.standard_normal(100_000_000).astype("f4").view("u4") >> 16).astype("u2")
            write("a.safetensors", data)
            data[::50] ^= 1
            write("b.safetensors", data)
            del data, rng
            round_trip()
            peak, done = 0, False
            def anonymous():
                text = open("/proc/self/status").read()
                return int(text.split("RssAnon:")[1].split()[0]) << 10
            def watch():
                global peak
                while not done:
                    peak = max(peak, anonymous())
                    time.sleep(0.005)
            before = anonymous()
            watcher = threading.Thread(target=watch)
            watcher.start()
            for arguments in (["diff", "a.safetensors", "b.safetensors", "-o", "d.ulp", "--threads", "2"],
                              ["apply", "a.safetensors", "d.ulp", "-o", "c.safetensors", "--threads", "2"]):
                try:
                    app(arguments, prog_name="ulpack")
                except SystemExit as end:
                    assert not end.code
            done = True
            watcher.join()
            assert open("b.safetensors", "rb").read() == open("c.safetensors", "rb").read()
            print((peak - before) >> 20)
        """
        last = run(code, cwd=tmp_path).splitlines()[-1]
        assert int(last) < 64 + 2 * 8


def test_names_of_the_package() -> None:
    """dir() shows what is public and nothing else, and shows it all without importing torch."""
    code = """
        assert dir(ulpack) == sorted(ulpack.__all__), dir(ulpack)
        assert "torch" not in sys.modules
    """
    assert run(code) == ""


def test_unusual_environments(tmp_path: Path) -> None:
    """A read-only temporary folder, no HOME, another working directory: nothing of it matters."""
    odd: dict[str, Any] = {"HOME": "", "TMPDIR": str(tmp_path / "none"), "LANG": "C", "GOMAXPROCS": "1"}
    assert run("print(round_trip())", cwd=tmp_path, **odd) == "native\n"
    assert os.listdir(tmp_path) == []

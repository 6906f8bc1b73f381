"""Long native calls: Ctrl-C ends them, progress is shown, the interpreter goes on meanwhile."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from .api import Options

LARGE = 4 << 20
"""Calls on less than this many bytes are over before anybody can interrupt them."""

_POLL = 0.05  # seconds


class Control:
    """The cancel flag and the progress counter that a native call shares with us."""

    def __init__(self) -> None:
        self.cancel = ctypes.c_int32(0)
        self.done = ctypes.c_uint64(0)


def run(call: Callable[[], Any], control: Control, total: int, options: Options, keep: Any = None) -> Any:
    """Make a native call and return its result code. ``keep`` owns memory that it uses.

    A native call does not see signals. In the main thread a large call therefore runs in a thread of its own while this
    one waits; an exception that a signal handler or the progress callback raises here sets the cancel flag, and is
    raised again as soon as the call has ended (the call still uses the caller's memory until then).
    """
    main = threading.current_thread() is threading.main_thread()
    if options.progress is None and (not main or total < LARGE):
        return call()
    worker = _Worker(call, (control, keep))
    try:
        worker.thread.start()
    except RuntimeError:  # no more threads, or the interpreter is shutting down
        return call()
    except BaseException:
        worker.go(False)
        raise
    pending: BaseException | None = None
    try:
        while True:
            try:
                worker.go(True)
                _wait(worker.done, control, total, options if pending is None else options._replace(progress=None))
                break
            except BaseException as error:  # Ctrl-C, mostly; the call must end before anybody hears of it
                pending = pending or error
                control.cancel.value = not options.uninterruptible
    finally:
        worker.go(False)
        worker.done.wait()
        close = getattr(options.progress, "close", None)  # a bar on a terminal has one
        if close is not None:
            close()
    if pending is not None:
        raise pending
    if worker.failure is not None:
        raise worker.failure
    return worker.result


def shielded(function: Callable[[], Any]) -> Any:
    """Run a function to its end whatever Ctrl-C says; what it interrupted is raised afterwards."""
    if threading.current_thread() is not threading.main_thread():
        return function()
    return run(function, Control(), LARGE, Options(uninterruptible=True))


class _Worker:
    """A thread that makes one call once it is told to. It owns the call, and so all memory that the call uses."""

    def __init__(self, call: Callable[[], Any], keep: Any) -> None:
        self.call = call
        self.keep = keep
        self.result: Any = None
        self.failure: BaseException | None = None
        # Not the thread's own join(): interrupted in there, CPython 3.10 to 3.12 takes the thread for finished.
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._work, name="ulpack", daemon=True)
        self._told = threading.Event()
        self._wanted = False

    def go(self, wanted: bool) -> None:
        """Start the call, or tell the thread that nobody waits for it; only the first time counts."""
        if not self._told.is_set():
            self._wanted = wanted
            self._told.set()

    def _work(self) -> None:
        try:
            self._told.wait()
            if self._wanted:
                self.result = self.call()
        except BaseException as error:
            self.failure = error
        finally:
            self.done.set()


def _wait(finished: threading.Event, control: Control, total: int, options: Options) -> None:
    shown = -1
    over = False
    while not over:
        over = finished.wait(_POLL)
        done = total if over else min(control.done.value, total)
        if options.progress is not None and control.cancel.value == 0 and done != shown:
            shown = done
            options.progress(done, total)

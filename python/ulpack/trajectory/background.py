"""Saves on a thread of their own: one at a time, so memory stays bounded; failures are reported, never lost."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import queue
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..errors import ArgumentError, StorageError, UlpackError, UlpackWarning
from .manifest import Manifest
from .records import StepInfo, step_info

_TRANSIENT = frozenset(
    getattr(errno, name)
    for name in ("EIO", "EAGAIN", "EBUSY", "EINTR", "ETIMEDOUT", "ESTALE", "ENOSPC", "EDQUOT")
    if hasattr(errno, name)
)
_PAUSE = 0.2  # seconds before the second try


class Saving:
    """A save that may still be going on.

    Attributes:
        step: what is saved.
        blocked: seconds that ``save`` kept its caller waiting: for the save before this one, and for the copy.
        copied: seconds of these that the copy took.
    """

    def __init__(self, step: int) -> None:
        self.step = step
        self.blocked = 0.0
        self.copied = 0.0
        self._info: StepInfo | None = None
        self._error: BaseException | None = None
        self._reported = False
        self._trouble: Exception | None = None
        self._finished = threading.Event()
        self._thread = 0  # that saves

    def done(self) -> bool:
        """Whether the save has ended, well or not."""
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> StepInfo:
        """Wait until the step is on disk.

        Args:
            timeout: seconds; None = as long as it takes.

        Raises:
            TimeoutError: it is not there yet.
            UlpackError: the save failed; the steps before it are there as before.
        """
        if not self._finished.wait(timeout):
            raise TimeoutError(f"step {self.step} is not saved yet")
        if self._error is not None:
            self._reported = True
            raise self._error
        assert self._info is not None
        return self._info

    @contextlib.contextmanager
    def trouble(self) -> Iterator[None]:
        """What fails in the block after the step is on disk is not a failed save; it is told at the next call."""
        try:
            yield
        except (UlpackError, OSError) as error:
            self._trouble = error

    def _finish(self, info: StepInfo | None, error: BaseException | None) -> None:
        self._info, self._error = info, error
        self._finished.set()

    def __repr__(self) -> str:
        state = "saving" if not self.done() else "failed" if self._error is not None else "saved"
        return f"<step {self.step}: {state}, blocked {self.blocked:.3f} s>"


class Worker:
    """Runs one save at a time, on a thread that waits for the next until ``stop``. A program ends after it."""

    def __init__(self, on_error: str) -> None:
        if on_error not in ("raise", "warn"):
            raise ArgumentError(f"on_error is {on_error!r}; it may be 'raise' or 'warn'")
        self.on_error = on_error
        self.pid = os.getpid()
        self._jobs: _Jobs | None = None
        self._current: Saving | None = None
        _workers.add(self)

    def start(self, saving: Saving, job: Callable[[], Manifest], background: bool) -> None:
        """Run a job whose memory is already a copy; in this thread unless ``background``."""
        self._current = saving
        if background and self._jobs is None:
            self._jobs = _thread()
            if self._jobs is not None:
                weakref.finalize(self, self._jobs.put, None)
        if not background or self._jobs is None:
            _run(saving, job)
        else:
            self._jobs.put((saving, job))

    def join(self) -> None:
        """Wait for the save that is going on, except on its own thread."""
        if self._current is not None and self.pid == os.getpid() and self._current._thread != threading.get_ident():
            self._current._finished.wait()

    def stop(self) -> None:
        """Let the thread end."""
        jobs, self._jobs = self._jobs, None
        if jobs is not None and self.pid == os.getpid():
            jobs.put(None)

    def report(self, *, warn: bool = False) -> None:
        """Raise, or warn of, the failure of the last save, once."""
        saving = self._current
        if saving is not None and not saving.done():
            return
        self._current = None
        if saving is not None and saving._trouble is not None:
            text = f"step {saving.step} was saved, but then something failed: {saving._trouble}"
            warnings.warn(text, UlpackWarning, stacklevel=4)
        if saving is None or saving._error is None or saving._reported:
            return
        saving._reported = True
        if not warn and (self.on_error == "raise" or not isinstance(saving._error, UlpackError)):
            raise saving._error
        warnings.warn(
            f"step {saving.step} was not saved: {saving._error}; the steps before it are there as before",
            UlpackWarning,
            stacklevel=4,
        )


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
_Jobs: TypeAlias = "queue.SimpleQueue[tuple[Saving, Callable[[], Manifest]] | None]"


def _thread() -> _Jobs | None:
    """A new thread that runs what is put into the queue, or None if the system gives no more threads."""
    jobs: _Jobs = queue.SimpleQueue()
    try:
        threading.Thread(target=_work, args=(jobs,), name="ulpack-save", daemon=True).start()
    except RuntimeError:
        return None
    return jobs


def _work(jobs: _Jobs) -> None:
    while (task := jobs.get()) is not None:
        _run(*task)
        del task  # and with it the memory of the state


def _run(saving: Saving, job: Callable[[], Manifest]) -> None:
    """Run a job, once more if the system may have recovered meanwhile."""
    saving._thread = threading.get_ident()
    for attempt in (0, 1):
        try:
            saving._finish(step_info(job()), None)
            return
        except StorageError as error:
            if attempt or error.errno not in _TRANSIENT:
                saving._finish(None, error)
                return
            time.sleep(_PAUSE)
        except BaseException as error:
            saving._finish(None, error)
            return


def _at_exit() -> None:
    """Nobody will ask any more: tell of a failure."""
    for worker in list(_workers):
        if worker.pid == os.getpid():
            with contextlib.suppress(Warning):  # warnings may be errors
                worker.join()
                worker.report(warn=True)


atexit.register(_at_exit)

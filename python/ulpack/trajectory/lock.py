"""One writer a store: a lock on a file, which the system gives back whatever happens to its holder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import weakref
from pathlib import Path

from ..errors import ForkError, StorageError, from_os

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl


_PATIENCE = 1.0  # seconds


class LockedError(StorageError):
    """Another process, or another object of this one, is writing to the store."""

    kind = "locked"


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class WriterLock:
    """The lock of a store, held from here until ``release``.

    A child after fork does not hold it, and its lock dies with the last process that has the file open: so the child
    closes its copy at once.

    Raises:
        LockedError: somebody else holds it; the message names process and host.
        StorageError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = os.getpid()
        self._fd = -1
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            raise from_os(error, os.fspath(path)) from error
        try:
            _wait_for(fd)
        except (BlockingIOError, PermissionError) as error:
            holder = _holder(fd)
            os.close(fd)
            locked = LockedError(f"the store is being written to by {holder}", path=os.fspath(path.parent))
            locked.errno = error.errno
            raise locked from None
        except OSError:  # a file system without locks: keeping to one writer is then up to the user
            pass
        self._fd = fd
        self._sign()
        _held.add(self)

    def _sign(self) -> None:
        """Say who holds the lock, for the messages of others."""
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record = {"pid": self.pid, "host": socket.gethostname(), "since": since}
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, json.dumps(record).encode() + b"\n")

    def __del__(self) -> None:
        self.release()

    def check(self) -> None:
        """Raise ForkError in a child after fork."""
        if os.getpid() != self.pid:
            raise ForkError(
                f"this trajectory is written to by the parent process {self.pid}; a child can only read",
                path=os.fspath(self.path.parent),
            )

    def release(self) -> None:
        """Give the lock back."""
        fd, self._fd = self._fd, -1
        if fd >= 0 and os.getpid() == self.pid:
            os.close(fd)

    def forget(self) -> None:
        """In a child after fork: close this process's copy, which leaves the parent's lock as it is."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1


def _wait_for(fd: int) -> None:
    """Take the lock; a process that is just ending gets a moment to do so."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            _take(fd)
            return
        except (BlockingIOError, PermissionError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _take(fd: int) -> None:
    if sys.platform == "win32":  # pragma: no cover
        os.lseek(fd, 1 << 30, os.SEEK_SET)  # far behind the text, which others must be able to read
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(fd: int) -> str:
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        record = json.loads(os.read(fd, 4096))
        who = "this process" if record["pid"] == os.getpid() else f"process {record['pid']}"
        return f"{who} on {record['host']} since {record['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _after_fork() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Files: written completely or not at all, read from a path, a file object or memory."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias

from ._backend.api import Stream
from ._buffers import view_bytes
from .errors import ArgumentError, UlpackError, from_os

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    _fcntl = None  # type: ignore[assignment]
fcntl: Any = _fcntl

PathOrFile: TypeAlias = "str | os.PathLike[str] | BinaryIO"

_BINARY = getattr(os, "O_BINARY", 0)
_SUFFIX = ".ulp-tmp"
_IN_MEMORY = 64 << 20


def label(path: Any) -> str | None:
    """The name of a file in error messages, or None if it has none."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    name = getattr(path, "name", None)
    return name if isinstance(name, str) else None


@contextlib.contextmanager
def output(path: PathOrFile) -> Iterator[int]:
    """An open descriptor to write a file to, from the start.

    When the block ends well, the file appears under ``path`` in one step, on disk; when it does not, nothing has
    changed. A file object gets the bytes at the end, in one go. The descriptor can be read, too.
    """
    if not isinstance(path, (str, os.PathLike)):
        if not hasattr(path, "write"):
            raise ArgumentError(f"path is a {type(path).__qualname__}, neither a path nor a binary file object")
        with tempfile.TemporaryFile() as spool:
            yield spool.fileno()
            spool.seek(0)
            _copy(spool, path)
        return
    target = os.path.realpath(os.fspath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        if os.path.isdir(target):
            raise from_os(IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)), os.fspath(path))
        try:
            with open(target, "wb", buffering=0) as special, output(special) as fd:  # a pipe, a device
                yield fd
        except OSError as error:
            raise error if isinstance(error, UlpackError) else from_os(error, os.fspath(path)) from error
        return
    try:
        fd, temporary = _create_beside(target)
    except OSError as error:
        raise from_os(error, os.fspath(path)) from error
    try:
        try:
            yield fd
            os.fsync(fd)
            with contextlib.suppress(OSError):  # an old file keeps its permissions
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            if os.name == "nt":  # pragma: no cover
                os.close(fd)
                fd = -1
            os.replace(temporary, target)
        finally:
            if fd >= 0:
                os.close(fd)
    except OSError as error:
        _remove(temporary)
        raise error if isinstance(error, UlpackError) else from_os(error, os.fspath(path)) from error
    except BaseException:
        _remove(temporary)
        raise
    sync_folder(os.path.dirname(target))


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _create_beside(target: str) -> tuple[int, str]:
    """A new temporary file in the folder of ``target``, locked while it is open."""
    folder, name = os.path.split(target)
    _clean(folder, name)
    while True:
        temporary = os.path.join(folder, f".{name[:180]}.{secrets.token_hex(6)}{_SUFFIX}")
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY | getattr(os, "O_CLOEXEC", 0), 0o666)
        if fcntl is None:  # pragma: no cover
            return fd, temporary
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink:
            return fd, temporary
        os.close(fd)  # somebody cleaned it up before it was locked


def _clean(folder: str, name: str) -> None:
    """Remove temporary files of this target that killed processes left behind: those that nobody has locked."""
    if fcntl is None:  # pragma: no cover
        return
    prefix = f".{name[:180]}."
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if not entry.name.startswith(prefix) or not entry.name.endswith(_SUFFIX):
                continue
            with contextlib.suppress(OSError):
                fd = os.open(entry.path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)
                finally:
                    os.close(fd)


def sync_folder(folder: str) -> None:
    """Make names in a folder durable, where the system can."""
    if os.name == "nt":  # pragma: no cover
        return
    with contextlib.suppress(OSError):
        fd = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def source(path: PathOrFile | bytes | bytearray | memoryview) -> Iterator[Stream]:
    """A whole file to read: by path, from a file object (from its position to its end), or in memory."""
    if isinstance(path, (bytes, bytearray, memoryview)):
        yield memory(path)
        return
    if isinstance(path, (str, os.PathLike)):
        try:
            fd = os.open(path, os.O_RDONLY | _BINARY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise from_os(error, os.fspath(path)) from error
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                yield Stream(fd=fd)
                return
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                raise from_os(IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)), os.fspath(path))
            with open(fd, "rb", closefd=False) as pipe, _spooled(pipe) as stream:
                yield stream
        finally:
            os.close(fd)
        return
    if not hasattr(path, "read"):
        raise ArgumentError(f"path is a {type(path).__qualname__}, neither a path nor a binary file object")
    with _spooled(path) as stream:
        yield stream


def memory(data: bytes | bytearray | memoryview) -> Stream:
    """A file in memory."""
    view = view_bytes(data)
    return Stream(-1, view.address, view.nbytes, (view.keep, data))


@contextlib.contextmanager
def _spooled(file: BinaryIO) -> Iterator[Stream]:
    """The rest of a file object: in memory, or in a temporary file once it gets large."""
    head: Any = file.read(_IN_MEMORY + 1)
    if isinstance(head, str):
        raise ArgumentError("the file object is in text mode; open it in binary mode")
    while len(head) <= _IN_MEMORY:
        more = file.read(_IN_MEMORY + 1 - len(head))
        if not more:
            yield memory(head)
            return
        head += more
    with tempfile.TemporaryFile() as spool:
        spool.write(head)
        del head
        shutil.copyfileobj(file, spool, 1 << 20)
        spool.flush()
        yield Stream(fd=spool.fileno())


def _copy(spool: IO[bytes], file: Any) -> None:
    """Write a spooled file to a file object, which may take less than it is given (raw files, pipes, sockets).

    Raises:
        StorageError: it takes nothing.
    """
    while block := spool.read(1 << 20):
        view = memoryview(block)
        while view:
            taken = file.write(view)
            if taken is None:  # the whole block for objects that do not count; a full pipe for those of the system
                if isinstance(file, io.RawIOBase):
                    raise from_os(BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), None)
                break
            if not 0 < taken <= len(view):
                raise from_os(OSError(errno.EIO, f"a write of {len(view)} bytes took {taken}"), None)
            view = view[taken:]


def is_path(obj: Any) -> bool:
    """Whether an argument names a file or folder."""
    return isinstance(obj, (str, os.PathLike))


def as_path(obj: str | os.PathLike[str]) -> Path:
    """A path as ``Path``."""
    return Path(os.fspath(obj))

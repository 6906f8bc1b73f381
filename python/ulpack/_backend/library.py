"""The native library: found, loaded at first use, and loaded again as a private copy in a child after fork().

The Go runtime inside the library does not survive fork(): calling the parent's copy in a child can hang. A copy under
another path is a new library with a runtime of its own, and works.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from ..errors import ForkError, UnsupportedError

ABI_VERSION = 1
_FILES = {"darwin": "libulpack.dylib", "win32": "ulpack.dll"}

_library: ctypes.CDLL | None = None
_stale = False  # this process is a child of one that had begun to load the library
_started = False  # loading has begun in this process
_lock = threading.Lock()


def path() -> Path:
    """Where the library belongs: beside the Python modules, or where ULPACK_LIBRARY says."""
    override = os.environ.get("ULPACK_LIBRARY")
    if override:
        return Path(override)
    return Path(__file__).resolve().parent.parent / _FILES.get(sys.platform, "libulpack.so")


def load() -> ctypes.CDLL:
    """The library, loaded if need be.

    Raises:
        UnsupportedError: there is no library, or it is not of this version.
        ForkError: a private copy is needed in this child and cannot be loaded.
    """
    library = _library
    return library if library is not None else _load()


def reload_after_fork() -> ctypes.CDLL:
    """A private copy, for a child whose fork() Python did not see; the library itself reported it."""
    _after_fork_in_child()
    return _load()


def _load() -> ctypes.CDLL:
    global _library, _started
    with _lock:
        if _library is None:
            file = path()
            if not file.is_file():
                raise UnsupportedError(
                    f"there is no native library at {file}: in a checkout scripts/build makes it; otherwise install "
                    "ulpack again, with Go and a C compiler at hand or from a wheel for this platform"
                )
            if _stale:
                library = _load_copy(file)
            else:
                _started = True
                try:
                    library = ctypes.CDLL(os.fspath(file))
                except OSError as error:
                    raise UnsupportedError(f"the native library does not load: {error}") from error
            _declare(library, file)
            _started = True
            _library = library
        return _library


def _after_fork_in_child() -> None:
    global _library, _lock, _stale, _started
    _stale = _stale or _started
    _library = None
    _started = False
    _lock = threading.Lock()  # another thread of the parent may have held the old one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _load_copy(file: Path) -> ctypes.CDLL:
    try:
        image = file.read_bytes()
    except OSError as error:
        raise ForkError(f"cannot read the native library again after fork(): {error}") from error
    failures = []
    for place in (_memory_copy, _disk_copy):
        try:
            with place(image) as name:
                return ctypes.CDLL(name)
        except (OSError, AttributeError) as error:
            failures.append(str(error))
    raise ForkError(
        "the native library does not survive fork(), and no private copy of it could be loaded in this child "
        f"({'; '.join(failures)}). Start the child by 'spawn' or 'forkserver', or set ULPACK_BACKEND=reference"
    )


@contextlib.contextmanager
def _memory_copy(image: bytes) -> Iterator[str]:
    fd = os.memfd_create("ulpack", os.MFD_CLOEXEC)
    try:
        _write_all(fd, image)
        # Not /proc/self/fd: the loader knows libraries by name, and would hand a grandchild its parent's dead copy.
        yield f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


@contextlib.contextmanager
def _disk_copy(image: bytes) -> Iterator[str]:
    fd, name = tempfile.mkstemp(prefix="ulpack-", suffix=".so")
    try:
        try:
            _write_all(fd, image)
        finally:
            os.close(fd)
        yield name
    finally:
        os.unlink(name)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Bytes(ctypes.Structure):
    """ulp_bytes"""

    _fields_ = (("data", ctypes.c_uint64), ("nbytes", ctypes.c_uint64))


class StreamStruct(ctypes.Structure):
    """ulp_stream"""

    _fields_ = (
        ("fd", ctypes.c_int64),
        ("data", ctypes.c_uint64),
        ("nbytes", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64),
    )


class OptionsStruct(ctypes.Structure):
    """ulp_options"""

    _fields_ = (
        ("threads", ctypes.c_uint64),
        ("cancel", ctypes.c_uint64),
        ("progress", ctypes.c_uint64),
        ("effort", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 3),
    )


class ErrorStruct(ctypes.Structure):
    """ulp_error"""

    _fields_ = (
        ("tensor", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("os_errno", ctypes.c_int64),
        ("message", ctypes.c_char * 488),
    )


def _declare(library: ctypes.CDLL, file: Path) -> None:
    """Argument types of every function, after a check that the library is of our version."""
    u64, i32, pointer, string = ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p
    length, error, stream = ctypes.POINTER(u64), ctypes.POINTER(ErrorStruct), ctypes.POINTER(StreamStruct)
    options = ctypes.POINTER(OptionsStruct)
    try:
        library.ulp_abi_version.restype = i32
        library.ulp_abi_version.argtypes = ()
        version = library.ulp_abi_version()
        if version != ABI_VERSION:
            raise UnsupportedError(f"{file} has ABI version {version}, this package needs {ABI_VERSION}")
        state = (Bytes, Bytes, Bytes)
        signatures: dict[str, tuple[type, tuple]] = {
            "ulp_forked": (i32, ()),
            "ulp_strerror": (string, (i32,)),
            "ulp_info": (i32, (pointer, u64, length, error)),
            "ulp_save_bound": (i32, (pointer, u64, pointer, u64, *state, length, error)),
            "ulp_save": (i32, (stream, pointer, u64, pointer, u64, *state, options, pointer, length, error)),
            "ulp_index": (i32, (stream, pointer, u64, length, error)),
            "ulp_load": (i32, (stream, pointer, u64, options, error)),
            "ulp_fingerprint": (i32, (pointer, pointer, u64, Bytes, length, error)),
            "ulp_free_memory": (i32, ()),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except AttributeError as missing:
        raise UnsupportedError(f"{file} is not a ulpack library: {missing}") from missing

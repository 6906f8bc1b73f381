"""Every error this package raises on purpose: one base class, one subclass a kind.

The kinds are those of the C library (``capi/ulpack.h``). An error knows the file, the tensor and the byte offset it is
about, as far as they are known; ``str()`` puts them in front of the message.
"""

from __future__ import annotations

from typing import Any


class UlpackWarning(UserWarning):
    """Something worth knowing that is not an error: a fallback, an empty optimizer state."""


class UlpackError(Exception):
    """Base class of all errors of this package.

    Attributes:
        message: what went wrong, without the place.
        kind: one word for the class of error ("corrupt", "reference", ...).
        tensor: name of the tensor concerned, or None.
        offset: byte offset in the file, or None.
        path: the file concerned, or None.
    """

    kind = "internal"

    def __init__(
        self,
        message: str = "",
        *,
        tensor: str | None = None,
        offset: int | None = None,
        path: str | None = None,
        index: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.tensor = tensor
        self.offset = offset
        self.path = path
        self.index = index  # position of the tensor in the call, until the caller knows its name

    def __str__(self) -> str:
        where = []
        if self.path is not None:
            where.append(self.path)
        if self.tensor is not None:
            where.append(f"tensor {self.tensor!r}")
        if self.offset is not None:
            where.append(f"byte {self.offset}")
        return f"{', '.join(where)}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions travel between processes (DataLoader workers, pools): keep the keyword attributes.
        return type(self), (self.message,), self.__dict__


class ArgumentError(UlpackError, ValueError):
    """The call itself is wrong: sizes that do not fit, an unknown option, a name the file does not have."""

    kind = "argument"


class CorruptError(UlpackError):
    """The file breaks a rule of the format, or a checksum does not hold."""

    kind = "corrupt"


class TruncatedError(CorruptError):
    """The file ends early."""

    kind = "truncated"


class WrongReferenceError(UlpackError):
    """A reference tensor is missing, or is not the one the file was made against."""

    kind = "reference"


class UnsupportedError(UlpackError):
    """A format version, plan or dtype this version does not know, or a machine it does not run on."""

    kind = "unsupported"


class UnsupportedTypeError(UnsupportedError, TypeError):
    """An object that a delta file cannot hold; the message names the place in the state. Raised before any write."""


class StorageError(UlpackError, OSError):
    """Reading or writing failed in the operating system; ``errno`` says why."""

    kind = "io"

    def __str__(self) -> str:
        return UlpackError.__str__(self)


class MissingFileError(StorageError, FileNotFoundError):
    """A file or folder that is not there."""


class FileExistsStorageError(StorageError, FileExistsError):
    """The output is already there and overwriting was not asked for."""


class SpaceError(UlpackError):
    """A caller's output buffer is too small."""

    kind = "space"


class CancelledError(UlpackError):
    """The call was cancelled."""

    kind = "cancelled"


class ForkError(UlpackError, RuntimeError):
    """The native library cannot be used in this forked child and nothing can take its place."""

    kind = "forked"


class LimitError(UlpackError):
    """A declared size is beyond the limits of the format or of this machine."""

    kind = "limit"


class InternalError(UlpackError, RuntimeError):
    """A bug in this package or its library."""

    kind = "internal"


CODES: dict[int, type[UlpackError]] = {
    -1: ArgumentError,
    -2: CorruptError,
    -3: TruncatedError,
    -4: WrongReferenceError,
    -5: UnsupportedError,
    -6: StorageError,
    -7: SpaceError,
    -8: CancelledError,
    -9: ForkError,
    -10: LimitError,
    -100: InternalError,
}
"""Error class for each result code of the C library."""


def from_code(
    code: int, message: str, *, index: int | None = None, offset: int | None = None, errno: int | None = None
) -> UlpackError:
    """The exception for a result code of the C library."""
    error = CODES.get(code, InternalError)(message or f"error code {code}", index=index, offset=offset)
    if isinstance(error, StorageError):
        error.errno = errno
    return error


def from_os(error: OSError, path: str | None = None) -> StorageError:
    """Wrap an OSError; the result is both an UlpackError and the matching OSError."""
    cls: type[StorageError] = StorageError
    if isinstance(error, FileNotFoundError):
        cls = MissingFileError
    elif isinstance(error, FileExistsError):
        cls = FileExistsStorageError
    wrapped = cls(error.strerror or str(error), path=path if path is not None else error.filename)
    wrapped.errno = error.errno
    return wrapped

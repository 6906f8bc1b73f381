"""What the public functions return beside tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .errors import UlpackError


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """One tensor of a save.

    Attributes:
        name: its name in the file.
        plan: how it was stored ("coded", "identical", "stored", "constant", ..).
        nbytes: bytes it takes in the file, without its entry in the index.
        raw_nbytes: bytes of its values.
        fingerprint: 64-bit fingerprint of its value (dtype, shape, bits).
        reference: name of the reference tensor it was given, or None.
        why_none: if there was none: "new", "reshaped", "retyped", or "no reference".
    """

    name: str
    plan: str
    nbytes: int
    raw_nbytes: int
    fingerprint: int
    reference: str | None
    why_none: str | None


@dataclass(frozen=True, slots=True)
class SaveInfo:
    """What a save did.

    Attributes:
        path: the file, or None for a file object without a name.
        nbytes: bytes of the file.
        raw_nbytes: bytes of all tensors' values, tied ones once.
        tensors: the tensors, in file order.
        missing: names of reference tensors that the state does not have.
        backend: which implementation wrote the file.
    """

    path: str | None
    nbytes: int
    raw_nbytes: int
    tensors: tuple[SavedTensor, ...] = field(repr=False)
    missing: tuple[str, ...]
    backend: str

    @property
    def ratio(self) -> float:
        """Raw bytes for each byte of the file."""
        return self.raw_nbytes / self.nbytes if self.nbytes else 0.0

    @property
    def without_reference(self) -> dict[str, str]:
        """Tensors stored without a reference although one was given for the state, and why."""
        return {t.name: t.why_none for t in self.tensors if t.why_none not in (None, "no reference")}

    @property
    def renamed(self) -> dict[str, str]:
        """Tensors whose reference has another name (matched through a wrapper's prefix), and that name."""
        return {t.name: t.reference for t in self.tensors if t.reference not in (None, t.name)}


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What could be read of a damaged file.

    Attributes:
        state: the nest with the good tensors. A dict entry whose tensor is bad is left out; elsewhere None is there.
        bad: the error for each bad tensor, by name.
    """

    state: Any
    bad: dict[str, UlpackError]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.state, self.bad))


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor in the index of a file.

    Attributes:
        name, dtype, shape: of the tensor; dtype as in "float32".
        raw_nbytes: bytes of its values.
        nbytes: bytes of its blob; ``offset`` is where in the file it begins.
        plan: how it is stored.
        fingerprint: of its value, 16 hex digits.
        reference: name of the reference tensor it needs, or None.
        reference_fingerprint: of the value of that tensor, or None.
        detail: parameters of the plan, for display, or None.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    raw_nbytes: int
    nbytes: int
    offset: int
    plan: str
    fingerprint: str
    reference: str | None
    reference_fingerprint: str | None
    detail: dict[str, Any] | None

    @property
    def elements(self) -> int:
        """Number of elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def bits_per_weight(self) -> float:
        """Bits of the blob for each element."""
        return 8 * self.nbytes / self.elements if self.elements else 0.0


@dataclass(frozen=True, slots=True)
class FileInfo:
    """The index of a file.

    Attributes:
        path: the file, or None.
        nbytes: its bytes.
        format_version: (major, minor) of the format.
        encoder_version, effort: of the encoder that wrote it.
        metadata: what the writer recorded; {} if nothing.
        kind: "state" for a saved state, "file" or "folder" for an image of checkpoint files.
        files: names of the files of the image.
        tensors: the tensors, in file order.
    """

    path: str | None
    nbytes: int
    format_version: tuple[int, int]
    encoder_version: int
    effort: int
    metadata: Any
    kind: str
    files: tuple[str, ...]
    tensors: tuple[TensorInfo, ...] = field(repr=False)

    @property
    def raw_nbytes(self) -> int:
        """Bytes of all tensors' values."""
        return sum(tensor.raw_nbytes for tensor in self.tensors)

    @property
    def needs_reference(self) -> bool:
        """Whether any tensor needs a reference."""
        return any(tensor.reference is not None for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification looked at.

    Attributes:
        path: the file, or None.
        decoded: names of the tensors that were decoded and compared with their fingerprints.
        unchecked: names of the tensors that need a reference which was not given: only their blobs were checked.
        bad: the error for each bad tensor, by name; where it is a ``WrongReferenceError``, what is stored is sound.
        different: names of the bad tensors whose reference was given, but with other values than the file needs.
    """

    path: str | None
    decoded: tuple[str, ...]
    unchecked: tuple[str, ...]
    bad: dict[str, UlpackError]
    different: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with what was checked."""
        return not self.bad


@dataclass(frozen=True, slots=True)
class ApplyInfo:
    """What an in-place apply changed.

    Attributes:
        written: names of the tensors that were written.
        added: names of tensors that the state did not have and that were put into it.
        removed: places in the state that the file does not have, and that were taken out.
    """

    written: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """Which implementation serves this process.

    Attributes:
        name: "native" or "reference".
        details: versions, kernels in use, CPU features.
    """

    name: str
    details: dict[str, Any]

    def __str__(self) -> str:
        return self.name

"""What a backend does: write a file, read its index, decode tensors. Everything above speaks only this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from .._buffers import View
from .._dtypes import Dtype

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all), a few times a second, in the thread that made the call."""

ALL = (1 << 64) - 1


class Options(NamedTuple):
    """Options of a call. threads 0 = as many as the machine has; effort 1, 2 or 3."""

    threads: int = 0
    effort: int = 2
    progress: Progress | None = None
    uninterruptible: bool = False  # finish the call before Ctrl-C is answered
    relate: bool = False  # a save may store tensors as they follow from others of the file


class Stream(NamedTuple):
    """Where a file is: an open descriptor, or memory that ``keep`` holds."""

    fd: int = -1
    address: int = 0
    nbytes: int = 0
    keep: Any = None


@dataclass(slots=True)
class Table:
    """Tensors to save, column by column; ``keep`` holds what owns the memory."""

    names: list[str] = field(default_factory=list)
    dtypes: list[Dtype] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    references: list[int] = field(default_factory=list)
    reference_names: list[str] = field(default_factory=list)
    has_reference: list[bool] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)

    def add(self, name: str, view: View, reference: View | None = None, reference_name: str = "") -> None:
        """Append a tensor; the reference has the same dtype and shape."""
        self.names.append(name)
        self.dtypes.append(view.dtype)
        self.shapes.append(view.shape)
        self.addresses.append(view.address)
        self.nbytes.append(view.nbytes)
        self.references.append(reference.address if reference else 0)
        self.reference_names.append(reference_name if reference and reference_name != name else "")
        self.has_reference.append(reference is not None)
        self.keep.append(view.keep)
        if reference is not None:
            self.keep.append(reference.keep)


@dataclass(slots=True)
class Items:
    """Tensors to load, column by column. After a load ``status`` and ``offsets`` say how each went."""

    tensors: list[int] = field(default_factory=list)
    references: list[int] = field(default_factory=list)
    reference_nbytes: list[int] = field(default_factory=list)
    outs: list[int] = field(default_factory=list)
    out_nbytes: list[int] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def add(
        self,
        tensor: int,
        nbytes: int,
        reference: View | None,
        out: int,
        keep: Any = None,
        first: int = 0,
        count: int = ALL,
    ) -> None:
        """Append a tensor, or a range of its elements that has ``nbytes`` bytes; out 0 = check only.

        With count 0 it only lends its reference to other tensors that need it (``needs`` in the index). The reference
        is always the whole tensor. Only the chunks that the range touches are read, of both.
        """
        self.tensors.append(tensor)
        self.nbytes.append(nbytes)
        self.references.append(reference.address if reference else 0)
        self.reference_nbytes.append(reference.nbytes if reference else 0)
        self.outs.append(out)
        self.out_nbytes.append(nbytes if out else 0)
        self.first.append(first)
        self.counts.append(count)
        self.keep.append((reference and reference.keep, keep))


class Saved(NamedTuple):
    """What a save wrote: bytes in all, and for each tensor plan code, bytes, fingerprint."""

    written: int
    plans: list[int]
    blob_nbytes: list[int]
    fingerprints: list[int]


class Backend(Protocol):
    """One implementation of the codec.

    Every method raises a subclass of ``UlpackError`` whose ``index`` is the position of the tensor in the call.
    """

    name: str

    def info(self) -> dict[str, Any]:
        """Versions and kernels, for display."""

    def save(self, fd: int, table: Table, structure: bytes, metadata: bytes, options: Options) -> Saved:
        """Write a file to a descriptor, from its current position."""

    def save_bytes(self, table: Table, structure: bytes, metadata: bytes, options: Options) -> bytes:
        """The same file in memory."""

    def index(self, stream: Stream) -> dict[str, Any]:
        """The index of a file (go/FORMAT.md, annex "Index as JSON")."""

    def load(self, stream: Stream, items: Items, options: Options, *, salvage: bool, verify_only: bool) -> None:
        """Decode tensors. With ``salvage`` damage is reported in ``items.status`` instead of raised."""

    def fingerprints(self, table: Table) -> list[int]:
        """Fingerprints of the values of a table's tensors."""

    def free_memory(self) -> None:
        """Return unused memory to the system."""

"""The delta format in NumPy: a second implementation of FORMAT.md, written from that document alone.

It writes the same bytes as the native library and reads the same files. Where no native library exists it is the
backend; in the tests it is the judge. Everything that decides bytes is computed in integers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError, LimitError, UlpackError
from .blob import encode_blob
from .decode import Role, Source, decode_blob, detail
from .directory import (
    MAJOR,
    MAX_DTYPE_NAME,
    MAX_ITEMSIZE,
    MAX_NBYTES,
    MAX_NDIM,
    MAX_TENSORS,
    Directory,
    Entry,
    File,
    read_file,
    write_file,
)
from .dtypes import DTYPES, NAMED, Layout, TensorLike, chunk_hashes, dtype_of, fingerprint_of
from .encode import encode_subject
from .plans import PLAN_NAMES, is_coded
from .related import relate as find_subjects
from .relations import Member
from .roles import OTHER_REFERENCE_ROLE, REFERENCE_ROLE, VALUE_ROLE, Slot, reference_fingerprints

__all__ = ["fingerprint", "index", "load", "save"]


class ItemLike(Protocol):
    """What to load: a tensor by its index, its whole reference, and a range of elements (``count`` None = the rest)."""

    @property
    def tensor(self) -> int: ...
    @property
    def ref(self) -> np.ndarray | None: ...
    @property
    def first(self) -> int: ...
    @property
    def count(self) -> int | None: ...


def save(
    tensors: Sequence[TensorLike],
    structure: bytes = b"",
    metadata: bytes = b"",
    effort: int = 2,
    *,
    relate: bool = False,
    encoder: int = 2,
) -> bytes:
    """The file that holds ``tensors``, as the canonical encoder writes it.

    Args:
        tensors: raw bytes and references; see ``TensorLike``.
        structure: the caller's nested state, not looked at.
        metadata: UTF-8 JSON or empty.
        effort: 1, 2 or 3; recorded, and without influence on the blobs of encoder version 1.
        relate: whether tensors may be coded as they follow from others of the file (version 2, efforts 2 and 3).
        encoder: version of the canonical encoder: 1 writes format 1.0, 2 writes 1.1.

    Raises:
        ArgumentError: sizes that do not fit, names that are not unique, an unknown dtype.
        LimitError: a size beyond the limits of the format.
    """
    if effort not in (1, 2, 3):
        raise ArgumentError(f"effort {effort} is not 1, 2 or 3")
    if len(tensors) > MAX_TENSORS:
        raise LimitError(f"{len(tensors)} tensors")
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise ArgumentError("two tensors have the same name")
    try:
        text = metadata.decode()
    except UnicodeDecodeError:
        raise ArgumentError("the metadata is not UTF-8") from None
    layouts = [_checked_layout(tensor, i) for i, tensor in enumerate(tensors)]
    entries = [
        Entry(tensor.name, layout, None if tensor.ref is None else tensor.ref_name or tensor.name)
        for tensor, layout in zip(tensors, layouts, strict=True)
    ]
    directory = Directory(encoder, effort, text, bytes(structure), entries)
    if encoder == 2:
        members = [Member(e.name, e.layout, t.data, t.ref) for e, t in zip(entries, tensors, strict=True)]
        subjects, order = find_subjects(members, effort == 1, relate)
        directory = directory._replace(minor=1, order=order)
        blobs = [encode_subject(subject) for subject in subjects]
    else:
        blobs = [encode_blob(e.layout, t.data, t.ref) for e, t in zip(entries, tensors, strict=True)]
    return write_file(directory, blobs)


def _checked_layout(tensor: TensorLike, i: int) -> Layout:
    """Dtype and shape of a tensor whose buffers fit them."""

    def fail(message: str, kind: type[UlpackError] = ArgumentError) -> UlpackError:
        return kind(message, tensor=tensor.name, index=i)

    code, itemsize = int(tensor.dtype), int(tensor.itemsize)
    if code != NAMED and code not in DTYPES:
        raise fail(f"dtype code {code} is reserved")
    if code == NAMED and not 1 <= itemsize <= MAX_ITEMSIZE:
        raise fail(f"an element of {itemsize} bytes")
    if code == NAMED and len(tensor.dtype_name.encode()) > MAX_DTYPE_NAME:
        raise fail("the dtype's name is too long")
    shape = tuple(int(dim) for dim in tensor.shape)
    if len(shape) > MAX_NDIM or any(dim < 0 for dim in shape):
        raise fail(f"a shape of {len(shape)} dimensions, or a negative one")
    layout = Layout(dtype_of(code, tensor.dtype_name, itemsize), shape)
    if layout.nbytes >= MAX_NBYTES:
        raise fail("a tensor of 2^60 bytes or more", LimitError)
    for what, buffer in (("data", tensor.data), ("reference", tensor.ref)):
        if buffer is not None and (buffer.dtype != np.uint8 or buffer.shape != (layout.nbytes,)):
            raise fail(f"the {what} does not have the {layout.nbytes} bytes of the shape")
    return layout


def fingerprint(tensor: TensorLike) -> int:
    """Fingerprint of a value: dtype, shape and bits.

    Raises:
        ArgumentError: sizes that do not fit.
    """
    layout = _checked_layout(tensor, 0)
    return fingerprint_of(layout, chunk_hashes(layout, tensor.data))


def index(data: bytes) -> dict[str, Any]:
    """The index of a file, in the layout of FORMAT.md's annex A. Checks everything but the blobs.

    Raises:
        CorruptError, TruncatedError, UnsupportedError, LimitError: see FORMAT.md section 13.
    """
    file = read_file(data)
    directory = file.directory
    references = reference_fingerprints([record.slots for record in file.records])
    return {
        "format": [MAJOR, directory.minor],
        "encoder": directory.encoder,
        "effort": directory.effort,
        "file_nbytes": len(file.data),
        "metadata": directory.metadata,
        "structure": base64.b64encode(directory.structure).decode(),
        "tensors": [_describe(file, i, references.get(i)) for i in range(len(file.records))],
    }


def _describe(file: File, i: int, needed: int | None) -> dict[str, Any]:
    entry, record = file.directory.entries[i], file.records[i]
    dtype = entry.layout.dtype
    reference = None if needed is None else {"name": entry.ref_name, "fingerprint": f"{needed:016x}"}
    out: dict[str, Any] = {
        "name": entry.name,
        "dtype": dtype.code,
        "dtype_name": dtype.name,
        "itemsize": dtype.itemsize,
        "shape": list(entry.layout.shape),
        "nbytes": entry.layout.nbytes,
        "plan": record.plan,
        "plan_name": PLAN_NAMES[record.plan],
        "offset": record.offset,
        "blob_nbytes": record.nbytes,
        "fingerprint": f"{record.fingerprint:016x}",
        "reference": reference,
        "detail": detail(_source(file, i, checked=False)) if is_coded(record.plan) else None,
    }
    if file.directory.minor:
        out["roles"] = [
            {
                "role": slot.role,
                "tensor": None if slot.role == REFERENCE_ROLE else slot.tensor,
                "fingerprint": f"{_fingerprint_of_role(file, slot):016x}",
            }
            for slot in record.slots
        ]
        out["needs"] = sorted(_needs(file, i))
    return out


def _fingerprint_of_role(file: File, slot: Slot) -> int:
    return file.records[slot.tensor].fingerprint if slot.role == VALUE_ROLE else slot.fingerprint


def _needs(file: File, i: int) -> set[int]:
    """The tensors whose references loading tensor i takes."""
    needs: set[int] = set()
    values = {i}
    open_values = [i]
    while open_values:
        current = open_values.pop()
        for slot in file.records[current].slots:
            if slot.role == REFERENCE_ROLE:
                needs.add(current)
            elif slot.role == OTHER_REFERENCE_ROLE:
                needs.add(slot.tensor)
            elif slot.tensor not in values:
                values.add(slot.tensor)
                open_values.append(slot.tensor)
    return needs


def _source(file: File, i: int, checked: bool) -> Source:
    record = file.records[i]
    blob = file.blob(i) if checked else file.data[record.offset : record.offset + record.nbytes]
    entries = file.directory.entries
    roles = [Role(s, entries[i if s.role == REFERENCE_ROLE else s.tensor].layout) for s in record.slots]
    return Source(entries[i].layout, record.plan, blob, record.fingerprint, roles, file.directory.minor)


def load(data: bytes, items: Iterable[ItemLike]) -> list[np.ndarray]:
    """The raw bytes (1-D uint8) of each item's range of elements.

    A tensor may be coded against other tensors of the file: their references have to be among the items (``needs`` in
    the index); an item with a count of 0 does for that.

    Raises:
        ArgumentError: a tensor or range that the file does not have.
        CorruptError, TruncatedError, WrongReferenceError, UnsupportedError, LimitError: see FORMAT.md section 13.
    """
    file = read_file(data)
    items = list(items)
    values = Values(file, items)
    out = []
    for item in items:
        if not 0 <= item.tensor < len(file.records):
            raise ArgumentError(f"the file has no tensor {item.tensor}")
        entry, record = file.directory.entries[item.tensor], file.records[item.tensor]
        total = entry.layout.elements
        count = total - item.first if item.count is None else item.count
        if not 0 <= item.first <= total or not 0 <= count <= total - item.first:
            raise ArgumentError("a range leaves the tensor", tensor=entry.name)
        try:
            if count == 0 and total > 0:  # it lends its reference
                out.append(np.empty(0, np.uint8))
                continue
            out.append(values.read(item.tensor, item.ref, item.first, count))
        except UlpackError as error:
            error.tensor = error.tensor or entry.name
            error.index = item.tensor
            if error.offset is None:
                error.offset = record.offset
            raise
    return out


class Values:
    """The tensors of a file, decoded from each other."""

    def __init__(self, file: File, items: Iterable[ItemLike]) -> None:
        self.file = file
        self.refs: dict[int, np.ndarray] = {}  # a reference of each tensor that has one
        for item in items:
            if item.ref is not None:
                self.refs.setdefault(item.tensor, item.ref)

    def read(self, i: int, ref: np.ndarray | None, first: int, count: int) -> np.ndarray:
        """The raw bytes of elements ``first .. first + count - 1`` of tensor i, given its reference."""
        source = _source(self.file, i, checked=True)
        data: list[np.ndarray | None] = []
        for role in source.roles:
            if role.slot.role == REFERENCE_ROLE:
                data.append(ref)
            elif role.slot.role == VALUE_ROLE:
                data.append(self._chunks_of(role.slot.tensor, first, count))
            else:
                data.append(self.refs.get(role.slot.tensor))
        return decode_blob(source, data, first, count)

    def _chunks_of(self, i: int, first: int, count: int) -> np.ndarray:
        """The raw bytes of tensor i, of which only the chunks of a range are decoded."""
        layout = self.file.directory.entries[i].layout
        size = layout.dtype.chunk
        begin, end = first // size * size, min(-(-(first + count) // size) * size, layout.elements)
        out = np.zeros(layout.nbytes, np.uint8)
        itemsize = layout.dtype.itemsize
        if begin < end:
            out[begin * itemsize : end * itemsize] = self.read(i, self.refs.get(i), begin, end - begin)
        return out

"""The NumPy backend: slow, but it runs wherever Python does (``ulpack.reference``)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import reference
from .._buffers import array_at
from ..errors import CODES, InternalError, LimitError, UlpackError, from_os
from .api import ALL, Items, Options, Saved, Stream, Table

_CODES = {cls: code for code, cls in CODES.items()}


@dataclass(slots=True)
class _Tensor:
    name: str
    dtype: int
    dtype_name: str
    itemsize: int
    shape: tuple[int, ...]
    data: np.ndarray
    ref: np.ndarray | None
    ref_name: str


@dataclass(slots=True)
class _Item:
    tensor: int
    ref: np.ndarray | None
    first: int = 0
    count: int | None = None


class ReferenceBackend:
    """Calls the NumPy implementation on the same memory."""

    name = "reference"

    def info(self) -> dict[str, Any]:
        return {"implementation": "NumPy", "numpy": np.__version__}

    def save(self, fd: int, table: Table, structure: bytes, metadata: bytes, options: Options) -> Saved:
        data = self.save_bytes(table, structure, metadata, options)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as error:
            raise from_os(error) from error
        tensors = reference.index(data)["tensors"]
        return Saved(
            len(data),
            [t["plan"] for t in tensors],
            [t["blob_nbytes"] for t in tensors],
            [int(t["fingerprint"], 16) for t in tensors],
        )

    def save_bytes(self, table: Table, structure: bytes, metadata: bytes, options: Options) -> bytes:
        data = reference.save(_tensors(table), structure, metadata, options.effort, relate=options.relate)
        if options.progress is not None:
            options.progress(sum(table.nbytes), sum(table.nbytes))
        return data

    def index(self, stream: Stream) -> dict[str, Any]:
        return reference.index(_read(stream))

    def load(self, stream: Stream, items: Items, options: Options, *, salvage: bool, verify_only: bool) -> None:
        data = _read(stream)
        items.status, items.offsets = [0] * len(items.tensors), [-1] * len(items.tensors)
        wanted = [
            _Item(tensor, array_at(address, nbytes) if address else None, first, None if count == ALL else count)
            for tensor, address, nbytes, first, count in zip(
                items.tensors, items.references, items.reference_nbytes, items.first, items.counts, strict=True
            )
        ]
        try:
            decoded = _load(data, wanted)
        except UlpackError:
            if not salvage:
                raise
            decoded = []
            lent = [replace(item, first=0, count=0) for item in wanted]
            for number, item in enumerate(wanted):
                try:
                    decoded.append(_load(data, [item, *lent])[0])
                except UlpackError as error:
                    decoded.append(None)
                    items.status[number] = _CODES.get(type(error), _CODES[InternalError])
                    items.offsets[number] = -1 if error.offset is None else error.offset
        for value, address, nbytes in zip(decoded, items.outs, items.nbytes, strict=True):
            if value is not None and address and not verify_only:
                array_at(address, nbytes)[:] = value
        if options.progress is not None:
            options.progress(sum(items.nbytes), sum(items.nbytes))

    def fingerprints(self, table: Table) -> list[int]:
        return [reference.fingerprint(tensor) for tensor in _tensors(table)]

    def free_memory(self) -> None:
        """Nothing is kept."""


def _load(data: bytes, items: list[_Item]) -> list[np.ndarray | None]:
    try:
        return list(reference.load(data, items))
    except MemoryError as error:
        raise LimitError("the tensors do not fit in memory") from error


def _tensors(table: Table) -> list[_Tensor]:
    return [
        _Tensor(
            name,
            dtype.code,
            dtype.name,
            dtype.itemsize,
            shape,
            array_at(address, nbytes),
            array_at(ref, nbytes) if has_ref else None,
            ref_name,
        )
        for name, dtype, shape, address, nbytes, ref, has_ref, ref_name in zip(
            table.names,
            table.dtypes,
            table.shapes,
            table.addresses,
            table.nbytes,
            table.references,
            table.has_reference,
            table.reference_names,
            strict=True,
        )
    ]


def _read(stream: Stream) -> bytes:
    if stream.fd < 0:
        return array_at(stream.address, stream.nbytes).tobytes()
    try:
        parts: list[bytes] = []
        position = 0
        while True:
            part = os.pread(stream.fd, 1 << 24, position)
            if not part:
                return b"".join(parts)
            parts.append(part)
            position += len(part)
    except OSError as error:
        raise from_os(error) from error

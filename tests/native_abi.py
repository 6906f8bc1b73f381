"""The C ABI (capi/ulpack.h) for raw tensors: what the tests of the format compare ``ulpack.reference`` with."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from raw_tensors import Item, Tensor
from ulpack._backend import library
from ulpack._backend.library import Bytes, ErrorStruct, OptionsStruct, StreamStruct
from ulpack.errors import from_code

ALL = (1 << 64) - 1
RELATE = 4  # ULP_F_RELATE
TENSOR_FIELDS, SAVED_FIELDS, ITEM_FIELDS = 16, 4, 12


def address(array: np.ndarray | None) -> int:
    return 0 if array is None else array.ctypes.data


def check(rc: int, error: ErrorStruct) -> None:
    """Raise the error of a result code."""
    if rc:
        raise from_code(rc, error.message.decode(), index=error.tensor, offset=error.offset)


class Columns:
    """Tensors as the structs and blocks of the ABI."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        names = bytearray()

        def put(text: str) -> tuple[int, int]:
            data = text.encode()
            names.extend(data)
            return len(names) - len(data), len(data)

        rows, dims = [], []
        for t in tensors:
            named = put(t.dtype_name) if t.dtype == 0 else (0, 0)
            texts = *put(t.name), *put(t.ref_name), t.dtype, *named
            rows.append((address(t.data), t.data.size, address(t.ref), 0, *texts, t.itemsize, len(t.shape), len(dims)))
            dims += t.shape
        self.keep = list(tensors)
        self.tensors = np.zeros((len(rows), TENSOR_FIELDS), np.uint64)
        if rows:
            self.tensors[:, : len(rows[0])] = rows
        self.dims = np.array(dims, np.uint64)
        self.names = Block(bytes(names))

    def arguments(self) -> tuple[int, int, int, int]:
        return address(self.tensors), len(self.tensors), address(self.dims), self.dims.size


class Block:
    """Bytes as ulp_bytes."""

    def __init__(self, data: bytes) -> None:
        self.array = np.frombuffer(data, np.uint8)
        self.struct = Bytes(address(self.array) if data else 0, len(data))


def save(
    tensors: Sequence[Tensor],
    structure: bytes = b"",
    metadata: bytes = b"",
    effort: int = 2,
    threads: int = 1,
    relate: bool = False,
) -> bytes:
    """ulp_save to memory."""
    lib, error = library.load(), ErrorStruct(-1, -1, 0)
    columns = Columns(tensors)
    blocks = (columns.names, Block(structure), Block(metadata))
    structs = [block.struct for block in blocks]
    bound, written = ctypes.c_uint64(), ctypes.c_uint64()
    check(lib.ulp_save_bound(*columns.arguments(), *structs, ctypes.byref(bound), ctypes.byref(error)), error)
    out = np.empty(bound.value, np.uint8)
    stream = StreamStruct(-1, address(out), out.size, 0)
    options = OptionsStruct(threads, 0, 0, effort, RELATE * relate)
    saved = np.zeros((len(tensors), SAVED_FIELDS), np.uint64)
    rc = lib.ulp_save(
        ctypes.byref(stream),
        *columns.arguments(),
        *structs,
        ctypes.byref(options),
        address(saved),
        ctypes.byref(written),
        ctypes.byref(error),
    )
    check(rc, error)
    return out[: written.value].tobytes()


def index(data: bytes) -> dict[str, Any]:
    """ulp_index from memory."""
    lib, error = library.load(), ErrorStruct(-1, -1, 0)
    array = np.frombuffer(data, np.uint8)
    stream = StreamStruct(-1, address(array), array.size, 0)
    needed = ctypes.c_uint64(1 << 16)
    while True:
        text = np.empty(needed.value, np.uint8)
        rc = lib.ulp_index(ctypes.byref(stream), address(text), text.size, ctypes.byref(needed), ctypes.byref(error))
        if needed.value > text.size:
            continue
        check(rc, error)
        return json.loads(text[: needed.value].tobytes())


def load(data: bytes, items: Sequence[Item], threads: int = 1) -> list[np.ndarray]:
    """ulp_load from memory."""
    described = index(data)["tensors"]
    lib, error = library.load(), ErrorStruct(-1, -1, 0)
    array = np.frombuffer(data, np.uint8)
    stream = StreamStruct(-1, address(array), array.size, 0)
    options = OptionsStruct(threads, 0, 0, 2, 0)
    rows, outs = [], []
    for item in items:
        size = described[item.tensor]["itemsize"] if item.tensor < len(described) else 1
        total = int(np.prod(described[item.tensor]["shape"], dtype=object)) if item.tensor < len(described) else 0
        count = total - item.first if item.count is None else item.count
        outs.append(np.empty(count * size, np.uint8))
        refs = (address(item.ref), 0 if item.ref is None else item.ref.size)
        rows.append((item.tensor, *refs, address(outs[-1]), outs[-1].size, item.first, count, 0, 0, 0, 0, 0))
    table = np.array(rows, np.uint64).reshape(-1, ITEM_FIELDS)
    rc = lib.ulp_load(ctypes.byref(stream), address(table), len(rows), ctypes.byref(options), ctypes.byref(error))
    check(rc, error)
    return outs


def fingerprint(tensor: Tensor) -> int:
    """ulp_fingerprint."""
    lib, error = library.load(), ErrorStruct(-1, -1, 0)
    columns = Columns([tensor])
    value = ctypes.c_uint64()
    first, _, dims, ndims = columns.arguments()
    rc = lib.ulp_fingerprint(first, dims, ndims, columns.names.struct, ctypes.byref(value), ctypes.byref(error))
    check(rc, error)
    return value.value

"""The native backend: our columns as the structs of ``capi/ulpack.h``."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import CODES, ForkError, LimitError, from_code
from . import library
from .api import Items, Options, Saved, Stream, Table
from .library import Bytes, ErrorStruct, OptionsStruct, StreamStruct
from .run import Control, run

_FORKED = next(code for code, cls in CODES.items() if cls is ForkError)
_SPACE = -7
_SALVAGE, _VERIFY_ONLY, _RELATE = 1, 2, 4

_TENSOR = np.dtype(
    [
        (name, "<u8")
        for name in (
            *("data", "nbytes", "ref", "ref2", "name_off", "name_len", "ref_name_off", "ref_name_len", "dtype"),
            *("dtype_off", "dtype_len", "itemsize", "ndim", "shape_off", "flags", "reserved"),
        )
    ]
)
_SAVED = np.dtype([(name, "<u8") for name in ("plan", "nbytes", "fingerprint", "detail")])
_ITEM = np.dtype(
    [(name, "<u8") for name in ("tensor", "ref", "ref_nbytes", "out", "out_nbytes", "first", "count")]
    + [("status", "<i8"), ("offset", "<i8"), ("fingerprint", "<u8"), ("reserved0", "<u8"), ("reserved1", "<u8")]
)
assert (_TENSOR.itemsize, _SAVED.itemsize, _ITEM.itemsize) == (128, 32, 96)


class NativeBackend:
    """Calls libulpack."""

    name = "native"

    def info(self) -> dict[str, Any]:
        return self._json(lambda lib, *rest: lib.ulp_info(*rest))

    def save(self, fd: int, table: Table, structure: bytes, metadata: bytes, options: Options) -> Saved:
        return self._save(StreamStruct(fd, 0, 0, 0), _Columns(table), structure, metadata, sum(table.nbytes), options)

    def save_bytes(self, table: Table, structure: bytes, metadata: bytes, options: Options) -> bytes:
        columns = _Columns(table)
        bound = ctypes.c_uint64()
        blocks = (columns.names, _Block(structure), _Block(metadata))

        def call(lib: Any, error: Any) -> int:
            return lib.ulp_save_bound(*columns.arguments(), *(b.struct for b in blocks), ctypes.byref(bound), error)

        _check(call)
        buffer = np.empty(bound.value, np.uint8)
        stream = StreamStruct(-1, buffer.__array_interface__["data"][0], buffer.nbytes, 0)
        saved = self._save(stream, columns, structure, metadata, sum(table.nbytes), options)
        return buffer[: saved.written].tobytes()

    def _save(
        self, stream: StreamStruct, columns: _Columns, structure: bytes, metadata: bytes, total: int, options: Options
    ) -> Saved:
        control, written = Control(), ctypes.c_uint64()
        saved = np.zeros(len(columns.tensors), _SAVED)
        blocks = (columns.names, _Block(structure), _Block(metadata))
        opt = _options(options, control, _RELATE * options.relate)

        def call(lib: Any, error: Any) -> int:
            return lib.ulp_save(
                ctypes.byref(stream),
                *columns.arguments(),
                *(block.struct for block in blocks),
                ctypes.byref(opt),
                _address(saved),
                ctypes.byref(written),
                error,
            )

        _check(call, control, total, options)
        return Saved(written.value, saved["plan"].tolist(), saved["nbytes"].tolist(), saved["fingerprint"].tolist())

    def index(self, stream: Stream) -> dict[str, Any]:
        struct = _stream(stream)
        return self._json(lambda lib, *rest: lib.ulp_index(ctypes.byref(struct), *rest))

    def _json(self, function: Callable[..., int]) -> dict[str, Any]:
        needed = ctypes.c_uint64(0)
        capacity = 4 << 20  # untouched pages cost nothing, a second call does
        while True:
            buffer = np.empty(capacity, np.uint8)

            def call(lib: Any, error: Any, buffer: np.ndarray = buffer) -> int:
                rc = function(lib, _address(buffer), buffer.nbytes, ctypes.byref(needed), error)
                return 0 if rc == _SPACE else rc

            needed.value = 0
            _check(call)
            if needed.value <= capacity:
                return json.loads(buffer[: needed.value].tobytes())
            if needed.value > 1 << 40:
                raise LimitError("the index of the file does not fit in memory")
            capacity = needed.value

    def load(self, stream: Stream, items: Items, options: Options, *, salvage: bool, verify_only: bool) -> None:
        struct, control = _stream(stream), Control()
        array = np.zeros(len(items.tensors), _ITEM)
        array["tensor"] = items.tensors
        array["ref"] = _u64(items.references)
        array["ref_nbytes"] = _u64(items.reference_nbytes)
        array["out"] = _u64(items.outs)
        array["out_nbytes"] = _u64(items.out_nbytes)
        array["first"] = _u64(items.first)
        array["count"] = _u64(items.counts)
        array["offset"] = -1
        opt = _options(options, control, _SALVAGE * salvage | _VERIFY_ONLY * verify_only)

        def call(lib: Any, error: Any) -> int:
            return lib.ulp_load(ctypes.byref(struct), _address(array), len(array), ctypes.byref(opt), error)

        try:
            _check(call, control, sum(items.nbytes), options, (items, stream))
        finally:
            items.status = array["status"].tolist()
            items.offsets = array["offset"].tolist()

    def fingerprints(self, table: Table) -> list[int]:
        columns, result = _Columns(table), []
        value = ctypes.c_uint64()
        for index in range(len(table.names)):
            one = _address(columns.tensors) + index * _TENSOR.itemsize

            def call(lib: Any, error: Any, one: int = one) -> int:
                dims = (_address(columns.dims), len(columns.dims))
                return lib.ulp_fingerprint(one, *dims, columns.names.struct, ctypes.byref(value), error)

            _check(call)
            result.append(value.value)
        return result

    def free_memory(self) -> None:
        library.load().ulp_free_memory()


class _Block:
    """A bytes object as ulp_bytes; holds it."""

    def __init__(self, data: bytes) -> None:
        self.keep = np.frombuffer(data, np.uint8) if data else None
        self.struct = Bytes(_address(self.keep) if self.keep is not None else 0, len(data))


class _Columns:
    """A table as an array of ulp_tensor, with its dims and names."""

    def __init__(self, table: Table) -> None:
        count = len(table.names)
        self.tensors = np.zeros(count, _TENSOR)
        self.table = table  # holds the memory
        texts = [name.encode() for name in table.names]
        reference_texts = [name.encode() for name in table.reference_names]
        # Names of dtypes without a code; a file has few different ones.
        named: dict[str, int] = {}
        start = sum(map(len, texts)) + sum(map(len, reference_texts))
        for dtype in table.dtypes:
            if dtype.code == 0 and dtype.name not in named:
                named[dtype.name] = start
                start += len(dtype.name.encode())
        self.names = _Block(b"".join(texts) + b"".join(reference_texts) + b"".join(n.encode() for n in named))
        lengths = np.fromiter(map(len, texts), np.uint64, count)
        reference_lengths = np.fromiter(map(len, reference_texts), np.uint64, count)
        ndims = np.fromiter(map(len, table.shapes), np.uint64, count)
        self.dims = np.array([dim for shape in table.shapes for dim in shape], np.uint64)
        t = self.tensors
        t["data"] = _u64(table.addresses)
        t["nbytes"] = _u64(table.nbytes)
        t["ref"] = _u64(table.references)
        t["name_len"] = lengths
        t["name_off"] = _starts(lengths, 0)
        t["ref_name_len"] = reference_lengths
        t["ref_name_off"] = _starts(reference_lengths, int(lengths.sum()))
        t["dtype"] = [dtype.code for dtype in table.dtypes]
        t["itemsize"] = [dtype.itemsize for dtype in table.dtypes]
        if named:
            t["dtype_off"] = [named[d.name] if d.code == 0 else 0 for d in table.dtypes]
            t["dtype_len"] = [len(d.name.encode()) if d.code == 0 else 0 for d in table.dtypes]
        t["ndim"] = ndims
        t["shape_off"] = _starts(ndims, 0)

    def arguments(self) -> tuple[int, int, int, int]:
        return _address(self.tensors), len(self.tensors), _address(self.dims), len(self.dims)


def _u64(values: list[int]) -> np.ndarray:
    return np.fromiter(values, np.uint64, len(values))


def _starts(lengths: np.ndarray, first: int) -> np.ndarray:
    ends = np.cumsum(lengths, dtype=np.uint64)
    return ends - lengths + np.uint64(first)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0] if array.size else 0


def _stream(stream: Stream) -> StreamStruct:
    return StreamStruct(stream.fd, stream.address, stream.nbytes, 0)


def _options(options: Options, control: Control, flags: int) -> OptionsStruct:
    return OptionsStruct(
        options.threads,
        ctypes.addressof(control.cancel),
        ctypes.addressof(control.done),
        options.effort,
        flags,
    )


def _check(
    call: Callable[[Any, Any], int],
    control: Control | None = None,
    total: int = 0,
    options: Options | None = None,
    keep: Any = None,
) -> None:
    """Make a call and raise what its result code means; after a fork() that Python did not see, once more.

    ``keep`` owns memory that the call uses and that ``call`` itself does not hold.
    """
    lib = library.load()
    for attempt in (0, 1):
        error = ErrorStruct(-1, -1, 0)
        reference = ctypes.byref(error)
        current = lib

        def made(current: Any = current, reference: Any = reference) -> int:
            return call(current, reference)

        rc = made() if control is None or options is None else run(made, control, total, options, keep)
        if rc == _FORKED and attempt == 0:
            lib = library.reload_after_fork()
            continue
        if rc != 0:
            message = error.message.decode("utf-8", "replace")
            raise from_code(
                rc,
                message or lib.ulp_strerror(rc).decode(),
                index=error.tensor if error.tensor >= 0 else None,
                offset=error.offset if error.offset >= 0 else None,
                errno=error.os_errno or None,
            )
        return

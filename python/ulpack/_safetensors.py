"""safetensors files: mapped, checked, and their headers written again byte for byte."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from . import _dtypes
from ._buffers import View
from ._dtypes import Dtype
from .errors import CorruptError, TruncatedError, from_os

_HEADER_LIMIT = 100_000_000


class Entry(NamedTuple):
    """One tensor of a safetensors file; begin and end are bytes of the file."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def map_file(path: str | os.PathLike[str]) -> np.ndarray:
    """A file as a read-only array of bytes, mapped into memory."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return np.empty(0, np.uint8)
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise from_os(error, os.fspath(path)) from error


class SafetensorsFile:
    """A mapped safetensors file.

    Attributes:
        data: the whole file as bytes.
        header: its first bytes up to the tensors: the length, the JSON and its padding.
        metadata: the "__metadata__" of the header, or None.
        entries: the tensors, in the order of the header.

    Raises:
        CorruptError: the header breaks the rules of the format (holes and overlaps included).
        TruncatedError: the file is shorter than its header says.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.data = map_file(path)
        try:
            self._read()
        except CorruptError as error:
            error.path = self.path
            raise

    def _read(self) -> None:
        if self.data.nbytes < 8:
            raise TruncatedError("the file is too short to be a safetensors file")
        length = int.from_bytes(self.data[:8].tobytes(), "little")
        if length > _HEADER_LIMIT:
            raise CorruptError("not a safetensors file: it declares a header of more than 100 MB")
        if 8 + length > self.data.nbytes:
            raise TruncatedError("the file ends within its header")
        self.header = self.data[: 8 + length].tobytes()
        try:
            fields = json.loads(self.header[8:].decode(), object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise CorruptError(f"the header is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise CorruptError("the header is not a JSON object")
        self.metadata: dict[str, str] | None = fields.pop("__metadata__", None)
        self.entries = [self._entry(name, field, 8 + length) for name, field in fields.items()]
        position = 8 + length
        for entry in self.in_file_order():
            if entry.begin != position:
                raise CorruptError(f"tensor {entry.name!r} leaves a hole or overlaps another")
            position = entry.end
        if position > self.data.nbytes:
            raise TruncatedError("the file ends within its tensors")
        if position < self.data.nbytes:
            raise CorruptError("the file goes on after its last tensor")

    def _entry(self, name: str, field: Any, start: int) -> Entry:
        try:
            name.encode()
            text, shape, (begin, end) = field["dtype"], tuple(field["shape"]), field["data_offsets"]
            if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)) or begin > end:
                raise ValueError
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptError(f"the header has no proper entry for tensor {name!r}") from error
        dtype, nbytes = _dtypes.from_safetensors(text), end - begin
        if dtype is None:  # a dtype we have no code for: its bytes
            return Entry(name, Dtype(_dtypes.NAMED, f"safetensors:{text}", 1), (nbytes,), start + begin, start + end)
        if text == "F4" and shape:  # counts values, of which two share a byte
            shape = (*shape[:-1], (shape[-1] + 1) // 2)
        count = dtype.itemsize
        for dim in shape:
            count *= dim
        if count != nbytes:
            raise CorruptError(f"tensor {name!r} has {nbytes} bytes, its shape needs {count}")
        return Entry(name, dtype, shape, start + begin, start + end)

    def in_file_order(self) -> list[Entry]:
        """The tensors in the order of their bytes."""
        return sorted(self.entries, key=lambda entry: (entry.begin, entry.end))

    def view(self, entry: Entry) -> View:
        """Memory of a tensor, within the mapping."""
        base = self.data.__array_interface__["data"][0]
        return View(base + entry.begin, entry.end - entry.begin, entry.dtype, entry.shape, self.data)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def canonical_header(
    metadata: dict[str, str] | None, tensors: Iterable[tuple[str, Dtype, tuple[int, ...]]]
) -> bytes | None:
    """A header as the safetensors library spells it (go/FORMAT.md, "Image of files").

    None if a dtype has no name there.

    ``tensors`` are (name, dtype, shape) in the order of their bytes.
    """
    fields: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    position = 0
    for name, dtype, shape in tensors:
        text = _dtypes.to_safetensors(dtype)
        if text is None or text == "F4":
            return None
        nbytes = dtype.itemsize
        for dim in shape:
            nbytes *= dim
        fields[name] = {"dtype": text, "shape": list(shape), "data_offsets": [position, position + nbytes]}
        position += nbytes
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    body += b" " * (-len(body) % 8)
    return len(body).to_bytes(8, "little") + body

"""Dtypes, chunks and fingerprints (FORMAT.md sections 2 and 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..errors import UnsupportedError
from .wire import h64, u64, varint

NAMED = 0
CHUNK = 1 << 18


class Dtype(NamedTuple):
    """An element is ``components`` lane values of ``bits`` bits; ``mantissa`` is 0 for integer lanes."""

    code: int
    name: str
    itemsize: int
    components: int
    bits: int
    mantissa: int

    @property
    def is_float(self) -> bool:
        return self.mantissa > 0

    @property
    def exponent_bits(self) -> int:
        return self.bits - 1 - self.mantissa

    @property
    def lane(self) -> np.dtype:
        """NumPy dtype of a lane value as it lies in memory: unsigned, little-endian."""
        return np.dtype(f"<u{self.bits // 8}")

    @property
    def chunk(self) -> int:
        """Elements in a chunk."""
        return max(1, CHUNK // self.itemsize) if self.code == NAMED else CHUNK


def _table() -> dict[int, Dtype]:
    rows = {
        1: ("bfloat16", 1, 16, 7),
        2: ("float16", 1, 16, 10),
        3: ("float32", 1, 32, 23),
        4: ("float64", 1, 64, 52),
        5: ("float8_e4m3fn", 1, 8, 3),
        6: ("float8_e5m2", 1, 8, 2),
        7: ("float8_e4m3fnuz", 1, 8, 3),
        8: ("float8_e5m2fnuz", 1, 8, 2),
        16: ("uint8", 1, 8, 0),
        17: ("int8", 1, 8, 0),
        18: ("uint16", 1, 16, 0),
        19: ("int16", 1, 16, 0),
        20: ("uint32", 1, 32, 0),
        21: ("int32", 1, 32, 0),
        22: ("uint64", 1, 64, 0),
        23: ("int64", 1, 64, 0),
        24: ("bool", 1, 8, 0),
        25: ("complex32", 2, 16, 10),
        26: ("complex64", 2, 32, 23),
        27: ("complex128", 2, 64, 52),
        28: ("float8_e8m0fnu", 1, 8, 0),
        29: ("float4_e2m1fn_x2", 1, 8, 0),
    }
    return {
        code: Dtype(code, name, components * bits // 8, components, bits, mantissa)
        for code, (name, components, bits, mantissa) in rows.items()
    }


DTYPES = _table()


def dtype_of(code: int, name: str = "", itemsize: int = 0) -> Dtype:
    """The dtype of a code; name and element size matter for code 0 only.

    Raises:
        UnsupportedError: a reserved code.
    """
    if code == NAMED:
        return Dtype(NAMED, name, itemsize, itemsize, 8, 0)
    if code not in DTYPES:
        raise UnsupportedError(f"dtype code {code} is reserved")
    return DTYPES[code]


class TensorLike(Protocol):
    """What ``save`` and ``fingerprint`` take: raw bytes of a C-contiguous little-endian value and of its reference."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> int: ...
    @property
    def dtype_name(self) -> str: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def data(self) -> np.ndarray: ...
    @property
    def ref(self) -> np.ndarray | None: ...
    @property
    def ref_name(self) -> str: ...


class Layout(NamedTuple):
    """Dtype and shape of a value."""

    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.itemsize

    @property
    def lane_values(self) -> int:
        return self.elements * self.dtype.components

    @property
    def chunks(self) -> int:
        return -(-self.elements // self.dtype.chunk)

    def chunk_elements(self, j: int) -> int:
        """Elements of chunk j."""
        return min(self.dtype.chunk, self.elements - j * self.dtype.chunk)

    def chunk_bytes(self, j: int) -> slice:
        """Where chunk j lies in the raw bytes."""
        first = j * self.dtype.chunk
        return slice(first * self.dtype.itemsize, (first + self.chunk_elements(j)) * self.dtype.itemsize)

    def each_chunk(self, data: np.ndarray) -> Iterator[np.ndarray]:
        """The raw bytes of each chunk."""
        for j in range(self.chunks):
            yield data[self.chunk_bytes(j)]


def chunk_hashes(layout: Layout, data: np.ndarray) -> list[int]:
    """h_j of each chunk of the raw bytes."""
    return [hash_bytes(chunk) for chunk in layout.each_chunk(data)]


def hash_bytes(data: np.ndarray) -> int:
    """h_j: H of the raw bytes of a chunk."""
    return h64(data.data)


def fingerprint_of(layout: Layout, hashes: Sequence[int]) -> int:
    """The fingerprint of a value, from the hashes of its chunks."""
    dtype = layout.dtype
    parts = [bytes([dtype.code])]
    if dtype.code == NAMED:
        name = dtype.name.encode()
        parts += [varint(len(name)), name, varint(dtype.itemsize)]
    parts.append(varint(len(layout.shape)))
    parts += [varint(dim) for dim in layout.shape]
    parts += [u64(h) for h in hashes]
    return h64(b"".join(parts))

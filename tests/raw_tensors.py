"""Raw tensors for the tests of the format: bytes, dtype codes and shapes, without a framework."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from ulpack.reference.dtypes import DTYPES, Dtype, dtype_of

NAMED = 0
NAMED_ITEMSIZE = 3


@dataclass
class Tensor:
    """What ``ulpack.reference.save`` takes."""

    name: str
    dtype: int
    dtype_name: str
    itemsize: int
    shape: tuple[int, ...]
    data: np.ndarray
    ref: np.ndarray | None = None
    ref_name: str = ""

    @property
    def layout(self) -> Dtype:
        return dtype_of(self.dtype, self.dtype_name, self.itemsize)


@dataclass
class Item:
    """What ``ulpack.reference.load`` takes."""

    tensor: int
    ref: np.ndarray | None = None
    first: int = 0
    count: int | None = None


def raw(array: np.ndarray) -> np.ndarray:
    """The bytes of an array, 1-D uint8."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def tensor(
    code: int,
    lanes: np.ndarray,
    ref: np.ndarray | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    name: str = "w",
) -> Tensor:
    """A tensor from lane values; 1-D unless a shape is given."""
    dtype = dtype_of(code, "test:triple", NAMED_ITEMSIZE)
    lanes = np.asarray(lanes).astype(dtype.lane)
    if shape is None:
        shape = (lanes.size // dtype.components,)
    assert prod(shape) * dtype.components == lanes.size
    other = None if ref is None else raw(np.asarray(ref).astype(dtype.lane))
    return Tensor(name, code, dtype.name, dtype.itemsize, shape, raw(lanes), other)


def layout_of(code: int) -> Dtype:
    """The dtype of a code; code 0 is one of three bytes."""
    return dtype_of(code, "test:triple", NAMED_ITEMSIZE)


ALL_CODES = [NAMED, *DTYPES]

PATTERNS = ("random", "zeros", "constant", "weights", "small", "special", "runs")
CHANGES = ("none", "same", "near", "rare", "far", "wrap")


def lanes(pattern: str, dtype: Dtype, count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` lane values of a kind that some part of the encoder treats in its own way."""
    w = dtype.bits
    random = rng.integers(0, 1 << w, count, np.uint64, endpoint=False) if w < 64 else _random64(rng, count)
    if pattern == "zeros":
        random[:] = 0
    elif pattern == "constant" and count:
        random[:] = random[0]
    elif pattern == "small":
        random = np.negative(random % 40) * (random >> np.uint64(w - 1)) + random % 7
    elif pattern == "runs":
        random = np.repeat(random[: count // 50 + 1], 50)[:count]
    elif pattern == "special" and dtype.is_float:
        top = 1 << (w - 1)
        infinity = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa
        edges = [0, top, 1, top | 1, infinity, infinity | top, infinity | 1, (1 << w) - 1, top - 1, 1 << dtype.mantissa]
        random = np.array(edges, np.uint64)[rng.integers(0, len(edges), count)]
    elif pattern == "weights":
        random = _weights(dtype, count, rng)
    return random.astype(dtype.lane)


def _random64(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(0, 1 << 64, count, np.uint64)


def _weights(dtype: Dtype, count: int, rng: np.random.Generator) -> np.ndarray:
    """Values around 0 with a spread of some octaves, as bits of the dtype."""
    values = rng.standard_normal(count) * 0.05
    if not dtype.is_float:
        return np.round(values * 400).astype(np.int64).view(np.uint64)
    bits = values.view(np.uint64)
    exponent = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64) - 1023
    half = 1 << (dtype.exponent_bits - 1)
    field = np.clip(exponent + half - 1, 0, 2 * half - 1).astype(np.uint64)
    fraction = (bits & np.uint64((1 << 52) - 1)) >> np.uint64(52 - dtype.mantissa)
    return (bits >> np.uint64(63) << np.uint64(dtype.bits - 1)) | (field << np.uint64(dtype.mantissa)) | fraction


def change(kind: str, dtype: Dtype, x: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """Reference lane values for a target; None for no reference."""
    if kind == "none":
        return None
    r = x.copy()
    if kind == "near":
        r = x + rng.integers(-9, 10, x.size).astype(x.dtype)
    elif kind == "rare":
        r = np.where(rng.random(x.size) < 0.02, x + rng.integers(0, 3, x.size).astype(x.dtype), x)
    elif kind == "far":
        r = lanes("random", dtype, x.size, rng)
    elif kind == "wrap":
        r = np.where(rng.random(x.size) < 0.5, x + np.asarray(1 << (dtype.bits - 1), np.uint64).astype(x.dtype), ~x)
    return r.astype(dtype.lane)


def example(code: int, pattern: str, change_kind: str, shape: tuple[int, ...], seed: int, name: str = "w") -> Tensor:
    """A reproducible tensor with its reference."""
    dtype = layout_of(code)
    rng = np.random.default_rng(seed)
    x = lanes(pattern, dtype, prod(shape) * dtype.components, rng)
    return tensor(code, x, change(change_kind, dtype, x, rng), shape=shape, name=name)

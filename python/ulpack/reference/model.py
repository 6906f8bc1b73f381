"""From lane values to tokens and back: predictors, token maps, contexts (FORMAT.md sections 7 to 9)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import CorruptError
from .dtypes import Dtype

if TYPE_CHECKING:
    from .programs import Program

NO_PREDICTOR, REFERENCE, PROGRAM = 0, 1, 2
HYBRID, LEADING, DIRECT = 0, 1, 2
NO_CONTEXT, EXPONENT, BYTE, CLASS, BESIDE = 0, 1, 2, 3, 4
EXPONENTS = 32  # contexts of an exponent field


_LENGTHS = np.array([v.bit_length() for v in range(1 << 16)], np.uint8)


def bit_length(values: np.ndarray) -> np.ndarray:
    """bitlen of each value (0 or more), as int64."""
    length = _LENGTHS[values & 0xFFFF].astype(np.int64)
    for shift in range(16, 8 * values.dtype.itemsize, 16):
        high = values >> shift
        if not high.any():
            break
        length = np.where(high, shift + _LENGTHS[high & 0xFFFF], length)
    return length


def key(dtype: Dtype, bits: np.ndarray) -> np.ndarray:
    """phi: lane values of the native unsigned type, ordered as the numbers they stand for."""
    if not dtype.is_float:
        return bits
    top = 1 << (dtype.bits - 1)
    return np.where(bits & top, ~bits, bits ^ top)


def unkey(dtype: Dtype, keys: np.ndarray) -> np.ndarray:
    """Inverse of ``key``."""
    if not dtype.is_float:
        return keys
    top = 1 << (dtype.bits - 1)
    return np.where(keys & top, keys ^ top, ~keys)


def zigzag(d: np.ndarray, bits: int) -> np.ndarray:
    return (d << 1) ^ np.negative(d >> (bits - 1))


def unzigzag(z: np.ndarray) -> np.ndarray:
    return (z >> 1) ^ np.negative(z & 1)


def residual(dtype: Dtype, x: np.ndarray, r: np.ndarray | None) -> np.ndarray:
    """z of each lane value; ``r`` is the reference or prediction, None for predictor 0."""
    if r is not None:
        return zigzag(key(dtype, x) - key(dtype, r), dtype.bits)
    if dtype.is_float:
        return (x << 1) | (x >> (dtype.bits - 1))
    return zigzag(x, dtype.bits)


def restore(dtype: Dtype, z: np.ndarray, r: np.ndarray | None) -> np.ndarray:
    """Inverse of ``residual``."""
    if r is not None:
        return unkey(dtype, unzigzag(z) + key(dtype, r))
    if dtype.is_float:
        return (z >> 1) | (z << (dtype.bits - 1))
    return unzigzag(z)


class Classes(NamedTuple):
    """Context part 3: ``number`` classes of rows (axis 0) or columns (axis 1) of ``rho`` lane values."""

    number: int
    axis: int
    rho: int
    entries: int  # rows or columns

    def places(self, first: int, count: int) -> np.ndarray:
        """The row or column of each of ``count`` lane values from ``first`` on."""
        lanes = np.arange(first, first + count)
        return lanes % self.rho if self.axis else lanes // self.rho


class Beside(NamedTuple):
    """Context part 4: the role whose exponents are the contexts, and its dtype."""

    slot: int
    dtype: Dtype


class Split(NamedTuple):
    """Tokens, tails and raw-plane values of lane values; the plane holds only the values that have plane bits."""

    tokens: np.ndarray  # uint8
    tails: np.ndarray  # uint64
    plane: np.ndarray  # uint64


@dataclass(frozen=True)
class Coding:
    """The fields of a coded tensor's header that say how a lane value becomes token, tail and raw-plane bits."""

    dtype: Dtype
    predictor: int
    token_map: int
    plane_bits: int  # K
    context_part: int
    exponent_base: int = 0  # context parts 1, 3, 4
    shift: int = 0  # token map 1: t
    base: int = 0  # token map 1
    leading: int = 0  # token map 1: A
    program: Program | None = None  # predictor 2
    classes: Classes | None = None  # context part 3
    beside: Beside | None = None  # context part 4

    @property
    def alphabet(self) -> int:
        """A, the number of tokens."""
        if self.token_map == HYBRID:
            return 4 * (self.dtype.bits - self.plane_bits - 3) + 8
        return self.leading if self.token_map == LEADING else 256

    @property
    def contexts(self) -> int:
        if self.context_part == CLASS and self.classes is not None:
            return EXPONENTS * self.classes.number
        return {NO_CONTEXT: 1, EXPONENT: EXPONENTS, BYTE: 256, BESIDE: EXPONENTS}[self.context_part]

    @cached_property
    def tail_bits(self) -> np.ndarray:
        """Bits of the tail of each token, int64."""
        tokens = np.arange(self.alphabet)
        if self.token_map == HYBRID:
            return np.maximum((tokens >> 2) - 1, 0)
        if self.token_map == LEADING:
            return np.where(tokens == 0, 0, self.shift - self.plane_bits)
        return np.zeros(self.alphabet, np.int64)

    @cached_property
    def lower(self) -> np.ndarray:
        """Smallest y of each token, uint64; 0 for tokens beyond ``self.tokens_in_range``."""
        if self.token_map == LEADING:
            last = self.tokens_in_range
            width = self.shift - self.plane_bits
            return np.array(
                [(s - 1 + self.base) << width if 0 < s < last else 0 for s in range(self.alphabet)], np.uint64
            )
        tokens = np.arange(self.alphabet)
        if self.token_map == HYBRID:
            tokens = (tokens - 4 * self.tail_bits) << self.tail_bits
        return tokens.astype(np.uint64)

    @property
    def tokens_in_range(self) -> int:
        """Tokens from here on would give a z of 2^w or more (token map 1)."""
        if self.token_map != LEADING:
            return self.alphabet
        return max(1, min(self.alphabet, (1 << (self.dtype.bits - self.shift)) - self.base + 1))

    def context(self, r: np.ndarray | None, count: int) -> np.ndarray:
        """The context of each lane value, int64, but for its class (context part 3).

        Args:
            r: what gives the contexts: reference or prediction, or with context part 4 the other tensor.
            count: lane values.
        """
        if self.context_part == NO_CONTEXT or r is None:
            return np.zeros(count, np.int64)
        if self.context_part == BYTE:
            return r.astype(np.int64)
        dtype = self.dtype if self.beside is None else self.beside.dtype
        return np.clip(exponent_field(dtype, r) - self.exponent_base, 0, EXPONENTS - 1)

    def split(self, z: np.ndarray) -> Split:
        """z -> token, tail, plane (section 8)."""
        k = self.plane_bits
        y = (z >> k).astype(np.uint64)
        low = (z & ((1 << k) - 1)).astype(np.uint64) if k else np.zeros(0, np.uint64)
        if self.token_map == DIRECT:
            return Split(z.astype(np.uint8), np.zeros(z.size, np.uint64), low)
        if self.token_map == HYBRID:
            n = np.maximum(bit_length(z >> k) - 3, 0)
            tokens = (4 * n + (y >> n.astype(np.uint64)).astype(np.int64)).astype(np.uint8)
        else:
            tokens = np.where(z == 0, 0, (z >> self.shift).astype(np.int64) - self.base + 1).astype(np.uint8)
            low = low[tokens != 0] if k else low
        return Split(tokens, y - self.lower[tokens], low)

    def join(self, split: Split) -> np.ndarray:
        """Inverse of ``split``, in the native unsigned type of the lane.

        Raises:
            CorruptError: a z of 2^w or more.
        """
        lane = self.dtype.lane.newbyteorder("=")
        if self.token_map == DIRECT:
            return split.tokens.astype(lane)
        if self.tokens_in_range < self.alphabet and split.tokens.size and split.tokens.max() >= self.tokens_in_range:
            raise CorruptError("a token stands for a value that is too large")
        z = (self.lower[split.tokens] + split.tails) << np.uint64(self.plane_bits)
        if self.plane_bits:
            if self.token_map == LEADING:
                z[split.tokens != 0] |= split.plane
            else:
                z |= split.plane
        return z.astype(lane)


def exponent_field(dtype: Dtype, bits: np.ndarray) -> np.ndarray:
    """The exponent field of float lane values, int64."""
    return ((bits >> dtype.mantissa) & ((1 << dtype.exponent_bits) - 1)).astype(np.int64)

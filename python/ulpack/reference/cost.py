"""Costs in units of 2^-16 bit, in integers only (FORMAT.md section 20)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .model import bit_length

BIT = 1 << 16
HISTOGRAM_LIMIT = 1 << 32


@lru_cache(maxsize=1)
def _fractions() -> np.ndarray:
    """T[i] = log2(1 + i / 4096)."""
    x = np.arange(4096, 8192, dtype=np.uint64) << np.uint64(19)
    t = np.zeros(4096, np.int64)
    for _ in range(16):
        x = (x * x) >> np.uint64(31)
        big = x >> np.uint64(32)
        t = 2 * t + big.astype(np.int64)
        x >>= big
    return t


def log2(values: np.ndarray) -> np.ndarray:
    """log2 of values of 1 or more (int64)."""
    values = np.asarray(values, np.int64)
    b = bit_length(values) - 1
    i = np.where(b <= 12, values << np.maximum(12 - b, 0), values >> np.maximum(b - 12, 0)) - 4096
    return BIT * b + _fractions()[i]


def xlog(values: np.ndarray) -> np.ndarray:
    """v * log2(v) of each value, 0 for 0."""
    values = np.asarray(values, np.int64)
    return values * log2(np.maximum(values, 1))


def entropy(counts: np.ndarray) -> np.ndarray:
    """xlog(total) - sum of xlog(count) over the last axis."""
    return xlog(counts.sum(axis=-1)) - xlog(counts).sum(axis=-1)


def limit_histogram(counts: np.ndarray) -> np.ndarray:
    """Halve the counts, rounding up, until their total is below 2^32."""
    while counts.sum() >= HISTOGRAM_LIMIT:
        counts = (counts + 1) >> 1
    return counts

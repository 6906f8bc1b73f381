"""Bit streams and raw planes of a chunk body (FORMAT.md sections 1 and 11)."""

from __future__ import annotations

import numpy as np

from .wire import Reader


def pack_bits(values: np.ndarray, widths: np.ndarray) -> bytes:
    """A bit stream of ``values`` (uint64), each with its width in bits (int64, below 64)."""
    used = np.flatnonzero(widths)
    if used.size == 0:
        return b""
    values, widths = values[used], widths[used]
    ends = np.cumsum(widths)
    total = int(ends[-1])
    starts = ends - widths
    word = starts >> 6
    shift = (starts & 63).astype(np.uint64)
    out = np.zeros((total + 63) // 64 + 1, np.uint64)
    # Values that start in the same word have disjoint bits there; at most the last of them reaches into the next word.
    first = np.flatnonzero(np.diff(word, prepend=-1))
    out[word[first]] = np.bitwise_or.reduceat(values << shift, first)
    over = np.flatnonzero((starts & 63) + widths > 64)
    out[word[over] + 1] |= values[over] >> (np.uint64(64) - shift[over])
    return out.astype("<u8").tobytes()[: (total + 7) // 8]


def unpack_bits(reader: Reader, widths: np.ndarray) -> np.ndarray:
    """Read the values (uint64) of the given widths (int64, below 64); they must fill the rest of ``reader``."""
    values = np.zeros(widths.size, np.uint64)
    used = np.flatnonzero(widths)
    width = widths[used]
    ends = np.cumsum(width)
    total = int(ends[-1]) if used.size else 0
    raw = reader.take((total + 7) // 8)
    reader.finish()
    if total & 7 and raw[-1] >> (total & 7):
        raise reader.fail("unused bits are not 0")
    if total == 0:
        return values
    padded = np.zeros((len(raw) + 7) // 8 * 8 + 8, np.uint8)
    padded[: len(raw)] = raw
    words = padded.view("<u8").astype(np.uint64)
    starts = ends - width
    word = starts >> 6
    shift = (starts & 63).astype(np.uint64)
    # Two shifts: a shift by 64 is undefined.
    high = (words[word + 1] << np.uint64(1)) << (np.uint64(63) - shift)
    mask = (np.uint64(1) << width.astype(np.uint64)) - np.uint64(1)
    values[used] = ((words[word] >> shift) | high) & mask
    return values


def pack_plane(values: np.ndarray, plane_bits: int) -> bytes:
    """The low ``plane_bits`` bits of each value, little-endian."""
    if plane_bits == 0:
        return b""
    return values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : plane_bits // 8].tobytes()


def unpack_plane(reader: Reader, count: int, plane_bits: int) -> np.ndarray:
    """``count`` values of ``plane_bits`` bits, uint64."""
    if plane_bits == 0:
        return np.zeros(0, np.uint64)
    width = plane_bits // 8
    raw = np.frombuffer(reader.take(count * width), np.uint8).reshape(count, width)
    out = np.zeros((count, 8), np.uint8)
    out[:, :width] = raw
    return out.view("<u8").reshape(-1).astype(np.uint64)

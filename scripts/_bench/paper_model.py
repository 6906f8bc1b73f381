"""The size that the paper's model gives a tensor.

Source: "ULPack: Reference-Conditioned Lossless Compression of Checkpoint Trajectories", section on residual coding and
appendix B: bit length of the folded residual under the reference's exponent, then the two bits below the leading one
under all that went before, the rest raw. Charged are ideal code lengths; for the first stage 8 bits a context and 18
bits a frequency in use, 28 and 29 bits a context in use of the others; and 112 bytes a tensor for its header and the
final states of 8 lanes in each stage. So charged it gives the column `paper_model` of the corpus's sizes.csv for every
pair but the one of float8, where it gives less.
"""

from __future__ import annotations

import numpy as np

from .pairs import Data, dtype_name, raw

EXPONENT_MANTISSA = {
    "bfloat16": (8, 7),
    "float16": (5, 10),
    "float32": (8, 23),
    "float64": (11, 52),
    "float8_e4m3fn": (4, 3),
    "float8_e5m2": (5, 2),
}
HEADER = 112
LENGTHS = 65  # of 64-bit residuals: 0 .. 64


def nbytes(data: Data, name: str) -> float | None:
    """Bytes of a tensor; None where the model does not apply: another dtype, no reference, no elements."""
    tensor, before = data.target[name], data.before(name)
    form = EXPONENT_MANTISSA.get(dtype_name(tensor))
    if form is None or before is None or not tensor.numel():
        return None
    width, mantissa = 8 * tensor.element_size(), form[1]
    word = np.dtype(f"u{width // 8}")
    reference = raw(before).view(word).astype(np.uint64)
    z = residual(raw(tensor).view(word).astype(np.uint64), reference, width)
    exponent = ((reference >> np.uint64(mantissa)) & np.uint64((1 << form[0]) - 1)).astype(np.int64)
    length = bit_length(z)
    bits = side = 0.0
    coded, tables, cells = entropy(exponent, length, LENGTHS)
    bits, side = bits + coded, side + 8 * tables + 18 * cells
    context = exponent * LENGTHS + length
    for below, table_bits in ((2, 28), (3, 29)):
        present = length >= below
        shift = np.maximum(length - below, 0).astype(np.uint64)
        bit = ((z >> shift) & np.uint64(1)).astype(np.int64)
        coded, tables, _ = entropy(context[present], bit[present], 2)
        bits, side = bits + coded, side + table_bits * tables
        context = 2 * context + np.where(present, bit, 0)
    tail = float(np.maximum(length - 3, 0).sum())
    return HEADER + (bits + tail + side) / 8


def residual(target: np.ndarray, reference: np.ndarray, width: int) -> np.ndarray:
    """The zigzag-folded difference of the order-preserving keys, modulo 2^width."""
    mask, one, top = np.uint64((1 << width) - 1), np.uint64(1), np.uint64(width - 1)
    difference = (key(target, width) - key(reference, width)) & mask
    negative = np.uint64(0) - (difference >> top)
    return ((difference << one) ^ negative) & mask


def key(bits: np.ndarray, width: int) -> np.ndarray:
    sign = np.uint64(1 << (width - 1))
    return np.where(bits & sign, ~bits, bits ^ sign) & np.uint64((1 << width) - 1)


def bit_length(values: np.ndarray) -> np.ndarray:
    length = np.zeros(len(values), np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        large = values >> np.uint64(shift) > 0
        length[large] += shift
        values = np.where(large, values >> np.uint64(shift), values)
    return length + (values > 0)


def entropy(context: np.ndarray, symbol: np.ndarray, alphabet: int) -> tuple[float, int, int]:
    """Ideal code length in bits of symbols under their contexts, the number of contexts, and of pairs that occur."""
    pairs, counts = np.unique(context * alphabet + symbol, return_counts=True)
    _, which = np.unique(pairs // alphabet, return_inverse=True)
    totals = np.bincount(which, counts)
    return float(np.sum(counts * np.log2(totals[which] / counts))), len(totals), len(pairs)

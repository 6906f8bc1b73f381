"""Conversions between IEEE formats, in integers (FORMAT.md section 15, program 2)."""

from __future__ import annotations

import numpy as np

from .dtypes import Dtype
from .model import bit_length


def _u(value: int) -> np.uint64:
    return np.uint64(value)


def cast_bits(values: np.ndarray, to: Dtype, source: Dtype) -> np.ndarray:
    """Bits of float lane values of dtype ``source`` as those of dtype ``to`` (its native unsigned type).

    Rounded to nearest, ties to even, overflow to infinity. A NaN keeps its sign and the top of its payload; narrowing
    makes it quiet. The mantissas may differ in either direction.
    """
    u = values.astype(np.uint64)
    sign = (u >> _u(source.bits - 1)) << _u(to.bits - 1)
    mantissa = u & _u((1 << source.mantissa) - 1)
    field = ((u >> _u(source.mantissa)) & _u((1 << source.exponent_bits) - 1)).astype(np.int64)
    top = (1 << to.exponent_bits) - 1

    # A finite value is m * 2^(e - mantissa bits) with the leading one of m at the bit of the source's mantissa bits.
    shift = np.where(field == 0, source.mantissa + 1 - bit_length(mantissa), 0)
    m = np.where(field == 0, mantissa << np.maximum(shift, 0).astype(np.uint64), mantissa | _u(1 << source.mantissa))
    e = np.where(field == 0, 1 - shift, field)
    e += (1 << (to.exponent_bits - 1)) - (1 << (source.exponent_bits - 1))
    drop = source.mantissa - to.mantissa + np.where(e < 1, 1 - e, 0)
    gone = drop > source.mantissa + 2  # below half of the smallest subnormal
    e = np.maximum(e, 0)
    n = np.where(gone | (drop < 0), 0, drop)
    low = n.astype(np.uint64)
    half = np.where(n > 0, _u(1) << np.maximum(n - 1, 0).astype(np.uint64), _u(0))
    odd = np.where(n > 0, (m >> low) & _u(1), _u(0))
    rounded = np.where(n > 0, (m + half - _u(1) + odd) >> low, m << np.maximum(-drop, 0).astype(np.uint64))
    # The leading one adds to the exponent less one and carries where rounding overflows; a subnormal has none.
    v = np.where(e == 0, rounded, (np.maximum(e - 1, 0).astype(np.uint64) << _u(to.mantissa)) + rounded)
    infinity = _u(top << to.mantissa)
    v = np.where(gone | ((field == 0) & (mantissa == 0)), _u(0), np.minimum(v, infinity))

    if to.mantissa >= source.mantissa:
        payload = mantissa << _u(to.mantissa - source.mantissa)
    else:
        payload = (mantissa >> _u(source.mantissa - to.mantissa)) | _u(1 << (to.mantissa - 1))
    special = np.where(mantissa == 0, infinity, infinity | payload)
    v = np.where(field == (1 << source.exponent_bits) - 1, special, v)
    return (sign | v).astype(to.lane.newbyteorder("="))

"""Plan 5: float values without low bits that are 0 everywhere (FORMAT.md section 16)."""

from __future__ import annotations

import numpy as np

from .dtypes import Dtype

KEPT_MANTISSA = 2  # bits of the mantissa that stay at least


def narrowed(dtype: Dtype, drop: int) -> Dtype | None:
    """The lanes that are left: sign on top, exponent and mantissa at the bottom of the narrowest of 16, 32, 64 bits.

    None where ``drop`` bits cannot be left out.
    """
    if dtype.bits < 16 or not 1 <= drop <= dtype.mantissa - KEPT_MANTISSA:
        return None
    bits = max(16, 1 << (dtype.bits - drop - 1).bit_length())
    itemsize = dtype.components * bits // 8
    return dtype._replace(itemsize=itemsize, bits=bits, mantissa=dtype.mantissa - drop)


def narrow(values: np.ndarray, dtype: Dtype, to: Dtype) -> np.ndarray:
    """Lane values of ``dtype`` without their low bits, as those of ``to``."""
    drop = dtype.mantissa - to.mantissa
    magnitude = (values & ((1 << (dtype.bits - 1)) - 1)) >> drop
    sign = (values >> (dtype.bits - 1)).astype(np.uint64) << np.uint64(to.bits - 1)
    return (sign | magnitude.astype(np.uint64)).astype(to.lane.newbyteorder("="))


def widen(values: np.ndarray, dtype: Dtype, source: Dtype) -> np.ndarray:
    """Inverse of ``narrow``: lane values of ``source`` as those of ``dtype``."""
    drop = np.uint64(dtype.mantissa - source.mantissa)
    u = values.astype(np.uint64)
    sign = (u >> np.uint64(source.bits - 1)) << np.uint64(dtype.bits - 1)
    magnitude = (u & np.uint64((1 << (source.bits - 1)) - 1)) << drop
    return (sign | magnitude).astype(dtype.lane.newbyteorder("="))

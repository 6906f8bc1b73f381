"""Tensors that follow from each other: a weight, its moments, its copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from raw_tensors import Tensor, tensor
from ulpack.reference import casts
from ulpack.reference.dtypes import DTYPES

BFLOAT16, FLOAT32 = 1, 3


def float32_bits(values: Any) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32).reshape(-1).view("<u4")


def optimizer_states(
    decayed_rows: int = 0, seed: int = 0, shape: tuple[int, int] = (90, 40), copy: int = BFLOAT16
) -> list[Tensor]:
    """A weight with its moments a step of AdamW after the references, the step count, and a copy of another dtype."""
    rng = np.random.default_rng(seed)
    x0 = (rng.standard_normal(shape) * 0.02).astype(np.float32)
    m0 = (rng.standard_normal(shape) * 1e-3).astype(np.float32)
    v0 = (rng.random(shape) * 1e-6).astype(np.float32)
    g = (rng.standard_normal(shape) * 1e-3).astype(np.float32)
    g[:decayed_rows] = 0
    t, one = 57, np.float64(1)
    m1 = (m0 + np.float64(np.float32(one - 0.9)) * (g - m0).astype(np.float64)).astype(np.float32)
    v1 = (v0 * np.float32(0.999) + np.float32(one - 0.999) * g * g).astype(np.float32)
    s2, a = np.float32(np.sqrt(1 - 0.999**t)), np.float64(np.float32(-1e-3 / (1 - 0.9**t)))
    direction = (m1 / (np.sqrt(v1) / s2 + np.float32(1e-8))).astype(np.float64)
    x1 = ((x0 * np.float32(1 - 1e-5)).astype(np.float64) + a * direction).astype(np.float32)

    def one_of(name: str, after: np.ndarray, before: np.ndarray) -> Tensor:
        return tensor(FLOAT32, float32_bits(after), float32_bits(before), shape=after.shape, name=name)

    narrow = [casts.cast_bits(float32_bits(x), DTYPES[copy], DTYPES[FLOAT32]) for x in (x1, x0)]
    return [
        one_of("model.w", x1, x0),
        one_of("state.0.exp_avg", m1, m0),
        one_of("state.0.exp_avg_sq", v1, v0),
        one_of("state.0.step", np.array(t), np.array(t - 1)),
        tensor(copy, narrow[0], narrow[1], shape=shape, name="ema.w"),
    ]

"""The searches for the constants of an optimizer's step, every operation rounded once (FORMAT.md section 33)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .floats import exact_floats
from .programs import ADAM_V, ADAM_W, SGD_W, Program, adam_direction, adam_v, sgd_w

FIRST_RATES = (0.9, 0.95, 0.8, 0.85, 0.98, 0.99, 0.5, 0.0)
SECOND_RATES = (0.999, 0.95, 0.98, 0.99, 0.995, 0.9, 0.9999)
EPSILONS = (1e-8, 1e-6, 1e-7, 1e-5, 1e-10, 1e-15)
GATE = 16  # lane values that are tried first, and that a fit needs
STRONGEST = 128  # lane values that a fit is refined on
FIT_STEPS = 4


def _f32(value: float) -> np.float32:
    return np.float32(value)


def _bits(value: np.float32) -> int:
    return int(np.array([value], np.float32).view(np.uint32)[0])


def _order(values: np.ndarray) -> np.ndarray:
    """The place of each float32 in the order of values."""
    u = values.view(np.uint32).astype(np.int64)
    return np.where(u >> 31, -(u & 0x7FFFFFFF), u)


def _near(a: np.ndarray, b: np.ndarray, steps: int) -> np.ndarray:
    return np.abs(_order(a) - _order(b)) <= steps


def _finite(values: np.ndarray) -> np.ndarray:
    return (values.view(np.uint32) & 0x7F800000) != 0x7F800000


def find_adam_v(v0: np.ndarray, v1: np.ndarray, m0: np.ndarray, m1: np.ndarray) -> Program | None:
    """The rates of a step of Adam that gives the second moment: from samples (float32) before and after it."""
    gate = np.flatnonzero(m0.view(np.uint32) != m1.view(np.uint32))[:GATE]
    best, most = None, 0

    def count(constants: Sequence[np.float32], lanes: np.ndarray | slice) -> int:
        p = adam_v((v0[lanes], m1[lanes], m0[lanes]), constants)
        return int(np.count_nonzero(_finite(p) & _near(p, v1[lanes], 1)))

    with exact_floats():
        for first in FIRST_RATES:
            for second in SECOND_RATES:
                constants = (_f32(second), _f32(1 - first), _f32(1 - second))
                if 2 * count(constants, gate) < gate.size:
                    continue
                n = count(constants, slice(None))
                if n > most:
                    most = n
                    best = Program(ADAM_V, (0, 1, 2), tuple(map(_bits, constants)))
    return best if 2 * most >= v0.size else None


def find_adam_w(
    x0: np.ndarray, x1: np.ndarray, m1: np.ndarray, v1: np.ndarray, b2: int, steps: Sequence[int]
) -> Program | None:
    """The constants of a step of AdamW that gives a weight; ``b2`` are the bits of the second moment's rate."""
    best, most = None, 0
    with exact_floats():
        for s2 in _corrections(b2, steps):
            for eps in map(_f32, EPSILONS):
                sample = _WeightSample(x0, x1, adam_direction(m1, v1, s2, eps))
                fit = sample.fit()
                if fit is None:
                    continue
                c, a, n = sample.refine(*fit)
                if n > most:
                    most = n
                    best = Program(ADAM_W, (0, 1, 2), tuple(map(_bits, (c, s2, eps, a))))
    return best if 2 * most >= x0.size else None


def find_sgd(x0: np.ndarray, x1: np.ndarray, buffer: np.ndarray) -> Program | None:
    """The constants of a step of SGD that gives a weight from a momentum."""
    with exact_floats():
        sample = _WeightSample(x0, x1, buffer)
        fit = sample.fit()
        if fit is None:
            return None
        c, a, n = sample.refine(*fit)
    return Program(SGD_W, (0, 1), (_bits(c), _bits(a))) if n > 0 and 2 * n >= x0.size else None


def _corrections(b2: int, steps: Sequence[int]) -> list[np.float32]:
    """What the root of the second moment may be divided by: 1, or the correction of its bias at a number of steps."""
    found = [_f32(1)]
    for rate in SECOND_RATES:
        if _bits(_f32(rate)) != b2:
            continue
        for t in steps:
            s2 = _f32(float(np.sqrt(np.float64(1 - _power(rate, t)))))
            if s2 not in found:
                found.append(s2)
    return found


def _power(b: float, n: int) -> float:
    """b^n by squaring."""
    p = 1.0
    while n:
        if n & 1:
            p *= b
        b *= b
        n >>= 1
    return p


class _WeightSample:
    """A weight before and after a step, and the direction q of the step: x1 = c x0 + a q."""

    def __init__(self, x0: np.ndarray, x1: np.ndarray, q: np.ndarray) -> None:
        self.x0, self.x1, self.q = x0, x1, q
        self.usable = _finite(x0) & _finite(x1) & _finite(q) & (q != 0)

    def _predicted(self, lanes: np.ndarray | slice, c: np.float32, a: np.float32) -> np.ndarray:
        return sgd_w((self.x0[lanes], self.q[lanes]), (c, a))

    def fit(self) -> tuple[np.float32, np.float32] | None:
        """c and a by least squares; None unless they explain most changes to within a few steps."""
        x, q = (v[self.usable].astype(np.float64) for v in (self.x0, self.q))
        d = self.x1[self.usable].astype(np.float64) - x
        if x.size < GATE:
            return None
        # Summed in the order of the lane values.
        xx, xq, qq, xd, qd = (np.cumsum(v)[-1] for v in (x * x, x * q, q * q, x * d, q * d))
        det = xx * qq - xq * xq
        if det == 0 or not np.isfinite(det):
            return None
        c = _f32(1 + (xd * qq - qd * xq) / det)
        a = _f32((qd * xx - xd * xq) / det)
        if not np.isfinite(c) or not np.isfinite(a) or a == 0:
            return None
        good = _near(self._predicted(self.usable, c, a), self.x1[self.usable], FIT_STEPS)
        return (c, a) if 2 * int(np.count_nonzero(good)) >= x.size else None

    def refine(self, c: np.float32, a: np.float32) -> tuple[np.float32, np.float32, int]:
        """The neighbours of c and a that give the most of the strongest lane values, and the exact ones of all."""
        strong = self._strongest()
        best, most = (c, a), -1
        for dc in (0, -1, 1, -2, 2):
            cc = _shifted(c, dc)
            aa, n = a, self._exact(strong, cc, a)
            step = 256
            while step:
                for other in [_shifted(aa, d * k * step) for k in range(1, 9) for d in (-1, 1)]:
                    count = self._exact(strong, cc, other)
                    if count > n:
                        aa, n = other, count
                step //= 4
            if n > most:
                best, most = (cc, aa), n
        return *best, self._exact(slice(None), *best)

    def _exact(self, lanes: np.ndarray | slice, c: np.float32, a: np.float32) -> int:
        return int(np.count_nonzero(self._predicted(lanes, c, a) == self.x1[lanes]))

    def _strongest(self) -> np.ndarray:
        """The lane values with the largest direction in units of the last place of the weight."""
        usable = np.flatnonzero(self.usable)
        exponents = np.maximum(self.x1.view(np.uint32)[usable] >> 23 & 0xFF, 1).astype(np.int64)
        strength = np.abs(self.q[usable].astype(np.float64)) / np.ldexp(1.0, exponents - 150)
        return usable[np.argsort(-strength, kind="stable")[:STRONGEST]]


def _shifted(value: np.float32, steps: int) -> np.float32:
    """The float32 whose bits are so many more."""
    return np.float32(np.array([(_bits(value) + steps) & 0xFFFFFFFF], np.uint32).view(np.float32)[0])

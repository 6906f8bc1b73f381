"""The search for rows that an optimizer only decayed (FORMAT.md section 34)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .dtypes import Dtype, Layout
from .exact_rows import ExactRows, flags_string
from .floats import exact_floats
from .frame import lanes
from .lists import MAX_ENTRIES, list_fits
from .programs import DECAY, MAX_STEPS, SCALE, SHRINK, Program, Run, castable, predict

MIN_ROWS, MIN_LANES = 4, 8
EXACT_SHARE = 64  # one row in so many has to be exact
LOOK_ROWS, LOOK_LANES = 64, 64
FREE_ROWS, FREE_STEPS, FREE_MORE = 4, 256, 8
SHRINK_RATES = (0.9, 0.95, 0.8, 0.85, 0.98, 0.99, 0.5)
SCALE_RATES = (0.999, 0.95, 0.98, 0.99, 0.995, 0.9, 0.9999, 0.8, 0.85, 0.5)
MANY_STEPS = (300, 400, 500, 512, 600, 700, 750, 800, 900, 1000, 1024, 1500, 2000, 2048, 2500, 3000, 4000, 4096)
ONE_BITS = 0x3F800000


def find_decay(layout: Layout, data: np.ndarray, ref: np.ndarray | None) -> ExactRows | None:
    """The rows that a decay program gives exactly; None if they are too few. The program's slot is the reference."""
    dtype = layout.dtype
    if ref is None or len(layout.shape) < 2 or not castable(dtype) or dtype.bits > 32:
        return None
    n, rho = layout.shape[0], layout.elements // layout.shape[0]
    if n < MIN_ROWS or rho < MIN_LANES or n > MAX_ENTRIES:
        return None
    search = _Search(dtype, lanes(dtype, data).reshape(n, rho), lanes(dtype, ref).reshape(n, rho))
    program = search.program()
    if program is None:
        return None
    exact = (predict(program, dtype, [search.ref.reshape(-1)], [dtype]).reshape(n, rho) == search.x).all(axis=1)
    if int(np.count_nonzero(exact)) * EXACT_SHARE < n or not list_fits(n, len(flags_string(exact))):
        return None
    return ExactRows(rho, program, exact)


def _decay(form: int, c: int, times: int) -> Program:
    return Program(DECAY, (0,), (), (Run(form, c, times),))


def _bits(value: float) -> int:
    return int(np.array([value], np.float32).view(np.uint32)[0])


class _Search:
    def __init__(self, dtype: Dtype, x: np.ndarray, ref: np.ndarray) -> None:
        self.dtype, self.x, self.ref = dtype, x, ref

    def program(self) -> Program | None:
        n = len(self.x)
        looked = min(n, LOOK_ROWS)
        probes = [i for i in (k * n // looked for k in range(looked)) if self._shrank(i)]
        if not probes:
            return None
        ends = [self._strongest(i) for i in probes]
        steps = [(SHRINK, _bits(1 - rate)) for rate in SHRINK_RATES] + [(SCALE, _bits(rate)) for rate in SCALE_RATES]
        times = np.array([self._count_steps(form, c, ends) for form, c in steps])
        for k, i in enumerate(probes):
            for (form, c), count in zip(steps, times[:, k].tolist(), strict=True):
                if count and self._exact(_decay(form, c, count), i):
                    return _decay(form, c, count)
        if self.dtype.bits == 32:
            tried = min(len(probes), FREE_ROWS)
            for k in (t * len(probes) // tried for t in range(tried)):
                for program in self._free(*ends[k]):
                    if self._exact(program, probes[k]):
                        return program
        return None

    def _shrank(self, i: int) -> bool:
        """Whether the first lane values have the sign of the reference, are not larger, and one is smaller."""
        x, ref = self.x[i, :LOOK_LANES], self.ref[i, :LOOK_LANES]
        sign = 1 << (self.dtype.bits - 1)
        infinity = ((1 << self.dtype.exponent_bits) - 1) << self.dtype.mantissa
        if ((x ^ ref) & sign).any() or (x > ref).any() or ((ref & (sign - 1)) >= infinity).any():
            return False
        return bool((x < ref).any())

    def _strongest(self, i: int) -> tuple[int, int]:
        """The lane value that shrank by the most steps, the first on ties, and its reference."""
        x, ref = self.x[i].astype(np.uint32), self.ref[i].astype(np.uint32)
        steps = ref - x  # modulo 2^32
        k = int(np.argmax(steps))
        return (int(x[k]), int(ref[k])) if steps[k] else (0, 0)

    def _exact(self, program: Program, i: int) -> bool:
        return np.array_equal(predict(program, self.dtype, [self.ref[i]], [self.dtype]), self.x[i])

    def _count_steps(self, form: int, c: int, ends: list[tuple[int, int]]) -> list[int]:
        """How often a step has to be repeated to lead from the second to the first of each of ``ends``, 0 = never."""
        native = self.dtype.lane.newbyteorder("=")
        target = np.array([x for x, _ in ends], native)
        now = np.array([ref for _, ref in ends], native)
        result = np.zeros(len(ends), np.int64)
        active = np.arange(len(ends))
        program = _decay(form, c, 1)
        for k in range(1, MAX_STEPS + 1):
            before = now
            now = predict(program, self.dtype, [before], [self.dtype])
            hit = now == target
            result[active[hit]] = k
            keep = ~hit & (now > target) & (now < before)
            active, now, target = active[keep], now[keep], target[keep]
            if active.size == 0:
                break
        return [int(v) for v in result]

    def _free(self, x: int, ref: int) -> Iterator[Program]:
        """Scalings by any constant below 1 that lead from ``ref`` to ``x``."""
        times = np.array([*range(1, FREE_STEPS + 1), *MANY_STEPS])
        low, high = np.zeros(times.size, np.uint32), np.full(times.size, ONE_BITS, np.uint32)
        magnitude = x & 0x7FFFFFFF
        while (high - low > 1).any():
            middle = low + (high - low) // 2
            reached = (_scaled(ref, middle, times) & 0x7FFFFFFF) >= magnitude
            open_ = high - low > 1
            high = np.where(open_ & reached, middle, high)
            low = np.where(open_ & ~reached, middle, low)
        constants = high[:, None] + np.arange(FREE_MORE, dtype=np.uint32)
        values = _scaled(ref, constants.reshape(-1), np.repeat(times, FREE_MORE)).reshape(constants.shape)
        good = np.logical_and.accumulate((values == x) & (constants < ONE_BITS), axis=1)
        for k, j in zip(*np.nonzero(good), strict=True):
            yield _decay(SCALE, int(constants[k, j]), int(times[k]))


def _scaled(ref: int, constants: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Bits of a float32 after so many multiplications by each constant; ``times`` does not fall."""
    c = constants.view(np.float32)
    p = np.full(c.size, ref, np.uint32).view(np.float32)
    with exact_floats():
        first = 0
        for step in range(int(times[-1])):
            first += int(np.searchsorted(times[first:], step, side="right"))
            p[first:] *= c[first:]
    return p.view(np.uint32)

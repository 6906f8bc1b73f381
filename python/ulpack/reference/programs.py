"""Predictor 2: predictions computed from other tensors (FORMAT.md section 15).

Every float32 operation below is rounded once. ``_fused`` is the definition of that word in the format: float64
operations on float32 values, in which the product is exact, and one rounding to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import UnsupportedError
from .casts import cast_bits
from .dtypes import DTYPES, Dtype
from .floats import exact_floats
from .wire import Reader, u32, varint

COPY, CAST, DECAY, ADAM_V, ADAM_W, SGD_W = range(1, 7)
NAMES = {
    COPY: "copy",
    CAST: "cast",
    DECAY: "decay",
    ADAM_V: "adam second moment",
    ADAM_W: "adamw weight",
    SGD_W: "sgd weight",
}
_SLOTS = {COPY: 1, CAST: 1, DECAY: 1, ADAM_V: 3, ADAM_W: 3, SGD_W: 2}
_CONSTANTS = {ADAM_V: 3, ADAM_W: 4, SGD_W: 2}

SCALE, SHRINK = 0, 1  # forms of a decay step
MAX_RUNS = 64
MAX_STEPS = 4096

FLOAT32 = DTYPES[3]
_INFINITY = 0x7F800000


class Run(NamedTuple):
    """``times`` equal decay steps; ``c`` holds the bits of a float32."""

    form: int
    c: int
    times: int


class Program(NamedTuple):
    """A prediction rule: positions of its tensors among the roles, and float32 constants as bits."""

    code: int
    slots: tuple[int, ...]
    constants: tuple[int, ...] = ()
    runs: tuple[Run, ...] = ()

    @property
    def name(self) -> str:
        return NAMES[self.code]


def write_program(program: Program) -> bytes:
    """The program's bytes."""
    out = bytes([program.code, *program.slots]) + b"".join(u32(c) for c in program.constants)
    if program.code == DECAY:
        out += varint(len(program.runs))
        out += b"".join(bytes([run.form]) + u32(run.c) + varint(run.times) for run in program.runs)
    return out


def read_program(reader: Reader, own: Dtype, slots: Sequence[Dtype]) -> Program:
    """Parse a program and check it against the dtypes of the tensor and of its roles.

    Raises:
        CorruptError: a field out of range, or dtypes that the program does not take.
        UnsupportedError: a reserved program.
    """
    code = reader.u8()
    if code not in NAMES:
        raise UnsupportedError(f"{reader.what}: program {code} is reserved")
    places = tuple(reader.u8() for _ in range(_SLOTS[code]))
    constants = tuple(reader.u32() for _ in range(_CONSTANTS.get(code, 0)))
    program = Program(code, places, constants, _read_runs(reader) if code == DECAY else ())
    for place in places:
        if place >= len(slots) or not _takes(code, own, slots[place]):
            raise reader.fail(f"the {program.name} program does not fit its tensors")
    return program


def _read_runs(reader: Reader) -> tuple[Run, ...]:
    n = reader.varint()
    if not 1 <= n <= MAX_RUNS:
        raise reader.fail(f"{n} runs of decay steps")
    runs: list[Run] = []
    for _ in range(n):
        run = Run(reader.u8(), reader.u32(), reader.varint())
        runs.append(run)
        if run.form not in (SCALE, SHRINK) or run.times < 1 or sum(r.times for r in runs) > MAX_STEPS:
            raise reader.fail("decay steps out of range")
    return tuple(runs)


def castable(dtype: Dtype) -> bool:
    """Whether a dtype has one IEEE lane of 16, 32 or 64 bits."""
    return dtype.is_float and dtype.bits >= 16 and dtype.components == 1


def _takes(code: int, own: Dtype, slot: Dtype) -> bool:
    if code == COPY:
        return slot == own
    if code == CAST:
        return castable(slot) and castable(own) and slot != own
    if code == DECAY:
        return slot == own and castable(own) and own.bits <= 32
    return slot == own == FLOAT32


def predict(program: Program, own: Dtype, slots: Sequence[np.ndarray], dtypes: Sequence[Dtype]) -> np.ndarray:
    """The prediction of a row of lane values.

    Args:
        program: what ``read_program`` returned.
        own: dtype of the tensor.
        slots: the same lane values of each role, native unsigned.
        dtypes: their dtypes.
    """
    inputs = [slots[place] for place in program.slots]
    first = inputs[0]
    if program.code == COPY:
        return first
    if program.code == CAST:
        return cast_bits(first, own, dtypes[program.slots[0]])
    with exact_floats():
        if program.code == DECAY:
            return _decay(first, own, program.runs)
        values = [bits.view(np.float32) for bits in inputs]
        p = _RULES[program.code](values, [_float(c) for c in program.constants]).view(np.uint32)
    good = _finite(p)
    for bits in inputs:
        good &= _finite(bits)
    return np.where(good, p, first)


def _float(bits: int) -> np.float32:
    return np.float32(np.array([bits], np.uint32).view(np.float32)[0])


def _finite(bits: np.ndarray) -> np.ndarray:
    return (bits & _INFINITY) != _INFINITY


Values = Sequence[np.ndarray]
Constants = Sequence[np.float32]


def _fused(a: np.ndarray | np.float32, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float32(a * b + c) with an exact product."""
    product = np.float64(a) * b.astype(np.float64)
    return (product + c.astype(np.float64)).astype(np.float32)


def adam_v(values: Values, constants: Constants) -> np.ndarray:
    """The second moment after a step of Adam from (v0, m1, m0) and (b2, w1, w2)."""
    v0, m1, m0 = values
    b2, w1, w2 = constants
    g = m0 + (m1 - m0) / w1
    return _fused(w2 * g, g, v0 * b2)


def adam_direction(m1: np.ndarray, v1: np.ndarray, s2: np.float32, eps: np.float32) -> np.ndarray:
    """m1 / (sqrt(v1) / s2 + eps)."""
    return m1 / (np.sqrt(v1) / s2 + eps)


def adam_w(values: Values, constants: Constants) -> np.ndarray:
    """The weight after a step of AdamW from (x0, m1, v1) and (c, s2, eps, a)."""
    x0, m1, v1 = values
    c, s2, eps, a = constants
    return _fused(a, adam_direction(m1, v1, s2, eps), x0 * c)


def sgd_w(values: Values, constants: Constants) -> np.ndarray:
    """The weight after a step of SGD from (x0, momentum buffer) and (c, a)."""
    x0, buffer = values
    c, a = constants
    return _fused(a, buffer, x0 * c)


_RULES: dict[int, Callable[[Values, Constants], np.ndarray]] = {ADAM_V: adam_v, ADAM_W: adam_w, SGD_W: sgd_w}


def _decay(values: np.ndarray, own: Dtype, runs: Sequence[Run]) -> np.ndarray:
    """Decay steps in float32; a narrower dtype rounds after each of them."""
    wide = own == FLOAT32
    p = values
    ever_finite = np.ones(values.shape, bool)
    for run in runs:
        c = _float(run.c)
        for _ in range(run.times):
            x = p if wide else cast_bits(p, FLOAT32, own)
            ever_finite &= _finite(x)
            x = x.view(np.float32)
            x = x * c if run.form == SCALE else _fused(-c, x, x)
            after = x.view(np.uint32)
            after = after if wide else cast_bits(after, own, FLOAT32)
            if np.array_equal(after, p):
                break  # it stays
            p = after
    last = p if wide else cast_bits(p, FLOAT32, own)
    good = ever_finite & _finite(last)
    return np.where(good, p, values)

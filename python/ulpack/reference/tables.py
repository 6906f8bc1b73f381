"""Frequency tables: the side string, normalisation and parametric rows (FORMAT.md section 10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..errors import CorruptError
from .coder import Context, Decoder, Encoder, contexts
from .cost import BIT, log2
from .lists import decode_classes, encode_classes
from .model import DIRECT, EXPONENT, HYBRID, LEADING, Classes, Coding

OWN, PARAMETRIC = 0, 1
MAX_CLUSTERS = 64
PARAMETRIC_LOG = 12


class Shape(NamedTuple):
    """A parametric family member: shape 0 .. 4, slope 0 or 1, scale -32 .. 160 in half octaves."""

    shape: int
    slope: int
    scale: int


# --- own tables ------------------------------------------------------------------------------------------------------


def largest_code(p: int) -> int:
    """The largest weight code with p mantissa bits."""
    return (16 - p) << p


def weight(q: int, p: int) -> int:
    """W(q)."""
    return ((1 << p) + ((q - 1) & ((1 << p) - 1))) << ((q - 1) >> p) if q else 0


class _WeightContexts:
    def __init__(self) -> None:
        self.zero = contexts(8)
        self.moved = contexts(3)
        self.sign = contexts(3)
        self.gamma = [(contexts(32), contexts(32)) for _ in range(3)]

    def zero_context(self, codes: list[int], above: Sequence[int], s: int) -> Context:
        missing = (not (s >= 1 and codes[s - 1])) + 2 * (not (s >= 2 and codes[s - 2]))
        return self.zero[missing + 4 * (not (above and above[s]))]


def _bucket(pd: int, p: int) -> int:
    if pd == 0:
        return 0
    return 1 if abs(pd) <= 1 << (p - 1) else 2


def _sign_context(pd: int) -> int:
    if pd == 0:
        return 0
    return 1 if pd > 0 else 2


def encode_side(
    p: int, cluster_of: Sequence[int], codes: Sequence[Sequence[int]], class_list: Sequence[int] = ()
) -> bytes:
    """The side string.

    Args:
        p: mantissa bits of the weights, 1 .. 4.
        cluster_of: cluster of each context, numbered by first occurrence.
        codes: the weight codes of each cluster.
        class_list: the class of each row or column (context part 3).
    """
    coder = Encoder()
    coder.raw(2, p - 1)
    encode_classes(coder, class_list)
    _encode_map(coder, cluster_of)
    model = _WeightContexts()
    above: Sequence[int] = ()
    for row in codes:
        done: list[int] = []
        last = pd = 0
        for s, q in enumerate(row):
            coder.adaptive(model.zero_context(done, above, s), q != 0)
            done.append(q)
            if q == 0:
                continue
            if last == 0:
                coder.raw(8, q - 1)
            else:
                d = q - last
                bucket = _bucket(pd, p)
                coder.adaptive(model.moved[bucket], d != 0)
                if d:
                    coder.adaptive(model.sign[_sign_context(pd)], d < 0)
                    coder.gamma(*model.gamma[bucket], abs(d) - 1)
                pd = d
            last = q
        above = done
    return coder.finish()


class Side(NamedTuple):
    """What a side string holds."""

    p: int
    cluster_of: list[int]
    codes: list[list[int]]
    class_list: list[int]


def decode_side(data: bytes, n_contexts: int, alphabet: int, classes: Classes | None = None) -> Side:
    """Inverse of ``encode_side``.

    Raises:
        CorruptError: a value out of range, or bytes that are never read.
    """
    coder = Decoder(data)
    p = 1 + coder.raw(2)
    class_list = decode_classes(coder, classes.entries, classes.number) if classes else []
    cluster_of = _decode_map(coder, n_contexts)
    model = _WeightContexts()
    codes: list[list[int]] = []
    for k in range(max(cluster_of) + 1):
        above: Sequence[int] = codes[k - 1] if k else ()
        row: list[int] = []
        last = pd = 0
        for s in range(alphabet):
            if not coder.adaptive(model.zero_context(row, above, s)):
                row.append(0)
                continue
            if last == 0:
                q = 1 + coder.raw(8)
            else:
                bucket = _bucket(pd, p)
                d = 0
                if coder.adaptive(model.moved[bucket]):
                    negative = coder.adaptive(model.sign[_sign_context(pd)])
                    d = 1 + coder.gamma(*model.gamma[bucket])
                    d = -d if negative else d
                q = last + d
                pd = d
            if not 1 <= q <= largest_code(p):
                raise CorruptError("a weight is out of range")
            row.append(q)
            last = q
        if last == 0:
            raise CorruptError("a table is empty")
        codes.append(row)
    coder.finish()
    return Side(p, cluster_of, codes, class_list)


def count_clusters(data: bytes, n_contexts: int, classes: Classes | None = None) -> int:
    """Number of clusters of a side string, without decoding its weights."""
    coder = Decoder(data)
    coder.raw(2)
    if classes:
        decode_classes(coder, classes.entries, classes.number)
    return max(_decode_map(coder, n_contexts)) + 1


def _encode_map(coder: Encoder, cluster_of: Sequence[int]) -> None:
    same, new, tree = contexts(1)[0], contexts(1)[0], contexts(64)
    largest = 0
    for before, cluster in pairwise(cluster_of):
        coder.adaptive(same, cluster == before)
        if cluster == before:
            continue
        coder.adaptive(new, cluster > largest)
        if cluster > largest:
            largest = cluster
        else:
            coder.tree(tree, 6, cluster)


def _decode_map(coder: Decoder, n_contexts: int) -> list[int]:
    same, new, tree = contexts(1)[0], contexts(1)[0], contexts(64)
    cluster_of = [0]
    largest = 0
    for _ in range(1, n_contexts):
        if coder.adaptive(same):
            cluster_of.append(cluster_of[-1])
        elif coder.adaptive(new):
            largest += 1
            if largest == MAX_CLUSTERS:
                raise CorruptError("too many clusters")
            cluster_of.append(largest)
        else:
            cluster = coder.tree(tree, 6)
            if cluster > largest:
                raise CorruptError("a context names a cluster that is not there")
            cluster_of.append(cluster)
    return cluster_of


def normalise(codes: Sequence[int], p: int, table_log: int) -> list[int]:
    """Frequencies that sum to 2^table_log from weight codes, of which at least one is not 0."""
    weights = [weight(q, p) for q in codes]
    total, size = sum(weights), 1 << table_log
    used = [s for s, w in enumerate(weights) if w]
    f = [0] * len(weights)
    if len(used) == 1:
        f[1 if used[0] == 0 else 0] = 1
        f[used[0]] = size - 1
        return f
    for s in used:
        f[s] = max(1, (weights[s] * size + total // 2) // total)
    excess = sum(f) - size
    while excess > 0:
        s = f.index(max(f))
        cut = min(excess, f[s] - 1)
        f[s] -= cut
        excess -= cut
    if excess < 0:
        f[f.index(max(f))] -= excess
    return f


# --- parametric tables -----------------------------------------------------------------------------------------------

ONE = 1 << 32
SCALE_MIN, SCALE_MAX = -32, 160
_J_MIN, _J_MAX = -48, 16  # beyond these every survival is 1 or 0
_E0 = ((2147483648, 1805811301, 1518500250, 1276901417), (1611532835, 1261272664, 987140130, 772589198))
_Q0 = ((2147483648, 1454120821, 902905651, 514109347), (1073741824, 492312797, 189812531, 61539100))
_C = (1 << 32, 6074001000)


def _ladder(start: int, steps: int) -> dict[int, int]:
    """E or Q of one mantissa for j = -40 .. 8: ``steps`` squarings upwards, square roots downwards."""
    values = {0: start}
    v = start
    for j in range(1, 9):
        for _ in range(steps):
            v = (v * v) >> 32
        values[j] = v
    v = start
    for j in range(-1, -41, -1):
        for _ in range(steps):
            v = math.isqrt(v << 32)
        values[j] = v
    return values


@lru_cache(maxsize=1)
def survivals() -> np.ndarray:
    """S in units of 2^-32, int64, indexed by [shape, h, m - 4, j + 48]."""
    out = np.zeros((5, 2, 4, _J_MAX - _J_MIN + 1), np.int64)
    for h in (0, 1):
        for m in range(4, 8):
            e_of, q_of = _ladder(_E0[h][m - 4], 1), _ladder(_Q0[h][m - 4], 2)
            for j in range(_J_MIN, _J_MAX + 1):
                e, q = _extended(e_of, j), _extended(q_of, j)
                column = (
                    e,
                    (e * q) >> 32,
                    (7 * e + _extended(e_of, j - 3)) >> 3,
                    (15 * _extended(e_of, j + 4) + e) >> 4,
                    _linear(m, h, j),
                )
                out[:, h, m - 4, j - _J_MIN] = column
    return out


def _extended(values: dict[int, int], j: int) -> int:
    return values.get(j, ONE if j < 0 else 0)


def _linear(m: int, h: int, j: int) -> int:
    if j > 2:
        return 0
    return ONE if j <= -30 else max(0, ONE - ((m * _C[h]) >> (2 - j)))


@lru_cache(maxsize=64)
def _bounds(token_map: int, alphabet: int, plane_bits: int, phase: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower bounds of tokens 1 .. A - 1 as m and the exponent q' of m * 2^q' / 4 (q' = q + 2; map 1: q' = q).

    ``phase`` is the base of token map 1 modulo 4: bounds of that map count from the octave of the base.
    """
    m, q = [], []
    for s in range(1, alphabet):
        if token_map == LEADING:
            v = s - 1 + phase
            m.append(4 + (v & 3))
            q.append(v >> 2)
            continue
        v = s
        if token_map == HYBRID and s >= 8:
            v = (4 + (s & 3)) << ((s >> 2) - 1)
        shift = v.bit_length() - 3
        m.append(v >> shift if shift >= 0 else v << -shift)
        q.append(shift + plane_bits + 2)
    return np.array(m), np.array(q)


@lru_cache(maxsize=4096)
def _row(token_map: int, alphabet: int, plane_bits: int, phase: int, shape: int, sc: int) -> np.ndarray:
    m, q = _bounds(token_map, alphabet, plane_bits, phase)
    j = np.clip(q - -(-sc // 2), _J_MIN, _J_MAX)
    survival = np.zeros(alphabet + 1, np.int64)
    survival[0] = ONE
    survival[1:alphabet] = survivals()[shape, sc & 1, m - 4, j - _J_MIN]
    if token_map == DIRECT:
        # Tokens with equal bounds share the mass of their group.
        starts = np.concatenate([[0, 1], 1 + np.flatnonzero((np.diff(m) != 0) | (np.diff(q) != 0)) + 1])
        ends = np.append(starts[1:], alphabet)
        mass = np.maximum(survival[starts] - survival[ends], 0)
        w = np.repeat(mass // (ends - starts), ends - starts)
    else:
        w = np.maximum(survival[:-1] - survival[1:], 0)
    size = 1 << PARAMETRIC_LOG
    f = 1 + ((w * (size - alphabet)) >> 32)
    f[np.argmax(f)] += size - f.sum()
    f.setflags(write=False)
    return f


@lru_cache(maxsize=4096)
def _row_costs(*key: int) -> np.ndarray:
    return PARAMETRIC_LOG * BIT - log2(_row(*key))


def _row_key(coding: Coding, shape: Shape, context: int) -> tuple[int, int, int, int, int, int]:
    sc = shape.scale
    if coding.context_part == EXPONENT:
        sc -= 2 * shape.slope * context
    sc = min(max(sc, SCALE_MIN), SCALE_MAX)
    return coding.token_map, coding.alphabet, coding.plane_bits, coding.base & 3, shape.shape, sc


def parametric_row(coding: Coding, shape: Shape, context: int) -> np.ndarray:
    """The frequencies (int64, sum 4096) of one context."""
    return _row(*_row_key(coding, shape, context))


def parametric_costs(coding: Coding, shape: Shape, context: int) -> np.ndarray:
    """What each token costs in one context, in 2^-16 bit."""
    return _row_costs(*_row_key(coding, shape, context))


def parametric_fits(coding: Coding) -> bool:
    """Whether the family is defined for this token map."""
    return coding.token_map != LEADING or coding.shift == coding.dtype.mantissa - 1


# --- rows of sparse chunks -------------------------------------------------------------------------------------------

GAP_TOKENS = 68  # hybrid unsigned integers below 2^18


def gap_row(scale: int) -> np.ndarray:
    """The frequencies (int64, sum 4096) of gaps: shape 0 at a scale (section 18)."""
    return _row(HYBRID, GAP_TOKENS, 0, 0, 0, scale)


def gap_scale(changed: int, same: int) -> int:
    """The scale for the gaps of a cluster with these numbers of changed and of other lane values."""
    share = (same << 32) // (changed + same)
    at_one = _survival_at_one()
    for k in range(SCALE_MAX - SCALE_MIN):
        if 2 * share <= at_one[k] + at_one[k + 1]:
            return SCALE_MIN + k
    return SCALE_MAX


@lru_cache(maxsize=1)
def _survival_at_one() -> list[int]:
    """S of shape 0 at 1 = 4 * 2^-2 for scales -32 .. 161."""
    scales = range(SCALE_MIN, SCALE_MAX + 2)
    # a = ceil(sc / 2), and the exponent is -a.
    return [int(survivals()[0, sc & 1, 0, min(max(sc // -2, _J_MIN), _J_MAX) - _J_MIN]) for sc in scales]

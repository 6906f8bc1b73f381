"""The canonical encoder's choices: candidates, parameters and tables (FORMAT.md sections 21 and 22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .cost import BIT, entropy, limit_histogram
from .dtypes import Dtype, Layout
from .header import OwnTables
from .model import (
    BYTE,
    DIRECT,
    EXPONENT,
    HYBRID,
    LEADING,
    NO_CONTEXT,
    NO_PREDICTOR,
    REFERENCE,
    Coding,
    bit_length,
    exponent_field,
    residual,
)
from .tables import SCALE_MAX, SCALE_MIN, Shape, parametric_costs, parametric_fits

SAMPLE_ALL = 8192
RUNS, RUN = 64, 128
CLUSTERS = 32
PARAMETRIC_MOST = 1 << 14


class Sample(NamedTuple):
    """Lane values the choices are made on, m of them in the whole tensor.

    ``r`` is what predicts them, ``beside`` what gives their contexts with context part 4.
    """

    x: np.ndarray
    r: np.ndarray | None
    m: int
    beside: np.ndarray | None = None


def sample_places(m: int) -> slice | np.ndarray:
    """Which of m lane values are the sample of section 21."""
    if m <= SAMPLE_ALL:
        return slice(None)
    starts = np.array([b * (m - RUN) // (RUNS - 1) for b in range(RUNS)])
    return (starts[:, None] + np.arange(RUN)).reshape(-1)


def sample_lanes(layout: Layout, data: np.ndarray, ref: np.ndarray | None) -> Sample:
    """The sample of a tensor."""
    m = layout.lane_values
    pick = sample_places(m)
    lane = layout.dtype.lane
    return Sample(data.view(lane)[pick], None if ref is None else ref.view(lane)[pick], m)


# --- candidates ------------------------------------------------------------------------------------------------------


def choose_coding(dtype: Dtype, sample: Sample) -> Coding:
    """The cheaper of the candidates with and without the reference; token map 1 as it is on the sample."""
    best = None
    if sample.r is not None:
        best = with_reference(dtype, sample)
    alone = without_reference(dtype, sample._replace(r=None))
    return (alone if best is None or alone[0] < best[0] else best)[1]


def with_reference(dtype: Dtype, sample: Sample) -> tuple[int, Coding]:
    """Candidate R, or the residual to another prediction, with its estimate."""
    if dtype.bits == 8:
        coding = Coding(dtype, REFERENCE, DIRECT, 0, BYTE)
    elif dtype.is_float and sample.r is not None:
        coding = Coding(dtype, REFERENCE, HYBRID, 0, EXPONENT, exponent_base(dtype, sample.r))
    else:
        coding = Coding(dtype, REFERENCE, HYBRID, 0, NO_CONTEXT)
    z = residual(dtype, sample.x, sample.r)
    return _best_plane(coding, z, sample)


def exponent_base(dtype: Dtype, bits: np.ndarray) -> int:
    """The exponent base for contexts from these lane values of a sample."""
    return max(0, int(exponent_field(dtype, bits).max()) - 29)


def without_reference(dtype: Dtype, sample: Sample) -> tuple[int, Coding]:
    """Candidate N with its estimate."""
    z = residual(dtype, sample.x, None)
    if dtype.bits == 8:
        return _best_plane(Coding(dtype, NO_PREDICTOR, DIRECT, 0, NO_CONTEXT), z, sample)
    if dtype.is_float:
        coding = leading_coding(dtype, *(leading_range(dtype, z) or (0, 0)))
        return estimate(coding, z, sample), coding
    return _best_plane(Coding(dtype, NO_PREDICTOR, HYBRID, 0, NO_CONTEXT), z, sample)


def _best_plane(coding: Coding, z: np.ndarray, sample: Sample) -> tuple[int, Coding]:
    """Estimate and coding of the widest raw plane that costs next to nothing (token map 0)."""
    most = {8: 0, 16: 0, 32: 16, 64: 48}[coding.dtype.bits]
    codings = [replace(coding, plane_bits=k) for k in range(0, most + 1, 8)]
    costs = [estimate(c, z, sample) for c in codings]
    limit = min(costs) + (min(costs) >> 10)
    return [(cost, c) for cost, c in zip(costs, codings, strict=True) if cost <= limit][-1]


def leading_range(dtype: Dtype, z: np.ndarray) -> tuple[int, int] | None:
    """Smallest and largest z >> (mantissa bits - 1) over z != 0, None if there is none."""
    used = z[z != 0]
    if used.size == 0:
        return None
    return int(used.min()) >> (dtype.mantissa - 1), int(used.max()) >> (dtype.mantissa - 1)


def leading_coding(dtype: Dtype, lo: int = 0, hi: int = 0) -> Coding:
    """Token map 1 for values whose leading bits lie in lo .. hi."""
    t = dtype.mantissa - 1
    while hi - lo + 2 > 256:
        t, lo, hi = t + 1, lo >> 1, hi >> 1
    plane_bits = 0 if dtype.bits == 16 else min(t // 8 * 8, 48)
    return Coding(dtype, NO_PREDICTOR, LEADING, plane_bits, NO_CONTEXT, shift=t, base=lo, leading=hi - lo + 2)


def histogram(coding: Coding, tokens: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Counts by context and token, int64."""
    cells = coding.contexts * coding.alphabet
    counts = np.bincount(contexts * coding.alphabet + tokens, minlength=cells)
    return counts.reshape(coding.contexts, coding.alphabet).astype(np.int64)


def estimate(coding: Coding, z: np.ndarray, sample: Sample) -> int:
    """Estimated cost of the tensor in 2^-16 bit, from its sample."""
    split = coding.split(z)
    contexts = coding.context(sample.r if coding.beside is None else sample.beside, z.size)
    counts = histogram(coding, split.tokens, contexts)
    tails = int(coding.tail_bits[split.tokens].sum())
    bits16 = int(entropy(counts).sum()) + BIT * (tails + coding.plane_bits * split.plane.size)
    return bits16 * sample.m // z.size + BIT * 8 * int(np.count_nonzero(counts))


# --- tables ----------------------------------------------------------------------------------------------------------


class Chosen(NamedTuple):
    """Tables, and the ideal length in 2^-16 bit of the ``total`` tokens they were chosen for."""

    tables: OwnTables | Shape
    bits16: int
    total: int


def choose_tables(coding: Coding, counts: np.ndarray) -> Chosen:
    """Tables for a histogram by context and token."""
    counts = limit_histogram(counts)
    n = int(counts.sum())
    p = mantissa_bits(n)
    clusters, cluster_of = merge_contexts(counts, p)
    if n <= PARAMETRIC_MOST and parametric_fits(coding):
        cost, shape = _best_shape(coding, counts, n)
        if cost < int(cluster_costs(clusters, p).sum()) + BIT * 24:
            return Chosen(shape, cost - BIT * 16, n)
    return own_tables(clusters, cluster_of, p, n)


def own_tables(clusters: np.ndarray, cluster_of: list[int], p: int, n: int, class_list: Sequence[int] = ()) -> Chosen:
    """Own tables of clusters, with n counts."""
    bits16 = int(entropy(clusters).sum())
    log = 12 if bits16 < 98304 * n else 11
    codes = [_weight_codes(row, p) for row in clusters.tolist()]
    return Chosen(OwnTables(p, log, cluster_of, codes, class_list), bits16, n)


def cluster_costs(clusters: np.ndarray, p: int) -> np.ndarray:
    """What each cluster costs with its table."""
    return entropy(clusters) + BIT * (12 + (p + 2) * np.count_nonzero(clusters, axis=-1))


def merge_contexts(counts: np.ndarray, p: int) -> tuple[np.ndarray, list[int]]:
    """Merge neighbouring contexts: histograms of the clusters, cluster of each context."""
    occupied = np.flatnonzero(counts.sum(axis=1)).tolist()
    rows, firsts = merge_neighbours([counts[c] for c in occupied], p, CLUSTERS)
    starts = [occupied[k] for k in firsts]
    cluster_of = np.searchsorted(starts, np.arange(len(counts)), side="right") - 1
    return np.array(rows), np.maximum(cluster_of, 0).tolist()


def merge_neighbours(rows: list[np.ndarray], p: int, most: int) -> tuple[list[np.ndarray], list[int]]:
    """Merge neighbours while that saves bits or more than ``most`` are left: what is left, and where each begins."""
    rows = list(rows)
    firsts = list(range(len(rows)))
    costs = [int(cluster_costs(row, p)) for row in rows]

    def gain(k: int) -> int:
        return costs[k] + costs[k + 1] - int(cluster_costs(rows[k] + rows[k + 1], p))

    gains = [gain(k) for k in range(len(rows) - 1)]
    while gains and (max(gains) >= 0 or len(rows) > most):
        k = gains.index(max(gains))
        rows[k : k + 2] = [rows[k] + rows[k + 1]]
        costs[k : k + 2] = [int(cluster_costs(rows[k], p))]
        del firsts[k + 1], gains[k]
        for neighbour in (k - 1, k):
            if 0 <= neighbour < len(gains):
                gains[neighbour] = gain(neighbour)
    return rows, firsts


def mantissa_bits(n: int) -> int:
    """p, for a histogram of n counts."""
    return 1 if n < 1 << 13 else 2 if n < 1 << 18 else 3


def _weight_codes(counts: list[int], p: int) -> list[int]:
    largest = max(counts)
    codes = []
    for count in counts:
        if count == 0:
            codes.append(0)
            continue
        v = max(1 << p, count * 32768 // largest)
        e = v.bit_length() - 1 - p
        if e > 0:
            v += 1 << (e - 1)
            e = v.bit_length() - 1 - p
        codes.append((e << p) + (v >> e) - (1 << p) + 1)
    return codes


def _best_shape(coding: Coding, counts: np.ndarray, n: int) -> tuple[int, Shape]:
    occupied = np.flatnonzero(counts.sum(axis=1)).tolist()
    totals = counts.sum(axis=0)
    exponents = int((totals * _token_exponents(coding)).sum())
    weighted = int((counts.sum(axis=1) * np.arange(coding.contexts)).sum())
    best: tuple[int, Shape] | None = None
    for shape in range(5):
        for slope in (0, 1) if coding.context_part == EXPONENT else (0,):
            middle = (2 * exponents + 2 * slope * weighted) // n
            for scale in range(middle - 3, middle + 4):
                candidate = Shape(shape, slope, min(max(scale, SCALE_MIN), SCALE_MAX))
                if slope:
                    rows = [int(counts[c] @ parametric_costs(coding, candidate, c)) for c in occupied]
                else:  # all contexts have the same row
                    rows = [int(totals @ parametric_costs(coding, candidate, 0))]
                cost = BIT * 16 + sum(rows)
                if best is None or cost < best[0]:
                    best = cost, candidate
    assert best is not None
    return best


def _token_exponents(coding: Coding) -> np.ndarray:
    tokens = np.arange(coding.alphabet)
    if coding.token_map == HYBRID:
        exponents = bit_length(coding.lower) + coding.plane_bits
    elif coding.token_map == LEADING:
        exponents = ((tokens - 1 + (coding.base & 3)) >> 2) + 1
    else:
        exponents = bit_length(tokens)
    exponents[0] = 0
    return exponents

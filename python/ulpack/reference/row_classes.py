"""Classes of rows (FORMAT.md section 35)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from .choice import Choice, Subject
from .cost import BIT, entropy, xlog
from .exact_rows import ExactRows
from .frame import lanes
from .lists import MAX_CLASSES, MAX_ENTRIES
from .model import CLASS, EXPONENT, EXPONENTS, Classes, Coding, residual
from .narrow import narrow
from .plan import (
    CLUSTERS,
    RUN,
    Chosen,
    cluster_costs,
    mantissa_bits,
    merge_contexts,
    merge_neighbours,
    own_tables,
    sample_places,
)

MIN_LANES, MIN_ROWS, MIN_ROW = 1 << 15, 16, 16
MEAN_LANES = 256  # lane values of a row that its mean is taken of
CONTEXT_WEIGHT = 4
CHANGE_SHARE = 16
MEAN_SCALE = 16
MAX_MEAN = MEAN_SCALE * (255 + CONTEXT_WEIGHT * 31) + 1
ROUNDS = 8
CLASS_GAIN = 64


def find_classes(subject: Subject, choice: Choice) -> tuple[Coding, list[int]] | None:
    """The coding with classes of rows and the class of each row; None if they are not worth counting."""
    layout, coding = subject.layout, choice.coding
    if subject.fast or coding.program is not None or coding.context_part != EXPONENT:
        return None
    if coding.dtype.bits > 32 or len(layout.shape) < 2:
        return None
    coded = layout.lane_values if choice.rows is None else choice.rows.coded_lanes
    rho = layout.lane_values // layout.shape[0]
    rows = coded // rho
    if coded < MIN_LANES or rows < MIN_ROWS or rho < MIN_ROW or rows > MAX_ENTRIES:
        return None
    assert subject.ref is not None
    x, r = (_coded(raw, subject, choice.rows, coding).reshape(rows, rho) for raw in (subject.data, subject.ref))
    pick = sample_places(coded)
    if not _rows_differ(*_measures(coding, x.reshape(-1)[pick], r.reshape(-1)[pick])):
        return None
    head_x, head_r = x[:, :MEAN_LANES], r[:, :MEAN_LANES]
    measures, _ = _measures(coding, head_x.reshape(-1), head_r.reshape(-1))
    means = MEAN_SCALE * measures.reshape(head_x.shape).sum(axis=1) // head_x.shape[1]
    class_list, number = classify(means)
    if number < 2:
        return None
    classes = Classes(number, 0, rho, rows)
    return replace(coding, context_part=CLASS, classes=classes), class_list


def _coded(raw: np.ndarray, subject: Subject, rows: ExactRows | None, coding: Coding) -> np.ndarray:
    dtype = subject.layout.dtype
    values = lanes(dtype, raw)
    if rows is not None:
        return values[rows.coded(0, values.size)]
    return values if coding.dtype == dtype else narrow(values, dtype, coding.dtype)


def _measures(coding: Coding, x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How large each lane value is coded, and its token."""
    tokens = coding.split(residual(coding.dtype, x, r)).tokens.astype(np.int64)
    return tokens + CONTEXT_WEIGHT * coding.context(r, x.size), tokens


def _rows_differ(measures: np.ndarray, tokens: np.ndarray) -> bool:
    """Whether the runs of the sample differ in measure by more than chance."""
    n = measures.size // RUN
    sums = measures.reshape(n, RUN).sum(axis=1)
    total, squares, each = int(sums.sum()), int((sums * sums).sum()), int((measures * measures).sum())
    between = n * squares - total * total
    within = RUN * each - squares
    return between * RUN > 4 * within * n and int(np.count_nonzero(tokens)) * CHANGE_SHARE > n * RUN


def classify(means: np.ndarray) -> tuple[list[int], int]:
    """The class of each row and the number of classes, k-means in integers."""
    count = np.bincount(means, minlength=MAX_MEAN)
    ranked = np.sort(means)
    centres = [int(ranked[(2 * i + 1) * means.size // (2 * MAX_CLASSES)]) for i in range(MAX_CLASSES)]
    values = np.arange(MAX_MEAN)
    for _ in range(ROUNDS):
        nearest = _nearest(centres)
        sums = np.bincount(nearest, count * values, MAX_CLASSES).astype(np.int64)
        sizes = np.bincount(nearest, count, MAX_CLASSES).astype(np.int64)
        centres = [int(s // n) if n else c for s, n, c in zip(sums, sizes, centres, strict=True)]
    of_rows = _nearest(centres)[means]
    used = np.unique(of_rows)
    return np.searchsorted(used, of_rows).tolist(), used.size


def _nearest(centres: list[int]) -> np.ndarray:
    """The class of each possible mean: the nearest centre, the first on ties."""
    distance = np.abs(np.arange(MAX_MEAN)[:, None] - np.array(centres))
    return distance.argmin(axis=1)


def choose_classed(counts: np.ndarray, class_list: list[int], number: int) -> Chosen | None:
    """Tables for a histogram by class, exponent context and token; None if the contexts alone cost no more."""
    n = int(counts.sum())
    if n == 0:
        return None
    p = mantissa_bits(n)
    flat = counts.reshape(number, EXPONENTS, -1).sum(axis=0)
    clusters, _ = merge_contexts(flat, p)
    without = int(cluster_costs(clusters, p).sum())
    sizes = np.bincount(class_list, minlength=number)
    lists = BIT * ((int(xlog(np.array(len(class_list)))) - int(xlog(sizes).sum())) // BIT + 64)
    if int(entropy(counts).sum()) + lists + without // CLASS_GAIN >= int(entropy(flat).sum()):
        return None
    occupied = np.flatnonzero(counts.sum(axis=1)).tolist()
    groups: list[list[int]] = []  # the contexts of each cluster
    rows: list[np.ndarray] = []
    for k in range(number):
        mine = [c for c in occupied if c // EXPONENTS == k]
        merged, firsts = merge_neighbours([counts[c] for c in mine], p, len(mine))
        bounds = [*firsts, len(mine)]
        groups += [mine[a:b] for a, b in pairwise(bounds)]
        rows += merged
    _merge_pairs(rows, groups, p)
    clusters = np.array(rows)
    if int(cluster_costs(clusters, p).sum()) + lists >= without:
        return None
    owner = {c: k for k, group in enumerate(groups) for c in group}
    cluster_of, current = [], 0
    for c in range(len(counts)):
        current = owner.get(c, current)
        cluster_of.append(current)
    return own_tables(clusters, cluster_of, p, n, class_list)


def _merge_pairs(rows: list[np.ndarray], groups: list[list[int]], p: int) -> None:
    """Merge the pair with the largest gain, the first on ties, while that saves bits or there are too many clusters."""

    def cost(row: np.ndarray) -> int:
        return int(cluster_costs(row, p))

    costs = [cost(row) for row in rows]
    gains = {
        (i, j): costs[i] + costs[j] - cost(rows[i] + rows[j]) for i in range(len(rows)) for j in range(i + 1, len(rows))
    }
    alive = list(range(len(rows)))
    while gains:
        i, j = max(gains, key=lambda pair: (gains[pair], -pair[0], -pair[1]))
        if gains[i, j] < 0 and len(alive) <= CLUSTERS:
            break
        rows[i] = rows[i] + rows[j]
        groups[i] = groups[i] + groups[j]
        costs[i] = cost(rows[i])
        alive.remove(j)
        gains = {pair: gain for pair, gain in gains.items() if j not in pair}
        for k in alive:
            if k != i:
                gains[min(i, k), max(i, k)] = costs[i] + costs[k] - cost(rows[i] + rows[k])
    rows[:] = [rows[k] for k in alive]
    groups[:] = [groups[k] for k in alive]

"""Overlaps between pieces of memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def overlapping(spans: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Pairs of tags of spans (address, nbytes, tag) that share a byte: each span with one that reaches into it."""
    ordered = sorted(span for span in spans if span[1] > 0)
    found = []
    reach, holder = -1, 0
    for address, nbytes, tag in ordered:
        if address < reach:
            found.append((holder, tag))
        if address + nbytes > reach:
            reach, holder = address + nbytes, tag
    return found


def span(value: Any) -> tuple[int, int]:
    """(address, nbytes) from the first to the last element of a host tensor or array with any strides."""
    if isinstance(value, np.ndarray):
        if value.size == 0:
            return 0, 0
        low = value.__array_interface__["data"][0]
        high = low + value.itemsize
        for dim, step in zip(value.shape, value.strides, strict=True):
            low += min((dim - 1) * step, 0)
            high += max((dim - 1) * step, 0)
        return low, high - low
    if not value.is_cpu or value.numel() == 0:
        return 0, 0
    extent = sum((dim - 1) * step for dim, step in zip(value.shape, value.stride(), strict=True)) + 1
    return value.data_ptr(), extent * value.element_size()


def elements_meet(value: Any) -> bool:
    """Whether two elements of a tensor or array may share memory.

    Exact for what slicing, transposing and expanding make; a view that interleaves its axes counts as overlapping.
    """
    unit = value.itemsize if isinstance(value, np.ndarray) else 1
    strides = value.strides if isinstance(value, np.ndarray) else value.stride()
    reach = unit  # of the axes so far, the smallest steps first
    for step, dim in sorted((abs(step), dim) for step, dim in zip(strides, value.shape, strict=True) if dim > 1):
        if step < reach:
            return True
        reach += (dim - 1) * step
    return False

"""What of a tensor is coded, chunk by chunk: all lane values, some rows (plan 4), or high bits (plan 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .chunks import View
from .dtypes import Dtype, Layout
from .exact_rows import ExactRows
from .model import REFERENCE, Coding
from .narrow import narrow, widen
from .plans import CODED, NARROW, ROWS
from .programs import predict


def lanes(dtype: Dtype, raw: np.ndarray) -> np.ndarray:
    """Raw bytes as lane values of the native unsigned type."""
    return raw.view(dtype.lane).astype(dtype.lane.newbyteorder("="), copy=False)


class Frame(NamedTuple):
    """How a coded blob sees its tensor.

    ``slots`` are the dtypes of its roles, ``own`` is the position of the tensor's reference among them (-1: it is not).
    """

    layout: Layout
    slots: Sequence[Dtype]
    own: int
    coding: Coding
    rows: ExactRows | None

    @property
    def plan(self) -> int:
        if self.rows is not None:
            return ROWS
        return CODED if self.coding.dtype == self.layout.dtype else NARROW

    def _span(self, j: int) -> tuple[int, int]:
        """The first lane value of chunk j and the number of its lane values."""
        dtype = self.layout.dtype
        return j * dtype.chunk * dtype.components, self.layout.chunk_elements(j) * dtype.components

    def view(self, j: int, slots: Sequence[np.ndarray]) -> View:
        """The coded lane values of chunk j, given the lane values of each role in that chunk."""
        coding = self.coding
        first, count = self._span(j)
        r = beside = None
        if coding.program is not None:
            r = predict(coding.program, self.layout.dtype, slots, self.slots)
        elif coding.predictor == REFERENCE:
            r = slots[self.own]
        if coding.beside is not None:
            beside = slots[coding.beside.slot]
        if r is not None and self.plan == NARROW:
            r = narrow(r, self.layout.dtype, coding.dtype)
        if self.rows is not None:
            coded = self.rows.coded(first, count)
            r, beside = (None if v is None else v[coded] for v in (r, beside))
            first, count = self.rows.coded_before(first), int(np.count_nonzero(coded))
        return View(count, r, first, beside)

    def coded(self, j: int, x: np.ndarray) -> np.ndarray:
        """The coded ones of the lane values of chunk j."""
        if self.plan == NARROW:
            return narrow(x, self.layout.dtype, self.coding.dtype)
        return x if self.rows is None else x[self.rows.coded(*self._span(j))]

    def whole(self, j: int, slots: Sequence[np.ndarray], coded: np.ndarray) -> np.ndarray:
        """All lane values of chunk j, from the coded ones."""
        if self.plan == NARROW:
            return widen(coded, self.layout.dtype, self.coding.dtype)
        if self.rows is None:
            return coded
        x = predict(self.rows.program, self.layout.dtype, slots, self.slots).copy()
        x[self.rows.coded(*self._span(j))] = coded
        return x

"""Plan 4: rows that a program predicts exactly; the others are coded as if they were all (FORMAT.md section 17)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import CorruptError
from .coder import Decoder, Encoder, contexts
from .dtypes import Dtype, Layout
from .lists import check_list, row_count
from .programs import Program, read_program, write_program
from .wire import Reader, varint


class ExactRows(NamedTuple):
    """Rows of ``rho`` lane values; those with ``exact`` (bool, one a row) are what the program predicts."""

    rho: int
    program: Program
    exact: np.ndarray

    @property
    def coded_lanes(self) -> int:
        """Lane values of the other rows."""
        return self.rho * int(np.count_nonzero(~self.exact))

    def coded(self, first: int, count: int) -> np.ndarray:
        """Which of the lane values ``first ..`` belong to coded rows."""
        return ~self.exact[np.arange(first, first + count) // self.rho]

    def coded_before(self, first: int) -> int:
        """Coded lane values before lane value ``first``."""
        row, column = divmod(first, self.rho)
        before = self.rho * int(np.count_nonzero(~self.exact[:row]))
        return before + (column if column and not self.exact[row] else 0)


def flags_string(exact: np.ndarray) -> bytes:
    """The side string that tells exact rows from coded ones."""
    coder = Encoder()
    flags = contexts(2)
    before = 0
    for flag in exact.tolist():
        coder.adaptive(flags[before], flag)
        before = int(flag)
    return coder.finish()


def write_rows(rows: ExactRows) -> bytes:
    """The fields that precede the header of the coded rows."""
    side = flags_string(rows.exact)
    return varint(rows.rho) + write_program(rows.program) + varint(len(side)) + side


def read_rows(reader: Reader, layout: Layout, slots: Sequence[Dtype]) -> ExactRows:
    """Inverse of ``write_rows``.

    Raises:
        CorruptError: a field out of range, or rows that are all exact or all coded.
        UnsupportedError: a reserved program.
        LimitError: too many rows for their side string.
    """
    rho = reader.varint()
    program = read_program(reader, layout.dtype, slots)
    side = bytes(reader.take(reader.varint()))
    count = row_count(reader, rho, layout.lane_values)
    check_list(count, len(side))
    coder = Decoder(side)
    flags = contexts(2)
    exact = []
    before = 0
    for _ in range(count):
        before = coder.adaptive(flags[before])
        exact.append(before)
    try:
        coder.finish()
    except CorruptError as error:
        raise reader.fail(str(error)) from None
    if sum(exact) in (0, count):
        raise reader.fail("all rows are exact, or none")
    return ExactRows(rho, program, np.array(exact, bool))

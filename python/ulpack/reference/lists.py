"""Rows, columns and the lists in side strings with an entry for each (FORMAT.md sections 10, 14 and 17)."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import CorruptError, LimitError
from .coder import Context, Decoder, Encoder, contexts
from .wire import Reader

MAX_ENTRIES = 1 << 24
ENTRIES_FREE, ENTRIES_A_BYTE = 65536, 4096  # a side string of n bytes may have 65536 + 4096 n entries

CLASS_BITS = 3
MAX_CLASSES = 1 << CLASS_BITS


def list_fits(entries: int, side_nbytes: int) -> bool:
    """Whether a side string of so many bytes may hold a list of so many entries."""
    return entries <= MAX_ENTRIES and entries <= ENTRIES_FREE + ENTRIES_A_BYTE * side_nbytes


def check_list(entries: int, side_nbytes: int) -> None:
    """Check the length of a list before it is made.

    Raises:
        LimitError: too many entries.
    """
    if not list_fits(entries, side_nbytes):
        raise LimitError(f"a list of {entries} rows or columns in {side_nbytes} bytes")


def row_count(reader: Reader, rho: int, lane_values: int) -> int:
    """The number of rows of ``rho`` lane values.

    Raises:
        CorruptError: they do not divide the tensor.
    """
    if rho == 0 or lane_values % rho:
        raise reader.fail(f"rows of {rho} in {lane_values} lane values")
    return lane_values // rho


def _class_contexts() -> list[list[Context]]:
    return [contexts(MAX_CLASSES) for _ in range(1 + MAX_CLASSES)]


def encode_classes(coder: Encoder, classes: Sequence[int]) -> None:
    """Code the class of each row or column, in the context of the one before."""
    trees = _class_contexts()
    before = 0
    for value in classes:
        coder.tree(trees[before], CLASS_BITS, value)
        before = 1 + value


def decode_classes(coder: Decoder, entries: int, n_classes: int) -> list[int]:
    """Inverse of ``encode_classes``.

    Raises:
        CorruptError: a class out of range.
    """
    trees = _class_contexts()
    classes: list[int] = []
    before = 0
    for _ in range(entries):
        value = coder.tree(trees[before], CLASS_BITS)
        if value >= n_classes:
            raise CorruptError("a class is out of range")
        classes.append(value)
        before = 1 + value
    return classes

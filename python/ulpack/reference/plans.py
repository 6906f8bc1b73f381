"""Plans of a blob (FORMAT.md section 6)."""

from __future__ import annotations

STORED, IDENTICAL, CONSTANT, CODED, ROWS, NARROW = range(6)
PLAN_NAMES = ("stored", "identical", "constant", "coded", "rows", "narrow")
LAST_PLAN = (CODED, NARROW)  # of format 1.0 and 1.1
SMALL_CHUNKS = 4  # a coded tensor of more chunks delimits itself: the length before its blob is 0 (format 1.1)


def is_coded(plan: int) -> bool:
    """Whether a blob of the plan has a header and chunk bodies."""
    return CODED <= plan <= NARROW

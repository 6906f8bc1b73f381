"""Host memory for a state, used again from save to save."""

from __future__ import annotations

import numpy as np

_ALIGN = 64


class Arena:
    """One block of memory in which values lie one after the other; it grows when it must and is kept otherwise."""

    def __init__(self) -> None:
        self.buffer = np.empty(0, np.uint8)
        self._starts: list[int] = []

    def lay_out(self, sizes: list[int]) -> bool:
        """Make room for values of these sizes; whether the memory is where it was before."""
        starts, position = [], 0
        for nbytes in sizes:
            starts.append(position)
            position += -(-nbytes // _ALIGN) * _ALIGN
        same = starts == self._starts and position <= self.buffer.nbytes
        self._starts = starts
        self.reserve(position)
        return same

    def reserve(self, nbytes: int) -> None:
        """Have this much memory; what was in it is lost if there was less."""
        if nbytes > self.buffer.nbytes:
            self.buffer = np.empty(0, np.uint8)  # the old block goes first
            block = np.empty(nbytes + _ALIGN, np.uint8)
            skip = -block.__array_interface__["data"][0] % _ALIGN
            self.buffer = block[skip : skip + nbytes]

    def touch(self) -> None:
        """Have the system give the memory now rather than at the first copy into it."""
        self.buffer[::4096] = 0

    def address(self, number: int) -> int:
        """Where the value of this number lies."""
        start: int = self.buffer.__array_interface__["data"][0]
        return start + self._starts[number]

    def slice(self, number: int, nbytes: int) -> np.ndarray:
        """The value of this number as bytes."""
        return self.buffer[self._starts[number] : self._starts[number] + nbytes]

"""Which state a next one is coded against, so that loading any step stays cheap."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ArgumentError
from .state import State

MAX_COST = 3.0
MAX_FILES = 32
FREE = 1 << 16


class Policy(NamedTuple):
    """Limits of a chain.

    Attributes:
        max_cost: bytes that are read to load a step, as a multiple of the bytes of its values; ``FREE`` bytes always
            may.
        max_files: delta files that a value is decoded through.
    """

    max_cost: float = MAX_COST
    max_files: int = MAX_FILES

    def check(self) -> None:
        """Raise ArgumentError for limits that make no sense."""
        if not self.max_cost >= 1 or not 1 <= self.max_files <= 4096:
            raise ArgumentError(f"max_cost {self.max_cost} must be at least 1, max_files {self.max_files} in 1 .. 4096")

    def choose(self, parent: State | None, raw_nbytes: int, last_nbytes: int, root_nbytes: int) -> list[str | None]:
        """Identities of the states to code a next one against, the best choice first; None = against nothing (an
        anchor).

        The previous step is the best reference. When its chain is as long as it may be but short in bytes (steps that
        differ little), the anchor below the chain is: a delta against it is still far smaller than a new anchor.

        Args:
            parent: the state that the new one goes on from.
            raw_nbytes: bytes of the new state's values.
            last_nbytes: bytes of the parent's delta file, the guess for the next.
            root_nbytes: bytes of the delta file at the bottom of the parent's chain.
        """
        if parent is None:
            return [None]
        choices: list[str | None] = []
        grown = parent.nbytes - root_nbytes
        if parent.depth < self.max_files and parent.nbytes + last_nbytes <= self._limit(raw_nbytes):
            choices.append(parent.id)
        elif parent.depth >= self.max_files > 1 and parent.root != parent.id and 2 * grown <= root_nbytes:
            choices.append(parent.root)
        return [*choices, None]

    def allows(self, state: State, raw_nbytes: int) -> bool:
        """Whether a state may be stored like this."""
        return state.depth <= self.max_files and state.nbytes <= self._limit(raw_nbytes)

    def _limit(self, raw_nbytes: int) -> float:
        return max(self.max_cost * raw_nbytes, FREE)

"""How tensors changed from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._backend import Progress
from .._buffers import array_at, view
from .._structure import collect
from .store import Trajectory

_FLOATS = range(1, 9)
"""Wire codes of the dtypes whose top bit is a sign."""
_LEAST = 2  # elements of a tensor worth looking at


class Change(NamedTuple):
    """How one tensor changed from one step to the next.

    Attributes:
        step, before: the steps.
        name: of the tensor.
        elements: number of elements.
        changed: share of elements of which any bit changed.
        crossed: share of elements that changed their sign, or None for dtypes without one.
    """

    step: int
    before: int
    name: str
    elements: int
    changed: float
    crossed: float | None


def changes(trajectory: Trajectory, *, progress: Progress | None = None) -> Iterator[Change]:
    """Compare every step with the one before, tensor by tensor."""
    log = trajectory.log()
    last: tuple[int, dict[str, _Words]] | None = None
    for number, info in enumerate(log):
        now = _elements(trajectory.load(info.id))
        if last is not None:
            yield from _compare(info.step, now, *last)
        last = info.step, now
        if progress is not None:
            progress(number + 1, len(log))


class _Words(NamedTuple):
    """The elements of a tensor as unsigned words, whether their top bit is a sign, and what owns the memory."""

    words: np.ndarray
    signed: bool
    keep: Any


def _elements(state: Any) -> dict[str, _Words]:
    found: dict[str, _Words] = {}
    for leaf in collect(state):
        memory = view(leaf.obj)
        width = memory.dtype.itemsize
        if width in (1, 2, 4, 8) and memory.nbytes >= _LEAST * width:
            words = array_at(memory.address, memory.nbytes).view(f"<u{width}")
            found[leaf.name] = _Words(words, memory.dtype.code in _FLOATS, memory)
    return found


def _compare(step: int, now: dict[str, _Words], before_step: int, before: dict[str, _Words]) -> Iterator[Change]:
    for name, (words, signed, _) in now.items():
        old = before.get(name)
        if old is None or old.words.dtype != words.dtype or old.words.size != words.size:
            continue
        differ = words ^ old.words
        changed = np.count_nonzero(differ) / words.size
        crossed = None
        if signed:
            crossed = np.count_nonzero(differ >> words.dtype.type(8 * words.itemsize - 1)) / words.size
        yield Change(step, before_step, name, words.size, changed, crossed)

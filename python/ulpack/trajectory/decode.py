"""Values decoded through their chains of delta files.

Two blocks of memory take turns, each link being the reference of the next. Beyond ``_SCRATCH`` bytes, and where the
caller has no memory to spare, there is one block, and every value is its own reference; delta files are then read
twice, since the library looks at all of a file before it writes over a reference.
"""

from __future__ import annotations

import graphlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._backend import Items, Options
from .._buffers import View
from .._dtypes import NAMED, Dtype
from .._load import decode_items, item_errors
from ..errors import CorruptError, UlpackError
from .session import DataFile, Link, Session

_CHUNK = 1 << 18
_SCRATCH = 1 << 30


@dataclass(frozen=True, slots=True)
class Goal:
    """A value to decode.

    Attributes:
        links: from ``Session.chain``.
        address: memory for all of it; only the range is written.
        nbytes: of all of it.
        keep: what owns that memory.
        first, count: range of elements, at borders of chunks (see ``chunk_range``); count -1 = all.
    """

    links: list[Link]
    address: int
    nbytes: int
    keep: Any
    first: int = 0
    count: int = -1


def chunk_range(dtype: Dtype, elements: int, first: int, count: int) -> tuple[int, int]:
    """The smallest range of whole chunks (go/FORMAT.md, section 3) around a range of elements, as (first, count)."""
    chunk = max(1, _CHUNK // dtype.itemsize) if dtype.code == NAMED else _CHUNK
    begin = first // chunk * chunk
    end = min(elements, -(-(first + count) // chunk) * chunk)
    return begin, max(0, end - begin)


def decode(
    session: Session, goals: list[Goal], opt: Options, *, salvage: bool = False, spare: bool = True
) -> dict[int, UlpackError]:
    """Decode values; with ``salvage``, the errors by position in ``goals``, else the first one is raised.

    Args:
        session: where their delta files are open.
        goals: the values.
        opt: threads, and progress over all links.
        salvage: go on after damage.
        spare: whether a second block of memory may be used.

    Raises:
        UlpackError: a delta file is damaged.
    """
    through: dict[str, list[_Stop]] = {}
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for position, goal in enumerate(goals):
        before: list[str] = []
        for link in goal.links:
            through.setdefault(link.owner, []).append(_Stop(position, link.number))
            sorter.add(link.owner, *before)
            before = [link.owner]
    try:
        order = list(sorter.static_order())
    except graphlib.CycleError:
        raise CorruptError("steps need each other in a circle", path=str(session.catalog.layout)) from None
    progress = _Progress(opt, session, through)
    scratch = _scratch(goals, spare)
    bad: dict[int, UlpackError] = {}
    try:
        for owner in order:
            file, items = session.stored_file(owner), Items()
            stops = [stop for stop in through[owner] if stop.goal not in bad]
            for stop in stops:
                _add(items, file, stop.number, goals[stop.goal], scratch.get(stop.goal))
            bad.update(_decode_file(session, file, items, stops, progress.options(), salvage))
            progress.advance(owner)
    finally:
        close_bar(opt)
    return bad


def close_bar(opt: Options) -> None:
    """Take a progress bar off the screen, whatever ended it."""
    close = getattr(opt.progress, "close", None)
    if close is not None:
        close()


def _scratch(goals: list[Goal], spare: bool) -> dict[int, np.ndarray]:
    """The second block of memory of each goal that has one."""
    wanted = {position: goal.nbytes for position, goal in enumerate(goals) if len(goal.links) > 1}
    if not spare or sum(wanted.values()) > _SCRATCH:
        wanted = {position: nbytes for position, nbytes in wanted.items() if goals[position].count >= 0}
    return {position: np.empty(nbytes, np.uint8) for position, nbytes in wanted.items()}


class _Stop(NamedTuple):
    """A goal that goes through a delta file, as tensor ``number`` of it."""

    goal: int
    number: int


def _decode_file(
    session: Session, file: DataFile, items: Items, stops: list[_Stop], opt: Options, salvage: bool
) -> dict[int, UlpackError]:
    try:
        decode_items(session.backend, file.stream, items, file.index, opt, salvage)
    except UlpackError as error:
        raise _of_step(error, file) from None
    found = item_errors(items, file.index) if salvage else {}
    return {stop.goal: _of_step(found[stop.number], file) for stop in stops if stop.number in found}


def _of_step(error: UlpackError, file: DataFile) -> UlpackError:
    prefix = f"step {file.owner.step}: "
    if not error.message.startswith(prefix):
        error.message = prefix + error.message
    return error


def _add(items: Items, file: DataFile, number: int, goal: Goal, scratch: np.ndarray | None) -> None:
    index = file.index
    out, before = goal.address, goal.address
    if scratch is not None:
        left = len(goal.links) - 1 - next(i for i, link in enumerate(goal.links) if link.owner == file.owner.id)
        other = scratch.__array_interface__["data"][0]
        out, before = (goal.address, other) if left % 2 == 0 else (other, goal.address)
    reference = None
    if index.references[number] is not None:
        reference = View(before, goal.nbytes, index.dtypes[number], index.shapes[number], goal.keep)
    if goal.count < 0:
        items.add(number, goal.nbytes, reference, out, (goal.keep, scratch))
    else:
        size = index.dtypes[number].itemsize
        out += goal.first * size
        items.add(number, goal.count * size, reference, out, (goal.keep, scratch), goal.first, goal.count)


class _Progress:
    """One bar over all delta files."""

    def __init__(self, opt: Options, session: Session, through: dict[str, list[_Stop]]) -> None:
        self.opt = opt
        self.done = 0
        self.sizes: dict[str, int] = {}
        if opt.progress is not None:
            for owner, stops in through.items():
                nbytes = session.stored_file(owner).index.nbytes
                self.sizes[owner] = sum(nbytes[stop.number] for stop in stops)

    def options(self) -> Options:
        show = self.opt.progress
        if show is None:
            return self.opt
        before, total = self.done, max(1, sum(self.sizes.values()))
        return self.opt._replace(progress=lambda done, _: show(min(before + done, total), total))

    def advance(self, owner: str) -> None:
        self.done += self.sizes.get(owner, 0)


def read_bytes(session: Session, links: list[Link]) -> bytes:
    """A value that is an array of bytes."""
    top = links[-1]
    index = session.stored_file(top.owner).index
    nbytes = index.nbytes[top.number]
    check_size(session, links, nbytes)
    data = np.empty(nbytes, np.uint8)
    decode(session, [Goal(links, data.__array_interface__["data"][0], nbytes, data)], Options(threads=1))
    return data.tobytes()


def check_size(session: Session, links: list[Link], nbytes: int) -> None:
    """Whether a value has this size at every link, so that the memory for it is enough.

    Raises:
        CorruptError: it does not.
    """
    for link in links:
        file = session.stored_file(link.owner)
        if file.index.nbytes[link.number] != nbytes:
            raise CorruptError(
                f"step {file.owner.step}: the value has another size than the one stored against it",
                tensor=file.index.names[link.number],
                path=file.index.path,
            )


__all__ = ["Goal", "Link", "check_size", "chunk_range", "decode", "read_bytes"]

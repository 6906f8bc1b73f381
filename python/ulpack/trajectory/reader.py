"""A step back into a state: all of it, some tensors, or rows of some."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._backend import Options
from .._buffers import Target, allocate, target_for
from .._dtypes import Dtype
from .._matching import NameIndex
from .._overlap import overlapping, span
from .._records import Salvaged
from .._structure import Parsed, collect, parse, resolve, tags
from ..errors import ArgumentError, CorruptError, UlpackError
from .contents import CONTENTS, STRUCTURE, Contents, file_name, values_hash
from .decode import Goal, check_size, chunk_range, decode
from .manifest import Manifest
from .session import Link, Session

Rows: TypeAlias = "slice | tuple[int, int] | None"
Names: TypeAlias = "str | Sequence[str] | Mapping[str, Rows] | None"

_GROUP = 256 << 20  # bytes on the host at a time when the tensors go to another device


class Place(NamedTuple):
    """Where the value of a tensor is: the links of its chain, and its form."""

    links: list[Link]
    dtype: Dtype
    shape: tuple[int, ...]
    nbytes: int
    fingerprint: int


class StepReader:
    """A step opened for reading.

    Raises:
        MissingFileError: the step or one that it needs is gone; the message names it.
        CorruptError: a file is damaged.
    """

    def __init__(self, session: Session, manifest: Manifest) -> None:
        self.session = session
        self.manifest = manifest
        self.contents: Contents = session.contents(manifest)
        self._owners = session.owners(manifest, len(self.contents.names))
        self._places: dict[int, Place] = {}

    def place(self, position: int) -> Place:
        """Where the value of the tensor at this position is."""
        position = self.contents.stored(position)
        if position not in self._places:
            name = file_name(self.contents.names[position])
            self._places[position] = self._place(self._owners.get(position, self.manifest), name)
        return self._places[position]

    def special(self, key: str) -> Place:
        """Where CONTENTS or STRUCTURE is."""
        return self._place(self.session.owner_of(self.manifest, key), key)

    def _place(self, owner: Manifest, name: str) -> Place:
        links = self.session.chain(owner, name)
        index, number = self.session.stored_file(links[-1].owner).index, links[-1].number
        check_size(self.session, links, index.nbytes[number])
        return Place(
            links, index.dtypes[number], index.shapes[number], index.nbytes[number], index.fingerprints[number]
        )

    def check_values(self) -> None:
        """Whether the values found are those that the state's identity stands for.

        Raises:
            CorruptError: they are not.
        """
        special = [self.special(key).fingerprint for key in (CONTENTS, STRUCTURE)]
        tensors = (self.place(position).fingerprint for position in range(len(self.contents.names)))
        if values_hash(special[0], special[1], tensors) != self.manifest.values:
            raise CorruptError(
                f"step {self.manifest.step}: its values are not those it was saved with",
                path=str(self.session.catalog.layout),
            )

    def parse(self) -> Parsed:
        """The nest around the tensors."""
        return parse(self.session.read(self.manifest, STRUCTURE), self.contents.names)


def load_step(
    session: Session,
    manifest: Manifest,
    opt: Options,
    *,
    names: Names = None,
    out: Any = None,
    device: Any = None,
    salvage: bool = False,
) -> Any:
    """Load a step; see ``Trajectory.load``."""
    reader = StepReader(session, manifest)
    parsed = reader.parse()
    wanted: dict[int, Rows]
    if names is None:
        reader.check_values()
        wanted = {position: None for position, kind in enumerate(parsed.kinds) if kind is not None}
    else:
        wanted = _wanted(reader.contents, names, manifest)
    loader = _Loader(reader, parsed, opt, out, device, salvage)
    loader.load(wanted)
    bad = {reader.contents.names[position]: error for position, error in loader.bad.items()}
    if names is not None:
        state: Any = {reader.contents.names[p]: loader.values[p] for p in wanted if p in loader.values}
    else:
        state = resolve(parsed.root, loader.values)
    return Salvaged(state, bad) if salvage else state


def _wanted(contents: Contents, names: str | Iterable[str] | Mapping[str, Rows], manifest: Manifest) -> dict[int, Rows]:
    positions = {name: position for position, name in enumerate(contents.names)}
    rows: Mapping[str, Rows] = (
        names if isinstance(names, Mapping) else dict.fromkeys([names] if isinstance(names, str) else names)
    )
    wanted: dict[int, Rows] = {}
    for name, part in rows.items():
        if name not in positions:
            raise ArgumentError(f"step {manifest.step} has no tensor {name!r}")
        wanted[positions[name]] = part
    return wanted


class _Loader:
    """Decodes tensors of a step into fresh memory, or into the caller's."""

    def __init__(self, reader: StepReader, parsed: Parsed, opt: Options, out: Any, device: Any, salvage: bool) -> None:
        self.reader = reader
        self.kinds = [tags.KIND_NUMPY if kind is None else kind for kind in parsed.kinds]
        self.opt = opt
        self.device = device
        self.salvage = salvage
        self._leaves = {} if out is None else {leaf.name: leaf.obj for leaf in collect(out)}
        self._outs = NameIndex(self._leaves)
        self.values: dict[int, Any] = {}
        self.bad: dict[int, UlpackError] = {}

    def load(self, wanted: Mapping[int, Rows]) -> None:
        whole = [position for position, rows in wanted.items() if rows is None]
        places: dict[int, Place] = {}
        for position in whole:
            with self._noting(position):
                places[position] = self.reader.place(position)
        for group in self._groups(places):
            self._load_group(group, places)
        for position, rows in wanted.items():
            if rows is not None:
                with self._noting(position):
                    self._load_rows(position, rows)

    def _noting(self, position: int) -> _Noting:
        return _Noting(self, position)

    def _groups(self, places: Mapping[int, Place]) -> list[list[int]]:
        """Tensors that are on the host together. Those with equal values stay in one group."""
        if self.device is None:
            return [list(places)]
        groups: list[list[int]] = [[]]
        size = 0
        for position in sorted(places, key=lambda p: (self.reader.contents.stored(p), p)):
            if size > _GROUP:
                groups.append([])
                size = 0
            groups[-1].append(position)
            size += places[position].nbytes
        return groups

    def _load_group(self, group: list[int], places: Mapping[int, Place]) -> None:
        targets = {p: self._target(p, places[p].dtype, places[p].shape) for p in group}
        if self._leaves:
            _check_memory(targets, self.reader.contents.names)
        first: dict[int, int] = {}  # a position for each stored value
        for position in group:
            first.setdefault(self.reader.contents.stored(position), position)
        order = list(first.values())
        goals = [Goal(places[p].links, targets[p].address, targets[p].nbytes, targets[p].value) for p in order]
        failed = decode(self.reader.session, goals, self.opt, salvage=self.salvage)
        for position in group:
            source = first[self.reader.contents.stored(position)]
            error = failed.get(order.index(source)) if failed else None
            if error is not None:
                self.bad[position] = error
                continue
            if source != position and targets[position].nbytes:
                ctypes.memmove(targets[position].address, targets[source].address, targets[position].nbytes)
        for position in group:
            if position not in self.bad:
                self._finish(position, targets[position])

    def _target(self, position: int, dtype: Dtype, shape: tuple[int, ...]) -> Target:
        name = self.reader.contents.names[position]
        found = next(self._outs.candidates(name), None) if self._leaves else None
        if found is not None:
            return target_for(self._leaves[found], dtype, shape, name)
        return allocate(self.kinds[position], dtype, shape)

    def _finish(self, position: int, target: Target) -> None:
        value = target.finish() if target.finish is not None else target.value
        if self.device is not None and self.kinds[position] == tags.KIND_TORCH and hasattr(value, "to"):
            value = value.to(self.device)
        self.values[position] = value

    def _load_rows(self, position: int, rows: Rows) -> None:
        """Rows of one tensor: of every delta file on the way only the chunks around them are decoded."""
        place = self.reader.place(position)
        begin, end = _row_range(rows, place.shape, self.reader.contents.names[position])
        shape = (end - begin, *place.shape[1:])
        row = 1
        for dim in place.shape[1:]:
            row *= dim
        first, count = chunk_range(place.dtype, row * place.shape[0], begin * row, (end - begin) * row)
        # Memory that is never touched is never taken from the system.
        whole = np.empty(place.nbytes, np.uint8)
        address = whole.__array_interface__["data"][0]
        if count:
            goal = Goal(place.links, address, place.nbytes, whole, first, count)
            for error in decode(self.reader.session, [goal], self.opt, salvage=self.salvage).values():
                raise error
        target = self._target(position, place.dtype, shape)
        if target.nbytes:
            ctypes.memmove(target.address, address + begin * row * place.dtype.itemsize, target.nbytes)
        self._finish(position, target)


class _Noting:
    """With salvage, an error in the block is noted for a tensor; else it is raised."""

    def __init__(self, loader: _Loader, position: int) -> None:
        self.loader = loader
        self.position = position

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not self.loader.salvage or not isinstance(error, UlpackError) or isinstance(error, ArgumentError):
            return False
        self.loader.bad[self.position] = error
        return True


def _row_range(rows: Rows, shape: tuple[int, ...], name: str) -> tuple[int, int]:
    if not shape:
        raise ArgumentError("a scalar has no rows", tensor=name)
    if isinstance(rows, tuple) and len(rows) == 2 and all(type(edge) is int for edge in rows):
        rows = slice(*rows)
    if not isinstance(rows, slice) or rows.step not in (None, 1):
        raise ArgumentError(f"rows are (begin, end) or a slice without a step, not {rows!r}", tensor=name)
    begin, end, _ = rows.indices(shape[0])
    return begin, max(begin, end)


def _check_memory(targets: Mapping[int, Target], names: Sequence[str]) -> None:
    outs = [(target.address, target.nbytes, position) for position, target in targets.items()]
    outs += [(*span(target.value), position) for position, target in targets.items() if target.finish is not None]
    for first, second in overlapping(outs):
        if first != second:
            raise ArgumentError(f"out shares memory with that of {names[second]!r}", tensor=names[first])

"""A state into a delta file and a manifest."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from .. import _files
from .._backend import Backend, Options, Stream, Table
from .._buffers import View, view_bytes
from .._index import Index, read_index
from .._matching import NameIndex
from .._options import metadata_bytes
from .._save import check_written, write
from ..errors import InternalError, StorageError, from_os
from .contents import (
    CONTENTS,
    STRUCTURE,
    Contents,
    encode_contents,
    file_name,
    values_hash,
    write_ranges,
)
from .layout import Layout, data_name, step_of
from .manifest import Data, Manifest
from .manifest import encode as encode_manifest
from .policy import Policy
from .session import read_tail
from .state import Held, State, Value


class Incoming(NamedTuple):
    """A state to be stored.

    Attributes:
        step: its number.
        views: its tensors by name, in order.
        structure: the nest around them (go/FORMAT.md, "Structure").
        kind: of its manifest.
        tags, metrics: the user's.
    """

    step: int
    views: Mapping[str, View]
    structure: bytes
    kind: str = "state"
    tags: tuple[str, ...] = ()
    metrics: Mapping[str, float] = {}


class Identified(NamedTuple):
    """An incoming state, hashed.

    Attributes:
        incoming: the state.
        contents: its tensors.
        values: hash of everything.
        views, fingerprints: what there is to store, by name in the delta file, CONTENTS and STRUCTURE first.
        raw_nbytes: bytes of the tensors that are stored.
    """

    incoming: Incoming
    contents: Contents
    values: str
    views: dict[str, View]
    fingerprints: dict[str, int]
    raw_nbytes: int

    @property
    def id(self) -> str:
        """Identity of the state."""
        return f"{self.incoming.step}.{self.values}"


def identify(backend: Backend, incoming: Incoming) -> Identified:
    """Hash a state and find tensors with equal values."""
    names = tuple(incoming.views)
    found = _fingerprints(backend, incoming.views.values())
    first: dict[int, int] = {}
    same: dict[int, int] = {}
    for position, fingerprint in enumerate(found):
        stored = first.setdefault(fingerprint, position)
        if stored != position:
            same[position] = stored
    contents = Contents(names, same)
    special = {CONTENTS: view_bytes(encode_contents(contents)), STRUCTURE: view_bytes(incoming.structure)}
    hashes = _fingerprints(backend, special.values())
    views: dict[str, View] = dict(special)
    fingerprints = dict(zip(special, hashes, strict=True))
    for position, name in enumerate(names):
        if position not in same:
            views[file_name(name)] = incoming.views[name]
            fingerprints[file_name(name)] = found[position]
    raw = sum(memory.nbytes for name, memory in views.items() if name not in special)
    return Identified(incoming, contents, values_hash(hashes[0], hashes[1], found), views, fingerprints, raw)


def _fingerprints(backend: Backend, views: object) -> list[int]:
    table = Table()
    for number, memory in enumerate(views):  # type: ignore[arg-type,var-annotated]
        table.add(str(number), memory)
    return backend.fingerprints(table) if table.names else []


class Encoded(NamedTuple):
    """What a delta file would be like: refused ones are never seen by anybody."""

    data: Data | None
    base: str | None
    kept: dict[str, str]
    state: State


class Encoder:
    """Writes delta files and manifests into a store. Knows nothing of steps but what it is told."""

    def __init__(self, layout: Layout, backend: Backend, opt: Options, policy: Policy, verify: bool) -> None:
        self.layout = layout
        self.backend = backend
        self.opt = opt
        self.policy = policy
        self.verify = verify

    def write_data(
        self,
        new: Identified,
        revision: int,
        known: State | None,
        reference: Held | None,
        *,
        shallow: bool,
        accept: Callable[[Encoded], bool],
    ) -> Encoded | None:
        """Write a delta file with what is new in a state.

        Args:
            new: the state.
            revision: for the name of the file.
            known: a state of which values that have not changed are used where they are; None: every value is written.
            reference: what the rest is coded against; None for nothing.
            shallow: use only values that are large and decoded without a reference, and write all others again: the
                state is to begin a chain, and its chain should not break with another one.
            accept: whether the result will do; if not, nothing is written and None is returned.

        Raises:
            StorageError: it cannot be written. Nothing has changed.
        """
        kept, rest = _split(new, known, shallow)
        if not rest:
            encoded = Encoded(None, None, _kept_text(new, kept), _state(new, kept, None, known, None))
            return encoded if accept(encoded) else None
        table = _table(new, rest, reference)
        metadata: dict[str, object] = {"step": new.incoming.step}
        if reference is not None:
            metadata["reference"] = reference.state.id
        path = self.layout.data / data_name(new.incoming.step, new.values, revision)
        label = os.fspath(path)
        try:
            with _files.output(path) as fd:
                saved = write(self.backend, fd, table, b"", metadata_bytes(metadata), self.opt, label)
                if self.verify:
                    check_written(self.backend, fd, table, b"", saved, self.opt, label)
                index = read_index(self.backend, Stream(fd=fd), label)
                _check(index, new, rest, reference, label)
                nbytes = os.fstat(fd).st_size
                data = Data(path.name, nbytes, read_tail(fd, nbytes), _sha256(fd))
                base = reference.state.id if reference is not None and any(index.references) else None
                encoded = Encoded(data, base, _kept_text(new, kept), _state(new, kept, index, known, reference))
                if not accept(encoded):
                    raise _RefusedError
        except _RefusedError:
            return None
        except StorageError:
            raise
        except OSError as error:
            raise from_os(error, label) from error
        return encoded

    def write_manifest(self, manifest: Manifest) -> None:
        """Write a manifest: from now on the state is there.

        Raises:
            StorageError: it cannot be written. Nothing has changed.
        """
        path = self.layout.steps / str(manifest.name)
        raw = encode_manifest(manifest)
        with _files.output(path) as fd:
            view = memoryview(raw)
            while view:
                view = view[os.write(fd, view) :]

    def manifest(self, new: Identified, encoded: Encoded, *, line: int, revision: int, parent: str | None) -> Manifest:
        """The manifest of a state that has just been encoded."""
        return Manifest(
            step=new.incoming.step,
            values=new.values,
            line=line,
            revision=revision,
            saved=now(),
            parent=parent,
            kind=new.incoming.kind,
            tensors=len(new.contents.names),
            raw_nbytes=new.raw_nbytes,
            data=encoded.data,
            base=encoded.base,
            chain=(encoded.state.nbytes, encoded.state.depth),
            tags=new.incoming.tags,
            metrics=dict(new.incoming.metrics),
            kept=encoded.kept,
        )


def recoded(manifest: Manifest, encoded: Encoded, revision: int, *, hidden: bool | None = None) -> Manifest:
    """The manifest of a state that was encoded again."""
    return dataclasses.replace(
        manifest,
        revision=revision,
        data=encoded.data,
        base=encoded.base,
        kept=encoded.kept,
        chain=(encoded.state.nbytes, encoded.state.depth),
        hidden=manifest.hidden if hidden is None else hidden,
    )


_SMALL = 256  # a value with less than this part of all bytes is small


class _RefusedError(Exception):
    """Leaves the block that writes a file without leaving a file."""


def now(after: str = "") -> str:
    """The time, UTC, to the millisecond; later than ``after`` whatever the clock says."""
    text = _text(datetime.now(timezone.utc))
    return text if text > after else _text(datetime.strptime(after, _TIME) + timedelta(milliseconds=1))


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"


_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def _split(new: Identified, known: State | None, shallow: bool) -> tuple[dict[str, Value], list[str]]:
    """Values that are used where they are, and the names of those to write."""
    kept: dict[str, Value] = {}
    rest: list[str] = []
    for name, fingerprint in new.fingerprints.items():
        value = known.values.get(name) if known is not None else None
        small = new.views[name].nbytes * _SMALL < new.raw_nbytes
        if value is None or value.fingerprint != fingerprint or (shallow and (small or len(value.owners) > 1)):
            rest.append(name)
        else:
            kept[name] = value
    return kept, rest


def _kept_text(new: Identified, kept: Mapping[str, Value]) -> dict[str, str]:
    """As in the manifest: which values lie in the delta file of which state."""
    words: dict[str, list[str]] = {}
    positions: dict[str, list[int]] = {}
    numbers = {file_name(name): number for number, name in enumerate(new.contents.names)}
    for name, value in kept.items():
        owner = value.owners[-1]
        if name in numbers:
            positions.setdefault(owner, []).append(numbers[name])
        else:
            words.setdefault(owner, []).append("contents" if name == CONTENTS else "structure")
    owners = sorted({*words, *positions}, key=lambda owner: (step_of(owner), owner))
    return {
        owner: " ".join([*words.get(owner, ()), *filter(None, [write_ranges(sorted(positions.get(owner, ())))])])
        for owner in owners
    }


def _table(new: Identified, names: list[str], reference: Held | None) -> Table:
    table = Table()
    index = NameIndex({**reference.views, **reference.state.same}) if reference is not None else None
    for name in names:
        memory = new.views[name]
        found: tuple[str, View] | None = None
        if reference is not None and index is not None and memory.nbytes:
            for candidate in index.candidates(name):
                stored = reference.state.same.get(candidate, candidate)
                other = reference.views[stored]
                if (other.dtype, other.shape) == (memory.dtype, memory.shape):
                    found = stored, other
                    break
        table.add(name, memory, *((found[1], found[0]) if found else ()))
    return table


def _check(index: Index, new: Identified, names: list[str], reference: Held | None, path: str) -> None:
    """Whether a file says what it should: memory that changed under the encoder must not become a step."""
    for name, fingerprint, needed in zip(names, index.fingerprints, index.references, strict=True):
        right = fingerprint == new.fingerprints[name]
        if needed is not None:
            right = right and reference is not None and reference.state.values[needed[0]].fingerprint == needed[1]
        if not right:
            raise InternalError("the values changed while they were stored", tensor=name, path=path)


def _state(
    new: Identified, kept: Mapping[str, Value], index: Index | None, known: State | None, reference: Held | None
) -> State:
    """The new state as it is stored: what it keeps, and what is in the new delta file."""
    values: dict[str, Value] = dict(kept)
    overheads: dict[str, int] = {}
    for state in (known, reference and reference.state):
        overheads.update(state.overheads if state is not None else {})
    if index is not None:
        own = 0
        for name, tensor, needed in zip(index.names, index.raw["tensors"], index.references, strict=True):
            nbytes = tensor["blob_nbytes"]
            own += nbytes
            below = reference.state.values[needed[0]] if reference is not None and needed is not None else None
            owners = (*(below.owners if below else ()), new.id)
            values[name] = Value(new.fingerprints[name], owners, nbytes + (below.nbytes if below else 0))
        overheads[new.id] = index.raw["file_nbytes"] - own
    used = {owner for value in values.values() for owner in value.owners}
    names = new.contents.names
    same = {file_name(names[i]): file_name(names[j]) for i, j in new.contents.same.items()}
    return State(new.id, values, same, {owner: nbytes for owner, nbytes in overheads.items() if owner in used})


def _sha256(fd: int) -> str:
    digest = hashlib.sha256()
    os.lseek(fd, 0, os.SEEK_SET)
    while part := os.read(fd, 1 << 20):
        digest.update(part)
    return digest.hexdigest()

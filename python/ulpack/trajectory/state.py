"""What the writer knows of a stored state: its values, where they are, and what reading them costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .._backend import Options
from .._buffers import View
from .contents import CONTENTS, STRUCTURE, Contents, file_name
from .decode import Goal, decode
from .manifest import Manifest
from .memory import Arena
from .reader import Place, StepReader
from .session import Session


class Value(NamedTuple):
    """A stored value.

    Attributes:
        fingerprint: of dtype, shape and bits.
        owners: identities of the states through whose delta files it is decoded, the one that holds it last.
        nbytes: bytes of its blobs in all of them.
    """

    fingerprint: int
    owners: tuple[str, ...]
    nbytes: int


class State:
    """A stored state.

    Attributes:
        id: its identity.
        values: by name in the delta files, CONTENTS and STRUCTURE among them; of tensors with equal values only the
            first.
        same: names of the other ones, and the name under which their value is.
        overheads: bytes of each delta file it is read from that are not blobs.
    """

    def __init__(
        self, identity: str, values: dict[str, Value], same: dict[str, str], overheads: dict[str, int]
    ) -> None:
        self.id = identity
        self.values = values
        self.same = same
        self.overheads = overheads

    @property
    def nbytes(self) -> int:
        """Bytes that are read to load it, at most."""
        return sum(value.nbytes for value in self.values.values()) + sum(self.overheads.values())

    @property
    def depth(self) -> int:
        """Delta files that the deepest value is decoded through."""
        return max((len(value.owners) for value in self.values.values()), default=0)

    @property
    def root(self) -> str:
        """Identity of the state at the bottom of the deepest chain."""
        return max(self.values.values(), key=lambda value: len(value.owners)).owners[0] if self.values else self.id


class Held(NamedTuple):
    """A stored state in memory: what a next one can be coded against. ``views`` by name, as ``State.values``."""

    state: State
    views: dict[str, View]
    contents: Contents


class OnDisk(NamedTuple):
    """A state as it is on disk, and the place of each of its values."""

    state: State
    places: dict[str, Place]
    contents: Contents


def read_state(session: Session, manifest: Manifest) -> OnDisk:
    """What is on disk of a state, from the indexes of its delta files."""
    reader = StepReader(session, manifest)
    reader.check_values()
    places = dict(_places(session, manifest, reader))
    values: dict[str, Value] = {}
    overheads: dict[str, int] = {}
    for name, place in places.items():
        nbytes = 0
        for link in place.links:
            index = session.stored_file(link.owner).index
            nbytes += index.raw["tensors"][link.number]["blob_nbytes"]
            if link.owner not in overheads:
                blobs = sum(tensor["blob_nbytes"] for tensor in index.raw["tensors"])
                overheads[link.owner] = index.raw["file_nbytes"] - blobs
        values[name] = Value(place.fingerprint, tuple(link.owner for link in place.links), nbytes)
    names = reader.contents.names
    same = {file_name(names[i]): file_name(names[j]) for i, j in reader.contents.same.items()}
    return OnDisk(State(manifest.id, values, same, overheads), places, reader.contents)


def _places(session: Session, manifest: Manifest, reader: StepReader) -> Iterator[tuple[str, Place]]:
    for key in (CONTENTS, STRUCTURE):
        yield key, reader.special(key)
    for position, name in enumerate(reader.contents.names):
        if position not in reader.contents.same:
            yield file_name(name), reader.place(position)


def load_state(session: Session, manifest: Manifest, arena: Arena, opt: Options) -> Held:
    """Decode all values of a state into an arena."""
    state, places, contents = read_state(session, manifest)
    arena.lay_out([place.nbytes for place in places.values()])
    views: dict[str, View] = {}
    goals: list[Goal] = []
    for number, (name, place) in enumerate(places.items()):
        address = arena.address(number)
        views[name] = View(address, place.nbytes, place.dtype, place.shape, arena.buffer)
        goals.append(Goal(place.links, address, place.nbytes, arena.buffer))
    decode(session, goals, opt._replace(progress=None), spare=False)  # two blocks of this size are there already
    return Held(state, views, contents)

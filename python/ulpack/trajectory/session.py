"""The data files that one read uses: opened once, checked against their manifests, closed together."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import NamedTuple

from .._backend import Backend, Stream
from .._index import Index, read_index
from ..errors import CorruptError, MissingFileError, TruncatedError, UlpackError, from_os
from .catalog import Catalog
from .contents import CONTENTS, STRUCTURE, Contents, decode_contents, file_name, read_ranges
from .manifest import Manifest

_FOOTER = struct.Struct("<QLLQ8s")
_BINARY = getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class DataFile:
    """An open data file.

    Attributes:
        owner: the manifest it belongs to.
        stream: the open file.
        index: its index.
        numbers: number of each tensor by name.
    """

    owner: Manifest
    stream: Stream
    index: Index
    numbers: dict[str, int]


class Link(NamedTuple):
    """A value as one delta file holds it: identity of the state and number of the tensor in its file."""

    owner: str
    number: int


class Session:
    """What one read has open. A context manager."""

    def __init__(self, catalog: Catalog, backend: Backend) -> None:
        self.catalog = catalog
        self.backend = backend
        self._open: dict[str, DataFile | None] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            if file is not None:
                os.close(file.stream.fd)
        self._open.clear()

    def file(self, manifest: Manifest, needed_by: Manifest | None = None) -> DataFile | None:
        """The data file of a state; None if it has none.

        Raises:
            MissingFileError: it is not there; the message names the step.
            CorruptError: it is not the file that the manifest was written for.
        """
        if manifest.id not in self._open:
            try:
                self._open[manifest.id] = self._open_file(manifest)
            except MissingFileError as error:
                of = "its delta file" if needed_by in (None, manifest) else f"the delta file of step {manifest.step}"
                step = manifest.step if needed_by is None else needed_by.step
                missing = MissingFileError(f"step {step} needs {of}, which is missing", path=error.path)
                missing.errno = error.errno
                raise missing from None
        return self._open[manifest.id]

    def _open_file(self, manifest: Manifest) -> DataFile | None:
        data = manifest.data
        if data is None:
            return None
        path = os.fspath(self.catalog.layout.data / data.file)
        try:
            fd = os.open(path, os.O_RDONLY | _BINARY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise from_os(error, path) from error
        try:
            check_file(fd, manifest, path)
            index = read_index(self.backend, Stream(fd=fd), path)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError) and not isinstance(error, UlpackError):
                raise from_os(error, path) from error
            raise
        return DataFile(manifest, Stream(fd=fd), index, {name: n for n, name in enumerate(index.names)})

    # Where values are

    def chain(self, manifest: Manifest, name: str) -> list[Link]:
        """The links through which a value of this state's own delta file is decoded, the first one needing nothing.

        Raises:
            MissingFileError: a step on the way is gone; the message names it.
            CorruptError: the value a link needs is not where it should be.
        """
        links: list[Link] = []
        top = manifest
        file = self.file(manifest, top)
        if file is None or name not in file.numbers:
            raise CorruptError(
                f"step {manifest.step} does not hold the values it should", path=str(self.catalog.layout)
            )
        number = file.numbers[name]
        while True:
            links.append(Link(file.owner.id, number))
            reference = file.index.references[number]
            if reference is None:
                links.reverse()
                return links
            file, number = self._reference(file, *reference, top)
            if Link(file.owner.id, number) in links:
                raise CorruptError(f"step {top.step} needs itself", path=str(self.catalog.layout))

    def _reference(self, file: DataFile, name: str, fingerprint: int, top: Manifest) -> tuple[DataFile, int]:
        """Where the value is that a tensor of ``file`` is decoded against."""
        if file.owner.base is None:
            raise CorruptError("needs a reference, but its step has no base", tensor=name, path=file.index.path)
        base = self.catalog.manifest(file.owner.base, top)
        for identity in (base.id, *base.kept):
            owner = base if identity == base.id else self.catalog.manifest(identity, top)
            found = self.file(owner, top)
            number = None if found is None else found.numbers.get(name)
            if found is not None and number is not None and found.index.fingerprints[number] == fingerprint:
                return found, number
        raise CorruptError(
            f"step {base.step} does not hold the value that it was stored against",
            tensor=name,
            path=file.index.path,
        )

    def owners(self, manifest: Manifest, count: int) -> dict[int | str, Manifest]:
        """For each value that the state does not hold in its own delta file, the state that does.

        Keys are positions of tensors (of ``count``), CONTENTS and STRUCTURE.
        """
        places: dict[int | str, Manifest] = {}
        for identity, text in manifest.kept.items():
            owner = self.catalog.manifest(identity, manifest)
            words = text.split()
            for word, key in (("contents", CONTENTS), ("structure", STRUCTURE)):
                if word in words:
                    places[key] = owner
                    words.remove(word)
            try:
                places.update(dict.fromkeys(read_ranges(" ".join(words), count), owner))
            except ValueError as error:
                path = os.fspath(self.catalog.layout.steps / str(manifest.name))
                raise CorruptError(f"the manifest of step {manifest.step} is damaged: {error}", path=path) from None
        return places

    def owner_of(self, manifest: Manifest, key: str) -> Manifest:
        """The state whose delta file holds CONTENTS or STRUCTURE of this one."""
        word = "contents" if key == CONTENTS else "structure"
        for identity, text in manifest.kept.items():
            if word in text.split():
                return self.catalog.manifest(identity, manifest)
        return manifest

    def contents(self, manifest: Manifest) -> Contents:
        """Names of the state's tensors."""
        contents = decode_contents(self.read(manifest, CONTENTS), str(self.catalog.layout))
        if len(contents.names) != manifest.tensors:
            raise CorruptError(
                f"step {manifest.step} does not have the tensors it should", path=str(self.catalog.layout)
            )
        return contents

    def read(self, manifest: Manifest, key: str) -> bytes:
        """CONTENTS or STRUCTURE of a state."""
        from .decode import read_bytes

        owner = self.owner_of(manifest, key)
        return read_bytes(self, self.chain(owner, key))

    def stored_file(self, identity: str) -> DataFile:
        """A data file that a chain goes through."""
        file = self._open[identity]
        assert file is not None
        return file


def stored_name(contents: Contents, position: int) -> str:
    """Name in the delta file of the value of a tensor."""
    return file_name(contents.names[contents.stored(position)])


def check_file(fd: int, manifest: Manifest, path: str) -> None:
    """Whether an open data file is the one of a manifest, by size and by the checksum of its index.

    Raises:
        TruncatedError, CorruptError: it is not.
    """
    data = manifest.data
    assert data is not None
    nbytes = os.fstat(fd).st_size
    if nbytes < data.nbytes:
        raise TruncatedError(f"step {manifest.step}: the file has {nbytes} of {data.nbytes} bytes", path=path)
    if nbytes != data.nbytes or read_tail(fd, nbytes) != data.tail:
        raise CorruptError(f"this is not the file that step {manifest.step} was saved in", path=path)


def read_tail(fd: int, nbytes: int) -> str:
    """The checksum in the footer of a delta file (go/FORMAT.md, section 5), which covers all fingerprints in it."""
    os.lseek(fd, max(0, nbytes - _FOOTER.size), os.SEEK_SET)
    raw = os.read(fd, _FOOTER.size)
    return f"{_FOOTER.unpack(raw)[3]:016x}" if len(raw) == _FOOTER.size else ""

"""The original files written again from an image."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from .. import _files
from .._backend import Backend, Items, Options, Stream
from .._binding import bind
from .._dtypes import Dtype
from .._index import Index
from .._load import decode_items
from .._safetensors import canonical_header
from .._sources import References
from ..errors import CorruptError, FileExistsStorageError, from_os
from .layout import File, Header, Image, Literal, Rest, Tensors


class _Layout(NamedTuple):
    """Where things go in a file: literal bytes, (position, tensor), and (position, begin, length) of the rest."""

    size: int
    literals: list[tuple[int, bytes]]
    tensors: list[tuple[int, int]]
    rest: list[tuple[int, int, int]]


def _lay_out(file: File, forms: Forms) -> _Layout:
    literals: list[tuple[int, bytes]] = []
    tensors: list[tuple[int, int]] = []
    rest: list[tuple[int, int, int]] = []
    position = used = 0
    for segment in file.segments:
        if isinstance(segment, Tensors):
            for number in range(segment.first, segment.first + segment.number):
                tensors.append((position, number))
                position += forms.nbytes[number]
        elif isinstance(segment, Rest):
            rest.append((position, used, segment.length))
            position += segment.length
            used += segment.length
        else:
            data = segment.data if isinstance(segment, Literal) else _header(segment, forms)
            literals.append((position, data))
            position += len(data)
    if used != (forms.nbytes[file.rest] if file.rest >= 0 else 0):
        raise CorruptError(f"the image does not use all of the rest of {file.path!r}", path=forms.path)
    return _Layout(position, literals, tensors, rest)


def _header(segment: Header, forms: Forms) -> bytes:
    numbers = range(segment.first, segment.first + segment.number)
    header = canonical_header(segment.metadata, ((forms.names[n], forms.dtypes[n], forms.shapes[n]) for n in numbers))
    if header is None:
        raise CorruptError("the image has a safetensors header with a dtype unknown there", path=forms.path)
    return header


class Forms(Protocol):
    """The tensors that an image is made of: an ``Index``, or whatever else knows their forms."""

    @property
    def path(self) -> str | None: ...
    @property
    def names(self) -> Sequence[str]: ...
    @property
    def dtypes(self) -> Sequence[Dtype]: ...
    @property
    def shapes(self) -> Sequence[tuple[int, ...]]: ...
    @property
    def nbytes(self) -> Sequence[int]: ...


def restore(
    backend: Backend,
    stream: Stream,
    index: Index,
    image: Image,
    references: References,
    out: Path,
    opt: Options,
    *,
    force: bool,
) -> int:
    """Write the files of an image to ``out``, complete or not at all; returns their bytes.

    Raises:
        FileExistsStorageError: ``out`` is there and ``force`` is not set.
        WrongReferenceError, CorruptError, ..: as when loading; ``out`` is untouched.
    """
    binding = bind(backend, index, references, sorted(used_tensors(image)))
    binding.check()

    def decode(memory: Mapping[int, np.ndarray]) -> None:
        items = Items()
        for number, target in memory.items():
            address = target.__array_interface__["data"][0] if target.size else 0
            items.add(number, index.nbytes[number], binding.views.get(number), address, target)
        binding.lend(items, index)
        decode_items(backend, stream, items, index, opt, salvage=False)

    return write_files(image, index, out, decode, force=force)


def used_tensors(image: Image) -> set[int]:
    """Numbers of the tensors that an image is made of."""
    used = {file.rest for file in image.files if file.rest >= 0}
    for file in image.files:
        for segment in file.segments:
            if isinstance(segment, Tensors):
                used.update(range(segment.first, segment.first + segment.number))
    return used


def write_files(
    image: Image, forms: Forms, out: Path, decode: Callable[[Mapping[int, np.ndarray]], None], *, force: bool
) -> int:
    """Write the files of an image to ``out``, complete or not at all; returns their bytes.

    Args:
        image: the files.
        forms: names, dtypes, shapes and bytes of all tensors.
        out: where they go.
        decode: gets memory for every tensor of the image, by number, and fills it: mostly the mapped output itself.
        force: replace what is there.

    Raises:
        FileExistsStorageError: ``out`` is there and ``force`` is not set.
    """
    layouts = [_lay_out(file, forms) for file in image.files]
    if os.path.lexists(out) and not force:
        raise FileExistsStorageError("it is already there; --force replaces it", path=os.fspath(out))

    with _outputs(image, out) as descriptors:
        _fill(image, layouts, forms, descriptors, out, decode)
    return sum(layout.size for layout in layouts)


def _fill(
    image: Image,
    layouts: list[_Layout],
    forms: Forms,
    descriptors: list[int],
    out: Path,
    decode: Callable[[Mapping[int, np.ndarray]], None],
) -> None:
    memories = [_map(fd, layout.size, out) for fd, layout in zip(descriptors, layouts, strict=True)]
    places: dict[int, np.ndarray] = {}
    copies: list[tuple[np.ndarray, int]] = []
    for memory, layout in zip(memories, layouts, strict=True):
        for position, number in layout.tensors:
            place = memory[position : position + forms.nbytes[number]]
            if number in places:
                copies.append((place, number))
            else:
                places[number] = place
    for file in image.files:
        if file.rest >= 0 and file.rest not in places:
            places[file.rest] = np.empty(forms.nbytes[file.rest], np.uint8)
    decode(places)
    for place, number in copies:
        place[:] = places[number]
    for file, memory, layout in zip(image.files, memories, layouts, strict=True):
        for position, data in layout.literals:
            memory[position : position + len(data)] = np.frombuffer(data, np.uint8)
        for position, begin, length in layout.rest:
            memory[position : position + length] = places[file.rest][begin : begin + length]


def _map(fd: int, size: int, path: Path) -> np.ndarray:
    """An output file of this size as writable bytes; its disk space is taken now, not by a fault in the middle."""
    if size == 0:
        return np.empty(0, np.uint8)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:
            os.ftruncate(fd, size)
        return np.frombuffer(mmap.mmap(fd, size), np.uint8)
    except (OSError, OverflowError) as error:
        raise from_os(error if isinstance(error, OSError) else OSError(str(error)), os.fspath(path)) from error


@contextlib.contextmanager
def _outputs(image: Image, out: Path) -> Iterator[list[int]]:
    """Descriptors for the files, which appear together when the block ends well."""
    if not image.folder:
        with _files.output(out) as fd:
            yield [fd]
        return
    target = Path(os.path.realpath(out))
    temporary = target.with_name(f".{target.name[:180]}.{secrets.token_hex(6)}.ulp-tmp")
    try:
        descriptors: list[int] = []
        try:
            temporary.mkdir(parents=True)
            for file in image.files:
                place = temporary / file.path
                place.parent.mkdir(parents=True, exist_ok=True)
                descriptors.append(
                    os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
                )
            yield descriptors
            for fd in descriptors:
                os.fsync(fd)
        except OSError as error:
            raise from_os(error, os.fspath(out)) from error
        finally:
            for fd in descriptors:
                os.close(fd)
        for folder, _, _ in os.walk(temporary):
            _files.sync_folder(folder)
        _replace(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _files.sync_folder(os.fspath(target.parent))


def _replace(temporary: Path, target: Path) -> None:
    """Put a folder in place of what is there, which goes only once the new one is in place."""
    old = temporary.with_name(temporary.name + "-old")
    if os.path.lexists(target):
        os.rename(target, old)
    try:
        os.rename(temporary, target)
    except BaseException:
        if os.path.lexists(old):
            os.rename(old, target)
        raise
    if os.path.lexists(old):
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()

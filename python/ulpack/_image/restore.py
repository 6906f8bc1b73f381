"""The original files written again from an image."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import _files
from .._backend import Backend, Items, Options, Stream
from .._binding import bind
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


def _lay_out(file: File, index: Index) -> _Layout:
    literals: list[tuple[int, bytes]] = []
    tensors: list[tuple[int, int]] = []
    rest: list[tuple[int, int, int]] = []
    position = used = 0
    for segment in file.segments:
        if isinstance(segment, Tensors):
            for number in range(segment.first, segment.first + segment.number):
                tensors.append((position, number))
                position += index.nbytes[number]
        elif isinstance(segment, Rest):
            rest.append((position, used, segment.length))
            position += segment.length
            used += segment.length
        else:
            data = segment.data if isinstance(segment, Literal) else _header(segment, index)
            literals.append((position, data))
            position += len(data)
    if used != (index.nbytes[file.rest] if file.rest >= 0 else 0):
        raise CorruptError(f"the image does not use all of the rest of {file.path!r}", path=index.path)
    return _Layout(position, literals, tensors, rest)


def _header(segment: Header, index: Index) -> bytes:
    numbers = range(segment.first, segment.first + segment.number)
    header = canonical_header(segment.metadata, ((index.names[n], index.dtypes[n], index.shapes[n]) for n in numbers))
    if header is None:
        raise CorruptError("the image has a safetensors header with a dtype unknown there", path=index.path)
    return header


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

    Tensors are decoded straight into the mapped output.

    Raises:
        FileExistsStorageError: ``out`` is there and ``force`` is not set.
        WrongReferenceError, CorruptError, ..: as when loading; ``out`` is untouched.
    """
    layouts = [_lay_out(file, index) for file in image.files]
    used = {number for layout in layouts for _, number in layout.tensors}
    used |= {file.rest for file in image.files if file.rest >= 0}
    binding = bind(backend, index, references, sorted(used))
    binding.check()
    if os.path.lexists(out) and not force:
        raise FileExistsStorageError("it is already there; --force replaces it", path=os.fspath(out))

    with contextlib.ExitStack() as stack:
        descriptors = stack.enter_context(_outputs(image, out))
        memories = [_map(fd, layout.size, out) for fd, layout in zip(descriptors, layouts, strict=True)]
        items = Items()
        places: dict[int, tuple[np.ndarray, int]] = {}
        copies: list[tuple[np.ndarray, int, int]] = []
        for memory, layout in zip(memories, layouts, strict=True):
            base = memory.__array_interface__["data"][0] if memory.size else 0
            for position, number in layout.tensors:
                if number in places:
                    copies.append((memory, position, number))
                    continue
                places[number] = memory, position
                items.add(number, index.nbytes[number], binding.views.get(number), base + position, memory)
        rests: dict[int, np.ndarray] = {}
        for file in image.files:
            if file.rest >= 0 and file.rest not in places and file.rest not in rests:
                rests[file.rest] = np.empty(index.nbytes[file.rest], np.uint8)
                address = rests[file.rest].__array_interface__["data"][0]
                items.add(file.rest, index.nbytes[file.rest], binding.views.get(file.rest), address)
        decode_items(backend, stream, items, index, opt, salvage=False)
        for memory, position, number in copies:
            source, start = places[number]
            memory[position : position + index.nbytes[number]] = source[start : start + index.nbytes[number]]
        for file, memory, layout in zip(image.files, memories, layouts, strict=True):
            for position, data in layout.literals:
                memory[position : position + len(data)] = np.frombuffer(data, np.uint8)
            if layout.rest:
                if file.rest in rests:
                    whole = rests[file.rest]
                else:
                    source, start = places[file.rest]
                    whole = source[start : start + index.nbytes[file.rest]]
                for position, begin, length in layout.rest:
                    memory[position : position + length] = whole[begin : begin + length]
        del memories, places, copies, items
    return sum(layout.size for layout in layouts)


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

"""Checkpoint files taken apart into tensors and the bytes around them, all mapped."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._buffers import View, view
from .._safetensors import SafetensorsFile, canonical_header, map_file
from .._sources import load_torch_file
from .._structure import Leaf, pack_value, tags
from ..errors import CorruptError, LimitError, MissingFileError, UnsupportedError
from .layout import Header, Rest, Segment, Tensors

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")


class Piece(NamedTuple):
    """One tensor of a file, under the name it has there."""

    name: str
    view: View


class Scanned(NamedTuple):
    """A file taken apart.

    Attributes:
        pieces: its tensors.
        aliases: further names of tied tensors, and which pieces they are.
        nest: what it holds, as a nest; None when the file is just bytes or a flat dict of its pieces.
        flat: whether it is a flat dict of its pieces.
        segments: the file in order; tensors count from the file's first.
        rest: what of the file is not tensors, joined; None if nothing is.
    """

    pieces: list[Piece]
    nest: Any
    flat: bool
    segments: list[Segment]
    rest: np.ndarray | None
    aliases: list[tuple[str, int]] = []  # noqa: RUF012


def files_of(path: Path) -> list[tuple[str, Path]]:
    """The files of a checkpoint as (relative path, path), sorted; a single file under its name.

    Links to files count as files (as in the cache of Hugging Face); links to folders are passed over.
    """
    if path.is_file():
        return [(path.name, path)]
    if not path.is_dir():
        raise MissingFileError("no such file or folder", path=os.fspath(path))
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            if file.is_file():
                found.append((file.relative_to(path).as_posix(), file))
    for name, file in found:
        if "\\" in name or not name.isprintable():
            raise UnsupportedError("the name of this file cannot be stored", path=os.fspath(file))
    return sorted(found)


def scan(path: Path, *, as_bytes: bool = False) -> Scanned:
    """Take a file apart as what its suffix says, or as mere bytes where that fails or is asked for."""
    if as_bytes:
        return _scan_bytes(path)
    if path.suffix == ".safetensors":
        try:
            return _scan_safetensors(SafetensorsFile(path))
        except CorruptError:
            return _scan_bytes(path)
    if path.suffix in TORCH_SUFFIXES:
        try:
            found = _scan_torch(path)
        except (UnsupportedError, LimitError):
            found = None
        if found is not None:
            return found
    return _scan_bytes(path)


def _scan_bytes(path: Path) -> Scanned:
    data = map_file(path)
    return Scanned([], None, False, [Rest(data.nbytes)] if data.nbytes else [], data)


def _scan_safetensors(file: SafetensorsFile) -> Scanned:
    entries = file.in_file_order()
    pieces = [Piece(entry.name, file.view(entry)) for entry in entries]
    tensors: list[Segment] = [Tensors(0, len(pieces))] if pieces else []
    if canonical_header(file.metadata, ((e.name, e.dtype, e.shape) for e in entries)) == file.header:
        return Scanned(pieces, None, True, [Header(file.metadata, 0, len(pieces)), *tensors], None)
    return Scanned(pieces, None, True, [Rest(len(file.header)), *tensors], file.data[: len(file.header)])


def _scan_torch(path: Path) -> Scanned | None:
    """A file of torch.save: its nest, and where in the file the tensors' bytes are; None if that is not to be found."""
    nest = load_torch_file(path)
    packed = pack_value(nest)
    data = map_file(path)
    origin = _mapped_at(packed.leaves, _records(path, data))
    if origin is None:
        return None
    base = data.__array_interface__["data"][0]
    pieces, places = [], []
    for number, leaf in enumerate(packed.leaves):
        memory = view(leaf.obj)
        begin = memory.address - origin
        if memory.keep is leaf.obj and memory.nbytes and begin >= 0 and begin + memory.nbytes <= data.nbytes:
            memory = memory._replace(address=base + begin, keep=data)
            places.append((begin, begin + memory.nbytes, number))
        pieces.append(Piece(leaf.name, memory))
    segments: list[Segment] = []
    rest: list[np.ndarray] = []
    position = 0
    for begin, end, number in sorted(places):
        if begin < position:
            continue  # overlaps the one before: this tensor is stored beside the file's bytes
        if begin > position:
            segments.append(Rest(begin - position))
            rest.append(data[position:begin])
        segments.append(Tensors(number, 1))
        position = end
    if position < data.nbytes:
        segments.append(Rest(data.nbytes - position))
        rest.append(data[position:])
    return Scanned(pieces, nest, False, segments, np.concatenate(rest), packed.aliases)


def _records(path: Path, data: np.ndarray) -> dict[int, int]:
    """Offset and size of every uncompressed record of a zip file."""
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                local = data[info.header_offset : info.header_offset + 30].tobytes()
                if info.compress_type == zipfile.ZIP_STORED and len(local) == 30:
                    lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
                    found[info.header_offset + 30 + lengths] = info.file_size
    except (zipfile.BadZipFile, OSError):
        return {}
    return found


def _mapped_at(leaves: list[Leaf], records: dict[int, int]) -> int | None:
    """Where torch has mapped the file: the address for which every storage lies on a record of its size."""
    storages: dict[int, int] = {}
    for leaf in leaves:
        if leaf.kind == tags.KIND_TORCH and leaf.obj.numel():
            storage = leaf.obj.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    if not storages:
        return 0 if not leaves else None
    address, nbytes = max(storages.items(), key=lambda item: item[1])
    for offset, size in records.items():
        origin = address - offset
        if size == nbytes and all(records.get(a - origin) == n for a, n in storages.items()):
            return origin
    return None

"""The tensors and the structure of a checkpoint file or folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._buffers import View, view_numpy
from .._dtypes import Dtype
from .._matching import NameIndex
from .._safetensors import canonical_header
from .._structure import pack_value, tags
from .._structure.varint import write_block, write_varint
from .layout import File, Header, Image, Literal, Rest, Segment, Tensors, encode_image
from .scan import Piece, Scanned, files_of, scan

_INLINE = 1 << 14  # bytes of a file that has no counterpart in the reference and goes into the structure


class Built(NamedTuple):
    """A checkpoint as a file holds it: named tensors and a structure."""

    tensors: list[Piece]
    structure: bytes


class _Member(NamedTuple):
    relative: str
    scanned: Scanned
    key: str | None  # the key of the value under which its nest goes; None: its tensors are entries of the value


def _members(path: Path, as_bytes: bool = False) -> tuple[bool, list[_Member]]:
    """The files of a checkpoint. Tensors of safetensors files share one dict as long as their names differ."""
    folder = path.is_dir()
    members: list[_Member] = []
    taken: set[str] = set()
    for relative, file in files_of(path):
        scanned = scan(file, as_bytes=as_bytes)
        names = {piece.name for piece in scanned.pieces}
        shares = folder and scanned.flat and not names & taken
        if shares:
            taken |= names
        members.append(_Member(relative, scanned, relative if folder and not shares else None))
    return folder, members


def _rest_name(folder: bool, relative: str) -> str:
    return f"file:{relative}" if folder else "file:"


def named_tensors(path: Path) -> dict[str, View]:
    """Every tensor of a checkpoint by the name that ``build`` gives it, the bytes around them included."""
    folder, members = _members(path)
    found: dict[str, View] = {}
    for member in members:
        prefix = "" if member.key is None else f"{member.key}."
        for piece in member.scanned.pieces:
            found.setdefault(prefix + piece.name, piece.view)
        for name, number in member.scanned.aliases:
            found.setdefault(prefix + name, member.scanned.pieces[number].view)
        if member.scanned.rest is not None:
            found.setdefault(_rest_name(folder, member.relative), view_numpy(member.scanned.rest))
    return found


def build(path: Path, reference_sizes: dict[str, int]) -> Built:
    """Take a checkpoint apart.

    Args:
        path: a file or folder.
        reference_sizes: name and bytes of what the reference has, to decide what is worth being a tensor.
    """
    built = _build(*_members(path), reference_sizes)
    if len({piece.name for piece in built.tensors}) < len(built.tensors):
        # A tensor of one file is called like a tensor of another in spite of the prefixes: keep the files as they are.
        built = _build(*_members(path, as_bytes=True), reference_sizes)
    return built


def _build(folder: bool, members: list[_Member], reference_sizes: dict[str, int]) -> Built:
    tensors: list[Piece] = []
    first: dict[str, int] = {}
    # Tensors count in the order of the value: first the entries that files share, then the nests, then what is left.
    shared = [member for member in members if member.key is None and member.scanned.flat]
    nests = [m for m in members if m.key is not None and (m.scanned.flat or m.scanned.nest is not None)]
    entries = bytearray()
    for member in shared:
        first[member.relative] = len(tensors)
        tensors += member.scanned.pieces
        _run(entries, len(member.scanned.pieces))
    count = len(tensors) + len(nests)
    for member in nests:
        key = member.key or ""
        first[member.relative] = len(tensors)
        entries.append(tags.STR)
        write_block(entries, key.encode())
        entries += _value(member.scanned, key, 1, len(tensors))
        tensors += (Piece(f"{key}.{piece.name}", piece.view) for piece in member.scanned.pieces)

    if folder:
        value = bytearray((tags.DICT,))
        write_varint(value, count)
        value += entries
    else:
        value = _value(members[0].scanned, "", 0, 0)
        if not members[0].scanned.flat:
            tensors += members[0].scanned.pieces

    files: list[File] = []
    for member in members:
        segments = [
            _shift(_spelt(segment, member), first.get(member.relative, 0)) for segment in member.scanned.segments
        ]
        rest, number = member.scanned.rest, -1
        if rest is not None and rest.nbytes:
            name = _rest_name(folder, member.relative)
            if rest.nbytes <= _INLINE and reference_sizes.get(name) != rest.nbytes:
                segments = _inline(segments, rest)
            else:
                number = len(tensors)
                tensors.append(Piece(name, view_numpy(rest)))
        files.append(File(member.relative, number, segments))
    structure = bytearray((tags.IMAGE,))
    write_block(structure, encode_image(Image(folder, files)))
    return Built(tensors, bytes(structure + value))


def _run(out: bytearray, count: int) -> None:
    if count:
        out.append(tags.RUN_TORCH)
        write_varint(out, count)


def _value(scanned: Scanned, name: str, depth: int, first: int) -> bytearray:
    """The nest of one file as a value of the structure."""
    if scanned.flat:
        out = bytearray((tags.DICT,))
        write_varint(out, len(scanned.pieces))
        _run(out, len(scanned.pieces))
        return out
    if scanned.nest is None:
        return bytearray((tags.NONE,))
    return bytearray(pack_value(scanned.nest, name, depth, first).structure)


def _spelt(segment: Segment, member: _Member) -> Segment:
    """A header is written again from the names of its tensors, so where those carry a prefix its bytes are kept."""
    if not isinstance(segment, Header) or member.key is None:
        return segment
    pieces = member.scanned.pieces[segment.first : segment.first + segment.number]
    header = canonical_header(segment.metadata, ((piece.name, piece.view.dtype, piece.view.shape) for piece in pieces))
    assert header is not None  # scan found it to be this
    return Literal(header)


def _shift(segment: Segment, first: int) -> Segment:
    if isinstance(segment, (Tensors, Header)):
        return segment._replace(first=segment.first + first)
    return segment


def _inline(segments: list[Segment], rest: np.ndarray) -> list[Segment]:
    result: list[Segment] = []
    position = 0
    for segment in segments:
        if isinstance(segment, Rest):
            result.append(Literal(rest[position : position + segment.length].tobytes()))
            position += segment.length
        else:
            result.append(segment)
    return result


class PathSource:
    """A checkpoint file or folder as a reference, with every name that ``build`` gives its tensors."""

    def __init__(self, path: Path) -> None:
        self.label = os.fspath(path)
        self._views = named_tensors(path)
        self.names = NameIndex(self._views)

    def all(self) -> list[str]:
        return list(self._views)

    def describe(self, name: str) -> tuple[Dtype, tuple[int, ...]]:
        memory = self._views[name]
        return memory.dtype, memory.shape

    def view(self, name: str) -> View:
        return self._views[name]

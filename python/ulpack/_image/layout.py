"""The image of files on the wire (go/FORMAT.md, "Image of files")."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from .._structure.varint import Reader, write_block, write_varint
from ..errors import CorruptError

FILE, FOLDER = 0, 1
MAX_PATH, MAX_PARTS = 4096, 128  # characters and parts of a path
_LITERAL, _TENSORS, _HEADER, _REST = range(4)


class Literal(NamedTuple):
    """Bytes as they are."""

    data: bytes


class Tensors(NamedTuple):
    """The values of tensors first .. first + count - 1, one after the other."""

    first: int
    number: int


class Header(NamedTuple):
    """The header of a safetensors file in canonical spelling, for tensors first .. first + count - 1."""

    metadata: dict[str, str] | None
    first: int
    number: int


class Rest(NamedTuple):
    """The next bytes of the file's rest tensor."""

    length: int


Segment: TypeAlias = "Literal | Tensors | Header | Rest"


class File(NamedTuple):
    """One file: its relative path, the tensor that holds its other bytes (-1: none), and its segments in order."""

    path: str
    rest: int
    segments: list[Segment]


class Image(NamedTuple):
    """One file, or the files of a folder."""

    folder: bool
    files: list[File]


def encode_image(image: Image) -> bytes:
    """An image as bytes."""
    out = bytearray((FOLDER if image.folder else FILE,))
    write_varint(out, len(image.files))
    for file in image.files:
        write_block(out, file.path.encode())
        write_varint(out, file.rest + 1)
        write_varint(out, len(file.segments))
        for segment in file.segments:
            _write_segment(out, segment)
    return bytes(out)


def _write_segment(out: bytearray, segment: Segment) -> None:
    if isinstance(segment, Literal):
        out.append(_LITERAL)
        write_block(out, segment.data)
    elif isinstance(segment, Tensors):
        out.append(_TENSORS)
        write_varint(out, segment.first)
        write_varint(out, segment.number)
    elif isinstance(segment, Header):
        out.append(_HEADER)
        write_varint(out, 0 if segment.metadata is None else len(segment.metadata) + 1)
        for key, value in (segment.metadata or {}).items():
            write_block(out, key.encode())
            write_block(out, value.encode())
        write_varint(out, segment.first)
        write_varint(out, segment.number)
    else:
        out.append(_REST)
        write_varint(out, segment.length)


def decode_image(data: bytes, tensors: int) -> Image:
    """Read an image of a file with this number of tensors.

    Raises:
        CorruptError: any rule of the section is broken, an unsafe path included.
    """
    reader = Reader(data)
    layout = reader.byte()
    if layout not in (FILE, FOLDER):
        raise CorruptError(f"the image has layout {layout}")
    count = reader.count(4)
    if layout == FILE and count != 1:
        raise CorruptError("the image of one file has several")
    files = [_read_file(reader, tensors) for _ in range(count)]
    if reader.left():
        raise CorruptError("the image has bytes after its end")
    paths = {file.path for file in files}
    if len(paths) != count or any(_folder_in(path, paths) for path in paths):
        raise CorruptError("the image has a path twice, or a file that is a folder")
    return Image(layout == FOLDER, files)


def _folder_in(path: str, paths: set[str]) -> bool:
    return any(path[:cut] in paths for cut, char in enumerate(path) if char == "/")


def _read_file(reader: Reader, tensors: int) -> File:
    path = _text(reader)
    if len(path) > MAX_PATH or path.count("/") >= MAX_PARTS:
        raise CorruptError(f"the image has a path that is too long: {path[:80]!r} ..")
    if "\0" in path or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise CorruptError(f"the image has the path {path[:80]!r}")
    rest = reader.varint() - 1
    if rest >= tensors:
        raise CorruptError("the image names a tensor that the file does not have")
    segments = [_read_segment(reader, tensors) for _ in range(reader.count(2))]
    if rest < 0 and any(isinstance(segment, Rest) for segment in segments):
        raise CorruptError("the image uses a rest that is not there")
    return File(path, rest, segments)


def _read_segment(reader: Reader, tensors: int) -> Segment:
    tag = reader.byte()
    if tag == _LITERAL:
        return Literal(reader.block())
    if tag == _TENSORS:
        return Tensors(*_range(reader, tensors, 1))
    if tag == _HEADER:
        pairs = reader.count()
        metadata: dict[str, str] | None = None
        if pairs:
            metadata = {}
            for _ in range(pairs - 1):
                key = _text(reader)
                if key in metadata:
                    raise CorruptError("the image has a key of a header twice")
                metadata[key] = _text(reader)
        return Header(metadata, *_range(reader, tensors, 0))
    if tag == _REST:
        return Rest(reader.varint())
    raise CorruptError(f"the image has a segment of kind {tag}")


def _range(reader: Reader, tensors: int, least: int) -> tuple[int, int]:
    first, count = reader.varint(), reader.varint()
    if count < least or first + count > tensors:
        raise CorruptError("the image names tensors that the file does not have")
    return first, count


def _text(reader: Reader) -> str:
    try:
        return reader.block().decode()
    except UnicodeDecodeError as error:
        raise CorruptError("the image has text that is not UTF-8") from error


def image_files(data: bytes) -> tuple[str, tuple[str, ...]]:
    """("file" or "folder", paths) of an image, for display."""
    image = decode_image(data, 1 << 24)
    return ("folder" if image.folder else "file"), tuple(file.path for file in image.files)

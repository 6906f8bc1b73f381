"""Front, directory, tail and footer of a file (FORMAT.md section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import CorruptError, LimitError, TruncatedError, UnsupportedError
from .blob import CODED, IDENTICAL, Blob
from .coder import decode_text, encode_text
from .dtypes import NAMED, Layout, dtype_of
from .wire import Reader, h32, h64, u16, u32, u64, varint

MAGIC = b"\x89ULP\r\n\x1a\n"
END = b"ULPEND\r\n"
MAJOR, MINOR, ENCODER = 1, 0, 1
FRONT = 24
FOOTER = 32
REFERENCE_ROLE = 0

MAX_PLAIN = 1 << 28
MAX_TENSORS = 1 << 24
MAX_NDIM = 64
MAX_ITEMSIZE = 1 << 20
MAX_DTYPE_NAME = 4096
MAX_NBYTES = 1 << 60
CHECKED_SHORT = 4096  # blobs shorter than this have a 32-bit checksum


class Entry(NamedTuple):
    """A tensor in the directory; ``ref_name`` is None when no reference was given."""

    name: str
    layout: Layout
    ref_name: str | None


class Directory(NamedTuple):
    encoder: int
    effort: int
    metadata: str
    structure: bytes
    entries: list[Entry]


class Record(NamedTuple):
    """A tensor in the tail, and where its blob lies in the file."""

    plan: int
    fingerprint: int
    ref_fingerprint: int | None
    offset: int
    nbytes: int
    checksum: int


# --- writing ---------------------------------------------------------------------------------------------------------


def _block(data: bytes) -> bytes:
    return varint(len(data)) + data


def write_directory(directory: Directory) -> bytes:
    """The plain directory."""
    entries = directory.entries
    out = [varint(directory.encoder), varint(directory.effort)]
    out += [_block(directory.metadata.encode()), _block(directory.structure), varint(len(entries))]
    out += [_block(entry.name.encode()) for entry in entries]
    for entry in entries:
        dtype = entry.layout.dtype
        out.append(bytes([dtype.code]))
        if dtype.code == NAMED:
            out += [_block(dtype.name.encode()), varint(dtype.itemsize)]
    for entry in entries:
        out += [varint(len(entry.layout.shape)), *(varint(dim) for dim in entry.layout.shape)]
    for entry in entries:
        if entry.ref_name is None:
            out.append(varint(0))
        elif entry.ref_name == entry.name:
            out.append(varint(1))
        else:
            name = entry.ref_name.encode()
            out.append(varint(len(name) + 1) + name)
    return b"".join(out)


def write_file(directory: Directory, blobs: Sequence[Blob]) -> bytes:
    """The whole file."""
    plain = write_directory(directory)
    if len(plain) > MAX_PLAIN:
        raise LimitError("the directory is too large")
    return seal(plain, blobs)


def seal(plain: bytes, blobs: Sequence[Blob]) -> bytes:
    """The whole file from a plain directory."""
    coded = encode_text(plain)
    fixed = bytes([MAJOR, MINOR]) + u16(0) + u32(len(coded)) + u32(len(plain))
    parts = [MAGIC, fixed, u32(h32(fixed + coded)), coded]
    tail = []
    for blob in blobs:
        size = varint(len(blob.data))
        parts += [bytes([blob.plan]), size, blob.data]
        tail += [bytes([blob.plan]), size, u64(blob.fingerprint)]
        if blob.ref_fingerprint is None:
            tail.append(varint(0))
        else:
            tail += [varint(1), bytes([REFERENCE_ROLE]), u64(blob.ref_fingerprint)]
        if blob.data:
            tail.append(u32(h32(blob.data)) if len(blob.data) < CHECKED_SHORT else u64(h64(blob.data)))
    offset = sum(map(len, parts))
    closing = b"".join(tail)
    closing += u64(offset) + u32(len(closing)) + u32(0)
    return b"".join([*parts, closing, u64(h64(closing)), END])


# --- reading ---------------------------------------------------------------------------------------------------------


class File(NamedTuple):
    """A file whose front, directory, tail and footer were checked; the blobs were not."""

    data: memoryview
    directory: Directory
    records: list[Record]

    def blob(self, i: int) -> memoryview:
        """The bytes of a blob.

        Raises:
            CorruptError: they do not have their checksum.
        """
        record = self.records[i]
        blob = self.data[record.offset : record.offset + record.nbytes]
        checksum = h32(blob) if record.nbytes < CHECKED_SHORT else h64(blob)
        if record.nbytes and checksum != record.checksum:
            raise CorruptError("the blob does not have its checksum", offset=record.offset)
        return blob


def read_file(data: bytes | memoryview) -> File:
    """Check everything but the blobs.

    Raises:
        CorruptError: a rule is broken or a checksum does not hold.
        TruncatedError: the file ends early.
        UnsupportedError: a version or reserved value.
        LimitError: a declared size is beyond the limits.
    """
    view = memoryview(data)
    start, directory = _read_front(view)
    return File(view, directory, _read_tail(view, start, directory.entries))


def _read_front(view: memoryview) -> tuple[int, Directory]:
    magic = bytes(view[:8])
    if magic != MAGIC[: len(magic)]:
        raise CorruptError("not a delta file", offset=0)
    if len(view) < FRONT:
        raise TruncatedError("the file ends early", offset=len(view))
    reader = Reader(view, "front", 8)
    major, minor = reader.u8(), reader.u8()
    if major != MAJOR or minor > MINOR:
        raise UnsupportedError(f"format version {major}.{minor}", offset=8)
    if reader.u16():
        raise CorruptError("reserved bytes are not 0", offset=10)
    coded_size, plain_size, checksum = reader.u32(), reader.u32(), reader.u32()
    if plain_size > MAX_PLAIN or plain_size > 65536 + 16384 * coded_size:
        raise LimitError("the directory is too large", offset=16)
    if coded_size > reader.left():
        raise TruncatedError("the file ends early", offset=len(view))
    coded = bytes(reader.take(coded_size))
    if h32(bytes(view[8:20]) + coded) != checksum:
        raise CorruptError("the directory does not have its checksum", offset=FRONT)
    return FRONT + coded_size, read_directory(decode_text(coded, plain_size))


def read_directory(plain: bytes) -> Directory:
    """Parse the plain directory.

    Raises:
        CorruptError: a rule is broken.
        UnsupportedError: a reserved dtype.
        LimitError: a declared size is beyond the limits.
    """
    reader = Reader(plain, "directory")
    encoder, effort = reader.varint(), reader.varint()
    metadata = reader.text(reader.varint())
    structure = bytes(reader.take(reader.varint()))
    n = reader.varint()
    if n > MAX_TENSORS:
        raise LimitError(f"{n} tensors")
    if 4 * n > reader.left():
        raise reader.fail("ends early")
    names = [reader.text(reader.varint()) for _ in range(n)]
    if len(set(names)) != n:
        raise reader.fail("two tensors have the same name")
    dtypes = []
    for _ in range(n):
        code = reader.u8()
        name, itemsize = "", 0
        if code == NAMED:
            length = reader.varint()
            if length > MAX_DTYPE_NAME:
                raise LimitError(f"a dtype name of {length} bytes")
            name, itemsize = reader.text(length), reader.varint()
            if not 1 <= itemsize <= MAX_ITEMSIZE:
                raise LimitError(f"an element of {itemsize} bytes")
        dtypes.append(dtype_of(code, name, itemsize))
    layouts = []
    for dtype in dtypes:
        ndim = reader.varint()
        if ndim > MAX_NDIM:
            raise LimitError(f"{ndim} dimensions")
        layouts.append(Layout(dtype, tuple(reader.varint() for _ in range(ndim))))
        if layouts[-1].nbytes >= MAX_NBYTES:
            raise LimitError("a tensor of 2^60 bytes or more")
    entries = []
    for name, layout in zip(names, layouts, strict=True):
        k = reader.varint()
        ref_name = (None, name)[k] if k < 2 else reader.text(k - 1)
        if k >= 2 and ref_name == name:
            raise reader.fail("the reference's name is spelled out although it is the tensor's")
        entries.append(Entry(name, layout, ref_name))
    reader.finish()
    return Directory(encoder, effort, metadata, structure, entries)


def _read_tail(view: memoryview, start: int, entries: Sequence[Entry]) -> list[Record]:
    end = len(view) - FOOTER
    if end < start or bytes(view[-len(END) :]) != END:
        raise TruncatedError("the file ends early: its footer is missing", offset=len(view))
    footer = Reader(view, "footer", end)
    offset, size, zero, checksum = footer.u64(), footer.u32(), footer.u32(), footer.u64()
    if offset < start or offset + size != end or zero:
        raise CorruptError("the footer does not fit the file", offset=end)
    if h64(view[offset : end + 16]) != checksum:
        raise CorruptError("the tail does not have its checksum", offset=offset)
    reader = Reader(view, "tail", offset, end)
    blobs = Reader(view, "blobs", start, offset)
    records = [_read_record(reader, blobs, entry) for entry in entries]
    reader.finish()
    blobs.finish()
    return records


def _read_record(reader: Reader, blobs: Reader, entry: Entry) -> Record:
    plan, nbytes, fingerprint = reader.u8(), reader.varint(), reader.u64()
    if plan > CODED:
        raise UnsupportedError(f"plan {plan} is reserved", tensor=entry.name)
    ref_fingerprint = None
    roles = reader.varint()
    for i in range(roles):
        role = reader.u8()
        if role != REFERENCE_ROLE:
            raise UnsupportedError(f"role {role} is reserved", tensor=entry.name)
        if i:
            raise CorruptError("a role is given twice", tensor=entry.name)
        ref_fingerprint = reader.u64()
    if (roles and entry.ref_name is None) or (plan != CODED and roles != (plan == IDENTICAL)):
        raise CorruptError("the roles do not fit the plan", tensor=entry.name)
    checksum = 0
    if nbytes:
        checksum = reader.u32() if nbytes < CHECKED_SHORT else reader.u64()
    if blobs.u8() != plan or blobs.varint() != nbytes:
        raise CorruptError("plan or length before a blob is not that of the tail", tensor=entry.name, offset=blobs.pos)
    position = blobs.pos
    blobs.take(nbytes)
    return Record(plan, fingerprint, ref_fingerprint, position, nbytes, checksum)

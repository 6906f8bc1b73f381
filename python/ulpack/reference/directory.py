"""Front, directory, tail and footer of a file (FORMAT.md section 5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..errors import CorruptError, LimitError, TruncatedError, UnsupportedError
from .blob import Blob
from .coder import decode_text, encode_text
from .dtypes import NAMED, Layout, dtype_of
from .plans import LAST_PLAN, SMALL_CHUNKS, is_coded
from .roles import (
    LAST_ROLE,
    MAX_SLOTS,
    OTHER_REFERENCE_ROLE,
    REFERENCE_ROLE,
    VALUE_ROLE,
    Slot,
    check_dependencies,
    check_plan,
)
from .wire import Reader, h32, h64, u16, u32, u64, varint

MAGIC = b"\x89ULP\r\n\x1a\n"
END = b"ULPEND\r\n"
MAJOR, MINOR = 1, 1  # the last format that is read
ENCODER = 1
FRONT = 24
FOOTER = 32

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
    """``order`` is the tensor at each place of the blob order, None if that is the order of the entries."""

    encoder: int
    effort: int
    metadata: str
    structure: bytes
    entries: list[Entry]
    minor: int = 0
    order: Sequence[int] | None = None

    @property
    def blob_order(self) -> Sequence[int]:
        return range(len(self.entries)) if self.order is None else self.order


class Record(NamedTuple):
    """A tensor in the tail, and where its blob lies in the file."""

    plan: int
    fingerprint: int
    slots: tuple[Slot, ...]
    nbytes: int
    checksum: int
    offset: int = 0

    @property
    def ref_fingerprint(self) -> int | None:
        """That of the tensor's own reference."""
        return next((slot.fingerprint for slot in self.slots if slot.role == REFERENCE_ROLE), None)


def _delimits(minor: int, plan: int, layout: Layout) -> bool:
    """Whether a blob delimits itself: the length before it is 0."""
    return minor >= 1 and is_coded(plan) and layout.chunks > SMALL_CHUNKS


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
    if directory.minor >= 1:
        out.append(_order(directory.order))
    return b"".join(out)


def _order(order: Sequence[int] | None) -> bytes:
    """The blob order: each tensor as its distance from the one after the tensor before."""
    if order is None:
        return varint(0)
    steps = [i - before - 1 for before, i in zip([-1, *order], order, strict=False)]
    return varint(1) + b"".join(varint(2 * d if d >= 0 else -2 * d - 1) for d in steps)


def write_file(directory: Directory, blobs: Sequence[Blob]) -> bytes:
    """The whole file."""
    plain = write_directory(directory)
    if len(plain) > MAX_PLAIN:
        raise LimitError("the directory is too large")
    open_ended = {
        i
        for i, (entry, blob) in enumerate(zip(directory.entries, blobs, strict=True))
        if _delimits(directory.minor, blob.plan, entry.layout)
    }
    return seal(plain, blobs, directory.minor, directory.order, open_ended)


def seal(
    plain: bytes,
    blobs: Sequence[Blob],
    minor: int = 0,
    order: Sequence[int] | None = None,
    open_ended: Collection[int] = (),
) -> bytes:
    """The whole file from a plain directory.

    Args:
        plain: the directory.
        blobs: one a tensor, in the order of the directory.
        minor: of the format version.
        order: the tensor at each place of the blob order.
        open_ended: tensors whose blobs delimit themselves.
    """
    coded = encode_text(plain)
    fixed = bytes([MAJOR, minor]) + u16(0) + u32(len(coded)) + u32(len(plain))
    parts = [MAGIC, fixed, u32(h32(fixed + coded)), coded]
    for i in range(len(blobs)) if order is None else order:
        length = 0 if i in open_ended else len(blobs[i].data)
        parts += [bytes([blobs[i].plan]), varint(length), blobs[i].data]
    tail = []
    for blob in blobs:
        tail += [bytes([blob.plan]), varint(len(blob.data)), u64(blob.fingerprint), varint(len(blob.slots))]
        for slot in blob.slots:
            tail.append(bytes([slot.role]))
            if slot.role != REFERENCE_ROLE:
                tail.append(varint(slot.tensor))
            if slot.role != VALUE_ROLE:
                tail.append(u64(slot.fingerprint))
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
    return File(view, directory, _read_tail(view, start, directory))


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
    return FRONT + coded_size, read_directory(decode_text(coded, plain_size), minor)


def read_directory(plain: bytes, minor: int = 0) -> Directory:
    """Parse the plain directory of a file of format 1.``minor``.

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
    order = _read_order(reader, n) if minor >= 1 else None
    reader.finish()
    return Directory(encoder, effort, metadata, structure, entries, minor, order)


def _read_order(reader: Reader, n: int) -> list[int] | None:
    explicit = reader.varint()
    if explicit > 1:
        raise reader.fail("neither an order of blobs nor none")
    if not explicit:
        return None
    order: list[int] = []
    for _ in range(n):
        v = reader.varint()
        order.append((order[-1] if order else -1) + 1 + ((v >> 1) ^ -(v & 1)))
    if sorted(order) != list(range(n)):
        raise reader.fail("the order of blobs does not hold every tensor once")
    if order == list(range(n)):
        raise reader.fail("the order of blobs is spelled out although it is that of the tensors")
    return order


def _read_tail(view: memoryview, start: int, directory: Directory) -> list[Record]:
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
    entries = directory.entries
    records = [_read_record(reader, entry, directory.minor, len(entries)) for entry in entries]
    reader.finish()
    check_dependencies(entries, [record.slots for record in records], directory.blob_order)
    blobs = Reader(view, "blobs", start, offset)
    for i in directory.blob_order:
        entry, record = entries[i], records[i]
        length = 0 if _delimits(directory.minor, record.plan, entry.layout) else record.nbytes
        if blobs.u8() != record.plan or blobs.varint() != length:
            message = "plan or length before a blob is not that of the tail"
            raise CorruptError(message, tensor=entry.name, offset=blobs.pos)
        records[i] = record._replace(offset=blobs.pos)
        blobs.take(record.nbytes)
    blobs.finish()
    return records


def _read_record(reader: Reader, entry: Entry, minor: int, tensors: int) -> Record:
    plan, nbytes, fingerprint = reader.u8(), reader.varint(), reader.u64()
    if plan > LAST_PLAN[minor]:
        raise UnsupportedError(f"plan {plan} is reserved", tensor=entry.name)
    slots: list[Slot] = []
    roles = reader.varint()
    if roles > MAX_SLOTS:
        raise CorruptError(f"{roles} roles", tensor=entry.name)
    for _ in range(roles):
        role = reader.u8()
        if role > LAST_ROLE[minor]:
            raise UnsupportedError(f"role {role} is reserved", tensor=entry.name)
        other = reader.varint() if role in (VALUE_ROLE, OTHER_REFERENCE_ROLE) else 0
        if other >= tensors:
            raise CorruptError("a role names a tensor that is not there", tensor=entry.name)
        if any((slot.role, slot.tensor) == (role, other) for slot in slots):
            raise CorruptError("a role is given twice", tensor=entry.name)
        slots.append(Slot(role, other, 0 if role == VALUE_ROLE else reader.u64()))
    check_plan(entry, plan, slots)
    checksum = 0
    if nbytes:
        checksum = reader.u32() if nbytes < CHECKED_SHORT else reader.u64()
    return Record(plan, fingerprint, tuple(slots), nbytes, checksum)

"""Blobs: one tensor in the file, both directions (FORMAT.md sections 6, 21 and 23)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..errors import CorruptError, LimitError, UnsupportedError, WrongReferenceError
from .chunks import TOGETHER, Chunk, ChunkCoder
from .dtypes import Layout, chunk_hashes, fingerprint_of, hash_bytes
from .header import OwnTables, own_header, parametric_header, read_fields, read_header, write_header
from .model import LEADING, REFERENCE, Coding, residual
from .plan import choose_coding, choose_tables, histogram, leading_coding, leading_range, sample_lanes
from .wire import Reader, u32, u64, varint

STORED, IDENTICAL, CONSTANT, CODED = 0, 1, 2, 3
PLAN_NAMES = ("stored", "identical", "constant", "coded")


class Blob(NamedTuple):
    """A tensor as written: plan, bytes, fingerprint of the value and, with role 0, of the reference."""

    plan: int
    data: bytes
    fingerprint: int
    ref_fingerprint: int | None


# --- encoder ---------------------------------------------------------------------------------------------------------


def encode_blob(layout: Layout, data: np.ndarray, ref: np.ndarray | None) -> Blob:
    """The canonical blob of a value.

    Args:
        layout: dtype and shape.
        data: the raw bytes, 1-D uint8.
        ref: the raw bytes of a reference of the same dtype and shape, or None.
    """
    hashes = chunk_hashes(layout, data)
    fingerprint = fingerprint_of(layout, hashes)
    if layout.elements == 0:
        return Blob(STORED, b"", fingerprint, None)
    table = _table(layout, [], hashes, [])
    if ref is not None and np.array_equal(data, ref):
        return Blob(IDENTICAL, table, fingerprint, fingerprint)
    element = data[: layout.dtype.itemsize]
    if layout.elements > 1 and _is_constant(layout, data, element):
        return Blob(CONSTANT, element.tobytes(), fingerprint, None)
    coded, predictor = _encode_coded(layout, data, ref, hashes)
    if len(coded) >= data.size + len(table):
        return Blob(STORED, data.tobytes() + table, fingerprint, None)
    if predictor != REFERENCE or ref is None:
        return Blob(CODED, coded, fingerprint, None)
    return Blob(CODED, coded, fingerprint, fingerprint_of(layout, chunk_hashes(layout, ref)))


def _is_constant(layout: Layout, data: np.ndarray, element: np.ndarray) -> bool:
    return all((chunk.reshape(-1, element.size) == element).all() for chunk in layout.each_chunk(data))


def _encode_coded(layout: Layout, data: np.ndarray, ref: np.ndarray | None, hashes: list[int]) -> tuple[bytes, int]:
    """The blob of plan 3, and its predictor."""
    coding = choose_coding(layout.dtype, sample_lanes(layout, data, ref))
    if coding.predictor != REFERENCE:
        ref = None
    if coding.token_map == LEADING:
        coding = _leading_of_all(layout, data)
    counts = np.zeros((coding.contexts, coding.alphabet), np.int64)
    for chunk in _chunks(layout, data, ref):
        z = residual(layout.dtype, chunk.x, chunk.r)
        if chunk.r is None or z.any():
            counts += histogram(coding, coding.split(z).tokens, coding.context(chunk.r, z.size))
    tables = choose_tables(coding, counts)
    header = own_header(coding, tables) if isinstance(tables, OwnTables) else parametric_header(coding, tables)
    bodies = list(ChunkCoder(header).encode(_chunks(layout, data, ref)))
    if len(bodies) == 1:
        return write_header(coding, tables) + bodies[0], coding.predictor
    lengths = [len(body) for body in bodies]
    framed = b"".join(varint(len(body)) + body for body in bodies)
    ref_hashes = chunk_hashes(layout, ref) if ref is not None else []
    return write_header(coding, tables) + framed + _table(layout, lengths, hashes, ref_hashes), coding.predictor


def _leading_of_all(layout: Layout, data: np.ndarray) -> Coding:
    ranges = [leading_range(layout.dtype, residual(layout.dtype, c.x, None)) for c in _chunks(layout, data, None)]
    found = [r for r in ranges if r is not None]
    lo, hi = min((lo for lo, _ in found), default=0), max((hi for _, hi in found), default=0)
    return leading_coding(layout.dtype, lo, hi)


def _chunks(layout: Layout, data: np.ndarray, ref: np.ndarray | None) -> Iterator[Chunk]:
    for j in range(layout.chunks):
        part = layout.chunk_bytes(j)
        yield Chunk(_lanes(layout, data[part]), None if ref is None else _lanes(layout, ref[part]))


def _lanes(layout: Layout, raw: np.ndarray) -> np.ndarray:
    lane = layout.dtype.lane
    return raw.view(lane).astype(lane.newbyteorder("="), copy=False)


def _table(layout: Layout, lengths: list[int], hashes: list[int], ref_hashes: list[int]) -> bytes:
    """The chunk table, empty with less than two chunks."""
    if layout.chunks < 2:
        return b""
    rows = bytearray()
    for j, h in enumerate(hashes):
        if lengths:
            rows += varint(lengths[j])
        rows += u64(h)
        if ref_hashes:
            rows += u64(ref_hashes[j])
    return bytes(rows) + u32(len(rows))


# --- decoder ---------------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """A blob to read and what the file records about it."""

    layout: Layout
    plan: int
    data: memoryview
    fingerprint: int
    ref_fingerprint: int | None


class _Table(NamedTuple):
    lengths: list[int]
    hashes: list[int]
    ref_hashes: list[int]
    start: int  # where the table begins in the blob


def detail(source: Source) -> dict[str, int] | None:
    """The header's fields for display; None if they cannot be parsed."""
    try:
        fields = read_fields(Reader(source.data, "blob"), source.layout.dtype)
        coding = fields.coding
        return {
            "predictor": coding.predictor,
            "token_map": coding.token_map,
            "plane_bits": coding.plane_bits,
            "tables": fields.tables,
            "table_log": fields.table_log,
            "context_part": coding.context_part,
            "clusters": fields.clusters,
        }
    except (CorruptError, UnsupportedError):
        return None


def decode_blob(source: Source, ref: np.ndarray | None, first: int, count: int) -> np.ndarray:
    """The raw bytes of elements ``first .. first + count - 1``, 1-D uint8.

    Raises:
        CorruptError: the blob breaks a rule, or what it gives is not what the file recorded.
        WrongReferenceError: the reference is missing or another one.
        UnsupportedError: a reserved value.
        LimitError: not enough memory.
    """
    layout = source.layout
    if source.ref_fingerprint is not None:
        if ref is None:
            raise WrongReferenceError("the reference is missing")
        if ref.size != layout.nbytes:
            raise WrongReferenceError(f"the reference has {ref.size} bytes instead of {layout.nbytes}")
    try:
        return _decode(source, ref if source.ref_fingerprint is not None else None, first, count)
    except MemoryError:
        raise LimitError("not enough memory for the tensor") from None


def _decode(source: Source, ref: np.ndarray | None, first: int, count: int) -> np.ndarray:
    layout, plan = source.layout, source.plan
    size = layout.dtype.itemsize
    if plan in (CONSTANT, CODED) and layout.elements == 0:
        raise CorruptError(f"plan {plan} needs an element")
    if plan == CONSTANT:
        return _decode_constant(source, count)
    if plan == CODED and len(source.data) < layout.chunks:
        raise CorruptError("the blob is too short for its shape")
    if plan == STORED and len(source.data) < layout.nbytes:
        raise CorruptError("the blob is too short for its shape")
    table = _read_table(source)
    if plan != CODED and table.start != (layout.nbytes if plan == STORED else 0):
        raise CorruptError("the blob's length does not fit the shape")
    if layout.elements == 0:
        return np.zeros(0, np.uint8)
    begin = first // layout.dtype.chunk
    end = -(-(first + count) // layout.dtype.chunk) if count else begin
    if ref is not None:
        _check_reference(source, table, ref, begin, end)
    if plan == CODED:
        parts = _coded_parts(source, table, ref, begin, end)
    else:
        raw = np.frombuffer(source.data, np.uint8) if ref is None else ref
        parts = (raw[layout.chunk_bytes(j)] for j in range(begin, end))
    out = np.empty(count * size, np.uint8)
    for j, part in enumerate(parts, begin):
        _check_value(source, table, j, part)
        offset = layout.chunk_bytes(j).start - first * size
        part = part[max(0, -offset) :]
        offset = max(0, offset)
        out[offset : offset + part.size] = part[: out.size - offset]
    return out


def _decode_constant(source: Source, count: int) -> np.ndarray:
    layout = source.layout
    if len(source.data) != layout.dtype.itemsize:
        raise CorruptError("a constant's blob is not one element")
    out = np.tile(np.frombuffer(source.data, np.uint8), count)
    if count == layout.elements:
        whole = [hash_bytes(out[layout.chunk_bytes(0)])] * (layout.chunks - 1)
        last = hash_bytes(out[layout.chunk_bytes(layout.chunks - 1)])
        if fingerprint_of(layout, [*whole, last]) != source.fingerprint:
            raise CorruptError("the value does not have its fingerprint")
    return out


def _read_table(source: Source) -> _Table:
    layout, data = source.layout, source.data
    with_ref = source.plan == CODED and source.ref_fingerprint is not None
    if layout.chunks < 2:
        if layout.chunks == 0 and fingerprint_of(layout, []) != source.fingerprint:
            raise CorruptError("the value does not have its fingerprint")
        return _Table([], [], [], len(data))
    end = len(data) - 4
    if end < 0:
        raise CorruptError("the chunk table is missing")
    start = end - int.from_bytes(data[end:], "little")
    if start < 0:
        raise CorruptError("the chunk table is longer than the blob")
    reader = Reader(data, "chunk table", start, end)
    each = 8 + (source.plan == CODED) + 8 * with_ref
    if layout.chunks * each > reader.left():
        raise reader.fail("ends early")
    table = _Table([], [], [], start)
    for _ in range(layout.chunks):
        if source.plan == CODED:
            table.lengths.append(reader.varint())
        table.hashes.append(reader.u64())
        if with_ref:
            table.ref_hashes.append(reader.u64())
    reader.finish()
    if fingerprint_of(layout, table.hashes) != source.fingerprint:
        raise CorruptError("the chunk table does not have the value's fingerprint")
    if source.plan == IDENTICAL:
        table.ref_hashes.extend(table.hashes)
    if table.ref_hashes and fingerprint_of(layout, table.ref_hashes) != source.ref_fingerprint:
        raise CorruptError("the chunk table does not have the reference's fingerprint")
    return table


def _check_reference(source: Source, table: _Table, ref: np.ndarray, begin: int, end: int) -> None:
    layout = source.layout
    wrong = WrongReferenceError("the reference is not the tensor the file was made against")
    if layout.chunks == 1:
        if fingerprint_of(layout, chunk_hashes(layout, ref)) != source.ref_fingerprint:
            raise wrong
        return
    for j in range(begin, end):
        if hash_bytes(ref[layout.chunk_bytes(j)]) != table.ref_hashes[j]:
            raise wrong


def _check_value(source: Source, table: _Table, j: int, raw: np.ndarray) -> None:
    h = hash_bytes(raw)
    good = h == table.hashes[j] if table.hashes else fingerprint_of(source.layout, [h]) == source.fingerprint
    if not good:
        raise CorruptError(f"chunk {j} does not have its hash")


def _coded_parts(source: Source, table: _Table, ref: np.ndarray | None, begin: int, end: int) -> Iterator[np.ndarray]:
    """The raw bytes of chunks ``begin .. end - 1``."""
    layout = source.layout
    reader = Reader(source.data, "blob", 0, table.start)
    header = read_header(reader, layout.dtype)
    if (header.coding.predictor == REFERENCE) != (ref is not None):
        raise CorruptError("the predictor does not fit the roles")
    bodies = _bodies(reader, layout, table)
    coder = ChunkCoder(header)
    for j in range(begin, end, TOGETHER):
        group = range(j, min(j + TOGETHER, end))
        counts = [layout.chunk_elements(i) * layout.dtype.components for i in group]
        refs = [None if ref is None else _lanes(layout, ref[layout.chunk_bytes(i)]) for i in group]
        for raw in coder.decode([bodies[i] for i in group], counts, refs):
            yield np.frombuffer(raw, np.uint8)


def _bodies(reader: Reader, layout: Layout, table: _Table) -> list[Reader]:
    """Each chunk's body; together they fill the blob up to its table."""
    if layout.chunks == 1:
        return [Reader(reader.data, "chunk 0", reader.pos, reader.end)]
    bodies = []
    for j, length in enumerate(table.lengths):
        if reader.varint() != length:
            raise reader.fail(f"chunk {j} does not have the length of the chunk table")
        start = reader.pos
        reader.take(length)
        bodies.append(Reader(reader.data, f"chunk {j}", start, reader.pos))
    reader.finish()
    return bodies

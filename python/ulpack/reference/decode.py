"""Reading blobs (FORMAT.md sections 6 and 15 to 18)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import CorruptError, LimitError, UnsupportedError, WrongReferenceError
from .chunks import TOGETHER, ChunkCoder
from .dtypes import Layout, chunk_hashes, fingerprint_of, hash_bytes
from .exact_rows import ExactRows, read_rows
from .frame import Frame, lanes
from .header import Around, Fields, build_header, read_fields, used_slots
from .model import REFERENCE, Coding
from .narrow import narrowed
from .plans import CONSTANT, IDENTICAL, NARROW, ROWS, STORED, is_coded
from .roles import REFERENCE_ROLE, Slot
from .wire import Reader


class Role(NamedTuple):
    """A role of a blob to read, and the dtype of the tensor in it."""

    slot: Slot
    layout: Layout


class Source(NamedTuple):
    """A blob to read and what the file records about it."""

    layout: Layout
    plan: int
    data: memoryview
    fingerprint: int
    roles: Sequence[Role] = ()
    minor: int = 0

    @property
    def own(self) -> int:
        """Position of the own reference among the roles, -1 if it is not among them."""
        return next((k for k, role in enumerate(self.roles) if role.slot.role == REFERENCE_ROLE), -1)


class _Table(NamedTuple):
    """The chunk table; hashes by role are empty where the role has none."""

    lengths: list[int]
    hashes: list[int]
    role_hashes: list[list[int]]
    start: int  # where the table begins in the blob


class _Head(NamedTuple):
    """A coded blob up to its chunks."""

    fields: Fields
    rows: ExactRows | None  # plan 4

    @property
    def coding(self) -> Coding:
        return self.fields.coding


def _read_head(source: Source, reader: Reader) -> _Head:
    layout, dtype = source.layout, source.layout.dtype
    slots = [role.layout.dtype for role in source.roles]
    rows, coded_lanes = None, layout.lane_values
    if source.plan == ROWS:
        rows = read_rows(reader, layout, slots)
        coded_lanes = rows.coded_lanes
    if source.plan == NARROW:
        drop = reader.u8()
        narrower = narrowed(dtype, drop)
        if narrower is None:
            raise reader.fail(f"{drop} bits left out of {dtype.name}")
        dtype = narrower
    return _Head(read_fields(reader, dtype, Around(source.minor, layout.dtype, slots, coded_lanes)), rows)


def detail(source: Source) -> dict[str, int | str] | None:
    """The header's fields for display; None if they cannot be parsed. Files of format 1.0 have the first seven."""
    try:
        head = _read_head(source, Reader(source.data, "blob"))
        coding, fields = head.coding, head.fields
        out: dict[str, int | str] = {
            "predictor": coding.predictor,
            "token_map": coding.token_map,
            "plane_bits": coding.plane_bits,
            "tables": fields.tables,
            "table_log": fields.table_log,
            "context_part": coding.context_part,
            "clusters": fields.clusters,
        }
    except (CorruptError, UnsupportedError, LimitError):
        return None
    if source.minor:
        program = coding.program if head.rows is None else head.rows.program
        out["program"] = "" if program is None else program.name
        out["classes"] = 0 if coding.classes is None else coding.classes.number
        out["exact_rows"] = 0 if head.rows is None else int(np.count_nonzero(head.rows.exact))
        out["dropped_bits"] = source.layout.dtype.mantissa - coding.dtype.mantissa
    return out


Data = Sequence["np.ndarray | None"]


def decode_blob(source: Source, data: Data, first: int, count: int) -> np.ndarray:
    """The raw bytes of elements ``first .. first + count - 1``, 1-D uint8.

    Args:
        source: the blob.
        data: the raw bytes of each role's tensor, 1-D uint8, None where a reference is missing. Values of other tensors
            (role 1) were checked where they were decoded, and have to hold the chunks of the range.
        first: first element.
        count: number of elements.

    Raises:
        CorruptError: the blob breaks a rule, or what it gives is not what the file recorded.
        WrongReferenceError: a reference is missing or another one.
        UnsupportedError: a reserved value.
        LimitError: not enough memory.
    """
    given: list[np.ndarray] = []
    for role, raw in zip(source.roles, data, strict=True):
        if raw is None:
            raise WrongReferenceError("a reference is missing")
        if raw.size != role.layout.nbytes:
            raise WrongReferenceError(f"a reference has {raw.size} bytes instead of {role.layout.nbytes}")
        given.append(raw)
    try:
        return _decode(source, given, first, count)
    except MemoryError:
        raise LimitError("not enough memory for the tensor") from None


def _decode(source: Source, data: list[np.ndarray], first: int, count: int) -> np.ndarray:
    layout, plan = source.layout, source.plan
    size = layout.dtype.itemsize
    if (plan == CONSTANT or is_coded(plan)) and layout.elements == 0:
        raise CorruptError(f"plan {plan} needs an element")
    if plan == CONSTANT:
        return _decode_constant(source, count)
    if is_coded(plan) and len(source.data) < layout.chunks:
        raise CorruptError("the blob is too short for its shape")
    if plan == STORED and len(source.data) < layout.nbytes:
        raise CorruptError("the blob is too short for its shape")
    table = _read_table(source)
    if not is_coded(plan) and table.start != (layout.nbytes if plan == STORED else 0):
        raise CorruptError("the blob's length does not fit the shape")
    if layout.elements == 0:
        return np.zeros(0, np.uint8)
    begin = first // layout.dtype.chunk
    end = -(-(first + count) // layout.dtype.chunk) if count else begin
    _check_references(source, table, data, begin, end)
    if is_coded(plan):
        parts = _coded_parts(source, table, data, begin, end)
    else:
        raw = data[0] if plan == IDENTICAL else np.frombuffer(source.data, np.uint8)
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
    hashed = [is_coded(source.plan) and role.slot.hashed for role in source.roles]
    if layout.chunks < 2:
        if layout.chunks == 0 and fingerprint_of(layout, []) != source.fingerprint:
            raise CorruptError("the value does not have its fingerprint")
        return _Table([], [], [[] for _ in hashed], len(data))
    end = len(data) - 4
    if end < 0:
        raise CorruptError("the chunk table is missing")
    start = end - int.from_bytes(data[end:], "little")
    if start < 0:
        raise CorruptError("the chunk table is longer than the blob")
    reader = Reader(data, "chunk table", start, end)
    if layout.chunks * (8 + is_coded(source.plan) + 8 * sum(hashed)) > reader.left():
        raise reader.fail("ends early")
    table = _Table([], [], [[] for _ in hashed], start)
    for _ in range(layout.chunks):
        if is_coded(source.plan):
            table.lengths.append(reader.varint())
        table.hashes.append(reader.u64())
        for with_hashes, hashes in zip(hashed, table.role_hashes, strict=True):
            if with_hashes:
                hashes.append(reader.u64())
    reader.finish()
    if fingerprint_of(layout, table.hashes) != source.fingerprint:
        raise CorruptError("the chunk table does not have the value's fingerprint")
    if source.plan == IDENTICAL:
        table.role_hashes[0].extend(table.hashes)
    for role, hashes in zip(source.roles, table.role_hashes, strict=True):
        if hashes and fingerprint_of(role.layout, hashes) != role.slot.fingerprint:
            raise CorruptError("the chunk table does not have a reference's fingerprint")
    return table


def _check_references(source: Source, table: _Table, data: list[np.ndarray], begin: int, end: int) -> None:
    wrong = WrongReferenceError("a reference is not the tensor the file was made against")
    for role, raw, hashes in zip(source.roles, data, table.role_hashes, strict=True):
        if not role.slot.hashed:
            continue
        if source.layout.chunks == 1:
            if fingerprint_of(role.layout, chunk_hashes(role.layout, raw)) != role.slot.fingerprint:
                raise wrong
            continue
        for j in range(begin, end):
            if hash_bytes(raw[role.layout.chunk_bytes(j)]) != hashes[j]:
                raise wrong


def _check_value(source: Source, table: _Table, j: int, raw: np.ndarray) -> None:
    h = hash_bytes(raw)
    good = h == table.hashes[j] if table.hashes else fingerprint_of(source.layout, [h]) == source.fingerprint
    if not good:
        raise CorruptError(f"chunk {j} does not have its hash")


# --- coded plans -----------------------------------------------------------------------------------------------------


def _chunk(role: Role, raw: np.ndarray, j: int) -> np.ndarray:
    return lanes(role.layout.dtype, raw[role.layout.chunk_bytes(j)])


def _coded_parts(source: Source, table: _Table, data: list[np.ndarray], begin: int, end: int) -> Iterator[np.ndarray]:
    """The raw bytes of chunks ``begin .. end - 1``."""
    layout = source.layout
    reader = Reader(source.data, "blob", 0, table.start)
    head = _read_head(source, reader)
    _check_roles(source, head)
    bodies = _bodies(reader, layout, table)
    coder = ChunkCoder(build_header(head.fields, reader), source.minor)
    frame = Frame(layout, [role.layout.dtype for role in source.roles], source.own, head.coding, head.rows)
    for j in range(begin, end, TOGETHER):
        group = range(j, min(j + TOGETHER, end))
        slots = [[_chunk(role, raw, i) for role, raw in zip(source.roles, data, strict=True)] for i in group]
        views = [frame.view(i, chunk_slots) for i, chunk_slots in zip(group, slots, strict=True)]
        values = coder.decode([bodies[i] for i in group], views)
        for i, chunk_slots, coded in zip(group, slots, values, strict=True):
            yield frame.whole(i, chunk_slots, coded).astype(layout.dtype.lane).view(np.uint8)


def _check_roles(source: Source, head: _Head) -> None:
    """Every role is used, and those that the header needs are there."""
    used = used_slots(head.coding)
    if head.rows is not None:
        used |= set(head.rows.program.slots)
    if head.coding.predictor == REFERENCE:
        if source.own < 0:
            raise CorruptError("the predictor needs a reference that is not among the roles")
        used.add(source.own)
    if used != set(range(len(source.roles))):
        raise CorruptError("a role is not used")


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

"""Writing blobs: one tensor in the file (FORMAT.md sections 6, 21 and 23)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .chunks import Chunk, ChunkCoder, View
from .dtypes import Layout, chunk_hashes, fingerprint_of
from .frame import lanes
from .header import OwnTables, own_header, parametric_header, write_header
from .model import LEADING, REFERENCE, Coding, residual
from .plan import choose_coding, choose_tables, histogram, leading_coding, leading_range, sample_lanes
from .plans import CODED, CONSTANT, IDENTICAL, STORED
from .roles import REFERENCE_ROLE, Slot
from .wire import u32, u64, varint


class Blob(NamedTuple):
    """A tensor as written: plan, bytes, fingerprint of the value and, with role 0 alone, of the reference.

    ``others`` replaces that reference where the blob needs other tensors.
    """

    plan: int
    data: bytes
    fingerprint: int
    ref_fingerprint: int | None
    others: tuple[Slot, ...] = ()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The roles, in the order of the tail."""
        if self.others or self.ref_fingerprint is None:
            return self.others
        return (Slot(REFERENCE_ROLE, 0, self.ref_fingerprint),)


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
    table = chunk_table(layout, [], hashes, [])
    if ref is not None and np.array_equal(data, ref):
        return Blob(IDENTICAL, table, fingerprint, fingerprint)
    element = data[: layout.dtype.itemsize]
    if layout.elements > 1 and is_constant(layout, data, element):
        return Blob(CONSTANT, element.tobytes(), fingerprint, None)
    coded, predictor = _encode_coded(layout, data, ref, hashes)
    if len(coded) >= data.size + len(table):
        return Blob(STORED, data.tobytes() + table, fingerprint, None)
    if predictor != REFERENCE or ref is None:
        return Blob(CODED, coded, fingerprint, None)
    return Blob(CODED, coded, fingerprint, fingerprint_of(layout, chunk_hashes(layout, ref)))


def is_constant(layout: Layout, data: np.ndarray, element: np.ndarray) -> bool:
    """Whether every element is this one."""
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
        r = chunk.view.r
        z = residual(layout.dtype, chunk.x, r)
        if r is None or z.any():
            counts += histogram(coding, coding.split(z).tokens, coding.context(r, z.size))
    tables = choose_tables(coding, counts).tables
    header = own_header(coding, tables) if isinstance(tables, OwnTables) else parametric_header(coding, tables)
    bodies = list(ChunkCoder(header).encode(_chunks(layout, data, ref)))
    if len(bodies) == 1:
        return write_header(coding, tables) + bodies[0], coding.predictor
    lengths = [len(body) for body in bodies]
    framed = b"".join(varint(len(body)) + body for body in bodies)
    role_hashes = [chunk_hashes(layout, ref)] if ref is not None else []
    return write_header(coding, tables) + framed + chunk_table(layout, lengths, hashes, role_hashes), coding.predictor


def _leading_of_all(layout: Layout, data: np.ndarray) -> Coding:
    ranges = [leading_range(layout.dtype, residual(layout.dtype, c.x, None)) for c in _chunks(layout, data, None)]
    found = [r for r in ranges if r is not None]
    lo, hi = min((lo for lo, _ in found), default=0), max((hi for _, hi in found), default=0)
    return leading_coding(layout.dtype, lo, hi)


def _chunks(layout: Layout, data: np.ndarray, ref: np.ndarray | None) -> Iterator[Chunk]:
    for j in range(layout.chunks):
        part = layout.chunk_bytes(j)
        x = lanes(layout.dtype, data[part])
        yield Chunk(x, View(x.size, None if ref is None else lanes(layout.dtype, ref[part])))


def chunk_table(layout: Layout, lengths: list[int], hashes: list[int], role_hashes: list[list[int]]) -> bytes:
    """The chunk table, empty with less than two chunks; hashes by role are empty for roles that have none."""
    if layout.chunks < 2:
        return b""
    rows = bytearray()
    for j, h in enumerate(hashes):
        if lengths:
            rows += varint(lengths[j])
        rows += u64(h)
        for of_role in role_hashes:
            if of_role:
                rows += u64(of_role[j])
    return bytes(rows) + u32(len(rows))

"""Writing blobs with encoder version 2 (FORMAT.md sections 32 and 36)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .blob import Blob, chunk_table, is_constant
from .choice import Choice, Needed, Subject, choose
from .chunks import Chunk, ChunkCoder, Economy
from .dtypes import chunk_hashes, fingerprint_of
from .exact_rows import write_rows
from .frame import Frame, lanes
from .header import OwnTables, own_header, parametric_header, write_header
from .lists import list_fits
from .model import EXPONENT, EXPONENTS, HYBRID, LEADING, Coding, residual
from .plan import Chosen, choose_tables, histogram, leading_coding, leading_range
from .plans import CONSTANT, IDENTICAL, NARROW, SMALL_CHUNKS, STORED
from .roles import REFERENCE_ROLE, VALUE_ROLE, Slot
from .row_classes import choose_classed, find_classes
from .tables import encode_side
from .wire import varint

SPARSE_TENSOR = 8  # one lane value in so many may have changed for chunks to be sparse
CHUNK_OVERHEAD = 300  # bytes that a chunk may take besides what is counted


def encode_subject(subject: Subject) -> Blob:
    """The blob of a tensor."""
    layout, data, ref = subject.layout, subject.data, subject.ref
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
    written = _Writer(subject, choose(subject)).write(hashes)
    if written is None or (layout.chunks <= SMALL_CHUNKS and len(written.data) >= data.size + len(table)):
        return Blob(STORED, data.tobytes() + table, fingerprint, None)
    return written._replace(fingerprint=fingerprint)


class _Writer:
    """Codes a tensor as it was chosen."""

    def __init__(self, subject: Subject, choice: Choice) -> None:
        self.layout, self.data = subject.layout, subject.data
        self.needed, self.rows = choice.needed, choice.rows
        self.classed = find_classes(subject, choice)
        self.own = next((k for k, x in enumerate(self.needed) if x.role == REFERENCE_ROLE), -1)
        self.slots = [needed.layout.dtype for needed in self.needed]
        self.coding = choice.coding
        if self.coding.token_map == LEADING:
            self.coding = self._whole_range(self.coding)

    def _frame(self, coding: Coding) -> Frame:
        return Frame(self.layout, self.slots, self.own, coding, self.rows)

    def _chunks(self, coding: Coding) -> Iterator[Chunk]:
        frame = self._frame(coding)
        for j in range(self.layout.chunks):
            slots = [lanes(needed.layout.dtype, needed.data[needed.layout.chunk_bytes(j)]) for needed in self.needed]
            x = lanes(self.layout.dtype, self.data[self.layout.chunk_bytes(j)])
            yield Chunk(frame.coded(j, x), frame.view(j, slots))

    def _whole_range(self, coding: Coding) -> Coding:
        """Token map 1 for the values of the whole tensor."""
        ranges = [leading_range(coding.dtype, residual(coding.dtype, c.x, None)) for c in self._chunks(coding)]
        found = [r for r in ranges if r is not None]
        lo, hi = min((lo for lo, _ in found), default=0), max((hi for _, hi in found), default=0)
        whole = leading_coding(coding.dtype, lo, hi)
        return replace(coding, plane_bits=whole.plane_bits, shift=whole.shift, base=whole.base, leading=whole.leading)

    def _counts(self, coding: Coding, class_list: np.ndarray | None) -> np.ndarray:
        counts = np.zeros((coding.contexts, coding.alphabet), np.int64)
        for x, view in self._chunks(coding):
            z = residual(coding.dtype, x, view.r)
            if x.size == 0 or (view.r is not None and not z.any()):
                continue
            contexts = coding.context(view.r if coding.beside is None else view.beside, x.size)
            if coding.classes is not None and class_list is not None:
                contexts += EXPONENTS * class_list[coding.classes.places(view.first, x.size)]
            counts += histogram(coding, coding.split(z).tokens, contexts)
        return counts

    def _tables(self) -> tuple[Coding, Chosen, np.ndarray]:
        """The coding, with classes if they pay, its tables and what they were chosen for."""
        if self.classed is not None:
            coding, class_list = self.classed
            assert coding.classes is not None
            counts = self._counts(coding, np.array(class_list))
            chosen = choose_classed(counts, class_list, coding.classes.number)
            if chosen is not None and isinstance(chosen.tables, OwnTables) and _list_fits(chosen.tables):
                return coding, chosen, counts
            counts = counts.reshape(coding.classes.number, EXPONENTS, -1).sum(axis=0)
            coding = replace(coding, context_part=EXPONENT, classes=None)
        else:
            coding = self.coding
            counts = self._counts(coding, None)
        if counts.any():
            return coding, choose_tables(coding, counts), counts
        nothing = counts.copy()
        nothing[0, 0] = 1  # every chunk is as predicted
        return coding, choose_tables(coding, nothing), counts

    def write(self, hashes: list[int]) -> Blob | None:
        """The blob without its fingerprint; None if the tensor is large and is to be stored."""
        coding, chosen, counts = self._tables()
        tables = chosen.tables
        frame = self._frame(coding)
        head = b""
        if self.rows is not None:
            head += write_rows(self.rows)
        if frame.plan == NARROW:
            head += bytes([self.layout.dtype.mantissa - coding.dtype.mantissa])
        head += write_header(coding, tables)
        total = int(counts.sum())
        if self.layout.chunks > SMALL_CHUNKS and self._stored_is_smaller(coding, chosen, counts, len(head)):
            return None
        header = own_header(coding, tables) if isinstance(tables, OwnTables) else parametric_header(coding, tables)
        few = total - int(counts[:, 0].sum()) <= total // SPARSE_TENSOR
        economy = Economy(chosen.bits16, chosen.total, few)
        bodies = list(ChunkCoder(header, 1, economy).encode(self._chunks(coding)))
        others = [self._slot(needed) for needed in self.needed]
        if len(bodies) == 1:
            data = head + bodies[0]
        else:
            role_hashes = [
                chunk_hashes(needed.layout, needed.data) if slot.hashed else []
                for needed, slot in zip(self.needed, others, strict=True)
            ]
            framed = b"".join(varint(len(body)) + body for body in bodies)
            table = chunk_table(self.layout, [len(body) for body in bodies], hashes, role_hashes)
            data = head + framed + table
        return Blob(frame.plan, data, 0, None, tuple(others))

    def _slot(self, needed: Needed) -> Slot:
        if needed.role == VALUE_ROLE:
            return Slot(needed.role, needed.tensor, 0)
        hashes = chunk_hashes(needed.layout, needed.data)
        return Slot(needed.role, needed.tensor, fingerprint_of(needed.layout, hashes))

    def _stored_is_smaller(self, coding: Coding, chosen: Chosen, counts: np.ndarray, head_nbytes: int) -> bool:
        """Whether a large tensor is stored, decided from the counts."""
        raw = coding.tail_bits + (coding.plane_bits if coding.token_map == HYBRID else 0)
        if coding.token_map == LEADING:
            raw = np.where(np.arange(coding.alphabet) > 0, coding.shift, 0)
        coded = expected_bits(chosen, int(counts.sum())) + int((counts.sum(axis=0) * raw).sum())
        overhead = head_nbytes + CHUNK_OVERHEAD * self.layout.chunks
        return coded + (coded >> 10) + 8 * overhead >= 8 * self.layout.nbytes


def expected_bits(chosen: Chosen, n: int) -> int:
    """The size of the words of n lane values that the tables let expect."""
    return (chosen.bits16 * n // chosen.total) >> 16


def _list_fits(tables: OwnTables) -> bool:
    side = encode_side(tables.p, tables.cluster_of, tables.codes, tables.class_list)
    return list_fits(len(tables.class_list), len(side))

"""The header of a coded tensor (FORMAT.md section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import CorruptError, UnsupportedError
from .dtypes import Dtype
from .lists import MAX_CLASSES, check_list, row_count
from .model import (
    BESIDE,
    BYTE,
    CLASS,
    DIRECT,
    EXPONENT,
    HYBRID,
    LEADING,
    NO_PREDICTOR,
    PROGRAM,
    Beside,
    Classes,
    Coding,
)
from .programs import castable, read_program, write_program
from .tables import (
    OWN,
    PARAMETRIC,
    PARAMETRIC_LOG,
    Shape,
    count_clusters,
    decode_side,
    encode_side,
    normalise,
    parametric_fits,
    parametric_row,
)
from .wire import Reader, varint


class OwnTables(NamedTuple):
    """Own tables as coded: weight mantissa bits, cluster of each context, weight codes of each cluster.

    With context part 3 also the class of each row or column.
    """

    p: int
    log: int
    cluster_of: list[int]
    codes: list[list[int]]
    class_list: Sequence[int] = ()


class Around(NamedTuple):
    """What a header is read in: minor version, the tensor's dtype, the dtypes of its roles, its coded lane values."""

    minor: int
    own: Dtype
    slots: Sequence[Dtype]
    coded_lanes: int


class Fields(NamedTuple):
    """A header up to its tables."""

    coding: Coding
    tables: int
    table_log: int
    side: bytes  # own tables
    shape: Shape | None  # parametric tables

    @property
    def clusters(self) -> int:
        if self.shape is not None:
            return self.coding.contexts
        return count_clusters(self.side, self.coding.contexts, self.coding.classes)


class Header(NamedTuple):
    """A coding with its tables: the cluster of each context and the frequencies of each cluster."""

    coding: Coding
    table_log: int
    cluster_of: np.ndarray  # int64, one a context
    frequencies: np.ndarray  # int64, shape (clusters, tokens)
    own: OwnTables | None = None


def write_header(coding: Coding, tables: OwnTables | Shape) -> bytes:
    """The header's bytes."""
    kind, log = (OWN, tables.log) if isinstance(tables, OwnTables) else (PARAMETRIC, PARAMETRIC_LOG)
    out = bytearray((coding.predictor | coding.token_map << 4, coding.plane_bits // 8 | kind << 3 | (log - 8) << 5))
    out.append(coding.context_part)
    if coding.program is not None:
        out += write_program(coding.program)
    if coding.context_part in (EXPONENT, CLASS, BESIDE):
        out += varint(coding.exponent_base)
    if coding.classes is not None:
        out.append(coding.classes.number - 1 | coding.classes.axis << 7)
        out += varint(coding.classes.rho)
    if coding.beside is not None:
        out.append(coding.beside.slot)
    if coding.token_map == LEADING:
        out.append(coding.shift)
        out += varint(coding.base)
        out.append(coding.alphabet - 1)
    if isinstance(tables, OwnTables):
        side = encode_side(tables.p, tables.cluster_of, tables.codes, tables.class_list)
        out += varint(len(side)) + side
    else:
        out += bytes((tables.shape | tables.slope << 4, tables.scale + 32))
    return bytes(out)


def read_fields(reader: Reader, dtype: Dtype, around: Around | None = None) -> Fields:
    """Parse a header without decoding its tables.

    Args:
        reader: at the header.
        dtype: of the coded lane values; with plan 5 it is narrower than the tensor's.
        around: what the header is read in; a tensor of format 1.0 without it.

    Raises:
        CorruptError: a field out of range or a combination that is not allowed.
        UnsupportedError: a reserved value.
        LimitError: a list that is too long.
    """
    around = around or Around(0, dtype, (), 0)
    first, second, context_part = reader.u8(), reader.u8(), reader.u8()
    predictor, token_map = first & 15, first >> 4
    plane_bits, tables, log = 8 * (second & 7), (second >> 3) & 3, 8 + (second >> 5)
    for what, value, known in (
        ("predictor", predictor, 3 if around.minor else 2),
        ("token map", token_map, 3),
        ("tables", tables, 2),
        ("context part", context_part, 5 if around.minor else 3),
    ):
        if value >= known:
            raise UnsupportedError(f"{reader.what}: {what} {value} is reserved")
    program = None
    if predictor == PROGRAM:
        if dtype != around.own:
            raise reader.fail("a program for a narrow tensor")
        program = read_program(reader, around.own, around.slots)
    _check(reader, dtype, predictor, token_map, context_part)
    if plane_bits > 48 or plane_bits >= dtype.bits or (token_map == DIRECT and plane_bits):
        raise reader.fail("the raw plane is too wide")
    if log > 12 or (tables == PARAMETRIC and log != PARAMETRIC_LOG):
        raise reader.fail("table size out of range")
    if context_part == CLASS and tables != OWN:
        raise reader.fail("classes without own tables")
    exponent_base = reader.varint() if context_part in (EXPONENT, CLASS, BESIDE) else 0
    classes = _read_classes(reader, around) if context_part == CLASS else None
    beside = _read_beside(reader, dtype, around) if context_part == BESIDE else None
    shift = base = leading = 0
    if token_map == LEADING:
        shift, base, leading = reader.u8(), reader.varint(), reader.u8() + 1
        if not max(plane_bits, 1) <= shift <= dtype.bits - 1 or leading < 2:
            raise reader.fail("leading bits out of range")
    leading_bits = (shift, base, leading)
    operands = (program, classes, beside)
    coding = Coding(dtype, predictor, token_map, plane_bits, context_part, exponent_base, *leading_bits, *operands)
    if tables == OWN:
        side = bytes(reader.take(reader.varint()))
        if classes is not None:
            check_list(classes.entries, len(side))
        return Fields(coding, tables, log, side, None)
    family, scale = reader.u8(), reader.u8() - 32
    shape = Shape(family & 15, family >> 4, scale)
    if shape.shape > 4 or shape.slope > (context_part == EXPONENT) or scale > 160 or not parametric_fits(coding):
        raise reader.fail("parametric tables out of range")
    return Fields(coding, tables, log, b"", shape)


def _check(reader: Reader, dtype: Dtype, predictor: int, token_map: int, context_part: int) -> None:
    wide_float = dtype.is_float and dtype.bits >= 16
    fits = {
        HYBRID: dtype.bits >= 16,
        LEADING: predictor == NO_PREDICTOR and wide_float,
        DIRECT: dtype.bits == 8,
    }[token_map]
    if context_part in (EXPONENT, CLASS):
        fits = fits and predictor != NO_PREDICTOR and wide_float
    if context_part == BYTE:
        fits = fits and predictor != NO_PREDICTOR and dtype.bits == 8
    if not fits:
        raise reader.fail(f"token map {token_map} or context part {context_part} does not fit")


def _read_classes(reader: Reader, around: Around) -> Classes:
    first, rho = reader.u8(), reader.varint()
    count, axis = 1 + (first & 127), first >> 7
    if not 2 <= count <= MAX_CLASSES:
        raise reader.fail(f"{count} classes")
    rows = row_count(reader, rho, around.coded_lanes)
    return Classes(count, axis, rho, rho if axis else rows)


def _read_beside(reader: Reader, dtype: Dtype, around: Around) -> Beside:
    slot = reader.u8()
    if slot >= len(around.slots):
        raise reader.fail(f"contexts from role {slot} of {len(around.slots)}")
    if dtype != around.own or dtype.components != 1 or not castable(around.slots[slot]):
        raise reader.fail("the contexts' tensor does not fit")
    return Beside(slot, around.slots[slot])


def used_slots(coding: Coding) -> set[int]:
    """The roles a header names; that of the own reference with predictor 1 is not among them."""
    slots = set() if coding.program is None else set(coding.program.slots)
    return slots if coding.beside is None else slots | {coding.beside.slot}


def read_header(reader: Reader, dtype: Dtype, around: Around | None = None) -> Header:
    """Parse a header and build its tables.

    Raises:
        CorruptError: a field out of range or a combination that is not allowed.
        UnsupportedError: a reserved value.
    """
    return build_header(read_fields(reader, dtype, around), reader)


def build_header(fields: Fields, reader: Reader) -> Header:
    """Build the tables of a header.

    Raises:
        CorruptError: a side string that breaks a rule.
    """
    coding = fields.coding
    if fields.shape is not None:
        return parametric_header(coding, fields.shape)
    try:
        side = decode_side(fields.side, coding.contexts, coding.alphabet, coding.classes)
    except CorruptError as error:
        raise reader.fail(str(error)) from None
    return own_header(coding, OwnTables(side.p, fields.table_log, side.cluster_of, side.codes, side.class_list))


def own_header(coding: Coding, own: OwnTables) -> Header:
    """Header of a tensor with own tables."""
    frequencies = np.array([normalise(row, own.p, own.log) for row in own.codes], np.int64)
    return Header(coding, own.log, np.array(own.cluster_of, np.int64), frequencies, own)


def parametric_header(coding: Coding, shape: Shape) -> Header:
    """Header of a tensor with parametric tables: every context is its own cluster."""
    rows = [parametric_row(coding, shape, c) for c in range(coding.contexts)]
    return Header(coding, PARAMETRIC_LOG, np.arange(coding.contexts), np.array(rows, np.int64))

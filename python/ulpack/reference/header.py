"""The header of a coded tensor (FORMAT.md section 7)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import CorruptError, UnsupportedError
from .dtypes import Dtype
from .model import BYTE, DIRECT, EXPONENT, HYBRID, LEADING, REFERENCE, Coding
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
    """Own tables as coded: weight mantissa bits, cluster of each context, weight codes of each cluster."""

    p: int
    log: int
    cluster_of: list[int]
    codes: list[list[int]]


class Fields(NamedTuple):
    """A header up to its tables."""

    coding: Coding
    tables: int
    table_log: int
    side: bytes  # own tables
    shape: Shape | None  # parametric tables

    @property
    def clusters(self) -> int:
        return count_clusters(self.side, self.coding.contexts) if self.shape is None else self.coding.contexts


class Header(NamedTuple):
    """A coding with its tables: the cluster of each context and the frequencies of each cluster."""

    coding: Coding
    table_log: int
    cluster_of: np.ndarray  # int64, one a context
    frequencies: np.ndarray  # int64, shape (clusters, tokens)


def write_header(coding: Coding, tables: OwnTables | Shape) -> bytes:
    """The header's bytes."""
    kind, log = (OWN, tables.log) if isinstance(tables, OwnTables) else (PARAMETRIC, PARAMETRIC_LOG)
    out = bytearray((coding.predictor | coding.token_map << 4, coding.plane_bits // 8 | kind << 3 | (log - 8) << 5))
    out.append(coding.context_part)
    if coding.context_part == EXPONENT:
        out += varint(coding.exponent_base)
    if coding.token_map == LEADING:
        out.append(coding.shift)
        out += varint(coding.base)
        out.append(coding.alphabet - 1)
    if isinstance(tables, OwnTables):
        side = encode_side(tables.p, tables.cluster_of, tables.codes)
        out += varint(len(side)) + side
    else:
        out += bytes((tables.shape | tables.slope << 4, tables.scale + 32))
    return bytes(out)


def read_fields(reader: Reader, dtype: Dtype) -> Fields:
    """Parse a header without decoding its tables.

    Raises:
        CorruptError: a field out of range or a combination that is not allowed.
        UnsupportedError: a reserved value.
    """
    first, second, context_part = reader.u8(), reader.u8(), reader.u8()
    predictor, token_map = first & 15, first >> 4
    plane_bits, tables, log = 8 * (second & 7), (second >> 3) & 3, 8 + (second >> 5)
    for what, value, known in (
        ("predictor", predictor, 2),
        ("token map", token_map, 3),
        ("tables", tables, 2),
        ("context part", context_part, 3),
    ):
        if value >= known:
            raise UnsupportedError(f"{reader.what}: {what} {value} is reserved")
    _check(reader, dtype, predictor, token_map, context_part)
    if plane_bits > 48 or plane_bits >= dtype.bits or (token_map == DIRECT and plane_bits):
        raise reader.fail("the raw plane is too wide")
    if log > 12 or (tables == PARAMETRIC and log != PARAMETRIC_LOG):
        raise reader.fail("table size out of range")
    exponent_base = reader.varint() if context_part == EXPONENT else 0
    shift = base = leading = 0
    if token_map == LEADING:
        shift, base, leading = reader.u8(), reader.varint(), reader.u8() + 1
        if not max(plane_bits, 1) <= shift <= dtype.bits - 1 or leading < 2:
            raise reader.fail("leading bits out of range")
    coding = Coding(dtype, predictor, token_map, plane_bits, context_part, exponent_base, shift, base, leading)
    if tables == OWN:
        return Fields(coding, tables, log, bytes(reader.take(reader.varint())), None)
    family, scale = reader.u8(), reader.u8() - 32
    shape = Shape(family & 15, family >> 4, scale)
    if shape.shape > 4 or shape.slope > (context_part == EXPONENT) or scale > 160 or not parametric_fits(coding):
        raise reader.fail("parametric tables out of range")
    return Fields(coding, tables, log, b"", shape)


def _check(reader: Reader, dtype: Dtype, predictor: int, token_map: int, context_part: int) -> None:
    wide_float = dtype.is_float and dtype.bits >= 16
    fits = {
        HYBRID: dtype.bits >= 16,
        LEADING: predictor != REFERENCE and wide_float,
        DIRECT: dtype.bits == 8,
    }[token_map]
    if context_part == EXPONENT:
        fits = fits and predictor == REFERENCE and wide_float
    if context_part == BYTE:
        fits = fits and predictor == REFERENCE and dtype.bits == 8
    if not fits:
        raise reader.fail(f"token map {token_map} or context part {context_part} does not fit")


def read_header(reader: Reader, dtype: Dtype) -> Header:
    """Parse a header and build its tables.

    Raises:
        CorruptError: a field out of range or a combination that is not allowed.
        UnsupportedError: a reserved value.
    """
    fields = read_fields(reader, dtype)
    coding = fields.coding
    if fields.shape is not None:
        return parametric_header(coding, fields.shape)
    try:
        p, cluster_of, codes = decode_side(fields.side, coding.contexts, coding.alphabet)
    except CorruptError as error:
        raise reader.fail(str(error)) from None
    return own_header(coding, OwnTables(p, fields.table_log, cluster_of, codes))


def own_header(coding: Coding, own: OwnTables) -> Header:
    """Header of a tensor with own tables."""
    frequencies = np.array([normalise(row, own.p, own.log) for row in own.codes], np.int64)
    return Header(coding, own.log, np.array(own.cluster_of, np.int64), frequencies)


def parametric_header(coding: Coding, shape: Shape) -> Header:
    """Header of a tensor with parametric tables: every context is its own cluster."""
    rows = [parametric_row(coding, shape, c) for c in range(coding.contexts)]
    return Header(coding, PARAMETRIC_LOG, np.arange(coding.contexts), np.array(rows, np.int64))

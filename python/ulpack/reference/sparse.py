"""Chunk kind 3: the changed lane values alone, as gaps and changes (FORMAT.md section 18)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import rans
from .bits import pack_bits, unpack_bits
from .header import Header
from .model import HYBRID, NO_PREDICTOR, Coding, Split, bit_length
from .tables import GAP_TOKENS, PARAMETRIC_LOG, gap_row, gap_scale, normalise
from .wire import Reader, varint

LANES = (1, 4, 16, 64)
MAX_COUNT_ZEROS = 24  # more than the zeros of any count has


def fits(header: Header) -> bool:
    """Whether a header allows sparse chunks (in a file of format 1.1)."""
    coding = header.coding
    return (
        coding.predictor != NO_PREDICTOR
        and coding.token_map == HYBRID
        and coding.plane_bits == 0
        and header.own is not None
        and coding.dtype.bits <= 32
        and coding.dtype.components == 1
    )


class Model:
    """What a tensor's tables say about its sparse chunks."""

    def __init__(self, header: Header) -> None:
        assert header.own is not None
        own = header.own
        self.coding: Coding = header.coding
        self.log = own.log
        self.changes = [(1 << own.log) - f for f in header.frequencies[:, 0].tolist()]
        # By cluster: the frequencies of its tokens if it is not 0; None if it has no other.
        self.values: list[np.ndarray | None] = []
        for codes in own.codes:
            row = [0, *codes[1:]]
            self.values.append(np.array(normalise(row, own.p, PARAMETRIC_LOG)) if any(row) else None)

    def expected(self, cluster: int, count: int) -> int:
        """How many of ``count`` lane values of a cluster the tables let expect to change."""
        return (count * self.changes[cluster]) >> self.log

    def symbol_tables(self, changed: Sequence[int], totals: Sequence[int]) -> tuple[rans.Tables, np.ndarray]:
        """Tables and, for each symbol, its row: the gaps of all clusters, then the values of all clusters."""
        used = [k for k, n in enumerate(changed) if n]
        gaps = [gap_row(gap_scale(changed[k], totals[k] - changed[k])) for k in used]
        values = [self.values[k] for k in used]
        width = max(GAP_TOKENS, self.coding.alphabet)
        rows = [np.pad(row, (0, width - len(row))) for row in (*gaps, *values) if row is not None]
        counts = [changed[k] for k in used]
        return rans.Tables(np.array(rows), PARAMETRIC_LOG), np.repeat(np.arange(len(rows)), counts * 2)


# --- decoder ---------------------------------------------------------------------------------------------------------


class _Stream:
    """The bit stream of the counts and gaps, least significant bit first."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.data = bytes(reader.data[reader.pos : reader.end])
        self.pos = 0  # in bits

    def take(self, count: int) -> int:
        if self.pos + count > 8 * len(self.data):
            raise self.reader.fail("ends early")
        start = self.pos >> 3
        word = int.from_bytes(self.data[start : start + 8], "little") >> (self.pos & 7)
        self.pos += count
        return word & ((1 << count) - 1)

    def count(self, expected: int, most: int) -> int:
        """A number of changes in 0 .. most, coded as its difference to what was expected."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros == MAX_COUNT_ZEROS:
                raise self.reader.fail("a number of changes is out of range")
        v = (1 << zeros) + self.take(zeros) - 1
        value = expected + ((v >> 1) ^ -(v & 1))
        if not 0 <= value <= most:
            raise self.reader.fail("a number of changes is out of range")
        return value

    def finish(self) -> None:
        """Move the reader to the byte after the stream."""
        if self.pos & 7 and self.data[self.pos >> 3] >> (self.pos & 7):
            raise self.reader.fail("unused bits are not 0")
        self.reader.take((self.pos + 7) // 8)


def decode(model: Model, body: Reader, lanes: int, clusters: np.ndarray) -> np.ndarray:
    """z of each lane value.

    Args:
        model: of the tensor.
        body: after the first byte of the body.
        lanes: of the coder.
        clusters: of the lane values.

    Raises:
        CorruptError: a body that breaks a rule.
    """
    words = body.varint()
    states = np.frombuffer(body.take(4 * lanes), "<u4").astype(np.uint32)
    stream_words = np.frombuffer(body.take(2 * words), "<u2").astype(np.uint16)
    stream = _Stream(body)
    totals = np.bincount(clusters, minlength=len(model.values)).tolist()
    changed = []
    for k, total in enumerate(totals):
        changed.append(stream.count(model.expected(k, total), total) if total else 0)
        if changed[-1] and model.values[k] is None:
            raise body.fail("changes in a cluster that cannot have any")
    n = sum(changed)
    if n == 0:
        raise body.fail("a sparse chunk without changes")
    tables, rows = model.symbol_tables(changed, totals)
    tokens = rans.decode(tables, rows[None], states[None], [stream_words])[0]
    places = _places(stream, tokens[:n], clusters, changed, totals)
    stream.finish()
    values = tokens[n:]
    if not values.all():
        raise body.fail("a change by nothing")
    tails = unpack_bits(body, model.coding.tail_bits[values])
    z = np.zeros(clusters.size, model.coding.dtype.lane.newbyteorder("="))
    z[places] = model.coding.join(Split(values, tails, np.zeros(0, np.uint64)))
    return z


def _places(
    stream: _Stream, tokens: np.ndarray, clusters: np.ndarray, changed: Sequence[int], totals: Sequence[int]
) -> np.ndarray:
    """Where the changed lane values are, by cluster."""
    by_cluster = np.argsort(clusters, kind="stable")
    found = []
    start = first = 0
    for n, total in zip(changed, totals, strict=True):
        rank = -1
        for token in tokens[first : first + n].tolist():
            tail = max((token >> 2) - 1, 0)
            rank += 1 + ((token - 4 * tail) << tail) + stream.take(tail)
            if rank >= total:
                raise stream.reader.fail("a gap leads out of the chunk")
            found.append(start + rank)
        start += total
        first += n
    return by_cluster[found]


# --- encoder ---------------------------------------------------------------------------------------------------------


def encode(model: Model, z: np.ndarray, clusters: np.ndarray, lane_code: int) -> bytes:
    """The body of a chunk after its first byte.

    Args:
        model: of the tensor.
        z: of the lane values, at least one not 0.
        clusters: of the lane values.
        lane_code: code of the number of lanes.
    """
    totals = np.bincount(clusters, minlength=len(model.values))
    by_cluster = np.argsort(clusters, kind="stable")
    ranked = np.flatnonzero(z[by_cluster])  # in the order of clusters
    places = by_cluster[ranked]
    owner = clusters[places].astype(np.int64)
    changed = np.bincount(owner, minlength=totals.size)
    starts = np.cumsum(totals) - totals
    before = np.concatenate([[-1], ranked[:-1]])
    first = np.concatenate([[True], owner[1:] != owner[:-1]])
    gaps = ranked - np.where(first, starts[owner], before + 1)

    head_values, head_widths = [], []
    for k, total in enumerate(totals.tolist()):
        if total:
            d = int(changed[k]) - model.expected(k, total)
            v = (2 * d if d >= 0 else -2 * d - 1) + 1
            n = v.bit_length() - 1
            head_values += [0, 1, v - (1 << n)]
            head_widths += [n, 1, n]
    gap_tails = np.maximum(bit_length(gaps) - 3, 0)
    gap_tokens = 4 * gap_tails + (gaps >> gap_tails)
    stream = pack_bits(
        np.concatenate([np.array(head_values, np.uint64), (gaps & ((1 << gap_tails) - 1)).astype(np.uint64)]),
        np.concatenate([np.array(head_widths, np.int64), gap_tails]),
    )
    split = model.coding.split(z[places])
    tokens = np.concatenate([gap_tokens.astype(np.uint8), split.tokens])
    tables, rows = model.symbol_tables(changed.tolist(), totals.tolist())
    states, (words,) = rans.encode(tables, tokens[None], rows[None], LANES[lane_code])
    return b"".join(
        (
            varint(words.size),
            states[0].astype("<u4").tobytes(),
            words.astype("<u2").tobytes(),
            stream,
            pack_bits(split.tails, model.coding.tail_bits[split.tokens]),
        )
    )

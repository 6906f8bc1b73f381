"""Chunk bodies (FORMAT.md sections 11 and 23), a few chunks at a time so that NumPy has wide rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ..errors import UnsupportedError
from . import rans, sparse
from .bits import pack_bits, pack_plane, unpack_bits, unpack_plane
from .header import Header
from .model import EXPONENTS, LEADING, Coding, Split, residual, restore
from .rans import Tables
from .wire import Reader, varint

CODED, STORED, UNCHANGED, SPARSE = 0, 1, 2, 3
LANES = sparse.LANES
TOGETHER = 8  # chunks in flight


def lane_code(lane_values: int) -> int:
    """The canonical number of lanes, as its code."""
    return sum(lane_values >= limit for limit in (1024, 16384, 131072))


def words_lane_code(nbytes: int) -> int:
    """The most lanes that pay beside words of so many bytes, as their code (encoder version 2)."""
    return sum(nbytes >= limit for limit in (64, 1024, 16384))


SPARSE_SHARE = 16  # one lane value in so many may have changed for a chunk to be sparse


class Economy(NamedTuple):
    """What encoder version 2 adds: the ideal length in 2^-16 bit of ``total`` lane values, and whether few changed."""

    bits16: int
    total: int
    few_changed: bool

    def lane_code(self, lane_values: int) -> int:
        nbytes = ((self.bits16 * lane_values // self.total) >> 16) // 8
        return min(lane_code(lane_values), words_lane_code(nbytes))


class View(NamedTuple):
    """What both sides know of the coded lane values of a chunk; lane values are in their native unsigned types.

    ``size`` is their number, ``r`` what predicts them (None without), ``first`` the place of the first one among those
    of the tensor, ``beside`` what gives their contexts with context part 4.
    """

    size: int
    r: np.ndarray | None
    first: int = 0
    beside: np.ndarray | None = None


class Chunk(NamedTuple):
    """The coded lane values of a chunk, in the native unsigned type."""

    x: np.ndarray
    view: View


class ChunkCoder:
    """Codes the chunks of one tensor in both directions; sparse ones only in a file of format 1.1."""

    def __init__(self, header: Header, minor: int = 0, economy: Economy | None = None) -> None:
        self.coding: Coding = header.coding
        self.cluster_of = header.cluster_of
        self.tables = Tables(header.frequencies, header.table_log)
        self.class_list = np.array(header.own.class_list if header.own else (), np.int64)
        self.minor = minor
        self.economy = economy
        self.sparse = sparse.Model(header) if minor and sparse.fits(header) else None

    def _clusters(self, view: View) -> np.ndarray:
        contexts = self.coding.context(view.r if self.coding.beside is None else view.beside, view.size)
        if self.coding.classes is not None:
            contexts += EXPONENTS * self.class_list[self.coding.classes.places(view.first, view.size)]
        return self.cluster_of[contexts].astype(np.uint8)

    # --- encoder ---

    def encode(self, chunks: Iterator[Chunk]) -> Iterator[bytes]:
        """The canonical body of each chunk."""
        batch: list[Chunk] = []
        for chunk in chunks:
            if batch and (len(batch) == TOGETHER or chunk.x.size != batch[0].x.size):
                yield from self._encode_batch(batch)
                batch = []
            batch.append(chunk)
        yield from self._encode_batch(batch)

    def _encode_batch(self, batch: list[Chunk]) -> Iterator[bytes]:
        size = batch[0].x.size if batch else 0
        splits: list[Split | bytes] = []
        if size == 0:  # all of its rows are exact
            yield from (b"" for _ in batch)
            return
        for chunk in batch:
            z = residual(self.coding.dtype, chunk.x, chunk.view.r)
            splits.append(self._short(chunk, z) or self.coding.split(z))
        coded = [i for i, split in enumerate(splits) if isinstance(split, Split)]
        if coded:
            code = self.economy.lane_code(size) if self.economy else lane_code(size)
            tokens = np.array([split.tokens for split in splits if isinstance(split, Split)])
            clusters = np.array([self._clusters(batch[i].view) for i in coded])
            states, words = rans.encode(self.tables, tokens, clusters, LANES[code])
        row = 0
        for chunk, split in zip(batch, splits, strict=True):
            if isinstance(split, bytes):
                yield self._or_stored(split, chunk)
                continue
            body = b"".join(
                (
                    bytes([CODED | code << 2]),
                    varint(words[row].size),
                    states[row].astype("<u4").tobytes(),
                    words[row].astype("<u2").tobytes(),
                    pack_plane(split.plane, self.coding.plane_bits),
                    pack_bits(split.tails, self.coding.tail_bits[split.tokens]),
                )
            )
            row += 1
            yield self._or_stored(body, chunk)

    def _short(self, chunk: Chunk, z: np.ndarray) -> bytes | None:
        """The body of a chunk that is unchanged or sparse, None for others."""
        if chunk.view.r is None:
            return None
        changed = int(np.count_nonzero(z))
        if changed == 0:
            return bytes([UNCHANGED])
        if self.sparse is None or not (self.economy and self.economy.few_changed) or changed > z.size // SPARSE_SHARE:
            return None
        code = lane_code(2 * changed)
        return bytes([SPARSE | code << 2]) + sparse.encode(self.sparse, z, self._clusters(chunk.view), code)

    def _or_stored(self, body: bytes, chunk: Chunk) -> bytes:
        """The body, or the lane values themselves if they are not longer."""
        raw = chunk.x.astype(self.coding.dtype.lane).tobytes()
        return body if len(body) < 1 + len(raw) else bytes([STORED]) + raw

    # --- decoder ---

    def decode(self, bodies: Sequence[Reader], views: Sequence[View]) -> list[np.ndarray]:
        """The coded lane values of each chunk.

        Args:
            bodies: one a chunk, at the start of the chunk body; it may be empty if there are no lane values.
            views: what is known of each chunk.

        Raises:
            CorruptError: a body that breaks a rule.
            UnsupportedError: a reserved kind of chunk.
        """
        parts = [self._open(body, view) for body, view in zip(bodies, views, strict=True)]
        coded = [(i, part) for i, part in enumerate(parts) if isinstance(part, _Coded)]
        tokens: dict[int, np.ndarray] = {}
        for _, group in groupby(coded, lambda pair: (views[pair[0]].size, pair[1].states.size)):
            alike = dict(group)
            clusters = np.array([self._clusters(views[i]) for i in alike])
            states = np.array([part.states for part in alike.values()])
            words = [part.words for part in alike.values()]
            tokens.update(zip(alike, rans.decode(self.tables, clusters, states, words), strict=True))
        out = []
        for i, part in enumerate(parts):
            if isinstance(part, _Coded):
                part = restore(self.coding.dtype, self._join(part.body, tokens[i]), views[i].r)
            out.append(part)
        return out

    def _open(self, body: Reader, view: View) -> np.ndarray | _Coded:
        """Lane values, or for a chunk of kind 0 the parts of its body."""
        dtype = self.coding.dtype
        native = dtype.lane.newbyteorder("=")
        if view.size == 0:
            body.finish()
            return np.zeros(0, native)
        head = body.u8()
        kind, lanes = head & 3, head >> 2
        if kind == SPARSE and not self.minor:
            raise UnsupportedError(f"{body.what}: chunk kind 3 is reserved")
        if lanes > 3 or (lanes and kind in (STORED, UNCHANGED)):
            raise body.fail("lanes out of range")
        if kind == STORED:
            raw = np.frombuffer(body.take(view.size * dtype.bits // 8), dtype.lane)
            body.finish()
            return raw.astype(native)
        if kind == UNCHANGED:
            body.finish()
            return restore(dtype, np.zeros(view.size, native), view.r)
        if kind == SPARSE:
            if self.sparse is None:
                raise body.fail("a sparse chunk under a header that does not allow it")
            return restore(dtype, sparse.decode(self.sparse, body, LANES[lanes], self._clusters(view)), view.r)
        words = body.varint()
        states = np.frombuffer(body.take(4 * LANES[lanes]), "<u4").astype(np.uint32)
        return _Coded(states, np.frombuffer(body.take(2 * words), "<u2").astype(np.uint16), body)

    def _join(self, body: Reader, tokens: np.ndarray) -> np.ndarray:
        coding = self.coding
        planes = int(np.count_nonzero(tokens)) if coding.token_map == LEADING else tokens.size
        plane = unpack_plane(body, planes, coding.plane_bits)
        return coding.join(Split(tokens, unpack_bits(body, coding.tail_bits[tokens]), plane))


class _Coded(NamedTuple):
    """The parts of a coded body; the reader stands at the raw plane."""

    states: np.ndarray
    words: np.ndarray
    body: Reader

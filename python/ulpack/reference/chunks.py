"""Chunk bodies (FORMAT.md sections 11 and 23), a few chunks at a time so that NumPy has wide rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ..errors import UnsupportedError
from . import rans
from .bits import pack_bits, pack_plane, unpack_bits, unpack_plane
from .header import Header
from .model import LEADING, Coding, Split, residual, restore
from .rans import Tables
from .wire import Reader, varint

CODED, STORED, UNCHANGED = 0, 1, 2
LANES = (1, 4, 16, 64)
TOGETHER = 8  # chunks in flight


def lane_code(lane_values: int) -> int:
    """The canonical number of lanes, as its code."""
    return sum(lane_values >= limit for limit in (1024, 16384, 131072))


class Chunk(NamedTuple):
    """Lane values of a chunk, in the native unsigned type, and those of the reference (None without)."""

    x: np.ndarray
    r: np.ndarray | None


class ChunkCoder:
    """Codes the chunks of one tensor in both directions."""

    def __init__(self, header: Header) -> None:
        self.coding: Coding = header.coding
        self.cluster_of = header.cluster_of
        self.tables = Tables(header.frequencies, header.table_log)

    def _clusters(self, r: np.ndarray | None, count: int) -> np.ndarray:
        return self.cluster_of[self.coding.context(r, count)].astype(np.uint8)

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
        splits = []
        for chunk in batch:
            z = residual(self.coding.dtype, chunk.x, chunk.r)
            splits.append(None if chunk.r is not None and not z.any() else self.coding.split(z))
        coded = [i for i, split in enumerate(splits) if split is not None]
        if coded:
            code = lane_code(batch[0].x.size)
            tokens = np.array([split.tokens for split in splits if split is not None])
            clusters = np.array([self._clusters(batch[i].r, batch[i].x.size) for i in coded])
            states, words = rans.encode(self.tables, tokens, clusters, LANES[code])
        row = 0
        for chunk, split in zip(batch, splits, strict=True):
            if split is None:
                yield bytes([UNCHANGED])
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
            raw = chunk.x.astype(self.coding.dtype.lane).tobytes()
            yield body if len(body) < 1 + len(raw) else bytes([STORED]) + raw

    # --- decoder ---

    def decode(self, bodies: Sequence[Reader], counts: Sequence[int], refs: Sequence[np.ndarray | None]) -> list[bytes]:
        """The raw bytes of each chunk.

        Args:
            bodies: one a chunk, at the start of the chunk body.
            counts: lane values of each chunk.
            refs: lane values of the reference of each chunk, None without.

        Raises:
            CorruptError: a body that breaks a rule.
            UnsupportedError: a reserved kind of chunk.
        """
        parts = [self._open(body, count) for body, count in zip(bodies, counts, strict=True)]
        coded = [(i, part) for i, part in enumerate(parts) if isinstance(part, _Coded)]
        tokens: dict[int, np.ndarray] = {}
        for (count, _), group in groupby(coded, lambda pair: (counts[pair[0]], pair[1].states.size)):
            alike = dict(group)
            clusters = np.array([self._clusters(refs[i], count) for i in alike])
            states = np.array([part.states for part in alike.values()])
            words = [part.words for part in alike.values()]
            tokens.update(zip(alike, rans.decode(self.tables, clusters, states, words), strict=True))
        out = []
        for i, part in enumerate(parts):
            if isinstance(part, np.ndarray):
                x = part
            else:
                z = np.zeros(counts[i], self.coding.dtype.lane) if part is None else self._join(part.body, tokens[i])
                x = restore(self.coding.dtype, z, refs[i])
            out.append(x.astype(self.coding.dtype.lane).tobytes())
        return out

    def _open(self, body: Reader, count: int) -> np.ndarray | _Coded | None:
        """Raw lane values of a stored chunk, None for an unchanged one, else the parts of a coded one."""
        head = body.u8()
        kind, lanes = head & 3, head >> 2
        if kind == 3:
            raise UnsupportedError(f"{body.what}: chunk kind 3 is reserved")
        if lanes > 3 or (lanes and kind != CODED):
            raise body.fail("lanes out of range")
        if kind == STORED:
            raw = np.frombuffer(body.take(count * self.coding.dtype.bits // 8), self.coding.dtype.lane)
            body.finish()
            return raw
        if kind == UNCHANGED:
            body.finish()
            return None
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

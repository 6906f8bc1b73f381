"""Static interleaved rANS (FORMAT.md sections 11 and 23): plain integers for few lanes, NumPy rows for many."""

from __future__ import annotations

import numpy as np

from ..errors import CorruptError

LOW = 1 << 15
HIGH = 1 << 31
SCALAR_WIDTH = 16  # up to so many lanes in flight a Python loop is faster than NumPy calls


class Tables:
    """Frequencies of all clusters, as arrays by (cluster, token) and by (cluster, slot)."""

    def __init__(self, frequencies: np.ndarray, table_log: int) -> None:
        clusters, self.alphabet = frequencies.shape
        self.log = table_log
        self.frequencies = frequencies.astype(np.uint32)
        self.cumulative = np.cumsum(frequencies, axis=1).astype(np.uint32) - self.frequencies
        size = 1 << table_log
        tokens = np.tile(np.arange(self.alphabet, dtype=np.uint8), clusters)
        self.slot_token = np.repeat(tokens, frequencies.reshape(-1))
        cell = np.repeat(np.arange(clusters), size) * self.alphabet + self.slot_token
        self.slot_frequency = self.frequencies.reshape(-1)[cell]
        slot = np.tile(np.arange(size, dtype=np.uint32), clusters)
        self.slot_bias = slot - self.cumulative.reshape(-1)[cell]


def encode(tables: Tables, tokens: np.ndarray, clusters: np.ndarray, lanes: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Code chunks of equal length side by side.

    Args:
        tables: the frequencies.
        tokens: uint8, shape (chunks, symbols).
        clusters: the cluster of each symbol, same shape.
        lanes: N.

    Returns:
        The final states, uint32 of shape (chunks, lanes), and the words of each chunk, uint16.
    """
    cells = clusters.astype(np.int64) * tables.alphabet + tokens
    if tokens.shape[0] * lanes <= SCALAR_WIDTH:
        pairs = [_encode_scalar(tables, row, lanes) for row in cells]
        return np.array([states for states, _ in pairs], np.uint32), [words for _, words in pairs]
    return _encode_rows(tables, cells, lanes)


def _encode_scalar(tables: Tables, cells: np.ndarray, lanes: int) -> tuple[list[int], np.ndarray]:
    frequencies = tables.frequencies.reshape(-1)[cells].tolist()
    cumulative = tables.cumulative.reshape(-1)[cells].tolist()
    log = tables.log
    states = [LOW] * lanes
    words = []
    for i in range(len(frequencies) - 1, -1, -1):
        f = frequencies[i]
        x = states[i % lanes]
        if x >= f << (31 - log):
            words.append(x & 0xFFFF)
            x >>= 16
        states[i % lanes] = ((x // f) << log) + x % f + cumulative[i]
    return states, np.array(words[::-1], np.uint16)


def _encode_rows(tables: Tables, cells: np.ndarray, lanes: int) -> tuple[np.ndarray, list[np.ndarray]]:
    chunks, count = cells.shape
    frequencies = tables.frequencies.reshape(-1)[cells]
    cumulative = tables.cumulative.reshape(-1)[cells]
    states = np.full((chunks, lanes), LOW, np.uint32)
    emits = np.zeros((chunks, count), bool)
    words = np.zeros((chunks, count), np.uint16)
    log, room = tables.log, 31 - tables.log
    for first in range((count - 1) // lanes * lanes, -1, -lanes):
        row = slice(first, min(first + lanes, count))
        f = frequencies[:, row]
        x = states[:, : f.shape[1]]
        emit = x >= (f << room)
        emits[:, row] = emit
        words[:, row] = x  # the low 16 bits
        x = np.where(emit, x >> 16, x)
        quotient = x // f
        states[:, : f.shape[1]] = (quotient << log) + (x - quotient * f) + cumulative[:, row]
    return states, [words[c][emits[c]] for c in range(chunks)]


def decode(tables: Tables, clusters: np.ndarray, states: np.ndarray, words: list[np.ndarray]) -> np.ndarray:
    """Inverse of ``encode``: the tokens, uint8 of shape (chunks, symbols).

    Args:
        tables: the frequencies.
        clusters: the cluster of each symbol, shape (chunks, symbols).
        states: uint32, shape (chunks, lanes).
        words: uint16, one array a chunk.

    Raises:
        CorruptError: a state out of range, words too few or left over, or a last state other than 2^15.
    """
    if (states < LOW).any() or (states >= HIGH).any():
        raise CorruptError("a coder state is out of range")
    if states.size <= SCALAR_WIDTH:
        slots = np.array([_decode_scalar(tables, *chunk) for chunk in zip(clusters, states, words, strict=True)])
    else:
        slots = _decode_rows(tables, clusters, states, words)
    return tables.slot_token[slots]


def _decode_scalar(tables: Tables, clusters: np.ndarray, states: np.ndarray, words: np.ndarray) -> list[int]:
    frequencies = tables.slot_frequency.tolist()
    bias = tables.slot_bias.tolist()
    log, mask = tables.log, (1 << tables.log) - 1
    x_of = states.tolist()
    lanes = len(x_of)
    stream = words.tolist()
    stream.reverse()
    slots = []
    try:
        for i, table in enumerate((clusters.astype(np.int64) << log).tolist()):
            x = x_of[i % lanes]
            slot = table + (x & mask)
            slots.append(slot)
            x = frequencies[slot] * (x >> log) + bias[slot]
            if x < LOW:
                x = (x << 16) | stream.pop()
            x_of[i % lanes] = x
    except IndexError:
        raise CorruptError("a chunk has too few words") from None
    if stream:
        raise CorruptError("a chunk has words that are never read")
    if any(x != LOW for x in x_of):
        raise CorruptError("a coder state does not end at its start value")
    return slots


def _decode_rows(tables: Tables, clusters: np.ndarray, states: np.ndarray, words: list[np.ndarray]) -> np.ndarray:
    lanes, count = states.shape[1], clusters.shape[1]
    log, mask = np.uint32(tables.log), np.uint32((1 << tables.log) - 1)
    frequencies, bias = tables.slot_frequency, tables.slot_bias
    slots = clusters.astype(np.int64) << tables.log
    x = states.copy()
    # All words in one array, followed by zeros that a chunk with too few words reads until the check at the end.
    stream = np.concatenate([*words, np.zeros(count + 1, np.uint16)])
    ends = np.cumsum([w.size for w in words])
    position = np.concatenate([[0], ends[:-1]])[:, None]
    for first in range(0, count, lanes):
        slot = slots[:, first : first + lanes]
        if slot.shape[1] < lanes:
            rest = x[:, slot.shape[1] :]
            x = x[:, : slot.shape[1]]
        slot += x & mask
        x = frequencies[slot] * (x >> log) + bias[slot]
        need = x < LOW
        where = np.cumsum(need, axis=1)
        word = stream[position + where - 1]
        x = np.where(need, (x << np.uint32(16)) | word, x)
        position = position + where[:, -1:]
    if count % lanes:
        x = np.concatenate([x, rest], axis=1)
    if (position[:, 0] != ends).any():
        raise CorruptError("a chunk has too few words, or words that are never read")
    if (x != LOW).any():
        raise CorruptError("a coder state does not end at its start value")
    return slots

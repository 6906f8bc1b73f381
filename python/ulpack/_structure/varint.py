"""Byte reader and writer of the structure: unsigned LEB128 in shortest form, values below 2^63, bounds checked."""

from __future__ import annotations

from ..errors import CorruptError

MAX = (1 << 63) - 1


def write_varint(out: bytearray, value: int) -> None:
    """Append ``value`` (0 .. 2^63 - 1) to ``out``."""
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_block(out: bytearray, data: bytes) -> None:
    """Append a varint length and the bytes."""
    write_varint(out, len(data))
    out += data


class Reader:
    """Reads from the front of a byte string; anything beyond its end is corrupt."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.end = len(data)

    def left(self) -> int:
        """Number of bytes not read yet."""
        return self.end - self.pos

    def byte(self) -> int:
        """The next byte."""
        if self.pos >= self.end:
            raise CorruptError("structure ends early")
        value = self.data[self.pos]
        self.pos += 1
        return value

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        if count > self.end - self.pos:
            raise CorruptError("structure ends early")
        value = self.data[self.pos : self.pos + count]
        self.pos += count
        return value

    def varint(self) -> int:
        """The next varint."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise CorruptError("structure has a number beyond 2^63")
        if value > MAX:
            raise CorruptError("structure has a number beyond 2^63")
        if shift and byte == 0:
            raise CorruptError("structure has a number that is not in shortest form")
        return value

    def count(self, each: int = 1) -> int:
        """A varint that counts things of at least ``each`` bytes, checked against the bytes left."""
        value = self.varint()
        if value * each > self.end - self.pos:
            raise CorruptError("structure counts more than it holds")
        return value

    def block(self) -> bytes:
        """A varint length and that many bytes."""
        return self.take(self.varint())

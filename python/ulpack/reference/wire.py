"""Bytes, varints and hashes of the format (FORMAT.md section 1)."""

from __future__ import annotations

from collections.abc import Callable

import xxhash

from ..errors import CorruptError

Buffer = bytes | bytearray | memoryview

VARINT_MAX = (1 << 63) - 1


def h64(data: Buffer) -> int:
    """H(x): XXH3-64 with seed 0."""
    return xxhash.xxh3_64_intdigest(data)


def h32(data: Buffer) -> int:
    """H32(x): the low 32 bits of H(x)."""
    return h64(data) & 0xFFFFFFFF


def u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def varint(value: int) -> bytes:
    """Unsigned LEB128 in shortest form."""
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Reader:
    """Reads fields from ``data[start:end]``; a field that leaves this range is corrupt."""

    __slots__ = ("data", "end", "pos", "what")

    def __init__(self, data: Buffer, what: str, start: int = 0, end: int | None = None) -> None:
        self.data = memoryview(data)
        self.pos = start
        self.end = len(self.data) if end is None else end
        self.what = what

    def fail(self, message: str) -> CorruptError:
        return CorruptError(f"{self.what}: {message}")

    def left(self) -> int:
        return self.end - self.pos

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes, without a copy."""
        if count > self.end - self.pos:
            raise self.fail("ends early")
        self.pos += count
        return self.data[self.pos - count : self.pos]

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise self.fail("a varint has more than 10 bytes")
        if value > VARINT_MAX:
            raise self.fail("a varint is 2^63 or more")
        if shift and byte == 0:
            raise self.fail("a varint is not in shortest form")
        return value

    def text(self, count: int) -> str:
        try:
            return bytes(self.take(count)).decode()
        except UnicodeDecodeError:
            raise self.fail("a text is not UTF-8") from None

    def finish(self, error: Callable[[str], Exception] | None = None) -> None:
        """Everything has to be read."""
        if self.pos != self.end:
            raise (error or self.fail)(f"{self.end - self.pos} bytes too many")

"""The adaptive bit coder of the side information and the text coder (FORMAT.md sections 4 and 5.2)."""

from __future__ import annotations

from collections import defaultdict

from ..errors import CorruptError

MASK = 0xFFFFFFFF
RATES = [131072 // (2 * n + 3) for n in range(30)] + [2048]
P_MIN = 32
P_MAX = 65535 - 32
HALF = 32768

Context = list[int]  # [probability of a 1 in 1/65536, uses]


def contexts(count: int) -> list[Context]:
    """``count`` new contexts."""
    return [[HALF, 0] for _ in range(count)]


def _update(context: Context, bit: int) -> None:
    p, n = context
    if bit:
        p += ((65535 - p) * RATES[n]) >> 16
    else:
        p -= (p * RATES[n]) >> 16
    context[0] = min(max(p, P_MIN), P_MAX)
    if n < 30:
        context[1] = n + 1


class Encoder:
    """Adaptive binary arithmetic encoder; ``finish`` returns the coded string."""

    def __init__(self) -> None:
        self.lo = 0
        self.hi = MASK
        self.out = bytearray()

    def bit(self, p: int, bit: int) -> None:
        """Code one bit whose probability of being 1 is p / 65536."""
        lo, hi = self.lo, self.hi
        r = hi - lo
        mid = lo + (r >> 16) * p + (((r & 0xFFFF) * p) >> 16)
        if bit:
            hi = mid
        else:
            lo = mid + 1
        while (lo ^ hi) < 1 << 24:
            self.out.append(hi >> 24)
            lo = (lo << 8) & MASK
            hi = ((hi << 8) & MASK) | 255
        self.lo, self.hi = lo, hi

    def adaptive(self, context: Context, bit: int) -> None:
        self.bit(context[0], bit)
        _update(context, bit)

    def raw(self, k: int, value: int) -> None:
        for shift in range(k - 1, -1, -1):
            self.bit(HALF, (value >> shift) & 1)

    def tree(self, nodes: list[Context], k: int, value: int) -> None:
        node = 1
        for shift in range(k - 1, -1, -1):
            bit = (value >> shift) & 1
            self.adaptive(nodes[node], bit)
            node = 2 * node + bit

    def gamma(self, unary: list[Context], first: list[Context], value: int) -> None:
        length = (value + 1).bit_length() - 1
        for i in range(length):
            self.adaptive(unary[i], 1)
        self.adaptive(unary[length], 0)
        if length:
            self.adaptive(first[length], ((value + 1) >> (length - 1)) & 1)
            self.raw(length - 1, (value + 1) & ((1 << (length - 1)) - 1))

    def finish(self) -> bytes:
        # lo and hi differ in the top byte, so one byte (or none) always reaches into [lo, hi].
        if self.lo:
            self.out.append(-(-self.lo >> 24))
        return bytes(self.out).rstrip(b"\0")  # the decoder reads zeros past the end anyway


class Decoder:
    """Mirror of ``Encoder``; ``finish`` checks that the whole string was needed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.x = int.from_bytes(data[:4].ljust(4, b"\0"), "big")
        self.pos = 4
        self.lo = 0
        self.hi = MASK

    def bit(self, p: int) -> int:
        lo, hi, x = self.lo, self.hi, self.x
        r = hi - lo
        mid = lo + (r >> 16) * p + (((r & 0xFFFF) * p) >> 16)
        if x <= mid:
            bit = 1
            hi = mid
        else:
            bit = 0
            lo = mid + 1
        while (lo ^ hi) < 1 << 24:
            lo = (lo << 8) & MASK
            hi = ((hi << 8) & MASK) | 255
            x = (x << 8) & MASK
            if self.pos < len(self.data):
                x |= self.data[self.pos]
            self.pos += 1
        self.lo, self.hi, self.x = lo, hi, x
        return bit

    def adaptive(self, context: Context) -> int:
        bit = self.bit(context[0])
        _update(context, bit)
        return bit

    def raw(self, k: int) -> int:
        value = 0
        for _ in range(k):
            value = 2 * value + self.bit(HALF)
        return value

    def tree(self, nodes: list[Context], k: int) -> int:
        node = 1
        for _ in range(k):
            node = 2 * node + self.adaptive(nodes[node])
        return node - (1 << k)

    def gamma(self, unary: list[Context], first: list[Context]) -> int:
        length = 0
        while length < 32 and self.adaptive(unary[length]):
            length += 1
        if length == 32:
            raise CorruptError("a number of the side information is too long")
        if length == 0:
            return 0
        head = 2 + self.adaptive(first[length])
        return (head << (length - 1)) + self.raw(length - 1) - 1

    def finish(self) -> None:
        if len(self.data) > self.pos:
            raise CorruptError("coded string has bytes that are never read")
        if self.data.endswith(b"\0"):
            raise CorruptError("coded string ends in a zero byte")


HASH_FACTOR = 2654435761


def encode_text(plain: bytes) -> bytes:
    """Code the plain directory (section 5.2)."""
    coder = Encoder()
    match = contexts(16)
    trees: defaultdict[int, list[Context]] = defaultdict(lambda: contexts(256))
    table = [0] * 65536
    ptr = length = 0
    previous = 0
    for i, byte in enumerate(plain):
        if i >= 4:
            h = (int.from_bytes(plain[i - 4 : i], "little") * HASH_FACTOR & MASK) >> 16
            candidate = table[h]
            table[h] = i
            if length == 0 and candidate > 0:
                ptr, length = candidate, 1
        if ptr > 0:
            hit = plain[ptr] == byte
            coder.adaptive(match[min(length, 15)], hit)
            ptr += 1
            length = length + 1 if hit else 0
            if hit:
                previous = byte
                continue
        coder.tree(trees[previous], 8, byte)
        previous = byte
    return coder.finish()


def decode_text(coded: bytes, nbytes: int) -> bytes:
    """The ``nbytes`` bytes that ``encode_text`` coded.

    Raises:
        CorruptError: the string has bytes that are never read.
    """
    coder = Decoder(coded)
    match = contexts(16)
    trees: defaultdict[int, list[Context]] = defaultdict(lambda: contexts(256))
    table = [0] * 65536
    ptr = length = 0
    previous = 0
    plain = bytearray()
    for i in range(nbytes):
        if i >= 4:
            h = (int.from_bytes(plain[i - 4 : i], "little") * HASH_FACTOR & MASK) >> 16
            candidate = table[h]
            table[h] = i
            if length == 0 and candidate > 0:
                ptr, length = candidate, 1
        if ptr > 0:
            hit = coder.adaptive(match[min(length, 15)])
            ptr += 1
            if hit:
                length += 1
                previous = plain[ptr - 1]
                plain.append(previous)
                continue
            length = 0
        previous = coder.tree(trees[previous], 8)
        plain.append(previous)
    coder.finish()
    return bytes(plain)

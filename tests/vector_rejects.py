"""Files that every reader must reject, each with one thing wrong. Only ``scripts/vectors`` runs this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import vector_recipes as recipes
from raw_tensors import Tensor, example, layout_of, tensor
from ulpack import reference
from ulpack.reference import blob, directory, model, tables
from ulpack.reference.blob import Blob
from ulpack.reference.coder import Encoder, contexts, encode_text
from ulpack.reference.directory import END, FRONT, MAGIC
from ulpack.reference.dtypes import Layout
from ulpack.reference.header import OwnTables, own_header, write_header
from ulpack.reference.model import Coding
from ulpack.reference.wire import h32, h64, u32, u64, varint
from vector_files import coded_blob, coded_body, seal

BFLOAT16, FLOAT32, UINT8, INT32 = 1, 3, 16, 21
VALUES = np.array([0x3F81, 0xBF80, 0x3BFE, 0x8000, 0x4049, 0xBE20, 0x3EF4, 0x3D4C], "<u2")
REFERENCE = np.array([0x3F80, 0xBF80, 0x3C00, 0x0000, 0x4049, 0xBE20, 0x3F00, 0x3D4C], "<u2")


@dataclass
class Reject:
    """A bad file, the kind of its error and what is wrong; ``ref`` is handed to the reader for every tensor."""

    name: str
    kind: str
    why: str
    file: bytes
    ref: recipes.Recipe | None = None


def rejects() -> Iterator[Reject]:
    yield from _front()
    yield from _directory()
    yield from _tail()
    yield from _blobs()
    yield from _headers()
    yield from _side_strings()
    yield from _bodies()


def _worked() -> Tensor:
    return tensor(BFLOAT16, VALUES, REFERENCE)


def _recipe(t: Tensor) -> recipes.Recipe | None:
    return None if t.ref is None else recipes.repeat(t.ref.tobytes(), t.ref.size)


GOOD = _recipe(_worked())


# --- front, directory ------------------------------------------------------------------------------------------------


def _patched(at: int, new: bytes) -> bytes:
    file = bytearray(reference.save([_worked()]))
    file[at : at + len(new)] = new
    return bytes(file)


def _fronted(plain: bytes, **fields: int | bytes) -> bytes:
    """The worked file with another front: fields version, coded, coded_size, plain_size."""
    file = reference.save([_worked()])
    old_end = FRONT + int.from_bytes(file[12:16], "little")
    coded = fields.get("coded", encode_text(plain))
    assert isinstance(coded, bytes)
    sizes = [fields.get("coded_size", len(coded)), fields.get("plain_size", len(plain))]
    version = fields.get("version", b"\x01\x00\x00\x00")
    assert isinstance(version, bytes)
    fixed = version + b"".join(u32(size) for size in sizes if isinstance(size, int))
    front = MAGIC + fixed + u32(h32(fixed + coded)) + coded
    tail_at = int.from_bytes(file[-32:-24], "little")
    return _closed(front + file[old_end:tail_at], file[tail_at:-32])


def _closed(head: bytes, tail: bytes, zero: int = 0, offset: int | None = None, size: int | None = None) -> bytes:
    """A file from everything before the tail, and the tail; the footer's fields can be falsified."""
    closing = tail + u64(len(head) if offset is None else offset) + u32(len(tail) if size is None else size) + u32(zero)
    start = len(head) if offset is None else offset
    hashed = (head + closing)[start:] if start <= len(head) + len(closing) else closing
    return head + closing + u64(h64(hashed)) + END


def _plain() -> bytes:
    layout = Layout(layout_of(BFLOAT16), (8,))
    return directory.write_directory(directory.Directory(1, 2, "", b"", [directory.Entry("w", layout, "w")]))


def _front() -> Iterator[Reject]:
    good = reference.save([_worked()])
    yield Reject("magic", "corrupt", "another first byte", _patched(0, b"\x88"), GOOD)
    yield Reject("magic_text_mode", "corrupt", "line ends were converted", good.replace(b"\r\n", b"\n"), GOOD)
    yield Reject("empty", "truncated", "no bytes", b"", GOOD)
    yield Reject("cut_magic", "truncated", "5 bytes", good[:5], GOOD)
    yield Reject("cut_front", "truncated", "23 bytes", good[:23], GOOD)
    yield Reject("cut_directory", "truncated", "ends in the directory", good[:30], GOOD)
    yield Reject("cut_blob", "truncated", "ends in a blob", good[:45], GOOD)
    yield Reject("cut_footer", "truncated", "the last byte is missing", good[:-1], GOOD)
    yield Reject("major", "unsupported", "major version 2", _fronted(_plain(), version=b"\x02\x00\x00\x00"), GOOD)
    yield Reject("minor", "unsupported", "minor version 1", _fronted(_plain(), version=b"\x01\x01\x00\x00"), GOOD)
    yield Reject("reserved", "corrupt", "reserved bytes", _fronted(_plain(), version=b"\x01\x00\x01\x00"), GOOD)
    yield Reject("front_hash", "corrupt", "checksum of the directory", _patched(20, b"\0"), GOOD)
    yield Reject(
        "plain_ratio", "limit", "front_plain against front_coded", _fronted(_plain(), plain_size=1 << 27), GOOD
    )
    yield Reject("plain_limit", "limit", "front_plain above 2^28", _fronted(_plain(), plain_size=(1 << 28) + 1), GOOD)
    yield Reject(
        "coded_leaves", "truncated", "front_coded leaves the file", _fronted(_plain(), coded_size=1 << 20), GOOD
    )
    coded = encode_text(_plain())
    zero = _fronted(_plain(), coded=coded + b"\0")
    yield Reject("coded_zero", "corrupt", "coded directory ends in a zero byte", zero, GOOD)
    unread = _fronted(_plain(), coded=coded.ljust(30, b"\1"))
    yield Reject("coded_unread", "corrupt", "coded directory has bytes that are never read", unread, GOOD)
    yield Reject("plain_short", "corrupt", "directory ends early", _fronted(_plain()[:-1]), GOOD)
    yield Reject("plain_long", "corrupt", "directory has a byte too many", _fronted(_plain() + b"\0"), GOOD)


def _entries(*parts: bytes, head: bytes = b"\1\2\0\0") -> bytes:
    """A plain directory from its parts after the structure."""
    return head + b"".join(parts)


def _directory() -> Iterator[Reject]:
    w, bf, eight, same = b"\1w", b"\1", b"\1\x08", b"\1"
    assert _entries(b"\1", w, bf, eight, same) == _plain()

    def bad(name: str, kind: str, why: str, plain: bytes) -> Reject:
        return Reject(f"directory_{name}", kind, why, _fronted(plain), GOOD)

    yield bad("varint", "corrupt", "a varint that is not shortest", _entries(b"\1", w, bf, b"\1\x88\0", same))
    yield bad("varint_large", "corrupt", "a varint of 2^63", _entries(b"\1", w, bf, b"\1" + b"\x80" * 9 + b"\1", same))
    yield bad("name_utf8", "corrupt", "a name that is not UTF-8", _entries(b"\1", b"\1\xff", bf, eight, same))
    yield bad("name_surrogate", "corrupt", "a lone surrogate", _entries(b"\1", b"\3\xed\xa0\x80", bf, eight, same))
    yield bad("metadata_utf8", "corrupt", "metadata that is not UTF-8", b"\1\2\1\xff\0" + _plain()[4:])
    yield bad("dtype", "unsupported", "a reserved dtype", _entries(b"\1", w, b"\x09", eight, same))
    yield bad("itemsize_0", "limit", "an element of 0 bytes", _entries(b"\1", w, b"\0\1x\0", eight, same))
    large = b"\0\1x" + varint((1 << 20) + 1)
    yield bad("itemsize_limit", "limit", "an element above 2^20 bytes", _entries(b"\1", w, large, eight, same))
    long = b"\0" + varint(4097) + b"x" * 4097 + b"\2"
    yield bad("dtype_name_limit", "limit", "a dtype's name above 4096 bytes", _entries(b"\1", w, long, eight, same))
    yield bad("ndim", "limit", "65 dimensions", _entries(b"\1", w, bf, b"\x41" + b"\1" * 65, same))
    yield bad("nbytes", "limit", "2^60 bytes", _entries(b"\1", w, bf, b"\1" + varint(1 << 59), same))
    product = b"\3" + varint(1 << 30) * 3
    yield bad("product", "limit", "a product of dimensions beyond 2^64", _entries(b"\1", w, bf, product, same))
    yield bad("tensors", "limit", "more than 2^24 tensors", _entries(varint((1 << 24) + 1), w, bf, eight, same))
    yield bad(
        "tensors_short", "corrupt", "more tensors than the directory can hold", _entries(b"\x40", w, bf, eight, same)
    )
    yield bad("block", "corrupt", "a length that leaves the directory", _entries(b"\1", b"\x7fw", bf, eight, same))
    yield bad("ref_spelled", "corrupt", "the tensor's own name spelled out", _entries(b"\1", w, bf, eight, b"\2w"))
    yield bad("ref_utf8", "corrupt", "a reference's name that is not UTF-8", _entries(b"\1", w, bf, eight, b"\2\xff"))
    yield bad(
        "ref_none", "corrupt", "a role without a reference in the directory", _entries(b"\1", w, bf, eight, b"\0")
    )
    t = example(UINT8, "small", "none", (3,), 1)
    two = [directory.Entry("twice", Layout(t.layout, t.shape), None)] * 2
    blobs = [blob.encode_blob(Layout(t.layout, t.shape), t.data, None)] * 2
    names = directory.write_file(directory.Directory(1, 2, "", b"", two), blobs)
    yield Reject("directory_names", "corrupt", "two tensors of one name", names)


# --- tail, blobs -----------------------------------------------------------------------------------------------------


def _tail() -> Iterator[Reject]:
    good = reference.save([_worked()])
    at = int.from_bytes(good[-32:-24], "little")
    head, tail = good[:at], good[at:-32]

    def bad(name: str, kind: str, why: str, file: bytes) -> Reject:
        return Reject(f"tail_{name}", kind, why, file, GOOD)

    flipped = bytearray(good)
    flipped[-20] ^= 1
    yield bad("hash", "corrupt", "checksum of the tail", bytes(flipped[:-16]) + good[-16:])
    yield bad("added", "truncated", "bytes after the end mark", good + b"\0")
    yield bad("reserved", "corrupt", "reserved field of the footer", _closed(head, tail, zero=1))
    yield bad("size", "corrupt", "tail length does not fit", _closed(head, tail, size=len(tail) - 1))
    yield bad("offset_large", "corrupt", "tail beyond the file", _closed(head, tail, offset=1 << 62))
    yield bad(
        "offset_front", "corrupt", "tail inside the directory", _closed(head, tail, offset=26, size=len(good) - 58)
    )
    yield bad("long", "corrupt", "a byte after the last record", _closed(head, tail + b"\0"))
    yield bad("short", "corrupt", "the last record ends early", _closed(head, tail[:-1]))
    yield bad("hole", "corrupt", "a byte between the last blob and the tail", _closed(head + b"\0", tail))
    yield bad("plan", "unsupported", "plan 4", _closed(head[:33] + b"\4" + head[34:], b"\4" + tail[1:]))
    yield bad("plan_differs", "corrupt", "another plan before the blob", _closed(head[:33] + b"\0" + head[34:], tail))
    yield bad(
        "length_differs", "corrupt", "another length before the blob", _closed(head[:34] + b"\x0e" + head[35:], tail)
    )
    leaves = _closed(head[:34] + b"\x7f" + head[35:], b"\3\x7f" + tail[2:])
    yield bad("length_leaves", "corrupt", "a blob that leaves the file", leaves)
    yield bad("role", "unsupported", "role 1", _closed(head, tail[:11] + b"\1" + tail[12:]))
    role = tail[11:20]
    yield bad("role_twice", "corrupt", "role 0 twice", _closed(head, tail[:10] + b"\2" + role + role + tail[20:]))
    yield bad("role_missing", "corrupt", "predictor 1 without role 0", _closed(head, tail[:10] + b"\0" + tail[20:]))
    stored = blob.Blob(0, VALUES.tobytes(), reference.fingerprint(_worked()), 0x29EBC5FC7B40DA9D)
    yield bad("role_stored", "corrupt", "a role with plan 0", seal(_worked(), stored))
    identical = Blob(1, b"", reference.fingerprint(_worked()), None)
    yield bad("role_identical", "corrupt", "plan 1 without role 0", seal(_worked(), identical))
    yield bad("checksum", "corrupt", "checksum of a blob", _closed(head, tail[:-1] + bytes([tail[-1] ^ 1])))
    value = blob.encode_blob(Layout(layout_of(BFLOAT16), (8,)), _worked().data, _worked().ref)
    yield bad("fingerprint", "corrupt", "fingerprint of the value", seal(_worked(), value._replace(fingerprint=1)))
    other = seal(_worked(), value._replace(ref_fingerprint=1))
    yield bad("ref_fingerprint", "reference", "fingerprint of the reference", other)
    yield Reject("reference_missing", "reference", "the reader has no reference", good)
    short = recipes.repeat(REFERENCE.tobytes(), 14)
    yield Reject("reference_short", "reference", "the reference has other bytes", good, short)
    changed = recipes.repeat(bytes([REFERENCE.tobytes()[0] ^ 1]) + REFERENCE.tobytes()[1:], 16)
    yield Reject("reference_wrong", "reference", "the reference differs in a bit", good, changed)


def _blobs() -> Iterator[Reject]:
    t = example(UINT8, "random", "none", (9,), 1)
    fingerprint = reference.fingerprint(t)

    def bad(name: str, why: str, t: Tensor, plan: int, data: bytes, **more: int | None) -> Reject:
        written = Blob(plan, data, reference.fingerprint(t), more.get("ref"))
        return Reject(f"blob_{name}", "corrupt", why, seal(t, written), _recipe(t))

    yield bad("stored_short", "plan 0 with a byte too few", t, 0, t.data.tobytes()[:-1])
    yield bad("stored_long", "plan 0 with a byte too many", t, 0, t.data.tobytes() + b"\0")
    same = replace(t, ref=t.data)
    yield bad("identical_long", "plan 1 with a byte", same, 1, b"\0", ref=fingerprint)
    constant = example(FLOAT32, "constant", "none", (9,), 1)
    yield bad("constant_short", "plan 2 with half an element", constant, 2, constant.data.tobytes()[:2])
    yield bad("constant_long", "plan 2 with two elements", constant, 2, constant.data.tobytes()[:8])
    yield bad("constant_other", "plan 2 with another element", constant, 2, b"\1\2\3\4")
    empty = example(BFLOAT16, "zeros", "none", (0,), 1)
    yield bad("constant_empty", "plan 2 without an element", empty, 2, b"\0\0")
    header = write_header(Coding(layout_of(BFLOAT16), 0, model.HYBRID, 0, 0), tables.Shape(0, 0, 0))
    yield bad("coded_empty", "plan 3 without an element", empty, 3, header)
    yield bad("coded_no_bytes", "plan 3 without a byte", tensor(BFLOAT16, VALUES), 3, b"")
    yield from _chunk_tables()


def _chunk_tables() -> Iterator[Reject]:
    n = (1 << 18) + 9
    r = recipes.repeat(bytes(range(200)), n)
    ref = recipes.make(r)
    assert ref is not None
    data = ref.copy()
    data[-5:] += 1
    t = tensor(UINT8, data, ref)
    layout = Layout(t.layout, t.shape)
    good = blob.encode_blob(layout, data, ref)
    assert good.plan == blob.CODED
    size = int.from_bytes(good.data[-4:], "little")
    body, table = good.data[: -4 - size], good.data[-4 - size : -4]

    def bad(name: str, why: str, body: bytes, table: bytes, length: int | None = None) -> Reject:
        data = body + table + u32(len(table) if length is None else length)
        return Reject(f"chunk_table_{name}", "corrupt", why, seal(t, good._replace(data=data)), r)

    def flip(data: bytes, at: int) -> bytes:
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    # A row is a length of one byte and two hashes.
    assert size == 34
    yield bad("long", "a byte after the last row", body, table + b"\0")
    yield bad("short", "the last row ends early", body, table[:-1])
    yield bad("leaves", "longer than the blob", body, table, 1 << 30)
    yield bad("length", "another length of a chunk", body, flip(table, 0))
    yield bad("length_before", "another length before a chunk", flip(body, len(body) - table[17] - 1), table)
    yield bad("hash", "hash of a chunk of the value", body, flip(table, 1))
    yield bad("ref_hash", "hash of a chunk of the reference", body, flip(table, size - 1))
    yield bad("hole", "a byte between the last chunk and the table", body + b"\0", table)
    yield Reject("chunk_table_missing", "corrupt", "no table", seal(t, good._replace(data=body[:3])), r)
    identical = Blob(1, table[1:9] * 2 + u32(16), good.fingerprint, good.fingerprint)
    yield Reject("chunk_table_identical", "corrupt", "hashes of plan 1", seal(replace(t, ref=data), identical), r)


# --- headers, side strings, bodies -----------------------------------------------------------------------------------


def _coding() -> Coding:
    return Coding(layout_of(BFLOAT16), model.REFERENCE, model.HYBRID, 0, model.EXPONENT, 99)


SHAPE = tables.Shape(2, 0, 0)


def _headers() -> Iterator[Reject]:
    good = coded_blob(_worked(), _coding(), SHAPE, 0)
    head = write_header(_coding(), SHAPE)
    body = good.data[len(head) :]
    alone = tensor(BFLOAT16, VALUES)
    leading = Coding(layout_of(BFLOAT16), 0, model.LEADING, 0, 0, shift=8, base=0, leading=130)
    own = OwnTables(1, 11, [0], [[5] * 130])
    lead = coded_blob(alone, leading, own, 0)
    side_at = 3 + 3

    def bad(name: str, kind: str, why: str, new: bytes, t: Tensor | None = None, of: Blob = good) -> Reject:
        return Reject(f"header_{name}", kind, why, seal(t or _worked(), of._replace(data=new)), _recipe(t or _worked()))

    yield bad("predictor", "unsupported", "predictor 2", b"\2" + good.data[1:])
    yield bad("token_map", "unsupported", "token map 3", b"\x31" + good.data[1:])
    yield bad("tables", "unsupported", "tables 2", good.data[:1] + b"\x90" + good.data[2:])
    yield bad("context_part", "unsupported", "context part 3", good.data[:2] + b"\3" + good.data[3:])
    yield bad("map1_predictor", "corrupt", "token map 1 with predictor 1", b"\x11" + good.data[1:])
    yield bad("map2_wide", "corrupt", "token map 2 for 16 bits", b"\x21" + good.data[1:])
    yield bad("byte_context", "corrupt", "context part 2 for 16 bits", good.data[:2] + b"\2" + good.data[4:])
    yield bad("plane_16", "corrupt", "a raw plane of all bits", good.data[:1] + b"\x8a" + good.data[2:])
    yield bad("plane_56", "corrupt", "a raw plane of 56 bits", good.data[:1] + b"\x8f" + good.data[2:])
    yield bad("table_log", "corrupt", "tableLog 13", good.data[:1] + b"\xa8" + good.data[2:])
    yield bad(
        "parametric_log", "corrupt", "parametric tables with tableLog 11", good.data[:1] + b"\x68" + good.data[2:]
    )
    yield bad("shape", "corrupt", "shape 5", good.data[:4] + b"\5" + good.data[5:])
    yield bad("slope", "corrupt", "slope 2", good.data[:4] + b"\x22" + good.data[5:])
    yield bad("scale", "corrupt", "scale 161", good.data[:5] + b"\xc1" + good.data[6:])
    yield bad(
        "base_varint", "corrupt", "an exponent base that is not shortest", good.data[:3] + b"\xe3\0" + good.data[4:]
    )
    yield bad("short", "corrupt", "ends in the header", good.data[:5])
    yield bad("only", "corrupt", "no chunk after the header", head)
    assert body
    no_context = replace(_coding(), context_part=0, exponent_base=0)
    sloped = coded_blob(_worked(), no_context, SHAPE, 0)
    yield bad(
        "slope_no_context", "corrupt", "slope 1 without context part 1", sloped.data[:3] + b"\x12" + sloped.data[4:]
    )
    context = b"\0\x88\1\x63" + sloped.data[3:]
    yield bad("context_predictor", "corrupt", "context part 1 with predictor 0", context, alone, lead)
    yield bad("leading_bits_0", "corrupt", "token map 1 with t = 0", lead.data[:3] + b"\0" + lead.data[4:], alone, lead)
    yield bad(
        "leading_bits_16", "corrupt", "token map 1 with t = w", lead.data[:3] + b"\x10" + lead.data[4:], alone, lead
    )
    yield bad(
        "leading_tokens", "corrupt", "token map 1 with one token", lead.data[:5] + b"\0" + lead.data[6:], alone, lead
    )
    assert lead.data[5] == 129
    assert lead.data[side_at] < 128
    family = b"\x10\x88\0\x08\0\x81\0\0" + b"\0"
    yield bad(
        "leading_parametric", "corrupt", "parametric tables with t other than mantissa bits - 1", family, alone, lead
    )
    bytes8 = example(UINT8, "small", "none", (40,), 2)
    direct = coded_blob(bytes8, Coding(layout_of(UINT8), 0, model.DIRECT, 0, 0), tables.Shape(0, 0, 6), 0)
    yield bad("map0_byte", "corrupt", "token map 0 for 8 bits", b"\0" + direct.data[1:], bytes8, direct)
    yield bad("map1_byte", "corrupt", "token map 1 for 8 bits", b"\x10" + direct.data[1:], bytes8, direct)
    yield bad(
        "map2_plane",
        "corrupt",
        "token map 2 with a raw plane",
        direct.data[:1] + b"\x89" + direct.data[2:],
        bytes8,
        direct,
    )
    whole = tensor(INT32, np.arange(9))
    integer = coded_blob(whole, Coding(layout_of(INT32), 0, model.HYBRID, 0, 0), tables.Shape(0, 0, 6), 0)
    yield bad("map1_integer", "corrupt", "token map 1 for integers", b"\x10" + integer.data[1:], whole, integer)


def _side_strings() -> Iterator[Reject]:
    no_context = replace(_coding(), context_part=0, exponent_base=0)

    def bad(
        name: str, why: str, write: Callable[[Encoder], None], coding: Coding = no_context, extra: bytes = b""
    ) -> Reject:
        encoder = Encoder()
        write(encoder)
        side = encoder.finish() + extra
        context = varint(coding.exponent_base) if coding.context_part == model.EXPONENT else b""
        data = bytes([1, 3 << 5, coding.context_part]) + context + varint(len(side)) + side + b"\2"
        fingerprint, ref = reference.fingerprint(_worked()), 0x29EBC5FC7B40DA9D
        return Reject(f"side_{name}", "corrupt", why, seal(_worked(), Blob(3, data, fingerprint, ref)), GOOD)

    def weights(encoder: Encoder, p: int, moves: list[int | None], first: int) -> None:
        """Weight codes of one cluster in contexts that never adapt enough to matter: the model of section 10."""
        encoder.raw(2, p - 1)
        model_ = tables._WeightContexts()
        done: list[int] = []
        last = pd = 0
        for move in moves:
            encoder.adaptive(model_.zero_context(done, (), len(done)), move is not None)
            done.append(0 if move is None else 1)
            if move is None:
                continue
            if last == 0:
                encoder.raw(8, first - 1)
                last = first
                continue
            bucket = tables._bucket(pd, p)
            encoder.adaptive(model_.moved[bucket], move != 0)
            if move:
                encoder.adaptive(model_.sign[tables._sign_context(pd)], move < 0)
                encoder.gamma(*model_.gamma[bucket], abs(move) - 1)
            pd = move
            last += move

    nothing: list[int | None] = [None] * 60
    yield bad("empty_table", "a table without a weight", lambda e: weights(e, 1, nothing, 1))
    yield bad("weight_first", "a first weight code above (16 - p) 2^p", lambda e: weights(e, 1, [0, *nothing[1:]], 31))
    yield bad("weight_above", "a weight code above (16 - p) 2^p", lambda e: weights(e, 1, [0, 5, *nothing[2:]], 26))
    yield bad(
        "weight_zero", "a weight code of 0 that is not coded as 0", lambda e: weights(e, 1, [0, -4, *nothing[2:]], 4)
    )
    yield bad("weight_negative", "a negative weight code", lambda e: weights(e, 2, [0, -400, *nothing[2:]], 4))

    def long(encoder: Encoder) -> None:
        encoder.raw(2, 0)
        model_ = tables._WeightContexts()
        encoder.adaptive(model_.zero_context([], (), 0), 1)
        encoder.raw(8, 3)
        encoder.adaptive(model_.zero_context([4], (), 1), 1)
        encoder.adaptive(model_.moved[0], 1)
        encoder.adaptive(model_.sign[0], 0)
        for length in range(32):
            encoder.adaptive(model_.gamma[0][0][length], 1)

    yield bad("gamma", "a number with 32 bits below its first", long)
    good = [0, *nothing[1:]]
    yield bad("unread", "bytes that are never read", lambda e: weights(e, 1, good, 9), extra=b"\1" * 9)
    yield bad("zero", "a zero byte at the end", lambda e: weights(e, 1, good, 9), extra=b"\0")

    def beyond(encoder: Encoder) -> None:
        encoder.raw(2, 0)
        same, new, tree = contexts(1)[0], contexts(1)[0], contexts(64)
        encoder.adaptive(same, 0)
        encoder.adaptive(new, 0)
        encoder.tree(tree, 6, 1)

    yield bad("cluster_beyond", "a cluster above the largest so far", beyond, _coding())

    def crowd(encoder: Encoder) -> None:
        encoder.raw(2, 0)
        same, new = contexts(1)[0], contexts(1)[0]
        for _ in range(64):
            encoder.adaptive(same, 0)
            encoder.adaptive(new, 1)

    encoder = Encoder()
    crowd(encoder)
    side = encoder.finish()
    t = example(UINT8, "small", "near", (9,), 1)
    value = blob.encode_blob(Layout(t.layout, t.shape), t.data, t.ref)
    assert t.ref is not None
    ref = reference.fingerprint(replace(t, data=t.ref, ref=None))
    data = bytes([0x21, 3 << 5, model.BYTE]) + varint(len(side)) + side + b"\2"
    file = seal(t, Blob(3, data, value.fingerprint, ref))
    yield Reject("side_clusters", "corrupt", "65 clusters", file, _recipe(t))


def _bodies() -> Iterator[Reject]:
    good = coded_blob(_worked(), _coding(), SHAPE, 0)
    head = write_header(_coding(), SHAPE)
    body = good.data[len(head) :]
    assert body == bytes.fromhex("00 01 03 ec 12 00 87 e8 03")

    def bad(name: str, why: str, body: bytes, kind: str = "corrupt") -> Reject:
        return Reject(f"body_{name}", kind, why, seal(_worked(), good._replace(data=head + body)), GOOD)

    yield bad("kind", "chunk kind 3", b"\3" + body[1:], "unsupported")
    yield bad("lanes", "lanes 4", b"\x10" + body[1:])
    yield bad("high_bits", "high bits of the first byte", b"\x80" + body[1:])
    yield bad("unchanged_lanes", "lanes in an unchanged chunk", b"\6")
    yield bad("unchanged_long", "a byte after an unchanged chunk", b"\2\0")
    yield bad("unchanged", "an unchanged chunk that did change", b"\2")
    yield bad("stored_lanes", "lanes in a stored chunk", b"\5" + VALUES.tobytes())
    yield bad("stored_short", "a stored chunk that is too short", b"\1" + VALUES.tobytes()[:-1])
    yield bad("stored_long", "a stored chunk that is too long", b"\1" + VALUES.tobytes() + b"\0")
    yield bad("words_leave", "more words than bytes", b"\0\x7f" + body[2:])
    yield bad("words_huge", "2^62 words", b"\0" + varint(1 << 62) + body[2:])
    yield bad("words_varint", "a number of words that is not shortest", b"\0\x81\0" + body[2:])
    yield bad("words_few", "a word too few", b"\0\0" + body[2:6] + body[8:])
    yield bad("words_many", "a word that is never read", b"\0\2" + body[2:8] + b"\0\0" + body[8:])
    yield bad("state_low", "a state below 2^15", body[:2] + u32((1 << 15) - 1) + body[6:])
    yield bad("state_high", "a state of 2^31", body[:2] + u32(1 << 31) + body[6:])
    yield bad("state_end", "a last state other than 2^15", body[:2] + u32(1240067 + (1 << 12)) + body[6:])
    yield bad("no_states", "no room for the states", body[:4])
    yield bad("tail_missing", "no tail", body[:-1])
    yield bad("tail_long", "a byte after the tail", body + b"\0")
    yield bad("tail_padding", "unused bits of the tail", body[:-1] + b"\x83")
    alone = tensor(BFLOAT16, VALUES)
    narrow = Coding(layout_of(BFLOAT16), 0, model.LEADING, 0, 0, shift=15, base=1, leading=4)
    tables_ = OwnTables(1, 8, [0], [[5] * 4])
    header = own_header(narrow, tables_)
    wide = replace(narrow, base=0)  # its token 2 is the first that is too large with base 1
    z = np.full(8, 0x8000, "<u2")
    coded = write_header(narrow, tables_) + coded_body(header._replace(coding=wide), z, None, 0)
    file = seal(alone, Blob(3, coded, reference.fingerprint(alone), None))
    yield Reject("body_token_large", "corrupt", "a value of 2^w or more", file)
    plane = Coding(layout_of(FLOAT32), 0, model.HYBRID, 16, 0)
    four = tensor(FLOAT32, np.arange(4) << 10)
    planes = coded_blob(four, plane, tables.Shape(0, 0, 40), 0)
    cut = planes._replace(data=planes.data[:-1])
    yield Reject("body_plane", "corrupt", "the raw plane ends early", seal(four, cut))

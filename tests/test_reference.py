"""The NumPy implementation against FORMAT.md: worked values, both directions of every step, hostile input."""

from __future__ import annotations

import contextlib
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_tensors import ALL_CODES, CHANGES, PATTERNS, Item, Tensor, example, layout_of, tensor
from ulpack import errors, reference
from ulpack.reference import bits, blob, coder, cost, directory, model, plan, rans, tables
from ulpack.reference.dtypes import DTYPES, Layout
from ulpack.reference.wire import Reader, varint

# The worked example of FORMAT.md.
REFERENCE = np.array([0x3F80, 0xBF80, 0x3C00, 0x0000, 0x4049, 0xBE20, 0x3F00, 0x3D4C], "<u2")
TARGET = np.array([0x3F81, 0xBF80, 0x3BFE, 0x8000, 0x4049, 0xBE20, 0x3EF4, 0x3D4C], "<u2")
BLOB = bytes.fromhex("01 88 01 63 02 20 00 01 03 ec 12 00 87 e8 03")
FILE = bytes.fromhex(
    "89 55 4c 50 0d 0a 1a 0a 01 00 00 00 09 00 00 00 0b 00 00 00 1e ae 2d e8 fe fd ff fd 00 92 fe ab 79"
    "03 0f 01 88 01 63 02 20 00 01 03 ec 12 00 87 e8 03"
    "03 0f d1 0a a5 91 4f d1 79 3d 01 00 9d da 40 7b fc c5 eb 29 fa ab 88 04"
    "32 00 00 00 00 00 00 00 18 00 00 00 00 00 00 00 f4 72 03 7a 98 de 45 26 55 4c 50 45 4e 44 0d 0a"
)
BFLOAT16, FLOAT16, FLOAT32, FLOAT64, UINT8, INT16, INT32, INT64 = 1, 2, 3, 4, 16, 19, 21, 23


def worked() -> Tensor:
    return tensor(BFLOAT16, TARGET, REFERENCE)


class TestWorkedExample:
    def test_values_to_tokens(self) -> None:
        dtype = DTYPES[BFLOAT16]
        assert model.key(dtype, TARGET)[:4].tolist() == [0xBF81, 0x407F, 0xBBFE, 0x7FFF]
        z = model.residual(dtype, TARGET, REFERENCE)
        assert z.tolist() == [2, 0, 3, 1, 0, 0, 23, 0]
        coding = model.Coding(dtype, model.REFERENCE, model.HYBRID, 0, model.EXPONENT, 99)
        split = coding.split(z)
        assert split.tokens.tolist() == [2, 0, 3, 1, 0, 0, 13, 0]
        assert split.tails.tolist() == [0, 0, 0, 0, 0, 0, 3, 0]
        assert coding.context(REFERENCE, 8).tolist() == [28, 28, 21, 0, 29, 25, 27, 23]

    def test_parametric_row(self) -> None:
        coding = model.Coding(DTYPES[BFLOAT16], model.REFERENCE, model.HYBRID, 0, model.EXPONENT, 99)
        row = tables.parametric_row(coding, tables.Shape(2, 0, 0), 0)
        assert row[:10].tolist() == [1819, 922, 477, 254, 140, 83, 53, 37, 51, 37]

    def test_blob(self) -> None:
        written = blob.encode_blob(Layout(DTYPES[BFLOAT16], (8,)), worked().data, worked().ref)
        assert written == blob.Blob(blob.CODED, BLOB, 0x3D79D14F91A50AD1, 0x29EBC5FC7B40DA9D)

    def test_file(self) -> None:
        assert reference.save([worked()], encoder=1) == FILE
        assert reference.load(FILE, [Item(0, worked().ref)])[0].tobytes() == worked().data.tobytes()
        assert reference.fingerprint(worked()) == 0x3D79D14F91A50AD1

    def test_index(self) -> None:
        assert reference.index(FILE) == {
            "format": [1, 0],
            "encoder": 1,
            "effort": 2,
            "file_nbytes": 106,
            "metadata": "",
            "structure": "",
            "tensors": [
                {
                    "name": "w",
                    "dtype": 1,
                    "dtype_name": "bfloat16",
                    "itemsize": 2,
                    "shape": [8],
                    "nbytes": 16,
                    "plan": 3,
                    "plan_name": "coded",
                    "offset": 35,
                    "blob_nbytes": 15,
                    "fingerprint": "3d79d14f91a50ad1",
                    "reference": {"name": "w", "fingerprint": "29ebc5fc7b40da9d"},
                    "detail": {
                        "predictor": 1,
                        "token_map": 0,
                        "plane_bits": 0,
                        "tables": 1,
                        "table_log": 12,
                        "context_part": 1,
                        "clusters": 32,
                    },
                }
            ],
        }


class TestCoder:
    @pytest.mark.parametrize(
        ("plain", "coded"),
        [
            (b"", ""),
            (b"abcabcabcabcabcabc", "9e 9d 9c 9e 93 e1"),
            (bytes(12), "ff f7 0a"),
            (b"\xff\xff\xff", ""),
            (b"layers.0.w layers.1.w layers.2.w", "93 9e 86 9a 8d 8c d1 cf d1 2f 99 04 88 8c a3 2d 27"),
        ],
    )
    def test_worked_texts(self, plain: bytes, coded: str) -> None:
        assert coder.encode_text(plain) == bytes.fromhex(coded)
        assert coder.decode_text(bytes.fromhex(coded), len(plain)) == plain

    def test_worked_codes(self) -> None:
        encoder = coder.Encoder()
        context = [coder.HALF, 0]
        seen = []
        for bit in (1, 1, 1, 0, 1, 1):
            encoder.adaptive(context, bit)
            seen.append(tuple(context))
        assert seen == [(54612, 1), (58981, 2), (60853, 3), (47331, 4), (50640, 5), (52931, 6)]
        assert encoder.finish() == b"\x5a"
        encoder = coder.Encoder()
        unary, first = coder.contexts(32), coder.contexts(32)
        for value in (0, 1, 2, 3, 7, 8, 1000):
            encoder.gamma(unary, first, value)
        assert encoder.finish() == bytes.fromhex("90774555eceb09")

    @given(st.binary(max_size=300) | st.text("ab.0", max_size=300).map(str.encode))
    def test_text_round_trip(self, plain: bytes) -> None:
        coded = coder.encode_text(plain)
        assert coder.decode_text(coded, len(plain)) == plain

    @given(st.lists(st.tuples(st.integers(1, 65535), st.booleans()), max_size=300))
    def test_bits_round_trip(self, steps: list[tuple[int, bool]]) -> None:
        encoder = coder.Encoder()
        for p, bit in steps:
            encoder.bit(p, bit)
        decoder = coder.Decoder(encoder.finish())
        assert [decoder.bit(p) for p, _ in steps] == [bit for _, bit in steps]
        decoder.finish()

    @given(st.lists(st.integers(0, 2**32 - 2), max_size=40))
    def test_gamma_round_trip(self, values: list[int]) -> None:
        encoder = coder.Encoder()
        unary, first = coder.contexts(32), coder.contexts(32)
        for value in values:
            encoder.gamma(unary, first, value)
        decoder = coder.Decoder(encoder.finish())
        unary, first = coder.contexts(32), coder.contexts(32)
        assert [decoder.gamma(unary, first) for _ in values] == values

    def test_gamma_too_long(self) -> None:
        encoder = coder.Encoder()
        unary = coder.contexts(32)
        for i in range(32):
            encoder.adaptive(unary[i], 1)
        with pytest.raises(errors.CorruptError):
            coder.Decoder(encoder.finish()).gamma(coder.contexts(32), coder.contexts(32))

    def test_bytes_never_read(self) -> None:
        coded = coder.encode_text(b"abc")
        with pytest.raises(errors.CorruptError):
            coder.decode_text(coded + b"\0", 3)
        longest = coded.ljust(6, b"\0") + b"\1"  # 4 + 3 turns of the loop
        assert coder.decode_text(longest, 3) == b"abc"
        with pytest.raises(errors.CorruptError):
            coder.decode_text(longest + b"\1", 3)


class TestModel:
    @pytest.mark.parametrize(("code", "numpy"), [(FLOAT16, "<f2"), (FLOAT32, "<f4")])
    def test_key_orders_values(self, code: int, numpy: str) -> None:
        bits = np.arange(1 << 16).astype("<u2")
        if code == FLOAT32:
            bits = bits.astype("<u4") << 16 | 0x1234
        bits = bits[np.isfinite(bits.view(numpy))]
        order = np.argsort(model.key(DTYPES[code], bits))
        values = bits[order].view(numpy)
        assert (np.diff(values.astype(np.float64)) >= 0).all()
        assert model.unkey(DTYPES[code], model.key(DTYPES[code], bits)).tolist() == bits.tolist()

    @pytest.mark.parametrize("code", [5, UINT8, 17])
    def test_all_pairs_of_bytes(self, code: int) -> None:
        x, r = (side.reshape(-1).astype(np.uint8) for side in np.meshgrid(np.arange(256), np.arange(256)))
        z = model.residual(DTYPES[code], x, r)
        assert (model.restore(DTYPES[code], z, r) == x).all()
        assert (z.reshape(256, 256)[np.arange(256), np.arange(256)] == 0).all()
        assert len(set(model.residual(DTYPES[code], np.arange(256).astype(np.uint8), None).tolist())) == 256

    @given(st.sampled_from(ALL_CODES), st.sampled_from(PATTERNS), st.sampled_from(CHANGES), st.integers(0, 99))
    def test_residual_round_trip(self, code: int, pattern: str, change: str, seed: int) -> None:
        t = example(code, pattern, change, (200,), seed)
        lane = t.layout.lane
        x, r = t.data.view(lane), None if t.ref is None else t.ref.view(lane)
        z = model.residual(t.layout, x, r)
        assert z.dtype == lane
        assert (model.restore(t.layout, z, r) == x).all()

    @pytest.mark.parametrize(
        ("y", "token", "n", "tail"),
        [
            (0, 0, 0, 0),
            (1, 1, 0, 0),
            (7, 7, 0, 0),
            (8, 8, 1, 0),
            (9, 8, 1, 1),
            (13, 10, 1, 1),
            (100, 22, 4, 4),
            (65535, 59, 13, 8191),
        ],
    )
    def test_worked_tokens(self, y: int, token: int, n: int, tail: int) -> None:
        coding = model.Coding(DTYPES[BFLOAT16], model.REFERENCE, model.HYBRID, 0, model.NO_CONTEXT)
        split = coding.split(np.array([y], np.uint16))
        assert (split.tokens[0], coding.tail_bits[token], split.tails[0]) == (token, n, tail)

    @pytest.mark.parametrize(
        ("code", "plane"), [(BFLOAT16, 0), (BFLOAT16, 8), (FLOAT32, 0), (FLOAT32, 24), (FLOAT64, 0), (FLOAT64, 48)]
    )
    def test_hybrid_round_trip(self, code: int, plane: int) -> None:
        dtype = DTYPES[code]
        coding = model.Coding(dtype, model.REFERENCE, model.HYBRID, plane, model.NO_CONTEXT)
        rng = np.random.default_rng(3)
        z = rng.integers(0, 1 << 64, 20000, np.uint64) >> rng.integers(64 - dtype.bits, 64, 20000).astype(np.uint64)
        z = np.append(z, np.array([0, (1 << dtype.bits) - 1], np.uint64)).astype(dtype.lane)
        split = coding.split(z)
        assert split.tokens.max() == coding.alphabet - 1
        assert (coding.join(split) == z).all()

    @pytest.mark.parametrize(
        ("code", "shift", "base", "plane"),
        [(BFLOAT16, 6, 0, 0), (BFLOAT16, 8, 5, 8), (FLOAT32, 24, 3, 16), (FLOAT64, 57, 0, 48)],
    )
    def test_leading_round_trip(self, code: int, shift: int, base: int, plane: int) -> None:
        dtype = DTYPES[code]
        coding = model.Coding(dtype, 0, model.LEADING, plane, 0, shift=shift, base=base, leading=100)
        rng = np.random.default_rng(4)
        z = rng.integers(base << shift, min((base + 99) << shift, 1 << dtype.bits), 5000, np.uint64)
        z[::7] = 0
        split = coding.split(z.astype(dtype.lane))
        assert split.plane.size == (np.count_nonzero(z) if plane else 0)
        assert (coding.join(split) == z).all()

    def test_leading_token_too_large(self) -> None:
        coding = model.Coding(DTYPES[BFLOAT16], 0, model.LEADING, 0, 0, shift=15, base=1, leading=9)
        good = model.Split(np.array([1], np.uint8), np.zeros(1, np.uint64), np.zeros(0, np.uint64))
        assert coding.join(good).tolist() == [0x8000]
        with pytest.raises(errors.CorruptError):
            coding.join(good._replace(tokens=np.array([2], np.uint8)))

    @given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
    def test_bit_length(self, values: list[int]) -> None:
        for dtype in (np.uint64, np.int64, np.uint32, np.uint16):
            some = [v & (np.iinfo(dtype).max >> 1) for v in values]
            assert model.bit_length(np.array(some, dtype)).tolist() == [v.bit_length() for v in some]


class TestBits:
    @given(
        st.lists(st.integers(0, 63).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, (1 << n) - 1))), max_size=60)
    )
    def test_stream(self, fields: list[tuple[int, int]]) -> None:
        widths = np.array([n for n, _ in fields], np.int64)
        values = np.array([v for _, v in fields], np.uint64)
        packed = bits.pack_bits(values, widths)
        number = sum(v << int(at) for (_, v), at in zip(fields, np.cumsum(widths) - widths, strict=True))
        assert packed == number.to_bytes((int(widths.sum()) + 7) // 8, "little")
        assert bits.unpack_bits(Reader(packed, "tail"), widths).tolist() == values.tolist()

    def test_stream_must_fill(self) -> None:
        widths = np.array([3, 2])
        assert bits.unpack_bits(Reader(b"\x1f", "tail"), widths).tolist() == [7, 3]
        for bad in (b"", b"\x1f\0", b"\x3f"):
            with pytest.raises(errors.CorruptError):
                bits.unpack_bits(Reader(bad, "tail"), widths)

    @pytest.mark.parametrize("plane", [0, 8, 24, 48])
    def test_plane(self, plane: int) -> None:
        values = np.random.default_rng(5).integers(0, 1 << 48, 100, np.uint64) & np.uint64((1 << plane) - 1)
        packed = bits.pack_plane(values, plane)
        assert len(packed) == 100 * plane // 8
        if plane:
            assert bits.unpack_plane(Reader(packed, "plane"), 100, plane).tolist() == values.tolist()


codes = st.integers(1, 3).flatmap(
    lambda p: st.tuples(
        st.just(p),
        st.lists(
            st.lists(st.just(0) | st.integers(1, tables.largest_code(p)), min_size=9, max_size=9).filter(any),
            min_size=1,
            max_size=4,
        ),
    )
)


class TestTables:
    @given(codes, st.data())
    def test_side_round_trip(self, drawn: tuple[int, list[list[int]]], data: st.DataObject) -> None:
        p, rows = drawn
        cluster_of = [0]
        for k in range(len(rows)):  # every cluster occurs, in order of first occurrence
            cluster_of += [k, *data.draw(st.lists(st.integers(0, k), max_size=4))]
        side = tables.encode_side(p, cluster_of, rows)
        assert tables.decode_side(side, len(cluster_of), 9) == (p, cluster_of, rows, [])
        assert tables.count_clusters(side, len(cluster_of)) == len(rows)

    def test_worked_side(self) -> None:
        rows = [[0, 30, 31, 0, 28, 12, 9, 0], [1, 31, 30, 2, 28, 12, 0, 0], [5, 5, 5, 5, 9, 1, 1, 30]]
        side = tables.encode_side(2, [0, 0, 1, 0, 2, 2], rows)
        assert side.hex() == "9d54b9566dca8280d8ab5ead191bc603dd670ca454"
        assert [tables.normalise(row, 2, 8) for row in rows] == [
            [0, 86, 104, 0, 60, 4, 2, 0],
            [1, 102, 87, 1, 61, 4, 0, 0],
            [3, 3, 3, 3, 6, 1, 1, 236],
        ]

    @pytest.mark.parametrize(
        ("row", "frequencies"),
        [
            ([0, 7], [1, 255]),
            ([7, 0], [255, 1]),
            ([29, 29, 1, 1, 1], [125, 128, 1, 1, 1]),
            ([30] + [1] * 255, [1] * 256),
        ],
    )
    def test_worked_normalisation(self, row: list[int], frequencies: list[int]) -> None:
        assert tables.normalise(row, 1, 8) == frequencies

    @given(codes, st.integers(8, 12))
    def test_normalised_sum(self, drawn: tuple[int, list[list[int]]], log: int) -> None:
        for row in drawn[1]:
            f = tables.normalise(row, drawn[0], log)
            assert sum(f) == 1 << log
            assert all(v > 0 for v, q in zip(f, row, strict=True) if q)

    @given(st.binary(max_size=40), st.sampled_from([1, 32, 256]))
    def test_any_side_string(self, side: bytes, n_contexts: int) -> None:
        try:
            p, cluster_of, rows, _ = tables.decode_side(side, n_contexts, 60)
        except errors.CorruptError:
            return
        assert len(rows) == max(cluster_of) + 1
        assert all(sum(tables.normalise(row, p, 12)) == 4096 for row in rows)

    def test_survivals_fall(self) -> None:
        s = tables.survivals()
        assert s.min() == 0
        assert s.max() == 1 << 32
        by_bound = np.moveaxis(s, 2, 3).reshape(5, 2, -1)  # m runs faster than j
        assert (np.diff(by_bound) <= 0).all()

    @pytest.mark.parametrize(
        ("token_map", "plane", "alphabet", "phase", "shape", "scale", "head"),
        [
            (0, 0, 60, 0, 0, 7, [240, 226, 213, 200, 188, 177, 167, 157, 286, 253, 224, 198]),
            (0, 0, 60, 0, 1, 8, [182, 194, 203, 209, 213, 215, 214, 211, 404, 372, 331, 286]),
            (0, 16, 60, 0, 3, 40, [1918, 957, 483, 246, 128, 68, 38, 23, 26, 17, 14, 12]),
            (0, 48, 60, 0, 4, 110, [32, 32, 32, 32, 32, 32, 32, 32, 64, 64, 64, 64]),
            (2, 0, 256, 0, 0, 9, [216, 113, 109, 106, 103, 100, 97, 94, 90, 90, 84, 84]),
        ],
    )
    def test_worked_rows(
        self, token_map: int, plane: int, alphabet: int, phase: int, shape: int, scale: int, head: list[int]
    ) -> None:
        assert tables._row(token_map, alphabet, plane, phase, shape, scale)[:12].tolist() == head

    @pytest.mark.parametrize(
        ("token_map", "alphabet", "plane"),
        [(0, 60, 0), (0, 252, 0), (0, 60, 48), (2, 256, 0), (1, 100, 0), (1, 256, 0)],
    )
    def test_rows_sum(self, token_map: int, alphabet: int, plane: int) -> None:
        for shape, scale in product(range(5), range(-32, 161, 3)):
            row = tables._row(token_map, alphabet, plane, 3 * (token_map == 1), shape, scale)
            assert row.sum() == 4096
            assert row.min() >= 1


class TestRans:
    @pytest.mark.parametrize("lanes", [1, 4, 16, 64])
    @pytest.mark.parametrize("count", [1, 5, 64, 1000])
    @pytest.mark.parametrize("log", [8, 12])
    def test_rows_are_the_loop(self, lanes: int, count: int, log: int) -> None:
        rng = np.random.default_rng(count)
        f = np.ones((3, 40), np.int64)
        f[0, 7] += 1 << log
        f[:, 2] += (1 << log) - f.sum(axis=1)
        f[0, 7] += f[0, 2] - 1
        f[0, 2] = 1
        t = rans.Tables(f, log)
        tokens = np.where(rng.random((2, count)) < 0.7, 2, rng.integers(0, 40, (2, count))).astype(np.uint8)
        clusters = rng.integers(0, 3, (2, count)).astype(np.uint8)
        states, words = rans._encode_rows(t, clusters.astype(np.int64) * 40 + tokens, lanes)
        for c in range(2):
            loop_states, loop_words = rans._encode_scalar(t, clusters[c].astype(np.int64) * 40 + tokens[c], lanes)
            assert loop_states == states[c].tolist()
            assert loop_words.tolist() == words[c].tolist()
            slots = rans._decode_scalar(t, clusters[c], states[c], words[c])
            assert t.slot_token[slots].tolist() == tokens[c].tolist()
        assert (t.slot_token[rans._decode_rows(t, clusters, states, words)] == tokens).all()

    @pytest.mark.parametrize("lanes", [1, 64])
    def test_damage(self, lanes: int) -> None:
        t = rans.Tables(np.array([[100, 156]]), 8)
        tokens = np.random.default_rng(1).integers(0, 2, (1, 3000)).astype(np.uint8)
        clusters = np.zeros_like(tokens)
        states, (words,) = rans.encode(t, tokens, clusters, lanes)
        for bad in (words[:-1], np.append(words, np.uint16(0)), words[:0]):
            with pytest.raises(errors.CorruptError):
                rans.decode(t, clusters, states, [bad])
        for value in (0, (1 << 15) - 1, 1 << 31, (1 << 32) - 1):
            with pytest.raises(errors.CorruptError):
                rans.decode(t, clusters, np.full_like(states, value), [words])
        with pytest.raises(errors.CorruptError):
            rans.decode(t, clusters, states ^ np.uint32(1 << 20), [words])


class TestCosts:
    def test_log2(self) -> None:
        values = np.array([1, 2, 3, 10, 5000, 1000000, (1 << 32) - 1])
        assert cost.log2(values).tolist()[:6] == [0, 65536, 103872, 217705, 805287, 1306229]
        exact = [math.log2(v) * 65536 for v in values]
        assert np.allclose(cost.log2(values), exact, atol=25)  # 12 bits of the mantissa are looked at

    def test_histogram_limit(self) -> None:
        counts = np.array([(1 << 32) - 3, 1, 1])
        assert cost.limit_histogram(counts).tolist() == counts.tolist()
        assert cost.limit_histogram(counts + np.array([0, 0, 1])).tolist() == [(1 << 31) - 1, 1, 1]

    def test_clusters_merge_only_what_is_alike(self) -> None:
        counts = np.zeros((32, 60), np.int64)
        counts[3, :4] = [5000, 2000, 1000, 500]
        counts[5, :4] = [5100, 2100, 900, 480]
        counts[9, 20:23] = [4000, 9000, 3000]
        clusters, cluster_of = plan.merge_contexts(counts, 3)
        assert len(clusters) == 2
        assert cluster_of == [0] * 9 + [1] * 23
        assert clusters.sum(axis=1).tolist() == [17080, 16000]


shapes = st.sampled_from([(), (0,), (1,), (2,), (7,), (3, 0, 5), (40, 30), (9000,), (1, 1, 20000)])


class TestRoundTrip:
    @settings(max_examples=120, deadline=None)
    @given(
        st.sampled_from(ALL_CODES),
        st.sampled_from(PATTERNS),
        st.sampled_from(CHANGES),
        shapes,
        st.integers(0, 9),
        st.data(),
    )
    def test_tensor(
        self, code: int, pattern: str, change: str, shape: tuple[int, ...], seed: int, data: st.DataObject
    ) -> None:
        t = example(code, pattern, change, shape, seed)
        file = reference.save([t])
        assert reference.load(file, [Item(0, t.ref)])[0].tobytes() == t.data.tobytes()
        described = reference.index(file)["tensors"][0]
        assert described["fingerprint"] == f"{reference.fingerprint(t):016x}"
        total = math.prod(shape)
        first = data.draw(st.integers(0, total))
        count = data.draw(st.integers(0, total - first))
        part = reference.load(file, [Item(0, t.ref, first, count)])[0]
        assert part.tobytes() == t.data[first * t.itemsize : (first + count) * t.itemsize].tobytes()

    @pytest.mark.parametrize("code", [0, BFLOAT16, FLOAT32, FLOAT64, UINT8, INT16, 27])
    @pytest.mark.parametrize("change", ["none", "near", "rare", "far"])
    def test_several_chunks(self, code: int, change: str) -> None:
        dtype = layout_of(code)
        n = 2 * dtype.chunk + 77
        t = example(code, "weights", change, (n,), 1)
        t.data[dtype.chunk * dtype.itemsize : 2 * dtype.chunk * dtype.itemsize] = 7
        if t.ref is not None:
            t.ref[: dtype.chunk * dtype.itemsize] = t.data[: dtype.chunk * dtype.itemsize]
        file = reference.save([t])
        assert reference.load(file, [Item(0, t.ref)])[0].tobytes() == t.data.tobytes()
        for first, count in ((0, 5), (dtype.chunk - 3, 6), (n - 1, 1), (dtype.chunk, dtype.chunk), (100, n - 200)):
            part = reference.load(file, [Item(0, t.ref, first, count)])[0]
            assert part.tobytes() == t.data[first * t.itemsize : (first + count) * t.itemsize].tobytes()

    def test_plans_and_choices(self) -> None:
        def described(t: Tensor) -> tuple:
            entry = reference.index(reference.save([t]))["tensors"][0]
            fields = entry["detail"] or {}
            return entry["plan_name"], fields.get("predictor"), fields.get("token_map"), entry["reference"] is not None

        assert described(example(BFLOAT16, "weights", "none", (0,), 0)) == ("stored", None, None, False)
        assert described(example(BFLOAT16, "random", "none", (50,), 0)) == ("stored", None, None, False)
        assert described(example(BFLOAT16, "weights", "same", (50,), 0)) == ("identical", None, None, True)
        assert described(example(BFLOAT16, "constant", "same", (50,), 0)) == ("identical", None, None, True)
        assert described(example(BFLOAT16, "constant", "near", (50,), 0)) == ("constant", None, None, False)
        assert described(example(BFLOAT16, "weights", "near", (5000,), 0)) == ("coded", 1, 0, True)
        assert described(example(BFLOAT16, "weights", "far", (5000,), 0)) == ("coded", 0, 1, False)
        assert described(example(INT32, "weights", "none", (5000,), 0)) == ("coded", 0, 0, False)
        assert described(example(UINT8, "weights", "near", (5000,), 0)) == ("coded", 1, 2, True)

    def test_directory(self) -> None:
        tensors = [example(3, "weights", "near", (4,), i, name) for i, name in enumerate(["", "é.ß", "c" * 300])]
        tensors[1].ref_name = "elsewhere"
        tensors[2].ref_name = tensors[2].name
        tensors.append(example(0, "random", "none", (2, 2), 9, "named"))
        described = reference.index(reference.save(tensors, b"\x01\x02", b'{"step": 3}', 3))
        assert [entry["name"] for entry in described["tensors"]] == ["", "é.ß", "c" * 300, "named"]
        assert [(entry["reference"] or {}).get("name") for entry in described["tensors"]] == [
            "",
            "elsewhere",
            "c" * 300,
            None,
        ]
        assert described["metadata"] == '{"step": 3}'
        assert described["structure"] == "AQI="
        assert described["effort"] == 3
        assert described["tensors"][3]["dtype_name"] == "test:triple"
        assert described["tensors"][3]["nbytes"] == 12

    def test_effort_changes_nothing_else(self) -> None:
        t = example(FLOAT32, "weights", "near", (3000,), 5)
        blobs = set()
        for effort in (1, 2, 3):
            file = reference.save([t], effort=effort)
            entry = reference.index(file)["tensors"][0]
            blobs.add(file[entry["offset"] : entry["offset"] + entry["blob_nbytes"]])
        assert len(blobs) == 1

    def test_no_tensors(self) -> None:
        assert reference.index(reference.save([]))["tensors"] == []


class TestArguments:
    @pytest.mark.parametrize(
        "change",
        [
            {"dtype": 9},
            {"shape": (9,)},
            {"shape": (-1, -8)},
            {"shape": (1,) * 65},
            {"data": TARGET},
            {"ref": np.zeros(15, np.uint8)},
            {"dtype": 0, "itemsize": 0},
            {"dtype": 0, "itemsize": 1 << 21},
            {"dtype": 0, "itemsize": 2, "dtype_name": "x" * 4097},
        ],
    )
    def test_bad_tensor(self, change: dict) -> None:
        t = worked()
        for field, value in change.items():
            setattr(t, field, value)
        with pytest.raises(errors.ArgumentError):
            reference.save([t])
        if "ref" not in change:
            with pytest.raises(errors.ArgumentError):
                reference.fingerprint(t)

    def test_bad_call(self) -> None:
        with pytest.raises(errors.ArgumentError):
            reference.save([worked(), worked()])
        with pytest.raises(errors.ArgumentError):
            reference.save([worked()], effort=4)
        with pytest.raises(errors.ArgumentError):
            reference.save([worked()], metadata=b"\xff")

    @pytest.mark.parametrize(
        "item", [Item(1), Item(-1), Item(0, None, 9), Item(0, None, 0, 9), Item(0, None, -1), Item(0, None, 3, -1)]
    )
    def test_bad_range(self, item: Item) -> None:
        item.ref = worked().ref
        with pytest.raises(errors.ArgumentError):
            reference.load(FILE, [item])


class TestReferences:
    @pytest.mark.parametrize("pattern", ["rare", "same"])
    @pytest.mark.parametrize("chunks", [1, 3])
    def test_wrong_reference(self, pattern: str, chunks: int) -> None:
        n = 1000 if chunks == 1 else 2 * (1 << 18) + 5
        t = example(UINT8, "weights", pattern, (n,), 2)
        assert t.ref is not None
        file = reference.save([t])
        other = t.ref.copy()
        other[n // 2] ^= 1
        for bad in (None, t.ref[:-1], other):
            with pytest.raises(errors.WrongReferenceError) as caught:
                reference.load(file, [Item(0, bad)])
            assert caught.value.tensor == "w"
        if chunks > 1:  # the chunks that are not used are not looked at
            assert reference.load(file, [Item(0, other, 5, 9)])[0].tobytes() == t.data[5:14].tobytes()

    def test_needless_reference(self) -> None:
        t = example(FLOAT16, "weights", "none", (1000,), 2)
        file = reference.save([t])
        assert reference.load(file, [Item(0, np.zeros(3, np.uint8))])[0].tobytes() == t.data.tobytes()


def load_all(file: bytes, tensors: list[Tensor]) -> list[bytes]:
    return [value.tobytes() for value in reference.load(file, [Item(i, t.ref) for i, t in enumerate(tensors)])]


class TestHostile:
    @pytest.mark.parametrize("at", range(len(FILE)))
    def test_one_byte_flipped(self, at: int) -> None:
        for mask in (1, 0x80, 0xFF):
            bad = bytearray(FILE)
            bad[at] ^= mask
            with pytest.raises((errors.CorruptError, errors.UnsupportedError, errors.LimitError)):
                load_all(bytes(bad), [worked()])

    @pytest.mark.parametrize("length", range(len(FILE)))
    def test_cut(self, length: int) -> None:
        with pytest.raises(errors.TruncatedError):
            reference.index(FILE[:length])

    def test_bytes_added(self) -> None:
        for bad in (FILE + b"\0", FILE + FILE, FILE[:50] + b"\0" + FILE[50:]):
            with pytest.raises(errors.CorruptError):
                reference.index(bad)

    @settings(max_examples=200, deadline=None)
    @given(
        st.sampled_from([0, BFLOAT16, FLOAT32, FLOAT64, UINT8, INT64, 25]),
        st.sampled_from(["weights", "special", "small"]),
        st.sampled_from(["none", "near", "rare"]),
        st.sampled_from([30, 300, 1200]),
        st.data(),
    )
    def test_resealed_blob(self, code: int, pattern: str, change: str, n: int, data: st.DataObject) -> None:
        """A damaged blob whose checksums were made to fit is still never taken for the value."""
        t = example(code, pattern, change, (n,), 6)
        layout = Layout(t.layout, t.shape)
        written = blob.encode_blob(layout, t.data, t.ref)
        bad = bytearray(written.data)
        for _ in range(data.draw(st.integers(1, 3))):
            if not bad:
                break
            at = data.draw(st.integers(0, min(len(bad) - 1, data.draw(st.sampled_from([15, 100, 100000])))))
            match data.draw(st.integers(0, 2)):
                case 0:
                    bad[at] = data.draw(st.integers(0, 255))
                case 1:
                    del bad[at]
                case _:
                    bad.insert(at, data.draw(st.integers(0, 255)))
        entry = directory.Entry("w", layout, None if t.ref is None else "w")
        file = directory.write_file(directory.Directory(1, 2, "", b"", [entry]), [written._replace(data=bytes(bad))])
        with contextlib.suppress(errors.CorruptError, errors.UnsupportedError):
            assert load_all(file, [t]) == [t.data.tobytes()]

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_resealed_directory(self, data: st.DataObject) -> None:
        tensors = [worked(), example(0, "random", "none", (2, 2), 9, "named")]
        entries = [
            directory.Entry(t.name, Layout(t.layout, t.shape), None if t.ref is None else t.name) for t in tensors
        ]
        bad = bytearray(directory.write_directory(directory.Directory(1, 2, "{}", b"s", entries)))
        for _ in range(data.draw(st.integers(1, 3))):
            bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(errors.CorruptError, errors.UnsupportedError, errors.LimitError):
            directory.read_directory(bytes(bad))

    def test_reference_name_spelled_out(self) -> None:
        entry = directory.Entry("w", Layout(DTYPES[UINT8], (4,)), "v")
        plain = directory.write_directory(directory.Directory(1, 2, "", b"", [entry]))
        assert plain.endswith(b"\x02v")
        assert directory.read_directory(plain).entries == [entry]
        with pytest.raises(errors.CorruptError):
            directory.read_directory(plain[:-1] + b"w")

    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        for bad in (data, directory.MAGIC + data):
            with pytest.raises((errors.CorruptError, errors.UnsupportedError, errors.LimitError)):
                reference.index(bad)

    @pytest.mark.parametrize(
        "bad",
        [
            "80 80 80 80 80 80 80 80 80 01",
            "80 00",
            "ff ff ff ff ff ff ff ff ff 7f",
            "80",
            "ff ff ff ff ff ff ff ff ff ff 01",
        ],
    )
    def test_bad_varint(self, bad: str) -> None:
        with pytest.raises(errors.CorruptError):
            Reader(bytes.fromhex(bad), "field").varint()

    @given(st.integers(0, 2**63 - 1))
    def test_varint(self, value: int) -> None:
        reader = Reader(varint(value), "field")
        assert reader.varint() == value
        reader.finish()

"""What the golden vectors hold. Only ``scripts/vectors`` runs this; the tests read the files it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import vector_recipes as recipes
from raw_tensors import ALL_CODES, Tensor, example, layout_of, raw, tensor
from ulpack import reference
from ulpack.reference import directory, model, rans, tables
from ulpack.reference.bits import pack_bits, pack_plane
from ulpack.reference.blob import CODED, IDENTICAL, Blob, encode_blob
from ulpack.reference.chunks import LANES
from ulpack.reference.dtypes import Layout, chunk_hashes, fingerprint_of
from ulpack.reference.header import Header, OwnTables, own_header, parametric_header, read_fields, write_header
from ulpack.reference.model import Coding, residual
from ulpack.reference.wire import Reader, varint

BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FLOAT8, UINT8, INT16, INT32, INT64, COMPLEX64 = 1, 2, 3, 4, 5, 16, 19, 21, 23, 26


@dataclass
class Vector:
    """A file to be. ``recipes`` stand for references that are too large for a file of their own.

    Attributes:
        name: file name without ``.ulp``.
        tensors: what is saved.
        recipes: recipe of the reference of tensor i.
        options: structure, metadata, effort.
        file: the file itself, for files that the canonical encoder would not write.
        targets: recipe of the target of tensor i; with targets the file is not kept, only its checksum.
    """

    name: str
    tensors: list[Tensor]
    recipes: dict[int, recipes.Recipe] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    file: bytes | None = None
    targets: dict[int, recipes.Recipe] = field(default_factory=dict)


def vectors() -> Iterator[Vector]:
    yield from _dtypes()
    yield from _plans()
    yield from _lanes_and_tables()
    yield from _several_chunks()
    yield from _files()
    yield from _other_encoders()


def _one(feature: str, t: Tensor, recipe: recipes.Recipe | None = None) -> Vector:
    if recipe is not None:
        t.ref = recipes.make(recipe)
    name = t.dtype_name if t.dtype else "named"
    return Vector(f"v1_{feature}_{name}", [t], {0: recipe} if recipe else {})


def _dtypes() -> Iterator[Vector]:
    """Every dtype with a reference, without one, and with special values."""
    for code in ALL_CODES:
        dtype = layout_of(code)
        n = {8: 1200, 16: 1000, 32: 500, 64: 200}[dtype.bits] // dtype.components
        yield _one("reference", example(code, "weights", "rare", (n,), 100 + code))
        yield _one("alone", example(code, "weights", "none", (4, n // 4), 200 + code))
        if dtype.is_float:
            yield _one("special", example(code, "special", "near", (n // 4,), 300 + code))
    for code in (INT16, INT32, INT64, 22):
        yield _one("wrap", example(code, "small", "wrap", (300,), 400 + code))


def _plans() -> Iterator[Vector]:
    yield _one("empty", example(FLOAT32, "zeros", "none", (0, 3), 0))
    yield _one("empty_reference", example(FLOAT32, "zeros", "same", (2, 0), 0))
    yield _one("scalar", example(FLOAT32, "weights", "none", (), 0))
    yield _one("scalar_reference", example(INT64, "small", "near", (), 0))
    yield _one("one_zero", tensor(FLOAT64, np.zeros(1)))
    yield _one("stored", example(BFLOAT16, "random", "none", (50,), 1))
    yield _one("stored_reference", example(FLOAT32, "random", "far", (40,), 1))
    yield _one("identical", example(FLOAT32, "weights", "same", (40,), 2))
    yield _one("constant", example(FLOAT64, "constant", "none", (3, 1000), 3))
    yield _one("constant_reference", example(BFLOAT16, "constant", "near", (30,), 3))
    yield _one("constant", example(0, "zeros", "none", (1000,), 3))


def _lanes_and_tables() -> Iterator[Vector]:
    rng = np.random.default_rng(1)
    for n, feature in ((1023, "lanes1"), (1024, "lanes4"), (16384, "lanes16"), (131072, "lanes64")):
        pattern = raw(_drifting(rng, 256))
        recipe = recipes.repeat(pattern.tobytes(), 2 * n)
        r = recipes.make(recipe)
        assert r is not None
        step = np.where(rng.random(n) < 0.03, rng.integers(-3, 4, n), 0)
        yield _one(feature, tensor(BFLOAT16, r.view("<u2") + step.astype("<u2"), None), recipe)
    # Own tables with many clusters: how much a value moves depends on its exponent.
    n = 12000
    recipe = recipes.repeat(raw((np.arange(128, dtype=np.uint16) << 7) + 0x40).tobytes(), 2 * n)
    r = recipes.make(recipe)
    assert r is not None
    spread = np.maximum(1, 40 >> np.abs((r.view("<u2") >> 7).astype(np.int64) - 112))
    moved = r.view("<u2") + (rng.integers(-1000, 1000, n) * spread // 1000).astype("<u2")
    yield _one("clusters", tensor(BFLOAT16, moved), recipe)
    # Parametric rows of every shape, map and slope are found by chance among small tensors.
    yield from _parametric(rng)
    yield _one("raw_plane", example(FLOAT64, "weights", "none", (300,), 5))
    yield _one("raw_plane", example(FLOAT32, "weights", "far", (500,), 5))
    yield _one("raw_plane_hybrid", tensor(INT64, rng.integers(-(1 << 40), 1 << 40, 500)))
    yield _one("raw_plane_hybrid", tensor(INT32, rng.integers(-(1 << 28), 1 << 28, 500)))
    for code, pattern, spread in (
        (FLOAT32, "weights", 12),
        (FLOAT64, "weights", 40),
        (INT32, "random", 20),
        (INT64, "random", 50),
    ):
        x = example(code, pattern, "none", (400,), 6).data.view(layout_of(code).lane)
        step = rng.integers(-1 << spread, 1 << spread, 400) >> rng.integers(0, 4, 400)
        yield _one("raw_plane_reference", tensor(code, x, x + step.astype(x.dtype)))
    wide = rng.integers(0, 1 << 32, 1500, np.uint64) >> rng.integers(0, 32, 1500).astype(np.uint64)
    yield _one("wide_range", tensor(FLOAT32, wide))  # more than 256 leading parts


def _drifting(rng: np.random.Generator, n: int) -> np.ndarray:
    values = (rng.standard_normal(n) * np.exp(rng.standard_normal(n))).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype("<u2")


def _parametric(rng: np.random.Generator) -> Iterator[Vector]:
    found: set[tuple[int, int, int]] = set()
    for trial in range(3000):
        code = (BFLOAT16, FLOAT16, FLOAT32, INT32, UINT8, FLOAT8, 0)[trial % 7]
        n = int(rng.integers(20, 260)) // 4 * 4
        x = example(code, "weights", "none", (n,), trial).data.view(layout_of(code).lane)
        scale = float(np.exp(rng.uniform(-1, 4)))
        draw = (rng.standard_normal, rng.laplace, rng.standard_cauchy, rng.uniform)[trial // 7 % 4]
        step = np.clip(np.round(draw(size=x.size) * scale), -100, 100).astype(np.int64)
        if trial // 28 % 2 and layout_of(code).is_float:
            step >>= (x.astype(np.int64) >> layout_of(code).mantissa) % 8  # large values move less
        t = tensor(code, x, None if trial // 56 % 3 == 2 else x + step.astype(x.dtype))
        entry = reference.index(reference.save([t]))["tensors"][0]
        detail = entry["detail"]
        if detail is None or detail["tables"] != tables.PARAMETRIC:
            continue
        written = encode_blob(Layout(t.layout, t.shape), t.data, t.ref)
        shape = read_fields(Reader(written.data, "blob"), layout_of(code)).shape
        assert shape is not None
        key = (detail["token_map"], shape.shape, shape.slope)
        if key not in found:
            found.add(key)
            yield _one(f"parametric_map{key[0]}_shape{key[1]}_slope{key[2]}", t)


def _several_chunks() -> Iterator[Vector]:
    rng = np.random.default_rng(2)
    for code in (BFLOAT16, UINT8, COMPLEX64, 0):
        dtype = layout_of(code)
        n = 2 * dtype.chunk + 300
        pattern = example(code, "weights", "none", (60,), 7).data.tobytes()
        recipe = recipes.repeat(pattern, n * dtype.itemsize)
        r = recipes.make(recipe)
        assert r is not None
        lanes = r.view(dtype.lane)
        move = np.where(rng.random(lanes.size) < 0.004, rng.integers(1, 4, lanes.size), 0).astype(dtype.lane)
        move[: dtype.chunk * dtype.components] = 0  # an unchanged chunk
        yield _one("chunks_reference", tensor(code, lanes + move), recipe)
        yield _one("chunks_identical", tensor(code, lanes), recipe)
        yield _one("chunks_constant", tensor(code, np.tile(lanes[: dtype.components], dtype.chunk + 1)))
    for code in (FLOAT32, INT32, UINT8):
        dtype = layout_of(code)
        x = np.zeros(dtype.chunk + 40, dtype.lane)
        places = rng.integers(0, dtype.chunk, 400)
        x[places] = example(code, "weights", "none", (400,), 8).data.view(dtype.lane)
        yield _one("chunks_alone", tensor(code, x))
        noisy = x.copy()
        noisy[dtype.chunk :] = example(code, "random", "none", (40,), 9).data.view(dtype.lane)
        yield _one("chunks_one_stored", tensor(code, noisy))
    target = recipes.noise("stored", (1 << 18) + 5)
    data = recipes.make(target)
    assert data is not None
    yield replace(_one("chunks_stored", tensor(UINT8, data)), targets={0: target})


def _files() -> Iterator[Vector]:
    yield Vector("v1_file_empty", [])
    some = []
    for layer in range(6):
        for part, shape in (("attention.weight", (8, 12)), ("attention.bias", (8,)), ("norm.weight", (12,))):
            t = example(BFLOAT16, "weights", "near", shape, layer, f"model.layers.{layer}.{part}")
            if layer == 3:
                t.ref_name = f"module.{t.name}"
            if layer == 4:
                t.ref = None
            some.append(t)
    some.append(example(INT64, "small", "none", (), 1, "step"))
    some.append(example(0, "weights", "same", (5,), 1, "ünïcode 名前"))
    some.append(example(UINT8, "zeros", "none", (0,), 1, ""))
    options = {"structure": bytes(range(40)), "metadata": '{"step": 3, "läuft": true}'.encode(), "effort": 3}
    yield Vector("v1_file_many", some, options=options)


# --- files that other encoders might write ---------------------------------------------------------------------------


def _other_encoders() -> Iterator[Vector]:
    rng = np.random.default_rng(3)
    weights = example(BFLOAT16, "weights", "near", (700,), 11)
    dtype = layout_of(BFLOAT16)
    plain = Coding(dtype, model.REFERENCE, model.HYBRID, 0, model.NO_CONTEXT)
    yield _foreign("lanes64_short", weights, plain, _flat(plain, 8), lanes=3)
    yield _foreign("lanes16_log9", weights, plain, _flat(plain, 9), lanes=2)
    yield _foreign("plane8", weights, replace(plain, plane_bits=8), _flat(replace(plain, plane_bits=8), 10), lanes=1)
    by_exponent = replace(plain, context_part=model.EXPONENT, exponent_base=100)
    cluster_of = [0, 1, 0, 2, 2, 1, 3, 0] + [4, 4, 1, 5] * 6
    rows = [[int(v) for v in rng.integers(1, 193, by_exponent.alphabet)] for _ in range(6)]
    yield _foreign("cluster_map_p4", weights, by_exponent, OwnTables(4, 12, cluster_of, rows), lanes=0)
    many = list(range(32))
    rows = [[int(v) for v in rng.integers(1, 105, by_exponent.alphabet)] for _ in many]
    yield _foreign("clusters32_p3", weights, by_exponent, OwnTables(3, 12, many, rows), lanes=0)
    yield _foreign("base_beyond", weights, replace(by_exponent, exponent_base=1 << 40), tables.Shape(0, 1, 20), lanes=0)
    yield _foreign("slope", weights, replace(by_exponent, exponent_base=110), tables.Shape(4, 1, 30), lanes=0)
    bare = replace(weights, ref=None)
    yield _foreign("hybrid_alone", bare, Coding(dtype, 0, model.HYBRID, 0, 0), tables.Shape(3, 0, 25), lanes=0)
    leading = Coding(dtype, 0, model.LEADING, 8, 0, shift=8, base=0, leading=256)
    yield _foreign("leading_plane8", bare, leading, _flat(leading, 12), lanes=1)
    yield _foreign(
        "leading_bits15", bare, replace(leading, plane_bits=0, shift=15, leading=3), _own_row([9, 30, 31]), lanes=0
    )
    single = example(BFLOAT16, "weights", "same", (9,), 1)
    yield _foreign("one_token", single, plain, _own_row([7] + [0] * 59), lanes=0)
    eight = example(UINT8, "small", "near", (500,), 4)
    direct = Coding(layout_of(UINT8), model.REFERENCE, model.DIRECT, 0, model.BYTE)
    maps = [k % 64 for k in range(256)]
    rows = [[5 + k % 7 + 9 * (s == k) for s in range(256)] for k in range(64)]
    yield _foreign("clusters64", eight, direct, OwnTables(1, 12, maps, rows), lanes=0)
    yield _foreign("no_context", eight, replace(direct, context_part=0), tables.Shape(1, 0, 9), lanes=0)
    zeros = tensor(BFLOAT16, np.zeros(100))
    yield _foreign("zeros_unchanged", zeros, Coding(dtype, 0, model.HYBRID, 0, 0), tables.Shape(0, 0, 0), lanes=None)

    empty = example(FLOAT32, "zeros", "same", (0,), 0)
    fingerprint = reference.fingerprint(empty)
    vector = _one("foreign_identical_empty", empty)
    yield replace(vector, file=seal(empty, Blob(IDENTICAL, b"", fingerprint, fingerprint)))
    entry = directory.Entry("w", Layout(weights.layout, weights.shape), "w")
    later = directory.Directory(1000, 77, "{}", b"\x00", [entry])
    vector = _one("foreign_encoder", weights)
    yield replace(vector, file=directory.write_file(later, [coded_blob(weights, plain, tables.Shape(0, 0, 3), 0)]))


def _flat(coding: Coding, log: int) -> OwnTables:
    return OwnTables(1, log, [0] * coding.contexts, [[5] * coding.alphabet])


def _own_row(row: list[int]) -> OwnTables:
    return OwnTables(2, 11, [0], [row])


def coded_blob(t: Tensor, coding: Coding, own_or_shape: OwnTables | tables.Shape, lanes: int | None) -> Blob:
    """A blob of one chunk with a header of one's choice; ``lanes`` is the code of their number, None = kind 2."""
    layout = Layout(coding.dtype, t.shape)
    make = own_header if isinstance(own_or_shape, OwnTables) else parametric_header
    header: Header = make(coding, own_or_shape)  # type: ignore[arg-type]
    x = t.data.view(coding.dtype.lane)
    r = t.ref.view(coding.dtype.lane) if t.ref is not None and coding.predictor else None
    body = bytes([2]) if lanes is None else coded_body(header, residual(coding.dtype, x, r), r, lanes)
    ref_fingerprint = None
    if r is not None and t.ref is not None:
        ref_fingerprint = fingerprint_of(layout, chunk_hashes(layout, t.ref))
    fingerprint = fingerprint_of(layout, chunk_hashes(layout, t.data))
    return Blob(CODED, write_header(coding, own_or_shape) + body, fingerprint, ref_fingerprint)


def coded_body(header: Header, z: np.ndarray, r: np.ndarray | None, lanes: int) -> bytes:
    """The body of a chunk of kind 0."""
    coding = header.coding
    split = coding.split(z)
    clusters = header.cluster_of[coding.context(r, z.size)]
    coder = rans.Tables(header.frequencies, header.table_log)
    states, (words,) = rans.encode(coder, split.tokens[None], clusters[None], LANES[lanes])
    parts = (
        bytes([lanes << 2]),
        varint(words.size),
        states.astype("<u4").tobytes(),
        words.astype("<u2").tobytes(),
        pack_plane(split.plane, coding.plane_bits),
        pack_bits(split.tails, coding.tail_bits[split.tokens]),
    )
    return b"".join(parts)


def seal(t: Tensor, blob: Blob) -> bytes:
    """A file of one tensor around a blob."""
    entry = directory.Entry(t.name, Layout(t.layout, t.shape), None if t.ref is None else t.name)
    return directory.write_file(directory.Directory(1, 2, "", b"", [entry]), [blob])


def _foreign(
    feature: str, t: Tensor, coding: Coding, own_or_shape: OwnTables | tables.Shape, lanes: int | None
) -> Vector:
    vector = _one(f"foreign_{feature}", t)
    return replace(vector, file=seal(t, coded_blob(t, coding, own_or_shape, lanes)))

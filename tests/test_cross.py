"""Native library and NumPy implementation: the same bytes, the same index, the same values, the same verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import native_abi
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_tensors import ALL_CODES, CHANGES, PATTERNS, Item, Tensor, example, layout_of
from ulpack import errors, reference
from ulpack.reference import blob, directory
from ulpack.reference.dtypes import Layout

SHAPES = [(), (0,), (1,), (2,), (7,), (33,), (3, 0, 5), (40, 30), (9000,), (1, 1, 20000), (2, 70000)]
THREADS = st.sampled_from([0, 1, 2, 7])


@st.composite
def tensors(draw: st.DrawFn, shapes: list[tuple[int, ...]] = SHAPES, codes: list[int] = ALL_CODES) -> Tensor:
    code, shape = draw(st.sampled_from(codes)), draw(st.sampled_from(shapes))
    pattern, change = draw(st.sampled_from(PATTERNS)), draw(st.sampled_from(CHANGES))
    return example(code, pattern, change, shape, draw(st.integers(0, 1 << 20)), draw(st.text(max_size=6)))


def check_same(given_tensors: list[Tensor], threads: int, **options: Any) -> bytes:
    """Both write one file, describe it alike and read it."""
    file = reference.save(given_tensors, **options)
    assert native_abi.save(given_tensors, threads=threads, **options) == file
    assert native_abi.index(file) == reference.index(file)
    items = [Item(i, t.ref) for i, t in enumerate(given_tensors)]
    for values in (reference.load(file, items), native_abi.load(file, items, threads)):
        assert [v.tobytes() for v in values] == [t.data.tobytes() for t in given_tensors]
    return file


@settings(max_examples=200, deadline=None)
@given(tensors(), THREADS, st.data())
def test_tensor(t: Tensor, threads: int, data: st.DataObject) -> None:
    file = check_same([t], threads)
    assert native_abi.fingerprint(t) == reference.fingerprint(t)
    total = math.prod(t.shape)
    first = data.draw(st.integers(0, total))
    item = Item(0, t.ref, first, data.draw(st.integers(0, total - first)))
    expected = t.data[first * t.itemsize :][: (item.count or 0) * t.itemsize].tobytes()
    assert reference.load(file, [item])[0].tobytes() == expected
    assert native_abi.load(file, [item], threads)[0].tobytes() == expected


@settings(max_examples=40, deadline=None)
@given(
    st.lists(tensors([(), (0,), (5,), (300,)]), max_size=12, unique_by=lambda t: t.name),
    THREADS,
    st.binary(max_size=60),
    st.sampled_from([b"", b"{}", '{"läuft": true}'.encode()]),
    st.integers(1, 3),
    st.lists(st.text(max_size=4), min_size=12, max_size=12),
)
def test_file(
    some: list[Tensor], threads: int, structure: bytes, metadata: bytes, effort: int, ref_names: list[str]
) -> None:
    for t, ref_name in zip(some, ref_names, strict=False):
        t.ref_name = ref_name if t.ref is not None else ""
    check_same(some, threads, structure=structure, metadata=metadata, effort=effort)


@pytest.mark.parametrize("code", ALL_CODES)
@pytest.mark.parametrize("change", ["none", "near", "rare", "far"])
def test_several_chunks(code: int, change: str) -> None:
    dtype = layout_of(code)
    n = 2 * dtype.chunk + 12345
    t = example(code, "weights", change, (n,), code)
    if t.ref is not None and change != "far":  # an unchanged chunk
        t.data[: dtype.chunk * dtype.itemsize] = t.ref[: dtype.chunk * dtype.itemsize]
    file = check_same([t], 2)
    for first, count in ((0, 3), (dtype.chunk - 2, 5), (n - 1, 1), (17, n - 17)):
        item = Item(0, t.ref, first, count)
        expected = t.data[first * t.itemsize : (first + count) * t.itemsize].tobytes()
        assert native_abi.load(file, [item], 2)[0].tobytes() == expected


@pytest.mark.parametrize("code", [0, 1, 3, 16, 22])
@pytest.mark.parametrize("change", ["none", "same"])
@pytest.mark.parametrize("pattern", ["constant", "random", "zeros"])
def test_plans_of_several_chunks(code: int, change: str, pattern: str) -> None:
    t = example(code, pattern, change, (layout_of(code).chunk + 1,), 3)
    check_same([t], 2)


def test_a_chunk_that_does_not_compress() -> None:
    """One chunk of noise between two of zeros is stored as it is."""
    dtype = layout_of(1)
    t = example(1, "zeros", "none", (3 * dtype.chunk,), 0)
    noise = slice(2 * dtype.chunk, 4 * dtype.chunk)
    t.data[noise] = np.random.default_rng(1).integers(0, 256, 2 * dtype.chunk, np.uint8)
    check_same([t], 2)


def verdict(load: Callable[..., list[np.ndarray]], file: bytes, ref: np.ndarray | None) -> bytes | str:
    """The value, or the kind of the error."""
    try:
        return load(file, [Item(0, ref)])[0].tobytes()
    except errors.UlpackError as error:
        return error.kind


SMALL = [0, 1, 2, 3, 4, 16, 19, 25]


@settings(max_examples=400, deadline=None)
@given(tensors([(1,), (30,), (300,), (1100,)], SMALL), st.data())
def test_damaged_blob(t: Tensor, data: st.DataObject) -> None:
    """Damage under checksums that fit: the same verdict on both sides, and never another value."""
    layout = Layout(t.layout, t.shape)
    written = blob.encode_blob(layout, t.data, t.ref)
    bad = bytearray(written.data)
    for _ in range(data.draw(st.integers(1, 2))):
        near = min(len(bad), data.draw(st.sampled_from([4, 16, 100, 100000])))
        at = data.draw(st.integers(0, max(0, near - 1)))
        match data.draw(st.integers(0, 2)):
            case 0 if bad:
                bad[at] = data.draw(st.integers(0, 255))
            case 1 if bad:
                del bad[at]
            case _:
                bad.insert(at, data.draw(st.integers(0, 255)))
    entry = directory.Entry("w", layout, None if t.ref is None else "w")
    header = directory.Directory(1, 2, "", b"", [entry])
    file = directory.write_file(header, [written._replace(data=bytes(bad))])
    ours = verdict(reference.load, file, t.ref)
    assert verdict(native_abi.load, file, t.ref) == ours
    assert ours in ("corrupt", "unsupported", t.data.tobytes())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_directory(data: st.DataObject) -> None:
    some = [example(1, "weights", "rare", (40,), 1, "a"), example(0, "random", "none", (2, 2), 9, "named")]
    entries = [directory.Entry(t.name, Layout(t.layout, t.shape), None if t.ref is None else "b") for t in some]
    plain = bytearray(directory.write_directory(directory.Directory(1, 2, "{}", b"s", entries)))
    for _ in range(data.draw(st.integers(1, 2))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    blobs = [blob.encode_blob(Layout(t.layout, t.shape), t.data, t.ref) for t in some]
    file = directory.seal(bytes(plain), blobs)
    ours = verdict(reference.load, file, some[0].ref)
    assert verdict(native_abi.load, file, some[0].ref) == ours


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_file(data: st.DataObject) -> None:
    t = example(1, "weights", "rare", (40,), 1)
    file = bytearray(reference.save([t]))
    if data.draw(st.booleans()):
        file[data.draw(st.integers(0, len(file) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        file = file[: data.draw(st.integers(0, len(file)))] + data.draw(st.binary(max_size=3))
    assert verdict(native_abi.load, bytes(file), t.ref) == verdict(reference.load, bytes(file), t.ref)


def test_references() -> None:
    t = example(1, "weights", "rare", (4000,), 1)
    assert t.ref is not None
    file = check_same([t], 1)
    other = t.ref.copy()
    other[-1] ^= 1
    for bad in (None, other, t.ref[:-2], t.data):
        assert verdict(reference.load, file, bad) == "reference"
        assert verdict(native_abi.load, file, bad) == "reference"

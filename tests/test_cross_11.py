"""Native library and NumPy implementation on what format 1.1 brought: tensors that follow from each other."""

from __future__ import annotations

from dataclasses import replace

import native_abi
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_tensors import Item, Tensor, example
from related_tensors import optimizer_states
from test_cross import check_same
from ulpack import errors, reference
from ulpack.reference import directory
from ulpack.reference.blob import Blob
from ulpack.reference.roles import Slot

SHAPES = [(90, 40), (3, 700), (200, 170), (1, 64)]


@st.composite
def families(draw: st.DrawFn) -> list[Tensor]:
    """States of one or two parameters, some of them tied, cut, changed or without a reference, in any order."""
    some: list[Tensor] = []
    for k in range(draw(st.integers(1, 2))):
        shape = draw(st.sampled_from(SHAPES))
        made = optimizer_states(
            draw(st.sampled_from([0, shape[0] // 3, shape[0]])), k, shape, draw(st.sampled_from([1, 2, 4]))
        )
        some += [replace(t, name=f"{k}.{t.name}") for t in made]
    if draw(st.booleans()):
        some.append(replace(draw(st.sampled_from(some)), name="tied", ref=None))
    for _ in range(draw(st.integers(0, 3))):
        t = some[draw(st.integers(0, len(some) - 1))]
        match draw(st.integers(0, 3)):
            case 0:
                t.ref = None
            case 1:
                t.data = t.data.copy()
                t.data[-1] ^= 1
            case 2 if t.ref is not None:
                t.data = t.ref
            case _:
                t.data = t.data & np.array([0, 0, 255, 255] * (t.data.size // 4) + [255] * (t.data.size % 4), np.uint8)
    return list(draw(st.permutations(some)))


@settings(max_examples=60, deadline=None)
@given(families(), st.integers(1, 3), st.sampled_from([1, 3]))
def test_families(some: list[Tensor], effort: int, threads: int) -> None:
    file = check_same(some, threads, effort=effort, relate=True)
    described = reference.index(file)["tensors"]
    for i, t in enumerate(some):
        lent = [Item(k, some[k].ref, 0, 0) for k in described[i]["needs"] if k != i]
        own = Item(i, t.ref if i in described[i]["needs"] else None)
        (value, *_) = native_abi.load(file, [own, *lent], threads)
        assert value.tobytes() == t.data.tobytes()
        for missing in lent:
            rest = [item for item in lent if item is not missing]
            for side in (reference, native_abi):
                with pytest.raises(errors.WrongReferenceError) as caught:
                    side.load(file, [own, *rest])
            assert f'"{some[missing.tensor].name}"' in str(caught.value)


def test_many_chunks() -> None:
    some = optimizer_states(100, 3, (2 * 571, 571 * 2 + 8))
    assert some[0].data.size > 4 << 20
    file = check_same(some, 2, relate=True)
    assert [t["detail"] and t["detail"]["program"] for t in reference.index(file)["tensors"]] == [
        *("adamw weight", "decay", "adam second moment"),
        *(None, "cast"),
    ]


@pytest.mark.parametrize("effort", [1, 2])
def test_alone(effort: int) -> None:
    """Without relate, and with effort 1, no tensor needs another one."""
    some = optimizer_states(30)
    file = check_same(some, 1, effort=effort, relate=effort == 1)
    for i, t in enumerate(reference.index(file)["tensors"]):
        assert t["needs"] in ([], [i])


def outcome(side: object, file: bytes, some: list[Tensor]) -> list[bytes] | str:
    """The values, or the kind of the error."""
    try:
        return [v.tobytes() for v in side.load(file, [Item(i, t.ref) for i, t in enumerate(some)])]  # type: ignore[attr-defined]
    except errors.UlpackError as error:
        return error.kind


def parts(some: list[Tensor]) -> tuple[directory.Directory, list[Blob]]:
    file = directory.read_file(reference.save(some, relate=True))
    blobs = [Blob(r.plan, bytes(file.blob(i)), r.fingerprint, None, r.slots) for i, r in enumerate(file.records)]
    return file.directory, blobs


DAMAGED = [
    parts(optimizer_states(30)),
    parts([example(1, "weights", "near", (300, 200), 3), example(1, "weights", "rare", (9000,), 4, "b")]),
]
ORIGINALS = [
    optimizer_states(30),
    [example(1, "weights", "near", (300, 200), 3), example(1, "weights", "rare", (9000,), 4, "b")],
]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(DAMAGED) - 1), st.data())
def test_damaged_blobs(which: int, data: st.DataObject) -> None:
    """Damage under checksums that fit: the same verdict on both sides, and never another value."""
    (header, blobs), some = DAMAGED[which], ORIGINALS[which]
    victim = data.draw(st.integers(0, len(blobs) - 1))
    bad = bytearray(blobs[victim].data)
    for _ in range(data.draw(st.integers(1, 2))):
        near = min(len(bad), data.draw(st.sampled_from([4, 20, 60, 100000])))
        at = data.draw(st.integers(0, max(0, near - 1)))
        match data.draw(st.integers(0, 2)):
            case 0 if bad:
                bad[at] = data.draw(st.integers(0, 255))
            case 1 if bad:
                del bad[at]
            case _:
                bad.insert(at, data.draw(st.integers(0, 255)))
    damaged = [b._replace(data=bytes(bad)) if i == victim else b for i, b in enumerate(blobs)]
    file = directory.write_file(header, damaged)
    ours = outcome(reference, file, some)
    assert outcome(native_abi, file, some) == ours
    assert ours in ("corrupt", "unsupported", "limit", [t.data.tobytes() for t in some])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_roles(data: st.DataObject) -> None:
    (header, blobs), some = DAMAGED[0], ORIGINALS[0]
    victim = data.draw(st.integers(0, len(blobs) - 1))
    slots = list(blobs[victim].slots)
    for _ in range(data.draw(st.integers(1, 2))):
        role, tensor = data.draw(st.integers(0, 3)), data.draw(st.integers(0, len(blobs)))
        known = data.draw(st.sampled_from([0, *(s.fingerprint for b in blobs for s in b.slots)]))
        made = Slot(role, 0 if role == 0 else tensor, known)
        match data.draw(st.integers(0, 2)):
            case 0 if slots:
                slots[data.draw(st.integers(0, len(slots) - 1))] = made
            case 1 if slots:
                del slots[data.draw(st.integers(0, len(slots) - 1))]
            case _:
                slots.insert(data.draw(st.integers(0, len(slots))), made)
    order = data.draw(st.sampled_from([header.order, None, [*range(1, len(blobs)), 0]]))
    damaged = [b._replace(others=tuple(slots)) if i == victim else b for i, b in enumerate(blobs)]
    file = directory.write_file(header._replace(order=order), damaged)
    found = [outcome(side, file, some) for side in (reference, native_abi)]
    values = [t.data.tobytes() for t in some]
    if found[0] != found[1]:  # both refuse it, on different grounds
        assert set(found) == {"corrupt", "reference"}
    assert found[0] in ("corrupt", "unsupported", "limit", "reference", values)

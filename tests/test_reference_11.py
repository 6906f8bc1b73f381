"""The NumPy implementation of format 1.1 by itself: programs, encoder version 2, and what the reader rejects."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_tensors import CHANGES, PATTERNS, Item, Tensor, example, layout_of, tensor
from related_tensors import optimizer_states
from ulpack import errors, reference
from ulpack.reference import casts, directory, floats, programs, roles
from ulpack.reference.blob import Blob
from ulpack.reference.dtypes import DTYPES, Layout

BFLOAT16, FLOAT16, FLOAT32, FLOAT64 = 1, 2, 3, 4


def save(tensors: list[Tensor], **options: Any) -> bytes:
    return reference.save(tensors, relate=True, **options)


def items(tensors: list[Tensor]) -> list[Item]:
    return [Item(i, t.ref) for i, t in enumerate(tensors)]


def check(tensors: list[Tensor]) -> list[dict[str, Any]]:
    """Save, load, and return the index of the tensors."""
    file = save(tensors)
    assert [v.tobytes() for v in reference.load(file, items(tensors))] == [t.data.tobytes() for t in tensors]
    index = reference.index(file)
    assert index["format"] == [1, 1]
    assert index["encoder"] == 2
    return list(index["tensors"])


@lru_cache(maxsize=2)
def optimizer_file(decayed_rows: int) -> bytes:
    return save(optimizer_states(decayed_rows))


class TestCasts:
    @pytest.mark.parametrize(("to", "source"), [(2, 3), (2, 4), (3, 4), (3, 2), (4, 2), (4, 3)])
    def test_as_numpy(self, to: int, source: int) -> None:
        kinds = {2: np.float16, 3: np.float32, 4: np.float64}
        dtype = DTYPES[source]
        rng = np.random.default_rng(to * 10 + source)
        bits = rng.integers(0, 1 << dtype.bits - 1, 50000, np.uint64) * 2 + rng.integers(0, 2, 50000, np.uint64)
        # Many values near the range of the narrower dtype, where subnormals, ties and overflow are.
        with np.errstate(over="ignore"):
            near = (rng.standard_normal(50000) * 2.0 ** rng.integers(-30, 20, 50000)).astype(kinds[source])
        values = np.concatenate([bits.astype(dtype.lane).view(kinds[source]), near])
        values = values[~np.isnan(values)]
        with np.errstate(all="ignore"):
            expected = values.astype(kinds[to]).view(DTYPES[to].lane)
        assert np.array_equal(casts.cast_bits(values.view(dtype.lane), DTYPES[to], dtype), expected)

    def test_bfloat16_as_torch(self) -> None:
        bits = np.random.default_rng(1).integers(0, 1 << 32, 100000, np.uint32)
        bits = bits[~np.isnan(bits.view(np.float32))]
        expected = torch.from_numpy(bits.view(np.float32)).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        assert np.array_equal(casts.cast_bits(bits, DTYPES[BFLOAT16], DTYPES[FLOAT32]), expected)

    def test_nan(self) -> None:
        nan = np.array([0x7F800001, 0xFFC12345, 0x7FBFFFFF], np.uint32)
        assert casts.cast_bits(nan, DTYPES[BFLOAT16], DTYPES[FLOAT32]).tolist() == [0x7FC0, 0xFFC1, 0x7FFF]
        wide = casts.cast_bits(np.array([0x7F81], np.uint16), DTYPES[FLOAT32], DTYPES[BFLOAT16])
        assert wide.tolist() == [0x7F810000]


class TestFloats:
    def test_flush_to_zero_is_undone(self) -> None:
        tiny = np.array([0x00000003, 0x00800001], np.uint32)
        program = programs.Program(programs.DECAY, (0,), (), (programs.Run(programs.SCALE, 0x3F000000, 1),))

        def halves() -> list[int]:
            return programs.predict(program, DTYPES[FLOAT32], [tiny], [DTYPES[FLOAT32]]).tolist()

        expected = [0x00000002, 0x00400000]
        assert halves() == expected
        flushes = torch.set_flush_denormal(True)
        try:
            assert floats.keeps_subnormals() != flushes
            assert halves() == expected
            assert floats.keeps_subnormals() != flushes  # the caller's setting is back
        finally:
            torch.set_flush_denormal(False)
        assert floats.keeps_subnormals()

    def test_not_finite_keeps_the_first_slot(self) -> None:
        inf, nan, one = 0x7F800000, 0x7FC00001, 0x3F800000
        x0, m1, v1 = (np.array(v, np.uint32) for v in ([one, nan, one, one], [one, one, inf, one], [one, one, one, 0]))
        program = programs.Program(programs.ADAM_W, (0, 1, 2), (one, one, 0, 0xBF800000))
        p = programs.predict(program, DTYPES[FLOAT32], [x0, m1, v1], [DTYPES[FLOAT32]] * 3)
        assert p.tolist() == [0, nan, one, one]


class TestEncoder:
    def test_optimizer_step(self) -> None:
        some = optimizer_states()
        found = check(some)
        assert [t["detail"] and t["detail"]["program"] for t in found] == [
            "adamw weight",
            "",
            "adam second moment",
            None,
            "cast",
        ]
        assert found[0]["needs"] == [0, 1, 2]
        assert [(r["role"], r["tensor"]) for r in found[2]["roles"]] == [(0, None), (1, 1), (2, 1)]
        assert found[2]["blob_nbytes"] < 200
        assert directory.read_file(save(some)).directory.order == [1, 2, 0, 3, 4]

    def test_decayed_rows(self) -> None:
        found = check(optimizer_states(decayed_rows=30))
        assert found[1]["plan_name"] == "rows"
        assert found[1]["detail"]["exact_rows"] == 30
        assert found[1]["detail"]["program"] == "decay"

    @pytest.mark.parametrize(("code", "drop"), [(FLOAT32, 16), (FLOAT32, 13), (FLOAT64, 29), (FLOAT16, 3)])
    @pytest.mark.parametrize("change", ["none", "far"])
    def test_narrow(self, code: int, drop: int, change: str) -> None:
        t = example(code, "weights", change, (60, 50), 3)
        lane = layout_of(code).lane
        for raw in (t.data, t.ref):
            if raw is not None:
                raw.view(lane)[:] = (raw.view(lane) >> drop) << drop
        (found,) = check([t])
        assert found["plan_name"] == "narrow"
        assert found["detail"]["dropped_bits"] >= drop

    def test_equal_tensors(self) -> None:
        t = example(BFLOAT16, "weights", "near", (50, 60), 1)
        found = check([t, replace(t, name="tied", ref=None)])
        assert found[1]["detail"]["program"] == "copy"
        assert found[1]["needs"] == [0]

    @pytest.mark.parametrize("code", [BFLOAT16, FLOAT16, FLOAT32, 18, 21])
    def test_few_changes(self, code: int) -> None:
        n = (1 << 18) + 5000
        lanes = example(code, "weights", "none", (n,), 4).data.view(layout_of(code).lane)
        moved = np.random.default_rng(1).random(n) < 0.01
        t = tensor(code, np.where(moved, lanes + lanes.dtype.type(1), lanes), lanes)
        check([t])
        dense = reference.save([t], encoder=1)
        assert len(save([t])) < len(dense)

    def test_classes_of_rows(self) -> None:
        rng = np.random.default_rng(2)
        r = example(BFLOAT16, "weights", "none", (300, 200), 5).data.view("<u2").reshape(300, 200)
        spread = np.exp(rng.uniform(0, 6, (300, 1)))
        x = r + np.round(rng.standard_normal(r.shape) * spread).astype(np.int64).astype("<u2")
        (found,) = check([tensor(BFLOAT16, x.reshape(-1), r.reshape(-1), shape=r.shape)])
        assert found["detail"]["context_part"] == 3
        assert found["detail"]["classes"] > 1

    def test_many_chunks(self) -> None:
        """The length before a large blob is 0."""
        n = 5 * (1 << 18)
        lanes = example(BFLOAT16, "weights", "none", (n,), 6).data.view("<u2")
        t = tensor(BFLOAT16, lanes + (np.arange(n) % 9 == 0).astype("<u2"), lanes)
        file = save([t])
        check([t])
        start = directory.read_file(file).records[0].offset
        assert file[start - 2 : start] == bytes([3, 0])
        longer = (1 << 18) + 7, 300000
        (part,) = reference.load(file, [Item(0, t.ref, *longer)])
        assert part.tobytes() == t.data[2 * longer[0] :][: 2 * longer[1]].tobytes()

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 4, 5, 16, 20, 26]), st.sampled_from(PATTERNS),
        st.sampled_from(CHANGES), st.sampled_from([(), (0,), (7,), (40, 30), (9000,), (64, 70)]), st.integers(0, 99)),
        max_size=4))  # fmt: skip
    def test_round_trip(self, some: list[tuple[int, str, str, tuple[int, ...], int]]) -> None:
        check([example(*what, name=f"t.{i}") for i, what in enumerate(some)])


class TestReader:
    def test_references_of_others(self) -> None:
        some = optimizer_states()
        file = optimizer_file(0)
        lent = [Item(2, some[2].ref), Item(1, some[1].ref, 0, 0)]
        assert reference.load(file, lent)[0].tobytes() == some[2].data.tobytes()
        part = [Item(2, some[2].ref, 700, 90), Item(1, some[1].ref, 0, 0)]
        assert reference.load(file, part)[0].tobytes() == some[2].data[2800:3160].tobytes()
        assert some[1].ref is not None
        for other in (None, some[1].ref[::-1].copy(), some[1].ref[4:]):
            with pytest.raises(errors.WrongReferenceError):
                reference.load(file, [Item(2, some[2].ref), Item(1, other, 0, 0)])

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, 4), st.data())
    def test_damage(self, victim: int, data: st.DataObject) -> None:
        """Under checksums that fit a damaged blob is an error or the same value."""
        some = optimizer_states(decayed_rows=30)
        file = directory.read_file(optimizer_file(30))
        records = file.records
        blobs = []
        for i, record in enumerate(records):
            raw = bytearray(file.blob(i))
            if i == victim:
                near = min(len(raw), data.draw(st.sampled_from([8, 60, 100000])))
                raw[data.draw(st.integers(0, near - 1))] ^= data.draw(st.integers(1, 255))
            slots = record.slots
            blobs.append(Blob(record.plan, bytes(raw), record.fingerprint, None, slots))
        damaged = directory.write_file(file.directory, blobs)
        try:
            values = reference.load(damaged, items(some))
        except (errors.CorruptError, errors.UnsupportedError, errors.LimitError):
            return
        assert [v.tobytes() for v in values] == [t.data.tobytes() for t in some]

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, 1 << 20), st.integers(1, 255))
    def test_damaged_front(self, at: int, flip: int) -> None:
        """A damaged plain directory under a checksum that fits is an error or another directory, never the same."""
        written = directory.read_file(optimizer_file(0)).directory
        plain = bytearray(directory.write_directory(written))
        plain[at % len(plain)] ^= flip
        try:
            assert directory.read_directory(bytes(plain), 1) != written
        except (errors.CorruptError, errors.UnsupportedError, errors.LimitError):
            return

    @pytest.mark.parametrize("order", [[0, 1], [1, 1], [0, 2], [-1, 0]])
    def test_bad_orders(self, order: list[int]) -> None:
        layout = Layout(DTYPES[FLOAT32], (2,))
        entries = [directory.Entry(name, layout, None) for name in "ab"]
        plain = directory.write_directory(directory.Directory(2, 3, "", b"", entries, 1, order))
        with pytest.raises(errors.CorruptError):
            directory.read_directory(plain, 1)
        good = directory.Directory(2, 3, "", b"", entries, 1, [1, 0])
        assert directory.read_directory(directory.write_directory(good), 1) == good

    def test_dependencies(self) -> None:
        layout = Layout(DTYPES[FLOAT32], (2,))
        entries = [directory.Entry(str(i), layout, "r" if i else None) for i in range(6)]

        def check_slots(slots: dict[int, roles.Slot], order: list[int] | range = range(6)) -> None:
            roles.check_dependencies(entries, [(slots[i],) if i in slots else () for i in range(6)], order)

        def value(i: int) -> roles.Slot:
            return roles.Slot(roles.VALUE_ROLE, i, 0)

        check_slots({1: value(0), 2: value(1), 3: value(2), 4: value(3)})
        check_slots({0: value(1)}, [1, 0, 2, 3, 4, 5])
        check_slots({0: roles.Slot(roles.OTHER_REFERENCE_ROLE, 1, 0)})
        for bad in ({0: value(1)}, {1: value(1)}, {1: roles.Slot(roles.OTHER_REFERENCE_ROLE, 0, 0)}):
            with pytest.raises(errors.CorruptError):
                check_slots(bad)
        with pytest.raises(errors.LimitError):
            check_slots({i: value(i - 1) for i in range(1, 6)})
        entries[0] = directory.Entry("0", Layout(DTYPES[FLOAT32], (1, 2)), None)
        with pytest.raises(errors.CorruptError):
            check_slots({1: value(0)})

    def test_reserved_in_format_1_0(self) -> None:
        """What 1.1 brought is unsupported in a file that says 1.0."""
        some = optimizer_states(decayed_rows=30)
        file = directory.read_file(optimizer_file(30))
        plain = directory.write_directory(file.directory._replace(minor=0, order=None))
        for i, record in enumerate(file.records):
            if record.plan < 3:
                continue
            blob = Blob(record.plan, bytes(file.blob(i)), record.fingerprint, None, record.slots)
            others = [Blob(0, t.data.tobytes(), reference.fingerprint(t), None) for t in some]
            others[i] = blob
            with pytest.raises(errors.UnsupportedError):
                reference.load(directory.seal(plain, others), items(some))

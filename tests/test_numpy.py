"""NumPy arrays, NumPy alone, and the structure around the tensors, hostile structures included."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import ulpack
from hypothesis import given, settings
from hypothesis import strategies as st
from ulpack import _structure, errors
from ulpack._structure import parse, resolve, tags
from ulpack._structure.pack import pack

# Children find the package where this process found it.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ulpack.__file__).parent.parent)}
PLAIN = [np.dtype(code) for code in "?bBhHiIlLqQefdFD"]
ML_DTYPES = [
    np.dtype(getattr(ml_dtypes, name))
    for name in ml_dtypes.__all__
    if isinstance(getattr(ml_dtypes, name), type) and name not in ("finfo", "iinfo")
]
OTHER = [
    np.dtype(name)
    for name in ("M8[ns]", "m8[D]", "M8", "U3", "S5", "V7", "g", "i4,f4", "(2,3)i2,u1", [("a", ">f4"), ("b", "M8[s]")])
]
SHAPES = [(), (0,), (4, 0), (9,), (3, 5), (2, 3, 4)]


def random_array(dtype: np.dtype, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random bit patterns."""
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, np.uint8)
    if dtype == np.bool_:
        raw &= 1
    if dtype.kind == "U":
        raw &= np.tile(np.array([0x7F, 0, 0, 0], np.uint8), raw.size // 4)  # characters, in either byte order
        if dtype.byteorder == ">":
            raw = np.zeros_like(raw)
    return raw.view(dtype).reshape(shape)


def assert_same(left: Any, right: Any) -> None:
    """Same type, dtype, shape and bits."""
    assert type(left) is type(right)
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()


def saved(state: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    ulpack.save_delta(state, file, **options)
    return file.getvalue()


@pytest.mark.usefixtures("each_backend")
class TestArrays:
    @pytest.mark.parametrize("dtype", [*PLAIN, *ML_DTYPES, *OTHER], ids=str)
    def test_every_dtype(self, dtype: np.dtype) -> None:
        state = {str(shape): random_array(dtype, shape, seed) for seed, shape in enumerate(SHAPES)}
        reference = {name: array.copy() for name, array in state.items()}
        for base in (None, reference):
            loaded = ulpack.load_delta(saved(state, reference=base), reference=base)
            assert list(loaded) == list(state)
            for name, array in state.items():
                assert_same(loaded[name], array)

    @pytest.mark.parametrize("dtype", [">f4", ">i2", ">c16", ">u8", ">f8", ">U4", ">M8[s]"])
    def test_other_byte_order_comes_back(self, dtype: str) -> None:
        values = random_array(np.dtype(dtype), (4, 3))
        loaded = ulpack.load_delta(saved({"x": values}))["x"]
        assert loaded.dtype == values.dtype
        assert loaded.dtype.byteorder == ">"
        assert_same(loaded, values)
        out = np.zeros((4, 3), dtype)
        blob = ulpack.encode(values)
        assert ulpack.decode(blob, out=out) is out
        assert_same(out, values)
        if values.dtype.kind in "fiuc":
            native = values.astype(values.dtype.newbyteorder("="))
            assert (
                ulpack.inspect(blob).tensors[0].fingerprint
                == ulpack.inspect(ulpack.encode(native)).tensors[0].fingerprint
            )

    def test_layouts(self, tmp_path: Path) -> None:
        x = random_array(np.dtype("f4"), (6, 8))
        mapped = np.memmap(tmp_path / "map", "f4", "w+", shape=(6, 8))
        mapped[:] = x
        frozen = x.copy()
        frozen.flags.writeable = False
        state = {
            "fortran": np.asfortranarray(x),
            "reversed": x[::-1, ::-2],
            "broadcast": np.broadcast_to(x[0], (3, 8)),
            "mapped": mapped,
            "frozen": frozen,
            "record field": np.zeros(5, "i4,f4")["f1"],
        }
        loaded = ulpack.load_delta(saved(state, reference=state), reference=state)
        for name, array in state.items():
            assert_same(loaded[name], np.array(array, order="C"))
            assert loaded[name].flags.c_contiguous
            assert loaded[name].flags.writeable

    def test_ties(self) -> None:
        x = random_array(np.dtype("f4"), (8,))
        blob = saved({"a": x, "b": x, "view": x[:], "part": x[:4]})
        assert len(ulpack.inspect(blob).tensors) == 2
        loaded = ulpack.load_delta(blob)
        assert loaded["a"] is loaded["b"] is loaded["view"]

    def test_flat_dicts_need_one_byte_of_structure(self) -> None:
        x = random_array(np.dtype("f4"), (8,))
        assert pack({"a": x, "b": x + 1}).structure == b"\x01"
        assert pack({"a": x, "b": x}).structure[:1] == b"\x03"

    def test_encode_and_decode(self) -> None:
        base = random_array(np.dtype(ml_dtypes.bfloat16), (300, 40))
        raw = base.view(np.uint16).copy()
        raw[::3] ^= 1
        target = raw.view(ml_dtypes.bfloat16)
        blob = ulpack.encode(target, base)
        assert len(blob) < target.nbytes / 4
        assert_same(ulpack.decode(blob, base), target)
        for shape in (target, target.T.copy().T, np.zeros((600, 80), target.dtype)[::2, ::2]):
            out = np.zeros_like(shape) if shape.flags.c_contiguous else shape
            assert ulpack.decode(blob, base, out=out) is out
            assert_same(np.ascontiguousarray(out), target)
        frozen = np.zeros_like(target)
        frozen.flags.writeable = False
        with pytest.raises(errors.ArgumentError, match="read-only"):
            ulpack.decode(blob, base, out=frozen)

    def test_apply_in_place(self) -> None:
        base = {"x": random_array(np.dtype("f4"), (50,)), "big": random_array(np.dtype(">f8"), (6, 5))}
        state = {"x": base["x"] * 2, "big": base["big"][::-1].copy()}
        blob = saved(state, reference=base)
        live = {"x": base["x"].copy(), "big": np.asfortranarray(base["big"])}
        places = live["x"], live["big"]
        ulpack.apply_delta_(live, blob)
        assert live["x"] is places[0]
        assert live["big"] is places[1]
        assert_same(live["x"], state["x"])
        assert live["big"].tobytes() == state["big"].tobytes()

    @given(st.data())
    @settings(max_examples=60)
    def test_strided_views(self, data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from([*PLAIN, *ML_DTYPES]))
        shape = data.draw(st.lists(st.integers(0, 7), max_size=4).map(tuple))
        base = random_array(dtype, shape, data.draw(st.integers(0, 99)))
        order = data.draw(st.permutations(range(len(shape))))
        steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1, -3]))) for _ in shape)
        view = base.transpose(order)[(*steps, ...)]
        reference = random_array(dtype, view.shape, 5) if data.draw(st.booleans()) else None
        assert_same(ulpack.decode(ulpack.encode(view, reference), reference), np.array(view, order="C"))


class TestNumpyAlone:
    """Without torch and without ml_dtypes, in a process of its own."""

    def run(self, code: str, *hidden: str, cwd: Path) -> str:
        block = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in hidden)
        script = block + textwrap.dedent(code)
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def test_round_trip(self, tmp_path: Path) -> None:
        code = """
            import numpy as np, ulpack
            base = {"x": np.arange(999, dtype="f4"), "n": np.arange(5)}
            state = {"x": base["x"] + 1, "n": base["n"], "list": [np.float64(2), None]}
            ulpack.save_delta(state, "x.ulp", reference=base)
            loaded = ulpack.load_delta("x.ulp", reference=base)
            assert (loaded["x"] == state["x"]).all() and loaded["list"] == [2.0, None]
            assert ulpack.inspect("x.ulp").needs_reference and ulpack.verify("x.ulp", base).ok
            print(ulpack.backend())
        """
        assert self.run(code, "torch", "ml_dtypes", "safetensors", cwd=tmp_path) == "native\n"

    def test_import_loads_nothing_heavy(self, tmp_path: Path) -> None:
        code = """
            import ulpack, os
            maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
            print("torch" in sys.modules, "rich" in sys.modules, "typer" in sys.modules, "libulpack" in maps)
        """
        assert self.run(code, cwd=tmp_path) == "False False False False\n"

    def test_torch_tensors_come_back_as_arrays(self, tmp_path: Path) -> None:
        import torch

        state = {
            "w": torch.arange(6).reshape(2, 3).bfloat16(),
            "f": torch.ones(2),
            "tied": [torch.zeros(3)] * 2,
            "size": torch.Size([1, 2]),
            "dtype": torch.float8_e5m2,
            "device": torch.device("cpu"),
            "q": torch.arange(4, dtype=torch.uint8).view(torch.uint4),
        }
        ulpack.save_delta(state, tmp_path / "x.ulp")
        code = """
            import numpy as np, ulpack, warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                x = ulpack.load_delta("x.ulp")
            print(x["w"].dtype, x["w"].shape, x["f"].dtype, x["tied"][0] is x["tied"][1], x["q"].shape)
            print(x["size"], x["dtype"], x["device"], sorted(str(w.message)[:50] for w in caught))
        """
        first, second = self.run(code, "torch", cwd=tmp_path).splitlines()
        assert first == "bfloat16 (2, 3) float32 True (4, 1)"
        assert second == "(1, 2) torch.float8_e5m2 cpu ['no installed package has the dtype torch:uint4: it']"
        first, second = self.run(code, "torch", "ml_dtypes", cwd=tmp_path).splitlines()
        assert first == "uint8 (2, 3, 2) float32 True (4, 1)"
        assert "no installed package has the dtype bfloat16: its t" in second

    def test_files_without_torch(self, tmp_path: Path) -> None:
        import torch
        from safetensors.torch import save_file

        base = {"w": torch.arange(400).float()}
        save_file(base, tmp_path / "a.safetensors")
        torch.save(base, tmp_path / "a.pt")
        ulpack.save_delta({"w": torch.arange(400).float() + 1}, tmp_path / "x.ulp", reference=base)
        code = """
            import ulpack
            print(ulpack.load_delta("x.ulp", reference="a.safetensors")["w"].sum())
            try:
                ulpack.load_delta("x.ulp", reference="a.pt")
            except ulpack.errors.UnsupportedError as error:
                print(error)
        """
        assert self.run(code, "torch", cwd=tmp_path) == "80200.0\na.pt: reading a torch file needs torch\n"

    def test_torch_objects_are_found_without_a_flat_form(self, tmp_path: Path) -> None:
        """A structure written where torch was loaded and read where it is not, and back."""
        code = """
            import numpy as np, ulpack
            ulpack.save_delta({"x": np.ones(3, "f4")}, "y.ulp")
        """
        self.run(code, "torch", cwd=tmp_path)
        assert_same(ulpack.load_delta(tmp_path / "y.ulp")["x"], np.ones(3, "f4"))


def test_backend_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ULPACK_BACKEND", "reference")
    assert str(ulpack.backend()) == "reference"
    monkeypatch.setenv("ULPACK_BACKEND", "native")
    found = ulpack.backend()
    assert found.name == "native"
    assert found.details
    monkeypatch.setenv("ULPACK_BACKEND", "other")
    with pytest.raises(errors.ArgumentError, match="ULPACK_BACKEND"):
        ulpack.backend()
    code = "import ulpack; print(ulpack.backend()); ulpack.decode(ulpack.encode(__import__('numpy').ones(3)))"
    environment = {**ENVIRONMENT, "ULPACK_LIBRARY": str(tmp_path / "none.so"), "ULPACK_BACKEND": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "reference\n"
    assert done.stderr.count("UlpackWarning: using the NumPy implementation") == 1
    environment["ULPACK_BACKEND"] = "native"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert "UnsupportedError: there is no native library at" in done.stderr


def test_backends_write_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    base = {f"{dtype}": random_array(dtype, (50, 7), 1) for dtype in [*PLAIN, *ML_DTYPES]}
    state = {name: random_array(array.dtype, (50, 7), 2) for name, array in base.items()}
    for number, (name, array) in enumerate(base.items()):
        if number % 2:
            state[name] = array.copy()
            state[name].reshape(-1)[::9] = array.reshape(-1)[1]
    nest = {"arrays": state, "plain": [1, 2.5, "x", None, list(range(40))]}
    written = []
    for name in ("native", "reference"):
        monkeypatch.setenv("ULPACK_BACKEND", name)
        written.append(saved(nest, reference={"arrays": base}, metadata={"a": 1}))
    assert written[0] == written[1]


def test_more_than_32_bits(native: None) -> None:
    """Sizes around 2^31 and above 2^32; the arrays are zeros that take no memory but for the changed pages."""
    for size in (2**31 - 1, 2**31 + 1, 2**32 + 5):
        base, target = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        target[[0, size // 2, size - 1]] = 7
        blob = ulpack.encode(target, base)
        assert ulpack.inspect(blob).tensors[0].raw_nbytes == size
        assert ulpack.verify(blob, base).ok
        changed = np.zeros(size, np.uint8)
        changed[size - 1] = 1
        with pytest.raises(errors.WrongReferenceError):
            ulpack.verify(blob, changed)


def test_sizes_beyond_memory_are_an_error(each_backend: str) -> None:
    """A few bytes can declare a constant tensor of 2^58 elements."""
    from ulpack.reference.blob import CONSTANT, Blob
    from ulpack.reference.directory import Directory, Entry, write_file
    from ulpack.reference.dtypes import DTYPES, Layout

    entry = Entry("x", Layout(DTYPES[16], (1 << 29, 1 << 29)), None)
    for structure in (b"", b"\x01"):
        directory = Directory(1, 2, "", structure, [entry])
        data = write_file(directory, [Blob(CONSTANT, b"\0", 1, None)])
        assert ulpack.inspect(data).tensors[0].shape == (1 << 29, 1 << 29)
        with pytest.raises(errors.LimitError, match="memory"):
            ulpack.load_delta(data)


def test_errors_travel_between_processes() -> None:
    import pickle

    for cls in {*errors.CODES.values(), errors.UnsupportedTypeError, errors.MissingFileError}:
        error = cls("what", tensor="w", offset=3, path="p")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is cls
        assert (str(again), again.kind, again.tensor, again.offset) == (str(error), cls.kind, "w", 3)
        assert str(error) == "p, tensor 'w', byte 3: what"
        assert isinstance(error, ulpack.UlpackError)


# The structure.

keys = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(), max_size=6),
    st.binary(max_size=4),
    st.tuples(st.integers(), st.text(max_size=2)),
)
leaves = st.one_of(
    keys,
    st.floats(),
    st.complex_numbers(),
    st.binary(max_size=9).map(bytearray),
    st.frozensets(keys, max_size=3),
    st.lists(st.integers(0, 300), min_size=4, max_size=30),
    st.integers(0, 1 << 62).flatmap(lambda first: st.just(list(range(first, first + 9)))),
    st.sampled_from([np.float32(1.5), np.int8(-3), np.str_("é"), np.dtype("i4,>f8"), np.complex64(1j)]),
    st.integers(0, 5).map(lambda n: np.arange(n, dtype="f4")),
)
nests = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(st.text(max_size=3), inner, max_size=4).map(collections.OrderedDict),
        st.lists(inner, max_size=3).map(collections.deque),
    ),
    max_leaves=20,
)


def rebuilt(state: Any) -> Any:
    packed = pack(state)
    names = [leaf.name for leaf in packed.leaves]
    assert len(set(names)) == len(names)
    parsed = parse(packed.structure, names)
    return resolve(parsed.root, {number: leaf.obj for number, leaf in enumerate(packed.leaves)})


def assert_nest(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert_nest(list(left), list(right))
        assert_nest(list(left.values()), list(right.values()))
    elif isinstance(left, (list, tuple, collections.deque)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_nest(one, other)
    elif isinstance(left, float):
        assert struct.pack("<d", left) == struct.pack("<d", right)
    elif isinstance(left, complex):
        assert struct.pack("<dd", left.real, left.imag) == struct.pack("<dd", right.real, right.imag)
    elif isinstance(left, (np.ndarray, np.generic)):
        assert_same(left, right)
    else:
        assert left == right


class TestStructure:
    @given(nests)
    def test_round_trip(self, state: Any) -> None:
        assert_nest(rebuilt(state), state)

    @given(nests, st.data())
    def test_damage_is_an_error_or_another_nest(self, state: Any, data: st.DataObject) -> None:
        packed = pack(state)
        names = [leaf.name for leaf in packed.leaves]
        damaged = bytearray(packed.structure) or bytearray(b"\x03")
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(errors.CorruptError, errors.LimitError, errors.UnsupportedError):
            parse(bytes(damaged), names)

    @given(st.binary(max_size=60))
    @settings(max_examples=500)
    def test_noise(self, noise: bytes) -> None:
        with contextlib.suppress(errors.CorruptError, errors.LimitError, errors.UnsupportedError):
            parse(b"\x03" + noise, ["a", "a.b", "c"])

    @given(nests)
    @settings(max_examples=30)
    def test_truncation_is_an_error(self, state: Any) -> None:
        packed = pack(state)
        names = [leaf.name for leaf in packed.leaves]
        for length in range(1, len(packed.structure)):
            with pytest.raises(errors.UlpackError):
                parse(packed.structure[:length], names)

    @pytest.mark.parametrize(
        ("text", "names", "message"),
        [
            ("01 00", ["a"], "after its end"),
            ("03 00 00", [], "after its end"),
            ("05", [], "starts with"),
            ("03", [], "ends early"),
            ("03 1d", [], "tag"),
            ("03 00", ["a"], "does not use every tensor"),
            ("03 20", [], "more tensors"),
            ("03 23 00", ["a"], "not been met"),
            ("03 03 80 00", [], "shortest"),
            ("03 03 ff ff ff ff ff ff ff ff ff 01", [], "2\\^63"),
            ("03 05 01 05", [], "shortest"),
            ("03 05 00", [], "shortest"),
            ("03 09 01 ff", [], "UTF-8"),
            ("03 0c ff ff 7f 00", [], "counts more"),
            ("03 0a ff 7f", [], "ends early"),
            ("03 10 02 03 01 00 03 01 00", [], "key twice"),
            ("03 10 02 03 01 00 02 00", [], "key twice"),
            ("03 10 01 0c 00 00", [], "in a key"),
            ("03 10 01 0d 01 0c 00 00", [], "cannot be one"),
            ("03 10 01 30 02", ["a", "b"], "more tensors than there are"),
            ("03 10 01 30 00", ["a"], "more tensors than there are"),
            ("03 10 02 09 01 61 20 30 01", ["x", "a"], "key twice"),
            ("03 10 01 09 01 78 10 01 30 01", ["y.z"], "begin with 'x.'"),
            ("03 0e 02 00 00", [], "member twice"),
            ("03 13 09 00", [], "factory"),
            ("03 14 03 01 02 00 00", [], "maxlen"),
            ("03 14 02 00", [], "maxlen"),
            ("03 1b 03 01 00 00 00", [], "integers of 3"),
            ("03 18 08 6e 75 6d 70 79 3a 7c 4f 08 00 00 00 00 00 00 00 00", [], "dtype"),
            ("03 19 08 6e 75 6d 70 79 3a 7c 4f", [], "plain bytes"),
            ("03 18 09 6e 75 6d 70 79 3a 3c 66 34 02 00 00", [], "scalar of 2 bytes"),
            ("03 24 06 71 75 69 6e 74 38 0d 00 00 20", ["a"], "without its parts"),
        ],
    )
    def test_rejected(self, text: str, names: list[str], message: str) -> None:
        with pytest.raises(errors.CorruptError, match=message):
            parse(bytes.fromhex(text), names)

    def test_limits(self) -> None:
        for text in (
            b"\x03" + b"\x0c\x01" * 200 + b"\x00",
            b"\x03\x0c\x02" + b"\x1a\x00\x80\x80\x40" * 2,  # two ranges of 2^20
            b"\x03\x1a\x00" + b"\xff" * 8 + b"\x7f",
        ):
            with pytest.raises(errors.LimitError):
                parse(text, [])
        many = b"\x03\x0d\x03" + (b"\x1b\x01" + b"\x80\x80\x80\x04" + bytes(1 << 23)) * 3
        with pytest.raises(errors.LimitError):
            parse(many, [])

    def test_worked_example(self) -> None:
        """An AdamW state: one dict a parameter, its moments under keys that the names spell."""
        x = [np.full(2, n, "f4") for n in range(4)]
        state = {
            "state": {0: {"step": x[0], "exp_avg": x[1]}, 1: {"step": x[2], "exp_avg": x[3]}},
            "param_groups": [{"lr": 0.5, "params": [0, 1, 2, 3]}],
        }
        packed = pack(state)
        assert [leaf.name for leaf in packed.leaves] == [
            "state.0.step",
            "state.0.exp_avg",
            "state.1.step",
            "state.1.exp_avg",
        ]
        assert packed.structure == bytes.fromhex(
            "03 10 02"
            "09 05 7374617465 10 02"
            "03 00 10 02 31 02"
            "03 01 10 02 31 02"
            "09 0c 706172616d5f67726f757073 0c 01 10 02"
            "09 02 6c72 07 000000000000e03f"
            "09 06 706172616d73 1a 00 04"
        )

    def test_no_import_for_a_name_in_a_file(self) -> None:
        """A file that names a class cannot make a module load."""
        structure = bytes((tags.VALUE, tags.FLATTENED, 13)) + b"antigravity:X" + bytes.fromhex("00 0d 00 0d 00 00")
        parsed = parse(structure, [])
        with pytest.raises(errors.UnsupportedError, match="import that module first"):
            resolve(parsed.root, {})
        assert "antigravity" not in sys.modules

    def test_dtype_names(self) -> None:
        from ulpack import _dtypes

        for dtype in [*PLAIN, *ML_DTYPES, *OTHER]:
            text = _dtypes.numpy_text(dtype)
            assert text is not None
            assert _dtypes.parse_numpy(text) == dtype
        for text in (
            "numpy:O",
            "numpy:|O",
            'numpy:[["a","|O"]]',
            "numpy:T",
            "numpy:",
            "numpy:V0",
            "numpy:[1]",
            "numpy:" + "[" * 5000,
            "ml_dtypes:finfo",
            "ml_dtypes:__version__",
            "other:f4",
            "f4",
            'numpy:[["a","<f4",[-1]]]',
            'numpy:[["a","<f4",[1e99]]]',
            "numpy:float32",
            "numpy:f4",
        ):
            with pytest.raises(errors.CorruptError):
                _dtypes.parse_numpy(text)


class TestImages:
    """The image of files on the wire."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("02 00", "layout"),
            ("00 00", "several"),
            ("01 01 02 2e2e 00 00", "path"),
            ("01 01 03 2f6162 00 00", "path"),
            ("01 01 04 612f2e62 00 00", None),
            ("01 01 05 612f2e2e62 00 00", None),
            ("01 01 04 612f2e2e 00 00", "path"),
            ("01 01 02 5c61 00 00", "path"),
            ("01 01 00 00 00 00", "path"),
            ("01 02 01 61 00 00 01 61 00 00", "twice"),
            ("01 02 01 61 00 00 03 612f62 00 00", "folder"),
            ("00 01 01 61 00 01 01 00 09", "does not have"),
            ("00 01 01 61 09 00", "does not have"),
            ("00 01 01 61 00 01 03 05", "not there"),
            ("00 01 01 61 00 01 07 05", "kind 7"),
            ("00 01 01 61 00 00 00", "after its end"),
            ("00 01 01 ff 00 00", "UTF-8"),
        ],
    )
    def test_rejected(self, text: str, message: str | None) -> None:
        from ulpack._image import decode_image

        if message is None:
            assert decode_image(bytes.fromhex(text), 3).files
            return
        with pytest.raises(errors.CorruptError, match=message):
            decode_image(bytes.fromhex(text), 3)

    @given(st.binary(max_size=40))
    def test_noise(self, noise: bytes) -> None:
        from ulpack._image import decode_image

        with contextlib.suppress(errors.CorruptError):
            decode_image(noise, 3)


def test_metadata_survives(tmp_path: Path) -> None:
    metadata = {
        "step": 7,
        "é": [None, 1.5, {"nested": "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")}],
    }
    ulpack.save_delta({}, tmp_path / "x.ulp", metadata=metadata)
    assert ulpack.inspect(tmp_path / "x.ulp").metadata == json.loads(json.dumps(metadata))


def test_public_names() -> None:
    assert all(hasattr(ulpack, name) for name in ulpack.__all__)
    assert _structure.pack is pack

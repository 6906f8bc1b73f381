"""Torch states: every dtype, every kind of tensor, nests, references, in-place apply, refusals."""

from __future__ import annotations

import collections
import copy
import io
import json
import os
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import ulpack
from safetensors.torch import save_file
from torch.testing._internal.two_tensor import TwoTensor
from torch_states import (
    DTYPES,
    SHAPES,
    assert_same,
    bits,
    digest,
    nearby,
    random_tensor,
    small_model,
    steps,
    train,
)
from ulpack import errors

pytestmark = pytest.mark.usefixtures("each_backend")
QUANTISING_WARNS = pytest.mark.filterwarnings("ignore:.*quantize:UserWarning", "ignore:.*quantized:UserWarning")


def round_trip(state: Any, path: Path, reference: Any = None) -> Any:
    ulpack.save_delta(state, path, reference=reference, verify=True)
    return ulpack.load_delta(path, reference=reference)


def flip_blob_byte(path: Path, name: str) -> None:
    """Damage the blob of one tensor."""
    tensor = next(t for t in ulpack.inspect(path).tensors if t.name == name)
    data = bytearray(path.read_bytes())
    data[tensor.offset + tensor.nbytes // 2] ^= 1
    path.write_bytes(data)


class TestDtypes:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_every_dtype_and_shape(self, dtype: torch.dtype, tmp_path: Path) -> None:
        base = {str(shape): random_tensor(dtype, shape, seed) for seed, shape in enumerate(SHAPES)}
        state = {name: nearby(tensor) for name, tensor in base.items()}
        if dtype is torch.bool:
            state = {name: tensor.clone() for name, tensor in base.items()}
        assert_same(round_trip(state, tmp_path / "x.ulp", base), state)
        assert_same(round_trip(state, tmp_path / "x.ulp"), state)

    @QUANTISING_WARNS
    @pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8, torch.qint32], ids=str)
    def test_quantised(self, dtype: torch.dtype, tmp_path: Path) -> None:
        x = torch.linspace(-3, 3, 24).view(4, 6)
        state = {
            "tensor": torch.quantize_per_tensor(x, 0.05, 3, dtype),
            "channel": torch.quantize_per_channel(x, torch.rand(4).double() + 0.1, torch.arange(4), 0, dtype),
            "transposed": torch.quantize_per_tensor(x, 0.05, 3, dtype).t(),
        }
        loaded = round_trip(state, tmp_path / "x.ulp")
        for name, tensor in state.items():
            found = loaded[name]
            assert found.dtype is tensor.dtype
            assert found.qscheme() == tensor.qscheme()
            assert torch.equal(found.int_repr(), tensor.int_repr())
            assert torch.equal(found.dequantize(), tensor.dequantize())
        assert torch.equal(loaded["channel"].q_per_channel_scales(), state["channel"].q_per_channel_scales())
        assert (loaded["tensor"].q_scale(), loaded["tensor"].q_zero_point()) == (0.05, 3)

    @QUANTISING_WARNS
    def test_quantised_below_a_byte(self, tmp_path: Path) -> None:
        scales, zeros = torch.rand(4) + 0.1, torch.rand(4)
        x = torch.quantize_per_channel(torch.rand(4, 6), scales, zeros, 0, torch.quint4x2)
        found = round_trip({"x": x}, tmp_path / "x.ulp")["x"]
        assert found.dtype is torch.quint4x2
        assert found.shape == x.shape
        assert torch.equal(found.dequantize(), x.dequantize())

    @QUANTISING_WARNS
    @pytest.mark.parametrize("name", ["quint4x2", "quint2x4", "quint8", "qint8", "qint32"])
    def test_dtypes_of_quantised_tensors_on_plain_ones(self, name: str, tmp_path: Path) -> None:
        """torch.empty() of such a dtype has less memory than one byte for each element."""
        dtype = getattr(torch, name)
        x = torch.arange(4096, dtype=torch.int32).view(torch.uint8).view(dtype).view(16, -1)
        found = round_trip({"x": x}, tmp_path / "x.ulp", {"x": x})["x"]
        single = ulpack.decode(ulpack.encode(x))
        for tensor in (found, single):
            assert (tensor.dtype, tensor.shape, tensor.is_quantized) == (x.dtype, x.shape, False)
            assert tensor.untyped_storage().nbytes() == 16384
            assert bytes(tensor.untyped_storage()) == bytes(x.untyped_storage())
        quantised = torch.empty(x.shape, dtype=dtype)
        with pytest.raises(errors.ArgumentError, match="no ordinary memory"):
            ulpack.decode(ulpack.encode(x), out=quantised)

    def test_memory_for_every_dtype_of_torch(self) -> None:
        """Whatever dtype a file names, the decoder is given all the memory it will write to."""
        from ulpack import _dtypes
        from ulpack._buffers import allocate
        from ulpack._structure import tags

        for dtype in {value for value in vars(torch).values() if isinstance(value, torch.dtype)}:
            for shape in ((), (3,), (0, 4), (5, 8)):
                target = allocate(tags.KIND_TORCH, _dtypes.from_torch(dtype), shape)
                assert target.value.dtype is dtype
                assert target.value.shape == shape
                assert target.nbytes == dtype.itemsize * target.value.numel() <= target.value.untyped_storage().nbytes()

    @pytest.mark.parametrize(
        "change", [{"nbytes": 28}, {"shape": [5]}, {"dtype": 4}, {"dtype": 0, "dtype_name": "a:b"}]
    )
    def test_index_whose_sizes_disagree(self, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        """What is allocated and what is written follow from the same numbers, whatever a backend says."""
        from ulpack._backend import select

        blob, cls = ulpack.encode(torch.ones(6)), type(select())
        original = cls.index

        def index(self: Any, stream: Any) -> dict[str, Any]:
            raw = original(self, stream)
            raw["tensors"][0].update(change | ({"itemsize": 3} if "dtype_name" in change else {}))
            return raw

        monkeypatch.setattr(cls, "index", index)
        with pytest.raises(errors.CorruptError, match="bytes for"):
            ulpack.decode(blob)

    def test_flush_to_zero_changes_nothing(self, tmp_path: Path) -> None:
        base = random_tensor(torch.float32, (4096,), 1)
        state = {"x": nearby(base), "tiny": (torch.arange(4096, dtype=torch.int32)).view(torch.float32)}
        reference = {"x": base, "tiny": state["tiny"] + 0}
        plain = tmp_path / "plain.ulp"
        flushed = tmp_path / "flushed.ulp"
        ulpack.save_delta(state, plain, reference=reference)
        assert torch.set_flush_denormal(True)
        try:
            ulpack.save_delta(state, flushed, reference=reference)
            loaded = ulpack.load_delta(flushed, reference=reference)
        finally:
            torch.set_flush_denormal(False)
        assert_same(loaded, state)
        assert plain.read_bytes() == flushed.read_bytes()


class TestViews:
    def test_any_strides(self, tmp_path: Path) -> None:
        x = random_tensor(torch.float32, (6, 8))
        image = random_tensor(torch.bfloat16, (2, 3, 4, 5)).to(memory_format=torch.channels_last)
        state = {
            "transposed": x.t(),
            "sliced": x[1:5:2, ::3],
            "expanded": x[:, :1].expand(6, 4),
            "channels_last": image,
            "scalar": x[2, 3],
            "row": x[1],
            "half step": random_tensor(torch.float8_e4m3fn, (9, 4)).t(),
            "fp4": random_tensor(torch.float4_e2m1fn_x2, (9, 4)).t(),
            "wide": random_tensor(torch.complex128, (5, 4)).t(),
        }
        reference = {name: nearby(tensor) for name, tensor in state.items()}
        reference["transposed"] = nearby(x).t()
        for base in (None, reference):
            loaded = round_trip(state, tmp_path / "x.ulp", base)
            assert_same(loaded, state)
            assert all(tensor.is_contiguous() for tensor in loaded.values())

    def test_conjugate_and_negative_views(self, tmp_path: Path) -> None:
        x = torch.randn(3, 4, dtype=torch.complex64)
        state = {"conj": x.conj(), "neg": torch.imag(x.conj()), "both": x.t().conj()}
        assert state["conj"].is_conj()
        assert state["neg"].is_neg()
        assert_same(round_trip(state, tmp_path / "x.ulp"), state)

    def test_parameters_and_gradients(self, tmp_path: Path) -> None:
        model = torch.nn.Linear(3, 2)
        state = {"p": model.weight, "q": model.bias * 2, "buffer": torch.nn.Buffer(torch.ones(2))}
        loaded = round_trip(state, tmp_path / "x.ulp")
        for name, tensor in state.items():
            assert type(loaded[name]) is torch.Tensor
            assert not loaded[name].requires_grad
            assert bits(loaded[name]) == bits(tensor)
        assert model.weight.requires_grad

    def test_tied_tensors_are_stored_once_and_tied_again(self, tmp_path: Path) -> None:
        model = small_model()
        path = tmp_path / "x.ulp"
        info = ulpack.save_delta(model.state_dict(), path)
        assert [tensor.name for tensor in info.tensors] == ["0.weight", "1.weight", "1.bias"]
        loaded = ulpack.load_delta(path)
        assert list(loaded) == list(model.state_dict())
        assert loaded["0.weight"] is loaded["2.weight"]
        assert_same(loaded, collections.OrderedDict(model.state_dict()))

    def test_overlaps_that_are_not_ties_are_stored_apart(self, tmp_path: Path) -> None:
        x = random_tensor(torch.float32, (10,))
        state = {"left": x[:6], "right": x[4:], "all": x, "again": x.view(2, 5), "other dtype": x.view(torch.int32)}
        loaded = round_trip(state, tmp_path / "x.ulp")
        assert_same(loaded, state)
        assert len({tensor.data_ptr() for tensor in loaded.values()}) == len(state)

    def test_empty_tensors_are_not_tied(self, tmp_path: Path) -> None:
        loaded = round_trip({"a": torch.empty(0), "b": torch.empty(0)}, tmp_path / "x.ulp")
        assert loaded["a"] is not loaded["b"]

    def test_tied_on_one_side_only(self, tmp_path: Path) -> None:
        tied = random_tensor(torch.bfloat16, (64, 32))
        both = {"embed": tied, "head": tied}
        apart = {"embed": nearby(tied), "head": nearby(tied, seed=2)}
        for state, reference in ((both, apart), (apart, both)):
            info = ulpack.save_delta(state, tmp_path / "x.ulp", reference=reference)
            assert not info.without_reference
            assert not info.missing
            assert_same(ulpack.load_delta(tmp_path / "x.ulp", reference=reference), state)

    @pytest.mark.parametrize("threads", [1, 16])
    def test_inputs_are_not_written_to(self, threads: int, tmp_path: Path) -> None:
        state = {str(dtype): random_tensor(dtype, (40, 50)) for dtype in DTYPES}
        reference = {
            name: nearby(tensor) if tensor.dtype is not torch.bool else tensor for name, tensor in state.items()
        }
        before = digest(state), digest(reference), [tensor._version for tensor in state.values()]
        ulpack.save_delta(state, tmp_path / "x.ulp", reference=reference, threads=threads)
        ulpack.load_delta(tmp_path / "x.ulp", reference=reference, threads=threads)
        ulpack.verify(tmp_path / "x.ulp", reference, threads=threads)
        assert before == (digest(state), digest(reference), [tensor._version for tensor in state.values()])


class TestNests:
    def test_training_state(self, tmp_path: Path) -> None:
        model = small_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5, 5])
        train(model, optimizer, 2)

        def state() -> dict[str, Any]:
            return {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "rng": {
                    "python": random.getstate(),
                    "numpy": np.random.get_state(),
                    "torch": torch.get_rng_state(),
                },
                "step": 2,
            }

        first = state()
        first = copy.deepcopy(first)
        path = tmp_path / "anchor.ulp"
        ulpack.save_delta(first, path)
        anchor = ulpack.load_delta(path)
        assert_same(anchor["optimizer"], first["optimizer"])
        assert_same(anchor["rng"], first["rng"])
        assert type(anchor["scheduler"]["milestones"]) is collections.Counter
        random.setstate(anchor["rng"]["python"])
        np.random.set_state(anchor["rng"]["numpy"])

        train(model, optimizer, 1)
        scheduler.step()
        second = state()
        ulpack.save_delta(second, tmp_path / "second.ulp", reference=anchor)
        loaded = ulpack.load_delta(tmp_path / "second.ulp", reference=first)
        assert_same(loaded["optimizer"], second["optimizer"])
        assert loaded["scheduler"] == second["scheduler"]
        names = [tensor.name for tensor in ulpack.inspect(tmp_path / "second.ulp").tensors]
        assert "optimizer.state.0.exp_avg" in names

    def test_resumed_training_is_bitwise_the_same(self, tmp_path: Path) -> None:
        def setup() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
            model = small_model()
            return model, torch.optim.AdamW(model.parameters(), lr=1e-2)

        model, optimizer = setup()
        torch.manual_seed(5)
        train(model, optimizer, 3)
        base = {"model": {k: v.clone() for k, v in model.state_dict().items()}}
        train(model, optimizer, 2)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
        ulpack.save_delta(state, tmp_path / "x.ulp", reference=base)
        expected = train(model, optimizer, 4)

        loaded = ulpack.load_delta(tmp_path / "x.ulp", reference=base)
        again, its_optimizer = setup()
        again.load_state_dict(loaded["model"])
        its_optimizer.load_state_dict(loaded["optimizer"])
        torch.set_rng_state(loaded["rng"])
        assert train(again, its_optimizer, 4) == expected

    def test_plain_values(self, tmp_path: Path) -> None:
        state = {
            "constants": [None, True, False],
            "ints": [0, 1, -1, 127, 128, 2**63 - 1, 2**63, -(2**63), 2**200, -(2**200)],
            "floats": [0.0, -0.0, 1e-320, float("inf"), float("-inf"), 0.1],
            "complex": complex(-0.0, 2.5),
            "text": ["", "é", "\ud800", "\0"],
            "bytes": [b"", b"\x00\xff", bytearray(b"xy")],
            "torch": [torch.Size([2, 0]), torch.bfloat16, torch.device("cuda", 3)],
            "sets": [set(), {1, "a", None}, frozenset({(1, 2)})],
            "deque": collections.deque([1, 2], maxlen=7),
            "default": collections.defaultdict(list, {"a": [1]}),
            "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
            "numpy": [np.float32(0.1), np.int64(-3), np.bool_(True), np.dtype("<f4"), np.datetime64("2026-12-01")],
            (1, "two"): {3: "three", None: 0, 2.5: 1, b"k": 2, True: 4},
            "range": list(range(5, 900)),
            "packed": tuple(range(300, 900)),
            "tuple of": ((), (1,), [(), []]),
        }
        assert_same(round_trip(state, tmp_path / "x.ulp"), state)
        nan = ulpack.load_delta(_bytes({"nan": float("nan")}))["nan"]
        assert nan != nan

    def test_names_that_collide_or_are_odd(self, tmp_path: Path) -> None:
        t = [random_tensor(torch.float32, (3,), seed) for seed in range(8)]
        state = {
            "a": {"b": t[0], 1: t[1], "1": t[2]},
            "a.b": t[3],
            "\ud800": t[4],
            "": t[5],
            "é": {None: [t[6], (t[7],)]},
        }
        assert_same(round_trip(state, tmp_path / "x.ulp"), state)

    def test_root_kinds(self, tmp_path: Path) -> None:
        x = random_tensor(torch.float16, (5,))
        for state in ({}, [], [x], (x, x), x, 5, None, {"a": {}}, collections.OrderedDict(a=x)):
            loaded = round_trip(state, tmp_path / "x.ulp")
            assert_same(loaded, state)
            assert type(loaded) is type(state)

    def test_subclass_with_parts(self, tmp_path: Path) -> None:
        state = {"x": TwoTensor(torch.ones(3), torch.zeros(3)), "y": torch.ones(2)}
        loaded = round_trip(state, tmp_path / "x.ulp")
        assert type(loaded["x"]) is TwoTensor
        assert torch.equal(loaded["x"].a, torch.ones(3))
        assert torch.equal(loaded["x"].b, torch.zeros(3))

    def test_empty_optimizer_state_warns(self, tmp_path: Path) -> None:
        parameters = [torch.nn.Parameter(torch.ones(3))]
        adam = torch.optim.Adam(parameters).state_dict()
        with pytest.warns(ulpack.UlpackWarning, match="without any state"):
            ulpack.save_delta({"optimizer": adam}, tmp_path / "x.ulp")
        assert_same(ulpack.load_delta(tmp_path / "x.ulp")["optimizer"], adam)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ulpack.save_delta(torch.optim.SGD(parameters).state_dict(), tmp_path / "x.ulp")  # has none by nature


def _bytes(state: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    ulpack.save_delta(state, file, **options)
    return file.getvalue()


class Opaque:
    """Something no file can hold."""


class Subclass(torch.Tensor):
    """A tensor class without __tensor_flatten__."""


def refused() -> dict[str, tuple[Any, str]]:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    return {
        "object": ({"a": {"b": [1, Opaque()]}}, r"state\['a'\]\['b'\]\[1\]"),
        "module": (torch.nn.Linear(1, 1), r"state_dict\(\)"),
        "generator": ({"g": torch.Generator()}, r"get_state\(\)"),
        "meta": ({"m": torch.empty(3, device="meta")}, r"state\['m'\].*meta"),
        "sparse": ({"s": torch.eye(3).to_sparse()}, r"state\['s'\].*sparse"),
        "subclass": ({"c": torch.ones(3).as_subclass(Subclass)}, r"state\['c'\].*Subclass"),
        "object array": ({"o": np.array([Opaque()])}, r"state\['o'\]"),
        "function": ({"f": len}, r"state\['f'\]"),
        "cycle": (cyclic, "contains itself"),
        "namedtuple": ({"n": collections.namedtuple("N", "x")(1)}, r"state\['n'\].*tuple\(\)"),
        "key": ({Opaque(): 1}, "Opaque"),
        "member": ({"s": {Opaque()}}, "Opaque"),
        "masked": ({"m": np.ma.masked_array([1.0], [True])}, "MaskedArray"),
        "lambda": ({"d": collections.defaultdict(lambda: 0)}, "defaultdict"),
    }


class TestRefusals:
    @pytest.mark.parametrize("name", list(refused()))
    def test_by_name_and_before_any_byte(self, name: str, tmp_path: Path) -> None:
        state, message = refused()[name]
        path = tmp_path / "x.ulp"
        path.write_bytes(b"old")
        with pytest.raises(errors.UnsupportedTypeError, match=message) as caught:
            ulpack.save_delta(state, path)
        assert isinstance(caught.value, TypeError)
        assert caught.value.kind == "unsupported"
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["x.ulp"]

    def test_tensor_whose_storage_was_freed(self, tmp_path: Path) -> None:
        freed = torch.ones(1000)
        freed.untyped_storage().resize_(0)
        with pytest.raises(errors.UnsupportedTypeError, match=r"state\['w'\].*storage"):
            ulpack.save_delta({"w": freed}, tmp_path / "x.ulp")
        ulpack.save_delta({"w": torch.ones(1000)}, tmp_path / "x.ulp")
        with pytest.raises(errors.ArgumentError, match="no ordinary memory"):
            ulpack.decode(ulpack.encode(torch.ones(1000)), out=freed)
        with pytest.raises(errors.ArgumentError, match="no ordinary memory"):
            ulpack.apply_delta_({"w": freed}, tmp_path / "x.ulp")

    def test_nested_tensor(self, tmp_path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
            strided = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        for tensor in (jagged, strided):
            with pytest.raises(errors.UnsupportedTypeError, match=r"state\['n'\]"):
                ulpack.save_delta({"n": tensor}, tmp_path / "x.ulp")

    def test_distributed_tensor_names_the_cure(self, tmp_path: Path) -> None:
        import torch.distributed as dist
        from torch.distributed.tensor import DTensor, init_device_mesh

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            tensor = DTensor.from_local(torch.ones(3), init_device_mesh("cpu", (1,)))
            with pytest.raises(errors.UnsupportedTypeError, match=r"state\['d'\].*full_tensor\(\)"):
                ulpack.save_delta({"d": tensor}, tmp_path / "x.ulp")
            ulpack.save_delta({"d": tensor.full_tensor()}, tmp_path / "x.ulp")
        finally:
            dist.destroy_process_group()
        assert_same(ulpack.load_delta(tmp_path / "x.ulp"), {"d": torch.ones(3)})

    def test_deep_nest(self, tmp_path: Path) -> None:
        state: Any = 1
        for _ in range(200):
            state = [state]
        with pytest.raises(errors.LimitError, match="deep"):
            ulpack.save_delta(state, tmp_path / "x.ulp")


class TestReferences:
    def test_new_reshaped_retyped_missing(self, tmp_path: Path) -> None:
        base = {"same": torch.ones(9), "shape": torch.ones(4, 2), "dtype": torch.ones(3), "gone": torch.ones(1)}
        state = {
            "same": torch.ones(9) * 1.5,
            "shape": torch.ones(2, 4),
            "dtype": torch.ones(3).half(),
            "fresh": torch.rand(5),
        }
        info = ulpack.save_delta(state, tmp_path / "x.ulp", reference=base)
        assert info.without_reference == {"shape": "reshaped", "dtype": "retyped", "fresh": "new"}
        assert info.missing == ("gone",)
        assert_same(ulpack.load_delta(tmp_path / "x.ulp", reference=base), state)

    @pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "module._orig_mod."])
    def test_wrappers_are_ignored(self, prefix: str, tmp_path: Path) -> None:
        base, state = steps(2, dtype=torch.bfloat16)
        plain = ulpack.save_delta(state, tmp_path / "p.ulp", reference=base).nbytes
        wrapped = {prefix + name: tensor for name, tensor in state.items()}
        info = ulpack.save_delta(wrapped, tmp_path / "x.ulp", reference=base)
        assert not info.without_reference
        assert not info.missing
        assert info.renamed == {prefix + name: name for name in state}
        assert info.nbytes < plain + 40 * len(state)
        assert_same(ulpack.load_delta(tmp_path / "x.ulp", reference=base), wrapped)
        wrapped_base = {name.replace("block.", f"block.{prefix}"): tensor for name, tensor in base.items()}
        info = ulpack.save_delta(state, tmp_path / "x.ulp", reference=wrapped_base)
        assert not info.without_reference
        assert_same(ulpack.load_delta(tmp_path / "x.ulp", reference=wrapped_base), state)

    def test_several_in_any_order(self, tmp_path: Path) -> None:
        base, previous, state = steps(3)
        mixed = {name: tensor for name, tensor in previous.items() if name.startswith("block")}
        ulpack.save_delta(state, tmp_path / "x.ulp", reference=[mixed, base])
        for order in ([mixed, base], [base, mixed], [state, base, previous]):
            assert_same(ulpack.load_delta(tmp_path / "x.ulp", reference=order), state)
        with pytest.raises(errors.WrongReferenceError) as caught:
            ulpack.load_delta(tmp_path / "x.ulp", reference=base)
        assert caught.value.tensor.startswith("block")

    def test_found_by_fingerprint_under_another_name(self, tmp_path: Path) -> None:
        base, state = steps(2)
        ulpack.save_delta(state, tmp_path / "x.ulp", reference=base)
        renamed = {f"model.{name}": tensor for name, tensor in base.items()}
        assert_same(ulpack.load_delta(tmp_path / "x.ulp", reference=renamed), state)

    def test_files_and_folders(self, tmp_path: Path) -> None:
        base, state = steps(2)
        save_file(base, tmp_path / "one.safetensors")
        torch.save({"model": base}, tmp_path / "nest.pt")
        torch.save(base, tmp_path / "flat.pth")
        torch.save(base, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
        ulpack.save_delta(base, tmp_path / "anchor.ulp")
        shards = tmp_path / "folder"
        shards.mkdir()
        names = list(base)
        weight_map = {}
        for number, part in enumerate((names[:2], names[2:])):
            file = f"model-{number}.safetensors"
            save_file({name: base[name] for name in part}, shards / file)
            weight_map.update(dict.fromkeys(part, file))
        (shards / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        expected = _bytes(state, reference=base)
        for reference in ("one.safetensors", "flat.pth", "old.pt", "anchor.ulp", "folder"):
            path = tmp_path / reference
            assert _bytes(state, reference=path) == expected, reference
            assert_same(ulpack.load_delta(expected, reference=str(path)), state)
        nest = _bytes({"model": state}, reference=tmp_path / "nest.pt")
        assert_same(ulpack.load_delta(nest, reference=tmp_path / "nest.pt"), {"model": state})

    def test_reference_problems_are_named(self, tmp_path: Path) -> None:
        base, state = steps(2)
        path = tmp_path / "x.ulp"
        ulpack.save_delta(state, path, reference=base, metadata={"reference": "run7 step 40"})
        with pytest.raises(errors.WrongReferenceError, match="run7 step 40") as caught:
            ulpack.load_delta(path)
        assert caught.value.kind == "reference"
        assert caught.value.path == str(path)
        assert caught.value.tensor in state
        wrong = {**base, "norm.weight": nearby(base["norm.weight"], 0.01)}
        with pytest.raises(errors.WrongReferenceError) as caught:
            ulpack.load_delta(path, reference=wrong)
        assert caught.value.tensor == "norm.weight"
        with pytest.raises(FileNotFoundError):
            ulpack.load_delta(path, reference=tmp_path / "none.safetensors")
        (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 40)
        with pytest.raises(errors.CorruptError, match=r"bad\.safetensors"):
            ulpack.load_delta(path, reference=tmp_path / "bad.safetensors")
        torch.save({"x": Opaque()}, tmp_path / "code.pt")
        with pytest.raises(errors.UnsupportedError, match="weights_only"):
            ulpack.load_delta(path, reference=tmp_path / "code.pt")
        with pytest.raises(errors.UnsupportedTypeError, match=r"state_dict\(\)"):
            ulpack.save_delta(state, path, reference=torch.nn.Linear(1, 1))


class TestSave:
    def test_bytes_do_not_depend_on_threads_or_place(self, tmp_path: Path) -> None:
        base, state = steps(2, dtype=torch.bfloat16)
        state["large"] = random_tensor(torch.bfloat16, (3, 1 << 18))
        base["large"] = nearby(state["large"], 0.01)
        expected = _bytes(state, reference=base)
        for threads in (1, 2, 16):
            path = tmp_path / f"{threads}.ulp"
            ulpack.save_delta(state, path, reference=base, threads=threads, verify=True)
            assert path.read_bytes() == expected

    def test_order_is_the_order_of_the_dict(self) -> None:
        state = steps(1)[0]
        turned = dict(reversed(state.items()))
        assert list(ulpack.load_delta(_bytes(turned))) == list(turned)

    def test_info(self, tmp_path: Path) -> None:
        base, state = steps(2)
        info = ulpack.save_delta(state, tmp_path / "x.ulp", reference=base, metadata={"step": 2}, effort="fast")
        assert info.nbytes == (tmp_path / "x.ulp").stat().st_size
        assert info.raw_nbytes == sum(tensor.nbytes for tensor in state.values())
        found = ulpack.inspect(tmp_path / "x.ulp")
        assert [t.name for t in found.tensors] == [t.name for t in info.tensors] == list(state)
        assert [t.nbytes for t in found.tensors] == [t.nbytes for t in info.tensors]
        assert [t.plan for t in found.tensors] == [t.plan for t in info.tensors]
        assert [int(t.fingerprint, 16) for t in found.tensors] == [t.fingerprint for t in info.tensors]
        assert (found.metadata, found.effort, found.kind, found.nbytes) == ({"step": 2}, 1, "state", info.nbytes)

    def test_file_objects(self) -> None:
        class Pipe(io.RawIOBase):
            """Only sequential."""

            def __init__(self, data: bytes = b"") -> None:
                self.inner = io.BytesIO(data)

            def writable(self) -> bool:
                return True

            def readable(self) -> bool:
                return True

            def write(self, data: Any) -> int:
                return self.inner.write(data)

            def readinto(self, buffer: Any) -> int:
                return self.inner.readinto(memoryview(buffer)[:1000])

        base, state = steps(2)
        pipe = Pipe()
        ulpack.save_delta(state, pipe, reference=base)
        written = pipe.inner.getvalue()
        assert written == _bytes(state, reference=base)
        assert_same(ulpack.load_delta(Pipe(written), reference=base), state)
        behind = io.BytesIO(b"header" + written)
        behind.seek(6)
        assert_same(ulpack.load_delta(behind, reference=base), state)
        for wrong in (io.StringIO(), 5):
            with pytest.raises((errors.ArgumentError, TypeError)):
                ulpack.load_delta(wrong)

    def test_old_file_survives_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "x.ulp"
        path.write_bytes(b"old")
        path.chmod(0o640)

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ulpack.save_delta(steps(1)[0], path, progress=interrupt)
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["x.ulp"]
        ulpack.save_delta(steps(1)[0], path)
        assert path.stat().st_mode & 0o777 == 0o640

    def test_a_reference_is_never_the_output(self, tmp_path: Path) -> None:
        base, state = steps(2)
        anchor, plain, folder = tmp_path / "anchor.ulp", tmp_path / "a.safetensors", tmp_path / "folder"
        folder.mkdir()
        ulpack.save_delta(base, anchor)
        for path in (plain, folder / "model.safetensors"):
            save_file(base, path)
        (tmp_path / "link").symlink_to(anchor)
        before = [path.read_bytes() for path in (anchor, plain, folder / "model.safetensors")]
        for path, reference in (
            (anchor, anchor),
            (tmp_path / "link", anchor),
            (anchor, [base, str(tmp_path / "link")]),
            (plain, plain),
            (folder / "model.safetensors", folder),
        ):
            with pytest.raises(errors.ArgumentError, match="also an input") as caught:
                ulpack.save_delta(state, path, reference=reference)
            assert caught.value.kind == "argument"
        with open(anchor, "r+b") as file, pytest.raises(errors.ArgumentError, match="also an input"):
            ulpack.save_delta(state, file, reference=anchor)
        assert [path.read_bytes() for path in (anchor, plain, folder / "model.safetensors")] == before
        for _ in range(2):  # a file of the folder that is none of its weights
            ulpack.save_delta(state, folder / "delta.ulp", reference=folder)

    def test_missing_folder_and_link(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError) as caught:
            ulpack.save_delta({}, tmp_path / "none" / "x.ulp")
        assert isinstance(caught.value, errors.StorageError)
        target = tmp_path / "target.ulp"
        link = tmp_path / "link.ulp"
        target.write_bytes(b"")
        link.symlink_to(target)
        ulpack.save_delta({"x": torch.ones(2)}, link)
        assert link.is_symlink()
        assert_same(ulpack.load_delta(target), {"x": torch.ones(2)})
        with pytest.raises(errors.StorageError):
            ulpack.save_delta({}, tmp_path)

    def test_change_during_a_save_is_noticed(self, tmp_path: Path) -> None:
        state = {"x": torch.zeros(1 << 16)}

        def change(done: int, total: int) -> None:
            if done == total:
                state["x"][5] = 1

        with pytest.raises(errors.CorruptError, match="changed while it was saved"):
            ulpack.save_delta(state, tmp_path / "x.ulp", verify=True, progress=change)
        assert not os.listdir(tmp_path)

    def test_wrong_arguments(self, tmp_path: Path) -> None:
        for options in (
            {"threads": 0},
            {"threads": True},
            {"effort": "huge"},
            {"effort": 7},
            {"progress": 3},
            {"metadata": {1j}},
            {"metadata": float("nan")},
        ):
            with pytest.raises(errors.ArgumentError):
                ulpack.save_delta({}, tmp_path / "x.ulp", **options)

    def test_progress_counts_up_to_the_total(self, tmp_path: Path) -> None:
        seen: list[tuple[int, int]] = []
        base, state = steps(2)
        info = ulpack.save_delta(
            state, tmp_path / "x.ulp", reference=base, progress=lambda *numbers: seen.append(numbers)
        )
        assert seen[-1] == (info.raw_nbytes, info.raw_nbytes)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)


class TestLoad:
    def test_by_name(self, tmp_path: Path) -> None:
        base, state = steps(2)
        path = tmp_path / "x.ulp"
        ulpack.save_delta({"model": state, "step": 1}, path, reference={"model": base})
        names = ["model.norm.weight", "model.scale"]
        loaded = ulpack.load_delta(path, reference={"model": base}, names=names)
        assert list(loaded) == names
        assert bits(loaded["model.scale"]) == bits(state["scale"])
        one = ulpack.load_delta(path, reference={"model": {"scale": base["scale"]}}, names="model.scale")
        assert list(one) == ["model.scale"]
        with pytest.raises(errors.ArgumentError, match="no tensor 'x'"):
            ulpack.load_delta(path, names="x")

    def test_into_out(self, tmp_path: Path) -> None:
        base, state = steps(2)
        path = tmp_path / "x.ulp"
        ulpack.save_delta(state, path, reference=base)
        model = torch.nn.Linear(32, 96)
        out = {
            "block.0.weight": model.weight,
            "embed.weight": torch.empty(32, 64).t(),
            "_orig_mod.norm.weight": torch.empty(32),
        }
        version = model.weight._version
        loaded = ulpack.load_delta(path, reference=base, out=out)
        assert loaded["block.0.weight"] is model.weight
        assert loaded["embed.weight"] is out["embed.weight"]
        assert loaded["norm.weight"] is out["_orig_mod.norm.weight"]
        assert model.weight._version > version
        assert_same({k: v.detach() for k, v in loaded.items()}, state)
        with pytest.raises(errors.ArgumentError, match="apply_delta_"):
            ulpack.load_delta(path, reference=base, out=base)
        with pytest.raises(errors.ArgumentError, match=r"norm\.weight"):
            ulpack.load_delta(path, reference=base, out={"norm.weight": torch.empty(31)})
        shared = torch.empty(64 * 32)
        with pytest.raises(errors.ArgumentError, match="shares memory"):
            ulpack.load_delta(
                path, reference=base, out={"embed.weight": shared.view(64, 32), "norm.weight": shared[:32]}
            )

    def test_device(self, tmp_path: Path) -> None:
        state = {"x": torch.ones(3), "n": np.ones(2)}
        ulpack.save_delta(state, tmp_path / "x.ulp")
        loaded = ulpack.load_delta(tmp_path / "x.ulp", device="meta")
        assert loaded["x"].is_meta
        assert_same(loaded["n"], state["n"])
        assert_same(ulpack.load_delta(tmp_path / "x.ulp", device="cpu"), state)

    def test_salvage(self, tmp_path: Path) -> None:
        base, state = steps(2)
        nest = {"model": state, "list": [state["norm.weight"].clone() + 1], "step": 7}
        path = tmp_path / "x.ulp"
        ulpack.save_delta(nest, path, reference={"model": base})
        flip_blob_byte(path, "model.embed.weight")
        flip_blob_byte(path, "list.0")
        with pytest.raises(errors.CorruptError) as caught:
            ulpack.load_delta(path, reference={"model": base})
        assert caught.value.path == str(path)
        assert caught.value.tensor in ("model.embed.weight", "list.0")
        found, bad = ulpack.load_delta(path, reference={"model": base}, salvage=True)
        assert sorted(bad) == ["list.0", "model.embed.weight"]
        assert all(isinstance(error, errors.CorruptError) for error in bad.values())
        assert found["list"] == [None]
        assert found["step"] == 7
        assert_same(found["model"], {k: v for k, v in state.items() if k != "embed.weight"})
        found, bad = ulpack.load_delta(path, salvage=True)
        assert all(isinstance(error, errors.UlpackError) for error in bad.values())
        assert set(bad) >= {"model.embed.weight", "list.0", "model.block.0.weight"}

    def test_damage_is_never_silent(self, tmp_path: Path) -> None:
        base = {"a": random_tensor(torch.bfloat16, (40,)), "b": random_tensor(torch.float32, (3,))}
        state = {"a": nearby(base["a"]), "b": torch.ones(3)}
        good = _bytes(state, reference=base)
        for cut in range(len(good)):
            with pytest.raises(ulpack.UlpackError):
                ulpack.load_delta(good[:cut], reference=base)
        for position in range(0, len(good) * 8, 7):
            data = bytearray(good)
            data[position // 8] ^= 1 << position % 8
            with pytest.raises(ulpack.UlpackError):
                ulpack.load_delta(bytes(data), reference=base)
        with pytest.raises(ulpack.UlpackError):
            ulpack.load_delta(good + b"\0", reference=base)

    def test_verify(self, tmp_path: Path) -> None:
        base, state = steps(2)
        state["alone"] = torch.rand(9)
        path = tmp_path / "x.ulp"
        ulpack.save_delta(state, path, reference=base)
        report = ulpack.verify(path, base)
        assert set(report.decoded) == set(state)
        without = ulpack.verify(path)
        assert without.ok
        assert set(without.unchecked) | set(without.decoded) == set(state)
        assert "alone" in without.decoded
        with pytest.raises(errors.WrongReferenceError):
            ulpack.verify(path, {**base, "norm.weight": base["norm.weight"] + 1})
        flip_blob_byte(path, "embed.weight")
        for reference in (None, base):
            with pytest.raises(errors.CorruptError) as caught:
                ulpack.verify(path, reference)
            assert caught.value.tensor == "embed.weight"


class TestApply:
    def test_a_module_changes_with_its_state(self, tmp_path: Path) -> None:
        model = small_model()
        optimizer = torch.optim.AdamW(model.parameters())
        base = {k: v.clone() for k, v in model.state_dict().items()}
        train(model, optimizer, 2)
        path = tmp_path / "x.ulp"
        ulpack.save_delta(model.state_dict(), path, reference=base)
        other = small_model()
        pointers = [parameter.data_ptr() for parameter in other.parameters()]
        info = ulpack.apply_delta_(other.state_dict(), path)
        assert sorted(info.written) == ["0.weight", "1.bias", "1.weight"]
        assert [parameter.data_ptr() for parameter in other.parameters()] == pointers
        assert_same(dict(other.state_dict()), dict(model.state_dict()))

    def test_nest_with_plain_values(self, tmp_path: Path) -> None:
        x = [random_tensor(torch.float32, (50,), seed) for seed in range(4)]
        old = {"a": [x[0].clone(), {"step": 1}], "drop": x[1], "t": (x[2].clone(), 5)}
        new = {"a": [nearby(x[0]), {"step": 2, "lr": 0.1}], "t": (nearby(x[2]), 6), "add": x[3]}
        path = tmp_path / "x.ulp"
        ulpack.save_delta(new, path, reference=old)
        kept = old["a"], old["a"][0], old["a"][1], old["t"][0]
        info = ulpack.apply_delta_(old, path)
        assert_same(old, new)
        now = old["a"], old["a"][0], old["a"][1], old["t"][0]
        assert all(one is other for one, other in zip(now, kept, strict=True))
        assert info.added == ("add",)
        assert info.removed == ("state['drop']",)

    def test_wrapped_names_and_strides(self, tmp_path: Path) -> None:
        base, state = steps(2)
        path = tmp_path / "x.ulp"
        ulpack.save_delta(state, path, reference=base)
        live = {f"_orig_mod.{name}": tensor.clone() for name, tensor in base.items()}
        live["_orig_mod.embed.weight"] = base["embed.weight"].t().contiguous().t()
        same = live["_orig_mod.embed.weight"]
        ulpack.apply_delta_(live, path)
        assert_same(live, {f"_orig_mod.{name}": tensor for name, tensor in state.items()})
        assert live["_orig_mod.embed.weight"] is same
        assert not same.is_contiguous()

    def test_nothing_changes_when_the_check_fails(self, tmp_path: Path) -> None:
        base, state = steps(2)
        path = tmp_path / "x.ulp"
        ulpack.save_delta(state, path, reference=base)
        live = {name: tensor.clone() for name, tensor in base.items()}
        before = digest(live)
        live["norm.weight"][3] += 1
        with pytest.raises(errors.WrongReferenceError) as caught:
            ulpack.apply_delta_(live, path)
        assert caught.value.tensor == "norm.weight"
        live["norm.weight"].copy_(base["norm.weight"])
        assert digest(live) == before
        norm = live.pop("norm.weight")
        with pytest.raises(errors.WrongReferenceError, match=r"norm\.weight"):
            ulpack.apply_delta_(live, path)
        live["norm.weight"] = norm
        flip_blob_byte(path, "embed.weight")
        with pytest.raises(errors.CorruptError):
            ulpack.apply_delta_(live, path)
        assert digest({name: live[name] for name in base}) == before

    def test_twice_is_an_error(self, tmp_path: Path) -> None:
        base, state = steps(2)
        path = tmp_path / "x.ulp"
        ulpack.save_delta(state, path, reference=base)
        live = {name: tensor.clone() for name, tensor in base.items()}
        ulpack.apply_delta_(live, path)
        before = digest(live)
        with pytest.raises(errors.WrongReferenceError):
            ulpack.apply_delta_(live, path)
        assert digest(live) == before

    def test_reshaped_tensor_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "x.ulp"
        ulpack.save_delta({"x": torch.ones(4)}, path)
        live = {"x": torch.zeros(2, 2)}
        with pytest.raises(errors.ArgumentError, match="tensor 'x'"):
            ulpack.apply_delta_(live, path)
        assert_same(live, {"x": torch.zeros(2, 2)})

    def test_ties(self, tmp_path: Path) -> None:
        x = random_tensor(torch.float32, (64,))
        y = nearby(x)
        path = tmp_path / "x.ulp"
        ulpack.save_delta({"a": y, "b": y}, path, reference={"a": x, "b": x})
        apart = {"a": x.clone(), "b": x.clone()}
        places = apart["a"], apart["b"]
        ulpack.apply_delta_(apart, path)
        assert (apart["a"] is places[0], apart["b"] is places[1]) == (True, True)
        assert_same(apart, {"a": y, "b": y})
        tied = x.clone()
        ulpack.apply_delta_({"a": tied, "b": tied}, path)
        assert bits(tied) == bits(y)

        ulpack.save_delta({"a": y, "b": nearby(x, seed=3)}, path, reference={"a": x, "b": x})
        tied = x.clone()
        with pytest.raises(errors.ArgumentError, match="shares memory"):
            ulpack.apply_delta_({"a": tied, "b": tied}, path)
        assert bits(tied) == bits(x)
        ulpack.save_delta({"a": y, "b": y.clone()}, path, reference={"a": x, "b": x})
        ulpack.apply_delta_({"a": tied, "b": tied}, path)
        assert bits(tied) == bits(y)

    def test_references_that_move(self, tmp_path: Path) -> None:
        """Both new tensors come from one old one, which is overwritten: no write may come before a read."""
        x, y = random_tensor(torch.float32, (5000,), 1), random_tensor(torch.float32, (5000,), 2)
        new = {"module.a": nearby(y, 0.05), "a": nearby(y, 0.05, 2)}
        path = tmp_path / "x.ulp"
        info = ulpack.save_delta(new, path, reference={"module.a": y})
        assert [tensor.reference for tensor in info.tensors] == ["module.a", "module.a"]
        live = {"module.a": y.clone(), "a": x.clone()}
        ulpack.apply_delta_(live, path)
        assert_same(live, new)

    def test_lists_of_states(self, tmp_path: Path) -> None:
        x = [random_tensor(torch.float32, (500,), seed) for seed in range(2)]
        old, new = [{"w": x[0]}, {"w": x[1]}], [{"w": nearby(x[0])}, {"w": nearby(x[1])}]
        info = ulpack.save_delta(new, tmp_path / "x.ulp", reference=[old])
        assert [tensor.reference for tensor in info.tensors] == ["0.w", "1.w"]
        assert_same(ulpack.load_delta(tmp_path / "x.ulp", reference=[old]), new)
        ulpack.apply_delta_(old, tmp_path / "x.ulp")
        assert_same(old, new)

    def test_single_tensor(self) -> None:
        x = random_tensor(torch.float32, (5000,))
        y = nearby(x)
        ulpack.apply_delta_(x, ulpack.encode(y, x))
        assert bits(x) == bits(y)


class TestSingleTensors:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_round_trip(self, dtype: torch.dtype) -> None:
        base = random_tensor(dtype, (6, 7))
        target = nearby(base).t() if dtype is not torch.bool else base.t()
        for reference in (None, base.t(), base):
            blob = ulpack.encode(target, reference)
            found = ulpack.decode(blob, reference)
            assert_same(found, target)
            out = torch.empty(target.numel() * dtype.itemsize, dtype=torch.uint8).view(dtype).view(target.shape)
            assert ulpack.decode(blob, reference, out=out) is out
            assert_same(out, target)

    def test_a_reference_helps(self) -> None:
        base, state = steps(2)
        target, reference = state["embed.weight"], base["embed.weight"]
        assert len(ulpack.encode(target, reference)) < 0.8 * len(ulpack.encode(target))

    def test_errors(self) -> None:
        x = random_tensor(torch.float32, (500,))
        blob = ulpack.encode(nearby(x), x)
        with pytest.raises(errors.WrongReferenceError):
            ulpack.decode(blob, x + 1)
        with pytest.raises(errors.WrongReferenceError):
            ulpack.decode(blob)
        with pytest.raises(errors.ArgumentError):
            ulpack.decode(blob, x, out=torch.empty(499))
        with pytest.raises(errors.ArgumentError):
            ulpack.decode(blob, x, out=x)
        with pytest.raises(errors.ArgumentError):
            ulpack.encode([1, 2])
        with pytest.raises(errors.ArgumentError, match="load_delta"):
            ulpack.decode(_bytes({"a": x}))
        with pytest.raises(errors.TruncatedError):
            ulpack.decode(blob[:-1], x)


class TestElementsThatShareMemory:
    """A value cannot be written through a view whose elements share memory: refused before anything is written."""

    def test_apply(self, tmp_path: Path) -> None:
        state = {"a": torch.zeros(8), "b": torch.zeros(1, 4).expand(3, 4)}
        target = {"a": torch.ones(8), "b": torch.arange(12.0).reshape(3, 4)}
        ulpack.save_delta(target, tmp_path / "x.ulp", reference=state)
        with pytest.raises(ulpack.UlpackError, match="share memory"):
            ulpack.apply_delta_(state, tmp_path / "x.ulp")
        assert not state["a"].any()

    def test_out(self) -> None:
        blob = ulpack.encode(np.arange(4.0))
        view = np.lib.stride_tricks.as_strided(np.zeros(4), (4,), (0,))
        with pytest.raises(ulpack.UlpackError, match="share memory"):
            ulpack.decode(blob, out=view)
        for fine in (np.zeros(8)[::2], np.zeros((4, 3))[:, 1], np.zeros(4)[::-1]):
            assert np.array_equal(ulpack.decode(blob, out=fine), np.arange(4.0))


def test_the_default_device_is_not_where_values_are_decoded() -> None:
    blob = ulpack.encode(torch.arange(4.0))
    with torch.device("meta"):
        assert torch.equal(ulpack.decode(blob), torch.arange(4.0, device="cpu"))


def test_zero_bytes_at_the_end_of_a_scalar(tmp_path: Path) -> None:
    state = {"s": np.bytes_(b"ab\0\0"), "n": np.bytes_(b"\0"), "x": torch.zeros(2)}
    ulpack.save_delta(state, tmp_path / "x.ulp")
    back = ulpack.load_delta(tmp_path / "x.ulp")
    for key in ("s", "n"):
        assert type(back[key]) is np.bytes_
        assert bytes(back[key]) == bytes(state[key])

"""Names in files that should do nothing: no import, no memory beyond the file, no buffer below its shape."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ulpack._image.layout import MAX_PARTS, MAX_PATH, decode_image
from ulpack._structure.varint import write_varint
from ulpack.errors import CorruptError, UnsupportedError

torch = pytest.importorskip("torch")


def image(path: bytes) -> bytes:
    out = bytearray(b"\0")  # one file
    write_varint(out, 1)
    write_varint(out, len(path))
    out += path
    write_varint(out, 0)  # no rest
    write_varint(out, 0)  # no segments
    return bytes(out)


def test_paths_of_an_image_are_short() -> None:
    longest = b"/".join([b"a"] * MAX_PARTS)
    assert decode_image(image(longest), 0).files[0].path.encode() == longest
    for path in (longest + b"/a", b"a" * (MAX_PATH + 1), b"a/" * 1_000_000 + b"b"):
        with pytest.raises(CorruptError, match="too long"):
            decode_image(image(path), 0)


def test_a_name_imports_nothing() -> None:
    code = """if True:
        import sys, torch
        from ulpack._dtypes import torch_dtype_by_name
        from ulpack._structure.torch_kinds import find_class
        before = set(sys.modules)
        for name in ("_inductor", "_dynamo", "onnx", "compile", "float64"):
            torch_dtype_by_name(name)
        for name in ("torch:_inductor.X", "torch:_dynamo.X", "torch:onnx.X"):
            try:
                find_class(name)
            except Exception as error:
                assert type(error).__name__ == "UnsupportedError", error
            else:
                raise AssertionError(name)
        print(sorted(set(sys.modules) - before))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_dtypes_are_found_by_name() -> None:
    from ulpack._dtypes import torch_dtype_by_name

    assert torch_dtype_by_name("bfloat16") is torch.bfloat16
    assert torch_dtype_by_name("Tensor") is None


def test_classes_are_found_by_name() -> None:
    from ulpack._structure.torch_kinds import find_class

    with pytest.raises(UnsupportedError, match="import that module first"):
        find_class("a_module_that_is_not_there:Class")
    with pytest.raises(UnsupportedError, match="not a tensor class"):
        find_class("collections:OrderedDict")


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"), [("quint4x2", (20,), 9), ("quint2x4", (1000,), 8), ("quint4x2", (-4,), 8)]
)
def test_packed_values_have_their_bytes(dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
    from ulpack._structure.torch_kinds import rebuild_quantised

    with pytest.raises(CorruptError, match="cannot be rebuilt"):
        rebuild_quantised(dtype, shape, ("per_tensor_affine", 0.1, 0), torch.zeros(nbytes, dtype=torch.uint8))

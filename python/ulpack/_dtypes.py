"""Dtypes: wire codes (go/FORMAT.md, "Dtypes") and their names in NumPy, torch and safetensors."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ._torch import torch_or_none
from .errors import CorruptError, UnsupportedError

NAMED = 0
MAX_ITEMSIZE = 1 << 20
MAX_NAME = 4096


class Dtype(NamedTuple):
    """A dtype on the wire. With code 0 the name is ``framework:dtype`` and only the framework interprets it."""

    code: int
    name: str
    itemsize: int


class _Row(NamedTuple):
    dtype: Dtype
    numpy: str | None
    torch: str | None
    safetensors: str | None


def _row(code: int, name: str, itemsize: int, numpy: str | None, torch: str | None, safetensors: str | None) -> _Row:
    return _Row(Dtype(code, name, itemsize), numpy, torch, safetensors)


# "ml_dtypes:x" is a NumPy dtype that the ml_dtypes package brings.
_TABLE = (
    _row(1, "bfloat16", 2, "ml_dtypes:bfloat16", "bfloat16", "BF16"),
    _row(2, "float16", 2, "float16", "float16", "F16"),
    _row(3, "float32", 4, "float32", "float32", "F32"),
    _row(4, "float64", 8, "float64", "float64", "F64"),
    _row(5, "float8_e4m3fn", 1, "ml_dtypes:float8_e4m3fn", "float8_e4m3fn", "F8_E4M3"),
    _row(6, "float8_e5m2", 1, "ml_dtypes:float8_e5m2", "float8_e5m2", "F8_E5M2"),
    _row(7, "float8_e4m3fnuz", 1, "ml_dtypes:float8_e4m3fnuz", "float8_e4m3fnuz", "F8_E4M3FNUZ"),
    _row(8, "float8_e5m2fnuz", 1, "ml_dtypes:float8_e5m2fnuz", "float8_e5m2fnuz", "F8_E5M2FNUZ"),
    _row(16, "uint8", 1, "uint8", "uint8", "U8"),
    _row(17, "int8", 1, "int8", "int8", "I8"),
    _row(18, "uint16", 2, "uint16", "uint16", "U16"),
    _row(19, "int16", 2, "int16", "int16", "I16"),
    _row(20, "uint32", 4, "uint32", "uint32", "U32"),
    _row(21, "int32", 4, "int32", "int32", "I32"),
    _row(22, "uint64", 8, "uint64", "uint64", "U64"),
    _row(23, "int64", 8, "int64", "int64", "I64"),
    _row(24, "bool", 1, "bool", "bool", "BOOL"),
    _row(25, "complex32", 4, "ml_dtypes:complex32", "complex32", None),
    _row(26, "complex64", 8, "complex64", "complex64", "C64"),
    _row(27, "complex128", 16, "complex128", "complex128", None),
    _row(28, "float8_e8m0fnu", 1, "ml_dtypes:float8_e8m0fnu", "float8_e8m0fnu", "F8_E8M0"),
    _row(29, "float4_e2m1fn_x2", 1, None, "float4_e2m1fn_x2", "F4"),
)
_BY_CODE = {row.dtype.code: row for row in _TABLE}
_BY_NUMPY = {row.numpy: row.dtype for row in _TABLE if row.numpy}
_BY_TORCH = {row.torch: row.dtype for row in _TABLE if row.torch}
_BY_SAFETENSORS = {row.safetensors: row.dtype for row in _TABLE if row.safetensors}

UINT8 = _BY_CODE[16].dtype


def by_code(code: int, name: str = "", itemsize: int = 0) -> Dtype:
    """The dtype of a wire code; name and itemsize matter for code 0 only."""
    if code == NAMED:
        return Dtype(NAMED, name, itemsize)
    row = _BY_CODE.get(code)
    if row is None:
        raise UnsupportedError(f"dtype code {code}")
    return row.dtype


@lru_cache(maxsize=1024)
def from_numpy(dtype: np.dtype[Any]) -> Dtype | None:
    """Wire dtype of a NumPy dtype (its byte order aside); None for dtypes whose elements are not plain bytes."""
    if dtype.hasobject or dtype.itemsize == 0 or dtype.itemsize > MAX_ITEMSIZE:
        return None
    module = type(dtype.type).__module__ if dtype.type is None else dtype.type.__module__
    if module.startswith("ml_dtypes"):
        text = f"ml_dtypes:{dtype.name}"
        return _BY_NUMPY.get(text) or Dtype(NAMED, text, dtype.itemsize)
    if dtype.kind in "biufc" and dtype.fields is None and dtype.name in _BY_NUMPY:
        return _BY_NUMPY[dtype.name]
    if dtype.kind not in "biufcmMSUV":
        return None
    name = numpy_text(dtype)
    if name is None or len(name.encode()) > MAX_NAME:
        return None
    return Dtype(NAMED, name, dtype.itemsize)


def numpy_text(dtype: np.dtype[Any]) -> str | None:
    """A NumPy dtype as text from which ``parse_numpy`` makes the same dtype; None if there is none."""
    if dtype.type is not None and dtype.type.__module__.startswith("ml_dtypes"):
        return f"ml_dtypes:{dtype.name}"
    try:
        descr = np.lib.format.dtype_to_descr(dtype) if dtype.fields is not None else dtype.str
        text = "numpy:" + (descr if isinstance(descr, str) else json.dumps(descr, separators=(",", ":")))
        return text if parse_numpy(text) == dtype else None
    except (TypeError, ValueError, CorruptError):
        return None


def parse_numpy(text: str) -> np.dtype[Any] | None:
    """The NumPy dtype of ``numpy_text``; None where ml_dtypes is needed and not installed.

    Raises:
        CorruptError: not a text that ``numpy_text`` writes.
    """
    framework, _, name = text.partition(":")
    if framework == "ml_dtypes":
        return _ml_dtype(name)
    try:
        if framework != "numpy":
            raise ValueError("not a NumPy dtype")
        dtype = np.lib.format.descr_to_dtype(_tuples(json.loads(name))) if name[:1] == "[" else np.dtype(name)
    except (TypeError, ValueError, SyntaxError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise CorruptError(f"unknown dtype {text[:80]!r}") from error
    # An array of objects built from file bytes would be an array of wild pointers.
    if dtype.hasobject or dtype.kind not in "biufcmMSUV" or dtype.itemsize == 0:
        raise CorruptError(f"dtype {text[:80]!r} is not plain bytes")
    if dtype.fields is None and dtype.str != name:
        raise CorruptError(f"dtype {text[:80]!r} is spelled in another way")
    return dtype


def _tuples(descr: Any) -> Any:
    """JSON has no tuples: fields are tuples, shapes are tuples, lists of fields stay lists."""
    if isinstance(descr, str):
        return descr
    fields: list[Any] = []
    for field in descr:
        name, kind, *shape = field
        if isinstance(name, list):
            name = tuple(name)
        entry = (name, _tuples(kind), *(tuple(s) if isinstance(s, list) else s for s in shape))
        fields.append(entry)
    return fields


def _ml_dtype(name: str) -> np.dtype[Any] | None:
    try:
        import ml_dtypes
    except ImportError:
        return None
    if name not in ml_dtypes.__all__ or name.startswith("_"):
        raise CorruptError(f"unknown dtype 'ml_dtypes:{name[:60]}'")
    try:
        dtype = np.dtype(getattr(ml_dtypes, name))
    except TypeError as error:
        raise CorruptError(f"unknown dtype 'ml_dtypes:{name[:60]}'") from error
    if dtype.hasobject or dtype.name != name:  # any other class is a dtype of objects
        raise CorruptError(f"unknown dtype 'ml_dtypes:{name[:60]}'")
    return dtype


@lru_cache(maxsize=1024)
def to_numpy(dtype: Dtype) -> np.dtype[Any] | None:
    """The NumPy dtype that shows these elements, or None when this installation has none."""
    if dtype.code != NAMED:
        text = _BY_CODE[dtype.code].numpy
        if text is None:
            return None
        return _ml_dtype(text[10:]) if text.startswith("ml_dtypes:") else np.dtype(text)
    if not dtype.name.startswith(("numpy:", "ml_dtypes:")):
        return None
    result = parse_numpy(dtype.name)
    if result is not None and result.itemsize != dtype.itemsize:
        raise CorruptError(f"dtype {dtype.name[:80]!r} does not have {dtype.itemsize} bytes")
    return result


_torch_cache: dict[Any, Dtype] = {}


def from_torch(dtype: Any) -> Dtype:
    """Wire dtype of a torch dtype (quantised ones are taken apart by the caller)."""
    found = _torch_cache.get(dtype)
    if found is None:
        name = str(dtype).removeprefix("torch.")
        found = _BY_TORCH.get(name) or Dtype(NAMED, f"torch:{name}", dtype.itemsize)
        _torch_cache[dtype] = found
    return found


@lru_cache(maxsize=1024)
def to_torch(dtype: Dtype) -> Any:
    """The torch dtype that shows these elements, or None when this installation has none."""
    torch = torch_or_none()
    if torch is None:
        return None
    name: str | None
    if dtype.code != NAMED:
        name = _BY_CODE[dtype.code].torch
    elif dtype.name.startswith("torch:"):
        name = dtype.name[6:]
    else:
        return None
    return torch_dtype_by_name(name, dtype.itemsize) if name else None


def torch_dtype_by_name(name: str, itemsize: int | None = None) -> Any:
    """A torch dtype by its name without "torch."; None if this torch does not have it."""
    torch = torch_or_none()
    # Not getattr: torch imports some of its modules when their names are asked for, and names come from files.
    found = vars(torch).get(name) if torch is not None else None
    if found is None or not isinstance(found, torch.dtype):
        return None
    return found if itemsize is None or found.itemsize == itemsize else None


def from_safetensors(name: str) -> Dtype | None:
    """Wire dtype of a safetensors dtype name, or None if it is not known."""
    return _BY_SAFETENSORS.get(name)


def to_safetensors(dtype: Dtype) -> str | None:
    """The safetensors name of a dtype, or None if it has none."""
    return _BY_CODE[dtype.code].safetensors if dtype.code != NAMED else None

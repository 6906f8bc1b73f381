"""Tensors that are more than an array of elements: quantised ones and classes with __tensor_flatten__."""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

from .._dtypes import torch_dtype_by_name
from .._torch import torch_or_none
from ..errors import CorruptError, UnsupportedError, UnsupportedTypeError

_INTEGERS = {"quint8": "uint8", "qint8": "int8", "qint32": "int32"}  # quint4x2, quint2x4: packed bytes
_PACKED_BITS = {"quint4x2": 4, "quint2x4": 2}
_PER_TENSOR = ("per_tensor_affine",)
_PER_CHANNEL = ("per_channel_affine", "per_channel_affine_float_qparams")


def take_apart_quantised(tensor: Any, place: str) -> tuple[str, tuple[Any, ...], Any]:
    """A quantised tensor as (dtype name, parameters, integer tensor).

    The parameters are (scheme, scale, zero point) or (scheme, scales, zero points, axis).
    """
    torch = torch_or_none()
    name, scheme = str(tensor.dtype).removeprefix("torch."), str(tensor.qscheme()).removeprefix("torch.")
    parameters: tuple[Any, ...]
    if scheme in _PER_TENSOR:
        parameters = (scheme, float(tensor.q_scale()), int(tensor.q_zero_point()))
    elif scheme in _PER_CHANNEL:
        parameters = (
            scheme,
            tensor.q_per_channel_scales(),
            tensor.q_per_channel_zero_points(),
            int(tensor.q_per_channel_axis()),
        )
    else:
        raise UnsupportedTypeError(f"{place} is quantised with scheme {scheme}")
    tensor = tensor.contiguous()
    if name in _INTEGERS:
        return name, parameters, tensor.int_repr()
    start = tensor.storage_offset() * tensor.element_size()
    packed = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return name, parameters, packed[start:].clone()


def rebuild_quantised(name: str, shape: tuple[int, ...], parameters: Any, codes: Any) -> Any:
    """The inverse of ``take_apart_quantised``; without torch, a tuple (dtype name, shape, parameters, codes)."""
    torch = torch_or_none()
    dtype = torch_dtype_by_name(name)
    if torch is None:
        return name, shape, parameters, codes
    if dtype is None:
        raise UnsupportedError(f"this torch has no dtype {name}")
    try:
        scheme = parameters[0]
        if scheme not in _PER_TENSOR + _PER_CHANNEL or not isinstance(codes, torch.Tensor):
            raise ValueError(f"scheme {scheme!r}")
        expected = getattr(torch, _INTEGERS.get(name, "uint8"))
        if codes.dtype is not expected or (name in _INTEGERS and tuple(codes.shape) != shape):
            raise ValueError("the integer tensor does not fit")
        if min(shape, default=0) < 0:
            raise ValueError("a negative dimension")
        if name not in _INTEGERS and codes.numel() * 8 < math.prod(shape) * _PACKED_BITS[name]:
            raise ValueError("the packed bytes do not fit")
        if name in _INTEGERS and scheme in _PER_TENSOR:
            return torch._make_per_tensor_quantized_tensor(codes, *parameters[1:])
        if name in _INTEGERS:
            return torch._make_per_channel_quantized_tensor(codes, *parameters[1:])
        quantiser = (getattr(torch, scheme), *parameters[1:])
        stride, step = [], 1
        for dim in reversed(shape):
            stride.append(step)
            step *= max(dim, 1)
        packed = codes.contiguous().untyped_storage()
        storage = torch.storage.TypedStorage(wrap_storage=packed, dtype=dtype, _internal=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch has no other way to do this, and says that it is going away
            return torch._utils._rebuild_qtensor(storage, 0, shape, tuple(reversed(stride)), quantiser, False, {})
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise CorruptError(f"quantised tensor of dtype {name} cannot be rebuilt: {error}") from error


def find_class(text: str) -> Any:
    """A tensor class by "module:qualname", if its module has been imported.

    A file names a class but never causes an import: that would let it run code.
    """
    module_name, _, qualname = text.partition(":")
    found: Any = sys.modules.get(module_name)
    if found is None:
        raise UnsupportedError(
            f"the file holds a {text[:120]!r}: import that module first, or load other tensors by name"
        )
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)  # not getattr, which may import
    torch = torch_or_none()
    if torch is None or not isinstance(found, type) or not issubclass(found, torch.Tensor):
        raise UnsupportedError(f"{text[:120]!r} is not a tensor class here")
    if not hasattr(found, "__tensor_unflatten__"):
        raise UnsupportedError(f"{text[:120]!r} has no __tensor_unflatten__ here")
    return found


def rebuild_flattened(
    text: str, context: Any, shape: tuple[int, ...], stride: tuple[int, ...], inner: dict[str, Any]
) -> Any:
    """A tensor of a class with ``__tensor_unflatten__`` from its parts."""
    cls, torch = find_class(text), torch_or_none()
    try:
        return cls.__tensor_unflatten__(inner, context, torch.Size(shape), stride)
    except Exception as error:
        raise UnsupportedError(f"{text[:120]!r} cannot be rebuilt from its parts: {error}") from error

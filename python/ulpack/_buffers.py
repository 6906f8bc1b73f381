"""Tensors and arrays as plain memory, and memory as tensors and arrays.

A ``View`` is only good while the object in its ``keep`` lives: whoever passes its address on holds the view.
"""

from __future__ import annotations

import ctypes
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _dtypes
from ._dtypes import Dtype
from ._overlap import elements_meet
from ._storage import holds_its_elements
from ._structure import tags
from ._torch import torch_if_loaded, torch_or_none
from .errors import ArgumentError, InternalError, LimitError, UlpackWarning, UnsupportedError

if sys.byteorder != "little":  # pragma: no cover
    raise UnsupportedError("ulpack runs on little-endian machines only")

_COPY_AS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
# Made as a view of bytes. The complex ones: torch warns that their arithmetic is experimental, and none is done here.
# The others: torch.empty() makes a quantised tensor, which may have less memory than a byte for each element.
_VIEWED = ("complex32", "bcomplex32", "qint8", "qint32", "quint8", "quint4x2", "quint2x4")


class View(NamedTuple):
    """C-contiguous little-endian memory of one tensor."""

    address: int
    nbytes: int
    dtype: Dtype
    shape: tuple[int, ...]
    keep: Any


class Target(NamedTuple):
    """Memory to decode a tensor into.

    Attributes:
        value: the tensor or array the caller gets.
        address, nbytes: where its elements go.
        finish: to be called when the elements are there, returns the final value; None if ``value`` is ready.
    """

    value: Any
    address: int
    nbytes: int
    finish: Callable[[], Any] | None = None


def view(obj: Any) -> View:
    """Memory of a plain torch tensor or a NumPy array; copies only what is not contiguous host memory."""
    return view_numpy(obj) if isinstance(obj, np.ndarray) else view_torch(obj)


def view_torch(tensor: Any) -> View:
    """Memory of a plain strided tensor, on any device."""
    if not tensor.is_cpu:
        tensor = tensor.detach().cpu()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    if not tensor.is_contiguous():
        tensor = _contiguous(tensor.detach())
    if not holds_its_elements(tensor):
        raise ArgumentError("a tensor's storage is smaller than its elements")
    return View(tensor.data_ptr(), tensor.nbytes, _dtypes.from_torch(tensor.dtype), tuple(tensor.shape), tensor)


def _contiguous(tensor: Any) -> Any:
    """A contiguous copy, moved as integers: every bit pattern survives and exotic dtypes need no copy kernel."""
    return as_integers(tensor).contiguous().view(tensor.dtype)


def as_integers(tensor: Any) -> Any:
    """The same memory as integers, as far as there are integers of that size."""
    name = _COPY_AS.get(tensor.dtype.itemsize)
    return tensor if name is None else tensor.view(getattr(torch_if_loaded(), name))


def view_numpy(array: np.ndarray) -> View:
    """Memory of an array of plain bytes; values of the other byte order are swapped in a copy."""
    dtype = _dtypes.from_numpy(array.dtype)
    if dtype is None:
        raise ArgumentError(f"arrays of dtype {array.dtype} are not plain bytes")
    if dtype.code != _dtypes.NAMED and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    shape = array.shape
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return View(array.__array_interface__["data"][0], array.nbytes, dtype, shape, array)


def view_bytes(data: Any) -> View:
    """Memory of a bytes-like object as a one-dimensional uint8 array."""
    return view_numpy(np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8))


def array_at(address: int, nbytes: int) -> np.ndarray:
    """Memory at an address as a writable array of bytes; whoever uses it keeps the owner alive."""
    if nbytes == 0:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def allocate(kind: int, dtype: Dtype, shape: tuple[int, ...]) -> Target:
    """Fresh memory for a tensor that was saved as a leaf of this kind (a torch tensor, a NumPy array).

    Raises:
        LimitError: there is not that much memory.
    """
    try:
        target = _allocate(kind, dtype, shape)
    except (MemoryError, RuntimeError, ValueError) as error:  # torch and NumPy each have their ways to say it
        raise LimitError(f"{dtype.name}{list(shape)} does not fit in memory: {error}") from error
    return _checked(target, dtype, shape)


def _checked(target: Target, dtype: Dtype, shape: tuple[int, ...]) -> Target:
    """The target, if it has all the memory that the decoder will write to."""
    if target.nbytes != dtype.itemsize * math.prod(shape):
        raise InternalError(f"the memory for {dtype.name}{list(shape)} has {target.nbytes} bytes")
    return target


def _allocate(kind: int, dtype: Dtype, shape: tuple[int, ...]) -> Target:
    if kind == tags.KIND_TORCH:
        torch_dtype = _dtypes.to_torch(dtype)
        if torch_dtype is not None:
            return _allocate_torch(torch_dtype, dtype, shape)
    numpy_dtype = _dtypes.to_numpy(dtype)
    if numpy_dtype is None:
        _note_raw(dtype)
        array = np.empty((*shape, dtype.itemsize), np.uint8)
    else:
        array = np.empty(shape, numpy_dtype)
    address = array.__array_interface__["data"][0]
    if kind == tags.KIND_SWAPPED and numpy_dtype is not None:
        swapped = array
        return Target(array, address, array.nbytes, lambda: _swap(swapped))
    return Target(array, address, array.nbytes)


def _allocate_torch(torch_dtype: Any, dtype: Dtype, shape: tuple[int, ...]) -> Target:
    torch = torch_or_none()
    if dtype.name.removeprefix("torch:") in _VIEWED:
        tensor = (
            torch.empty(math.prod(shape) * dtype.itemsize, dtype=torch.uint8, device="cpu")
            .view(torch_dtype)
            .view(shape)
        )
    else:
        tensor = torch.empty(shape, dtype=torch_dtype, device="cpu")
    return Target(tensor, tensor.data_ptr(), tensor.nbytes if holds_its_elements(tensor) else 0)


def _swap(array: np.ndarray) -> np.ndarray:
    return array.byteswap(inplace=True).view(array.dtype.newbyteorder())


_noted: set[str] = set()


def _note_raw(dtype: Dtype) -> None:
    if dtype.name not in _noted:
        _noted.add(dtype.name)
        warnings.warn(
            f"no installed package has the dtype {dtype.name}: its tensors come back as uint8 arrays with the bytes of "
            "an element along the last axis (torch or ml_dtypes may bring it)",
            UlpackWarning,
            stacklevel=4,
        )


def target_for(out: Any, dtype: Dtype, shape: tuple[int, ...], name: str) -> Target:
    """Memory of a tensor or array that the caller provides for a value of this dtype and shape.

    What is not contiguous host memory gets its values by a copy when they are there.

    Raises:
        ArgumentError: it is of another dtype or shape, cannot be written, or has elements that share memory.
    """
    if isinstance(out, np.ndarray):
        own, own_shape, writable = _dtypes.from_numpy(out.dtype), out.shape, out.flags.writeable
    else:
        torch = torch_if_loaded()
        if torch is None or not isinstance(out, torch.Tensor):
            raise ArgumentError(f"out is a {type(out).__qualname__}, not a tensor or array", tensor=name)
        own, own_shape, writable = _dtypes.from_torch(out.dtype), tuple(out.shape), True
        if out.layout is not torch.strided or out.is_meta or out.is_quantized or not holds_its_elements(out):
            raise ArgumentError("out has no ordinary memory", tensor=name)
    if own != dtype or own_shape != shape:
        has = f"{own.name if own else 'unknown'}{list(own_shape)}"
        raise ArgumentError(f"out is {has}, the file has {dtype.name}{list(shape)}", tensor=name)
    if not writable:
        raise ArgumentError("out is read-only", tensor=name)
    if elements_meet(out):
        raise ArgumentError("out has elements that share memory (an expanded tensor, an overlapping view)", tensor=name)
    target = _numpy_target(out, dtype) if isinstance(out, np.ndarray) else _torch_target(out, dtype)
    return _checked(target, dtype, shape)


def _numpy_target(out: np.ndarray, dtype: Dtype) -> Target:
    if out.flags.c_contiguous and (out.dtype.isnative or dtype.code == _dtypes.NAMED):
        return Target(out, out.__array_interface__["data"][0], out.nbytes)
    native = out.dtype if dtype.code == _dtypes.NAMED else out.dtype.newbyteorder("=")
    scratch = np.empty(out.shape, native)

    def finish() -> np.ndarray:
        out[...] = scratch
        return out

    return Target(out, scratch.__array_interface__["data"][0], scratch.nbytes, finish)


def _torch_target(out: Any, dtype: Dtype) -> Target:
    memory = out.detach()
    if memory.is_cpu and memory.is_contiguous() and not (memory.is_conj() or memory.is_neg()):
        return Target(out, memory.data_ptr(), memory.nbytes, lambda: touch(out))
    scratch = _allocate_torch(out.dtype, dtype, tuple(out.shape))

    def finish() -> Any:
        copy_bits(memory, scratch.value)
        return out

    return Target(out, scratch.address, scratch.nbytes, finish)


def touch(tensor: Any) -> Any:
    """Tell autograd that the memory of ``tensor`` was written behind its back."""
    if tensor.numel():
        as_integers(tensor.detach()).reshape(-1)[:0].zero_()
    return tensor


def copy_bits(destination: Any, source: Any) -> None:
    """Copy elements between torch tensors of one dtype as integers."""
    if destination.is_conj() or destination.is_neg():
        destination.copy_(source)
    else:
        as_integers(destination).copy_(as_integers(source))

"""A copy of a state's tensors, taken while the training thread waits."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _dtypes
from .._buffers import View, copy_bits, view
from .._structure import Leaf
from .._torch import torch_if_loaded
from .memory import Arena


class Snapshot:
    """Copies of tensors in an arena. The views into the arena are made once for states of the same form."""

    def __init__(self) -> None:
        self.arena = Arena()
        self._form: list[Any] | None = None
        self._targets: list[Any] = []
        self._views: dict[str, View] = {}

    def take(self, leaves: list[Leaf]) -> dict[str, View]:
        """Copy the tensors of these leaves, from any device and of any strides; their memory by name."""
        form = [(leaf.name, leaf.obj.dtype, leaf.obj.shape, isinstance(leaf.obj, np.ndarray)) for leaf in leaves]
        if form != self._form:
            self._form = None
            self._prepare(leaves)
            self._form = form
        torch = torch_if_loaded()
        plain = _plain(torch) if torch is not None else set()
        with torch.no_grad() if torch is not None else contextlib.nullcontext():
            for leaf, target in zip(leaves, self._targets, strict=True):
                source = leaf.obj
                if isinstance(source, np.ndarray):
                    np.copyto(target, source, casting="equiv")
                elif source.dtype in plain and not source.is_neg():
                    target.copy_(source)
                elif source.numel():
                    _copy_bits(target, source)
        return self._views

    def take_views(self, views: Mapping[str, View]) -> dict[str, View]:
        """Copy values that lie in memory already, such as mapped files, which others may change or cut off."""
        arena = self.borrow()
        arena.lay_out([memory.nbytes for memory in views.values()])
        copies: dict[str, View] = {}
        for number, (name, memory) in enumerate(views.items()):
            if memory.nbytes:
                ctypes.memmove(arena.address(number), memory.address, memory.nbytes)
            copies[name] = memory._replace(address=arena.address(number), keep=arena.buffer)
        return copies

    def borrow(self) -> Arena:
        """The memory, for something else than a snapshot."""
        self._form = None
        return self.arena

    def warm(self, other: Snapshot) -> None:
        """Have as much memory as another snapshot, provided by the system now rather than at the next copy."""
        if self.arena.buffer.nbytes < other.arena.buffer.nbytes:
            self.borrow().reserve(other.arena.buffer.nbytes)
            self.arena.touch()

    def _prepare(self, leaves: list[Leaf]) -> None:
        forms = [_form(leaf.obj) for leaf in leaves]
        sizes = [dtype.itemsize * int(np.prod(shape, dtype=np.int64)) for dtype, shape in forms]
        self.arena.lay_out(sizes)
        self._targets, self._views = [], {}
        for number, (leaf, (dtype, shape), nbytes) in enumerate(zip(leaves, forms, sizes, strict=True)):
            memory = self.arena.slice(number, nbytes)
            if isinstance(leaf.obj, np.ndarray):
                native = leaf.obj.dtype if dtype.code == _dtypes.NAMED else leaf.obj.dtype.newbyteorder("=")
                self._targets.append(memory.view(native).reshape(shape))
            else:
                self._targets.append(_as_torch(memory, leaf.obj))
            self._views[leaf.name] = View(self.arena.address(number), nbytes, dtype, shape, self.arena.buffer)


def _form(obj: Any) -> tuple[_dtypes.Dtype, tuple[int, ...]]:
    dtype = _dtypes.from_numpy(obj.dtype) if isinstance(obj, np.ndarray) else _dtypes.from_torch(obj.dtype)
    assert dtype is not None  # pack() has refused arrays without one
    return dtype, tuple(obj.shape)


def _as_torch(memory: np.ndarray, like: Any) -> Any:
    torch = torch_if_loaded()
    if memory.nbytes == 0:
        return torch.empty(tuple(like.shape), dtype=like.dtype)
    return torch.from_numpy(memory).view(like.dtype).view(tuple(like.shape))


# Copies between equal dtypes of these move the bits as they are; others are moved as integers.
_PLAIN = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")


def _copy_bits(target: Any, source: Any) -> None:
    if source.is_conj() or source.is_neg():
        source = view(source).keep.view(target.shape)
    copy_bits(target, source.detach())


_plain_dtypes: set[Any] = set()


def _plain(torch: Any) -> set[Any]:
    if not _plain_dtypes:
        _plain_dtypes.update(getattr(torch, name) for name in _PLAIN)
    return _plain_dtypes

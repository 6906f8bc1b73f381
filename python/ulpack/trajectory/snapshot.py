"""A copy of a state, taken while the training thread waits: as little as possible happens here, the rest later.

A state of the form of the one before is copied in one walk over the nest, tensor by tensor into the places that the
last state had; taking it apart (names, structure, ties) is then done on the copy. Anything that is not plain is taken
apart first.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _dtypes
from .._buffers import View, copy_bits, view
from .._structure import Leaf, pack
from .._torch import torch_if_loaded
from .memory import Arena

_DEPTH = 100
_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))
_KEYS = frozenset((type(None), bool, int, float, str, bytes))
# Copies between equal dtypes of these move the bits as they are; others are moved as integers.
_PLAIN = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")


class _NotPlainError(Exception):
    """The state has another form than the last one, or holds something that the quick walk does not know."""


class Copied(NamedTuple):
    """A copied state: its tensors by name, in order, and the structure around them."""

    views: dict[str, View]
    structure: bytes


class Copy:
    """A copied state that may still have to be taken apart."""

    def __init__(self, nest: Any, copied: Copied | None) -> None:
        self._nest = nest
        self._copied = copied

    def take_apart(self) -> Copied:
        """Names and structure; on the thread that saves."""
        if self._copied is None:
            packed = pack(self._nest)
            self._copied = Copied({leaf.name: view(leaf.obj) for leaf in packed.leaves}, packed.structure)
            self._nest = None
        return self._copied


class Snapshot:
    """Memory for one state, with a place for each of its tensors, which states of the same form use again."""

    def __init__(self) -> None:
        self.arena = Arena()
        self._forms: list[_Form] | None = None
        self._targets: list[Any] = []

    def take(self, state: Any) -> Copy:
        """Copy a state.

        Raises:
            UnsupportedTypeError: it holds something that cannot be stored; the message names the place.
        """
        if self._forms is not None:
            walk = _Walk(self._forms, self._targets)
            with contextlib.suppress(_NotPlainError):
                nest = walk.value(state, 0)
                walk.copy()
                return Copy(nest, None)
        packed = pack(state)
        self._prepare([_form_of(leaf) for leaf in packed.leaves])
        views: dict[str, View] = {}
        torch = torch_if_loaded()
        with torch.no_grad() if torch is not None else contextlib.nullcontext():
            for leaf, target, form in zip(packed.leaves, self._targets, self._forms or (), strict=True):
                if isinstance(leaf.obj, np.ndarray):
                    np.copyto(target, leaf.obj, casting="equiv")
                elif leaf.obj.numel():
                    _copy_torch(target, leaf.obj)
                address = target.__array_interface__["data"][0] if form.numpy else target.data_ptr()
                views[leaf.name] = View(address, form.nbytes, form.code, form.shape, self.arena.buffer)
        return Copy(None, Copied(views, packed.structure))

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
        self._forms, self._targets = None, []
        return self.arena

    def warm(self, other: Snapshot) -> None:
        """Be ready for a state like the one in another snapshot: its memory is provided now, not at the next copy."""
        if self._forms != other._forms and other._forms is not None:
            self._prepare(other._forms)
            self.arena.touch()

    def _prepare(self, forms: list[_Form]) -> None:
        if forms == self._forms:
            return
        self.borrow()
        self.arena.lay_out([form.nbytes for form in forms])
        self._targets = [self._target(number, form) for number, form in enumerate(forms)]
        self._forms = forms

    def _target(self, number: int, form: _Form) -> Any:
        memory = self.arena.slice(number, form.nbytes)
        if form.numpy:
            return memory.view(form.dtype).reshape(form.shape)
        torch = torch_if_loaded()
        if form.nbytes == 0:
            return torch.empty(form.shape, dtype=form.dtype)
        return torch.from_numpy(memory).view(form.dtype).view(form.shape)


class _Form(NamedTuple):
    """What a place is for: dtype (native byte order) and shape, its dtype on the wire, its bytes.

    Complex torch tensors and quantised ones are for the slow path, which looks at them closely.
    """

    numpy: bool
    dtype: Any
    shape: tuple[int, ...]
    code: _dtypes.Dtype
    nbytes: int
    special: bool = False


def _form_of(leaf: Leaf) -> _Form:
    obj, shape = leaf.obj, tuple(leaf.obj.shape)
    if isinstance(obj, np.ndarray):
        code = _dtypes.from_numpy(obj.dtype)
        assert code is not None  # pack() has refused arrays without one
        native = obj.dtype if code.code == _dtypes.NAMED else obj.dtype.newbyteorder("=")
        return _Form(True, native, shape, code, obj.nbytes)
    code = _dtypes.from_torch(obj.dtype)
    special = obj.dtype.is_complex or obj.is_quantized
    return _Form(False, obj.dtype, shape, code, code.itemsize * obj.numel(), special)


class _Walk:
    """One walk over a nest of plain values, dicts, lists, tuples, and tensors like those that were there last time."""

    def __init__(self, forms: list[_Form], targets: list[Any]) -> None:
        self.forms = forms
        self.targets = targets
        torch = torch_if_loaded()
        self.torch = torch
        self.tensors = (torch.Tensor, torch.nn.Parameter) if torch is not None else ()
        self.strided = torch.strided if torch is not None else None
        self.sources: list[Any] = []
        self.known: dict[Any, Any] = {}

    def value(self, obj: Any, depth: int) -> Any:
        """The value with places for the tensors."""
        kind = type(obj)
        if kind in self.tensors:
            return self._tensor(obj)
        if kind in _ATOMS:
            return obj
        if depth > _DEPTH:
            raise _NotPlainError
        if kind is dict or kind is collections.OrderedDict:
            copy = kind()
            for key, item in obj.items():
                if type(key) not in _KEYS:
                    raise _NotPlainError
                copy[key] = self.value(item, depth + 1)
            return copy
        if kind is list:
            return [self.value(item, depth + 1) for item in obj]
        if kind is tuple:
            return tuple([self.value(item, depth + 1) for item in obj])
        if kind is np.ndarray and obj.dtype.isnative:
            address = obj.__array_interface__["data"][0] if obj.size else id(obj)
            key = address, obj.dtype, obj.shape, obj.strides
            known = self.known.get(key)
            return known if known is not None else self._place(obj, key, True)
        raise _NotPlainError

    def _tensor(self, tensor: Any) -> Any:
        if tensor.layout is not self.strided or tensor.is_nested or tensor.is_neg() or not tensor.is_contiguous():
            raise _NotPlainError
        shape = tensor.shape
        key = tensor.data_ptr() or id(tensor), tensor.dtype, shape, tensor.is_cpu
        known = self.known.get(key)
        if known is not None:
            return known
        target = self._place(tensor, key, False)
        form = self.forms[len(self.sources) - 1]
        end = tensor.storage_offset() * form.code.itemsize + form.nbytes
        if form.nbytes and end > tensor.untyped_storage().nbytes():
            raise _NotPlainError  # on no device, or with its memory taken away
        return target

    def _place(self, obj: Any, key: Any, numpy: bool) -> Any:
        number = len(self.sources)
        if number == len(self.forms):
            raise _NotPlainError
        form = self.forms[number]
        if form.dtype != obj.dtype or form.shape != obj.shape or form.numpy != numpy or form.special:
            raise _NotPlainError
        self.sources.append(obj)
        target = self.known[key] = self.targets[number]
        return target

    def copy(self) -> None:
        """Copy all tensors into their places."""
        if len(self.sources) < len(self.forms):
            raise _NotPlainError  # one place would keep an old value
        if self.torch is None:
            for target, source in zip(self.targets, self.sources, strict=True):
                np.copyto(target, source)
            return
        plain = _plain(self.torch)
        targets, sources = [], []
        with self.torch.no_grad():
            for target, source, form in zip(self.targets, self.sources, self.forms, strict=True):
                if form.numpy:
                    np.copyto(target, source)
                elif form.dtype in plain:
                    targets.append(target)
                    sources.append(source)
                elif form.nbytes:
                    _copy_torch(target, source)
            _copy_all(self.torch, targets, sources)


def _copy_all(torch: Any, targets: list[Any], sources: list[Any]) -> None:
    many = getattr(torch, "_foreach_copy_", None)
    if many is not None and targets:
        many(targets, sources)
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def _copy_torch(target: Any, source: Any) -> None:
    if source.is_conj() or source.is_neg():
        copy_bits(target, view(source).keep.view(target.shape))
    elif source.dtype in _plain(torch_if_loaded()):
        target.copy_(source)
    else:
        copy_bits(target, source.detach())


_plain_dtypes: set[Any] = set()


def _plain(torch: Any) -> set[Any]:
    if not _plain_dtypes:
        _plain_dtypes.update(getattr(torch, name) for name in _PLAIN)
    return _plain_dtypes

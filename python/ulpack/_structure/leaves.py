"""What counts as a tensor leaf, which tensors are one and the same, and what is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _dtypes
from .._storage import holds_its_elements
from ..errors import UnsupportedTypeError
from . import tags


class Leaf:
    """One tensor of a file: a strided torch tensor or a NumPy array, and its name."""

    __slots__ = ("kind", "name", "obj")

    def __init__(self, name: str, kind: int, obj: Any) -> None:
        self.name = name
        self.kind = kind
        self.obj = obj


_plain_types: set[type] = set()


def plain_types(torch: Any) -> set[type]:
    """Tensor classes whose elements are all there is to them."""
    if not _plain_types:
        _plain_types.update((torch.Tensor, torch.nn.Parameter))
        if hasattr(torch.nn, "Buffer"):
            _plain_types.add(torch.nn.Buffer)
    return _plain_types


def is_plain(tensor: Any, torch: Any) -> bool:
    """Whether a torch tensor is an ordinary strided array of elements."""
    return (
        type(tensor) in plain_types(torch)
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
        and not tensor.is_nested
        and holds_its_elements(tensor)
    )


def address_of(obj: Any) -> int:
    """Where a tensor or array begins; a number of its own for one without elements."""
    if isinstance(obj, np.ndarray):
        return obj.__array_interface__["data"][0] if obj.size else -id(obj)
    return obj.data_ptr() if obj.numel() else -id(obj)


def view_key(obj: Any) -> Any:
    """Equal for tensors that begin at the same address and are the same view of the memory there."""
    if isinstance(obj, np.ndarray):
        return address_of(obj), obj.dtype, obj.shape, obj.strides
    return address_of(obj), obj.dtype, obj.shape, obj.stride(), obj.device, obj.is_conj(), obj.is_neg()


class Ties:
    """Finds, for a tensor, the leaf before it that is the same view of the same memory.

    The address alone tells most tensors apart; only where two begin at the same one the whole view is compared.
    """

    def __init__(self, leaves: list[Leaf]) -> None:
        self._leaves = leaves
        self._first: dict[int, int] = {}  # by address
        self._views: dict[Any, int] = {}  # by view, where an address came up again
        self._again: set[int] = set()

    def find(self, obj: Any, address: int) -> int | None:
        """The number of the leaf, or None."""
        first = self._first.get(address)
        if first is None:
            return None
        if address not in self._again:
            self._again.add(address)
            self._views[view_key(self._leaves[first].obj)] = first
        return self._views.get(view_key(obj))

    def add(self, address: int, number: int) -> None:
        """Enter leaf ``number``, which ``find`` did not find."""
        if self._first.setdefault(address, number) != number:
            self._views[view_key(self._leaves[number].obj)] = number


def numpy_kind(array: np.ndarray, place: str) -> int:
    """Kind of the leaf for an array.

    Raises:
        UnsupportedTypeError: an array of objects, or a class with more to it than its elements.
    """
    if type(array) is not np.ndarray and type(array) is not np.memmap:
        raise UnsupportedTypeError(
            f"{place} is a {_class(array)}; convert it with numpy.asarray() if its values are all"
        )
    dtype = _dtypes.from_numpy(array.dtype)
    if dtype is None:
        raise UnsupportedTypeError(f"{place} is an array of dtype {array.dtype}, whose elements are not plain bytes")
    swapped = dtype.code != _dtypes.NAMED and not array.dtype.isnative
    return tags.KIND_SWAPPED if swapped else tags.KIND_NUMPY


def refuse_torch(tensor: Any, torch: Any, place: str) -> UnsupportedTypeError:
    """Why this tensor cannot be stored, as an error that names the place."""
    if hasattr(tensor, "full_tensor"):
        return UnsupportedTypeError(
            f"{place} is a {_class(tensor)}, one process's shard of a tensor: pass its full_tensor() "
            "(on every process) or its to_local()"
        )
    if tensor.is_meta:
        return UnsupportedTypeError(f"{place} is on the meta device and has no values; materialise it first")
    if tensor.is_nested:
        return UnsupportedTypeError(f"{place} is a nested tensor; store its values() and offsets()")
    if tensor.layout is not torch.strided:
        return UnsupportedTypeError(
            f"{place} has layout {tensor.layout}; store its indices and values, or its to_dense()"
        )
    if type(tensor) in plain_types(torch):
        return UnsupportedTypeError(
            f"{place} is a tensor whose storage is smaller than its elements, perhaps freed or resized by a wrapper "
            "such as FSDP; materialise it first"
        )
    return UnsupportedTypeError(
        f"{place} is a {_class(tensor)}, a tensor class without __tensor_flatten__; "
        "pass as_subclass(torch.Tensor) if its elements are all there is to it"
    )


def refuse_object(obj: Any, place: str) -> UnsupportedTypeError:
    """Why this object cannot be stored, as an error that names the place."""
    hint = ""
    if hasattr(obj, "state_dict"):
        hint = "; pass its state_dict()"
    elif hasattr(obj, "get_state"):
        hint = "; pass its get_state()"
    elif isinstance(obj, dict):
        hint = "; convert it with dict()"
    elif isinstance(obj, tuple):
        hint = "; convert it with tuple()"
    return UnsupportedTypeError(f"{place} is a {_class(obj)}, which a delta file cannot hold{hint}")


def _class(obj: Any) -> str:
    cls = type(obj)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"

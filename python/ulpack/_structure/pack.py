"""From a nest of tensors and plain values to a list of tensors and the bytes that say how they nest."""

from __future__ import annotations

import collections
import struct
from typing import Any, NamedTuple

import numpy as np

from .. import _dtypes
from .._torch import torch_if_loaded
from ..errors import LimitError, UnsupportedTypeError
from . import tags
from .leaves import Leaf, Ties, address_of, is_plain, numpy_kind, refuse_object, refuse_torch
from .torch_kinds import take_apart_quantised
from .varint import MAX, write_block, write_varint

_NEXT = {tags.KIND_TORCH: tags.NEXT_TORCH, tags.KIND_NUMPY: tags.NEXT_NUMPY, tags.KIND_SWAPPED: tags.NEXT_SWAPPED}
_RUN = {tags.KIND_TORCH: tags.RUN_TORCH, tags.KIND_NUMPY: tags.RUN_NUMPY}
_DICTS: dict[Any, int] = {
    dict: tags.DICT,
    collections.OrderedDict: tags.ORDERED_DICT,
    collections.Counter: tags.COUNTER,
}
_FACTORY_CODES = {factory: code for code, factory in enumerate(tags.FACTORIES)}


class Packed(NamedTuple):
    """A state taken apart."""

    leaves: list[Leaf]
    structure: bytes
    aliases: list[tuple[str, int]]  # further names of tied tensors, and which tensors they are


def pack(obj: Any) -> Packed:
    """Take a nest apart (go/FORMAT.md, "Structure").

    Tensors that are the same view of the same memory become one leaf. Nothing is copied.

    Raises:
        UnsupportedTypeError: the nest holds something a delta file cannot; the message names the place.
        LimitError: more than 2^24 plain values.
    """
    packer = _Packer()
    packer.value(obj, "", 0)
    body = bytes(packer.out)
    flat = _flat_form(obj, packer.leaves, body)
    return Packed(packer.leaves, flat if flat is not None else bytes((tags.VALUE,)) + body, packer.aliases)


def pack_value(obj: Any, name: str = "", depth: int = 0, first: int = 0) -> Packed:
    """Like ``pack``, but the structure is the bare value, as it stands at some depth of a larger nest.

    Args:
        obj: the nest.
        name: what the names of its tensors begin with (go/FORMAT.md, "Structure": the prefix without its last dot).
        depth: how deep in the larger nest it stands.
        first: number of tensors before it.
    """
    packer = _Packer(first=first)
    packer.value(obj, name, depth)
    return Packed(packer.leaves, bytes(packer.out), packer.aliases)


def collect(obj: Any) -> list[Leaf]:
    """The tensors of a nest and their names, tied ones once a name; whatever cannot be stored is passed over."""
    packer = _Packer(strict=False)
    packer.value(obj, "", 0)
    return packer.leaves


def _flat_form(obj: Any, leaves: list[Leaf], body: bytes) -> bytes | None:
    """The short form of a dict of distinct tensors and nothing else, if it is one."""
    if type(obj) not in (dict, collections.OrderedDict) or len(leaves) != len(obj):
        return None
    kind = leaves[0].kind if leaves else tags.KIND_TORCH
    if kind not in _RUN:
        return None
    expected = bytearray((_DICTS[type(obj)],))
    write_varint(expected, len(leaves))
    if leaves:
        expected.append(_RUN[kind])
        write_varint(expected, len(leaves))
    if body != bytes(expected):
        return None
    if kind == tags.KIND_TORCH:
        return b"" if type(obj) is dict else bytes((tags.FLAT_ORDERED,))
    return bytes((tags.FLAT_NUMPY,)) if type(obj) is dict else None


def segment(key: Any, position: int) -> str:
    """How a dict key appears in the names of the tensors below it."""
    if type(key) is str:
        return key
    if type(key) is int:
        return str(key) if -MAX <= key <= MAX else f"#{position}"
    if key is None or type(key) is bool:
        return str(key)
    return f"#{position}"


class _Packer:
    def __init__(self, strict: bool = True, first: int = 0) -> None:
        self.first = first  # number of tensors before ours in the file
        self.strict = strict  # refuse what cannot be stored, rather than pass over it
        self.out = bytearray()
        self.leaves: list[Leaf] = []
        self.aliases: list[tuple[str, int]] = []
        self.torch = torch_if_loaded()
        self._ties = Ties(self.leaves)
        self._names: set[str] = set()
        self._open: set[int] = set()  # ids of the containers we are inside of
        self._place: list[str] = []
        self._values = 0
        self._range_left = tags.MAX_RANGE

    def place(self) -> str:
        return "state" + "".join(self._place)

    def value(self, obj: Any, name: str, depth: int) -> None:
        self._count(1)
        if depth > tags.MAX_DEPTH:
            raise LimitError(f"{self.place()[:200]}.. is nested more than {tags.MAX_DEPTH} deep")
        try:
            self._write(obj, name, depth)
        except UnsupportedTypeError:
            if self.strict:
                raise

    def _write(self, obj: Any, name: str, depth: int) -> None:
        write = _WRITERS.get(type(obj))
        if write is not None:
            write(self, obj, name, depth)
        elif isinstance(obj, np.ndarray):
            self._array(obj, name, depth)
        elif isinstance(obj, np.generic):
            self._numpy_scalar(obj)
        elif isinstance(obj, np.dtype):
            self._numpy_dtype(obj)
        elif self.torch is None or not self._torch_value(obj, name, depth):
            raise refuse_object(obj, self.place())

    def _count(self, number: int) -> None:
        self._values += number
        if self._values > tags.MAX_VALUES:
            raise LimitError(
                f"more than {tags.MAX_VALUES} plain values, at {self.place()[:200]}; store them as an array"
            )

    # Scalars

    def _none(self, obj: None, name: str, depth: int) -> None:
        self.out.append(tags.NONE)

    def _bool(self, obj: bool, name: str, depth: int) -> None:
        self.out.append(tags.TRUE if obj else tags.FALSE)

    def _int(self, obj: int, name: str, depth: int) -> None:
        negative = obj < 0
        magnitude = -1 - obj if negative else obj
        if magnitude <= MAX:
            self.out.append(tags.NEGATIVE if negative else tags.INT)
            write_varint(self.out, magnitude)
        else:
            self.out.append(tags.BIG_NEGATIVE if negative else tags.BIG_INT)
            write_block(self.out, magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "little"))

    def _float(self, obj: float, name: str, depth: int) -> None:
        self.out.append(tags.FLOAT)
        self.out += struct.pack("<d", obj)

    def _complex(self, obj: complex, name: str, depth: int) -> None:
        self.out.append(tags.COMPLEX)
        self.out += struct.pack("<dd", obj.real, obj.imag)

    def _str(self, obj: str, name: str, depth: int) -> None:
        self.out.append(tags.STR)
        write_block(self.out, obj.encode("utf-8", "surrogatepass"))

    def _bytes(self, obj: bytes, name: str, depth: int) -> None:
        self.out.append(tags.BYTES)
        write_block(self.out, obj)

    def _bytearray(self, obj: bytearray, name: str, depth: int) -> None:
        self.out.append(tags.BYTEARRAY)
        write_block(self.out, bytes(obj))

    def _numpy_scalar(self, obj: Any) -> None:
        text = _dtypes.numpy_text(obj.dtype) if _dtypes.from_numpy(obj.dtype) is not None else None
        if text is None:
            raise UnsupportedTypeError(f"{self.place()} is a NumPy scalar of dtype {obj.dtype}")
        self.out.append(tags.NUMPY_SCALAR)
        write_block(self.out, text.encode())
        write_block(self.out, obj.tobytes())

    def _numpy_dtype(self, obj: np.dtype) -> None:
        text = _dtypes.numpy_text(obj) if _dtypes.from_numpy(obj) is not None else None
        if text is None:
            raise UnsupportedTypeError(f"{self.place()} is the NumPy dtype {obj}")
        self.out.append(tags.NUMPY_DTYPE)
        write_block(self.out, text.encode())

    # Containers

    def _enter(self, obj: Any) -> None:
        if id(obj) in self._open:
            raise UnsupportedTypeError(f"{self.place()[:200]} contains itself")
        self._open.add(id(obj))

    def _items(self, obj: Any, name: str, depth: int) -> None:
        """A varint count and the values, each under its index."""
        self._enter(obj)
        write_varint(self.out, len(obj))
        prefix = f"{name}." if depth else ""
        for index, item in enumerate(obj):
            self._place.append(f"[{index}]")
            self.value(item, f"{prefix}{index}", depth + 1)
            self._place.pop()
        self._open.discard(id(obj))

    def _list(self, obj: list[Any], name: str, depth: int) -> None:
        if not self._packed_ints(obj, tags.PACKED_LIST):
            self.out.append(tags.LIST)
            self._items(obj, name, depth)

    def _tuple(self, obj: tuple[Any, ...], name: str, depth: int) -> None:
        if not self._packed_ints(obj, tags.PACKED_TUPLE):
            self.out.append(tags.TUPLE)
            self._items(obj, name, depth)

    def _packed_ints(self, obj: list[Any] | tuple[Any, ...], tag: int) -> bool:
        """Short forms of sequences of non-negative ints: parameter numbers, the state of a random generator."""
        count = len(obj)
        if count < 4 or any(type(item) is not int or item < 0 for item in obj):
            return False
        first, largest = obj[0], max(obj)
        ranged = tag == tags.PACKED_LIST and count <= self._range_left and largest <= MAX
        if ranged and all(item == first + index for index, item in enumerate(obj)):
            self._range_left -= count
            self._count(count)
            self.out.append(tags.INT_RANGE)
            write_varint(self.out, first)
            write_varint(self.out, count)
            return True
        width = next((w for w in (1, 2, 4, 8) if largest < 1 << 8 * w), 0)
        if width == 0:
            return False
        self._count(count)
        self.out += bytes((tag, width))
        write_varint(self.out, count)
        self.out += np.array(obj, dtype=f"<u{width}").tobytes()
        return True

    def _deque(self, obj: collections.deque[Any], name: str, depth: int) -> None:
        self.out.append(tags.DEQUE)
        self.value(obj.maxlen, name, depth)
        self._items(obj, name, depth)

    def _set(self, obj: set[Any] | frozenset[Any], name: str, depth: int) -> None:
        """Members sorted by their bytes: the order of a set is not part of its value."""
        self.out.append(tags.SET if type(obj) is set else tags.FROZENSET)
        write_varint(self.out, len(obj))
        outer, members = self.out, []
        for item in obj:
            self.out = bytearray()
            self._key(item, depth + 1)
            members.append(bytes(self.out))
        self.out = outer
        for member in sorted(members):
            self.out += member

    def _key(self, key: Any, depth: int) -> None:
        """A value that can be a dict key or a member of a set."""
        leaves, start = len(self.leaves), len(self.out)
        self.value(key, "", depth)
        if len(self.leaves) > leaves or self.out[start] not in tags.KEY_TAGS:
            raise UnsupportedTypeError(f"{self.place()} has a key or member of type {type(key).__qualname__}")

    def _dict(self, obj: dict[Any, Any], name: str, depth: int) -> None:
        self.out.append(_DICTS[type(obj)])
        self._entries(obj, name, depth)

    def _defaultdict(self, obj: collections.defaultdict[Any, Any], name: str, depth: int) -> None:
        code = _FACTORY_CODES.get(obj.default_factory)  # type: ignore[arg-type]
        if code is None:
            raise UnsupportedTypeError(
                f"{self.place()} is a defaultdict of {obj.default_factory!r}; convert it with dict()"
            )
        self.out += bytes((tags.DEFAULT_DICT, code))
        self._entries(obj, name, depth)

    def _entries(self, obj: dict[Any, Any], name: str, depth: int) -> None:
        self._enter(obj)
        write_varint(self.out, len(obj))
        prefix = f"{name}." if depth else ""
        run_kind, run = -1, 0
        for position, (key, item) in enumerate(obj.items()):
            self._place.append(f"[{key!r:.80}]")
            path = prefix + segment(key, position)
            kind, address = self._implied(key, item, path)
            if run and kind != run_kind:
                self._end_run(run_kind, run)
                run = 0
            if kind >= 0:
                self._count(1)
                self._add(Leaf(path, kind, item), address)
                run_kind, run = kind, run + 1
            else:
                self._key(key, depth + 1)
                self.value(item, path, depth + 1)
            self._place.pop()
        if run:
            self._end_run(run_kind, run)
        self._open.discard(id(obj))

    def _end_run(self, kind: int, run: int) -> None:
        self.out.append(_RUN[kind])
        write_varint(self.out, run)

    def _implied(self, key: Any, item: Any, path: str) -> tuple[int, int]:
        """(kind, address) if this entry is a new tensor whose key can be read off its name, else (-1, 0)."""
        if type(key) is not str or path in self._names:
            return -1, 0
        torch = self.torch
        if torch is not None and isinstance(item, torch.Tensor):
            if not is_plain(item, torch):
                return -1, 0
            kind = tags.KIND_TORCH
        elif type(item) is np.ndarray:
            if _dtypes.from_numpy(item.dtype) is None:
                return -1, 0
            kind = numpy_kind(item, "")
            if kind not in _RUN:
                return -1, 0
        else:
            return -1, 0
        address = address_of(item)
        if not _is_utf8(path) or (self.strict and self._ties.find(item, address) is not None):
            return -1, 0
        return kind, address

    # Tensors

    def _add(self, leaf: Leaf, address: int) -> None:
        self._names.add(leaf.name)
        self.leaves.append(leaf)
        if self.strict:
            self._ties.add(address, len(self.leaves) - 1)

    def _leaf(self, obj: Any, kind: int, name: str) -> None:
        address = address_of(obj)
        known = self._ties.find(obj, address) if self.strict else None
        if known is not None:
            self.out.append(tags.TIED)
            write_varint(self.out, self.first + known)
            self.aliases.append((name, known))
            return
        unique = name = name if _is_utf8(name) else name.encode("utf-8", "backslashreplace").decode()
        number = 1
        while unique in self._names:
            number += 1
            unique = f"{name}~{number}"
        self.out.append(_NEXT[kind])
        self._add(Leaf(unique, kind, obj), address)

    def _array(self, obj: np.ndarray, name: str, depth: int) -> None:
        self._leaf(obj, numpy_kind(obj, self.place()), name)

    def _torch_value(self, obj: Any, name: str, depth: int) -> bool:
        torch = self.torch
        if isinstance(obj, torch.Tensor):
            if is_plain(obj, torch):
                self._leaf(obj, tags.KIND_TORCH, name)
            elif type(obj) is torch.Tensor and obj.is_quantized:
                self._quantised(obj, name, depth)
            elif hasattr(obj, "__tensor_flatten__") and not (
                hasattr(obj, "full_tensor") or obj.is_meta or obj.is_nested
            ):
                self._flattened(obj, name, depth)
            else:
                raise refuse_torch(obj, torch, self.place())
        elif isinstance(obj, torch.Size):
            self.out.append(tags.TORCH_SIZE)
            write_varint(self.out, len(obj))
            for dim in obj:
                write_varint(self.out, int(dim))
        elif isinstance(obj, torch.dtype):
            self.out.append(tags.TORCH_DTYPE)
            write_block(self.out, str(obj).removeprefix("torch.").encode())
        elif isinstance(obj, torch.device):
            self.out.append(tags.TORCH_DEVICE)
            write_block(self.out, str(obj).encode())
        else:
            return False
        return True

    def _quantised(self, obj: Any, name: str, depth: int) -> None:
        kind, parameters, codes = take_apart_quantised(obj, self.place())
        self.out.append(tags.QUANTISED)
        write_block(self.out, kind.encode())
        self.value(tuple(obj.shape), name, depth + 1)
        self.value(parameters, f"{name}.qparams", depth + 1)
        self.value(codes, name, depth + 1)

    def _flattened(self, obj: Any, name: str, depth: int) -> None:
        attributes, context = obj.__tensor_flatten__()
        cls = type(obj)
        self.out.append(tags.FLATTENED)
        write_block(self.out, f"{cls.__module__}:{cls.__qualname__}".encode())
        self._place.append(".__tensor_flatten__()[1]")
        self.value(context, f"{name}.context", depth + 1)
        self._place.pop()
        self.value(tuple(int(dim) for dim in obj.shape), name, depth + 1)
        self.value(tuple(int(step) for step in obj.stride()), name, depth + 1)
        write_varint(self.out, len(attributes))
        for attribute in attributes:
            self._place.append(f".{attribute}")
            write_block(self.out, attribute.encode())
            self.value(getattr(obj, attribute), f"{name}.{attribute}", depth + 1)
            self._place.pop()


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_WRITERS: dict[type, Any] = {
    type(None): _Packer._none,
    bool: _Packer._bool,
    int: _Packer._int,
    float: _Packer._float,
    complex: _Packer._complex,
    str: _Packer._str,
    bytes: _Packer._bytes,
    bytearray: _Packer._bytearray,
    list: _Packer._list,
    tuple: _Packer._tuple,
    set: _Packer._set,
    frozenset: _Packer._set,
    dict: _Packer._dict,
    collections.OrderedDict: _Packer._dict,
    collections.Counter: _Packer._dict,
    collections.defaultdict: _Packer._defaultdict,
    collections.deque: _Packer._deque,
    np.ndarray: _Packer._array,
}

"""From the bytes of a structure back to the nest, with a ``Slot`` where each tensor goes."""

from __future__ import annotations

import collections
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _dtypes
from .._torch import torch_or_none
from ..errors import CorruptError, LimitError
from . import tags
from .pack import segment
from .varint import MAX, Reader

_RUN_KINDS = {tags.RUN_TORCH: tags.KIND_TORCH, tags.RUN_NUMPY: tags.KIND_NUMPY}
_NEXT_KINDS = {
    tags.NEXT_TORCH: tags.KIND_TORCH,
    tags.NEXT_NUMPY: tags.KIND_NUMPY,
    tags.NEXT_SWAPPED: tags.KIND_SWAPPED,
}


class Slot:
    """The place of tensor ``index`` of the file in a parsed nest."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Quantised:
    """The place of a quantised tensor, with its parts."""

    __slots__ = ("codes", "dtype", "parameters", "shape")

    def __init__(self, dtype: str, shape: tuple[int, ...], parameters: Any, codes: Any) -> None:
        self.dtype, self.shape, self.parameters, self.codes = dtype, shape, parameters, codes


class Flattened:
    """The place of a tensor of a class of its own, with its parts."""

    __slots__ = ("cls", "context", "inner", "shape", "stride")

    def __init__(
        self, cls: str, context: Any, shape: tuple[int, ...], stride: tuple[int, ...], inner: dict[str, Any]
    ) -> None:
        self.cls, self.context, self.shape, self.stride, self.inner = cls, context, shape, stride, inner


class Parsed:
    """A parsed structure.

    Attributes:
        root: the nest, with ``Slot``, ``Quantised`` and ``Flattened`` in the places of tensors.
        kinds: for each tensor its leaf kind, or None for a tensor that only the image uses.
        image: the bytes of the image of the original files, or None.
        flat: whether root is a dict of slots and nothing else.
    """

    def __init__(self, root: Any, kinds: list[int | None], image: bytes | None, flat: bool) -> None:
        self.root = root
        self.kinds = kinds
        self.image = image
        self.flat = flat


def parse(structure: bytes, names: Sequence[str]) -> Parsed:
    """Read a structure (go/FORMAT.md, "Structure") of a file whose tensors have these names.

    Raises:
        CorruptError: any rule of the section is broken.
        LimitError: nested too deep, or too many values.
    """
    count = len(names)
    form = structure[0] if structure else 0
    if not structure or form in (tags.FLAT_NUMPY, tags.FLAT_ORDERED):
        if len(structure) > 1:
            raise CorruptError("structure has bytes after its end")
        kind = tags.KIND_NUMPY if form == tags.FLAT_NUMPY else tags.KIND_TORCH
        make = collections.OrderedDict if form == tags.FLAT_ORDERED else dict
        root = make((name, Slot(index)) for index, name in enumerate(names))
        if len(root) != count:
            raise CorruptError("two tensors have the same name")
        return Parsed(root, [kind] * count, None, True)
    reader = Reader(structure)
    reader.byte()
    image = None
    if form == tags.IMAGE:
        image = reader.block()
    elif form != tags.VALUE:
        raise CorruptError(f"structure starts with byte {form:#04x}")
    parser = _Parser(reader, names)
    root = parser.value("", 0)
    if reader.left():
        raise CorruptError("structure has bytes after its end")
    if image is None and parser.next != count:
        raise CorruptError("structure does not use every tensor")
    return Parsed(root, parser.kinds + [None] * (count - parser.next), image, False)


class _Parser:
    def __init__(self, reader: Reader, names: Sequence[str]) -> None:
        self.reader = reader
        self.names = names
        self.next = 0
        self.kinds: list[int | None] = []
        self._values = 0
        self._range_left = tags.MAX_RANGE

    def value(self, name: str, depth: int, allowed: frozenset[int] | None = None) -> Any:
        if depth > tags.MAX_DEPTH:
            raise LimitError(f"structure is nested more than {tags.MAX_DEPTH} deep")
        self._count(1)
        tag = self.reader.byte()
        if allowed is not None and tag not in allowed:
            raise CorruptError(f"structure has tag {tag:#04x} in a key")
        read = _READERS.get(tag)
        if read is None:
            raise CorruptError(f"structure has tag {tag:#04x}")
        return read(self, tag, name, depth)

    def _count(self, number: int) -> None:
        self._values += number
        if self._values > tags.MAX_VALUES:
            raise LimitError(f"structure has more than {tags.MAX_VALUES} values")

    # Scalars

    def constant(self, tag: int, name: str, depth: int) -> Any:
        return {tags.NONE: None, tags.FALSE: False, tags.TRUE: True}[tag]

    def integer(self, tag: int, name: str, depth: int) -> int:
        value = self.reader.varint()
        return value if tag == tags.INT else -1 - value

    def big_integer(self, tag: int, name: str, depth: int) -> int:
        data = self.reader.block()
        value = int.from_bytes(data, "little")
        if value <= MAX or data[-1] == 0:
            raise CorruptError("structure has a big integer that is not in shortest form")
        return value if tag == tags.BIG_INT else -1 - value

    def float64(self, tag: int, name: str, depth: int) -> float:
        return struct.unpack("<d", self.reader.take(8))[0]

    def complex128(self, tag: int, name: str, depth: int) -> complex:
        return complex(*struct.unpack("<dd", self.reader.take(16)))

    def text(self, tag: int = 0, name: str = "", depth: int = 0) -> str:
        data = self.reader.block()
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise CorruptError("structure has text that is not UTF-8") from error

    def raw(self, tag: int, name: str, depth: int) -> bytes | bytearray:
        data = self.reader.block()
        return data if tag == tags.BYTES else bytearray(data)

    def numpy_dtype(self, tag: int, name: str, depth: int) -> Any:
        text = self.text()
        dtype = _dtypes.parse_numpy(text)
        return text if dtype is None else dtype

    def numpy_scalar(self, tag: int, name: str, depth: int) -> Any:
        text = self.text()
        dtype = _dtypes.parse_numpy(text)
        data = self.reader.block()
        if dtype is None:
            return data
        if len(data) != dtype.itemsize:
            raise CorruptError(f"structure has a scalar of {len(data)} bytes, dtype {text[:80]!r}")
        if dtype.kind == "S":
            return np.bytes_(data)  # an array would drop zero bytes at the end
        return np.frombuffer(data, dtype)[0]

    def torch_size(self, tag: int, name: str, depth: int) -> Any:
        shape = tuple(self.reader.varint() for _ in range(self._counted()))
        torch = torch_or_none()
        return shape if torch is None else torch.Size(shape)

    def torch_dtype(self, tag: int, name: str, depth: int) -> Any:
        text = self.text()
        found = _dtypes.torch_dtype_by_name(text)
        return f"torch.{text}" if found is None else found

    def torch_device(self, tag: int, name: str, depth: int) -> Any:
        text, torch = self.text(), torch_or_none()
        if torch is None:
            return text
        try:
            return torch.device(text)
        except (RuntimeError, ValueError) as error:
            raise CorruptError(f"structure has the device {text[:40]!r}") from error

    # Containers

    def _counted(self, each: int = 1) -> int:
        count = self.reader.count(each)
        self._count(count)
        return count

    def _items(self, name: str, depth: int) -> list[Any]:
        prefix = f"{name}." if depth else ""
        return [self.value(f"{prefix}{index}", depth + 1) for index in range(self.reader.count())]

    def list_(self, tag: int, name: str, depth: int) -> Any:
        return self._items(name, depth)

    def tuple_(self, tag: int, name: str, depth: int) -> Any:
        return tuple(self._items(name, depth))

    def deque_(self, tag: int, name: str, depth: int) -> Any:
        maxlen = self.value(name, depth)
        if maxlen is not None and type(maxlen) is not int:
            raise CorruptError("structure has a deque with a maxlen that is not an int")
        items = self._items(name, depth)
        if maxlen is not None and not len(items) <= maxlen <= 1 << 62:
            raise CorruptError("structure has a deque beyond its maxlen")
        return collections.deque(items, maxlen)

    def int_range(self, tag: int, name: str, depth: int) -> Any:
        first, count = self.reader.varint(), self.reader.varint()
        self._range_left -= count
        if self._range_left < 0 or first + count > MAX:
            raise LimitError("structure has integer ranges that are too long")
        self._count(count)
        return list(range(first, first + count))

    def packed_ints(self, tag: int, name: str, depth: int) -> Any:
        width = self.reader.byte()
        if width not in (1, 2, 4, 8):
            raise CorruptError(f"structure has integers of {width} bytes")
        count = self._counted(width)
        items = np.frombuffer(self.reader.take(count * width), f"<u{width}").tolist()
        return items if tag == tags.PACKED_LIST else tuple(items)

    def set_(self, tag: int, name: str, depth: int) -> Any:
        members = [self._key(depth + 1) for _ in range(self.reader.count())]
        result = set(members)
        if len(result) != len(members):
            raise CorruptError("structure has a set with a member twice")
        return result if tag == tags.SET else frozenset(result)

    def _key(self, depth: int) -> Any:
        key = self.value("", depth, tags.KEY_TAGS)
        try:
            hash(key)
        except TypeError as error:
            raise CorruptError("structure has a key that cannot be one") from error
        return key

    def dict_(self, tag: int, name: str, depth: int) -> Any:
        result: Any
        if tag == tags.DEFAULT_DICT:
            code = self.reader.byte()
            if code >= len(tags.FACTORIES):
                raise CorruptError(f"structure has default factory {code}")
            result = collections.defaultdict(tags.FACTORIES[code])
        else:
            result = {
                tags.DICT: dict,
                tags.ORDERED_DICT: collections.OrderedDict,
                tags.COUNTER: collections.Counter,
            }[tag]()
        count, position = self.reader.varint(), 0
        prefix = f"{name}." if depth else ""
        while position < count:
            if not self.reader.left():
                raise CorruptError("structure ends early")
            kind = _RUN_KINDS.get(self.reader.data[self.reader.pos])
            if kind is not None:
                self.reader.byte()
                run = self.reader.varint()
                if not 0 < run <= min(count - position, len(self.names) - self.next):
                    raise CorruptError("structure has a run of more tensors than there are")
                self._count(run)
                for index in range(self.next, self.next + run):
                    if not self.names[index].startswith(prefix):
                        raise CorruptError(
                            f"tensor name {self.names[index][:80]!r} does not begin with {prefix[:80]!r}"
                        )
                    result[self.names[index][len(prefix) :]] = Slot(index)
                self.kinds += [kind] * run
                self.next += run
                position += run
            else:
                key = self._key(depth + 1)
                result[key] = self.value(prefix + segment(key, position), depth + 1)
                position += 1
            if len(result) != position:
                raise CorruptError("structure has a dict with a key twice")
        return result

    # Tensors

    def next_tensor(self, tag: int, name: str, depth: int) -> Slot:
        if self.next >= len(self.names):
            raise CorruptError("structure has more tensors than the file")
        self.kinds.append(_NEXT_KINDS[tag])
        self.next += 1
        return Slot(self.next - 1)

    def tied(self, tag: int, name: str, depth: int) -> Slot:
        index = self.reader.varint()
        if index >= self.next:
            raise CorruptError(f"structure ties a tensor to number {index}, which has not been met")
        return Slot(index)

    def _shape(self, name: str, depth: int) -> tuple[int, ...]:
        shape = self.value(name, depth)
        if not isinstance(shape, tuple) or any(type(dim) is not int for dim in shape) or len(shape) > 64:
            raise CorruptError("structure has a shape that is not a tuple of ints")
        return tuple(shape)

    def quantised(self, tag: int, name: str, depth: int) -> Any:
        dtype = self.text()
        shape = self._shape(name, depth + 1)
        parameters = self.value(f"{name}.qparams", depth + 1)
        codes = self.value(name, depth + 1)
        if not isinstance(parameters, tuple) or not isinstance(codes, Slot):
            raise CorruptError("structure has a quantised tensor without its parts")
        return Quantised(dtype, shape, parameters, codes)

    def flattened(self, tag: int, name: str, depth: int) -> Any:
        cls = self.text()
        context = self.value(f"{name}.context", depth + 1)
        shape, stride = self._shape(name, depth + 1), self._shape(name, depth + 1)
        inner: Any = {}
        for _ in range(self._counted(2)):
            attribute = self.text()
            if attribute in inner:
                raise CorruptError("structure has a flattened tensor with a part twice")
            inner[attribute] = self.value(f"{name}.{attribute}", depth + 1)
        return Flattened(cls, context, shape, stride, inner)


_READERS: dict[int, Callable[..., Any]] = {
    tags.NONE: _Parser.constant,
    tags.FALSE: _Parser.constant,
    tags.TRUE: _Parser.constant,
    tags.INT: _Parser.integer,
    tags.NEGATIVE: _Parser.integer,
    tags.BIG_INT: _Parser.big_integer,
    tags.BIG_NEGATIVE: _Parser.big_integer,
    tags.FLOAT: _Parser.float64,
    tags.COMPLEX: _Parser.complex128,
    tags.STR: _Parser.text,
    tags.BYTES: _Parser.raw,
    tags.BYTEARRAY: _Parser.raw,
    tags.LIST: _Parser.list_,
    tags.TUPLE: _Parser.tuple_,
    tags.SET: _Parser.set_,
    tags.FROZENSET: _Parser.set_,
    tags.DICT: _Parser.dict_,
    tags.ORDERED_DICT: _Parser.dict_,
    tags.COUNTER: _Parser.dict_,
    tags.DEFAULT_DICT: _Parser.dict_,
    tags.DEQUE: _Parser.deque_,
    tags.TORCH_SIZE: _Parser.torch_size,
    tags.TORCH_DTYPE: _Parser.torch_dtype,
    tags.TORCH_DEVICE: _Parser.torch_device,
    tags.NUMPY_SCALAR: _Parser.numpy_scalar,
    tags.NUMPY_DTYPE: _Parser.numpy_dtype,
    tags.INT_RANGE: _Parser.int_range,
    tags.PACKED_LIST: _Parser.packed_ints,
    tags.PACKED_TUPLE: _Parser.packed_ints,
    tags.NEXT_TORCH: _Parser.next_tensor,
    tags.NEXT_NUMPY: _Parser.next_tensor,
    tags.NEXT_SWAPPED: _Parser.next_tensor,
    tags.TIED: _Parser.tied,
    tags.QUANTISED: _Parser.quantised,
    tags.FLATTENED: _Parser.flattened,
}

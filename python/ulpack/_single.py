"""encode and decode: one tensor or array, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _files
from ._backend import Items, select
from ._binding import bind
from ._buffers import allocate, target_for
from ._index import located, read_index
from ._load import decode_items, load_delta
from ._options import options
from ._overlap import overlapping, span
from ._save import build_table
from ._sources import References
from ._structure import Flattened, Quantised, Slot, pack, tags
from ._torch import torch_if_loaded
from .errors import ArgumentError, UlpackError


def encode(target: Any, reference: Any = None, *, threads: int | None = None) -> bytes:
    """One tensor or array as bytes: a complete delta file that holds it alone.

    Args:
        target: a torch tensor or NumPy array of any dtype, shape and strides.
        reference: a tensor or array that the reader will have; it helps if dtype and shape are the same.
        threads: None = as many as the machine has.

    Raises:
        UnsupportedTypeError: not a tensor that can be stored.
    """
    torch = torch_if_loaded()
    for argument, obj in (("target", target), ("reference", reference)):
        tensor = isinstance(obj, np.ndarray) or (torch is not None and isinstance(obj, torch.Tensor))
        if not tensor and not (obj is None and argument == "reference"):
            raise ArgumentError(f"{argument} is a {type(obj).__qualname__}, not a tensor or array")
    opt = options(threads)
    packed = pack(target)
    table, _ = build_table(packed.leaves, References(reference))
    try:
        return select().save_bytes(table, packed.structure, b"", opt)
    except UlpackError as error:
        raise located(error, None, table.names) from None


def decode(
    blob: bytes | bytearray | memoryview, reference: Any = None, *, out: Any = None, threads: int | None = None
) -> Any:
    """The tensor or array that ``encode`` stored, every bit of it.

    Args:
        blob: what ``encode`` returned.
        reference: the reference that ``encode`` was given.
        out: a tensor or array of the same dtype and shape to decode into; it may not share memory with the reference.
        threads: None = as many as the machine has.

    Returns:
        A torch tensor if one was encoded, a NumPy array if one was; ``out`` if that was given.

    Raises:
        WrongReferenceError, CorruptError, TruncatedError, UnsupportedError: see there.
    """
    opt, backend = options(threads), select()
    stream = _files.memory(blob)
    index = read_index(backend, stream, None)
    parsed = index.parse()
    if not isinstance(parsed.root, (Slot, Quantised, Flattened)):
        raise ArgumentError("the bytes hold a whole state; use load_delta")
    if not isinstance(parsed.root, Slot):
        if out is not None:
            raise ArgumentError("a tensor that has parts cannot be decoded into out")
        return load_delta(bytes(blob), reference=reference, threads=threads)
    binding = bind(backend, index, References(reference), [0])
    binding.check()
    kind = parsed.kinds[0]
    if out is None:
        target = allocate(tags.KIND_TORCH if kind is None else kind, index.dtypes[0], index.shapes[0])
    else:
        target = target_for(out, index.dtypes[0], index.shapes[0], index.names[0])
        if 0 in binding.views:
            view = binding.views[0]
            if overlapping([(*span(out), 0), (view.address, view.nbytes, 1)]):
                raise ArgumentError("out shares memory with the reference")
    items = Items()
    items.add(0, index.nbytes[0], binding.views.get(0), target.address, target.value)
    decode_items(backend, stream, items, index, opt, salvage=False)
    return target.finish() if target.finish is not None else target.value

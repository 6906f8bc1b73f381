"""cat: one tensor to a file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .. import _dtypes, _files
from .._backend import Items, Options, select
from .._binding import bind
from .._image.verbs import references_from
from .._index import read_index
from .._load import decode_items
from .._safetensors import canonical_header
from ..errors import ArgumentError
from .output import check_output, emit, size


def cat(delta: Path, name: str, out: Path, bases: list[Path], opt: Options, force: bool, as_json: bool) -> None:
    """Decode one tensor and write it as .npy, as .safetensors, or as its raw bytes."""
    check_output(out, [delta, *bases], force)
    backend, label = select(), os.fspath(delta)
    references = references_from(bases)
    with _files.source(delta) as stream:
        index = read_index(backend, stream, label)
        number = index.number(name)
        if number < 0:
            raise ArgumentError(f"the file has no tensor {name!r}", path=label)
        dtype, shape = index.dtypes[number], index.shapes[number]
        header = b""
        if out.suffix == ".safetensors":
            made = canonical_header(None, [(name, dtype, shape)])
            if made is None:
                raise ArgumentError(f"safetensors has no dtype {dtype.name}; write .npy or raw bytes", path=label)
            header = made
        binding = bind(backend, index, references, [number])
        binding.check()
        data = np.empty(index.nbytes[number], np.uint8)
        items = Items()
        items.add(number, data.nbytes, binding.views.get(number), data.__array_interface__["data"][0], data)
        binding.lend(items, index)
        decode_items(backend, stream, items, index, opt, salvage=False)
    written_as = dtype.name
    with _files.output(out) as fd, open(fd, "wb", closefd=False) as file:
        if out.suffix == ".npy":
            array = _array(data, dtype, shape)
            np.save(file, array, allow_pickle=False)
            if array.dtype != _dtypes.to_numpy(dtype):  # a dtype that .npy has no name for
                written_as = array.dtype.name
        else:
            file.write(header)
            file.write(data.data)
        written = file.tell()
    record = {
        "path": os.fspath(out),
        "nbytes": written,
        "dtype": dtype.name,
        "written_as": written_as,
        "shape": list(shape),
    }
    note = "" if written_as == dtype.name else f" as {written_as}, since .npy has no {dtype.name}"
    emit(as_json, record, f"{out}: {dtype.name} {list(shape)}{note}, {size(written)}")


def _array(data: np.ndarray, dtype: _dtypes.Dtype, shape: tuple[int, ...]) -> np.ndarray:
    """As an array that .npy can describe: dtypes that it has no name for become unsigned integers of their size."""
    found = _dtypes.to_numpy(dtype)
    if found is None or (found.kind == "V" and found.names is None) or found.type.__module__.startswith("ml_dtypes"):
        found = np.dtype(f"u{dtype.itemsize}") if dtype.itemsize in (1, 2, 4, 8) else np.dtype(f"V{dtype.itemsize}")
    return data.view(found).reshape(shape)

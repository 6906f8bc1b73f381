"""A step as files that need no store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .. import _files
from .._backend import Options, Table
from .._buffers import View
from .._dtypes import Dtype
from .._image import File, Header, Image, Tensors, decode_image, image_files
from .._image.layout import Segment
from .._image.restore import write_files
from .._image.scan import TORCH_SUFFIXES
from .._safetensors import canonical_header
from .._save import write
from .._torch import torch_or_none
from ..errors import ArgumentError, FileExistsStorageError, UnsupportedError
from .contents import STRUCTURE
from .decode import Goal, decode
from .manifest import Manifest
from .reader import StepReader, load_step
from .session import Session

FORMATS = ("original", "safetensors", "torch", "ulp")
_SUFFIXES = {"safetensors": ".safetensors", "torch": ".pt", "ulp": ".ulp"}


def export(session: Session, manifest: Manifest, path: Path, format: str | None, opt: Options, *, force: bool) -> Path:
    """Write a step; see ``Trajectory.export``."""
    reader = StepReader(session, manifest)
    reader.check_values()
    parsed = reader.parse()
    if format is None:
        format = _default(path, parsed.image is not None, parsed.flat)
    if format not in FORMATS:
        raise ArgumentError(f"format is {format!r}; it may be {', '.join(map(repr, FORMATS))}")
    if format == "original":
        if parsed.image is None:
            raise ArgumentError(f"step {manifest.step} was saved from memory: there are no original files")
        image = decode_image(parsed.image, len(reader.contents.names))
        if not image.folder and path.is_dir():
            path = path / image_files(parsed.image)[1][0]
        _write_image(reader, image, path, opt, force)
        return path
    if path.is_dir():
        path = path / f"step-{manifest.step}{_SUFFIXES[format]}"
    if format == "safetensors":
        if not parsed.flat:
            raise ArgumentError(f"step {manifest.step} is not a flat dict of tensors; use format='torch' or 'ulp'")
        count = len(reader.contents.names)
        segments: list[Segment] = [Header(None, 0, count), *([Tensors(0, count)] if count else [])]
        forms = _Forms(reader)
        if canonical_header(None, zip(forms.names, forms.dtypes, forms.shapes, strict=True)) is None:
            raise ArgumentError(f"step {manifest.step} has a dtype that safetensors does not know")
        _write_image(reader, Image(False, [File(path.name, -1, segments)]), path, opt, force)
        return path
    if os.path.lexists(path) and not force:
        raise FileExistsStorageError("it is already there", path=os.fspath(path))
    if format == "torch":
        _write_torch(session, manifest, path, opt)
    else:
        _write_ulp(reader, path, opt)
    return path


def _default(path: Path, image: bool, flat: bool) -> str:
    by_suffix = {suffix: format for format, suffix in _SUFFIXES.items()} | dict.fromkeys(TORCH_SUFFIXES, "torch")
    if image:
        return "original"
    if path.suffix in by_suffix and not path.is_dir():
        return by_suffix[path.suffix]
    return "safetensors" if flat else "torch"


class _Forms:
    """The tensors of a step, as ``write_files`` asks for them."""

    def __init__(self, reader: StepReader) -> None:
        places = [reader.place(position) for position in range(len(reader.contents.names))]
        self.path = str(reader.session.catalog.layout)
        self.names = list(reader.contents.names)
        self.dtypes: list[Dtype] = [place.dtype for place in places]
        self.shapes = [place.shape for place in places]
        self.nbytes = [place.nbytes for place in places]


def _write_image(reader: StepReader, image: Image, path: Path, opt: Options, force: bool) -> None:
    def fill(memory: Mapping[int, np.ndarray]) -> None:
        _decode_all(reader, memory, opt)

    write_files(image, _Forms(reader), path, fill, force=force)


def _decode_all(reader: StepReader, memory: Mapping[int, np.ndarray], opt: Options) -> None:
    """Decode tensors by position, those with equal values once."""
    first: dict[int, int] = {}
    goals: list[Goal] = []
    for position, target in memory.items():
        stored = reader.contents.stored(position)
        if stored not in first:
            first[stored] = position
            address = target.__array_interface__["data"][0] if target.size else 0
            goals.append(Goal(reader.place(position).links, address, target.nbytes, target))
    decode(reader.session, goals, opt)
    for position, target in memory.items():
        source = first[reader.contents.stored(position)]
        if source != position:
            target[:] = memory[source]


def _write_torch(session: Session, manifest: Manifest, path: Path, opt: Options) -> None:
    torch = torch_or_none()
    if torch is None:
        raise UnsupportedError("writing a torch file needs torch", path=os.fspath(path))
    state = load_step(session, manifest, opt)
    with _files.output(path) as fd, open(fd, "wb", closefd=False) as file:
        torch.save(state, file)


def _write_ulp(reader: StepReader, path: Path, opt: Options) -> None:
    forms = _Forms(reader)
    memory = {position: np.empty(nbytes, np.uint8) for position, nbytes in enumerate(forms.nbytes)}
    _decode_all(reader, memory, opt)
    table = Table()
    for position, name in enumerate(forms.names):
        data = memory[position]
        address = data.__array_interface__["data"][0]
        table.add(name, View(address, data.nbytes, forms.dtypes[position], forms.shapes[position], data))
    structure = reader.session.read(reader.manifest, STRUCTURE)
    with _files.output(path) as fd:
        write(reader.session.backend, fd, table, structure, b"", opt._replace(progress=None), os.fspath(path))

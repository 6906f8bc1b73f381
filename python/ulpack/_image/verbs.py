"""From checkpoint files to a delta file and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import _files
from .._backend import Options, Table, select
from .._index import read_index
from .._options import metadata_bytes
from .._records import SaveInfo
from .._save import check_written, report, write
from .._sources import MAGIC, References, open_path
from ..errors import ArgumentError
from .build import PathSource, build
from .layout import File, Header, Image, Segment, Tensors, decode_image
from .restore import restore
from .scan import TORCH_SUFFIXES


def references_from(paths: Sequence[Path]) -> References:
    """Checkpoint files and folders as references, with the bytes around their tensors."""
    references = References(None)
    for path in paths:
        if path.is_file() and is_delta(path):
            references.sources += open_path(path)
        else:
            references.sources.append(PathSource(path))
    return references


def is_delta(path: Path) -> bool:
    """Whether a file begins like a delta file."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def save_image(
    target: Path, out: Path, references: References, opt: Options, *, verify: bool, metadata: Any = None
) -> SaveInfo:
    """Write a delta file from which ``restore_image`` makes the target's files again, byte for byte."""
    sizes: dict[str, int] = {}
    for source in references.sources:
        for name in source.all():
            dtype, shape = source.describe(name)
            if len(shape) == 1 and name.startswith("file:"):
                sizes.setdefault(name, shape[0] * dtype.itemsize)
    built = build(target, sizes)
    table, matches = Table(), []
    for piece in built.tensors:
        found: Any = "no reference"
        if references.sources:
            found = references.find(piece.name, piece.view.dtype, piece.view.shape)
        matches.append(found)
        if isinstance(found, str):
            table.add(piece.name, piece.view)
        else:
            table.add(piece.name, piece.view, found.source.view(found.name), found.name)
    backend, label = select(), os.fspath(out)
    with _files.output(out) as fd:
        saved = write(backend, fd, table, built.structure, metadata_bytes(metadata), opt, label)
        if verify:
            check_written(backend, fd, table, built.structure, saved, opt, label)
    return report(saved, table, matches, references, label, backend, [])


def restore_image(delta: Path, out: Path, references: References, opt: Options, *, force: bool) -> int:
    """Write the files that a delta file was made from; returns their bytes.

    A delta of a state in memory becomes a ``.safetensors`` file if it is a flat dict of tensors, else a torch file.
    """
    backend, label = select(), os.fspath(delta)
    with _files.source(delta) as stream:
        index = read_index(backend, stream, label)
        parsed = index.parse()
        if parsed.image is not None:
            image: Image | None = decode_image(parsed.image, len(index.names))
        else:
            image = _image_of_state(parsed.flat, index.names, out)  # None: a torch file
        if image is not None:
            return restore(backend, stream, index, image, references, out, opt, force=force)
    return _save_torch(delta, out, references, opt, force)


def _image_of_state(flat: bool, names: list[str], out: Path) -> Image | None:
    if out.suffix in TORCH_SUFFIXES:
        return None
    if out.suffix != ".safetensors" or not flat:
        wanted = ".safetensors or .pt" if flat else ".pt"
        raise ArgumentError(f"this delta holds a state, not files: give an output that ends in {wanted}")
    segments: list[Segment] = [Header(None, 0, len(names))]
    if names:
        segments.append(Tensors(0, len(names)))
    return Image(False, [File(out.name, -1, segments)])


def _save_torch(delta: Path, out: Path, references: References, opt: Options, force: bool) -> int:
    from .._load import load_with
    from .._torch import torch_or_none
    from ..errors import FileExistsStorageError, UnsupportedError

    torch = torch_or_none()
    if torch is None:
        raise UnsupportedError("writing a torch file needs torch", path=os.fspath(out))
    if os.path.lexists(out) and not force:
        raise FileExistsStorageError("it is already there; --force replaces it", path=os.fspath(out))
    state = load_with(delta, references, opt)
    with _files.output(out) as fd, open(fd, "wb", closefd=False) as file:
        torch.save(state, file)
        return file.tell()

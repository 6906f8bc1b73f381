"""diff, pack, apply, unpack."""

from __future__ import annotations

import os
from pathlib import Path

from .._backend import Options
from .._image.verbs import references_from, restore_image, save_image
from ..errors import UlpackError
from .output import check_output, count, emit, percent, size, some


def diff(target: Path, out: Path, bases: list[Path], opt: Options, force: bool, verify: bool, as_json: bool) -> None:
    """Write a delta file."""
    check_output(out, [target, *bases], force)
    metadata = {"reference": ", ".join(base.name for base in bases)} if bases else None
    saved = save_image(target, out, references_from(bases), opt, verify=verify, metadata=metadata)
    raw = sum(entry.stat().st_size for entry in _files(target))
    alone = saved.without_reference
    text = f"{out}: {size(saved.nbytes)}, {percent(saved.nbytes, raw)} of {target} ({size(raw)})"
    if alone:
        reasons = [f"{name} ({reason})" for name, reason in alone.items()]
        text += f"\n{len(alone)} of {count(len(saved.tensors), 'tensor')} without reference: {some(reasons)}"
    if saved.missing:
        text += f"\n{count(len(saved.missing), 'tensor')} only in the reference"
    record = {
        "path": os.fspath(out),
        "nbytes": saved.nbytes,
        "target_nbytes": raw,
        "tensors": len(saved.tensors),
        "without_reference": alone,
        "renamed": saved.renamed,
        "missing": list(saved.missing),
        "backend": saved.backend,
    }
    emit(as_json, record, text)


def apply(delta: Path, out: Path, bases: list[Path], opt: Options, force: bool, as_json: bool) -> None:
    """Write the files of a delta again."""
    check_output(out, [delta, *bases], force, folder=True)
    try:
        nbytes = restore_image(delta, out, references_from(bases), opt, force=force)
    except UlpackError as error:
        error.path = error.path or os.fspath(delta)
        raise
    emit(as_json, {"path": os.fspath(out), "nbytes": nbytes}, f"{out}: {size(nbytes)}")


def _files(target: Path) -> list[Path]:
    return [target] if target.is_file() else [file for file in target.rglob("*") if file.is_file()]

"""info, verify and --version."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from .. import __version__
from .._backend import Options
from .._image.verbs import references_from
from .._inspect import backend, inspect, verify_with
from .._records import FileInfo, TensorInfo
from .output import EXIT_CODES, console, emit, percent, size


def versions() -> str:
    """Package, backend, and what the backend says of itself."""
    chosen = backend()
    return f"ulpack {__version__}, {chosen.name} backend: {json.dumps(chosen.details)}"


def info(delta: Path, as_json: bool) -> None:
    """Show the index of a file."""
    found = inspect(delta)
    if as_json:
        record = dataclasses.asdict(found)
        for tensor, fields in zip(found.tensors, record["tensors"], strict=True):
            fields["bits_per_weight"] = tensor.bits_per_weight
        record.update(raw_nbytes=found.raw_nbytes, needs_reference=found.needs_reference, package_version=__version__)
        print(json.dumps(record))
        return
    out = console()
    out.print(_table(found))
    blobs = sum(tensor.nbytes for tensor in found.tensors)
    elements = sum(tensor.elements for tensor in found.tensors)
    out.print(
        f"{len(found.tensors)} tensors, {size(found.raw_nbytes)} raw; file {size(found.nbytes)} "
        f"({percent(found.nbytes, found.raw_nbytes)}), of it {size(found.nbytes - blobs)} index"
        + (f"; {8 * found.nbytes / elements:.3f} bits per weight" if elements else ""),
        markup=False,
    )
    out.print(_about(found), markup=False)


def _table(found: FileInfo) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("tensor", "dtype", "shape", "plan", "reference"):
        table.add_column(title, overflow="fold", no_wrap=title in ("dtype", "plan"))
    for title in ("bytes", "bits/weight", "share"):
        table.add_column(title, justify="right", no_wrap=True)
    for tensor in found.tensors:
        cells = (tensor.name, tensor.dtype, _shape(tensor), tensor.plan, _reference(tensor))
        table.add_row(
            *(_plain(cell) for cell in cells),
            f"{tensor.nbytes:,}",
            f"{tensor.bits_per_weight:.3f}" if tensor.elements else "-",
            percent(tensor.nbytes, found.nbytes),
        )
    return table


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text("".join(char if char.isprintable() else "?" for char in text))


def _shape(tensor: TensorInfo) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


def _reference(tensor: TensorInfo) -> str:
    if tensor.reference is None:
        return "-"
    return "same name" if tensor.reference == tensor.name else tensor.reference


def _about(found: FileInfo) -> str:
    major, minor = found.format_version
    kind = {"state": "a state", "file": "an image of a file", "folder": "an image of a folder"}[found.kind]
    text = f"{kind}; format {major}.{minor}, encoder {found.encoder_version}, effort {found.effort}"
    if found.files:
        text += f"; files: {', '.join(found.files[:8])}{', ..' if len(found.files) > 8 else ''}"
    if found.metadata:
        text += f"; metadata: {json.dumps(found.metadata, ensure_ascii=True)}"
    return text


def verify(delta: Path, bases: list[Path], opt: Options, as_json: bool) -> None:
    """Check a file and list what is wrong."""
    report = verify_with(delta, references_from(bases), opt)
    bad = {name: {"kind": error.kind, "message": error.message} for name, error in report.bad.items()}
    lines = [f"{name}: {error.kind}: {error.message}" for name, error in report.bad.items()]
    text = f"{delta}: {len(report.decoded)} tensors decoded and right"
    if report.unchecked:
        text += f"; {len(report.unchecked)} need the reference, only their blobs were checked"
    if lines:
        text += f"; {len(lines)} bad\n" + "\n".join(lines)
    record = {
        "path": os.fspath(delta),
        "ok": report.ok,
        "decoded": len(report.decoded),
        "unchecked": list(report.unchecked),
        "bad": bad,
    }
    emit(as_json, record, text)
    for error in report.bad.values():
        raise typer.Exit(next((code for cls, code in EXIT_CODES if isinstance(error, cls)), 1))

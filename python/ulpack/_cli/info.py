"""info and --version."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path

from .. import __version__
from .._inspect import backend, inspect
from .._options import EFFORTS
from .._records import FileInfo, TensorInfo
from .names import fit, printable
from .output import count, percent, size, some


def versions() -> str:
    """Package, backend, and what the backend says of itself."""
    chosen = backend()
    d = chosen.details
    if chosen.name != "native":
        return f"ulpack {__version__}, {chosen.name} backend: {d['implementation']} {d['numpy']}"
    return (
        f"ulpack {__version__}, {chosen.name} backend: library {d['version']}, {d['kernels']} kernels "
        f"(of {', '.join(d['available'])}), {count(d['threads'], 'thread')}, {d['os']}/{d['arch']}, {d['go']}"
    )


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
    print(_table(found, shutil.get_terminal_size().columns if on_terminal() else None))
    blobs = sum(tensor.nbytes for tensor in found.tensors)
    elements = sum(tensor.elements for tensor in found.tensors)
    print(
        f"{count(len(found.tensors), 'tensor')}, {size(found.raw_nbytes)} raw; file {size(found.nbytes)} "
        f"({percent(found.nbytes, found.raw_nbytes)}), of it {size(found.nbytes - blobs)} index"
        + (f"; {8 * found.nbytes / elements:.3f} bits per weight" if elements else "")
    )
    print(_about(found))


def on_terminal() -> bool:
    """Whether the output goes to a screen."""
    return sys.stdout.isatty()


def _table(found: FileInfo, width: int | None) -> str:
    """The tensors as text. ``width`` is that of the terminal; None: as wide as it gets, nothing is shortened."""
    titles = ("tensor", "dtype", "shape", "plan", "ref", "bytes", "bits/weight", "share")
    columns = [[title] for title in titles]
    for tensor in found.tensors:
        cells = (
            printable(tensor.name),
            printable(tensor.dtype),
            _shape(tensor),
            tensor.plan,
            printable(_reference(tensor)),
            f"{tensor.nbytes:,}",
            f"{tensor.bits_per_weight:.3f}" if tensor.elements else "-",
            percent(tensor.nbytes, found.nbytes),
        )
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    if width is not None:
        columns = fit(columns, (0, 4), width)
    between = "  " if width is None else " "
    widths = [max(map(len, column)) for column in columns]
    rows = (
        between.join(
            cell.ljust(w) if n < 5 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in zip(*columns, strict=True)
    )
    return "\n".join(rows)


def _shape(tensor: TensorInfo) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


def _reference(tensor: TensorInfo) -> str:
    if tensor.reference is None:
        return "-"
    return "same" if tensor.reference == tensor.name else tensor.reference


def _effort(number: int) -> str:
    """An effort by its name."""
    return next((name for name, value in EFFORTS.items() if value == number and isinstance(name, str)), str(number))


def _about(found: FileInfo) -> str:
    major, minor = found.format_version
    kind = {"state": "a state", "file": "an image of a file", "folder": "an image of a folder"}[found.kind]
    text = f"{kind}; format {major}.{minor}, encoder {found.encoder_version}, effort {_effort(found.effort)}"
    if found.files:
        text += f"; files: {some([printable(name) for name in found.files], 8)}"
    if found.metadata:
        text += f"; metadata: {json.dumps(found.metadata, ensure_ascii=True)}"
    return text

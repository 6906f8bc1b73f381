"""verify: whether a file is sound, and what it needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from .._backend import Options
from .._image.verbs import references_from
from .._inspect import verify_with
from ..errors import WrongReferenceError
from .output import count, emit, exit_code, some


def verify(delta: Path, bases: list[Path], opt: Options, as_json: bool) -> None:
    """Check a file and list what is wrong: damage apart from references that are not the right ones."""
    report = verify_with(delta, references_from(bases), opt)
    lacking = {name for name, error in report.bad.items() if isinstance(error, WrongReferenceError)}
    damaged = {name: error for name, error in report.bad.items() if name not in lacking}
    different = [name for name in report.bad if name in report.different]
    missing = [name for name in report.bad if name in lacking and name not in report.different]
    parts = [f"{delta}: {count(len(report.decoded), 'tensor')} decoded and right"]
    if report.unchecked:
        parts.append(f"{_need(report.unchecked)} a reference, and only the stored bytes were checked")
    if missing:
        parts.append(f"{_need(missing)} a reference that is missing: {some(missing)}")
    if different:
        parts.append(f"{_need(different)} a reference that is different from the one given: {some(different)}")
    if damaged:
        parts.append(f"{len(damaged)} damaged")
    lines = ["; ".join(parts), *(f"{error.kind}: {error}" for error in damaged.values())]
    record = {
        "path": os.fspath(delta),
        "ok": report.ok,
        "decoded": len(report.decoded),
        "unchecked": list(report.unchecked),
        "missing_reference": missing,
        "different_reference": different,
        "bad": {
            name: {"kind": error.kind, "message": error.message, "offset": error.offset}
            for name, error in damaged.items()
        },
    }
    emit(as_json, record, "\n".join(lines))
    for error in (*damaged.values(), *report.bad.values()):
        raise typer.Exit(exit_code(error))


def _need(names: Sequence[str]) -> str:
    return f"{count(len(names), 'tensor')} {'needs' if len(names) == 1 else 'need'}"

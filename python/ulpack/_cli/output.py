"""How results and errors reach the terminal or a program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from .._inputs import everything_in, refuse_overwriting
from ..errors import (
    ArgumentError,
    CorruptError,
    FileExistsStorageError,
    LimitError,
    StorageError,
    UlpackError,
    UnsupportedError,
    WrongReferenceError,
)
from .notices import notices

EXIT_CODES: tuple[tuple[type[UlpackError], int], ...] = (
    (ArgumentError, 2),
    (WrongReferenceError, 3),
    (CorruptError, 4),
    (UnsupportedError, 5),
    (LimitError, 5),
    (StorageError, 6),
)
"""Exit code for each kind of error; 1 for any other, 130 after Ctrl-C."""


def check_output(out: Path, inputs: list[Path], force: bool, folder: bool = False) -> None:
    """Whether a command may write to ``out``: never over an input, and over anything else only by force.

    Args:
        out: where the output goes.
        inputs: files and folders that the command reads.
        force: what is there may be replaced.
        folder: the output may be a folder.

    Raises:
        ArgumentError: it is an input, a folder where a file is meant, or "-".
        FileExistsStorageError: it is there.
    """
    if os.fspath(out) == "-":
        raise ArgumentError("the output cannot be standard output; give the name of a file")
    refuse_overwriting(out, everything_in(inputs))
    if out.is_dir() and not folder:
        raise ArgumentError("the output is a folder; give the name of a file", path=os.fspath(out))
    if os.path.lexists(out) and not force:
        raise FileExistsStorageError("it is already there; --force replaces it", path=os.fspath(out))


def emit(as_json: bool, record: dict[str, Any], text: str) -> None:
    """One result: an object for programs, or a line for people."""
    if as_json:
        print(json.dumps(record, ensure_ascii=True))
    else:
        print(text)


def print_error(error: UlpackError, as_json: bool) -> None:
    """An error on standard error, and as JSON on standard output if asked for."""
    if as_json:
        fields = {"kind": error.kind, "message": error.message, "path": error.path}
        print(json.dumps({"error": {**fields, "tensor": error.tensor, "offset": error.offset}}))
    print(f"ulpack: {error.kind}: {error}", file=sys.stderr)


def exit_code(error: UlpackError) -> int:
    """The exit code for an error."""
    return next((code for cls, code in EXIT_CODES if isinstance(error, cls)), 1)


def interrupted(as_json: bool) -> int:
    """Say that Ctrl-C was pressed; returns the exit code."""
    if as_json:
        fields = {"kind": "cancelled", "message": "interrupted; nothing was written", "path": None}
        print(json.dumps({"error": {**fields, "tensor": None, "offset": None}}))
    print("ulpack: interrupted; nothing was written", file=sys.stderr)
    return 130


@contextmanager
def reporting(as_json: bool, slow: bool = True) -> Iterator[None]:
    """Turn errors into exit codes, and warnings into notices (``slow``: see there)."""
    try:
        with notices(slow):
            yield
    except UlpackError as error:
        print_error(error, as_json)
        raise typer.Exit(exit_code(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(interrupted(as_json)) from None


def size(nbytes: int) -> str:
    """Bytes for people."""
    return f"{nbytes:,} bytes"


def count(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def some(names: Sequence[str], limit: int = 5) -> str:
    """The first few of many."""
    return ", ".join(names[:limit]) + (", .." if len(names) > limit else "")


def percent(part: int, whole: int) -> str:
    """A share for people."""
    return f"{100 * part / whole:.1f} %" if whole else "-"

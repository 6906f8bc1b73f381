"""Checkpoint files and folders as incoming states."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from .._backend import Backend
from .._buffers import View
from .._image.build import build
from .._image.scan import files_of
from ..errors import ArgumentError, MissingFileError
from .encode import Incoming, identify

TRAINER_STATE = "trainer_state.json"
_NUMBER = re.compile(r"\d+")


def step_of_path(path: Path) -> int:
    """The step of a checkpoint: what its trainer state recorded, else the last number in its name.

    Raises:
        ArgumentError: neither is there.
    """
    state = path / TRAINER_STATE
    if state.is_file():
        try:
            step = json.loads(state.read_text(encoding="utf-8"))["global_step"]
        except (OSError, ValueError, KeyError, TypeError):
            step = None
        if type(step) is int and step >= 0:
            return step
    name = path.name if path.is_dir() else path.stem
    numbers = _NUMBER.findall(name)
    if not numbers:
        raise ArgumentError("the step is neither recorded nor part of the name; say which it is", path=os.fspath(path))
    return int(numbers[-1])


def identity_of(backend: Backend, path: Path, step: int | None) -> str:
    """Identity of the state that a file or folder would be."""
    if not path.exists():
        raise MissingFileError("no such file or folder", path=os.fspath(path))
    return identify(backend, take_apart(path, step_of_path(path) if step is None else step, (), {})[0]).id


def take_apart(path: Path, step: int, tags: tuple[str, ...], metrics: Mapping[str, float]) -> tuple[Incoming, int]:
    """A file or folder as a state, from which the same files can be made again; and the bytes of the files.

    The state's values are still in the mapped files.
    """
    if not path.exists():
        raise MissingFileError("no such file or folder", path=os.fspath(path))
    folder = path.is_dir()
    # With these sizes every file is a value of its own: one that does not change is stored once.
    sizes = {(f"file:{name}" if folder else "file:"): file.stat().st_size for name, file in files_of(path)}
    built = build(path, sizes)
    views: dict[str, View] = {piece.name: piece.view for piece in built.tensors}
    kind = "folder" if folder else "file"
    return Incoming(step, views, built.structure, kind, tags, metrics), sum(sizes.values())

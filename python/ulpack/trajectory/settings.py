"""The header of a store: its version and the settings that every process must know."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from .. import _files
from ..errors import ArgumentError, CorruptError, MissingFileError, UnsupportedError, from_os
from .layout import CATALOG, DATA, LOCK, STEPS, TEMPORARY, Layout

FORMAT = "ulpack trajectory"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a store.

    Attributes:
        higher_is_better: metrics of which the highest value is the best; of all others it is the lowest.
    """

    higher_is_better: tuple[str, ...] = ()


def read_settings(layout: Layout) -> Settings:
    """Read the header.

    Raises:
        MissingFileError: there is no store.
        CorruptError, UnsupportedError: its header is damaged or of a later version.
    """
    path = os.fspath(layout.header)
    try:
        text = layout.header.read_bytes()
    except FileNotFoundError:
        raise MissingFileError("there is no trajectory here", path=os.fspath(layout.root)) from None
    except OSError as error:
        raise from_os(error, path) from error
    try:
        fields = json.loads(text)
        if fields["format"] != FORMAT or not isinstance(fields["version"], int):
            raise ValueError("another format")
        higher = tuple(fields.get("higher_is_better", ()))
        if not all(isinstance(name, str) for name in higher):
            raise ValueError("higher_is_better")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(f"not the header of a trajectory: {error}", path=path) from error
    if fields["version"] > VERSION:
        raise UnsupportedError(f"the store has version {fields['version']}, this package knows {VERSION}", path=path)
    return Settings(higher)


def write_settings(layout: Layout, settings: Settings) -> None:
    """Write the header, in one step."""
    fields = {"format": FORMAT, "version": VERSION, "higher_is_better": list(settings.higher_is_better)}
    with _files.output(layout.header) as fd:
        os.write(fd, json.dumps(fields, indent=1).encode() + b"\n")


def create(layout: Layout, settings: Settings) -> None:
    """Make an empty store; the header comes last.

    Raises:
        ArgumentError: the folder is there and holds something else.
        StorageError: it cannot be made.
    """
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(layout.root):
            if name not in (STEPS, DATA, LOCK, CATALOG) and not name.endswith(TEMPORARY):
                raise ArgumentError(
                    f"the folder holds other things ({name!r}) and is no trajectory", path=os.fspath(layout.root)
                )
        layout.steps.mkdir(exist_ok=True)
        layout.data.mkdir(exist_ok=True)
    except OSError as error:
        raise from_os(error, os.fspath(layout.root)) from error
    write_settings(layout, settings)
    _files.sync_folder(os.fspath(layout.root.parent))

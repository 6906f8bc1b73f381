"""References: state dicts, safetensors files, sharded folders, torch files, other deltas; one or several of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ._buffers import View, view
from ._dtypes import Dtype, from_numpy, from_torch
from ._files import is_path
from ._matching import NameIndex, unwrapped
from ._safetensors import Entry, SafetensorsFile
from ._structure import collect
from ._structure.leaves import refuse_object
from ._torch import torch_if_loaded, torch_or_none
from .errors import CorruptError, MissingFileError, UnsupportedError, from_os

MAGIC = b"\x89ULP\r\n\x1a\n"
_TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")


class Source(Protocol):
    """Tensors by name, from one place."""

    label: str
    names: NameIndex

    def all(self) -> list[str]:
        """Every name."""

    def describe(self, name: str) -> tuple[Dtype, tuple[int, ...]]:
        """Dtype and shape, without touching the values."""

    def view(self, name: str) -> View:
        """The values."""


class NestSource:
    """The tensors of a nest in memory."""

    def __init__(self, nest: Any, label: str) -> None:
        self.label = label
        nest = dict(nest) if isinstance(nest, Mapping) and not isinstance(nest, dict) else nest
        self._leaves = {leaf.name: leaf for leaf in collect(nest)}
        self.names = NameIndex(self._leaves)

    def all(self) -> list[str]:
        return list(self._leaves)

    def describe(self, name: str) -> tuple[Dtype, tuple[int, ...]]:
        obj = self._leaves[name].obj
        dtype = from_numpy(obj.dtype) if isinstance(obj, np.ndarray) else from_torch(obj.dtype)
        assert dtype is not None  # collect() passes over arrays without one
        return dtype, tuple(obj.shape)

    def view(self, name: str) -> View:
        return view(self._leaves[name].obj)


def _is_array(value: Any, torch: Any) -> bool:
    return isinstance(value, np.ndarray) or (torch is not None and isinstance(value, torch.Tensor))


class SafetensorsSource:
    """The tensors of one or several safetensors files, mapped."""

    def __init__(self, files: list[SafetensorsFile], label: str) -> None:
        self.label = label
        self._entries: dict[str, tuple[SafetensorsFile, Entry]] = {}
        for file in files:
            for entry in file.entries:
                self._entries.setdefault(entry.name, (file, entry))
        self.names = NameIndex(self._entries)

    def all(self) -> list[str]:
        return list(self._entries)

    def describe(self, name: str) -> tuple[Dtype, tuple[int, ...]]:
        entry = self._entries[name][1]
        return entry.dtype, entry.shape

    def view(self, name: str) -> View:
        file, entry = self._entries[name]
        return file.view(entry)


def load_torch_file(path: str | os.PathLike[str]) -> Any:
    """The contents of a ``torch.save`` file on the CPU, mapped where it can be, without running code from it.

    Raises:
        UnsupportedError: torch is not installed, or the file holds what ``weights_only=True`` refuses.
    """
    torch = torch_or_none()
    if torch is None:
        raise UnsupportedError("reading a torch file needs torch", path=os.fspath(path))
    try:
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except (RuntimeError, ValueError):  # the format of before torch 1.6 cannot be mapped
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise from_os(error, os.fspath(path)) from error
    except Exception as error:
        raise UnsupportedError(f"torch cannot read it with weights_only=True: {error}", path=os.fspath(path)) from error


def folder_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights, as its index says or else by their suffix."""
    for index in sorted(folder.glob("*.index.json")):
        try:
            weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            names = sorted(set(weight_map.values()))
            if any(Path(name).name != name for name in names):
                raise ValueError("it names a file outside of the folder")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"not an index of shards: {error}", path=os.fspath(index)) from error
        return [folder / name for name in names]
    for suffix in (".safetensors", *_TORCH_SUFFIXES):
        found = sorted(folder.glob(f"*{suffix}"))
        if found:
            return found
    raise MissingFileError("the folder has no checkpoint files", path=os.fspath(folder))


def open_path(path: Path) -> list[Source]:
    """The sources in a file or folder."""
    label = os.fspath(path)
    if path.is_dir():
        files = folder_files(path)
        if all(file.suffix == ".safetensors" for file in files):
            return [SafetensorsSource([SafetensorsFile(file) for file in files], label)]
        return [source for file in files for source in open_path(file)]
    if not path.exists():
        raise MissingFileError("no such file or folder", path=label)
    if path.suffix in _TORCH_SUFFIXES:
        return [NestSource(load_torch_file(path), label)]
    with open(path, "rb") as file:
        head = file.read(len(MAGIC))
    if head == MAGIC:
        from ._load import load_delta

        return [NestSource(load_delta(path), label)]
    return [SafetensorsSource([SafetensorsFile(path)], label)]


class Match(NamedTuple):
    """A reference tensor that fits: where it is and under which name."""

    source: Source
    name: str


class References:
    """Everything that was given as ``reference=``."""

    def __init__(self, reference: Any) -> None:
        self.sources: list[Source] = []
        self.paths: list[Path] = []  # the files and folders that are read
        self._folders: list[Path] = []
        for one in _each(reference):
            if is_path(one):
                path = Path(os.fspath(one))
                self.sources += open_path(path)
                self.paths.append(path)
                if path.is_dir():
                    self.paths += folder_files(path)
                    self._folders.append(path)
            elif isinstance(one, (Mapping, list, tuple, np.ndarray)) or _is_array(one, torch_if_loaded()):
                self.sources.append(NestSource(one, f"reference {len(self.sources)}"))
            else:
                raise refuse_object(one, "reference")
        self._by_form: dict[tuple[Dtype, tuple[int, ...]], list[Match]] | None = None

    @classmethod
    def of_state(cls, state: Any) -> References:
        """A state as the only reference, also if it is a list."""
        references = cls(None)
        references.sources.append(NestSource(state, "state"))
        return references

    def find(self, name: str, dtype: Dtype, shape: tuple[int, ...]) -> Match | str:
        """The tensor for a name, or why there is none: "new", "reshaped" or "retyped"."""
        reason = "new"
        for source in self.sources:
            for candidate in source.names.candidates(name):
                its_dtype, its_shape = source.describe(candidate)
                if its_dtype == dtype and its_shape == shape:
                    return Match(source, candidate)
                reason = "retyped" if its_shape == shape else "reshaped"
        return reason

    def named(self, name: str, dtype: Dtype, shape: tuple[int, ...]) -> list[Match]:
        """The tensors of this dtype and shape that the name means in each source, or may mean if none is called so."""
        found = []
        for source in self.sources:
            for candidate in source.names.candidates(name):
                if source.describe(candidate) == (dtype, shape):
                    found.append(Match(source, candidate))
                    if candidate == name:
                        break
        return found

    def of_form(self, dtype: Dtype, shape: tuple[int, ...]) -> list[Match]:
        """Every tensor of this dtype and shape."""
        if self._by_form is None:
            self._by_form = {}
            for source in self.sources:
                for known in source.all():
                    self._by_form.setdefault(source.describe(known), []).append(Match(source, known))
        return self._by_form.get((dtype, shape), [])

    def complete(self) -> bool:
        """Add what folders hold beside weights, which only images of folders need; False if there is nothing to add."""
        from ._image.build import PathSource

        folders, self._folders = self._folders, []
        self.sources += (PathSource(folder) for folder in folders)
        self._by_form = None
        return bool(folders)

    def missing_from(self, names: list[str]) -> list[str]:
        """Names of reference tensors that mean none of these."""
        exact = set(names)
        rest = {name: None for source in self.sources for name in source.all() if name not in exact}
        if not rest:
            return []
        known = {unwrapped(name) for name in names}
        return [name for name in rest if unwrapped(name) not in known]


def _each(reference: Any) -> list[Any]:
    """The references of a list, or the one."""
    if reference is None:
        return []
    several = isinstance(reference, (list, tuple)) and all(
        is_path(one) or isinstance(one, (Mapping, list, tuple)) for one in reference
    )
    return list(reference) if several else [reference]

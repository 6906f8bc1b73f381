"""apply_delta_: a file applied to a state in place."""

from __future__ import annotations

import bisect
import ctypes
from collections import deque
from typing import Any

import numpy as np

from . import _files
from ._backend import Items, Progress, select
from ._backend.run import shielded
from ._binding import bind
from ._buffers import Target, View, allocate, array_at, copy_bits, target_for, touch, view, view_numpy
from ._files import PathOrFile
from ._index import Index, located, read_index
from ._load import decode_items
from ._matching import NameIndex, unwrapped
from ._options import options
from ._overlap import overlapping, span
from ._records import ApplyInfo
from ._sources import References
from ._structure import Flattened, Quantised, Slot, resolve, tags
from ._structure.torch_kinds import find_class
from ._torch import torch_if_loaded
from .errors import ArgumentError, UlpackError


def apply_delta_(
    state_dict: Any,
    path: PathOrFile | bytes,
    *,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> ApplyInfo:
    """Turn a state into the one that a file holds, in place; the state is the file's reference.

    Tensors are overwritten where they are, so a module whose ``state_dict()`` this is changes with them. Names match as
    in ``save_delta``: exactly, or without wrappers. Plain values are replaced in the containers of the state, entries
    that the file does not have are taken out, new ones put in; a tensor cannot change dtype or shape in place.

    Before the first write everything is checked: structure, checksums of all blobs, fingerprints of all references, and
    whether every tensor fits. Ctrl-C during the writing is answered when it is done. A crash of the process in the
    middle of the writing cannot be undone: then load the state from a file again.

    Args:
        state_dict: a nest of tensors, arrays and plain values; outermost a dict, list, tensor or array.
        path: the file: a path, a binary file object, or bytes.
        threads: None = as many as the machine has.
        progress: called with (bytes done, bytes in all); counts the check before the writing, too.

    Raises:
        WrongReferenceError: the state is not what the file was made against; nothing has changed.
        UlpackError: of another kind; nothing has changed unless the message says what was written.
    """
    opt, label = options(threads, progress), _files.label(path)
    backend = select()
    references = References.of_state(state_dict)
    with _files.source(path) as stream:
        index = read_index(backend, stream, label)
        parsed = index.parse()
        pairing = _Pairing(index)
        pairing.pair(parsed.root, state_dict, "state")
        wanted = [number for number, kind in enumerate(parsed.kinds) if kind is not None]
        binding = bind(backend, index, references, wanted)
        binding.check()
        targets = _targets(index, parsed.kinds, wanted, pairing.places)
        _part_shared(targets, index, parsed.kinds)
        _protect(binding.views, targets)

        check = Items()
        for number in wanted:
            check.add(number, index.nbytes[number], binding.views.get(number), 0)
        binding.lend(check, index)
        try:
            backend.load(stream, check, opt, salvage=False, verify_only=True)
        except UlpackError as error:
            raise located(error, label, index.names) from None

        items = Items()
        for number, target in targets.items():
            items.add(number, index.nbytes[number], binding.views.get(number), target.address, target.value)
        binding.lend(items, index)

        def write() -> ApplyInfo:
            bad = decode_items(backend, stream, items, index, opt._replace(progress=None), salvage=True)
            values = {}
            for number, target in targets.items():
                if number not in bad:
                    values[number] = target.finish() if target.finish is not None else target.value
            written = tuple(index.names[number] for number in values)
            if bad:
                error = next(iter(bad.values()))
                error.message += (
                    f", although it was checked before; {len(written)} of {len(targets)} tensors have been written: "
                    f"{', '.join(written)[:2000]}"
                )
                raise error
            _assign(parsed.root, state_dict, values)
            return ApplyInfo(written, tuple(pairing.added), tuple(pairing.removed))

        return shielded(write)


class _Pairing:
    """Walks the nest of the file and the state side by side."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.places: dict[int, list[Any]] = {}  # the state's tensors for each tensor of the file
        self.added: list[str] = []
        self.removed: list[str] = []

    def pair(self, node: Any, old: Any, place: str) -> None:
        if isinstance(node, Slot):
            if _is_tensor(old):
                self.places.setdefault(node.index, []).append(old)
            elif place == "state":
                raise ArgumentError("the file holds a single tensor, the state is none", path=self.index.path)
            else:
                self.added.append(self.index.names[node.index])
        elif isinstance(node, Flattened):
            find_class(node.cls)  # or fail now, before anything is written
        elif isinstance(node, dict) and isinstance(old, dict):
            partners = pair_keys(node, old)
            for key, value in node.items():
                self.pair(value, old.get(partners.get(key, _NONE)), f"{place}[{key!r:.80}]")
            kept = set(partners.values())
            self.removed += (f"{place}[{key!r:.80}]" for key in old if key not in kept)
        elif isinstance(node, (list, tuple, deque)) and isinstance(old, type(node)):
            olds = [*old, *[None] * max(0, len(node) - len(old))]
            for position, value in enumerate(node):
                self.pair(value, olds[position], f"{place}[{position}]")
        elif place == "state":
            raise ArgumentError(
                f"the file holds a {type(node).__qualname__}, the state is a {type(old).__qualname__}",
                path=self.index.path,
            )
        elif isinstance(node, (dict, list, tuple, deque)):
            for position, value in enumerate(node.values() if isinstance(node, dict) else node):
                self.pair(value, None, f"{place}[{position}]")


_NONE = object()


def pair_keys(node: dict[Any, Any], old: dict[Any, Any]) -> dict[Any, Any]:
    """For each key of ``node`` the key of ``old`` that means the same: itself, or one that differs by wrappers."""
    partners = {key: key for key in node if key in old}
    rest = [key for key in old if isinstance(key, str) and key not in partners]
    if rest and len(partners) < len(node):
        names = NameIndex(rest)
        taken: set[str] = set()
        for key in node:
            if key not in partners and isinstance(key, str):
                found = next((name for name in names.candidates(key) if name not in taken), None)
                if found is not None and unwrapped(found):
                    partners[key] = found
                    taken.add(found)
    return partners


def _is_tensor(obj: Any) -> bool:
    torch = torch_if_loaded()
    return isinstance(obj, np.ndarray) or (torch is not None and isinstance(obj, torch.Tensor))


def _targets(
    index: Index, kinds: list[int | None], wanted: list[int], places: dict[int, list[Any]]
) -> dict[int, Target]:
    """Where each tensor of the file is decoded to; every place it goes to is checked."""
    targets = {}
    for number in wanted:
        dtype, shape, name = index.dtypes[number], index.shapes[number], index.names[number]
        fitting = [target_for(old, dtype, shape, name) for old in places.get(number, ())]
        targets[number] = fitting[0] if fitting else allocate(kinds[number] or tags.KIND_TORCH, dtype, shape)
    return targets


def _part_shared(targets: dict[int, Target], index: Index, kinds: list[int | None]) -> None:
    """Two tensors of the file go to the same memory only if they are equal: then the second is decoded beside it."""
    for first, second in overlapping((*span(target.value), number) for number, target in targets.items()):
        same_place = span(targets[first].value) == span(targets[second].value)
        if same_place and index.fingerprints[first] == index.fingerprints[second]:
            targets[second] = allocate(kinds[second] or tags.KIND_TORCH, index.dtypes[second], index.shapes[second])
        else:
            raise ArgumentError(
                f"shares memory with {index.names[second]!r}, but the file has different values for them; nothing was "
                "written",
                tensor=index.names[first],
                path=index.path,
            )


def _protect(views: dict[int, View], targets: dict[int, Target]) -> None:
    """Copy references that the decoding of another tensor would overwrite.

    A reference normally lies exactly where its own tensor goes, and the library decodes that in place.
    """
    spans = sorted((*span(target.value), number) for number, target in targets.items())
    starts = [start for start, _, _ in spans]
    for number, memory in list(views.items()):
        met = []
        position = bisect.bisect_left(starts, memory.address + memory.nbytes)
        while position > 0:
            position -= 1
            start, nbytes, other = spans[position]
            if start + nbytes <= memory.address:
                break
            met.append((start, nbytes, other))
        if met and met != [(memory.address, memory.nbytes, number)]:
            copy = array_at(memory.address, memory.nbytes).copy()
            views[number] = memory._replace(address=copy.__array_interface__["data"][0], keep=copy)


def _assign(node: Any, old: Any, values: dict[int, Any]) -> Any:
    """The object that belongs in the place of ``old``: the same one wherever it can be."""
    if isinstance(node, Slot):
        value = values[node.index]
        if _is_tensor(old) and old is not value:
            _copy(old, value)
            return old
        return value
    if isinstance(node, (Quantised, Flattened)):
        return resolve(node, values)
    if isinstance(node, dict) and isinstance(old, dict):
        partners = pair_keys(node, old)
        fresh = {
            partners.get(key, key): _assign(value, old.get(partners.get(key, _NONE)), values)
            for key, value in node.items()
        }
        old.clear()
        old.update(fresh)
        return old
    if isinstance(node, list) and isinstance(old, list):
        olds = [*old, *[None] * max(0, len(node) - len(old))]
        old[:] = [_assign(value, before, values) for value, before in zip(node, olds, strict=False)]
        return old
    if isinstance(node, tuple) and isinstance(old, tuple) and type(node) is tuple:
        olds = [*old, *[None] * max(0, len(node) - len(old))]
        return tuple(_assign(value, before, values) for value, before in zip(node, olds, strict=False))
    return resolve(node, values)


def _copy(destination: Any, source: Any) -> None:
    """Copy the bits of one tensor or array to another: they are tied in the file and not in the state."""
    if isinstance(destination, np.ndarray):
        if span(destination) != span(source):
            destination[...] = source if isinstance(source, np.ndarray) else _to_numpy(source, destination.dtype)
        return
    if isinstance(source, np.ndarray):
        target = target_for(destination, *_form(source), "")
        _fill(target, source)
        return
    copy_bits(destination.detach(), source.detach())
    touch(destination)


def _form(array: np.ndarray) -> tuple[Any, tuple[int, ...]]:
    memory = view_numpy(array)
    return memory.dtype, memory.shape


def _fill(target: Target, source: Any) -> None:
    memory = view(source)
    if memory.nbytes:
        ctypes.memmove(target.address, memory.address, memory.nbytes)
    if target.finish is not None:
        target.finish()


def _to_numpy(tensor: Any, dtype: np.dtype) -> np.ndarray:
    result = np.empty(tuple(tensor.shape), dtype.newbyteorder("="))
    _fill(Target(result, result.__array_interface__["data"][0], result.nbytes), tensor)
    return result

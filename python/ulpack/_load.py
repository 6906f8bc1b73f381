"""load_delta: a file back into a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _files
from ._backend import Backend, Items, Options, Progress, Stream, select
from ._binding import bind
from ._buffers import Target, allocate, target_for
from ._files import PathOrFile
from ._index import Index, located, read_index
from ._matching import NameIndex
from ._options import options
from ._overlap import overlapping, span
from ._records import Salvaged
from ._sources import References
from ._structure import collect, resolve, tags
from .errors import ArgumentError, UlpackError, from_code

_GROUP = 256 << 20  # bytes on the host at a time when the tensors go to another device


def load_delta(
    path: PathOrFile | bytes,
    *,
    reference: Any = None,
    out: Any = None,
    device: Any = None,
    names: str | Sequence[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    salvage: bool = False,
) -> Any:
    """Give back the state that ``save_delta`` stored, every bit of it.

    Args:
        path: the file: a path, a binary file object (read to its end), or bytes.
        reference: what the file was made against, in any of the forms of ``save_delta``; a list in any order. Which
            tensor of it is meant is decided by name and fingerprint; a wrong one is an error, never a wrong result.
        out: a state whose tensors are decoded into: those of the same name, which must have the same dtype and shape
            and share no memory with the reference (``apply_delta_`` is for that). After an error they are undefined.
        device: torch device to put torch tensors on.
        names: names of tensors to load, instead of everything: the result is a dict from name to tensor.
        threads: None = as many as the machine has.
        progress: called with (bytes done, bytes in all); True draws a bar on a terminal.
        salvage: go on after damage and return a ``Salvaged`` (state, bad).

    Returns:
        The nest as it was saved: torch tensors as torch tensors (contiguous, without requires_grad; parameters as plain
        tensors), NumPy arrays as NumPy arrays. Without torch its tensors come back as NumPy arrays, with ml_dtypes for
        bfloat16 and float8 where that is installed.

    Raises:
        WrongReferenceError: a needed reference tensor is missing or is another one.
        CorruptError, TruncatedError: the file is damaged.
        UlpackError: of another kind.
    """
    references = References(reference)
    return load_with(path, references, options(threads, progress), out, device, names, salvage)


def load_with(
    path: PathOrFile | bytes,
    references: References,
    opt: Options,
    out: Any = None,
    device: Any = None,
    names: str | Sequence[str] | None = None,
    salvage: bool = False,
) -> Any:
    """``load_delta`` with its references opened already."""
    backend, label = select(), _files.label(path)
    with _files.source(path) as stream:
        index = read_index(backend, stream, label)
        parsed = index.parse()
        wanted = _wanted(index, names, [n for n, kind in enumerate(parsed.kinds) if kind is not None])
        kinds = [tags.KIND_NUMPY if kind is None else kind for kind in parsed.kinds]
        values, bad = _load(backend, stream, index, kinds, wanted, references, out, device, opt, salvage)
    bad_names = {index.names[number]: error for number, error in bad.items()}
    state: Any
    if names is not None:
        state = {index.names[number]: values[number] for number in wanted if number in values}
    elif parsed.flat and not bad:
        state = parsed.root
        for key, slot in state.items():
            state[key] = values[slot.index]
    else:
        state = resolve(parsed.root, values)
    return Salvaged(state, bad_names) if salvage else state


def _wanted(index: Index, names: str | Sequence[str] | None, everything: list[int]) -> list[int]:
    if names is None:
        return everything
    numbers = {name: number for number, name in enumerate(index.names)}
    wanted = []
    for name in [names] if isinstance(names, str) else names:
        if name not in numbers:
            raise ArgumentError(f"the file has no tensor {name!r}", path=index.path)
        wanted.append(numbers[name])
    return list(dict.fromkeys(wanted))


def _load(
    backend: Backend,
    stream: Stream,
    index: Index,
    kinds: list[int],
    wanted: list[int],
    references: References,
    out: Any,
    device: Any,
    opt: Options,
    salvage: bool,
) -> tuple[dict[int, Any], dict[int, UlpackError]]:
    """Decode tensors; (values, errors) by number."""
    binding = bind(backend, index, references, wanted)
    if not salvage:
        binding.check()
    outs = _Outs(out)
    bad = dict(binding.problems)
    values: dict[int, Any] = {}
    good = [number for number in wanted if number not in bad]
    for group in _groups(good, index.nbytes, _GROUP if device is not None else None):
        targets = {n: outs.target(n, index, kinds[n]) for n in group}
        if out is not None:
            _check_memory(
                targets, {n: binding.views[n] for n in index.needed(targets) if n in binding.views}, index.names
            )
        items = Items()
        for number, target in targets.items():
            items.add(number, index.nbytes[number], binding.views.get(number), target.address, target.value)
        binding.lend(items, index)
        statuses = decode_items(backend, stream, items, index, opt, salvage)
        for number, target in targets.items():
            if number in statuses:
                bad[number] = statuses[number]
                continue
            value = target.finish() if target.finish is not None else target.value
            if device is not None and kinds[number] == tags.KIND_TORCH and hasattr(value, "to"):
                value = value.to(device)
            values[number] = value
    return values, bad


def decode_items(
    backend: Backend, stream: Stream, items: Items, index: Index, opt: Options, salvage: bool
) -> dict[int, UlpackError]:
    """Decode items; with salvage, the errors by tensor number."""
    try:
        backend.load(stream, items, opt, salvage=salvage, verify_only=False)
    except UlpackError as error:
        raise located(error, index.path, index.names) from None
    return item_errors(items, index) if salvage else {}


def item_errors(items: Items, index: Index) -> dict[int, UlpackError]:
    """The errors that a load with salvage left in its items, by tensor number."""
    found: dict[int, UlpackError] = {}
    for number, status, offset in zip(items.tensors, items.status, items.offsets, strict=True):
        if status:
            error = from_code(status, _STATUS.get(status, ""), index=number, offset=offset if offset >= 0 else None)
            found[number] = located(error, index.path, index.names)
    return found


_STATUS = {
    -2: "damaged",
    -3: "cut off",
    -4: "its reference is missing or another one",
    -5: "stored in a way this version does not know",
}


class _Outs:
    """Tensors that the caller provides, by name, and fresh ones for the rest."""

    def __init__(self, out: Any) -> None:
        self._leaves = {} if out is None else {leaf.name: leaf.obj for leaf in collect(out)}
        self._names = NameIndex(self._leaves)

    def target(self, number: int, index: Index, kind: int) -> Target:
        name, dtype, shape = index.names[number], index.dtypes[number], index.shapes[number]
        found = next(self._names.candidates(name), None) if self._leaves else None
        if found is not None:
            return target_for(self._leaves[found], dtype, shape, name)
        return allocate(kind, dtype, shape)


def _check_memory(targets: dict[int, Target], views: dict[int, Any], names: list[str]) -> None:
    outs = [(target.address, target.nbytes, number) for number, target in targets.items()]
    outs += [(*span(target.value), number) for number, target in targets.items() if target.finish is not None]
    for first, second in overlapping(outs):
        if first != second:
            raise ArgumentError(f"out shares memory with that of {names[second]!r}", tensor=names[first])
    taken = [(v.address, v.nbytes, -1 - number) for number, v in views.items()]
    for first, second in overlapping(outs + taken):
        if (first < 0) != (second < 0):
            number = max(first, second)
            raise ArgumentError("out shares memory with the reference; use apply_delta_", tensor=names[number])


def _groups(numbers: list[int], nbytes: list[int], limit: int | None) -> list[list[int]]:
    if limit is None:
        return [numbers]
    groups: list[list[int]] = [[]]
    size = 0
    for number in numbers:
        if size and size + nbytes[number] > limit:
            groups.append([])
            size = 0
        groups[-1].append(number)
        size += nbytes[number]
    return groups

"""save_delta: a state into a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import _files
from ._backend import Backend, Items, Options, Progress, Saved, Stream, Table, select
from ._buffers import view
from ._files import PathOrFile
from ._index import located, read_index
from ._inputs import refuse_overwriting
from ._options import metadata_bytes, options
from ._records import SavedTensor, SaveInfo
from ._sources import Match, References
from ._structure import Leaf, pack
from .errors import CorruptError, InternalError, UlpackError, UlpackWarning

PLANS = {0: "stored", 1: "identical", 2: "constant", 3: "coded", 4: "rows", 5: "narrow"}


def save_delta(
    state_dict: Any,
    path: PathOrFile,
    *,
    reference: Any = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    verify: bool = False,
    effort: str | int | None = None,
    metadata: Any = None,
) -> SaveInfo:
    """Store a state losslessly, as a difference from a reference where there is one.

    The file appears under ``path`` complete and on disk, or not at all. Do not change the tensors during the call.

    Args:
        state_dict: any nest of dicts, lists and tuples with torch tensors, NumPy arrays and plain values (None, bool,
            int, float, complex, str, bytes, sets, torch dtypes, sizes and devices, NumPy scalars). Strides do not come
            back: values do, contiguous. Tensors that are the same view of the same memory are stored once and tied
            again on load; other overlaps are stored apart.
        path: a path, or a binary file object that gets the bytes at the end of the call.
        reference: what the reader will also have: a state, a ``.safetensors`` file, a folder of shards, a torch file
            (read with ``weights_only=True``), an anchor ``.ulp`` file, a list of several of these (the first that has
            a fitting tensor of the name wins; a state that is a list is given as ``[state]``), or None for a file that
            needs nothing. Names match exactly, or without
            the segments that wrappers add (``_orig_mod``, ``module``). Tensors that are new, reshaped or retyped are
            stored without reference and listed in the result.
        threads: None = as many as the machine has. Never changes the bytes.
        progress: called with (bytes done, bytes in all); True draws a bar on a terminal.
        verify: read the file back before it appears, decode it and compare with the tensors as they are then.
        effort: "fast", "default" or "max"; recorded in the file.
        metadata: anything JSON can hold; ``inspect`` shows it. Its entry "reference", if there is one, is named in the
            error when a reference is missing.

    Returns:
        Sizes, plans, and which tensors had no reference.

    Raises:
        UnsupportedTypeError: the state holds something a file cannot; raised before anything is written.
        ArgumentError: ``path`` is also a reference, which would be lost, or another argument is wrong.
        UlpackError: of the kind in ``kind``; the old file is untouched.
    """
    opt, meta = options(threads, progress, effort, relate=True), metadata_bytes(metadata)
    packed = pack(state_dict)
    _warn_about_empty_optimizers(state_dict)
    references = References(reference)
    refuse_overwriting(path, references.paths)
    table, matches = build_table(packed.leaves, references)
    backend = select()
    label = _files.label(path)
    with _files.output(path) as fd:
        saved = write(backend, fd, table, packed.structure, meta, opt, label)
        if verify:
            check_written(backend, fd, table, packed.structure, saved, opt, label)
    return report(saved, table, matches, references, label, backend, [name for name, _ in packed.aliases])


def build_table(leaves: list[Leaf], references: References) -> tuple[Table, list[Match | str]]:
    """The columns for a save, and for each tensor its reference or why it has none."""
    table = Table()
    matches: list[Match | str] = []
    for leaf in leaves:
        memory = view(leaf.obj)
        found: Match | str = "no reference"
        if references.sources:
            found = references.find(leaf.name, memory.dtype, memory.shape)
        matches.append(found)
        if isinstance(found, str):
            table.add(leaf.name, memory)
        else:
            table.add(leaf.name, memory, found.source.view(found.name), found.name)
    return table, matches


def write(
    backend: Backend, fd: int, table: Table, structure: bytes, metadata: bytes, opt: Options, label: str | None
) -> Saved:
    """Write a file, with errors that name tensor and file."""
    try:
        return backend.save(fd, table, structure, metadata, opt)
    except UlpackError as error:
        raise located(error, label, table.names) from None


def check_written(
    backend: Backend, fd: int, table: Table, structure: bytes, saved: Saved, opt: Options, label: str | None
) -> None:
    """Read a file back, decode it, and compare it with the tensors as they are now."""
    stream = Stream(fd=fd)
    index = read_index(backend, stream, label)
    if index.structure != structure or index.names != table.names:
        raise InternalError("the file read back is not the one written", path=label)
    items = Items()
    for number, nbytes in enumerate(table.nbytes):
        items.add(number, nbytes, None, 0)
        items.references[number] = table.references[number] if index.references[number] else 0
        items.reference_nbytes[number] = nbytes if index.references[number] else 0
    items.keep = list(table.keep)
    try:
        backend.load(stream, items, opt, salvage=False, verify_only=True)
        now = backend.fingerprints(table)
    except UlpackError as error:
        raise located(error, label, table.names) from None
    for name, written, current in zip(table.names, index.fingerprints, now, strict=True):
        if written != current:
            raise CorruptError("the tensor changed while it was saved", tensor=name, path=label)


def report(
    saved: Saved,
    table: Table,
    matches: list[Match | str],
    references: References,
    label: str | None,
    backend: Backend,
    aliases: list[str],
) -> SaveInfo:
    """What a save did, as the public record."""
    tensors = tuple(
        SavedTensor(
            name,
            PLANS.get(plan, f"plan {plan}"),
            nbytes,
            raw,
            fingerprint,
            None if isinstance(match, str) else match.name,
            match if isinstance(match, str) else None,
        )
        for name, plan, nbytes, raw, fingerprint, match in zip(
            table.names, saved.plans, saved.blob_nbytes, table.nbytes, saved.fingerprints, matches, strict=True
        )
    )
    missing = tuple(references.missing_from(table.names + aliases))
    return SaveInfo(label, saved.written, sum(table.nbytes), tensors, missing, backend.name)


def _warn_about_empty_optimizers(state: Any) -> None:
    import warnings

    for place in _empty_optimizers(state, "state", 0):
        warnings.warn(
            f"{place} is the state of an optimizer with parameters but without any state of theirs; "
            "was it taken before the first step, or from another optimizer?",
            UlpackWarning,
            stacklevel=3,
        )


def _keeps_state(group: Mapping[Any, Any]) -> bool:
    """Whether an optimizer with this parameter group has state after its first step; SGD without momentum has none."""
    return "betas" in group or group.get("momentum") != 0


def _empty_optimizers(node: Any, place: str, depth: int) -> Iterator[str]:
    if depth > 3 or not isinstance(node, Mapping):
        return
    groups = node.get("param_groups")
    if isinstance(groups, (list, tuple)) and node.get("state") == {}:
        if any(isinstance(group, Mapping) and group.get("params") and _keeps_state(group) for group in groups):
            yield place
        return
    for key, value in node.items():
        yield from _empty_optimizers(value, f"{place}[{key!r}]", depth + 1)

"""Stored states encoded again: on another base, on none, or only those values that others need."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from .._buffers import View
from .encode import Encoded, Identified, Incoming, recoded
from .manifest import Manifest
from .session import Session
from .state import Held, State, load_state
from .writer import Writer


def rebase(writer: Writer, manifest: Manifest, base: str | None, accept: Callable[[Encoded], bool]) -> Manifest | None:
    """Encode what a state holds in its own delta file against another base; None if the result is not accepted.

    If it is, the state is held in memory afterwards.
    """
    loaded = _load(writer, manifest)
    elsewhere = {n: v for n, v in loaded.state.values.items() if v.owners[-1] != manifest.id}
    known = State(manifest.id, elsewhere, loaded.state.same, loaded.state.overheads)
    reference = writer.reference(base) if base is not None else None
    new = _identified(manifest, loaded, loaded.views)
    encoded = writer.encoder.write_data(
        new, manifest.revision + 1, known, reference, shallow=base is None, accept=accept
    )
    return _replace(writer, manifest, encoded, loaded)


def fold(writer: Writer, manifest: Manifest) -> Manifest:
    """Encode a state so that it needs no other one."""
    loaded = _load(writer, manifest)
    new = _identified(manifest, loaded, loaded.views)
    encoded = writer.encoder.write_data(
        new, manifest.revision + 1, None, None, shallow=False, accept=lambda encoded: True
    )
    folded = _replace(writer, manifest, encoded, loaded)
    assert folded is not None
    return folded


def trim(writer: Writer, manifest: Manifest, names: Iterable[str]) -> Manifest:
    """Reduce a state that was pruned to the values of these names, which others need. The result is hidden."""
    loaded = _load(writer, manifest)
    views = {name: loaded.views[name] for name in names}
    encoded = writer.encoder.write_data(
        _identified(manifest, loaded, views),
        manifest.revision + 1,
        None,
        None,
        shallow=False,
        accept=lambda encoded: True,
    )
    assert encoded is not None
    trimmed = recoded(manifest, encoded, manifest.revision + 1, hidden=True)
    writer.replace_manifest(manifest, trimmed)
    return trimmed


def hide(writer: Writer, manifest: Manifest) -> None:
    """Take a state that others need out of the list of steps."""
    writer.replace_manifest(manifest, dataclasses.replace(manifest, hidden=True, revision=manifest.revision + 1))


def _load(writer: Writer, manifest: Manifest) -> Held:
    """The values of a state, in the memory of the next snapshot."""
    with Session(writer.catalog, writer.backend) as session:
        return load_state(session, manifest, writer.borrow(), writer.opt)


def _identified(manifest: Manifest, loaded: Held, views: dict[str, View]) -> Identified:
    """A loaded state as one to be stored: the identity stays."""
    values = loaded.state.values
    return Identified(
        Incoming(manifest.step, {}, b""),
        loaded.contents,
        manifest.values,
        views,
        {name: values[name].fingerprint for name in views},
        manifest.raw_nbytes,
    )


def _replace(writer: Writer, manifest: Manifest, encoded: Encoded | None, loaded: Held) -> Manifest | None:
    if encoded is None:
        return None
    new = recoded(manifest, encoded, manifest.revision + 1)
    writer.replace_manifest(manifest, new)
    writer.hold(Held(encoded.state, loaded.views, loaded.contents))
    return new

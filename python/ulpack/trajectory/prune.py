"""Steps taken out of a store without breaking those that stay."""

from __future__ import annotations

import errno
import graphlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..errors import CorruptError, StorageError
from .contents import CONTENTS, STRUCTURE, file_name, read_ranges
from .encode import Encoded
from .layout import step_of
from .manifest import Manifest
from .recode import hide, rebase, trim
from .retention import Retention, kept
from .session import Session
from .settings import Settings
from .sweep import closure, sweep
from .writer import Writer

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


class Removed(NamedTuple):
    """What a removal did: steps encoded again, and bytes of the data folder before and after."""

    rebased: tuple[int, ...]
    nbytes_before: int
    nbytes_after: int


class Plan(NamedTuple):
    """What a prune does: for each step that stays the reasons, and the states that go."""

    stay: dict[int, tuple[str, ...]]
    doomed: list[Manifest]

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps that go."""
        return tuple(sorted({manifest.step for manifest in self.doomed} - self.stay.keys()))


def plan(writer: Writer, settings: Settings, rules: Retention) -> Plan:
    """What the rules keep and what they do not.

    Raises:
        CorruptError: a manifest cannot be read.
    """
    reasons = kept(writer.catalog, settings, rules)
    manifests, bad = writer.catalog.manifests(name.id for name in writer.catalog.visible())
    for error in bad.values():
        raise error
    stay: dict[int, tuple[str, ...]] = {}
    for manifest in manifests:
        if manifest.id in reasons:
            stay[manifest.step] = (*stay.get(manifest.step, ()), *reasons[manifest.id])
    return Plan(stay, [manifest for manifest in manifests if manifest.id not in reasons])


def remove(writer: Writer, doomed: Iterable[Manifest]) -> Removed:
    """Remove states. Those that were stored against them are first stored against something that stays.

    Every step on the way writes new files, then puts one manifest in place of another, then removes what nothing needs:
    a process killed at any moment leaves all steps that stay loadable.

    Raises:
        CorruptError: a manifest cannot be read, so what it needs is not known; nothing was removed.
    """
    gone = {manifest.id for manifest in doomed}
    before = data_nbytes(writer)
    rebased, full = _rebase_all(writer, gone)
    _take_out(writer, gone)
    if full:  # what is gone has made room
        rebased += _rebase_all(writer, gone)[0]
    writer.forget()
    sweep(writer.catalog, thorough=True)
    return Removed(tuple(rebased), before, data_nbytes(writer))


def _rebase_all(writer: Writer, gone: set[str]) -> tuple[list[int], bool]:
    """Store what stays against something that stays; the steps, and whether the disk was too full for some."""
    manifests = _all(writer)
    rebased: list[int] = []
    full = False
    for manifest in sorted(manifests.values(), key=lambda m: m.step):
        stays = manifest.id not in gone and not manifest.hidden
        if not stays or manifest.base is None or not _is_gone(manifest.base, manifests, gone):
            continue
        try:
            if _rebase(writer, manifest, manifests, gone):
                rebased.append(manifest.step)
        except StorageError as error:
            if error.errno not in _FULL:
                raise
            full = True  # the values it needs stay, hidden
    return rebased, full


def _take_out(writer: Writer, gone: set[str]) -> None:
    """Remove the states that nothing needs, then hide those that are needed."""
    manifests = _all(writer)
    needed = closure(manifests, {m.id for m in manifests.values() if not m.hidden and m.id not in gone})
    going = _dependents_first(manifests, gone & manifests.keys())
    for identity in going:
        if identity not in needed:
            writer.remove_manifest(manifests[identity])
    sweep(writer.catalog, thorough=True)
    for identity in going:  # now nothing visible needs what is trimmed from these
        if identity in needed:
            _hide(writer, manifests[identity], manifests, needed)


def _dependents_first(manifests: Mapping[str, Manifest], identities: set[str]) -> list[str]:
    """States in an order in which each comes before those it needs."""
    graph = {identity: manifests[identity].needs() & identities for identity in identities}
    try:
        return list(graphlib.TopologicalSorter(graph).static_order())[::-1]
    except graphlib.CycleError:
        return sorted(identities, key=step_of, reverse=True)


def _all(writer: Writer) -> dict[str, Manifest]:
    manifests, bad = writer.catalog.manifests()
    if bad:
        steps = ", ".join(str(step_of(identity)) for identity in bad)
        raise CorruptError(
            f"the manifests of steps {steps} cannot be read, so what they need is not known; nothing was removed",
            path=str(writer.layout),
        )
    return {manifest.id: manifest for manifest in manifests}


def data_nbytes(writer: Writer) -> int:
    """Bytes of all delta files."""
    return _nbytes(_all(writer))


def _nbytes(manifests: Mapping[str, Manifest]) -> int:
    return sum(m.data.nbytes for m in manifests.values() if m.data is not None)


def _is_gone(identity: str, manifests: Mapping[str, Manifest], gone: set[str]) -> bool:
    found = manifests.get(identity)
    return identity in gone or (found is not None and found.hidden)


def _rebase(writer: Writer, manifest: Manifest, manifests: Mapping[str, Manifest], gone: set[str]) -> bool:
    """Store a state against another one that stays, or against none, if that is no larger than what it replaces."""
    below, replaced = manifest.base, manifest.data.nbytes if manifest.data is not None else 0
    while below is not None and _is_gone(below, manifests, gone):
        found = manifests.get(below)
        if found is None:
            return False
        replaced += found.data.nbytes if found.data is not None else 0
        below = found.base
    if below is not None and below not in manifests:
        return False  # somebody removed it by hand: then this state cannot be read either

    has_dependents = any(manifest.id in other.needs() for other in manifests.values())

    def accept(encoded: Encoded) -> bool:
        nbytes = encoded.data.nbytes if encoded.data is not None else 0
        if has_dependents and (encoded.state.nbytes > manifest.chain[0] or encoded.state.depth > manifest.chain[1]):
            return False  # what is stored against it would cost more to load than it may
        return nbytes <= replaced and writer.policy.allows(encoded.state, manifest.raw_nbytes)

    choices = dict.fromkeys((_nearest(manifest, manifests, gone), below))
    return any(rebase(writer, manifest, choice, accept) is not None for choice in choices)


def _nearest(manifest: Manifest, manifests: Mapping[str, Manifest], gone: set[str]) -> str | None:
    """The last step before this one that stays and does not need it."""
    before = (
        other
        for other in manifests.values()
        if other.step < manifest.step and other.line <= manifest.line and not _is_gone(other.id, manifests, gone)
    )
    for other in sorted(before, key=lambda m: (m.line, m.step), reverse=True)[:2]:
        if manifest.id not in closure(dict(manifests), {other.id}):
            return other.id
    return None


def _hide(writer: Writer, manifest: Manifest, manifests: Mapping[str, Manifest], needed: set[str]) -> None:
    """Take a state that others need from the list of steps, and what nobody needs from its delta file."""
    names = _needed_names(writer, manifest, manifests, needed)
    if names is not None and manifest.data is not None and _share(writer, manifest, names) < 0.5:
        try:
            trim(writer, manifest, names)
            return
        except StorageError as error:
            if error.errno not in _FULL:
                raise
    hide(writer, manifest)


def _needed_names(
    writer: Writer, manifest: Manifest, manifests: Mapping[str, Manifest], needed: set[str]
) -> list[str] | None:
    """Names of the values that others use of this state's delta file; None if they may use any, as its base."""
    names: dict[str, None] = {}
    for identity in needed & manifests.keys():
        other = manifests[identity]
        if other.base == manifest.id:
            return None
        words = other.kept.get(manifest.id, "").split()
        if not words:
            continue
        with Session(writer.catalog, writer.backend) as session:
            contents = session.contents(other)
        for word, key in (("contents", CONTENTS), ("structure", STRUCTURE)):
            if word in words:
                words.remove(word)
                names[key] = None
        for position in read_ranges(" ".join(words), len(contents.names)):
            names[file_name(contents.names[position])] = None
    return list(names)


def _share(writer: Writer, manifest: Manifest, names: list[str]) -> float:
    """Part of a delta file's bytes that these values take."""
    with Session(writer.catalog, writer.backend) as session:
        file = session.file(manifest)
        assert file is not None
        blobs = file.index.raw["tensors"]
        used = sum(blobs[file.numbers[name]]["blob_nbytes"] for name in names)
        return used / max(1, file.index.raw["file_nbytes"])

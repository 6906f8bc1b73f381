"""The writer of a store: holds its lock, commits steps one after the other, and keeps the last one in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from .. import _files
from .._backend import Backend, Options
from .._buffers import View
from ..errors import ArgumentError, StorageError, from_os
from .catalog import Catalog
from .encode import Encoded, Encoder, Identified, Incoming, identify, now
from .layout import Layout, Name
from .lock import WriterLock
from .manifest import Manifest
from .memory import Arena
from .policy import Policy
from .session import Session
from .snapshot import Copy, Snapshot
from .state import Held, State, load_state, read_state
from .sweep import sweep

EXISTING = ("error", "replace", "keep")


class Writer:
    """Writes to a store.

    At most two state-sized blocks of memory are held: the last step (what the next one is coded against) and the state
    that is being saved.

    Raises:
        LockedError: somebody else writes to the store.
    """

    def __init__(self, layout: Layout, backend: Backend, opt: Options, policy: Policy, verify: bool) -> None:
        self.layout = layout
        self.backend = backend
        self.opt = opt
        self.policy = policy
        self.encoder = Encoder(layout, backend, opt, policy, verify)
        self.catalog = Catalog(layout)
        self.tip: str | None = None  # what the next state goes on from; None: the latest step
        self._held: Held | None = None
        self._snapshots = [Snapshot(), Snapshot()]  # the first may be the memory of what is held
        self.lock = WriterLock(layout.lock)
        try:
            self.refresh()
        except BaseException:
            self.lock.release()
            raise

    def refresh(self) -> None:
        """Look at the store as it is now and take leftovers away."""
        self.catalog.refresh()
        sweep(self.catalog)

    def close(self) -> None:
        """Give the lock back."""
        if self.lock.pid == os.getpid():
            self.catalog.keep_copies()
            self.lock.release()

    # Memory

    def snapshot(self, state: Any) -> Copy:
        """Copy a state into the block of memory that holds nothing needed."""
        return self._snapshots[1].take(state)

    def snapshot_views(self, views: Mapping[str, View]) -> dict[str, View]:
        """Copy values there; their views by name."""
        return self._snapshots[1].take_views(views)

    def borrow(self) -> Arena:
        """The memory of the next snapshot, for a stored state."""
        return self._snapshots[1].borrow()

    def prepare(self) -> None:
        """Have the system provide the memory of the next snapshot."""
        self._snapshots[1].warm(self._snapshots[0])

    def hold(self, held: Held) -> None:
        """Keep a state that lies in the memory of the last snapshot as the reference of the next one."""
        self._held = held
        self._snapshots.reverse()

    def forget(self) -> None:
        """Hold nothing: the store was changed in a way that moved values to other files."""
        self._held = None

    def reference(self, identity: str) -> Held:
        """A stored state in memory, loaded if it is not held."""
        if self._held is None or self._held.state.id != identity:
            self._held = None
            with Session(self.catalog, self.backend) as session:
                manifest = self.catalog.manifest(identity)
                self._held = load_state(session, manifest, self._snapshots[0].borrow(), self.opt)
        return self._held

    def known(self, identity: str) -> State:
        """What is known of a stored state."""
        if self._held is not None and self._held.state.id == identity:
            return self._held.state
        with Session(self.catalog, self.backend) as session:
            return read_state(session, self.catalog.manifest(identity)).state

    # Commit

    def check_free(self, step: int, existing: str) -> None:
        """Raise ArgumentError if the step is there and may not be."""
        if existing not in EXISTING:
            raise ArgumentError(f"existing is {existing!r}; it may be {', '.join(map(repr, EXISTING))}")
        if existing == "error" and self.catalog.at(step):
            raise ArgumentError(
                f"step {step} is in the store already; existing='replace' replaces it, existing='keep' keeps both",
                path=str(self.layout),
            )

    def commit(self, incoming: Incoming, *, existing: str, parent: str | None = "last") -> Manifest:
        """Store a state. When this returns it is on disk.

        Args:
            incoming: the state, in the memory of the last snapshot.
            existing: what to do if there is another state of this step: "error", "replace" or "keep".
            parent: identity of the state it goes on from; "last": the last one saved or loaded; None: none.
        """
        new = identify(self.backend, incoming)
        old = self.catalog.name(new.id)
        if old is not None and not old.hidden:
            return self._again(new)
        self.check_free(incoming.step, existing)
        before = self.catalog.at(incoming.step)
        origin, line = self._origin(incoming.step, parent)
        # Of a hidden state some values may be gone, and others may need it: it is stored again as a whole.
        revision = 0 if old is None else old.revision + 1
        encoded = self._encode(new, origin if old is None else None, revision)
        manifest = self.encoder.manifest(new, encoded, line=line, revision=revision, parent=origin)
        manifest = dataclasses.replace(manifest, saved=self._time_after(before))
        self.encoder.write_manifest(manifest)
        if old is not None:
            with contextlib.suppress(StorageError):
                self.remove_manifest(self.catalog.manifest(old.id))
        self.catalog.add(manifest)
        if old is not None:
            sweep(self.catalog, thorough=True)
        self.hold(Held(encoded.state, new.views, new.contents))
        self.tip = manifest.id
        if existing == "replace" and before:
            from .prune import remove

            remove(self, [self.catalog.manifest(name.id) for name in before])
        self.catalog.keep_copies()
        return manifest

    def _again(self, new: Identified) -> Manifest:
        """The same state of the same step once more: it is the newest of the step, and tags and metrics can be new."""
        old = self.catalog.manifest(new.id)
        others = [name for name in self.catalog.at(old.step) if name.id != old.id]
        tags = (*old.tags, *(tag for tag in new.incoming.tags if tag not in old.tags))
        metrics = {**old.metrics, **new.incoming.metrics}
        if others or (tags, metrics) != (old.tags, old.metrics):
            again = dataclasses.replace(old, tags=tags, metrics=metrics, revision=old.revision + 1)
            self.replace_manifest(
                old, dataclasses.replace(again, saved=self._time_after(others) if others else old.saved)
            )
        self.tip = new.id
        return self.catalog.manifest(new.id)

    def _time_after(self, names: list[Name]) -> str:
        """The time, after that of other states of the same step whatever the clock says."""
        return now(max((self.catalog.manifest(name.id).saved for name in names), default=""))

    def replace_manifest(self, old: Manifest, new: Manifest) -> None:
        """Put a manifest of a higher revision in place of another one."""
        self.encoder.write_manifest(new)
        self.catalog.add(new)
        with contextlib.suppress(StorageError):  # of two revisions the higher one counts
            self.remove_manifest(old)

    def remove_manifest(self, manifest: Manifest) -> None:
        """Remove a manifest.

        Raises:
            StorageError: it cannot be removed.
        """
        path = self.layout.steps / str(manifest.name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise from_os(error, os.fspath(path)) from error
        self.catalog.remove(manifest.name)
        _files.sync_folder(os.fspath(self.layout.steps))

    def _origin(self, step: int, parent: str | None) -> tuple[str | None, int]:
        """What a state goes on from, and its line."""
        latest = self.catalog.latest()
        next_line = max((name.line for name in self.catalog.names()), default=-1) + 1
        if latest is None or parent is None:
            return None, next_line
        tip = self.catalog.name((self.tip if parent == "last" else parent) or latest.id) or latest
        if tip.hidden:
            tip = latest
        if tip.step > step:  # an older step, added later
            below = [name for name in self.catalog.visible() if name.step < step]
            origin = max(below, key=lambda name: (name.step, name.line), default=None)
            return (origin.id, origin.line) if origin is not None else (None, 0)
        goes_on = (tip.line, tip.step) == (latest.line, latest.step)
        return tip.id, tip.line if goes_on else next_line

    def _encode(self, new: Identified, origin: str | None, revision: int) -> Encoded:
        known = self.known(origin) if origin is not None else None
        last = self._data_nbytes(origin)
        if known is not None and known.root == known.id:
            last //= 2  # an anchor; a delta is smaller
        root = self._data_nbytes(known.root) if known is not None else 0
        for choice in self.policy.choose(known, new.raw_nbytes, last, root):
            encoded = self.encoder.write_data(
                new,
                revision,
                known,
                self.reference(choice) if choice is not None else None,
                shallow=choice != origin,
                accept=lambda found, choice=choice: (  # type: ignore[misc]
                    choice is None or self.policy.allows(found.state, new.raw_nbytes)
                ),
            )
            if encoded is not None:
                return encoded
        raise AssertionError("an anchor is always accepted")

    def _data_nbytes(self, identity: str | None) -> int:
        if identity is None or identity not in self.catalog:
            return 0
        data = self.catalog.manifest(identity).data
        return data.nbytes if data is not None else 0

"""Trajectory: the public face of a store."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from .. import _backend
from .._backend import Progress
from .._options import options
from ..errors import ArgumentError, CorruptError, ForkError, MissingFileError
from .background import Saving, Worker
from .catalog import Catalog
from .encode import Incoming
from .layout import MAX_STEP, Layout
from .manifest import Manifest
from .policy import MAX_COST, MAX_FILES, Policy
from .reader import Names, load_step
from .records import PruneInfo, StepInfo, StoreReport, Why, step_info
from .retention import Best, Retention
from .session import Session
from .settings import Settings, create, read_settings, write_settings
from .writer import Writer

T = TypeVar("T")
_RETRIES = 100  # of a read that a prune in another process took files away from


class Trajectory:
    """The checkpoints of a training run in a folder: each one complete for the reader, a small delta on disk.

        with ulpack.Trajectory("run") as trajectory:
            trajectory.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
            state = trajectory.load("latest")

    A step is there from the moment it is complete on disk, and never before. One process at a time writes (the first
    call that does takes the lock, ``close`` gives it back); any number read meanwhile. An object may be used from
    several threads. In a child after fork it can only read.

    Args:
        path: the folder. It is made by the first ``save``; reading from one that is not there is an error.
        background: compress and write saves on a thread of their own, from a copy of the state.
        on_error: what the call after a failed background save does: "raise" its error, or "warn" and go on.
        max_cost: loading a step reads at most this many times the bytes of its values, or 64 KiB if that is more.
        max_files: delta files that a value is decoded through at most.
        verify: read every delta file back, decode it and compare before its step appears.
        threads: None = as many as the machine has. Never changes the bytes.
        effort: "fast", "default" or "max"; recorded in the files.
        higher_is_better: metrics of which the highest value is the best; recorded in the store. Of others it is the
            lowest.
        retention: rules of ``prune`` to apply after every save, for example ``{"keep_last": 3, "keep_best": "loss"}``.

    Raises:
        CorruptError, UnsupportedError: the header of the store is damaged, or of a later version.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        background: bool = True,
        on_error: str = "raise",
        max_cost: float = MAX_COST,
        max_files: int = MAX_FILES,
        verify: bool = False,
        threads: int | None = None,
        effort: str | int | None = None,
        higher_is_better: Iterable[str] = (),
        retention: Mapping[str, Any] | None = None,
    ) -> None:
        self._layout = Layout(path)
        self._background = background
        self._worker = Worker(on_error)
        self._policy = Policy(max_cost, max_files)
        self._policy.check()
        self._verify = verify
        self.retention = retention
        self._opt = options(threads, None, effort)
        if isinstance(higher_is_better, str):
            higher_is_better = (higher_is_better,)
        self._settings = Settings(tuple(higher_is_better))
        if self._layout.exists():
            self._read_settings()
        self._catalog = Catalog(self._layout)
        self._writer: Writer | None = None
        self._tip: str | None = None
        self._lock = threading.RLock()

    @property
    def path(self) -> Path:
        """The folder."""
        return self._layout.root

    @property
    def retention(self) -> Mapping[str, Any] | None:
        """Rules of ``prune`` that are applied after every save."""
        return None if self._retention is None else self._retention._asdict()

    @retention.setter
    def retention(self, rules: Mapping[str, Any] | None) -> None:
        made = None if rules is None else Retention(**rules)
        if made is not None:
            made.check()
        self._retention = made

    def exists(self) -> bool:
        """Whether there is a store with at least one step."""
        return self._layout.exists() and bool(self.steps())

    def __repr__(self) -> str:
        return f"Trajectory({str(self._layout)!r})"

    def __enter__(self) -> Trajectory:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise

    # Writing

    def save(
        self,
        step: int,
        state: Any,
        *,
        tags: str | Iterable[str] = (),
        metrics: Mapping[str, float] | None = None,
        existing: str = "error",
        parent: int | str | None = "last",
        after: Callable[[StepInfo], None] | None = None,
    ) -> Saving:
        """Save a state.

        With ``background`` this returns when the state has been copied; the save goes on while training does. A second
        call waits for the first save to end: there are never more than two copies of a state. ``flush()``, or
        ``wait()`` of the result, returns when the step is on disk; so does the end of the program.

        Args:
            step: its number, at least 0.
            state: any nest of tensors and plain values, as for ``save_delta``.
            tags: names to find it by; tagged steps are not pruned.
            metrics: numbers to choose steps by ("best:loss").
            existing: if another state of this step is there: "error", "replace" it, or "keep" both (``load`` of the
                step gives the newer one, of its ``id`` the older one).
            parent: the step it goes on from: "last" is the one that this object saved last, or loaded first, or the
                latest;
                None: it goes on from nothing, which begins a new line.
            after: called with the step's record when it is on disk, in the thread that saved it; it may not wait for
                this object.

        Returns:
            What can be waited for; its ``blocked`` says how long this call took.

        Raises:
            LockedError: another process writes to the store.
            UnsupportedTypeError: the state holds something a file cannot; nothing has changed.
            UlpackError: the save before this one failed (with ``on_error="raise"``); this state was not saved.
        """
        begin = time.perf_counter()
        self._check_step(step)
        tag_names, numbers = _tags(tags), _metrics(metrics)
        with self._lock:
            writer = self._ready()
            writer.check_free(step, existing)
            copying = time.perf_counter()
            copy = writer.snapshot(state)
            copied = time.perf_counter() - copying

            def incoming() -> Incoming:
                return Incoming(step, *copy.take_apart(), "state", tag_names, numbers)

            return self._start(writer, step, incoming, existing, parent, begin, copied, after)

    def add(
        self,
        path: str | os.PathLike[str],
        *,
        step: int | None = None,
        tags: str | Iterable[str] = (),
        metrics: Mapping[str, float] | None = None,
        existing: str = "error",
        parent: int | str | None = "last",
        after: Callable[[StepInfo], None] | None = None,
    ) -> Saving:
        """Save a checkpoint file or folder; ``export`` gives the same files back, byte for byte.

        Args:
            path: a ``.safetensors`` file, a torch file, a folder with such and any other files, or any file.
            step: its number; by default what its ``trainer_state.json`` records, else the last number in its name.
            tags, metrics, existing, parent, after: as for ``save``.

        Raises:
            MissingFileError: it is not there.
            ArgumentError: no step was given and none found.
            UlpackError: as for ``save``.
        """
        from .add import step_of_path, take_apart

        begin = time.perf_counter()
        source = Path(os.fspath(path))
        if step is None:
            if not source.exists():
                raise MissingFileError("no such file or folder", path=os.fspath(source))
            step = step_of_path(source)
        self._check_step(step)
        tag_names, numbers = _tags(tags), _metrics(metrics)
        with self._lock:
            writer = self._ready()
            writer.check_free(step, existing)
            mapped, _ = take_apart(source, step, tag_names, numbers)
            copying = time.perf_counter()
            incoming = mapped._replace(views=writer.snapshot_views(mapped.views))
            copied = time.perf_counter() - copying
            del mapped
            return self._start(writer, step, lambda: incoming, existing, parent, begin, copied, after)

    def _start(
        self,
        writer: Writer,
        step: int,
        incoming: Callable[[], Incoming],
        existing: str,
        parent: int | str | None,
        begin: float,
        copied: float,
        after: Callable[[StepInfo], None] | None = None,
    ) -> Saving:
        origin: str | None = "last"
        if parent != "last":
            origin = None if parent is None else writer.catalog.find(parent, self._settings).id
        saving = Saving(step)
        saving.copied = copied

        def job() -> Manifest:
            manifest = writer.commit(incoming(), existing=existing, parent=origin)
            with saving.trouble():
                self._retain(writer)
            if after is not None:
                with saving.trouble():
                    after(step_info(manifest))
            writer.prepare()
            return manifest

        self._worker.start(saving, job, self._background)
        saving.blocked = time.perf_counter() - begin
        if not self._background:
            saving.wait()
        return saving

    def _retain(self, writer: Writer) -> None:
        """Apply the rules that the object was given."""
        from .prune import plan, remove

        if self._retention is not None:
            planned = plan(writer, self._settings, self._retention)
            if planned.doomed:
                remove(writer, planned.doomed)

    def flush(self) -> None:
        """Wait until everything that was saved is on disk.

        Raises:
            UlpackError: a save failed (with ``on_error="raise"``).
        """
        with self._lock:
            self._worker.join()
            self._worker.report()

    def close(self) -> None:
        """Flush, and let others write. The object can be used again."""
        with self._lock:
            try:
                self.flush()
            finally:
                self._worker.stop()
                if self._writer is not None:
                    self._tip = self._writer.tip
                    self._writer.close()
                    self._writer = None

    def prune(
        self,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        keep_best: Best = None,
        keep_tagged: bool = True,
        dry_run: bool = False,
    ) -> PruneInfo:
        """Remove steps, all but those that a rule keeps and the latest.

        Steps that stay are stored again where what they were stored against goes; where that would take more room than
        it frees, the values they need stay, hidden. Killed at any moment, it leaves all steps that stay loadable.

        Args:
            keep_last: this many of the last steps.
            keep_every: steps that are multiples of this.
            keep_best: a metric, several, or {metric: how many of the best}.
            keep_tagged: steps with tags.
            dry_run: only say what would go.

        Raises:
            ArgumentError: no rule was given.
            CorruptError: a manifest is damaged, so it is not known what it needs; nothing was removed.
        """
        from .prune import data_nbytes, plan, remove

        rules = Retention(keep_last, keep_every, keep_best, keep_tagged)
        rules.check()
        with self._lock:
            writer = self._ready()
            planned = plan(writer, self._settings, rules)
            if dry_run or not planned.doomed:
                nbytes = data_nbytes(writer)
                return PruneInfo(planned.stay, planned.steps, (), nbytes, nbytes)
            return PruneInfo(planned.stay, planned.steps, *remove(writer, planned.doomed))

    def remove(self, step: int | str) -> PruneInfo:
        """Remove one step, tagged or not; those stored against it are stored again, as by ``prune``.

        Raises:
            MissingFileError: it is not there.
        """
        from .prune import remove

        with self._lock:
            writer = self._ready()
            found = writer.catalog.find(step, self._settings)
            removed = remove(writer, [found])
            stay = {name.step: () for name in writer.catalog.visible()}
            return PruneInfo(stay, (found.step,), *removed)

    def fold(self, step: int | str = "latest") -> StepInfo:
        """Store a step again so that it needs no other one: an anchor.

        Raises:
            MissingFileError: it is not there.
        """
        from .recode import fold
        from .sweep import sweep

        with self._lock:
            writer = self._ready()
            folded = fold(writer, writer.catalog.find(step, self._settings))
            writer.forget()
            sweep(writer.catalog, thorough=True)
            return step_info(folded)

    def tag(self, step: int | str, name: str) -> StepInfo:
        """Give a step a tag. The same tag may be on several steps: ``load`` takes the last of them.

        Raises:
            MissingFileError: the step is not there.
        """
        (name,) = _tags(name)
        return self._retag(step, lambda tags: (*(tag for tag in tags if tag != name), name))

    def untag(self, step: int | str, name: str) -> StepInfo:
        """Take a tag from a step.

        Raises:
            MissingFileError: the step is not there.
        """
        return self._retag(step, lambda tags: tuple(tag for tag in tags if tag != name))

    def _retag(self, step: int | str, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> StepInfo:
        with self._lock:
            writer = self._ready()
            old = writer.catalog.find(step, self._settings)
            new = dataclasses.replace(old, tags=change(old.tags), revision=old.revision + 1)
            if new.tags != old.tags:
                writer.replace_manifest(old, new)
            return step_info(writer.catalog.manifest(old.id))

    def _ready(self) -> Writer:
        """The writer, with nothing going on, after a report of what went wrong before."""
        if self._worker.pid != os.getpid():
            raise ForkError("this trajectory belongs to the parent process; a child can only read", path=str(self.path))
        self._worker.join()
        self._worker.report()
        if self._writer is None:
            if not self._layout.exists():
                self._layout.root.mkdir(parents=True, exist_ok=True)
            self._writer = self._open_writer()
        self._writer.lock.check()
        return self._writer

    def _open_writer(self) -> Writer:
        wanted = self._settings.higher_is_better
        fresh = not self._layout.exists()
        if fresh:
            create(self._layout, self._settings)
        writer = Writer(self._layout, _backend.select(), self._opt, self._policy, self._verify)
        try:
            self._read_settings()
            if not set(wanted) <= set(self._settings.higher_is_better):
                merged = dict.fromkeys((*self._settings.higher_is_better, *wanted))
                self._settings = Settings(tuple(merged))
                write_settings(self._layout, self._settings)
        except BaseException:
            writer.close()
            raise
        writer.tip = self._tip
        return writer

    def _read_settings(self) -> None:
        found = read_settings(self._layout).higher_is_better
        self._settings = Settings(tuple(dict.fromkeys((*found, *self._settings.higher_is_better))))

    # Reading

    def load(
        self,
        step: int | str = "latest",
        *,
        names: Names = None,
        out: Any = None,
        device: Any = None,
        progress: Progress | bool | None = None,
        salvage: bool = False,
    ) -> Any:
        """Give back a state, every bit of it.

        Args:
            step: a step, "latest", "best:<metric>" (":min" or ":max" behind it overrides which end is the best), a tag,
                or the ``id`` of a state.
            names: names of tensors to load, instead of everything: the result is a dict from name to tensor. A dict
                from name to rows, as slices or (begin, end), loads only those rows; None as rows is all of them.
            out: a state whose tensors are decoded into: those of the same name, which must have the same dtype and
                shape. After an error they are undefined.
            device: torch device to put torch tensors on.
            progress: called with (bytes done, bytes in all); True draws a bar on a terminal.
            salvage: go on after damage and return a ``Salvaged`` (state, bad).

        Raises:
            MissingFileError: the step is not there, or one that it needs is gone; the message names it.
            CorruptError, TruncatedError: a file is damaged.
            UlpackError: a save that this call waited for failed (with ``on_error="raise"``).
        """
        opt = options(self._opt.threads or None, progress, self._opt.effort)

        def read(catalog: Catalog) -> Any:
            manifest = catalog.find(step, self._settings)
            with Session(catalog, _backend.select()) as session:
                state = load_step(session, manifest, opt, names=names, out=out, device=device, salvage=salvage)
            return manifest.id, state

        with self._lock:
            identity, state = self._read(read)
            if names is None:
                self._went_on(identity)
            return state

    def _went_on(self, identity: str) -> None:
        """Whoever loads a step before saving any goes on from it."""
        if self._writer is None:
            self._tip = identity
        elif self._writer.tip is None:
            self._writer.tip = identity

    def steps(self) -> list[int]:
        """The steps that are there, ascending."""
        with self._lock:
            return self._read(Catalog.steps)

    def __len__(self) -> int:
        return len(self.steps())

    def __contains__(self, step: object) -> bool:
        return step in self.steps()

    def log(self) -> list[StepInfo]:
        """All steps by number, with what each is and what loading it costs.

        Raises:
            CorruptError: a manifest is damaged; ``verify`` tells which steps are good.
        """

        def read(catalog: Catalog) -> list[StepInfo]:
            manifests, bad = catalog.manifests(name.id for name in catalog.visible())
            for error in bad.values():
                raise error
            return [step_info(manifest) for manifest in manifests]

        with self._lock:
            return self._read(read)

    def holds(self, path: str | os.PathLike[str], *, step: int | None = None) -> StepInfo | None:
        """The step from which a checkpoint file or folder can be made again exactly as it is now, or None.

        Args:
            path: the file or folder; every byte of it is read.
            step: where to look; by default as for ``add``.

        Raises:
            MissingFileError: it is not there.
            ArgumentError: no step was given and none found.
        """
        from .add import identity_of

        identity = identity_of(_backend.select(), Path(os.fspath(path)), step)
        catalog = Catalog(self._layout)  # another thread may be waiting for a save, and this be called at the end of it
        catalog.refresh()
        name = catalog.name(identity)
        return None if name is None or name.hidden else step_info(catalog.manifest(identity))

    def info(self, step: int | str = "latest") -> StepInfo:
        """One step: what it is and what loading it costs.

        Raises:
            MissingFileError: it is not there.
        """
        with self._lock:
            return self._read(lambda catalog: step_info(catalog.find(step, self._settings)))

    def why(self, step: int | str) -> Why:
        """What a step needs, and what needs it. Also for one that was pruned and whose values others still need.

        Raises:
            MissingFileError: it is not there.
        """
        from .graph import why

        with self._lock:
            return self._read(lambda catalog: why(catalog, step, self._settings))

    def verify(self, *, decode: bool = True, progress: Progress | bool | None = None) -> StoreReport:
        """Check everything: manifests, SHA-256 of all delta files, and every value against its fingerprint.

        Args:
            decode: decode the values; without, only files are compared with their checksums.
            progress: called with (bytes done, bytes in all); True draws a bar on a terminal.

        Returns:
            Which steps are good and what is wrong with the others (``load`` with ``salvage`` gives their good tensors);
            its ``check()`` raises the first error.
        """
        from .verify import verify_store

        opt = options(self._opt.threads or None, progress, self._opt.effort)

        def read(catalog: Catalog) -> StoreReport:
            for _ in range(5):
                before = catalog.names()
                report = verify_store(catalog, _backend.select(), opt, decode_values=decode)
                catalog.refresh()
                if report.ok or catalog.names() == before:
                    break
            return report

        with self._lock:
            return self._read(read)

    def export(
        self,
        step: int | str,
        path: str | os.PathLike[str],
        format: str | None = None,
        *,
        force: bool = False,
        progress: Progress | bool | None = None,
    ) -> Path:
        """Write a step to files that need no store.

        Args:
            step: as for ``load``.
            path: what is made: a folder for an added folder, otherwise a file. If it is a folder already, a file goes
                into it under the name it was added with, or ``step-<number>`` and a suffix.
            format: "original" (byte for byte what was added; the default for that), "safetensors" (a flat dict of
                tensors; the default for one), "torch" (the default for other states), or "ulp" (a file that needs no
                reference).
            force: replace what is there.

        Returns:
            What was made.

        Raises:
            FileExistsStorageError: it is there and ``force`` is not set.
            ArgumentError: the step cannot be written in this format.
            UlpackError: as for ``load``.
        """
        from .export import export

        opt = options(self._opt.threads or None, progress, self._opt.effort)

        def read(catalog: Catalog) -> Path:
            manifest = catalog.find(step, self._settings)
            with Session(catalog, _backend.select()) as session:
                return export(session, manifest, Path(os.fspath(path)), format, opt, force=force)

        with self._lock:
            return self._read(read)

    def _read(self, function: Callable[[Catalog], T]) -> T:
        """Read from the store as it is now, with what this object saved; again if another process pruned meanwhile."""
        if self._worker.pid == os.getpid():
            self._worker.join()
            self._worker.report()
        if not self._layout.exists():
            raise MissingFileError("there is no trajectory here", path=str(self._layout))
        catalog = self._catalog
        if self._writer is not None and self._writer.lock.pid == os.getpid():
            catalog = self._writer.catalog
        catalog.refresh()
        for _ in range(_RETRIES):
            before = catalog.names()
            try:
                return function(catalog)
            except (MissingFileError, CorruptError):  # a listing of a folder that changes may mix old and new
                catalog.refresh()
                if catalog.names() == before:
                    raise
        return function(catalog)

    @staticmethod
    def _check_step(step: int) -> None:
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= MAX_STEP:
            raise ArgumentError(f"step is {step!r}, not an int of at least 0")


def _tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    names = (tags,) if isinstance(tags, str) else tuple(tags)
    for name in names:
        if not isinstance(name, str) or not name.strip() or name in ("latest", "last") or name.startswith("best:"):
            raise ArgumentError(f"{name!r} cannot be a tag")
        if name[0].isdecimal():
            raise ArgumentError(f"{name!r} cannot be a tag: it begins like a step number")
    return tuple(dict.fromkeys(names))


def _metrics(metrics: Mapping[str, float] | None) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, value in (metrics or {}).items():
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"{name!r} cannot be the name of a metric")
        try:
            numbers[name] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ArgumentError(f"the metric {name!r} is {value!r}, not a number") from None
    return numbers

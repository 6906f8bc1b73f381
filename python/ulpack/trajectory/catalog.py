"""All steps of a store: which there are, and their manifests as they are asked for."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
import zlib
from collections.abc import Iterable

from .. import _files
from ..errors import ArgumentError, MissingFileError, StorageError, UlpackError, UlpackWarning, from_os
from .layout import Layout, Name, parse_manifest_names, step_of
from .manifest import Manifest, decode, encode
from .settings import Settings

_COPIES_LIMIT = 1 << 31
_WORTH_IT = 64  # manifests that are read one by one


class Catalog:
    """The steps of a store, as of the last ``refresh``.

    Reading the names of the manifests is enough to know the steps and their order; manifests are read when needed.
    Where many are, the copies in the file ``catalog`` save opening them one by one; a copy counts only if a manifest of
    its name is there, and manifests never change.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._files: dict[str, Name] = {}
        self._identities: dict[str, str] = {}
        self._names: dict[str, Name] = {}
        self._by_step: dict[int, list[Name]] | None = None
        self._manifests: dict[str, Manifest] = {}
        self._copies: dict[str, bytes] | None = None
        self._copied: int | None = None  # how many are on disk

    def refresh(self) -> None:
        """Look at what is there now.

        Raises:
            StorageError: the folder cannot be read.
        """
        try:
            present = {name for name in os.listdir(self.layout.steps) if name.endswith(".json") and "\n" not in name}
        except FileNotFoundError:
            present = set()
        except OSError as error:
            raise from_os(error, os.fspath(self.layout.steps)) from error
        if present == self._files.keys():
            return
        for gone in self._files.keys() - present:
            del self._files[gone]
            self._manifests.pop(gone, None)
            self._identities.pop(gone)
        for text, identity, name in parse_manifest_names(present - self._files.keys()):
            self._files[text], self._identities[text] = name, identity
        names: dict[str, Name] = {}
        for text, name in self._files.items():
            known = names.setdefault(self._identities[text], name)
            if name.revision > known.revision:
                names[self._identities[text]] = name
        self._names = names
        self._by_step = None

    def add(self, manifest: Manifest) -> None:
        """Take note of a manifest that this process has written."""
        text = str(manifest.name)
        self._files[text] = manifest.name
        self._identities[text] = manifest.id
        self._manifests[text] = manifest
        known = self._names.get(manifest.id)
        if known is None or manifest.revision > known.revision:
            self._names[manifest.id] = manifest.name
            self._by_step = None

    def remove(self, name: Name) -> None:
        """Take note of a manifest that this process has removed."""
        self._files.pop(str(name), None)
        self._identities.pop(str(name), None)
        self._manifests.pop(str(name), None)
        if self._names.get(name.id) == name:
            del self._names[name.id]
            self._by_step = None

    # What there is

    def __contains__(self, identity: object) -> bool:
        return identity in self._names

    def names(self) -> list[Name]:
        """The manifest of every state, the hidden ones too."""
        return list(self._names.values())

    def name(self, identity: str) -> Name | None:
        """The manifest of a state, or None."""
        return self._names.get(identity)

    def superseded(self) -> list[Name]:
        """Manifests that a higher revision replaces."""
        return [name for name in self._files.values() if self._names[name.id] != name]

    def visible(self) -> list[Name]:
        """The steps by number; of one step several states may be there."""
        return sorted(
            (name for name in self._names.values() if not name.hidden), key=lambda name: (name.step, name.line)
        )

    def steps(self) -> list[int]:
        """Step numbers, ascending."""
        return sorted({name.step for name in self._names.values() if not name.hidden})

    def at(self, step: int) -> list[Name]:
        """The visible states of a step."""
        if self._by_step is None:
            self._by_step = {}
            for name in self._names.values():
                if not name.hidden:
                    self._by_step.setdefault(name.step, []).append(name)
        return list(self._by_step.get(step, ()))

    def latest(self) -> Name | None:
        """The last step of the newest line; None in an empty store."""
        newest = max((n for n in self._names.values() if not n.hidden), key=lambda n: (n.line, n.step), default=None)
        return newest and self._newest(self.at(newest.step))

    def _newest(self, names: list[Name]) -> Name:
        """Of several states of one step the one saved last."""
        if len(names) == 1:
            return names[0]
        return max((self.manifest(name.id) for name in names), key=lambda manifest: (manifest.saved, manifest.id)).name

    # Manifests

    def manifest(self, identity: str, needed_by: Manifest | None = None) -> Manifest:
        """The manifest of a state.

        Raises:
            MissingFileError: it is not there; the message names the step.
            CorruptError: it is damaged.
        """
        name = self._names.get(identity)
        if name is None:
            step = step_of(identity)
            if needed_by is None:
                raise MissingFileError(f"step {step} is not in the store", path=str(self.layout))
            raise MissingFileError(
                f"step {needed_by.step} needs values of step {step}, whose manifest ({identity}) is not in the store "
                "any more",
                path=str(self.layout),
            )
        text = str(name)
        found = self._manifests.get(text)
        if found is None:
            path = self.layout.steps / text
            raw = (self._copies or {}).get(text)
            if raw is None:
                try:
                    raw = path.read_bytes()
                except OSError as error:
                    raise from_os(error, os.fspath(path)) from error
            found = self._manifests[text] = decode(raw, name, os.fspath(path))
        return found

    def manifests(self, identities: Iterable[str] | None = None) -> tuple[list[Manifest], dict[str, UlpackError]]:
        """Many manifests at once (by default all, the hidden ones too), and the errors of those that cannot be read."""
        wanted = list(self._names if identities is None else identities)
        if sum(str(self._names[i]) not in self._manifests for i in wanted if i in self._names) > _WORTH_IT:
            self._read_copies()
        good, bad = [], {}
        for identity in wanted:
            try:
                good.append(self.manifest(identity))
            except UlpackError as error:
                bad[identity] = error
        self._copies = None
        return good, bad

    def find(self, which: int | str, settings: Settings) -> Manifest:
        """The state that is meant: a step, "latest", "best:<metric>", a tag, or an identity.

        Raises:
            MissingFileError: there is none.
        """
        if type(which) is int:
            names = self.at(which)
            if not names:
                raise MissingFileError(f"step {which} is not in the store{self._near()}", path=str(self.layout))
            return self.manifest(self._newest(names).id)
        if not isinstance(which, str):
            raise ArgumentError(f"{which!r} is neither a step nor the name of one")
        if which == "latest":
            latest = self.latest()
            if latest is None:
                raise MissingFileError("the store has no step yet", path=str(self.layout))
            return self.manifest(latest.id)
        if which.isdecimal() and which.isascii():
            return self.find(int(which), settings)
        if which.startswith("best:"):
            return self.best(which.removeprefix("best:"), 1, settings)[0]
        if which in self._names:
            return self.manifest(which)
        tagged = [manifest for manifest in self._visible_manifests() if which in manifest.tags]
        if not tagged:
            raise MissingFileError(f"no step has the tag {which!r}", path=str(self.layout))
        return max(tagged, key=lambda manifest: (manifest.line, manifest.step, manifest.saved))

    def best(self, metric: str, count: int, settings: Settings) -> list[Manifest]:
        """The states with the best values of a metric, the best first; of equal ones the first step.

        The lowest value is the best unless the store says otherwise, or the metric ends in ":max".
        """
        name, _, order = metric.rpartition(":")
        if order not in ("min", "max") or not name:
            name, order = metric, "max" if metric in settings.higher_is_better else "min"
        sign = -1 if order == "max" else 1
        values = [(sign * m.metrics[name], m.line, m.step, m) for m in self._visible_manifests() if name in m.metrics]
        ranked = sorted((row for row in values if row[0] == row[0]), key=lambda row: row[:3])
        if not ranked:
            raise MissingFileError(f"no step has a value of the metric {name!r}", path=str(self.layout))
        return [row[3] for row in ranked[:count]]

    def _visible_manifests(self) -> list[Manifest]:
        good, bad = self.manifests(name.id for name in self.visible())
        if bad:
            steps = ", ".join(str(step_of(identity)) for identity in bad)
            warnings.warn(f"the manifests of steps {steps} cannot be read", UlpackWarning, stacklevel=4)
        return good

    def _near(self) -> str:
        steps = self.steps()
        return f" ({len(steps)} steps, {steps[0]} .. {steps[-1]})" if steps else ", which is empty"

    # Copies of manifests: the number of them on a line, then JSON {name: text}, compressed

    def _read_copies(self) -> None:
        try:
            _, _, data = self.layout.catalog.read_bytes().partition(b"\n")
            inflate = zlib.decompressobj()
            text = inflate.decompress(data, _COPIES_LIMIT)
            if not inflate.eof:
                raise ValueError("too long or cut off")
            copies = json.loads(text)
            self._copies = {name: copies[name].encode("utf-8", "surrogatepass") for name in copies}
        except (OSError, ValueError, zlib.error, AttributeError, TypeError, RecursionError):
            self._copies = None  # the manifests themselves are there

    def keep_copies(self) -> None:
        """Write copies of all manifests if those that are there have become few, or many of them useless."""
        count = len(self._names)
        if self._copied is None:
            self._copied = self._count_copies()
        if abs(count - self._copied) <= max(_WORTH_IT, count // 8):
            return
        manifests, _ = self.manifests()
        copies = {str(m.name): encode(m).decode("utf-8", "surrogatepass") for m in manifests}
        packed = b"%d\n" % len(copies) + zlib.compress(json.dumps(copies).encode(), 6)
        with contextlib.suppress(StorageError, OSError):  # only a matter of speed
            with _files.output(self.layout.catalog) as fd:
                view = memoryview(packed)
                while view:
                    view = view[os.write(fd, view) :]
            self._copied = len(copies)

    def _count_copies(self) -> int:
        try:
            with open(self.layout.catalog, "rb") as file:
                return int(file.readline(20))
        except (OSError, ValueError):
            return 0

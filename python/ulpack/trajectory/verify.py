"""A whole store checked; every value is decoded once."""

from __future__ import annotations

import hashlib
import os

import numpy as np

from .._backend import Backend, Items, Options
from .._buffers import View
from .._index import located
from .._load import item_errors
from ..errors import CorruptError, UlpackError, from_os
from .catalog import Catalog
from .contents import CONTENTS, STRUCTURE
from .decode import Goal, close_bar, decode
from .manifest import Manifest
from .reader import StepReader
from .records import StoreReport
from .session import DataFile, Session
from .sweep import closure


def verify_store(catalog: Catalog, backend: Backend, opt: Options, *, decode_values: bool) -> StoreReport:
    """Check every manifest and every delta file, and decode every value; nothing is written."""
    return _Verifier(catalog, backend, opt, decode_values).run()


class _Verifier:
    def __init__(self, catalog: Catalog, backend: Backend, opt: Options, decode_values: bool) -> None:
        self.catalog = catalog
        self.backend = backend
        self.opt = opt
        self.decode_values = decode_values
        self.errors: dict[str, dict[str, UlpackError]] = {}  # by state: what is wrong with its own delta file
        self.held: dict[str, _Value] = {}  # the last decoded value under each name

    def run(self) -> StoreReport:
        manifests, unreadable = self.catalog.manifests()
        by_id = {manifest.id: manifest for manifest in manifests}
        total = sum(m.data.nbytes for m in manifests if m.data is not None)
        done = 0
        try:
            for manifest in _in_order(by_id):
                self._check(manifest)
                done += manifest.data.nbytes if manifest.data is not None else 0
                if self.opt.progress is not None:
                    self.opt.progress(done, max(total, 1))
        finally:
            close_bar(self.opt)
        good: list[int] = []
        bad: dict[int, dict[str, UlpackError]] = {}
        for name in self.catalog.visible():
            errors = {"": unreadable[name.id]} if name.id in unreadable else self._of_step(by_id[name.id])
            if errors:
                bad.setdefault(name.step, {}).update(errors)
            else:
                good.append(name.step)
        return StoreReport(
            str(self.catalog.layout),
            tuple(step for step in dict.fromkeys(good) if step not in bad),
            bad,
            tuple(_leftovers(self.catalog, by_id, unreadable)),
            self.decode_values,
        )

    # One delta file

    def _check(self, manifest: Manifest) -> None:
        errors: dict[str, UlpackError] = {}
        try:
            with Session(self.catalog, self.backend) as session:
                file = session.file(manifest)
                if file is not None:
                    _check_sha256(file)
                    if self.decode_values:
                        errors = self._decode(session, file)
        except UlpackError as error:
            errors = {"": error}
            if self.decode_values and isinstance(error, CorruptError):
                errors = self._salvage(manifest, error)
        if errors:
            self.errors[manifest.id] = errors

    def _salvage(self, manifest: Manifest, found: UlpackError) -> dict[str, UlpackError]:
        """Which values of a damaged file are bad; all of them if its index is."""
        try:
            with Session(self.catalog, self.backend) as session:
                file = session.file(manifest)
                assert file is not None
                return self._decode(session, file) or {"": found}
        except UlpackError:
            return {"": found}

    def _decode(self, session: Session, file: DataFile) -> dict[str, UlpackError]:
        """Decode all values of a file against those of its base, which are mostly the last ones decoded."""
        index, bad = file.index, {}
        items = Items()
        values: dict[int, _Value] = {}
        for number, name in enumerate(index.names):
            try:
                value = self._memory(session, file, number)
            except UlpackError as error:
                bad[name] = error
                continue
            values[number] = value
            reference = None
            if index.references[number] is not None:
                reference = View(value.address, value.nbytes, index.dtypes[number], index.shapes[number], value.keep)
            items.add(number, index.nbytes[number], reference, value.address, value.keep)
        try:
            self.backend.load(file.stream, items, self.opt._replace(progress=None), salvage=True, verify_only=False)
        except UlpackError as error:
            raise located(error, index.path, index.names) from None
        bad.update({index.names[number]: found for number, found in item_errors(items, index).items()})
        for number, value in values.items():
            name = index.names[number]
            if name in bad:
                self.held.pop(name, None)
            else:
                value.fingerprint = index.fingerprints[number]
                self.held[name] = value
        return bad

    def _memory(self, session: Session, file: DataFile, number: int) -> _Value:
        """Memory to decode a value into, with its reference in it."""
        index = file.index
        needed = index.references[number]
        held = self.held.get(needed[0] if needed is not None else index.names[number])
        if held is not None and held.nbytes == index.nbytes[number]:
            if needed is None:
                return held
            if needed[0] == index.names[number] and held.fingerprint == needed[1]:
                held.fingerprint = -1
                return held
        value = _Value(index.nbytes[number])
        if needed is not None:
            if held is not None and held.fingerprint == needed[1]:
                value.keep[:] = held.keep
            else:
                links = session.chain(file.owner, index.names[number])[:-1]
                decode(
                    session, [Goal(links, value.address, value.nbytes, value.keep)], self.opt._replace(progress=None)
                )
        return value

    # One step

    def _of_step(self, manifest: Manifest) -> dict[str, UlpackError]:
        """What is wrong with a step: with its own delta file, those it uses, or those they were stored against."""
        whole = self.errors.get(manifest.id, {}).get("")
        if whole is not None:
            return {"": whole}
        try:
            with Session(self.catalog, self.backend) as session:
                reader = StepReader(session, manifest)
                reader.parse()
                reader.check_values()
                errors = {}
                for position, name in enumerate(reader.contents.names):
                    for link in reader.place(position).links:
                        below = self.errors.get(link.owner, {})
                        stored = session.stored_file(link.owner).index.names[link.number]
                        error = below.get("") or below.get(stored)
                        if error is not None:
                            errors[name] = error
                            break
                for key in (CONTENTS, STRUCTURE):
                    error = self.errors.get(session.owner_of(manifest, key).id, {}).get(key)
                    if error is not None:
                        return {"": error}
                return errors
        except UlpackError as error:
            return {"": error}


class _Value:
    """A decoded value."""

    def __init__(self, nbytes: int) -> None:
        self.keep = np.empty(nbytes, np.uint8)
        self.address: int = self.keep.__array_interface__["data"][0]
        self.nbytes = nbytes
        self.fingerprint = -1


def _in_order(manifests: dict[str, Manifest]) -> list[Manifest]:
    """Every state after its base, and if possible right after it."""
    children: dict[str | None, list[Manifest]] = {}
    for manifest in sorted(manifests.values(), key=lambda m: (m.step, m.line), reverse=True):
        base = manifest.base if manifest.base in manifests else None
        children.setdefault(base, []).append(manifest)
    ordered: list[Manifest] = []
    todo = list(children.pop(None, []))
    while todo:
        manifest = todo.pop()
        ordered.append(manifest)
        todo += children.pop(manifest.id, [])
    for rest in children.values():  # states that need each other in a circle
        ordered += rest
    return ordered


def _check_sha256(file: DataFile) -> None:
    data = file.owner.data
    assert data is not None
    digest = hashlib.sha256()
    fd = file.stream.fd
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        while part := os.read(fd, 1 << 20):
            digest.update(part)
    except OSError as error:
        raise from_os(error, file.index.path) from error
    if digest.hexdigest() != data.sha256:
        raise CorruptError(f"step {file.owner.step}: the file's SHA-256 is not the recorded one", path=file.index.path)


def _leftovers(catalog: Catalog, manifests: dict[str, Manifest], unreadable: dict[str, UlpackError]) -> list[str]:
    """Files that belong to no step, relative to the store."""
    layout = catalog.layout
    if unreadable:
        used = None
    else:
        needed = closure(manifests, {m.id for m in manifests.values() if not m.hidden})
        used = {m.data.file for m in manifests.values() if m.id in needed and m.data is not None}
    current = {str(name) for name in catalog.names()}
    found = []
    for folder, good in ((layout.data, used), (layout.steps, current)):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        found += [f"{folder.name}/{name}" for name in names if good is not None and name not in good]
    return found

"""What killed processes and finished operations leave behind, taken away by the writer."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ..errors import from_os
from .catalog import Catalog
from .layout import TEMPORARY, parse_data_name
from .manifest import Manifest


def closure(manifests: dict[str, Manifest], roots: set[str]) -> set[str]:
    """Identities of all states that these need, themselves included; some may have no manifest."""
    found: set[str] = set()
    todo = list(roots)
    while todo:
        identity = todo.pop()
        if identity not in found:
            found.add(identity)
            if identity in manifests:
                todo += manifests[identity].needs()
    return found


def sweep(catalog: Catalog, *, thorough: bool = False) -> int:
    """Remove temporary files, manifests that a later revision replaces, hidden states that nothing needs any more, and
    delta files that belong to no manifest. Only the holder of the lock may call this. Returns the bytes freed.

    A delta file is kept as long as any manifest needs its state, or cannot be read. Without ``thorough`` the manifests
    are only read if the names of the files leave a doubt.
    """
    layout = catalog.layout
    freed = sum(_remove_temporary(folder) for folder in (layout.root, layout.steps, layout.data))
    superseded = catalog.superseded()
    for name in superseded:
        freed += _remove(layout.steps / str(name))
        catalog.remove(name)
    files = _listing(layout.data)
    identities = [parsed[0] for parsed in map(parse_data_name, files) if parsed is not None]
    doubt = superseded or len(set(identities)) < len(identities) or any(i not in catalog for i in identities)
    if not (thorough or doubt or any(name.hidden for name in catalog.names())):
        return freed
    manifests, bad = catalog.manifests()
    by_identity = {manifest.id: manifest for manifest in manifests}
    needed = closure(by_identity, {m.id for m in manifests if not m.hidden} | set(bad))
    if bad:
        return freed  # what an unreadable manifest needs is not known: nothing more is taken away
    for manifest in manifests:
        if manifest.id not in needed:
            freed += _remove(layout.steps / str(manifest.name))
            catalog.remove(manifest.name)
    used = {manifest.data.file for manifest in manifests if manifest.id in needed and manifest.data is not None}
    for file in files:
        parsed = parse_data_name(file)
        if parsed is None or file in used:
            continue
        if parsed[0] in needed and parsed[0] not in by_identity:
            continue  # somebody removed the manifest, but others still need these values
        freed += _remove(layout.data / file)
    return freed


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise from_os(error, os.fspath(folder)) from error


def _remove_temporary(folder: Path) -> int:
    return sum(_remove(folder / name) for name in _listing(folder) if name.startswith(".") and name.endswith(TEMPORARY))


def _remove(path: Path) -> int:
    """Remove a file; its bytes, or 0 if that was not possible (the next sweep will find it again)."""
    with contextlib.suppress(OSError):
        nbytes = path.stat().st_size
        path.unlink()
        return nbytes
    return 0

"""Which steps need which."""

from __future__ import annotations

from ..errors import MissingFileError
from .catalog import Catalog
from .layout import step_of
from .records import Why
from .settings import Settings
from .sweep import closure


def why(catalog: Catalog, which: int | str, settings: Settings) -> Why:
    """What a step needs and what needs it."""
    manifests = {manifest.id: manifest for manifest in catalog.manifests()[0]}
    try:
        identity = catalog.find(which, settings).id
    except MissingFileError:
        step = int(which) if isinstance(which, int) or which.isdecimal() else -1
        hidden = [manifest.id for manifest in manifests.values() if manifest.hidden and manifest.step == step]
        if not hidden:
            raise
        identity = hidden[0]
    found = manifests[identity]
    needs = closure(manifests, {identity}) - {identity}
    visible = [manifest for manifest in manifests.values() if not manifest.hidden]
    needed_by = {m.step for m in visible if m.id != identity and identity in closure(manifests, {m.id})}
    latest = catalog.latest()
    names = ("latest",) if latest is not None and latest.id == identity else ()
    return Why(
        step=found.step,
        needs=tuple(sorted({step_of(other) for other in needs})),
        needed_by=tuple(sorted(needed_by)),
        kept_as=(*names, *found.tags),
        hidden=found.hidden,
    )

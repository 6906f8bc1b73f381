"""Where things are in a store.

    trajectory.json   what the store is: version and settings
    steps/            one manifest a step, small JSON; a step exists from the moment its manifest does
    data/             delta files (go/FORMAT.md) with the values that were new at a step
    catalog           compressed copies of manifests, only to read many of them at once; may be deleted
    lock              held by the one process that writes

Files in ``steps`` and ``data`` never change. They are called

    <step, 9 digits>.<values, 16 hex digits>.<line>.<revision>[.hidden].json
    <step, 9 digits>.<values, 16 hex digits>.<revision>.ulp

*Values* is a hash of everything the state holds, so ``<step>.<values>`` is the identity of a stored state whatever way
it is encoded. Storing the same state in another way (on another base, say) writes a higher revision; the highest one
counts. A *line* is a stretch of training: going on from a step that is not the last one begins a new line. A *hidden*
state was pruned, but values of it are still needed by others. Names repeat what the manifest records; a file in which
the two differ is damaged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HEADER = "trajectory.json"
STEPS = "steps"
DATA = "data"
CATALOG = "catalog"
LOCK = "lock"
TEMPORARY = ".ulp-tmp"

MAX_STEP = 10**18
_MANIFEST = re.compile(
    r"^((\d{9,19})\.([0-9a-f]{16})\.(\d{1,9})\.(\d{1,9})(\.hidden)?\.json)$", re.ASCII | re.MULTILINE
)
_DATA = re.compile(r"(\d{9,19})\.([0-9a-f]{16})\.(\d{1,9})\.ulp", re.ASCII)


class Name(NamedTuple):
    """What the name of a manifest says."""

    step: int
    values: str
    line: int
    revision: int
    hidden: bool

    @property
    def id(self) -> str:
        """Identity of the stored state."""
        return state_id(self.step, self.values)

    def __str__(self) -> str:
        hidden = ".hidden" if self.hidden else ""
        return f"{self.step:09d}.{self.values}.{self.line}.{self.revision}{hidden}.json"


def state_id(step: int, values: str) -> str:
    """Identity of a stored state: "<step>.<values>"."""
    return f"{step}.{values}"


def step_of(identity: str) -> int:
    """The step of an identity."""
    return int(identity.partition(".")[0])


def parse_manifest_names(names: Iterable[str]) -> list[tuple[str, str, Name]]:
    """Take names of manifests apart, as (name, identity, parts), thousands in milliseconds; others are passed over."""
    return [
        (text, f"{int(step)}.{values}", Name(int(step), values, int(line), int(revision), hidden != ""))
        for text, step, values, line, revision, hidden in _MANIFEST.findall("\n".join(names))
    ]


def data_name(step: int, values: str, revision: int) -> str:
    """Name of a data file."""
    return f"{step:09d}.{values}.{revision}.ulp"


def parse_data_name(name: str) -> tuple[str, int] | None:
    """Identity and revision in the name of a data file; None if it is none."""
    found = _DATA.fullmatch(name)
    if found is None:
        return None
    return state_id(int(found[1]), found[2]), int(found[3])


class Layout:
    """Paths of a store."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.abspath(os.fspath(root)))
        self.header = self.root / HEADER
        self.steps = self.root / STEPS
        self.data = self.root / DATA
        self.catalog = self.root / CATALOG
        self.lock = self.root / LOCK

    def exists(self) -> bool:
        """Whether there is a store."""
        return self.header.is_file()

    def __str__(self) -> str:
        return os.fspath(self.root)


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is a store."""
    return Layout(path).exists()

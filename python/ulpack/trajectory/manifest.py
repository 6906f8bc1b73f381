"""The manifest of a step: a small JSON file that says what the step is and where its values are.

One key a line. The last one is a checksum over everything before its line, so a manifest changed by accident is
noticed.

    step, values       the step and the hash of all values (the identity of the state)
    line, revision     see ``layout``
    saved              when, UTC
    parent             identity of the state it goes on from, or null
    tags, metrics      the user's
    kind               "state", or "file" / "folder" for an image of checkpoint files
    tensors            number of tensors;  raw_nbytes: bytes of their values
    data               the delta file with the values that are new: file, nbytes, tail (checksum of its index), sha256;
                       null if nothing was new
    base               identity of the state whose values the delta file needs, or null
    kept               {identity: which}: values that lie in the delta files of other states: positions of tensors as
                       "0-5 7", and "contents", "structure"
    chain              [bytes, delta files]: at most this much is read to load the step
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from ..errors import CorruptError
from .layout import MAX_STEP, Name, parse_data_name, state_id

_ID = re.compile(r"(0|[1-9]\d{0,18})\.[0-9a-f]{16}", re.ASCII)
_SAVED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_RANGES = re.compile(r"[a-z0-9 -]*", re.ASCII)
KINDS = ("state", "file", "folder")


@dataclass(frozen=True, slots=True)
class Data:
    """A delta file: its name in ``data``, its bytes, the checksum in its footer, the SHA-256 of all of it."""

    file: str
    nbytes: int
    tail: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest; see the module."""

    step: int
    values: str
    line: int
    revision: int
    saved: str
    parent: str | None
    kind: str
    tensors: int
    raw_nbytes: int
    data: Data | None
    base: str | None
    chain: tuple[int, int]
    tags: tuple[str, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    hidden: bool = False

    @property
    def id(self) -> str:
        """Identity of the state."""
        return state_id(self.step, self.values)

    @property
    def name(self) -> Name:
        """Its file name."""
        return Name(self.step, self.values, self.line, self.revision, self.hidden)

    def needs(self) -> set[str]:
        """Identities of the states whose delta files it needs directly."""
        return {*self.kept, *([self.base] if self.base is not None else [])}


def encode(manifest: Manifest) -> bytes:
    """A manifest as the bytes of its file."""
    data = manifest.data
    fields: dict[str, Any] = {
        "step": manifest.step,
        "values": manifest.values,
        "line": manifest.line,
        "revision": manifest.revision,
        "saved": manifest.saved,
        "parent": manifest.parent,
        "tags": list(manifest.tags),
        "metrics": {name: value if math.isfinite(value) else str(value) for name, value in manifest.metrics.items()},
        "kind": manifest.kind,
        "tensors": manifest.tensors,
        "raw_nbytes": manifest.raw_nbytes,
        "data": data and {"file": data.file, "nbytes": data.nbytes, "tail": data.tail, "sha256": data.sha256},
        "base": manifest.base,
        "kept": manifest.kept,
        "chain": list(manifest.chain),
        "hidden": manifest.hidden,
    }
    optional = ("tags", "metrics", "kept", "hidden")
    lines = [
        f'"{key}": {json.dumps(value, ensure_ascii=False)}'
        for key, value in fields.items()
        if value or key not in optional
    ]
    body = ("{" + ",\n".join(lines) + ",\n").encode("utf-8", "surrogatepass")
    return body + f'"checksum": "{xxhash.xxh3_64_hexdigest(body)}"}}\n'.encode()


def decode(raw: bytes, name: Name, path: str) -> Manifest:
    """Read a manifest and check it against its name.

    Raises:
        CorruptError: it was changed or cut off, or is not what its name says.
    """
    try:
        body, _, rest = raw.rpartition(b'"checksum": ')
        if rest != f'"{xxhash.xxh3_64_hexdigest(body)}"}}\n'.encode():
            raise ValueError("its checksum does not hold")
        fields = json.loads(raw.decode("utf-8", "surrogatepass"))
        manifest = _parse(fields)
        if manifest.name != name:
            raise ValueError("it belongs to another step or state than its name says")
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"the manifest of step {name.step} is damaged: {error}", path=path) from None


def _parse(fields: Mapping[str, Any]) -> Manifest:
    data = fields["data"]
    if data is not None:
        data = Data(_text(data["file"]), _count(data["nbytes"]), _text(data["tail"]), _text(data["sha256"]))
        if parse_data_name(data.file) is None:
            raise ValueError(f"data file {data.file!r}")
    metrics = {_text(name): float(value) for name, value in fields.get("metrics", {}).items()}
    kept = {_identity(key): _text(value) for key, value in fields.get("kept", {}).items()}
    if not all(_RANGES.fullmatch(value) for value in kept.values()):
        raise ValueError("kept")
    if fields["kind"] not in KINDS:
        raise ValueError(f"kind {fields['kind']!r}")
    chain_nbytes, chain_files = fields["chain"]
    return Manifest(
        step=_count(fields["step"], MAX_STEP),
        values=_text(fields["values"]),
        line=_count(fields["line"]),
        revision=_count(fields["revision"]),
        saved=_matching(_SAVED, fields["saved"]),
        parent=None if fields["parent"] is None else _identity(fields["parent"]),
        kind=fields["kind"],
        tensors=_count(fields["tensors"]),
        raw_nbytes=_count(fields["raw_nbytes"]),
        data=data,
        base=None if fields["base"] is None else _identity(fields["base"]),
        chain=(_count(chain_nbytes), _count(chain_files)),
        tags=tuple(_text(tag) for tag in fields.get("tags", ())),
        metrics=metrics,
        kept=kept,
        hidden=fields.get("hidden", False) is True,
    )


def _count(value: Any, limit: int = 1 << 62) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise ValueError(f"{value!r} is not a count")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r} is not text")
    return value


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if type(value) is not str or pattern.fullmatch(value) is None:
        raise ValueError(f"{value!r} does not look right")
    return value


def _identity(value: Any) -> str:
    return _matching(_ID, value)

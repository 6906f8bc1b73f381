"""What a state holds: the names of its tensors, which of them have equal values, and the hash of everything."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xxhash

from ..errors import CorruptError

CONTENTS = "\0contents"
STRUCTURE = "\0structure"
"""Names of the two values that are not tensors: ``Contents`` as JSON, and the structure (go/FORMAT.md, "Structure")."""

_MOST = 1 << 28  # characters of all names, as in a delta file


@dataclass(frozen=True, slots=True)
class Contents:
    """Names of a state's tensors, in order.

    Attributes:
        names: the names.
        same: position of a tensor to the position of an earlier one that has the same value (and is stored for both).
    """

    names: tuple[str, ...]
    same: dict[int, int]

    def stored(self, position: int) -> int:
        """Position of the tensor that is stored for this one."""
        return self.same.get(position, position)


def file_name(name: str) -> str:
    """Name of a tensor in a delta file of the store, where names that begin with NUL are taken."""
    return "\0" + name if name.startswith("\0") else name


def encode_contents(contents: Contents) -> bytes:
    """As JSON. Of each name: how many characters it shares with the one before, and the rest."""
    names: list[int | str] = []
    before = ""
    for name in contents.names:
        shared = next(
            (i for i, (a, b) in enumerate(zip(before, name, strict=False)) if a != b), min(len(before), len(name))
        )
        names += (shared, name[shared:])
        before = name
    fields = {"names": names, "same": [list(pair) for pair in contents.same.items()]}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode_contents(raw: bytes, path: str) -> Contents:
    """Back from JSON.

    Raises:
        CorruptError: it is something else.
    """
    try:
        fields = json.loads(raw.decode("utf-8", "surrogatepass"))
        names = _names(fields["names"])
        same = {int(i): int(j) for i, j in fields["same"]}
        if not all(0 <= j < i < len(names) and j not in same for i, j in same.items()):
            raise ValueError("same")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(f"the list of tensors cannot be understood: {error}", path=path) from None
    return Contents(tuple(names), same)


def _names(coded: list[int | str]) -> list[str]:
    names: list[str] = []
    before = ""
    total = 0
    for shared, rest in zip(coded[::2], coded[1::2], strict=True):
        if type(shared) is not int or type(rest) is not str or not 0 <= shared <= len(before):
            raise ValueError("names")
        before = before[:shared] + rest
        total += len(before)
        if total > _MOST:
            raise ValueError("names")
        names.append(before)
    if len(set(names)) != len(names):
        raise ValueError("names")
    return names


def values_hash(contents: int, structure: int, tensors: Iterable[int]) -> str:
    """Hash of everything a state holds: XXH3-64 over the fingerprints of contents, structure and tensors in order."""
    return xxhash.xxh3_64_hexdigest(np.array([contents, structure, *tensors], "<u8").tobytes())


def write_ranges(positions: Iterable[int]) -> str:
    """Ascending positions as text: "0-5 7"."""
    parts: list[str] = []
    start = last = -2
    for position in positions:
        if position != last + 1:
            if start >= 0:
                parts.append(f"{start}-{last}" if last > start else f"{start}")
            start = position
        last = position
    if start >= 0:
        parts.append(f"{start}-{last}" if last > start else f"{start}")
    return " ".join(parts)


def read_ranges(text: str, count: int) -> list[int]:
    """Positions below ``count`` from text.

    Raises:
        ValueError: it is no such text.
    """
    positions: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        begin, end = int(first), int(last or first)
        if not 0 <= begin <= end < count:
            raise ValueError(f"range {part!r}")
        positions += range(begin, end + 1)
    return positions

"""Roles: the tensors that a blob needs (FORMAT.md section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..errors import CorruptError, LimitError
from .dtypes import Layout
from .plans import CONSTANT, IDENTICAL, STORED

REFERENCE_ROLE = 0  # the tensor's own reference
VALUE_ROLE = 1  # the value of another tensor of the file
OTHER_REFERENCE_ROLE = 2  # the reference of another tensor of the file
LAST_ROLE = (REFERENCE_ROLE, OTHER_REFERENCE_ROLE)  # of format 1.0 and 1.1

MAX_SLOTS = 4  # three of a program and one that gives contexts
MAX_DEPTH = 4  # of values that are decoded from values


class Slot(NamedTuple):
    """A tensor that a blob needs. Its position among the tensor's roles is what the blob calls it by.

    ``tensor`` is its place in the directory (roles 1 and 2), ``fingerprint`` that of a reference (roles 0 and 2).
    """

    role: int
    tensor: int
    fingerprint: int

    @property
    def hashed(self) -> bool:
        """Whether the chunk table has its hashes; the values of the file have their own."""
        return self.role != VALUE_ROLE


def reference_fingerprints(slots_of: Sequence[Sequence[Slot]]) -> dict[int, int]:
    """Fingerprints of the references that blobs need, by tensor.

    Raises:
        CorruptError: two for one reference.
    """
    found: dict[int, int] = {}
    for i, slots in enumerate(slots_of):
        for slot in slots:
            if slot.hashed:
                tensor = i if slot.role == REFERENCE_ROLE else slot.tensor
                if found.setdefault(tensor, slot.fingerprint) != slot.fingerprint:
                    raise CorruptError(f"two fingerprints for the reference of tensor {tensor}")
    return found


class EntryLike(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def ref_name(self) -> str | None: ...


def check_plan(entry: EntryLike, plan: int, slots: Sequence[Slot]) -> None:
    """Check the roles of one tensor as far as its plan and its entry say.

    Raises:
        CorruptError: roles that do not fit.
    """
    roles = [slot.role for slot in slots]
    if (plan in (STORED, CONSTANT) and roles) or (plan == IDENTICAL and roles != [REFERENCE_ROLE]):
        raise CorruptError("the roles do not fit the plan", tensor=entry.name)
    if REFERENCE_ROLE in roles and entry.ref_name is None:
        raise CorruptError("a reference is needed that the directory does not name", tensor=entry.name)


def check_dependencies(entries: Sequence[EntryLike], slots_of: Sequence[Sequence[Slot]], order: Sequence[int]) -> None:
    """Check the roles of all tensors against each other.

    Args:
        entries: the directory.
        slots_of: the roles of each tensor.
        order: the tensor at each place of the blob order.

    Raises:
        CorruptError: another shape, a reference that is not there, or a tensor that comes later.
        LimitError: too many tensors that need one another.
    """
    place = {i: p for p, i in enumerate(order)}
    depth = [0] * len(entries)
    for i in order:
        entry = entries[i]
        for slot in slots_of[i]:
            if slot.role == REFERENCE_ROLE:
                continue
            other = entries[slot.tensor]
            if slot.tensor == i or other.layout.shape != entry.layout.shape:
                raise CorruptError(f"a tensor of another shape has role {slot.role}", tensor=entry.name)
            if slot.role == OTHER_REFERENCE_ROLE:
                if other.ref_name is None:
                    raise CorruptError("a reference of another tensor is needed, but it has none", tensor=entry.name)
                continue
            if place[slot.tensor] > place[i]:
                raise CorruptError("a tensor is needed that comes later", tensor=entry.name)
            depth[i] = max(depth[i], depth[slot.tensor] + 1)
            if depth[i] > MAX_DEPTH:
                raise LimitError(f"more than {MAX_DEPTH} tensors need one another", tensor=entry.name)
    reference_fingerprints(slots_of)

"""From relations to the order of blobs and to what each tensor may be coded against (FORMAT.md section 31)."""

from __future__ import annotations

from collections.abc import Sequence

from .choice import Needed, Proposal, Subject
from .programs import CAST, COPY, Program
from .relations import Member, Relation, find_relations
from .roles import MAX_DEPTH, OTHER_REFERENCE_ROLE, REFERENCE_ROLE, VALUE_ROLE

EQUAL, WEIGHT, SECOND, BUFFER, CONTEXT = "equal", "weight", "second", "buffer", "context"


def relate(members: Sequence[Member], fast: bool, related: bool) -> tuple[list[Subject], list[int] | None]:
    """What each tensor may be coded against, and the blob order (None: that of the tensors).

    Unless ``related`` and with ``fast`` (effort 1) no tensor is coded against others.
    """
    if len(members) < 2 or fast or not related:
        return [Subject(t.layout, t.data, t.ref, fast=fast) for t in members], None
    relater = _Relater(members, find_relations(members))
    for i in range(len(members)):
        relater.place(i)
    subjects = [relater.subject(i) for i in range(len(members))]
    return subjects, relater.places if relater.places != list(range(len(members))) else None


class _Relater:
    def __init__(self, members: Sequence[Member], relations: Sequence[Relation]) -> None:
        self.members, self.relations = members, relations
        self.begun: set[int] = set()
        self.done: set[int] = set()
        self.depth = [0] * len(members)
        self.places: list[int] = []

    def _use(self, i: int) -> str | None:
        """What the relations of a tensor are used for, the first that applies."""
        x = self.relations[i]
        if x.equal is not None:
            return EQUAL
        if x.weight:
            return WEIGHT
        if x.replayed and x.first is not None:
            return SECOND
        if x.buffer is not None:
            return BUFFER
        return CONTEXT if x.second is not None and not self.relations[x.second].replayed else None

    def _needs(self, i: int) -> list[int]:
        """The tensors whose values tensor i may need."""
        x, use = self.relations[i], self._use(i)
        wanted = {
            EQUAL: (x.equal,),
            WEIGHT: (x.source, x.first, x.second),
            SECOND: (x.source, x.first),
            BUFFER: (x.source, x.buffer),
            CONTEXT: (x.source, x.second),
            None: (x.source,),
        }[use]
        return [k for k in wanted if k is not None]

    def place(self, i: int) -> None:
        """Place a tensor after those that it needs; those that would close a circle or a chain too long are dropped."""
        if i in self.begun or i in self.done:
            return
        self.begun.add(i)
        for k in self._needs(i):
            if k not in self._needs(i):
                continue  # it was of use only with one that was dropped
            self.place(k)
            if k in self.begun or self.depth[k] == MAX_DEPTH:
                self._drop(i, k)
                continue
            self.depth[i] = max(self.depth[i], self.depth[k] + 1)
        self.begun.remove(i)
        self.done.add(i)
        self.places.append(i)

    def _drop(self, i: int, k: int) -> None:
        x = self.relations[i]
        for what in ("equal", "source", "first", "second", "buffer"):
            if getattr(x, what) == k:
                setattr(x, what, None)
        if x.weight and (x.first is None or x.second is None):
            x.first, x.second, x.weight = None, None, False

    def subject(self, i: int) -> Subject:
        t, x, use = self.members[i], self.relations[i], self._use(i)
        proposals: list[Proposal] = []
        beside = None
        if x.source is not None and use != EQUAL:
            proposals.append(Proposal(Program(CAST, (0,)), (self._value(x.source),)))
        if use == EQUAL and x.equal is not None:
            proposals.append(Proposal(Program(COPY, (0,)), (self._value(x.equal),), True))
        elif use == WEIGHT and x.first is not None and x.second is not None and x.program is not None:
            needed = (self._own(i), self._value(x.first), self._value(x.second))
            proposals.append(Proposal(x.program, needed))
        elif use == SECOND and x.first is not None and x.program is not None:
            needed = (self._own(i), self._value(x.first), self._reference(OTHER_REFERENCE_ROLE, x.first, x.first))
            proposals.append(Proposal(x.program, needed))
        elif use == BUFFER and x.buffer is not None and x.program is not None:
            proposals.append(Proposal(x.program, (self._own(i), self._value(x.buffer))))
        elif use == CONTEXT and x.second is not None:
            beside = self._value(x.second)
        return Subject(t.layout, t.data, t.ref, tuple(proposals), beside)

    def _value(self, i: int) -> Needed:
        return Needed(VALUE_ROLE, i, self.members[i].layout, self.members[i].data)

    def _own(self, i: int) -> Needed:
        return self._reference(REFERENCE_ROLE, 0, i)

    def _reference(self, role: int, tensor: int, i: int) -> Needed:
        ref = self.members[i].ref
        assert ref is not None
        return Needed(role, tensor, self.members[i].layout, ref)

"""Choices of encoder version 2 for one tensor (FORMAT.md sections 32 to 35 and 37)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .cost import BIT
from .decay import find_decay
from .dtypes import Dtype, Layout
from .exact_rows import ExactRows
from .frame import lanes
from .model import BESIDE, PROGRAM, REFERENCE, Beside, Coding, residual
from .narrow import KEPT_MANTISSA, narrow, narrowed
from .plan import Sample, estimate, exponent_base, sample_places, with_reference, without_reference
from .programs import Program, castable, predict
from .roles import REFERENCE_ROLE


class Needed(NamedTuple):
    """A tensor that another one may be coded against: role, place in the directory (roles 1 and 2), value."""

    role: int
    tensor: int
    layout: Layout
    data: np.ndarray  # raw bytes

    @property
    def identity(self) -> tuple[int, int]:
        return self.role, self.tensor


class Proposal(NamedTuple):
    """A prediction that the tensor may be coded with; the program's slots are places in ``needed``."""

    program: Program
    needed: tuple[Needed, ...]
    exact: bool = False  # it is known to be right for every lane value


class Subject(NamedTuple):
    """A tensor to code and what it may be coded against."""

    layout: Layout
    data: np.ndarray
    ref: np.ndarray | None
    proposals: Sequence[Proposal] = ()
    beside: Needed | None = None
    fast: bool = False  # effort 1: candidates R and N alone

    @property
    def own(self) -> Needed:
        assert self.ref is not None
        return Needed(REFERENCE_ROLE, 0, self.layout, self.ref)


class Choice(NamedTuple):
    """How a tensor is coded; places in ``coding`` and ``rows`` are places in ``needed``."""

    coding: Coding
    rows: ExactRows | None
    needed: tuple[Needed, ...]


class _Candidate(NamedTuple):
    cost: int
    coding: Coding
    needed: tuple[Needed, ...]
    exact: bool = False


def choose(subject: Subject) -> Choice:
    """The choice for a tensor that is neither empty, constant nor equal to its reference."""
    known = any(proposal.exact for proposal in subject.proposals)
    lane = subject.layout.dtype if subject.fast or known else _without_low_bits(subject)
    best = _best(subject, lane, None)
    rows = None
    if lane == subject.layout.dtype and not best.exact and not subject.fast:
        rows, best = _try_rows(subject, best)
    return _adopt(subject, best, rows)


def _without_low_bits(subject: Subject) -> Dtype:
    """The dtype of the coded lane values: without low bits that are 0 in all of them (section 37)."""
    dtype = subject.layout.dtype
    if not dtype.is_float or dtype.bits < 16:
        return dtype
    seen = int(np.bitwise_or.reduce(lanes(dtype, subject.data)))
    zeros = (seen & -seen).bit_length() - 1 if seen else dtype.bits
    return narrowed(dtype, min(zeros, dtype.mantissa - KEPT_MANTISSA)) or dtype


def _try_rows(subject: Subject, best: _Candidate) -> tuple[ExactRows | None, _Candidate]:
    """Leave rows out that a program predicts exactly, where that is estimated smaller (section 34)."""
    found = find_decay(subject.layout, subject.data, subject.ref)
    if found is None:
        return None, best
    if found.exact.all():
        only = subject._replace(proposals=(Proposal(found.program, (subject.own,), True),))
        return None, _best(only, subject.layout.dtype, None)
    rest = _best(subject, subject.layout.dtype, found)
    flags = BIT * found.exact.size
    return (found, rest) if rest.cost + flags < best.cost else (None, best)


def _best(subject: Subject, lane: Dtype, rows: ExactRows | None) -> _Candidate:
    """The candidate with the smallest estimate, the first on ties (section 32)."""
    dtype = subject.layout.dtype
    pick = _Picker(subject.layout, rows)
    x = pick.lanes(subject.layout, subject.data)
    r = None if subject.ref is None else pick.lanes(subject.layout, subject.ref)
    plain = lane == dtype
    found: list[_Candidate] = []
    for proposal in subject.proposals if plain and rows is None else ():
        slots = [pick.lanes(needed.layout, needed.data) for needed in proposal.needed]
        p = predict(proposal.program, dtype, slots, [needed.layout.dtype for needed in proposal.needed])
        cost, coding = with_reference(dtype, Sample(x, p, pick.m))
        coding = replace(coding, predictor=PROGRAM, program=proposal.program)
        if proposal.exact:
            return _Candidate(0, coding, proposal.needed, True)
        found.append(_Candidate(cost, coding, proposal.needed))
    if not plain:
        x = narrow(x, dtype, lane)
        r = None if r is None else narrow(r, dtype, lane)
    if r is not None:
        found.append(_Candidate(*with_reference(lane, Sample(x, r, pick.m)), ()))
    alone = _Candidate(*without_reference(lane, Sample(x, None, pick.m)), ())
    found.append(alone)
    beside = _beside(subject) if plain else None
    if beside is not None and alone.cost - alone.cost // 8 <= min(c.cost for c in found):
        found.append(_alone_beside(alone.coding, beside, x, pick))
    return min(found, key=lambda c: c.cost)


def _beside(subject: Subject) -> Needed | None:
    """The tensor whose exponents may give contexts to candidate N."""
    if subject.fast or not castable(subject.layout.dtype):
        return None
    if subject.beside is not None:
        return subject.beside
    return None if subject.ref is None else subject.own


def _alone_beside(coding: Coding, beside: Needed, x: np.ndarray, pick: _Picker) -> _Candidate:
    """Candidate NC: N in the context of another tensor."""
    dtype = beside.layout.dtype
    bits = pick.lanes(beside.layout, beside.data)
    base = exponent_base(dtype, bits)
    coding = replace(coding, context_part=BESIDE, exponent_base=base, beside=Beside(0, dtype))
    cost = estimate(coding, residual(coding.dtype, x, None), Sample(x, None, pick.m, bits))
    return _Candidate(cost, coding, (beside,))


class _Picker:
    """Picks the sample of section 21 from the coded lane values of a tensor, or of another one of its shape."""

    def __init__(self, layout: Layout, rows: ExactRows | None) -> None:
        self.coded = None if rows is None else rows.coded(0, layout.lane_values)
        self.m = layout.lane_values if rows is None else rows.coded_lanes
        self.places = sample_places(self.m)

    def lanes(self, layout: Layout, raw: np.ndarray) -> np.ndarray:
        values = lanes(layout.dtype, raw)
        return (values if self.coded is None else values[self.coded])[self.places]


def _adopt(subject: Subject, best: _Candidate, rows: ExactRows | None) -> Choice:
    """Number the tensors that are needed: of the rows' program, of the program, of the contexts, the reference."""
    needed: list[Needed] = []

    def place(x: Needed) -> int:
        identities = [y.identity for y in needed]
        if x.identity in identities:
            return identities.index(x.identity)
        needed.append(x)
        return len(needed) - 1

    coding = best.coding
    if rows is not None:
        rows = rows._replace(program=rows.program._replace(slots=(place(subject.own),)))
    if coding.program is not None:
        slots = tuple(place(best.needed[k]) for k in coding.program.slots)
        coding = replace(coding, program=coding.program._replace(slots=slots))
    if coding.beside is not None:
        beside = Beside(place(best.needed[coding.beside.slot]), coding.beside.dtype)
        coding = replace(coding, beside=beside)
    if coding.predictor == REFERENCE:
        place(subject.own)
    return Choice(coding, rows, tuple(needed))

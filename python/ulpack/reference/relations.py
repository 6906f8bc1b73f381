"""What the tensors of a file are to each other (FORMAT.md section 31)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .casts import cast_bits
from .dtypes import Layout
from .frame import lanes
from .programs import FLOAT32, Program, castable
from .replay import find_adam_v, find_adam_w, find_sgd

MIN_ELEMENTS = 64
MIN_EQUAL_NBYTES = 64
MAX_CHOICE = 64  # tensors that are considered where many have the same relation by name
MAX_SOURCES = 8
MAX_FREE = 512
MAX_MOMENTA = 4
MAX_STEPS_FOUND = 4
SAMPLE, RUNS, RUN, RUN_LANES, GATE = 1024, 64, 128, 16, 16


class Member(NamedTuple):
    """A tensor of a file that is to be saved."""

    name: str
    layout: Layout
    data: np.ndarray
    ref: np.ndarray | None


@dataclass
class Relation:
    """Other tensors, by their places in the file, that one may be coded against."""

    equal: int | None = None  # has the same value and comes before it
    source: int | None = None  # is nearly everywhere what it is rounded from
    first: int | None = None  # of a second moment, or a weight: the first moment
    second: int | None = None  # of a first moment, or a weight: the second moment
    buffer: int | None = None  # of a weight: its momentum
    replayed: bool = False  # a second moment that ``program`` gives
    weight: bool = False  # a weight that ``program`` gives from the moments
    program: Program | None = None


# --- names and samples -----------------------------------------------------------------------------------------------


def _components(name: str) -> list[str]:
    return [part for part in re.split(r"[./]", name) if part]


def _alike(a: str, b: str) -> int:
    """The bytes that two names have in common at the beginning and, in what is left, at the end."""
    x, y = a.encode(), b.encode()
    n = min(len(x), len(y))
    lead = next((k for k in range(n) if x[k] != y[k]), n)
    return lead + next((k for k in range(n - lead) if x[-1 - k] != y[-1 - k]), n - lead)


def _same_end(a: str, b: str) -> int:
    """The last components that two names have in common."""
    x, y = _components(a)[::-1], _components(b)[::-1]
    n = min(len(x), len(y))
    return next((k for k in range(n) if x[k] != y[k]), n)


def _holes(name: str) -> Iterator[tuple[str | None, ...]]:
    """The name with each of its components left out."""
    parts = _components(name)
    for k in range(len(parts)):
        yield (*parts[:k], None, *parts[k + 1 :])


def _ends(name: str) -> Iterator[tuple[str | None, ...]]:
    """The ends of a name, the longest first."""
    parts = _components(name)
    for k in range(len(parts)):
        yield tuple(parts[k:])


class _Index:
    """Tensors by parts of their names."""

    def __init__(self, keys: Callable[[str], Iterator[tuple[str | None, ...]]]) -> None:
        self.keys = keys
        self.lists: defaultdict[tuple[str | None, ...], list[int]] = defaultdict(list)

    def add(self, name: str, i: int) -> None:
        for key in self.keys(name):
            if len(self.lists[key]) < MAX_CHOICE:
                self.lists[key].append(i)

    def each(self, name: str) -> Iterator[list[int]]:
        for key in self.keys(name):
            yield self.lists.get(key, [])


def _places(n: int) -> np.ndarray:
    """The sample of the searches: 16 lane values of each run of section 21, or all of at most 1024."""
    if n <= SAMPLE:
        return np.arange(n)
    starts = np.array([b * (n - RUN) // (RUNS - 1) for b in range(RUNS)])
    return (starts[:, None] + np.arange(RUN_LANES)).reshape(-1)


def _is_float(t: Member) -> bool:
    return castable(t.layout.dtype) and t.layout.elements >= MIN_ELEMENTS


def _is_float32(t: Member) -> bool:
    return t.layout.dtype == FLOAT32 and _is_float(t) and t.ref is not None


def _sample(t: Member, raw: np.ndarray | None) -> np.ndarray:
    assert raw is not None
    return lanes(t.layout.dtype, raw)[_places(t.layout.elements)]


def _floats(t: Member, raw: np.ndarray | None) -> np.ndarray:
    return _sample(t, raw).view(np.float32)


def _has_signs(t: Member, raw: np.ndarray) -> bool:
    return bool((_sample(t, raw) >> (t.layout.dtype.bits - 1)).any())


# --- the search ------------------------------------------------------------------------------------------------------


class _Signs(NamedTuple):
    """The signs of a tensor and of its change since the reference, at 64 places."""

    below: np.ndarray
    above: np.ndarray
    falls: np.ndarray
    changed: np.ndarray

    def against(self, momentum: _Signs) -> int:
        """2, 1 or 0: whether the tensor surely, perhaps or not moves against the signs of a momentum."""
        places = self.changed & (momentum.above | momentum.below)
        n = int(np.count_nonzero(places))
        moved = int(np.count_nonzero((self.falls ^ momentum.below) & places))
        if n < 16:
            return 1
        return 2 if 4 * moved >= 3 * n else int(8 * moved >= 5 * n)


class _Finder:
    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self.relations = [Relation() for _ in members]
        self.pairs: list[tuple[int, int]] = []  # first and second moments
        self.signs: dict[int, _Signs] = {}
        self.taken: set[int] = set()
        self.free: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)

    def closer(self, i: int, a: int, b: int | None) -> bool:
        """Whether a is closer to tensor i than b: by name, then by place, then the earlier one."""
        return b is None or self._closeness(i, a) < self._closeness(i, b)

    def _closeness(self, i: int, k: int) -> tuple[int, int, int]:
        return -_alike(self.members[i].name, self.members[k].name), abs(k - i), k

    def find_equal(self) -> None:
        first: dict[tuple[object, ...], int] = {}
        for i, t in enumerate(self.members):
            size = t.layout.nbytes
            if size < MIN_EQUAL_NBYTES:
                continue
            looks = [t.data[k * (size - 8) // 15 :][:8].tobytes() for k in range(16)]
            other = first.setdefault((t.layout.dtype, t.layout.shape, *looks), i)
            if other != i and np.array_equal(t.data, self.members[other].data) and not _needs_nothing(t):
                self.relations[i].equal = other

    def find_sources(self) -> None:
        groups: dict[tuple[int, ...], dict[int, list[int]]] = {}
        for i, t in enumerate(self.members):
            if _is_float(t):
                by_width = groups.setdefault(t.layout.shape, {16: [], 32: [], 64: []})
                by_width[t.layout.dtype.bits].append(i)
        taken: set[int] = set()
        for by_width in groups.values():
            for narrow, wide in ((16, 32), (16, 64), (32, 64)):
                self._match_sources(by_width[narrow], by_width[wide], taken)

    def _match_sources(self, narrow: list[int], wide: list[int], taken: set[int]) -> None:
        index = _Index(_ends)
        for k in wide:
            index.add(self.members[k].name, k)
        for i in narrow:
            relation = self.relations[i]
            if relation.source is not None or relation.equal is not None:
                continue
            named = ([k for k in some if k not in taken] for some in index.each(self.members[i].name))
            best = next((min(free, key=lambda k: self._closeness(i, k)) for free in named if free), None)
            if best is None or not self._is_rounding(i, best):
                others = [k for k in wide if k not in taken][:MAX_SOURCES]
                best = next((k for k in others if self._is_rounding(i, k)), None)
            if best is not None:
                relation.source = best
                taken.add(best)

    def _is_rounding(self, i: int, k: int) -> bool:
        t, source = self.members[i], self.members[k]
        cast = cast_bits(_sample(source, source.data), t.layout.dtype, source.layout.dtype)
        same = cast == _sample(t, t.data)
        return all(8 * int(np.count_nonzero(part)) >= 7 * part.size for part in (same[:GATE], same))

    def find_pairs(self) -> None:
        seconds = {i for i, t in enumerate(self.members) if _is_second_moment(t)}
        keys = {_moment_key(self.members[i]) for i in seconds}
        by_key: dict[tuple[object, ...], _Index] = {key: _Index(_holes) for key in keys}
        for i, t in enumerate(self.members):
            if i not in seconds and _is_float(t) and _moment_key(t) in by_key and _has_signs(t, t.data):
                by_key[_moment_key(t)].add(t.name, i)
        for v in sorted(seconds):
            t = self.members[v]
            some = [m for found in by_key[_moment_key(t)].each(t.name) for m in found]
            some = [m for m in some if self.relations[m].second is None]
            if some:
                m = min(some, key=lambda k: self._closeness(v, k))
                self.relations[v].first, self.relations[m].second = m, v
                self.pairs.append((m, v))

    def find_steps(self) -> list[int]:
        """What numbers of steps the file's single values may be."""
        steps: list[int] = []
        for t in self.members:
            if t.layout.elements != 1 or t.layout.dtype.name not in ("float32", "float64", "int64", "int32"):
                continue
            value = float(t.data.view(f"<{'f' if t.layout.dtype.is_float else 'i'}{t.layout.nbytes}")[0])
            if 1 <= value <= 1 << 24 and value.is_integer() and int(value) not in steps:
                steps.append(int(value))
        return steps[:MAX_STEPS_FOUND]

    def replay(self) -> None:
        for first, second in self.pairs:
            m, v = self.members[first], self.members[second]
            if _is_float32(m) and _is_float32(v):
                samples = (_floats(v, v.ref), _floats(v, v.data), _floats(m, m.ref), _floats(m, m.data))
                program = find_adam_v(*samples)
                self.relations[second].program, self.relations[second].replayed = program, program is not None

    def _is_replayed(self, i: int) -> bool:
        relation = self.relations[i]
        return relation.replayed or (relation.second is not None and self.relations[relation.second].replayed)

    def find_weights(self, steps: Sequence[int]) -> None:
        every: list[int] = []
        for i, t in enumerate(self.members):
            if not _is_float32(t) or self._is_replayed(i) or self.relations[i].equal is not None:
                continue
            if t.ref is None or np.array_equal(t.data, t.ref) or len(self.free[t.layout.shape]) == MAX_FREE:
                continue
            self.free[t.layout.shape].append(i)
            every.append(i)
        for first, second in self.pairs:
            if self.relations[second].replayed:
                weight = self._moved(first, second)
                if weight is not None:
                    self.taken.add(weight)
                    self._step_of_adam(weight, first, second, steps)
        for i in every:
            if i not in self.taken:
                self._step_of_sgd(i)

    def _sign(self, i: int) -> _Signs:
        if i not in self.signs:
            t = self.members[i]
            assert t.ref is not None
            places = np.arange(64) * (t.layout.elements - 1) // 63
            x, r = (lanes(FLOAT32, raw)[places].view(np.float32) for raw in (t.data, t.ref))
            self.signs[i] = _Signs(x < 0, x > 0, x < r, x != r)
        return self.signs[i]

    def _moved(self, first: int, second: int) -> int | None:
        """The weight that a first moment moved."""
        momentum, name = self._sign(first), self.members[second].name
        some = [i for i in self.free[self.members[second].layout.shape] if i not in self.taken]
        verdicts = {i: self._sign(i).against(momentum) for i in some}
        some = [i for i in some if verdicts[i]]
        ends = {i: _same_end(name, self.members[i].name) for i in some}
        longest = max(ends.values(), default=0)
        if longest:
            return min((i for i in some if ends[i] == longest), key=lambda i: self._closeness(second, i))
        sure = [i for i in some if verdicts[i] == 2]
        if sure:
            return sure[0]
        return some[0] if len(some) == 1 else None

    def _step_of_adam(self, weight: int, first: int, second: int, steps: Sequence[int]) -> None:
        x, m, v = (self.members[i] for i in (weight, first, second))
        program = self.relations[second].program
        assert program is not None
        samples = (_floats(x, x.ref), _floats(x, x.data), _floats(m, m.data), _floats(v, v.data))
        found = find_adam_w(*samples, program.constants[0], steps)
        if found is not None:
            relation = self.relations[weight]
            relation.first, relation.second, relation.weight, relation.program = first, second, True, found

    def _step_of_sgd(self, i: int) -> None:
        x, signs = self.members[i], self._sign(i)
        momenta = [b for b in self.free[x.layout.shape] if b != i and signs.against(self._sign(b)) == 2]
        momenta.sort(key=lambda b: (-_same_end(x.name, self.members[b].name), self._closeness(i, b)))
        for b in momenta[:MAX_MOMENTA]:
            found = find_sgd(_floats(x, x.ref), _floats(x, x.data), _floats(self.members[b], self.members[b].data))
            if found is not None:
                self.relations[i].buffer, self.relations[i].program = b, found
                return


def _needs_nothing(t: Member) -> bool:
    """Whether a tensor is constant or equal to its reference."""
    size = t.layout.dtype.itemsize
    return np.array_equal(t.data[size:], t.data[:-size]) or (t.ref is not None and np.array_equal(t.data, t.ref))


def _moment_key(t: Member) -> tuple[object, ...]:
    return t.layout.dtype.name, t.layout.shape


def _is_second_moment(t: Member) -> bool:
    """Whether no sample value has a sign bit, in the value or its reference, and not all are 0."""
    if not _is_float(t) or t.ref is None or _has_signs(t, t.data) or _has_signs(t, t.ref):
        return False
    return bool(_sample(t, t.data).any() and _sample(t, t.ref).any())


def find_relations(members: Sequence[Member]) -> list[Relation]:
    """The relations of each tensor."""
    finder = _Finder(members)
    finder.find_equal()
    finder.find_sources()
    finder.find_pairs()
    steps = finder.find_steps()
    finder.replay()
    finder.find_weights(steps)
    return finder.relations

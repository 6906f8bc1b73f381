"""What the public functions of a trajectory return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import UlpackError
from .layout import step_of
from .manifest import Manifest


@dataclass(frozen=True, slots=True)
class StepInfo:
    """A step of a trajectory.

    Attributes:
        step: its number.
        id: identity of the stored state, "<step>.<hash of its values>"; ``load`` takes it, too.
        saved: when, UTC.
        parent: step it goes on from, or None.
        line: stretch of training; going on from a step that is not the last one begins a new line.
        tags, metrics: as given to ``save``.
        kind: "state", or "file" / "folder" if it is an image of checkpoint files.
        tensors: number of tensors.
        raw_nbytes: bytes of their values (of tensors with equal values once).
        nbytes: bytes that are new in the store because of this step.
        base: step its new values are stored against, or None: an anchor.
        uses: other steps in whose delta files some of its values lie, because they have not changed since.
        load_nbytes, load_files: bytes that loading it reads at most, and delta files its deepest value goes through.
    """

    step: int
    id: str
    saved: str
    parent: int | None
    line: int
    tags: tuple[str, ...]
    metrics: Mapping[str, float]
    kind: str
    tensors: int
    raw_nbytes: int
    nbytes: int
    base: int | None
    uses: tuple[int, ...]
    load_nbytes: int
    load_files: int

    @property
    def load_cost(self) -> float:
        """Bytes that loading it reads, as a multiple of the bytes of its values."""
        return self.load_nbytes / self.raw_nbytes if self.raw_nbytes else 0.0


def step_info(manifest: Manifest) -> StepInfo:
    """The public record of a manifest."""
    return StepInfo(
        step=manifest.step,
        id=manifest.id,
        saved=manifest.saved,
        parent=None if manifest.parent is None else step_of(manifest.parent),
        line=manifest.line,
        tags=manifest.tags,
        metrics=manifest.metrics,
        kind=manifest.kind,
        tensors=manifest.tensors,
        raw_nbytes=manifest.raw_nbytes,
        nbytes=manifest.data.nbytes if manifest.data is not None else 0,
        base=None if manifest.base is None else step_of(manifest.base),
        uses=tuple(sorted({step_of(identity) for identity in manifest.kept})),
        load_nbytes=manifest.chain[0],
        load_files=manifest.chain[1],
    )


@dataclass(frozen=True, slots=True)
class Why:
    """What a step needs and what needs it.

    Attributes:
        step: its number.
        needs: steps that must be there for it to load.
        needed_by: steps that do not load without its values, directly or through others.
        kept_as: names by which it is found: "latest", its tags.
        hidden: whether it was pruned and is only there because others need values of it.
    """

    step: int
    needs: tuple[int, ...]
    needed_by: tuple[int, ...]
    kept_as: tuple[str, ...]
    hidden: bool


@dataclass(frozen=True, slots=True)
class PruneInfo:
    """What a prune did, or would do.

    Attributes:
        kept: steps that stay, each with the reasons.
        removed: steps that are gone.
        rebased: steps that were stored again because what they were stored against is gone.
        nbytes_before, nbytes_after: bytes of the delta files. After a dry run the latter is the former.
    """

    kept: Mapping[int, tuple[str, ...]]
    removed: tuple[int, ...]
    rebased: tuple[int, ...]
    nbytes_before: int
    nbytes_after: int


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What a verification found.

    Attributes:
        path: the store.
        good: steps of which every value is there and right.
        bad: for each other step the errors by tensor; an error that concerns the whole step is under "".
        leftovers: files in the store that belong to no step: what a killed process left, or strangers. They do no harm.
        decoded: whether values were decoded, or only files compared with their checksums.
    """

    path: str
    good: tuple[int, ...]
    bad: Mapping[int, Mapping[str, UlpackError]] = field(repr=False)
    leftovers: tuple[str, ...]
    decoded: bool

    @property
    def ok(self) -> bool:
        """Whether every step is good."""
        return not self.bad

    def check(self) -> None:
        """Raise the first error."""
        for errors in self.bad.values():
            for error in errors.values():
                raise error

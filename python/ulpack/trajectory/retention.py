"""Which steps are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..errors import ArgumentError, MissingFileError
from .catalog import Catalog
from .layout import Name
from .settings import Settings

Best: TypeAlias = "str | Sequence[str] | Mapping[str, int] | None"


class Retention(NamedTuple):
    """Which steps stay; the latest always does. See ``Trajectory.prune``."""

    keep_last: int | None = None
    keep_every: int | None = None
    keep_best: Best = None
    keep_tagged: bool = True

    def check(self) -> None:
        """Raise ArgumentError if there is no rule, or one that makes no sense."""
        best = _best(self.keep_best)
        for rule, value in (("keep_last", self.keep_last), ("keep_every", self.keep_every), *best.items()):
            if value is not None and (type(value) is not int or value < 1):
                raise ArgumentError(f"{rule} is {value!r}, not a number of at least 1")
        if self.keep_last is None and self.keep_every is None and not best:
            raise ArgumentError("say what is to be kept: keep_last, keep_every or keep_best")


def kept(catalog: Catalog, settings: Settings, rules: Retention) -> dict[str, list[str]]:
    """Identities of the states that the rules keep, each with the reasons."""
    keep_last, keep_every, keep_best, keep_tagged = rules
    best = _best(keep_best)
    reasons: dict[str, list[str]] = {}

    def keep(identity: str, reason: str) -> None:
        reasons.setdefault(identity, []).append(reason)

    latest = catalog.latest()
    if latest is not None:
        keep(latest.id, "latest")
    for name in _last(catalog, keep_last or 0):
        keep(name.id, f"one of the last {keep_last}")
    for name in catalog.visible():
        if keep_every is not None and name.step % keep_every == 0:
            keep(name.id, f"every {keep_every}")
    for metric, count in best.items():
        try:
            for manifest in catalog.best(metric, count, settings):
                keep(manifest.id, f"best {metric}")
        except MissingFileError:
            continue  # no step has a value yet
    if keep_tagged:
        for manifest in catalog.manifests(name.id for name in catalog.visible())[0]:
            if manifest.tags:
                keep(manifest.id, f"tagged {', '.join(manifest.tags)}")
    return reasons


def _last(catalog: Catalog, count: int) -> list[Name]:
    """The last steps: of the newest line first, then those of the lines before. All states of a step count as one."""
    ordered = sorted(catalog.visible(), key=lambda name: (name.line, name.step), reverse=True)
    steps: dict[tuple[int, int], list[Name]] = {}
    for name in ordered:
        steps.setdefault((name.line, name.step), []).append(name)
    return [name for group in list(steps.values())[:count] for name in group]


def _best(rule: Best) -> dict[str, int]:
    if rule is None:
        return {}
    if isinstance(rule, str):
        return {rule: 1}
    if isinstance(rule, Mapping):
        return dict(rule)
    return dict.fromkeys(rule, 1)

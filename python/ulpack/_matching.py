"""Which tensor of a reference belongs to which tensor of a state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

WRAPPERS = frozenset(("_orig_mod", "module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))
"""Path segments that torch.compile, DataParallel, FSDP and activation checkpointing put into names."""


def unwrapped(name: str) -> str:
    """A name without the segments that wrappers put into it."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


class NameIndex:
    """Looks names up exactly first, then without wrappers."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)
        self._unwrapped: dict[str, list[str]] | None = None

    def candidates(self, name: str) -> Iterator[str]:
        """The names that may mean the same tensor, the best first."""
        if name in self._names:
            yield name
        if self._unwrapped is None:
            self._unwrapped = {}
            for known in self._names:
                self._unwrapped.setdefault(unwrapped(known), []).append(known)
        yield from (known for known in self._unwrapped.get(unwrapped(name), ()) if known != name)

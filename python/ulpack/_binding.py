"""Which reference tensor serves which tensor of a file: by name, and where that is not certain by fingerprint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._backend import Backend, Items, Table
from ._buffers import View
from ._index import Index
from ._sources import Match, References
from .errors import UlpackError, WrongReferenceError


class Binding:
    """References bound to the tensors of a file.

    Attributes:
        views: the memory of the references that are needed and there, by the tensor they belong to.
        problems: the error for each tensor that cannot be decoded, since a reference that it needs is missing.
        different: those of them for which there is a tensor of the name and form, but with other values.
    """

    def __init__(self) -> None:
        self.views: dict[int, View] = {}
        self.problems: dict[int, UlpackError] = {}
        self.different: set[int] = set()

    def lend(self, items: Items, index: Index) -> None:
        """Add the references that these items need of tensors that are not among them."""
        there = set(items.tensors)
        for number in index.needed(there):
            if number not in there and number in self.views:
                items.add(number, 0, self.views[number], 0, count=0)

    def check(self) -> None:
        """Raise the first problem."""
        for error in self.problems.values():
            more = len(self.problems) - 1
            if more:
                error.message += f"; {more} more {'tensor lacks its own' if more == 1 else 'tensors lack theirs'}"
            raise error


def bind(backend: Backend, index: Index, references: References, wanted: Iterable[int]) -> Binding:
    """Find the references that the wanted tensors need.

    One tensor that fits by name is taken, and left to the decoder to check. Among several, and where none has the name,
    the fingerprint decides.
    """
    wanted = list(wanted)
    binding = _bind(backend, index, references, index.needed(wanted))
    if binding.problems and references.complete():
        again = _bind(backend, index, references, list(binding.problems))
        binding.views.update(again.views)
        binding.problems = again.problems
        binding.different = again.different
    missing, different = binding.problems, binding.different
    binding.problems, binding.different = {}, set()
    for number in wanted if missing else ():
        lacks = [k for k in index.needs[number] if k in missing]
        if lacks:
            binding.problems[number] = missing[number if number in lacks else lacks[0]]
        if different.intersection(lacks):
            binding.different.add(number)
    return binding


def _bind(backend: Backend, index: Index, references: References, numbers: Iterable[int]) -> Binding:
    """The references of these tensors; the problems are those of the tensors that the references belong to."""
    binding = Binding()
    fingerprints: dict[Match, int] = {}
    for number in numbers:
        needed = index.references[number]
        if needed is None:
            continue
        name, fingerprint = needed
        form = index.dtypes[number], index.shapes[number]
        named = references.named(name, *form)
        if len(named) == 1:
            binding.views[number] = named[0].source.view(named[0].name)
            continue
        for match in [*named, *(m for m in references.of_form(*form) if m not in named)]:
            view = match.source.view(match.name)
            if match not in fingerprints:
                table = Table()
                table.add(match.name, view)
                fingerprints[match] = backend.fingerprints(table)[0]
            if fingerprints[match] == fingerprint:
                binding.views[number] = view
                break
        else:
            if named:
                binding.different.add(number)
            binding.problems[number] = _problem(index, number, name, references, bool(named))
    return binding


def _problem(index: Index, number: int, name: str, references: References, named: bool) -> UlpackError:
    if not references.sources:
        message = f"needs the reference tensor {name!r}, and no reference was given{index.hint()}"
    elif named:
        message = f"none of the references has the {name!r} that the file was made against{index.hint()}"
    else:
        message = f"needs the reference tensor {name!r}, which the reference does not have{index.hint()}"
    return WrongReferenceError(message, tensor=index.names[number], path=index.path)


__all__: list[Any] = ["Binding", "bind"]
